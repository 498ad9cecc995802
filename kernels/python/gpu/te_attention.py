"""Transformer Engine's DotProductAttention: its own selector decides, and every backend it admits is forced in turn.

FlashAttention 3 is xformers' build behind flash_attn_interface.py, shown to the selector as flash-attn-3 3.0.0;
FlashAttention 4 is what is installed. A backend that the selector does not admit is UNSUPPORTED (selection)."""
import os, pathlib, sys, tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import torch

from device import arch, contained, get, gradients, layouts, packages, put, put_rows
from problem import Unsupported, need

PACKAGE = "transformer-engine"
SHOWN = "3.0.0"  # the version under which the selector sees FlashAttention 3


def _show_fa3():
    """A distribution flash-attn-3 beside our interface module, where the build is there."""
    try:
        import flash_attn_interface
    except ImportError as gone:
        return print(f"te_attention: without FlashAttention 3: {gone}", file=sys.stderr)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="attest-fa3-"))
    info = folder / f"flash_attn_3-{SHOWN}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: flash-attn-3\nVersion: {SHOWN}\n")
    sys.path.insert(0, str(folder))


_show_fa3()
import transformer_engine.pytorch as te
import transformer_engine.pytorch.attention.dot_product_attention.dot_product_attention as dpa
from transformer_engine.pytorch.attention.dot_product_attention import utils as dpa_utils

_select = dpa_utils.get_attention_backend
SWITCHES = ("NVTE_FLASH_ATTN", "NVTE_FLASH_ATTN_V2", "NVTE_FLASH_ATTN_V3", "NVTE_FLASH_ATTN_V4", "NVTE_FUSED_ATTN",
            "NVTE_UNFUSED_ATTN")
FORCED = {"te.fa3": ("NVTE_FLASH_ATTN", "NVTE_FLASH_ATTN_V3"), "te.fa4": ("NVTE_FLASH_ATTN", "NVTE_FLASH_ATTN_V4"),
          "te.fused": ("NVTE_FUSED_ATTN",), "te.unfused": ("NVTE_UNFUSED_ATTN",)}


class Decided(Exception):
    """The selector's answer, thrown through the forward before anything is launched."""


def _winner(found):
    flash, version, fused, _, unfused, _ = found
    return f"te.fa{version.major}" if flash and version else "te.fused" if fused else "te.unfused" if unfused else ""


class Backend:
    promises, contract = ("backward",), {"dead_grads": "any"}

    def __init__(self, name, numeric):
        self.name, self.numeric, self.arch = name, numeric, arch()
        self.packages = packages("transformer-engine", "xformers", "flash-attn-4", "nvidia-cudnn-cu13")
        self.version = self.packages.get("transformer-engine", "unknown")
        self.doc = "DotProductAttention, " + ("what its selector prefers" if name == "te" else f"{name[3:]} forced")

    def words(self, case):
        layouts(case, dtype=("f16", "bf16"), layout=("bshd", "sbhd"), stride=("packed",), pack=("none",),
                bias=("none", "rel.1h"), det=None, softcap=None)
        need(case["pass"] != "stats", "pass", "pass=stats: the log-sum-exp is not handed out")
        need(set(case["grads"]) <= set("qkvb") and set("qkv") <= set(case["grads"]), "grads", "grads: q, k and v")
        need(case["amask"] == "none", "amask", "amask: a dense mask is not hosted here")
        need(case["layout"] == "bshd" or not case.has_lengths, "lens", "lens are hosted with bshd")
        kind, corner = "", None
        if case.has_diagonal:
            len_q, len_kv, diagonal = case.extents()
            right = bool((diagonal == len_kv - len_q).all())
            need(right or not diagonal.any(), "align", f"align={case['align']}: top left or bottom right")
            corner = right and bool((len_kv != len_q).any() or case["align"] == "br")
        if case["mask"] == "causal":
            kind = "causal_bottom_right" if corner else "causal"
        if case.has_lengths:
            kind = "padding" + (f"_{kind}" if kind else "")
        left, right = (case["wl"], case["wr"]) if case["mask"] != "none" else (-1, -1)
        given = {"attn_mask_type": kind or "no_mask", "window_size": (left, 0 if case["mask"] == "causal" else right),
                 "qkv_format": case["layout"]}
        if case["mask"] == "band":
            given["bottom_right_diagonal"] = bool(corner)
        return given

    def module(self, case, scale):
        made = te.DotProductAttention(case["hq"], (case["dqk"], case["dv"]), num_gqa_groups=case["hkv"],
                                      attention_dropout=0.0, qkv_format=case["layout"], attn_mask_type="no_mask",
                                      softcap=float(case["softcap"]), softmax_scale=scale, layer_number=1)
        made.deterministic = bool(case["det"])
        return made.train(case["pass"] == "train")

    def run(self, case, scale, tensors, lengths, selector):
        """The forward of tensors q k v [b s h d] or [s b h d]; the selector may throw."""
        for name in SWITCHES:
            os.environ[name] = "1" if self.name == "te" or name in FORCED[self.name] else "0"
        dpa._attention_backends["backend_selection_requires_update"] = True
        dpa_utils.get_attention_backend = selector
        given = self.words(case)
        if tensors.get("bias") is not None:
            given.update(core_attention_bias_type="post_scale_bias", core_attention_bias=tensors["bias"])
        if case.has_lengths:
            cu = [torch.nn.functional.pad(torch.as_tensor(x).cumsum(0), (1, 0)).to("cuda", torch.int32)
                  for x in lengths]
            given.update(cu_seqlens_q=cu[0], cu_seqlens_kv=cu[1], max_seqlen_q=case["sq"], max_seqlen_kv=case["skv"])
        try:
            return self.module(case, scale)(*(tensors[name] for name in "qkv"), **given)
        finally:
            dpa_utils.get_attention_backend = _select

    def claim(self, case):
        self.words(case)
        kind = {"f16": torch.float16, "bf16": torch.bfloat16}[case["dtype"]]
        train = case["pass"] == "train"

        def empty(heads, rows, width):
            shape = (case["b"], rows, heads, width) if case["layout"] == "bshd" else (rows, case["b"], heads, width)
            return torch.empty(shape, dtype=kind, device="cuda", requires_grad=train)

        tensors = {"q": empty(case["hq"], case["sq"], case["dqk"]), "k": empty(case["hkv"], case["skv"], case["dqk"]),
                   "v": empty(case["hkv"], case["skv"], case["dv"])}
        if case["bias"] != "none":
            tensors["bias"] = torch.empty((1, case["hq"], case["sq"], case["skv"]), dtype=kind, device="cuda",
                                          requires_grad="b" in case["grads"])

        def ask(params):
            raise Decided(_winner(_select(params)))

        try:
            self.run(case, 1.0, tensors, list(case.extents())[:2], ask)
            winner = ""
        except Decided as found:
            winner = str(found)
        except (AssertionError, ValueError) as no:
            raise Unsupported("selection", f"selection: refused before the selector: {' '.join(str(no).split())}"[:400])
        need(winner and self.name in ("te", winner), "selection", "selection: Transformer Engine does not admit it")
        return [winner]

    def forward(self, problem, engine):
        case = problem.case
        take = put_rows if case["layout"] == "bshd" else (lambda p, n: put(p, n).permute(2, 0, 1, 3))
        with contained():
            inputs = {name: take(problem, name) for name in "qkv"}
            inputs["bias"] = put(problem, "bias") if case["bias"] != "none" else None
            if case["pass"] == "train":
                for name in "qkv":
                    inputs[name].requires_grad_()
                if problem.tensor("dbias") is not None:
                    inputs["bias"].requires_grad_()
            out = self.run(case, problem.scale, inputs, (problem.len_q, problem.len_kv), _select)
            self.kept = out, inputs
            get(problem, "o", self.heads_first(case, out.unflatten(-1, (case["hq"], case["dv"]))))

    @staticmethod
    def heads_first(case, x):
        return x.permute(0, 2, 1, 3) if case["layout"] == "bshd" else x.permute(1, 2, 0, 3)

    def backward(self, problem, engine):
        (out, inputs), case = self.kept, problem.case
        with contained():
            do = put_rows(problem, "do") if case["layout"] == "bshd" else put(problem, "do").permute(2, 0, 1, 3)
            for name, x in gradients(problem, (out, do.flatten(-2)), inputs).items():
                get(problem, "d" + name, x if name == "bias" else self.heads_first(case, x))


def backends():
    fused, unfused = {"p": "stored"}, {"p": "stored", "scores_stored": True, "d_from_p": True, "head_rounded": True}
    return [Backend(name, unfused if name == "te.unfused" else fused) for name in FORCED]
