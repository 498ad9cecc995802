"""Each finding again without attest: the package, and the formula in float64 with NumPy beside it.

    .cache/python/bin/python reports/published/cpu-onnxruntime/check.py
"""
import os, subprocess, sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

R = np.random.default_rng(1)
ort.set_default_logger_severity(4)


def tensor(*shape):
    return R.standard_normal(shape).astype(np.float32)


def model(op, domain, opset, inputs, feeds, attributes, outputs=("o",), sizes=True):
    kind = {np.dtype("f4"): TensorProto.FLOAT, np.dtype("i4"): TensorProto.INT32, np.dtype("i8"): TensorProto.INT64}
    node = helper.make_node(op, inputs, list(outputs), domain=domain, **attributes)
    given = [helper.make_tensor_value_info(n, kind[x.dtype], list(x.shape) if sizes else [f"{n}{i}" for i in range(x.ndim)])
             for n, x in feeds.items()]
    rank = 4 if feeds["q"].ndim == 4 else 3
    made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [f"{n}{i}" for i in range(rank if n == "o" else 4)])
            for n in outputs]
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(helper.make_graph([node], "g", given, made), opset_imports=opsets, ir_version=10)


def run(m, feeds, reference=False):
    try:
        if reference:
            return ReferenceEvaluator(m).run(["o"], feeds)[0]
        return ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(["o"], feeds)[0]
    except Exception as error:
        return str(error).split("Status Message: ")[-1].strip().splitlines()[0][-110:]


def formula(q, k, v, seen=None, add=0.0, scale=None):
    """softmax(scale q k + add) v over the keys seen, [h s d] in float64; rows that see none are zero."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = (scale if scale is not None else q.shape[-1] ** -0.5) * q @ k.swapaxes(-1, -2) + add
    s = s if seen is None else np.where(seen, s, -np.inf)
    dead = np.isneginf(s).all(-1, keepdims=True)
    p = np.where(dead, 0, np.exp(s - np.where(dead, 0, s.max(-1, keepdims=True, initial=-np.inf))))
    return p / np.where(dead, 1, p.sum(-1, keepdims=True)) @ v


def show(name, got, want):
    """One line: a refusal, NaN, or how far the package is from the formula."""
    if isinstance(got, str):
        text = got
    elif np.isnan(got).any():
        text = f"{np.isnan(got).sum()} of {got.size} are NaN"
    else:
        text = "differs by at most %.3g" % np.abs(got - want).max(initial=0)
    print(f"{name:58s} {text}")


def attention():
    q, k, v = tensor(1, 1, 1, 8), tensor(1, 1, 3, 8), tensor(1, 1, 3, 8)
    feeds = {"q": q, "k": k[:, :, 1:], "v": v[:, :, 1:], "pk": k[:, :, :1], "pv": v[:, :, :1]}
    for opset in (23, 24, 25):
        m = model("Attention", "", opset, ["q", "k", "v", "", "pk", "pv"], feeds, {"is_causal": 1}, ("o", "nk", "nv"))
        want = formula(q[0], k[0], v[0], np.array([[True, True, False]]))
        show(f"one query, 1 past and 2 new keys, causal, opset {opset}", run(m, feeds)[0], want)
        every = formula(q[0], k[0], v[0])
        show("    the same against all three keys", run(m, feeds)[0], every)
    q, k, v = tensor(1, 1, 2, 8), tensor(1, 1, 2, 8), tensor(1, 1, 2, 8)
    low = np.array([[np.finfo("f4").min] * 2, [0, 0]], np.float32)
    feeds = {"q": q, "k": k, "v": v, "m": low}
    for opset in (23, 24, 25):
        m = model("Attention", "", opset, ["q", "k", "v", "m"], feeds, {"is_causal": 1})
        want = formula(q[0], k[0], v[0], np.tril(np.ones((2, 2), bool)), low.astype(np.float64))
        show(f"row 0 masked by the lowest number, causal, opset {opset}", run(m, feeds)[0], want)
    feeds = {"q": q, "k": k, "v": v}
    for opset in (23, 25):
        m = model("Attention", "", opset, ["q", "k", "v"], feeds, {"scale": -1.0})
        show(f"scale -1, opset {opset}", run(m, feeds), formula(q[0], k[0], v[0], scale=-1))
    show("scale -1, onnx.reference", run(m, feeds, True), formula(q[0], k[0], v[0], scale=-1))
    for name, sq, skv, b in (("no queries", 0, 2, 1), ("no keys", 2, 0, 1), ("no batch", 2, 2, 0)):
        feeds = {"q": tensor(b, 1, sq, 8), "k": tensor(b, 1, skv, 8), "v": tensor(b, 1, skv, 8)}
        for opset in (23, 25):
            m = model("Attention", "", opset, ["q", "k", "v"], feeds, {})
            show(f"{name}, opset {opset}", run(m, feeds), np.zeros((b, 1, sq, 8)))


def bound_output():
    q = tensor(1, 2, 8)
    feeds = {"q": q, "k": q, "v": q}
    m = model("Attention", "", 23, ["q", "k", "v"], feeds, {"q_num_heads": 1, "kv_num_heads": 1}, sizes=False)
    session, out = ort.InferenceSession(m.SerializeToString()), np.empty((1, 2, 8), np.float32)
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    binding.bind_output("o", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    print(f"{'3-D inputs of open size: ONNX Runtime infers o as':58s}", session.get_outputs()[0].shape)
    try:
        session.run_with_iobinding(binding)
        print("    output of the caller: written")
    except Exception as error:
        print("    output of the caller:", str(error).split("for output")[-1].split("Please")[0].strip())


def contrib(op, feeds, inputs, attributes, want, name, outputs=("o",)):
    show(name, run(model(op, "com.microsoft", 21, inputs, feeds, attributes, outputs), feeds), want)


def multihead():
    q, k, v = tensor(1, 1, 8), tensor(1, 2, 8), tensor(1, 2, 8)
    feeds = {"q": q, "k": k, "v": v}
    contrib("MultiHeadAttention", feeds, ["q", "k", "v"], {"num_heads": 1, "unidirectional": 1},
            formula(q, k, v, np.array([[True, False]])), "MultiHeadAttention, unidirectional, 1 query, 2 keys")
    contrib("MultiHeadAttention", feeds, ["q", "k", "v"], {"num_heads": 1, "unidirectional": 1}, formula(q, k, v),
            "    the same against both keys")
    q, k, v = tensor(1, 2, 8), tensor(1, 2, 8), tensor(1, 2, 8)
    feeds = {"q": q, "k": k, "v": v, "m": np.array([[[0, 0], [1, 1]]], np.int32)}
    contrib("MultiHeadAttention", feeds, ["q", "k", "v", "", "m"], {"num_heads": 1},
            formula(q, k, v, np.array([[False, False], [True, True]])), "MultiHeadAttention, key_padding_mask hides row 0")
    contrib("MultiHeadAttention", feeds, ["q", "k", "v", "", "m"], {"num_heads": 1}, formula(q, k, v),
            "    the same without any mask")
    add = np.array([[[[-np.inf, -np.inf], [0, 0]]]], np.float32)
    feeds = {"q": q, "k": k, "v": v, "m": add}
    contrib("MultiHeadAttention", feeds, ["q", "k", "v", "", "", "m"], {"num_heads": 1},
            formula(q, k, v, np.array([[False, False], [True, True]])), "MultiHeadAttention, attention_bias -inf hides row 0")
    packed = tensor(1, 2, 1, 3, 8)
    show("MultiHeadAttention, packed q k v", run(model("MultiHeadAttention", "com.microsoft", 21, ["q"], {"q": packed},
                                                       {"num_heads": 1}), {"q": packed}), 0)


def group(b, s, d, mask=None, causal=0):
    q, k, v = (R.standard_normal((b, s, d)).astype(np.float32) for _ in range(3))
    feeds = {"q": q, "k": k, "v": v, "sk": np.full(b, s - 1, np.int32), "t": np.array(s, np.int32)}
    inputs = ["q", "k", "v", "", "", "sk", "t"]
    if mask is not None:
        feeds["m"], inputs = mask, inputs + ["", "", "", "m"]
    m = model("GroupQueryAttention", "com.microsoft", 21, inputs, feeds,
              {"num_heads": 1, "kv_num_heads": 1, "causal": causal}, ("o", "nk", "nv"))
    return run(m, feeds), formula(q, k, v, np.tril(np.ones((s, s), bool)) if causal else None,
                                  0.0 if mask is None else mask[0].astype(np.float64))


def groups():
    rows = np.zeros((1, 1, 2, 2), np.float32)
    rows[..., 0, :] = -np.inf
    show("GroupQueryAttention, attention_bias -inf hides row 0", *group(1, 2, 8, rows))
    show("    the same, causal", *group(1, 2, 8, rows, 1))
    low = np.zeros((1, 1, 3, 3), np.float32)
    low[..., 0, :] = np.finfo("f4").min
    show("GroupQueryAttention, row 0 by the lowest number, causal", *group(1, 3, 8, low, 1))
    show("GroupQueryAttention, head size 4", *group(1, 2, 4))
    show("GroupQueryAttention, no queries", *group(1, 0, 8))
    died = subprocess.run([sys.executable, os.path.abspath(__file__), "empty"], stderr=subprocess.DEVNULL).returncode
    print(f"{'GroupQueryAttention, batch 0':58s} the process ends with {died}")


if __name__ == "__main__":
    if sys.argv[1:] == ["empty"]:
        group(0, 2, 8)
    else:
        np.seterr(all="ignore")
        print(f"onnxruntime {ort.__version__}, onnx {onnx.__version__}, numpy {np.__version__}")
        for part in (attention, bound_output, multihead, groups):
            part()
