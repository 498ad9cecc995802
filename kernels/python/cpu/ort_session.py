"""Sessions of ONNX Runtime on the CPU, one thread each, with outputs written into attest's own memory."""
import collections

import numpy as np
import onnxruntime

from problem import Unsupported

onnxruntime.set_default_logger_severity(4)
OPTIONS = onnxruntime.SessionOptions()
OPTIONS.intra_op_num_threads = OPTIONS.inter_op_num_threads = 1
OPTIONS.log_severity_level = 4
KEEP = 64
_sessions = collections.OrderedDict()


def session(model):
    """The session of a model; what ONNX Runtime says against building it is its refusal before launch."""
    if model not in _sessions:
        try:
            made = onnxruntime.InferenceSession(model, OPTIONS, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise Unsupported("session", " ".join(str(error).split())[:300]) from None
        _sessions[model] = made
        if len(_sessions) > KEEP:
            _sessions.popitem(last=False)
    _sessions.move_to_end(model)
    return _sessions[model]


ENGINES = ["fixed", "open", "open.bound"]


def launch(node, feeds, problem, flat, engine):
    """Runs the node, whose output is "o": [b h s d], or [b s h*d] where `flat`. "fixed": the model says all sizes, o is
    written into attest's own memory; "open": sizes are left open, o is allocated by the library and copied;
    "open.bound": sizes are left open, o is written into attest's own memory."""
    sizes = {name: value.shape for name, value in feeds.items()} if engine == "fixed" else {}
    made, o = session(node.model(sizes)), problem.tensor("o")
    direct = engine != "open" and not problem.case.has_lengths
    out = _as_written(o, flat) if direct else np.full(_as_written(o, flat).shape, np.nan, o.dtype)
    if engine == "open":
        out = made.run(["o"], feeds)[0]
    else:
        _bind(made, feeds, out)
    if not direct:
        b, h, s, d = o.shape
        problem.store("o", out.reshape(b, s, h, d).transpose(0, 2, 1, 3) if flat else out, problem.len_q)


def _bind(made, feeds, out):
    binding = made.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    binding.bind_output("o", "cpu", 0, out.dtype.type, out.shape, out.ctypes.data)
    for found in made.get_outputs():
        if found.name != "o":
            binding.bind_output(found.name)
    made.run_with_iobinding(binding)


def _as_written(o, flat):
    """The tensor o as the operators write it, in its own memory."""
    if not flat:
        return o
    b, h, s, d = o.shape
    rows = o.transpose(0, 2, 1, 3)
    return np.lib.stride_tricks.as_strided(rows, (b, s, h * d), (rows.strides[0], rows.strides[1], o.itemsize))
