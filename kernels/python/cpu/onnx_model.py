"""One attention node as an ONNX model, and what ONNX's Attention can be asked."""
import numpy as np
import onnx
from onnx import TensorProto, helper

from problem import limit, need

ELEMENT = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
IR_VERSION = 10


class Node:
    """An operator with its inputs by slot: {slot: (name, element type, rank)}; sizes are left open."""

    def __init__(self, op, domain, opset, attributes, outputs):
        self.op, self.domain, self.opset = op, domain, opset
        self.attributes, self.outputs, self.inputs = attributes, outputs, {}

    def takes(self, slot, name, element, rank):
        self.inputs[slot] = (name, element, rank)

    def model(self, sizes=None):
        """The model as bytes; `sizes` gives shapes by name, the others stay open."""
        sizes = sizes or {}
        names = [self.inputs[i][0] if i in self.inputs else "" for i in range(max(self.inputs) + 1)]
        node = helper.make_node(self.op, names, [o[0] for o in self.outputs], domain=self.domain, **self.attributes)

        def info(name, element, rank):
            return helper.make_tensor_value_info(name, element, sizes.get(name, [f"{name}{i}" for i in range(rank)]))

        graph = helper.make_graph([node], "attention", [info(*i) for _, i in sorted(self.inputs.items())],
                                  [info(*o) for o in self.outputs])
        opsets = [helper.make_opsetid("", self.opset)]
        if self.domain:
            opsets.append(helper.make_opsetid(self.domain, 1))
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()


def flat(x):
    """[b h s d] as [b s h*d], copied only where memory order asks for it."""
    b, h, s, d = x.shape
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(b, s, h * d)


def additive(problem):
    """A dense mask as numbers to add, -inf where a key is masked."""
    mask = problem.mask()
    if mask.dtype == bool:
        kind = problem.tensor("q").dtype
        return np.where(mask, kind.type(0), kind.type(-np.inf))
    return np.ascontiguousarray(mask)


def past_keys(case):
    """Keys that stand in the cache, so that the diagonal starts there: ONNX sees j <= i + past."""
    if case["mask"] == "none":
        return 0
    align = {"tl": 0, "br": case["skv"] - case["sq"]}.get(case["align"], case["align"])
    need(0 <= align <= case["skv"], "align",
         f"align={case['align']}: the diagonal starts at the number of cached keys, 0..skv")
    return align


def check_attention(case, opset):
    """Unsupported where Attention of that opset has no words for the case; otherwise the keys in the cache."""
    limit(case, layout=("bshd", "bhsd"), softcap=None)
    need(case["bias"] == "none" or case["amask"] == "none", "bias", "bias and amask: attn_mask is one input")
    left, right = case["wl"], case["wr"]
    window = left >= 0 or (right >= 0 and case["mask"] == "band")
    need(opset >= 25 or not window, "window", f"wl={left}, wr={right}: windows came with opset 25")
    if not case.has_lengths:
        return past_keys(case)
    need(opset >= 24, "lens", "lengths: nonpad_kv_seqlen came with opset 24")
    if case.has_diagonal:
        len_q, len_kv, diag = case.extents()
        need(bool((diag == len_kv - case["sq"]).all()), "align",
             f"align={case['align']}: with nonpad_kv_seqlen the diagonal starts at its value less sq")
    return 0


def attention(case, opset):
    """The node for the case, and the number of keys that it gets as past_key."""
    past, element = check_attention(case, opset), ELEMENT[case["dtype"]]
    rank = 4 if case["layout"] == "bhsd" else 3
    attributes = {}
    if case["mask"] == "causal":
        attributes["is_causal"] = 1
    if case["mask"] != "none" and opset >= 25:
        attributes.update(left_window_size=case["wl"], right_window_size=case["wr"])
    if case["softcap"]:
        attributes["softcap"] = float(case["softcap"])
    if case["scale"] != "auto":
        attributes["scale"] = float(case["scale"])
    if rank == 3:
        attributes.update(q_num_heads=case["hq"], kv_num_heads=case["hkv"])
    cache = [("present_key", element, 4), ("present_value", element, 4)] if past else []
    node = Node("Attention", "", opset, attributes, [("o", element, rank), *cache])
    for slot, name in enumerate("qkv"):
        node.takes(slot, name, element, rank)
    if case["amask"] != "none" or case["bias"] != "none":
        node.takes(3, "mask", TensorProto.BOOL if case["amask"].startswith("bool") else element, 4)
    if past:
        node.takes(4, "past_key", element, 4)
        node.takes(5, "past_value", element, 4)
    if case.has_lengths:
        node.takes(6, "lengths", TensorProto.INT64, 1)
    return node, past


def attention_feeds(problem, past):
    """What the node's inputs get."""
    order = np.ascontiguousarray if problem.case["layout"] == "bhsd" else flat
    q, k, v = (problem.tensor(name) for name in "qkv")
    feeds = {"q": order(q), "k": order(k[:, :, past:]), "v": order(v[:, :, past:])}
    if past:
        feeds["past_key"] = np.ascontiguousarray(k[:, :, :past])
        feeds["past_value"] = np.ascontiguousarray(v[:, :, :past])
    mask = problem.mask()
    if mask is not None:
        feeds["mask"] = np.ascontiguousarray(mask)
    if problem.case.has_lengths:
        feeds["lengths"] = problem.len_kv
    return feeds
