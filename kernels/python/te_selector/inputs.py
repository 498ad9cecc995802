#!/usr/bin/env python3
"""Samples questions for the selector of a release: inputs.py VERSION N [SEED] writes JSON lines {"case", "env"}.

Random and boundary-heavy: half of the cases are a usual one with a few features changed, half draw every axis. Each
environment serves PER_ENVIRONMENT cases. The same arguments give the same bytes.
"""
import json
import random
import sys

import cases

PER_ENVIRONMENT = 25
ARCHES = {"sm80": 4, "sm86": 3, "sm89": 4, "sm90": 10, "sm100": 8, "sm103": 4, "sm110": 2, "sm120": 4, "sm121": 2}
FA2 = ("2.8.3 2.8.3 2.8.3 2.8.3 2.8.3 2.8.2 2.8.4 2.8.3.post1 2.7.4.post1 2.7.3 2.7.2 2.6.3 2.6.0 2.5.9 2.5.0 2.4.3 "
       "2.4.1 2.4.0 2.3.6 2.3.0 2.2.5 2.1.1 2.1.0 2.0.9").split()
FA3 = "2025-02 2025-04 2025-09 2026-01 3.0.0b1 3.0.0".split()
FA4 = "4.0.0b11 4.0.0b15 4.0.0b16 4.0.0b27 4.0.0b36".split()
CUDNN = ("8.9.0 8.9.2 8.9.3 8.9.4 8.9.5 8.9.6 8.9.7 9.0.0 9.1.0 9.1.1 9.2.0 9.2.1 9.3.0 9.4.0 9.5.0 9.5.1 9.6.0 9.7.0 "
         "9.7.1 9.8.0 9.9.0 9.10.0 9.10.1 9.10.2 9.11.0 9.11.1 9.12.0 9.13.0 9.13.1 9.14.0 9.15.0 9.15.1 9.16.0 9.17.1 "
         "9.18.0 9.18.1 9.19.0 9.20.0 9.21.0 9.22.0 9.23.0 9.23.1 9.23.2 9.24.0 9.25.0 9.26.0 9.27.0").split()
RECENT = CUDNN[CUDNN.index("9.12.0"):]
PAIRS = [(192, 128), (512, 512), (64, 128), (128, 64), (64, 512), (160, 128), (96, 64), (128, 96), (256, 128),
         (576, 512), (64, 32), (128, 192), (192, 96), (192, 104), (136, 104), (136, 96), (128, 112), (128, 32),
         (128, 48), (64, 256), (64, 264), (64, 520), (72, 128), (72, 64), (56, 512), (200, 128), (192, 136),
         (192, 64), (120, 128), (256, 64), (64, 8), (8, 64), (144, 128), (176, 112), (129, 97), (192, 97), (112, 80),
         (96, 80), (256, 248), (248, 256)]
DIMS = [64, 64, 128, 128, 128, 96, 192, 256, 256, 512, 32, 80, 160, 224, 72, 40, 112, 8, 16]
LENGTHS = [1, 2, 63, 64, 65, 127, 128, 129, 192, 255, 256, 257, 384, 512, 513, 576, 1000, 1024, 1025, 2000, 2048, 4096,
           8192, 16384, 32768, 65536, 131072]
HEADS = [(16, 16), (16, 16), (16, 1), (16, 2), (16, 4), (16, 8), (32, 8), (64, 8), (128, 128), (128, 1), (8, 8), (8, 4),
         (1, 1), (40, 8), (5, 5), (7, 1), (12, 3), (9, 3)]
ODD_HEADS = HEADS * 2 + [(6, 4)]
LENS = "full half random zero_first one".split()
ORDER = list(cases.CASE)
ORDER.insert(ORDER.index("hv") + 1, "invalid")


class Sampler:
    """Cases and environments of one release."""

    def __init__(self, version, seed=0):
        self.version = tuple(int(part) for part in version.split("."))
        self.random = random.Random(f"te-{version}/{seed}")
        self.choice = self.random.choice
        self.features = [f for f, since, before in FEATURES if since <= self.version < before]

    def often(self, probability):
        return self.random.random() < probability

    def weighted(self, weights):
        return self.random.choices(list(weights), list(weights.values()))[0]

    # environments

    def packages(self, e):
        e["fa2"] = self.choice(FA2) if self.often(0.75) else "none"
        e["fa3"] = self.choice(FA3) if self.often(0.5) else "none"
        if self.version >= (2, 16):
            e["fa4"] = self.choice(FA4) if self.often(0.5) else "none"
        e["cudnn"] = self.choice(RECENT if self.version >= (2, 20) or self.often(0.6) else CUDNN)

    def switches(self, e):
        names = ["flash", "fused", "unfused"]
        names += ["flash_v2", "flash_v3", "flash_v4"] if self.version >= (2, 18) else []
        if self.often(0.25):
            e["fused"] = 0
        for name in names if self.often(0.12) else []:
            if self.often(0.4):
                e[name] = 0
        if self.version < (2, 16) and self.often(0.15):
            e["fused_backend"] = self.choice([0, 1])
        if self.often(0.1):
            e["unfused_fp8"] = 1

    def callers(self, e):
        """What a caller tells the selector beyond the case."""
        known = ["te.max_logit", "te.det", "te.kv_cache", "te.kv_format", "te.bias_scale", "te.bias_row",
                 "te.bias_grad", "te.alibi_slopes", "te.alibi_slopes", "te.pad_between_seqs", "te.cuda_graph", "te.fp8",
                 "te.fp8", "te.fp8", "te.cp", "te.cp", "te.qkv_type"]
        if self.version >= (2, 17):
            known += ["te.score_mod", "te.score_mod_bprop", "te.checkpoint", "te.fp8_output"]
        if self.version >= (2, 20):
            known += ["te.fa3_softcap", "te.fused_answer"]
        for key in self.random.sample(known, self.weighted({0: 8, 1: 5, 2: 3, 3: 1, 5: 0.5})):
            values = list(cases.ENV[key][1:])
            if key == "te.qkv_type" and self.version < (2, 16):
                values.remove("mxfp8")
            e[key] = self.choice(values)
        if self.often(0.02):
            e["te.num_splits"] = 0
        if "te.cp" in e:
            e["te.cp_comm"] = self.choice(cases.ENV["te.cp_comm"])
        if "te.fp8" in e:
            e["te.fp8_dpa"], e["te.fp8_mha"] = self.choice([(1, 0), (1, 0), (1, 1), (0, 0), (0, 1)])

    def environment(self):
        e = {}
        self.packages(e)
        self.switches(e)
        self.callers(e)
        return {k: str(v) for k, v in e.items() if cases.ENV[k] is None or v != cases.ENV[k][0]}

    # cases

    def usual(self):
        h, g = self.choice(HEADS)
        d, s = self.choice(DIMS[:9] + DIMS[10:12]), self.choice(LENGTHS[7:21])
        c = {"b": self.choice([1, 2, 4, 8]), "hq": h, "hkv": g, "sq": s, "skv": s, "dqk": d, "dv": d,
             "dtype": self.choice(["bf16", "bf16", "f16"]), "layout": self.choice(["bshd", "sbhd", "thd"]),
             "mask": self.choice(["none", "causal", "causal", "causal", "band"]), "arch": self.weighted(ARCHES),
             "pass": self.choice(["train", "train", "fwd", "stats"])}
        if c["mask"] != "none":
            c["align"] = self.choice(["tl", "br"])
        if c["mask"] == "band":
            self.band(c)
        if c["layout"] == "thd" or self.often(0.3):
            c["lens"] = self.choice(LENS)
        return c

    def wild(self):
        c = {"arch": self.weighted(ARCHES), "mask": "none"}
        for feature in self.features:
            if self.often(0.25):
                feature(self, c)
        for feature in (Sampler.heads, Sampler.dims, Sampler.lengths, Sampler.mask):
            feature(self, c)
        c["pass"] = self.choice(["train", "fwd"])
        c["b"] = self.choice([1, 1, 2, 3, 16])
        return c

    def heads(self, c):
        c["hq"], c["hkv"] = self.choice(ODD_HEADS)

    def dim(self):
        kind = self.weighted({"known": 45, "eight": 35, "near": 12, "any": 8})
        if kind == "known":
            return self.choice(DIMS)
        if kind == "any":
            return self.random.randint(1, 520)
        return max(1, 8 * self.random.randint(1, 66) + (self.choice([-1, 1]) if kind == "near" else 0))

    def dims(self, c):
        kind = self.weighted({"equal": 5, "pair": 3, "near": 1, "any": 2})
        if kind == "any":
            c["dqk"], c["dv"] = self.dim(), self.dim()
            return
        pair = (self.dim(),) * 2 if kind == "equal" else self.choice(PAIRS)
        steps = [-8, -1, 0, 1, 8] if kind == "near" else [0]
        c["dqk"], c["dv"] = (max(1, d + self.choice(steps)) for d in pair)

    def lengths(self, c):
        a, b = self.choice(LENGTHS), self.choice(LENGTHS)
        kind = self.weighted({"equal": 6, "rising": 3, "falling": 2})
        c["sq"], c["skv"] = (a, a) if kind == "equal" else sorted((a, b), reverse=kind == "falling")

    def band(self, c):
        n = self.choice([0, 1, 4, 64, 127, 128, 256, 511, 4096])
        m = self.choice([0, 1, 128])
        c["wl"], c["wr"] = self.choice([(-1, -1), (-1, 0), (n, 0), (n, 0), (n, 0), (n, n), (n, n), (0, n), (n, m),
                                        (n, m),
                                        self.choice([(-1, n), (n, -1)])])

    def mask(self, c):
        for key in ("align", "wl", "wr", "amask"):
            c.pop(key, None)
        c["mask"] = self.choice(["none", "causal", "causal", "band"])
        if c["mask"] != "none":
            c["align"] = self.choice(["tl", "br"])
        if c["mask"] == "causal" and self.often(0.4):
            c["wl"] = self.choice([0, 1, 64, 127, 128, 511, 4096])
        if c["mask"] == "band":
            self.band(c)

    def dense(self, c):
        c["amask"] = self.choice(["bool.11", "add.b1", "min.bh"])

    def bias(self, c):
        c["bias"] = self.choice(["alibi", "alibi", "rel.11", "rel.1h", "rel.1h", "rel.b1", "rel.bh"])
        if c["bias"] == "alibi" and c["mask"] == "none":
            c["align"] = self.choice(["tl", "br"])
        if c["bias"] != "alibi" and self.often(0.5):
            c["grads"] = "qkvb"

    def layout(self, c):
        c["layout"] = self.choice(["bshd", "sbhd", "thd", "thd"])

    def packed(self, c):
        c["pack"] = self.choice(["qkv3h", "qkvh3", "kv2h", "kvh2"])

    def paged(self, c):
        c["page"] = self.choice([1, 16, 64, 128, 255, 256, 257, 512, 1024])
        c["skv"] = self.choice([64, 128, 255, 256, 512, 1000, 2048, 4096])
        c["sq"] = self.choice([1, 1, 4, 64, c["skv"]])

    def gap(self, c):
        c["gap"] = self.choice([1, 64])

    def dropout(self, c):
        c["dropout"] = self.choice([0.1, 0.5])

    def deterministic(self, c):
        c["det"] = 1

    def sink(self, c):
        c["sink"] = self.choice(["off1", "learned"])

    def other_dtype(self, c):
        c["dtype"] = self.choice(["f32", "f8e4m3", "f8e4m3", "f8e5m2", "f16"])

    def splits(self, c):
        c["splits"] = self.choice([1, 1, 2, 8])

    def replay(self, c):
        c["exec"] = "replay"

    def explicit(self, c):
        """Lengths one by one."""
        c["b"] = self.choice([1, 2])
        c["lenq"] = c["lenkv"] = "+".join(["1"] * c["b"])
        c.pop("lens", None)

    def unsayable(self, c):
        """What no caller can ask."""
        if self.often(0.2):
            key, value = self.choice([("layout", "bhsd"), ("align", 3), ("hv", 1), ("odt", "f32"), ("softcap", 30.0)])
            c[key] = value

    def softcap(self, c):
        c["softcap"] = self.choice([30.0, 50.0])

    def short(self, c):
        """The small packed shapes of the first fused kernel (2.10 to 2.14)."""
        c.update(arch=self.choice(["sm80", "sm90", "sm90", "sm89"]), dqk=self.choice([64, 64, 64, 32]),
                 sq=self.choice([64, 128, 512, 576]), hkv=c.get("hq", 1), layout=self.choice(["bshd", "sbhd"]))
        c.update(dv=c["dqk"], skv=self.choice([c["sq"], 64, 512]), pack=self.choice(["none", "none", "qkv3h", "kv2h"]))
        for key in ("wl", "wr", "align", "sink", "page", "dropout"):
            c.pop(key, None)
        c["mask"] = self.choice(["none", "causal"])

    def huge(self, c):
        """Packed tokens whose offsets need 64 bits, or just not."""
        c.update(layout="thd", hq=128, b=1, dqk=self.choice([64, 128, 256]), sq=self.choice([65536, 131072, 262144]))
        c.update(skv=c["sq"], dv=c["dqk"], hkv=self.choice([128, 1]), mask=self.choice(["none", "causal"]))
        for key in ("wl", "wr", "align", "amask", "sink", "page", "dropout", "bias"):
            c.pop(key, None)

    def eight(self, c):
        """What the FP8 kernels are for: plain attention of middling head dims."""
        for key in ("bias", "splits", "amask", "gap", "wl", "wr", "dropout"):
            if self.often(0.8):
                c.pop(key, None)
        c["dqk"], c["dv"] = self.choice([(128, 128), (128, 128), (64, 64), (96, 96), (192, 128), (128, 64), (256, 256),
                                         (80, 80), (144, 128), (208, 128), (72, 72)])
        if c["mask"] == "band" and not ("wl" in c and "wr" in c):
            c["mask"] = "causal"
            c.pop("wr", None)

    def sequences(self, c):
        """Lengths where the case needs them, of one kind."""
        if "lenq" in c and c["lenq"].count("+") + 1 != c["b"]:
            del c["lenq"], c["lenkv"]
        if "lenq" in c:
            c.pop("lens", None)
        elif c.get("page") or c.get("layout") == "thd":
            c.setdefault("lens", self.choice(LENS))

    def consistent(self, c, e):
        """The case as text, with what contradicts itself put right."""
        h, g = c.get("hq", 1), c.get("hkv", c.get("hq", 1))
        pack = c.get("pack", "none")
        if pack != "none":
            c["dv"] = c["dqk"]
            c.pop("hv", None)
        if pack.startswith("qkv"):
            c["hkv"] = g = h
            c["skv"] = c["sq"]
            c.pop("page", None)
        if c.get("page") or e.get("te.kv_cache") == "1" and self.often(0.8):
            c["pass"] = self.choice(["fwd", "stats"])
            if c["mask"] == "causal" and self.often(0.8):
                c["align"] = "br"
        self.sequences(c)
        if c.get("page") and self.often(0.95) or e.get("te.kv_cache") == "1":
            c.pop("pack", None)
        if c.get("layout") != "thd":
            c.pop("gap", None)
        if c["mask"] == "none" and c.get("bias") != "alibi":
            c.pop("align", None)
        if c.get("pass") != "train" or not c.get("bias", "none").startswith("rel"):
            c.pop("grads", None)
        if c.get("pass") != "train":
            c.pop("det", None)
        if h % g:
            c["invalid"] = 1
        if c.get("bias", "none").startswith("rel") or "amask" in c:
            c["b"], c["sq"], c["skv"] = min(c["b"], 8), min(c["sq"], 16384), min(c["skv"], 16384)
        full = cases.parse(":".join(f"{k}={v}" for k, v in c.items()))
        whole = cases.parse("")
        keep = []
        for key in ORDER:
            default = cases.CASE.get(key, 0)
            default = full[default[1:-1]] if isinstance(default, str) and default[:1] == "<" else whole.get(key, 0)
            if key in c and c[key] != default:
                keep.append(f"{key}={c[key]:g}" if isinstance(c[key], float) else f"{key}={c[key]}")
        return ":".join(keep) or "b=1"

    def questions(self, n):
        """n pairs (case text, environment), PER_ENVIRONMENT for each cuDNN that the release does not load with, and some of
        modules in eval mode whose dropout is not 0."""
        yield from self.draw(n)
        for cudnn in ["none"] + (["8.9.7", "9.11.1"] if self.version >= (2, 20) else []):
            for case, env in self.draw(PER_ENVIRONMENT):
                yield case, dict(env, cudnn=cudnn)
        for case, env in self.draw(8 * PER_ENVIRONMENT):
            yield case, {**env, "te.eval_dropout": "1"}

    def draw(self, n):
        env = {}
        for i in range(n):
            if i % PER_ENVIRONMENT == 0:
                env = self.environment()
            case = self.wild() if self.often(0.5) else self.usual()
            for _ in range(self.weighted({0: 25, 1: 35, 2: 25, 3: 15})):
                self.choice(self.features)(self, case)
            if ("te.fp8" in env or case.get("dtype", "")[:2] == "f8") and self.often(0.5):
                self.eight(case)
            yield self.consistent(case, env), env


ALWAYS, NEVER = (2, 10), (9, 0)
FEATURES = [(f, ALWAYS, NEVER) for f in (
    Sampler.heads, Sampler.dims, Sampler.dims, Sampler.dims, Sampler.lengths, Sampler.mask, Sampler.mask, Sampler.bias,
    Sampler.bias, Sampler.layout, Sampler.packed, Sampler.paged, Sampler.gap, Sampler.dropout, Sampler.deterministic,
    Sampler.deterministic, Sampler.sink, Sampler.other_dtype, Sampler.splits, Sampler.replay, Sampler.dense,
    Sampler.explicit, Sampler.unsayable, Sampler.huge)]
FEATURES += [(Sampler.short, ALWAYS, (2, 16)), (Sampler.softcap, (2, 20), NEVER)]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    seed = sys.argv[3] if len(sys.argv) > 3 else 0
    for case, env in Sampler(sys.argv[1], seed).questions(int(sys.argv[2])):
        print(json.dumps({"case": case, "env": env}, separators=(",", ":")))


if __name__ == "__main__":
    main()
