"""Attention in NumPy behind the Python host, healthy and at fault: what tests of the host run, and the smallest example
of an adapter outside the tree: attest sweep SUITE --worker 'python3 kernels/python/cpu/worker.py path/to/this.py'"""
import ctypes, os, signal, time

import numpy as np

from problem import limit, need

PACKAGE = "numpy"


class Attention:
    name, version, doc = "host.numpy", np.__version__, "softmax(q k^T) v and its gradients in NumPy, f32"
    promises, packages, numeric, contract = ("backward",), {"numpy": np.__version__}, {"p": "stored"}, {}

    def claim(self, case):
        limit(case, dtype=("f32",), bias=("none",))
        need(case["mask"] == "none" and case["amask"] == "none", "mask", "mask: there is none")
        need(not case.has_lengths, "lens", "lens: there are none")
        return ["numpy"]

    def weights(self, problem):
        """q, k and v with the heads of q, and P [b h q k]."""
        group = problem.case["hq"] // problem.case["hkv"]
        q, k, v = problem.tensor("q"), *(np.repeat(problem.tensor(x), group, 1) for x in "kv")
        s = problem.scale * (q @ k.swapaxes(2, 3))
        p = np.exp(s - s.max(3, keepdims=True))
        return q, k, v, p / p.sum(3, keepdims=True)

    def forward(self, problem, engine):
        _, _, v, p = self.weights(problem)
        problem.tensor("o")[...] = p @ v

    def backward(self, problem, engine):
        q, k, v, p = self.weights(problem)
        do = problem.tensor("do")
        dp = do @ v.swapaxes(2, 3)
        ds = problem.scale * p * (dp - (p * dp).sum(3, keepdims=True))
        problem.tensor("dq")[...] = ds @ k
        for name, x in (("dk", ds.swapaxes(2, 3) @ q), ("dv", p.swapaxes(2, 3) @ do)):
            out = problem.tensor(name)
            b, h, s, d = out.shape
            out[...] = x.reshape(b, h, -1, s, d).sum(2)


def wrong(problem):
    problem.tensor("dk")[...] *= 1.02


def overrun(problem):
    o = problem.tensor("o")
    ctypes.memset(o.ctypes.data + o.nbytes, 7, 2)


def clobber(problem):
    problem.tensor("k")[0, 0, 0, 0] += 1


def refuse(problem):
    raise RuntimeError("\x1b[31mno plan\x1b[0m\n  for /usr/src/secret/plan.cc:12 today")


FAULTS = {"wrong": wrong, "overrun": overrun, "clobber": clobber, "refuse": refuse,
          "crash": lambda _: os.kill(os.getpid(), signal.SIGSEGV), "leave": lambda _: os._exit(5),
          "hang": lambda _: time.sleep(600), "chatter": lambda _: print('{"event":"bye"}', flush=True)}


def backends():
    """The healthy one, and one for each fault, which shows in the backward."""
    found = [Attention()]
    for name, fault in FAULTS.items():
        faulty = Attention()
        faulty.name, faulty.doc = f"host.{name}", f"the same, at fault: {name}"
        healthy = faulty.backward
        faulty.backward = lambda problem, engine, fault=fault, run=healthy: (run(problem, engine), fault(problem))
        found.append(faulty)
    return found
