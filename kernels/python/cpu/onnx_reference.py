"""ONNX's own reference evaluator (NumPy), Attention of opset 25: a second opinion, itself worth judging."""
import warnings

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from onnx_model import attention, attention_feeds
from problem import need

PACKAGE = "onnx"
OPSET = 25


class Reference:
    name, version, promises, contract = "onnx.reference", onnx.__version__, (), {}
    numeric = {"p": "stored", "scores_stored": True, "inputs_scaled": True}
    doc = "onnx.reference, ai.onnx Attention of opset 25"
    packages = {"onnx": onnx.__version__, "numpy": np.__version__}

    def claim(self, case):
        need(case["dtype"] != "bf16", "dtype", "dtype=bf16: NumPy has no such type")
        attention(case, OPSET)
        return ["numpy"]

    def forward(self, problem, engine):
        node, past = attention(problem.case, OPSET)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = ReferenceEvaluator(onnx.load_from_string(node.model())).run(["o"],
                                                                               attention_feeds(problem, past))[0]
        b, h, s, d = problem.tensor("o").shape
        problem.store("o", out if out.ndim == 4 else out.reshape(b, s, h, d).transpose(0, 2, 1, 3), problem.len_q)


def backends():
    return [Reference()]
