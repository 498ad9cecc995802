#!/usr/bin/env python3
"""Unfused fp64 attention, forward and backward, in NumPy: the peer of `attest bench reference`.

usage: unfused_fp64.py [--threads N] [--heads H] [--len S] [--dim D] [--rounds R]

Whole S x S matrices and one BLAS call per product, as a framework without a fused kernel computes
it: S = scale Q K^T, P = softmax(S), O = P V, dV = P^T dO, dP = dO V^T, dS = P (dP - rowsum(dO O)),
dQ = scale dS K, dK = scale dS^T Q. Prints one JSON line; gflops counts 14 S^2 D operations a head.
"""
import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description="unfused fp64 attention in NumPy")
parser.add_argument("--threads", type=int, default=os.cpu_count())
parser.add_argument("--heads", type=int, default=8)
parser.add_argument("--len", type=int, default=1024)
parser.add_argument("--dim", type=int, default=128)
parser.add_argument("--rounds", type=int, default=7)
args = parser.parse_args()
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(args.threads)

import numpy as np  # noqa: E402  (the number of threads must be set before)


def attention(q, k, v, dout, scale):
    s = np.matmul(q, k.transpose(0, 2, 1)) * scale
    s -= s.max(axis=-1, keepdims=True)
    p = np.exp(s)
    p /= p.sum(axis=-1, keepdims=True)
    o = np.matmul(p, v)
    dv = np.matmul(p.transpose(0, 2, 1), dout)
    dp = np.matmul(dout, v.transpose(0, 2, 1))
    ds = p * (dp - (dout * o).sum(axis=-1, keepdims=True))
    return o, scale * np.matmul(ds, k), scale * np.matmul(ds.transpose(0, 2, 1), q), dv


def blas():
    """The BLAS that NumPy has loaded, by its file name."""
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
            names = {os.path.basename(line.split()[-1]) for line in maps if "blas" in line}
        return sorted(names)
    except OSError:
        return []


def best(call):
    call()
    times = []
    for _ in range(args.rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


random = np.random.default_rng(0)
shape = (args.heads, args.len, args.dim)
inputs = [random.standard_normal(shape) for _ in range(4)]
square = random.standard_normal((1024, 1024))
seconds = best(lambda: attention(*inputs, args.dim**-0.5))
dgemm = 2 * 1024**3 / best(lambda: square @ square)
flops = 14 * args.len**2 * args.dim * args.heads / seconds
print(json.dumps({
    "bench": "unfused_fp64", "library": "numpy " + np.__version__, "blas": blas(),
    "threads": args.threads, "heads": args.heads, "len": args.len, "dim": args.dim,
    "seconds": seconds, "gflops": flops * 1e-9, "dgemm_gflops": dgemm * 1e-9,
    "ratio": flops / dgemm,
}))
