"""ONNX Runtime's Attention of the ONNX operator set on the CPU: 23 and 24 are kernels, 25 is the function's body."""
import onnxruntime

from onnx_model import attention, attention_feeds
from ort_session import ENGINES, launch, session

PACKAGE = "onnxruntime onnx"


class Attention:
    version, promises, contract = onnxruntime.__version__, (), {}

    def __init__(self, opset, numeric, doc):
        self.name, self.opset, self.numeric, self.doc = f"ort.attention{opset}", opset, numeric, doc
        self.packages = {"onnxruntime": onnxruntime.__version__}

    def claim(self, case):
        session(attention(case, self.opset)[0].model())
        return ENGINES

    def forward(self, problem, engine):
        node, past = attention(problem.case, self.opset)
        launch(node, attention_feeds(problem, past), problem, problem.case["layout"] == "bshd", engine)


def backends():
    """f16 runs in f16, scores stored, where there is a kernel; the body of the function runs in f32 throughout."""
    stored, f32 = {"p": "stored", "scores_stored": True}, {"p": "f32", "inputs_scaled": True}
    return [Attention(23, stored, "ONNX Runtime, ai.onnx Attention of opset 23"),
            Attention(24, stored, "ONNX Runtime, ai.onnx Attention of opset 24"),
            Attention(25, f32, "ONNX Runtime, ai.onnx Attention of opset 25 (function body)")]
