"""torch.nn.functional.scaled_dot_product_attention on the CPU, its flash and math kernels forced one by one."""
import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from problem import limit, need

PACKAGE = "torch"
torch.set_num_threads(1)
LAYOUTS = ("bshd", "sbhd", "bhsd")
STRIDES = ("packed", "row_gap", "head_gap", "offset", "expand_kv", "dout_other")
PACKS = ("none", "qkv3h", "qkvh3", "kv2h", "kvh2")


def tensor(x):
    """The NumPy view as a tensor over the same memory, strides kept."""
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def store(view, x):
    target = tensor(view)
    target.copy_(x)


def keywords(case):
    """What says the mask beside attn_mask; Unsupported where there are no words."""
    limit(case, layout=LAYOUTS, stride=STRIDES, pack=PACKS)
    need(not case.has_lengths, "lens", "lengths are not passed; nested tensors are another path")
    need(case["bias"] == "none" or case["amask"] == "none", "bias", "bias and amask: attn_mask is one input")
    need(not case.has_diagonal or (case["mask"] == "causal" and case["wl"] < 0), "window", "there are no windows")
    causal = case["mask"] == "causal"
    need(not causal or (case["bias"] == "none" and case["amask"] == "none"), "mask",
         "mask=causal: is_causal stands alone, without attn_mask")
    need(not causal or not list(case.extents())[2].any(), "align", f"align={case['align']}: the diagonal starts top left")
    given = {"is_causal": causal, "enable_gqa": case["hq"] != case["hkv"]}
    if case["scale"] != "auto":
        given["scale"] = float(case["scale"])
    return given


class Kernel:
    version, packages, promises = torch.__version__, {"torch": torch.__version__}, ("backward",)
    contract = {}

    def __init__(self, name, backend, numeric):
        self.name, self.backend, self.numeric = f"torch.cpu.{name}", backend, numeric
        self.doc = f"PyTorch scaled_dot_product_attention, {name} kernel on the CPU"
        self.kept = None

    def claim(self, case):
        """Asks the dispatch itself, with empty tensors of the case's shapes, which kernel it would take."""
        given = keywords(case)
        need(set(case["grads"]) <= set("qkv"), "grads", "grads: q, k and v only")
        kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[case["dtype"]]
        q, k, v = (torch.empty(case["b"], case[h], case[s], case[d], dtype=kind, requires_grad=case["pass"] == "train")
                   for h, s, d in (("hq", "sq", "dqk"), ("hkv", "skv", "dqk"), ("hkv", "skv", "dv")))
        mask = None
        if case["amask"] != "none" or case["bias"] != "none":
            mask = torch.empty(1, 1, case["sq"], case["skv"],
                               dtype=torch.bool if case["amask"].startswith("bool") else kind)
        with sdpa_kernel([self.backend]):
            try:
                taken = torch._fused_sdp_choice(q, k, v, attn_mask=mask, **given)
            except RuntimeError as error:
                need(False, "dispatch", " ".join(str(error).split())[:300])
        need(taken == self.backend.value, "dispatch", f"the dispatch takes {SDPBackend(taken).name} for it")
        return ["cpu"]

    def forward(self, problem, engine):
        given = keywords(problem.case)
        q, k, v = (tensor(problem.tensor(name)) for name in "qkv")
        wanted = problem.case["grads"] if problem.case["pass"] == "train" else ""
        inputs = [x.detach().requires_grad_(name in wanted) for name, x in zip("qkv", (q, k, v))]
        mask = problem.mask()
        mask = None if mask is None else tensor(mask)
        with sdpa_kernel([self.backend]):
            out = torch.nn.functional.scaled_dot_product_attention(*inputs, attn_mask=mask, **given)
        self.kept = (out, inputs)
        store(problem.tensor("o"), out.detach())

    def backward(self, problem, engine):
        (out, inputs), self.kept = self.kept, None
        names = [name for name, x in zip(("dq", "dk", "dv"), inputs) if x.requires_grad]
        found = torch.autograd.grad(out, [x for x in inputs if x.requires_grad], tensor(problem.tensor("do")))
        for name, x in zip(names, found):
            store(problem.tensor(name), x)


def backends():
    return [Kernel("flash", SDPBackend.FLASH_ATTENTION, {"p": "stored", "head_rounded": True}),
            Kernel("math", SDPBackend.MATH, {"p": "stored", "scores_stored": True, "d_from_p": True, "head_rounded": True,
                                             "inputs_scaled": True})]
