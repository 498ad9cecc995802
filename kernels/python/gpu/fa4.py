"""FlashAttention 4 (CuTe DSL, compiled at run time): flash_attn.cute."""
import pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import torch
from flash_attn.cute.interface import _validate_head_dims, flash_attn_func, flash_attn_varlen_func

from device import arch, contained, get, get_rows, gradients, layouts, packages, put_rows
from problem import Unsupported, need
from windows import window

PACKAGE = "flash-attn-4"


class FlashAttention4:
    name, doc, arch = "fa4", "FlashAttention 4, flash_attn.cute", arch()
    promises, numeric = ("backward", "stats", "determinism_on_request"), {"p": "stored"}
    contract = {"dead_lse": "minus_inf"}

    def __init__(self):
        self.packages = packages("flash-attn-4", "nvidia-cutlass-dsl", "quack-kernels", "apache-tvm-ffi")
        self.version = self.packages["flash-attn-4"]

    def claim(self, case):
        layouts(case, dtype=("f16", "bf16"), softcap=None, splits=None, det=None, bias=("none",))
        need(set(case["grads"]) == set("qkv"), "grads", "grads: the backward makes all three")
        window(case, None)
        try:
            _validate_head_dims(case["dqk"], case["dv"], torch.cuda.get_device_capability()[0], 8)
        except AssertionError as no:
            raise Unsupported("dqk", f"dqk={case['dqk']}:dv={case['dv']}: {no}"[:400])
        return ["eager"]

    def forward(self, problem, engine):
        case = problem.case
        causal, sides = window(case, None)
        with contained():
            inputs = {name: put_rows(problem, name) for name in "qkv"}
            for x in inputs.values():
                x.requires_grad_(case["pass"] == "train")
            given = {"softmax_scale": problem.scale, "causal": causal, "window_size": sides,
                     "softcap": float(case["softcap"]), "num_splits": max(1, int(case["splits"])),
                     "deterministic": bool(case["det"]), "return_lse": True}
            call = flash_attn_func
            if case.has_lengths:
                call = flash_attn_varlen_func
                given["seqused_q"] = torch.as_tensor(problem.len_q, dtype=torch.int32, device="cuda")
                given["seqused_k"] = torch.as_tensor(problem.len_kv, dtype=torch.int32, device="cuda")
            out, lse = call(*inputs.values(), **given)[:2]
            self.kept = out, inputs
            get_rows(problem, "o", out)
            if problem.tensor("lse") is not None:
                get(problem, "lse", lse.unsqueeze(-1))

    def backward(self, problem, engine):
        out, inputs = self.kept
        with contained():
            for name, x in gradients(problem, (out, put_rows(problem, "do")), inputs).items():
                get_rows(problem, "d" + name, x)


def backends():
    return [FlashAttention4()]
