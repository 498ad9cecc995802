#!/usr/bin/env python3
"""Records decisions of the releases: record.py CACHE FUSED_HALF OUT [--inputs N] [--keep BYTES] [VERSION...]

Asks the selector of each release N sampled questions and writes OUT/te-VERSION.jsonl, one object a line: case, env
(text of --env), winner, admitted, and sub, the fused sub-backend, where fused is admitted. With --keep, the file is a
sample of at most so many bytes: first one line of each (decision, set of reasons) seen, the rest of the same
environments. The same arguments give the same bytes. A release is asked in its own process.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys

import fetch


def ask(arguments, version):
    """Yields (line, signature) for each question; imports the release, so once a process."""
    import host
    import inputs
    answers = host.Host(arguments.cache, version, arguments.fused_half)
    for case, env in inputs.Sampler(version).questions(arguments.inputs):
        answer = answers.ask(case, env)
        record = {"case": case, "env": ",".join(f"{k}={v}" for k, v in env.items()), "winner": answer["winner"],
                  "admitted": answer["admitted"]}
        if answer["sub"] is not None:
            record["sub"] = answer["sub"]
        why = answer.get("refused_by", "")
        signature = (answer["winner"], answer["sub"], tuple(answer["admitted"]), tuple(answer["reasons"]), why)
        yield json.dumps(record, separators=(",", ":")) + "\n", signature


def sample(lines, limit):
    """At most `limit` bytes of (line, signature) pairs. Reasons are taken in the order of their rarity, so that each is
    there alone and in company before common ones fill the file; lines stay in order, which groups environments."""
    count = {}
    for _, signature in lines:
        for reason in signature[3] + signature[:1]:
            count[reason] = count.get(reason, 0) + 1
    rarity = [min((count[r] for r in s[3] + s[:1]), default=0) for _, s in lines]
    order = sorted(range(len(lines)), key=lambda i: rarity[i])
    random.Random(0).shuffle(tail := order[len(order) // 2:])
    order[len(order) // 2:] = tail
    seen, kept, size = set(), set(), 0
    for i in order:
        line, signature = lines[i]
        if signature not in seen and size + len(line) <= limit:
            seen.add(signature)
            kept.add(i)
            size += len(line)
    return [lines[i][0] for i in sorted(kept)]


def record(arguments, version):
    lines = list(ask(arguments, version))
    texts = sample(lines, arguments.keep) if arguments.keep else [line for line, _ in lines]
    path = pathlib.Path(arguments.out) / f"te-{version}.jsonl"
    path.write_text("".join(texts))
    print(f"record: {path}: {len(texts)} of {len(lines)} decisions, {path.stat().st_size} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cache")
    parser.add_argument("fused_half")
    parser.add_argument("out")
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--inputs", type=int, default=100000)
    parser.add_argument("--keep", type=int, default=0)
    arguments = parser.parse_args()
    versions = arguments.versions or list(fetch.RELEASES)
    if len(versions) == 1:
        record(arguments, versions[0])
        return
    pathlib.Path(arguments.out).mkdir(parents=True, exist_ok=True)
    for version in versions:
        subprocess.run([sys.executable, __file__, arguments.cache, arguments.fused_half, arguments.out, version,
                        "--inputs", str(arguments.inputs), "--keep", str(arguments.keep)], check=True)


if __name__ == "__main__":
    main()
