#!/usr/bin/env python3
"""Draws boxes of audits and holds their selection side against the releases: check_boxes.py ATTEST CACHE OUT [--boxes N]

Runs the audits below with the built ATTEST, draws N of their boxes (200; the same ones for the same corpus: half evenly
over the claims that stand behind them, half at random), and asks the release itself (host.py, CACHE is what fetch.py
fills, te_fused_half lies beside ATTEST) about the example and up to CELLS other cases of every box of a te-* rule set.
OUT gets one JSON line a box: selector, env, example, claim (capability set, outcome, message, source), asked, agree.
Prints the claims with their numbers, and ends with 1 when a release decides otherwise than the rule set.
"""
import argparse
import collections
import itertools
import json
import pathlib
import random
import subprocess
import sys

CELLS = 8
ASK = """import json, sys
sys.path.insert(0, sys.argv[4])
import host
h = host.Host(sys.argv[1], sys.argv[2], sys.argv[3] or None)
for line in sys.stdin:
    q = json.loads(line)
    print(json.dumps(h.ask(q["case"], q["env"])["admitted"]), flush=True)
"""


def audits():
    """(selector, arch, env, space) of all audits that are drawn from."""
    for selector in ("te-2.20", "te-2.18"):
        for build in ("2025-02", "2025-04", "2025-09"):
            yield selector, "sm90", f"fa3={build},fused=0", "training"
        for arch, build in itertools.product(("sm90", "sm100", "sm120"), ("b11", "b27", "b36")):
            yield selector, arch, f"fa4=4.0.0{build},fused=0", "training"
        yield selector, "sm110", "fa4=4.0.0b11,fused=0", "training"
        for arch in ("sm80", "sm86", "sm121"):
            yield selector, arch, "fused=0", "training"
        yield selector, "sm90", "fa3=3.0.0,fa4=4.0.0b27,te.fp8=current", "fp8"
    for arch, cudnn in itertools.product(("sm90", "sm100", "sm110", "sm121"), ("9.14.0", "9.19.0")):
        yield "te-2.18", arch, f"cudnn={cudnn}", "cudnn"
    yield "te-2.18", "sm103", "cudnn=9.21.0", "fp8"
    yield "torch-2.11", "sm90", "cudnn=9.19.0", "cudnn"
    for name, arch in (("fa2-2.8", "sm80"), ("fa3", "sm90"), ("fa4-b11", "sm100"), ("fa4-b27", "sm90"), ("fa4-b36", "sm100")):
        yield name, arch, "", "training"


def boxes(attest):
    for selector, arch, env, space in audits():
        command = [attest, "audit", "--selector", selector, "--arch", arch, "--space", space, "--format", "jsonl"]
        done = subprocess.run(command + (["--env", env] if env else []), capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            sys.exit(done.stderr)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        print(f"check_boxes: {selector} {arch} {env} {space}: {len(found)} boxes", file=sys.stderr, flush=True)
        yield from found


def claim(box):
    return (box["capabilities"], box["direction"], box["refusing_rule"] or "", box["step"], box["outcome"],
            box["message"] or "", box["evidence"], box["source"])


def draw(found, n):
    """Half of them one of each claim in turn, half any other."""
    rng = random.Random(0)
    by_claim = collections.defaultdict(list)
    for i, box in enumerate(found):
        by_claim[claim(box)].append(i)
    for group in by_claim.values():
        rng.shuffle(group)
    kept = []
    for turn in itertools.count():
        taken = [by_claim[key][turn] for key in sorted(by_claim) if turn < len(by_claim[key])]
        kept += taken[:n // 2 - len(kept)]
        if len(kept) == n // 2 or not taken:
            break
    rest = [i for i in range(len(found)) if i not in set(kept)]
    return sorted(kept + rng.sample(rest, min(n - len(kept), len(rest))))


def points(value):
    """The partial cases of an axis of a box: a list such as "8..64/8,512", or texts."""
    if isinstance(value, list):
        return value
    out = []
    for part in value.split(","):
        span, _, step = part.partition("/")
        first, dots, last = span.partition("..")
        out += [str(k) for k in range(int(first), int(last) + 1, int(step or 1))] if dots else [part]
    return out


def cells(box, attest):
    """The example, and up to CELLS other cases of the box, as canonical text."""
    rng = random.Random(box["example"])
    axes = {key: points(value) for key, value in box["box"].items()}
    fixed = box["example"].split(":")
    texts = set()
    for _ in range(4 * CELLS):
        case = dict(pair.split("=", 1) for pair in fixed)
        for key, values in axes.items():
            value = rng.choice(values)
            pairs = [pair.split("=", 1) for pair in value.split(":")] if "=" in value else [(key, value)]
            for name in {p.split("=", 1)[0] for v in values if "=" in v for p in v.split(":")}:
                case.pop(name, None)
            case.update(pairs)
        texts.add(":".join(f"{k}={v}" for k, v in case.items()))
    plain = []
    for text in sorted(texts)[:CELLS]:
        listed = subprocess.run([attest, "list", text], capture_output=True, text=True, check=False)
        line = listed.stdout.strip()
        relation = {"dqk != dv": lambda a, b: a != b, "dqk == dv": lambda a, b: a == b, "dqk < dv": lambda a, b: a < b,
                    "dqk > dv": lambda a, b: a > b, "dqk <= dv": lambda a, b: a <= b, "dqk >= dv": lambda a, b: a >= b}
        if listed.returncode == 0 and "\n" not in line:
            case = dict(pair.split("=", 1) for pair in line.split(":"))
            dqk = int(case.get("dqk", 64))
            if box["relation"] is None or relation[box["relation"]](dqk, int(case.get("dv", dqk))):
                plain.append(line)
    return [box["example"]] + [line for line in plain if line != box["example"]]


class Release:
    """host.py of one release in its own process; None for rule sets that copy none."""

    def __init__(self, attest, cache, version):
        half = pathlib.Path(attest).with_name("te_fused_half") if version < "2.20" else ""
        folder = pathlib.Path(__file__).parent
        self.process = subprocess.Popen([sys.executable, "-c", ASK, cache, version, str(half), str(folder)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def admitted(self, case, env):
        self.process.stdin.write(json.dumps({"case": case, "env": env}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        while not line.startswith("["):  # what libraries print
            line = self.process.stdout.readline()
        return json.loads(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("attest")
    parser.add_argument("cache")
    parser.add_argument("out")
    parser.add_argument("--boxes", type=int, default=200)
    arguments = parser.parse_args()
    found = list(boxes(arguments.attest))
    chosen = [found[i] for i in draw(found, arguments.boxes)]
    releases, told, wrong = {}, collections.Counter(), 0
    with open(arguments.out, "w") as out:
        for box in chosen:
            asked = agree = 0
            name = box["selector"]
            if name.startswith("te-"):
                if name not in releases:
                    releases[name] = Release(arguments.attest, arguments.cache, name[3:])
                for text in cells(box, arguments.attest):
                    asked += 1
                    agree += (box["backend"] in releases[name].admitted(text, box["env"])) == (box["direction"] == "admits")
            wrong += asked - agree
            told[claim(box)] += 1
            print(json.dumps({"selector": name, "env": box["env"], "example": box["example"], "claim": claim(box),
                              "asked": asked, "agree": agree}), file=out)
    for key, n in sorted(told.items()):
        print(n, *key, sep=" | ")
    print(f"check_boxes: {len(found)} boxes, {len(chosen)} drawn, {len(told)} claims, {wrong} decisions unlike the release's")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
