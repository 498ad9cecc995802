"""ONNX Runtime's own operators on the CPU: com.microsoft MultiHeadAttention and GroupQueryAttention."""
import numpy as np
import onnxruntime
from onnx import TensorProto

from onnx_model import ELEMENT, Node, additive, flat, past_keys
from ort_session import ENGINES, launch, session
from problem import limit, need

PACKAGE = "onnxruntime onnx"
INT32 = TensorProto.INT32


class Contrib:
    """f16 is cast to f32 and back around these kernels."""
    version, promises, numeric = onnxruntime.__version__, (), {"p": "f32"}
    packages = {"onnxruntime": onnxruntime.__version__}
    contract = {}

    def claim(self, case):
        session(self.node(case).model())
        return ENGINES

    def common(self, case):
        need(case["bias"] == "none" or case["amask"] == "none", "bias", "bias and amask: attention_bias is one input")
        need(case["scale"] != 0, "scale", "scale=0: the operator takes it for the default")
        attributes = {"num_heads": case["hq"]}
        if case["scale"] != "auto":
            attributes["scale"] = float(case["scale"])
        return attributes


class MultiHead(Contrib):
    name, doc = "ort.mha", "ONNX Runtime, com.microsoft MultiHeadAttention"

    @staticmethod
    def padding(case):
        """What key_padding_mask holds: lengths, a mask [b sq skv], or nothing."""
        return "lengths" if case.has_lengths else "mask" if case["amask"] in ("bool.11", "bool.b1") else None

    def node(self, case):
        limit(case, pack=("none", "qkvh3", "kvh2"))
        attributes, element = self.common(case), ELEMENT[case["dtype"]]
        need(case["hq"] == case["hkv"], "hkv", f"hkv={case['hkv']}: keys have the heads of the queries")
        need(case["wl"] < 0 and (case["wr"] < 0 or case["mask"] == "causal"), "window", "there are no windows")
        past = past_keys(case)
        need(past == 0 or case["pack"] == "none", "pack", f"pack={case['pack']}: not beside a cache")
        need(past == 0 or case["dqk"] == case["dv"], "dv", "dv: past_value has the head size of past_key")
        if case.has_lengths and case.has_diagonal:
            need(bool((list(case.extents())[2] == past).all()), "align", "align: one diagonal for all sequences")
        if case["mask"] == "causal":
            attributes["unidirectional"] = 1
        cache = [("present_key", element, 4), ("present_value", element, 4)] if past else []
        node = Node("MultiHeadAttention", "com.microsoft", 21, attributes, [("o", element, 3), *cache])
        node.takes(0, "q", element, 5 if case["pack"] == "qkvh3" else 3)
        if case["pack"] != "qkvh3":
            node.takes(1, "k", element, 5 if case["pack"] == "kvh2" else 3)
        if case["pack"] == "none":
            node.takes(2, "v", element, 3)
        if self.padding(case):
            node.takes(4, "padding", INT32, 1 if case.has_lengths else 3)
        if case["bias"] != "none" or (case["amask"] != "none" and self.padding(case) != "mask"):
            node.takes(5, "bias", element, 4)
        if past:
            node.takes(6, "past_key", element, 4)
            node.takes(7, "past_value", element, 4)
        return node

    def forward(self, problem, engine):
        case, past = problem.case, past_keys(problem.case)
        node, (q, k, v) = self.node(case), (problem.tensor(name) for name in "qkv")
        feeds = {"q": flat(q), "k": flat(k[:, :, past:]), "v": flat(v[:, :, past:]),
                 "past_key": np.ascontiguousarray(k[:, :, :past]), "past_value": np.ascontiguousarray(v[:, :, :past])}
        if case["pack"] != "none":
            parts = [q, k, v] if case["pack"] == "qkvh3" else [k, v]
            packed = np.ascontiguousarray(np.stack(parts, 3).transpose(0, 2, 1, 3, 4))
            feeds["q" if case["pack"] == "qkvh3" else "k"] = packed
        if self.padding(case) == "lengths":
            feeds["padding"] = problem.len_kv.astype(np.int32)
        elif self.padding(case) == "mask":
            mask = np.broadcast_to(problem.mask()[:, 0], (case["b"], case["sq"], case["skv"]))
            feeds["padding"] = np.ascontiguousarray(mask).astype(np.int32)
        taken = {name for name, _, _ in node.inputs.values()}
        if "bias" in taken:
            feeds["bias"] = additive(problem)
        launch(node, {name: feeds[name] for name in taken}, problem, True, engine)


class GroupQuery(Contrib):
    name, doc = "ort.gqa", "ONNX Runtime, com.microsoft GroupQueryAttention"

    @staticmethod
    def chunks(case):
        """Several sequences behind a cache, or of their own lengths: the last len_q keys of each are new."""
        if not case.has_lengths:
            return case["b"] > 1 and case["sq"] > 1 and past_keys(case) > 0
        return case["mask"] == "causal" and case["align"] == "br"

    def check_keys(self, case):
        """Unsupported where the keys are not those of a prompt, of a decode or of a chunk; else keys in the cache."""
        if not case.has_lengths:
            past = past_keys(case)
            need(past + case["sq"] == case["skv"], "skv", "skv: every query brings its own key, after the cached ones")
            need(past == 0 or case["mask"] == "causal" or not self.chunks(case), "mask", "chunks are causal")
            return past
        len_q, len_kv, _ = case.extents()
        need(bool((len_kv >= 1).all()), "lens", "lengths: seqlens_k is a length less one")
        if self.chunks(case):
            need(bool((len_kv >= len_q).all()), "lens", "lengths: every query brings its own key")
            return 1
        need(case["sq"] == case["skv"] and (case["mask"] == "none" or case["align"] in ("tl", 0)), "align",
             f"align={case['align']}: a prompt of its own lengths starts at key 0, and has as many keys as queries")
        return 0

    def node(self, case):
        limit(case, pack=("none", "qkv3h"), softcap=None, sink=("none", "off1", "learned"))
        attributes, element = self.common(case), ELEMENT[case["dtype"]]
        need(case["dqk"] == case["dv"], "dv", "dv: there is one head size")
        need(case["mask"] != "band" or not case.has_diagonal, "mask", "mask=band: windows are causal")
        need(case["sink"] != "learned" or case["dtype"] == "f32", "sink", "sink=learned: head_sink has the type of q")
        past = self.check_keys(case)
        need(not past or case["pack"] == "none", "pack", f"pack={case['pack']}: not beside a cache")
        attributes.update(kv_num_heads=case["hkv"], causal=int(case["mask"] == "causal"))
        if case["mask"] == "causal" and case["wl"] >= 0:
            attributes["local_window_size"] = case["wl"] + 1
        if case["softcap"]:
            attributes["softcap"] = float(case["softcap"])
        if case["sink"] == "off1":
            attributes["smooth_softmax"] = 1
        cache = [("present_key", element, 4), ("present_value", element, 4)]
        node = Node("GroupQueryAttention", "com.microsoft", 21, attributes, [("o", element, 3), *cache])
        node.takes(0, "q", element, 3)
        if case["pack"] == "none":
            node.takes(1, "k", element, 3)
            node.takes(2, "v", element, 3)
        if past:
            node.takes(3, "past_key", element, 4)
            node.takes(4, "past_value", element, 4)
        node.takes(5, "lengths", INT32, 1)
        node.takes(6, "total", INT32, 0)
        if case["bias"] != "none" or case["amask"] != "none":
            node.takes(10, "bias", element, 4)
        if case["sink"] == "learned":
            node.takes(11, "sink", element, 1)
        if self.chunks(case) and case["sq"] > 1:
            node.takes(16, "chunks", INT32, 1)
        return node

    @staticmethod
    def cached(problem):
        """Cache with room for a chunk, and the new keys: each sequence's last len_q keys are new."""
        room = int((problem.len_kv - problem.len_q).max(initial=0)) + problem.case["sq"]
        feeds = {}
        for name, long in (("k", "past_key"), ("v", "past_value")):
            x = problem.tensor(name)
            b, h, _, d = x.shape
            old, new = np.zeros((b, h, room, d), x.dtype), np.zeros((b, h, problem.case["sq"], d), x.dtype)
            for i, (rows, keys) in enumerate(zip(problem.len_q, problem.len_kv)):
                old[i, :, :keys - rows] = x[i, :, :keys - rows]
                new[i, :, :rows] = x[i, :, keys - rows:keys]
            feeds[name], feeds[long] = flat(new), old
        return feeds, room

    def forward(self, problem, engine):
        case, node = problem.case, self.node(problem.case)
        q, k, v = (problem.tensor(name) for name in "qkv")
        total = case["skv"]
        if self.chunks(case):
            feeds, total = self.cached(problem)
        else:
            past = 0 if case.has_lengths else past_keys(case)
            feeds = {"k": flat(k[:, :, past:]), "v": flat(v[:, :, past:]),
                     "past_key": np.ascontiguousarray(k[:, :, :past]),
                     "past_value": np.ascontiguousarray(v[:, :, :past])}
        feeds["q"] = flat(q)
        if case["pack"] == "qkv3h":
            feeds["q"] = np.concatenate([feeds["q"], feeds["k"], feeds["v"]], -1)
        feeds["lengths"], feeds["total"] = (problem.len_kv - 1).astype(np.int32), np.array(total, np.int32)
        feeds["chunks"] = problem.len_q.astype(np.int32)
        if case["sink"] == "learned":
            feeds["sink"] = np.ascontiguousarray(problem.tensor("sink")).reshape(-1)
        if problem.mask() is not None:
            bias = additive(problem)
            wide = np.zeros((*bias.shape[:3], total), bias.dtype)
            wide[..., :min(total, bias.shape[3])] = bias[..., :total]
            feeds["bias"] = wide
        taken = {name for name, _, _ in node.inputs.values()}
        launch(node, {name: feeds[name] for name in taken}, problem, True, engine)


def backends():
    return [MultiHead(), GroupQuery()]
