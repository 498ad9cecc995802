"""The mask of a case in FlashAttention's words: a causal flag, a window from the bottom right, lengths."""
from problem import need


def window(case, unbounded):
    """causal, (left, right) of a dense case; Unsupported where the corner is another or a dense mask is asked for."""
    need(case["amask"] == "none", "amask", "amask: there is no dense mask")
    if case.has_diagonal:
        len_q, len_kv, diagonal = case.extents()
        need(bool((diagonal == len_kv - len_q).all()), "align",
             f"align={case['align']}: the diagonal ends bottom right")
    side = lambda key: unbounded if case[key] < 0 or case["mask"] == "none" else case[key]
    causal = case["mask"] == "causal"
    return causal, (side("wl"), 0 if causal and case["wl"] >= 0 else unbounded if causal else side("wr"))
