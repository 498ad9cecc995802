#!/usr/bin/env python3
"""What a backend does with each pair of head dims: head_dims.py RESULTS.jsonl[.gz] OUT writes OUT.json and OUT.svg.

Of several results for one pair the worst is shown. Only results with equal heads and without a mask are taken."""
import gzip, json, sys

STATES = {  # worst first: colour, what it says
    "wrong": ("#c0392b", "silently wrong"), "faults": ("#8e44ad", "faults: the CUDA context or the process dies"),
    "refuses backward": ("#e67e22", "forward runs, backward refuses"),
    "refuses": ("#f1c40f", "forward refuses or does not compile"),
    "unsupported": ("#bdc3c7", "refused by its own check"), "runs": ("#27ae60", "runs, forward and backward right")}
FAULTS = {"CRASH", "DEVICE_LOST", "TIMEOUT", "FLAKY"}


def state(result):
    if result["status"] == "PASS":
        return "runs"
    if result["status"] == "UNSUPPORTED":
        return "unsupported"
    if result["status"] == "REFUSED":
        step = next(s["step"] for s in result["steps"] if s["status"] == "REFUSED")
        return "refuses backward" if step == "backward" else "refuses"
    return "faults" if result["status"] in FAULTS else "wrong"


def pairs(path):
    """{(dqk, dv): (state, step, message)} of the file."""
    found, order = {}, list(STATES)
    for line in gzip.open(path, "rt") if path.endswith(".gz") else open(path):
        result = json.loads(line)
        case = dict(word.split("=") for word in result.get("case", "").split(":") if word)
        if not case or "hkv" in case or "mask" in case:
            continue
        dqk = int(case.get("dqk", 64))
        key, now = (dqk, int(case.get("dv", dqk))), state(result)
        message = "" if now in ("runs", "unsupported") else result["message"][:200]
        if key not in found or order.index(now) < order.index(found[key][0]):
            step = next((s["step"] for s in result["steps"] if s["status"] == result["status"]), "")
            found[key] = now, step if message else "", message, result["case"]
    return found


def picture(found, title):
    size, left, top, last = 16, 60, 60, 32
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + last * size + 20}" '
           f'height="{top + last * size + 60 + 20 * len(STATES)}" font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="#fff"/>', f'<text x="{left}" y="20" font-size="14">{title}</text>',
           f'<text x="{left}" y="{top - 22}">dv, 8 to 256</text><text x="8" y="{top + 10}">dqk</text>']
    for i in range(1, last + 1):
        if i % 4 == 0:
            out.append(f'<text x="{left + (i - 1) * size}" y="{top - 6}">{8 * i}</text>')
            out.append(f'<text x="{left - 30}" y="{top + i * size - 4}">{8 * i}</text>')
        for j in range(1, last + 1):
            now = found.get((8 * i, 8 * j))
            colour = STATES[now[0]][0] if now else "#f4f4f4"
            tip = f"{now[0]}: {now[2] or now[3]}" if now else "not tried"
            tip = tip.replace("&", "&amp;").replace("<", "&lt;")
            out.append(f'<rect x="{left + (j - 1) * size}" y="{top + (i - 1) * size}" width="{size - 1}" '
                       f'height="{size - 1}" fill="{colour}"><title>{8 * i} x {8 * j}: {tip}</title></rect>')
    y = top + last * size + 24
    counts = {name: sum(v[0] == name for v in found.values()) for name in STATES}
    for name, (colour, text) in STATES.items():
        out.append(f'<rect x="{left}" y="{y - 11}" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{left + 20}" y="{y}">{text}: {counts[name]}</text>')
        y += 20
    share = 100 * sum(a % 8 == 0 and b % 8 == 0 and max(a, b) <= 256 for a, b in found) / last ** 2
    out.append(f'<text x="{left}" y="{y}">not tried: the rest; {share:.1f} % of the plane was tried</text></svg>')
    return "\n".join(out)


def main(path, out):
    found = pairs(path)
    rows = [{"dqk": a, "dv": b, "state": v[0], "step": v[1], "message": v[2], "case": v[3]}
            for (a, b), v in sorted(found.items())]
    with open(out + ".json", "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    with open(out + ".svg", "w") as file:
        file.write(picture(found, out.rpartition("/")[2]) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    main(*sys.argv[1:])
