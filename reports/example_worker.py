#!/usr/bin/env python3
"""A worker for attest: plain Python attention in f32, judged by libattest in this process.

    attest sweep sq=1..9:dqk=8:dtype=f32:pass=fwd --worker 'python3 reports/example_worker.py'
"""
import ctypes as C, json, math, os, sys

out = os.fdopen(os.dup(1), "w")  # the protocol keeps this one ...
os.dup2(2, 1)                    # ... and what libraries print goes to stderr
lib = C.CDLL(os.environ.get("LIBATTEST", "libattest.so.1"))
lib.at_foreign_open.restype = lib.at_foreign_tensor.restype = C.c_void_p
lib.at_foreign_number.restype = C.c_double
lib.at_foreign_verdict.restype = C.c_char_p

def send(event, **members):
    print(json.dumps({"event": event, **members}), file=out, flush=True)

def rows(run, name):
    """The tensor as {(b, h, s): array of dim floats}, sharing its memory."""
    shape, stride, dtype = (C.c_int64 * 4)(), (C.c_int64 * 4)(), C.c_char_p()
    at = lib.at_foreign_tensor(run, name, shape, stride, C.byref(dtype))
    b, h, s, d = shape
    return {(i, j, k): (C.c_float * d).from_address(at + 4 * (i * stride[0] + j * stride[1] + k * stride[2]))
            for i in range(b) for j in range(h) for k in range(s)}

def forward(run):
    q, k, v, o = (rows(run, n) for n in (b"q", b"k", b"v", b"o"))
    group = lib.at_foreign_number(run, b"hq") / lib.at_foreign_number(run, b"hkv")
    scale, first, last = lib.at_foreign_number(run, b"scale"), C.c_int64(), C.c_int64()
    for (b, h, s), row in q.items():
        lib.at_foreign_keys(run, C.c_int64(b), C.c_int64(s), C.byref(first), C.byref(last))
        keys = [(b, int(h // group), j) for j in range(first.value, last.value + 1)]
        score = [scale * sum(x * y for x, y in zip(row, k[j])) for j in keys]
        p = [math.exp(x - max(score)) for x in score]
        for c in range(len(o[b, h, s])):
            o[b, h, s][c] = sum(x * v[j][c] for x, j in zip(p, keys)) / sum(p) if keys else 0.0

backend = {"name": "example.python", "version": "1.0.0", "arch": "cpu", "doc": "attention in plain Python"}
send("hello", protocol=1, backends=[backend], versions={"python": sys.version.split()[0]})
for line in sys.stdin:
    request = json.loads(line)
    words = dict(w.split("=", 1) for w in request["case"].split(":"))
    refused = [f"{k}={words.get(k, d)}" for k, d, ok in (("dtype", "bf16", "f32"), ("pass", "train", "fwd"),
               ("softcap", "0", "0"), ("lens", "none", "none"), ("layout", "bshd", "bshd")) if words.get(k, d) != ok]
    if refused:
        send("verdict", id=request["id"], status="UNSUPPORTED", reason="case", message=refused[0] + " is not served")
        continue
    send("begin", id=request["id"], step="reference")
    run = C.c_void_p(lib.at_foreign_open(request["case"].encode(), None))
    if lib.at_foreign_ready(run):
        send("begin", id=request["id"], step="forward")
        forward(run)
        lib.at_foreign_judge(run, b"forward", None, C.c_double(0))
    send("verdict", id=request["id"], engine="loops", **json.loads(lib.at_foreign_verdict(run)))
    lib.at_foreign_close(run)
send("bye")
