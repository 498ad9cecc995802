"""torch.nn.functional.scaled_dot_product_attention, each kernel forced in turn, on a GPU or the CPU."""
import pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from device import DEVICE, arch, contained, get, gradients, layouts, packages, put
from problem import Unsupported, need

PACKAGE = "torch"


def words(case):
    """Keyword arguments that say the case's mask, without the mask tensor; Unsupported where there are none."""
    layouts(case, dtype=("f32", "f16", "bf16"))
    need(case["pass"] != "stats", "pass", "pass=stats: the log-sum-exp is not handed out")
    need(case["mask"] == "none" or case["mask"] == "causal" and case["wl"] < 0, "mask", "mask: there is no window")
    need(not case.has_lengths, "lens", "lens: there are no lengths")
    causal = case["mask"] == "causal"
    need(not causal or not list(case.extents())[2].any(), "align", f"align={case['align']}: causal starts top left")
    dense = case["amask"] != "none" or case["bias"] != "none"
    need(not (causal and dense), "amask", "a causal flag excludes a dense mask")
    need(case["amask"] == "none" or case["bias"] == "none", "bias", "bias and a mask: there is one attn_mask")
    need("s" not in case["grads"], "grads", "grads: there is no sink")
    return {"is_causal": causal, "enable_gqa": case["hq"] != case["hkv"]}


def tensors(problem):
    """q k v and the mask with what requires a gradient marked."""
    found = {name: put(problem, name) for name in "qkv"}
    mask = put(problem, "bias" if problem.case["bias"] != "none" else "amask")
    if mask is not None and problem.case["amask"].startswith("bool"):
        mask = mask.bool()
    if problem.case["pass"] == "train":
        for name, letter in (("q", "q"), ("k", "k"), ("v", "v")):
            found[name].requires_grad_(letter in problem.case["grads"])
        if problem.tensor("dbias") is not None:
            mask.requires_grad_()
    return found, mask


class Kernel:
    promises, contract = ("backward",), {}

    def __init__(self, name, backend, numeric, check=None):
        self.name, self.version, self.backend, self.numeric = f"torch.{name}", torch.__version__, backend, numeric
        self.doc = f"scaled_dot_product_attention, {name}"
        self.check, self.packages, self.arch = check, packages(), arch()

    def claim(self, case):
        given = words(case)
        if self.check is not None:
            self.ask(case, given)
        return ["eager"]

    def ask(self, case, given):
        """Unsupported where PyTorch's own check refuses the kernel, with the reason that it warns of."""
        import warnings
        kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[case["dtype"]]
        train = case["pass"] == "train"

        def empty(heads, rows, width, letter):
            shape = {"bshd": (case["b"], rows, heads, width), "sbhd": (rows, case["b"], heads, width),
                     "bhsd": (case["b"], heads, rows, width)}[case["layout"]]
            made = torch.empty(shape, dtype=kind, device=DEVICE)
            made = {"bshd": made.transpose(1, 2), "sbhd": made.permute(1, 2, 0, 3), "bhsd": made}[case["layout"]]
            return made.requires_grad_(train and letter in case["grads"])

        q = empty(case["hq"], case["sq"], case["dqk"], "q")
        k, v = empty(case["hkv"], case["skv"], case["dqk"], "k"), empty(case["hkv"], case["skv"], case["dv"], "v")
        mask = None
        if case["amask"] != "none" or case["bias"] != "none":
            mask = torch.empty((case["b"], case["hq"], case["sq"], case["skv"]), device=DEVICE,
                               dtype=torch.bool if case["amask"].startswith("bool") else kind)
            mask.requires_grad_(train and "b" in case["grads"])
        params = torch.backends.cuda.SDPAParams(q, k, v, mask, 0.0, given["is_causal"], given["enable_gqa"])
        if self.check(params, False):
            return
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.check(params, True)
        why = " ".join(str(w.message).split(" (Triggered")[0] for w in said)
        raise Unsupported("selection", f"selection: PyTorch refuses the kernel: {why or 'its reason stands on stderr'}"[:400])

    def call(self, problem):
        (found, mask), given = tensors(problem), words(problem.case)
        with sdpa_kernel([self.backend]):
            out = scaled_dot_product_attention(*found.values(), attn_mask=mask, scale=problem.scale, **given)
        return out, {**found, "bias": mask}

    def forward(self, problem, engine):
        with contained():
            self.kept = self.call(problem)
            get(problem, "o", self.kept[0])

    def backward(self, problem, engine):
        out, inputs = self.kept
        with contained():
            for name, x in gradients(problem, (out, put(problem, "do")), inputs).items():
                get(problem, "d" + name, x)


def backends():
    # With grouped heads the gradients of keys and values are made for every query head, rounded, then summed.
    fused, plain = {"p": "stored", "head_rounded": True}, {"p": "f32", "d_from_p": True}
    found = [Kernel("math", SDPBackend.MATH, plain if DEVICE == "cuda" else {**plain, "p": "stored"})]
    found[0].contract = {"dead_o": "zero", "dead_grads": "any"}
    if DEVICE == "cpu":
        return [*found, Kernel("flash", SDPBackend.FLASH_ATTENTION, fused)]
    cuda = torch.backends.cuda
    return [*found, Kernel("flash", SDPBackend.FLASH_ATTENTION, fused, cuda.can_use_flash_attention),
            Kernel("efficient", SDPBackend.EFFICIENT_ATTENTION, fused, cuda.can_use_efficient_attention),
            Kernel("cudnn", SDPBackend.CUDNN_ATTENTION, fused, cuda.can_use_cudnn_attention)]
