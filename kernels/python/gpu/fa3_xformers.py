"""FlashAttention 3 as xformers carries it, called below Python: torch.ops.flash_attn_3.fwd and bwd."""
import pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import torch

import fa3_ops
from device import arch, contained, get, get_rows, layouts, packages, put_rows
from problem import need
from windows import window

PACKAGE = "xformers==0.0.34 nvidia-cuda-runtime-cu12"
OPS, VERSION = fa3_ops.load()


class FlashAttention3:
    name, version, doc, arch = "fa3", VERSION, "FlashAttention 3 (xformers' build), torch.ops.flash_attn_3", arch()
    promises, numeric = ("backward", "stats", "determinism_on_request"), {"p": "stored"}
    contract, packages = {"dead_lse": "minus_inf"}, packages("xformers")

    def claim(self, case):
        layouts(case, dtype=("f16", "bf16"), softcap=None, splits=None, det=None, bias=("none",))
        need(set(case["grads"]) == set("qkv"), "grads", "grads: the backward makes all three")
        window(case, -1)
        d, dv = case["dqk"], case["dv"]
        need(d % 8 == 0 and dv % 8 == 0 and d <= 256, "dqk", "head dims are multiples of 8, dqk up to 256")
        need(dv == d or d <= 64 and dv <= 512 or 128 < d <= 192 and 96 < dv <= 128, "dv",
             "dv is dqk, or up to 512 with dqk up to 64, or (96,128] with dqk (128,192]")
        return ["ops"]

    def words(self, problem):
        case = problem.case
        causal, (left, right) = window(case, -1)
        given = {"softmax_scale": problem.scale, "is_causal": causal, "window_size_left": left,
                 "window_size_right": right, "softcap": float(case["softcap"])}
        if case.has_lengths:
            given["seqused_q"] = torch.as_tensor(problem.len_q, dtype=torch.int32, device="cuda")
            given["seqused_k"] = torch.as_tensor(problem.len_kv, dtype=torch.int32, device="cuda")
        return given

    def forward(self, problem, engine):
        with contained():
            self.inputs = [put_rows(problem, name) for name in "qkv"]
            out = put_rows(problem, "o")
            self.out, self.lse = OPS.fwd(*self.inputs, out=out, num_splits=int(problem.case["splits"]),
                                         **self.words(problem))[:2]
            get_rows(problem, "o", self.out)
            if problem.tensor("lse") is not None:
                get(problem, "lse", self.lse.unsqueeze(-1))

    def backward(self, problem, engine):
        with contained():
            into = {name: put_rows(problem, name) for name in ("dq", "dk", "dv")}
            OPS.bwd(put_rows(problem, "do"), *self.inputs, self.out, self.lse, **into,
                    deterministic=bool(problem.case["det"]), **self.words(problem))
            for name, x in into.items():
                get_rows(problem, name, x)


def backends():
    return [FlashAttention3()]
