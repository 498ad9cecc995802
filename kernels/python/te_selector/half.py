#!/usr/bin/env python3
"""The rule set nvte-2.19 against the release's own C++ half: half.py CACHE FUSED_HALF ATTEST [CASES]

Random cases become arguments of nvte_get_fused_attn_backend and are asked of the release in CACHE through
FUSED_HALF (kernels/te_fused_half.cpp) and of the rule set through ATTEST. Prints the disagreements; exits 1 when
there is one."""
import json
import pathlib
import random
import subprocess
import sys

from host import FusedHalf

VERSION = "2.19"
CUDNN = {"9.14.0": 91400, "9.19.0": 91900, "9.23.0": 92300, "9.25.0": 92500}
DTYPES = {"f16": 5, "bf16": 6, "f8e4m3": 7}
LAYOUTS = {"sbhd": 4, "bshd": 9, "thd": 14}
BIASES = {"none": 0, "rel.1h": 2, "alibi": 3}
MASKS = [("none", None, -1), ("causal", "tl", -1), ("causal", "tl", 127), ("causal", "br", -1), ("causal", "br", 127)]


def draw(pick):
    """(case, arguments up to the arch)"""
    arch = pick.choice([80, 90, 100, 103, 110, 120, 121])
    dtype = pick.choice(["bf16", "f16", "bf16", "f8e4m3"])
    dqk = pick.choice([64, 128, 192, 160, 72, 256, 100, 512])
    dv = pick.choice([dqk, dqk, 128, 64, 96])
    hq, hkv = pick.choice([(8, 8), (8, 2), (6, 4), (6, 4), (4, 3)])
    sq, skv = pick.choice([(1024, 1024), (1024, 2048), (2048, 1024), (1, 1024), (1, 1), (100, 200), (512, 512)])
    layout, (mask, align, left) = pick.choice(list(LAYOUTS)), pick.choice(MASKS)
    padded = layout == "thd" or pick.random() < 0.3
    bias, dropout = pick.choice(["none", "none", "none", "rel.1h", "alibi"]), pick.choice([0, 0, 0.1])
    sink, train = pick.choice(["none", "none", "learned"]), pick.random() < 0.6
    deterministic = train and pick.random() < 0.3
    words = [f"b=2:hq={hq}:hkv={hkv}:sq={sq}:skv={skv}:dqk={dqk}:dv={dv}:invalid={int(hq % hkv != 0)}",
             f"dtype={dtype}:layout={layout}:mask={mask}" + (f":align={align}:wl={left}" if align else ""),
             f"lens={'random' if padded else 'none'}:bias={bias}:sink={sink}:dropout={dropout}",
             f"det={int(deterministic)}:pass={'train' if train else 'fwd'}:arch=sm{arch}"]
    number = (4 if align == "br" else 2 if align else 0) + padded
    return ":".join(words), [train, DTYPES[dtype], DTYPES[dtype], LAYOUTS[layout], BIASES[bias], number,
                             2 if sink == "learned" else 0, float(dropout), hq, hkv, sq, skv, dqk, dv, left,
                             0 if align else -1, 0, 0, deterministic, arch]


def main(cache, program, attest, count=6000):
    cache, pick, bad, admitted = pathlib.Path(cache), random.Random(5), 0, 0
    half = FusedHalf(program, cache, cache / "te" / VERSION, 19)
    for name, number in CUDNN.items():
        drawn = dict(draw(pick) for _ in range(int(count) // len(CUDNN)))  # equal cases are asked once
        command = [attest, "select", *drawn, "--selector", f"nvte-{VERSION}", "--env", f"cudnn={name}", "--format", "jsonl"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        for (case, arguments), line in zip(drawn.items(), lines, strict=True):
            real, rules = half.ask(*arguments, number, -1) > 0, "fused" in json.loads(line)["admitted"]
            admitted += real
            if real != rules:
                bad += 1
                print(f"cudnn={name} {case}: the release {'admits' if real else 'refuses'}")
    print(f"{count} cases, {admitted} admitted, {bad} disagreements")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
