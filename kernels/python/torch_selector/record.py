"""Records which kernel PyTorch's scaled_dot_product_attention takes: the answers of torch._fused_sdp_choice and of
the can_use functions behind it, on the CUDA device at hand, for cases sampled from a seed. One line a case, as in
corpus/selectors/golden/torch-2.11.jsonl; --sample keeps one line of each combination of answer and inputs.

    python3 record.py --count 100000 --out torch-2.11.jsonl            compared by: ATTEST_GOLDEN=FOLDER ctest -R fidelity
"""

import argparse
import json
import random

import torch
import torch.backends.cuda as backends

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
DIMS = [8, 16, 32, 40, 64, 72, 80, 96, 104, 128, 136, 160, 192, 200, 224, 232, 256, 264, 320, 512]
DIMS += [1, 4, 7, 12, 36, 60, 100, 127, 129, 130, 257]
KERNELS = {"MATH": "math", "FLASH_ATTENTION": "flash", "EFFICIENT_ATTENTION": "efficient", "CUDNN_ATTENTION": "cudnn"}
SWITCHES = ["flash", "efficient", "cudnn", "math"]
CASE = {"b": 1, "hq": 1, "hkv": "hq", "sq": 64, "skv": "sq", "dqk": 64, "dv": "dqk", "hv": "hkv", "invalid": 0}
CASE |= {"dtype": "bf16", "layout": "bshd", "mask": "none", "amask": "none", "bias": "none", "dropout": 0.0}
CASE |= {"det": 0, "grads": "qkv", "pass": "train", "arch": "any"}


def draw(rng):
    """A case and the process around it."""
    c = {"b": rng.choice([1, 2, 2, 3]), "hq": rng.choice([1, 2, 4, 6, 8, 16])}
    c["sq"] = rng.choice([0, 1, 2, 7, 64, 65, 128, 129, 512])
    c["skv"] = c["sq"] if rng.random() < 0.6 else rng.choice([0, 1, 2, 63, 64, 65, 128, 200, 513, 1024])
    c["hkv"] = c["hq"] if rng.random() < 0.6 else rng.choice([1, 2, 3, 4, 8, 16])
    if c["hq"] % c["hkv"] and rng.random() < 0.85:
        c["hkv"] = c["hq"]
    c["hv"] = c["hkv"] if rng.random() < 0.95 else rng.choice([1, 2, 4])
    c["invalid"] = int(c["hq"] % c["hkv"] != 0 or c["hq"] % c["hv"] != 0)
    c["dqk"] = rng.choice(DIMS)
    c["dv"] = c["dqk"] if rng.random() < 0.7 else rng.choice(DIMS)
    c["dtype"] = rng.choice(["bf16", "bf16", "f16", "f32"])
    c["layout"] = rng.choice(["bshd", "bhsd", "sbhd"])
    c["mask"] = rng.choice(["none", "causal"])
    c["amask"], c["bias"] = "none", "none"
    kind = rng.random()
    if c["mask"] == "none" and kind < 0.2:
        c["amask"] = rng.choice(["bool", "add"]) + "." + rng.choice(["11", "b1", "1h", "bh"])
    elif c["mask"] == "none" and kind < 0.35:
        c["bias"] = "rel." + rng.choice(["11", "b1", "1h", "bh"])
    c["dropout"] = rng.choice([0.1, 0.125, 0.5]) if rng.random() < 0.15 else 0.0
    c["pass"] = rng.choice(["train", "fwd"])
    c["grads"] = "qkv"
    if c["pass"] == "train" and rng.random() < 0.25:
        c["grads"] = rng.choice(["q", "v", "qkvb", "b"] if c["bias"] != "none" else ["q", "v", "kv"])
    process = {"switched_off": [], "gqa": rng.random() < 0.8, "deterministic": rng.random() < 0.1}
    switch = rng.random()
    if switch < 0.25:
        process["switched_off"] = [rng.choice(SWITCHES)]
    elif switch < 0.28:
        process["switched_off"] = ["flash", "efficient", "cudnn"] + rng.choice([[], ["math"]])
    return c, process


def tensor(b, h, s, d, dtype, layout):
    if layout == "bhsd":
        return torch.empty(b, h, s, d, device="cuda", dtype=dtype)
    if layout == "bshd":
        return torch.empty(b, s, h, d, device="cuda", dtype=dtype).transpose(1, 2)
    return torch.empty(s, b, h, d, device="cuda", dtype=dtype).permute(1, 2, 0, 3)


def inputs(c):
    dtype, train = DTYPES[c["dtype"]], c["pass"] == "train"
    q = tensor(c["b"], c["hq"], c["sq"], c["dqk"], dtype, c["layout"])
    k = tensor(c["b"], c["hkv"], c["skv"], c["dqk"], dtype, c["layout"])
    v = tensor(c["b"], c["hv"], c["skv"], c["dv"], dtype, c["layout"])
    for name, t in zip("qkv", (q, k, v)):
        t.requires_grad_(train and name in c["grads"])
    kind = c["amask"] if c["amask"] != "none" else c["bias"]
    if kind == "none":
        return q, k, v, None
    shape = (c["b"] if kind[-2] == "b" else 1, c["hq"] if kind[-1] == "h" else 1, c["sq"], c["skv"])
    mask = torch.empty(shape, device="cuda", dtype=torch.bool if kind.startswith("bool") else dtype)
    mask.requires_grad_(train and "b" in c["grads"])
    return q, k, v, mask


def ask(c, process):
    """The kernel taken (None: none is left) and those that may be taken."""
    on = {name: name not in process["switched_off"] for name in SWITCHES}
    torch.use_deterministic_algorithms(process["deterministic"])
    backends.enable_flash_sdp(on["flash"])
    backends.enable_mem_efficient_sdp(on["efficient"])
    backends.enable_cudnn_sdp(on["cudnn"])
    backends.enable_math_sdp(on["math"])
    q, k, v, mask = inputs(c)
    gqa = process["gqa"] and (c["hq"] != c["hkv"] or c["hv"] != c["hkv"])
    causal = c["mask"] == "causal"
    params = backends.SDPAParams(q, k, v, mask, c["dropout"], causal, gqa)
    may = {
        "cudnn": backends.can_use_cudnn_attention(params, False),
        "flash": backends.can_use_flash_attention(params, False),
        "efficient": backends.can_use_efficient_attention(params, False),
        "math": on["math"],
    }
    try:
        choice = torch._fused_sdp_choice(q, k, v, mask, c["dropout"], causal, scale=None, enable_gqa=gqa)
    except RuntimeError:
        choice = -1
    taken = {int(b): name for name, b in torch.nn.attention.SDPBackend.__members__.items()}.get(choice)
    return KERNELS.get(taken), [name for name, yes in may.items() if yes]


def canonical(c):
    words = []
    for key, default in CASE.items():
        value = c.get(key, default)
        if value != c.get(default, default) if isinstance(default, str) else value != default:
            words.append(f"{key}={value}")
    return ":".join(words)


def line(c, process, cudnn, arch):
    taken, admitted = ask(c, process)
    det = process["deterministic"] and c["pass"] == "train"
    env = [f"cudnn={cudnn}"]
    env += [("cudnn_sdp" if name == "cudnn" else name) + "=0" for name in SWITCHES if name in process["switched_off"]]
    env += [] if process["gqa"] else ["gqa=0"]
    env += ["deterministic=1"] if process["deterministic"] and not det else []
    text = canonical(c | {"det": int(det), "arch": arch})
    key = (taken, tuple(admitted), tuple(env), c["dtype"], c["mask"], c["amask"][:4], c["bias"], c["pass"], det)
    key += (c["dropout"] > 0, c["grads"] == "qkv", c["invalid"], c["sq"] == 1, c["skv"] == 1)
    return key, {"case": text, "env": ",".join(env), "winner": taken, "admitted": admitted}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=0, help="keep at most so many lines, one of each kind")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    release = torch.backends.cudnn.version()
    cudnn = f"{release // 10000}.{release // 100 % 100}.{release % 100}"
    arch = "sm%d%d" % torch.cuda.get_device_capability()
    kept, seen = 0, set()
    with open(options.out, "w", encoding="utf-8") as out:
        for _ in range(options.count):
            key, record = line(*draw(rng), cudnn, arch)
            if options.sample > 0 and (key in seen or kept == options.sample):
                continue
            seen.add(key)
            kept += 1
            out.write(json.dumps(record, separators=(",", ":")) + "\n")
    print(f"torch {torch.__version__}, cuDNN {cudnn}, {arch}: {kept} of {options.count} kept")


if __name__ == "__main__":
    main()
