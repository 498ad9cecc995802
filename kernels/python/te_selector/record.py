#!/usr/bin/env python3
"""Records decisions of the releases: record.py CACHE FUSED_HALF OUT [VERSION...] [--inputs N] [--seed S]
[--sample FOLDER]

Asks the selector of each release N sampled questions and writes OUT/te-VERSION.jsonl, one object a line: case, env
(text of --env), winner, admitted, and sub, the fused sub-backend, where fused is admitted. --sample also writes
FOLDER/te-VERSION.jsonl, KEEP bytes of it: half by rare reasons, half any that asked the fused half. The same
arguments give the same bytes. CACHE is what fetch.py fills, FUSED_HALF the built te_fused_half.
"""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys

import fetch
import inputs

KEEP = 290000


def ask(arguments, version):
    """Yields (line, signature, whether the fused half was asked) for each question; once a process."""
    import host
    answers = host.Host(arguments.cache, version, arguments.fused_half)
    for case, env in inputs.Sampler(version, arguments.seed).questions(arguments.inputs):
        answer = answers.ask(case, env)
        record = {"case": case, "env": ",".join(f"{k}={v}" for k, v in env.items()), "winner": answer["winner"],
                  "admitted": answer["admitted"]}
        if answer["sub"] is not None:
            record["sub"] = answer["sub"]
        reasons = (*answer["reasons"], answer.get("refused_by", ""), f"winner {answer['winner']}")
        signature = (reasons, answer["sub"], *answer["admitted"])
        yield json.dumps(record, separators=(",", ":")) + "\n", signature, answers.asked


def sample(lines, limit):
    """At most `limit` bytes of what `ask` yields, in its order, which groups environments. The first half: one line of
    each signature, rarest reasons first. The rest: any of the same environments that asked the fused half, whose
    reasons are not told."""
    count = collections.Counter(reason for _, signature, _ in lines for reason in signature[0])
    rarity = [min(count[reason] for reason in signature[0]) for _, signature, _ in lines]
    asked = [i for i, (_, _, fused) in enumerate(lines) if fused]
    random.Random(0).shuffle(asked)
    seen, kept, size = set(), set(), 0
    for i in sorted(range(len(lines)), key=rarity.__getitem__):
        line, signature, _ = lines[i]
        if signature not in seen and size + len(line) <= limit // 2:
            seen.add(signature)
            kept.add(i)
            size += len(line)
    groups = {i // inputs.PER_ENVIRONMENT for i in kept}
    for i in asked:
        if i not in kept and i // inputs.PER_ENVIRONMENT in groups and size + len(lines[i][0]) <= limit:
            kept.add(i)
            size += len(lines[i][0])
    return [lines[i][0] for i in sorted(kept)]


def write(folder, version, lines):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"te-{version}.jsonl"
    path.write_text("".join(lines))
    print(f"record: {path}: {len(lines)} decisions, {path.stat().st_size} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cache")
    parser.add_argument("fused_half")
    parser.add_argument("out")
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--inputs", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample")
    arguments = parser.parse_args()
    versions = arguments.versions or list(fetch.RELEASES)
    if len(versions) > 1:
        for version in versions:
            subprocess.run([sys.executable, __file__, arguments.cache, arguments.fused_half, arguments.out, version,
                            "--inputs", str(arguments.inputs), "--seed", str(arguments.seed)]
                           + (["--sample", arguments.sample] if arguments.sample else []), check=True)
        return
    lines = list(ask(arguments, versions[0]))
    write(arguments.out, versions[0], [line for line, _, _ in lines])
    if arguments.sample:
        write(arguments.sample, versions[0], sample(lines, KEEP))


if __name__ == "__main__":
    main()
