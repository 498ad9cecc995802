"""What DotProductAttention would ask for a case and an environment: the mapping of reports/te-mapping.md, one way.

A case is its text, an environment a dictionary of texts; both as attest writes them. `parameters` gives the members of
AttentionParams as plain values and `switches` the process environment; `unsayable` says why a case has no counterpart.
"""

# keys of a case that selection reads, with their defaults; a name in <> is another key's value
CASE = {"b": 1, "hq": 1, "hkv": "<hq>", "sq": 64, "skv": "<sq>", "dqk": 64, "dv": "<dqk>", "hv": "<hkv>", "dtype":
        "bf16", "odt": "<dtype>", "layout": "bshd", "pack": "none", "mask": "none", "align": "tl", "wl": -1, "wr": -1,
        "amask": "none", "lens": "none", "lenq": "none", "lenkv": "none", "gap": 0, "bias": "none", "softcap": 0.0,
        "sink": "none", "dropout": 0.0, "page": 0, "splits": 0, "det": 0, "grads": "qkv", "pass": "train", "exec":
        "once", "arch": "any"}

# environment keys: what they accept first is the default
ENV = {"fa2": None, "fa3": None, "fa4": None, "cudnn": None,
       "flash": (1, 0), "flash_v2": (1, 0), "flash_v3": (1, 0), "flash_v4": (1, 0), "fused": (1, 0),
       "unfused": (1, 0), "fused_backend": ("auto", 0, 1), "unfused_fp8": (0, 1),
       "te.cp": (0, 1), "te.cp_comm": ("p2p", "all_gather", "a2a", "a2a+p2p"),
       "te.fp8": ("auto", "none", "delayed", "current", "mxfp8", "block", "nvfp4"), "te.fp8_dpa": (1, 0),
       "te.fp8_mha": (0, 1), "te.fp8_output": (0, 1), "te.qkv_type": ("auto", "tensor", "raw", "float8", "mxfp8"),
       "te.kv_cache": (0, 1), "te.kv_format": ("same", "bshd", "sbhd"),
       "te.pad_between_seqs": (0, 1), "te.cuda_graph": (0, 1), "te.max_logit": (0, 1),
       "te.score_mod": (0, 1), "te.score_mod_bprop": (0, 1), "te.checkpoint": (0, 1), "te.det": (0, 1),
       "te.eval_dropout": (0, 1), "te.num_splits": ("auto", 0), "te.alibi_slopes": ("none", "h", "bh"), "te.bias_scale": ("post", "pre"),
       "te.bias_row": (0, 1), "te.bias_grad": (0, 1), "te.fa3_softcap": (1, 0),
       "te.fused_answer": ("auto", "f16", "fp8", "none")}

SWITCHES = {"flash": "NVTE_FLASH_ATTN", "flash_v2": "NVTE_FLASH_ATTN_V2", "flash_v3": "NVTE_FLASH_ATTN_V3",
            "flash_v4": "NVTE_FLASH_ATTN_V4", "fused": "NVTE_FUSED_ATTN", "unfused": "NVTE_UNFUSED_ATTN",
            "fused_backend": "NVTE_FUSED_ATTN_BACKEND", "unfused_fp8": "NVTE_UnfusedDPA_Emulate_FP8"}

NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
PACKS = {"qkv3h": "3hd", "qkvh3": "h3d", "kv2h": "2hd", "kvh2": "h2d"}
ORDERS = {"bshd": "bs", "sbhd": "sb", "thd": "t"}


def parse(text):
    """Case text -> dictionary with every key of CASE; numbers as numbers. Unknown keys are left out."""
    case = dict(CASE)
    for pair in filter(None, text.split(":")):
        key, value = pair.split("=", 1)
        if key in case:
            case[key] = value
    for key, default in CASE.items():
        value = case[key]
        if isinstance(value, str) and value.startswith("<"):
            case[key] = case[value[1:-1]]
        elif isinstance(default, float):
            case[key] = float(value)
        elif not isinstance(default, str) or default.startswith("<"):
            case[key] = int(value) if str(value).lstrip("-").isdigit() else value
    return case


def option(env, key):
    """An environment value, or its default; numbers as numbers."""
    value = env.get(key, ENV[key][0])
    return int(value) if isinstance(value, str) and value.isdigit() else value


def layout_name(case, env):
    """The spelling in TE's QKVLayout, such as bshd_bs2hd or paged_kv_thd_bshd_bshd."""
    q = case["layout"]
    if case["pack"] != "none":
        slices = ORDERS[q] + PACKS[case["pack"]]
        return slices if case["pack"].startswith("qkv") else f"{q}_{slices}"
    kv = option(env, "te.kv_format")
    kv = q if kv == "same" else kv
    if case["page"]:
        kv = "bshd" if kv == "thd" else kv  # pages hold whole rows
        return f"paged_kv_{q}_{kv}_{kv}"
    return f"{q}_{kv}_{kv}"


def cached(case, env):
    """Whether InferenceParams are passed."""
    return case["page"] > 0 or option(env, "te.kv_cache") == 1


def padded(case, env):
    """Whether the mask is one of the padding kinds: lengths are passed, or must be."""
    return case["lens"] != "none" or case["lenq"] != "none" or case["layout"] == "thd" or cached(case, env)


def mask_name(case, env):
    """TE's attn_mask_type, after DotProductAttention has turned causal into bottom-right under a KV cache."""
    if case["amask"] != "none":
        return "arbitrary"
    name = "padding" if padded(case, env) else ""
    if case["mask"] != "causal":
        return name or "no_mask"
    corner = case["align"] == "br" or cached(case, env)
    return (name and name + "_") + "causal" + ("_bottom_right" if corner else "")


def window(case):
    """(left, right) before the release's own check_set_window_size."""
    if case["mask"] == "causal" and case["amask"] == "none":
        return (case["wl"], 0)
    return (case["wl"], case["wr"]) if case["mask"] == "band" else (-1, -1)


def bias_of(case, env, version):
    """(type, shape, requires_grad). The shape is what DotProductAttention finds from the sizes, in its order: a label
    before 2.20 (111s known from 2.14 on), a tuple since."""
    kind = case["bias"]
    if not kind.startswith("rel."):
        return {"none": "no_bias", "alibi": "alibi"}[kind], None, False
    b = case["b"] if "b" in kind[4:] else 1
    h = case["hq"] if "h" in kind[4:] else 1
    q = 1 if option(env, "te.bias_row") == 1 else case["sq"]
    if version >= (2, 20):
        shape = (b, h, q, case["skv"])
    elif h == case["hq"]:
        shape = "bhss" if b == case["b"] else "1hss"
    elif b == case["b"]:
        shape = "b1ss"
    else:
        shape = "111s" if q == 1 and version >= (2, 14) else "11ss"
    grad = "b" in case["grads"] or option(env, "te.bias_grad") == 1
    return option(env, "te.bias_scale") + "_scale_bias", shape, grad


def fp8_of(case, env):
    """(recipe with its two flags or None, qkv_type, qkv_dtype)."""
    eight = case["dtype"].startswith("f8")
    recipe, kind = option(env, "te.fp8"), option(env, "te.qkv_type")
    if recipe == "auto":
        recipe = "delayed" if eight and kind != "raw" else "none"
    if kind == "auto":
        kind = "float8" if eight else "tensor"
    dtype = NAMES[case["dtype"] if kind == "raw" or not eight else "bf16"]
    kind = "tensor" if kind == "raw" else kind
    dpa, mha = option(env, "te.fp8_dpa") == 1, option(env, "te.fp8_mha") == 1
    if recipe == "none":
        return None, kind, dtype
    block = recipe == "block"  # its class refuses FP8 attention
    return {"recipe": recipe, "fp8_dpa": dpa and not block, "fp8_mha": mha and not block}, kind, dtype


def unsayable(case, env, version):
    """Why no caller of DotProductAttention can express the case, or None."""
    if case["layout"] == "bhsd":
        return "qkv_format is one of sbhd, bshd, thd"
    if case["hv"] != case["hkv"] or case["hq"] % case["hkv"]:
        return "query heads are a multiple of the key heads, and as many heads carry values as keys"
    if case["align"] not in ("tl", "br"):
        return "the diagonal starts in a corner"
    if case["mask"] == "band" and (case["wl"] < 0) != (case["wr"] < 0):
        return "a window without causal has two bounds or none"
    if case["mask"] == "causal" and case["amask"] == "none" and cached(case, env) and case["align"] == "tl" \
            and case["sq"] != case["skv"]:
        return "with a KV cache every causal mask is bottom-right"
    if case["softcap"] != 0 and version < (2, 20):
        return "softcap is new in 2.20"
    if case["odt"] != case["dtype"] and not case["dtype"].startswith("f8"):
        return "the output has the type of the inputs"
    if cached(case, env) and case["pack"] != "none":
        return "a KV cache holds keys and values of their own"
    return None


def parameters(case, env, version):
    """Members of AttentionParams as plain values; types and recipes by name."""
    bias, shape, bias_grad = bias_of(case, env, version)
    recipe, qkv_type, qkv_dtype = fp8_of(case, env)
    parallel = option(env, "te.cp") == 1
    left_on = option(env, "te.eval_dropout") == 1 and case["pass"] != "train"
    mask = mask_name(case, env)
    slopes = {"none": None, "h": [case["hq"]], "bh": [case["b"], case["hq"]]}[option(env, "te.alibi_slopes")]
    return {
        "qkv_type": qkv_type, "qkv_dtype": qkv_dtype, "qkv_layout": layout_name(case, env),
        "nominal_dtype": NAMES["bf16" if case["dtype"].startswith("f8") else case["dtype"]],
        "batch_size": case["b"], "num_heads": case["hq"], "num_gqa_groups": case["hkv"], "max_seqlen_q": case["sq"],
        "max_seqlen_kv": case["skv"], "head_dim_qk": case["dqk"], "head_dim_v": case["dv"], "attn_mask_type": mask,
        "window_size": window(case),
        "bottom_right_diagonal": mask.endswith("bottom_right") if "causal" in mask else case["align"] == "br",
        "softcap": case["softcap"], "alibi_slopes_shape": slopes if bias == "alibi" else None,
        "core_attention_bias_type": bias, "core_attention_bias_shape": shape,
        "core_attention_bias_requires_grad": bias_grad,
        "pad_between_seqs": case["layout"] == "thd" and (case["gap"] > 0 or option(env, "te.pad_between_seqs") == 1),
        "attention_dropout": case["dropout"] or (0.1 if left_on else 0.0), "context_parallel": parallel,
        "cp_size": 2 if parallel else 1, "cp_size_a2a": 2 if parallel else 1,
        "cp_comm_type": option(env, "te.cp_comm"),
        "deterministic": case["det"] == 1 or option(env, "te.det") == 1, "is_training": case["pass"] == "train",
        "fp8": recipe is not None, "fp8_meta": recipe,
        "inference_params": {"is_paged": case["page"] > 0, "page_size": case["page"]} if cached(case, env) else None,
        "softmax_type": {"none": "vanilla", "off1": "off-by-one", "learned": "learnable"}[case["sink"]],
        "return_max_logit": option(env, "te.max_logit") == 1,
        "cuda_graph": case["exec"] == "replay" or option(env, "te.cuda_graph") == 1,
        "num_splits": 0 if option(env, "te.num_splits") == 0 else case["splits"] or 1,
        "fp8_output": option(env, "te.fp8_output") == 1,
        "checkpoint_core_attention": option(env, "te.checkpoint") == 1,
        "has_score_mod": option(env, "te.score_mod") == 1,
        "has_score_mod_bprop": option(env, "te.score_mod_bprop") == 1,
        "num_tokens_q": case["b"] * case["sq"] if case["layout"] == "thd" else 0,
        "num_tokens_kv": case["b"] * case["skv"] if case["layout"] == "thd" else 0, "softmax_scale": 1.0}


def switches(env):
    """The NVTE_ variables of the process."""
    return {name: str(env[key]) for key, name in SWITCHES.items() if env.get(key, "auto") != "auto"}
