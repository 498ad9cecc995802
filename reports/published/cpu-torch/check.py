"""The finding on PyTorch's CPU flash kernel without attest, the formula in NumPy's float64 beside it.

    .cache/torch/bin/python reports/published/cpu-torch/check.py
"""
import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


def formula(q, k, v, scale, causal):
    s = scale * q.astype(np.float64) @ k.T.astype(np.float64)
    s = np.where(np.tril(np.ones(s.shape, bool)), s, -np.inf) if causal else s
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def main():
    q, k, v = np.random.default_rng(1).standard_normal((3, 2, 8)).astype(np.float32)
    inputs = [torch.from_numpy(x[None, None].copy()) for x in (q, k, v)]
    print("torch", torch.__version__)
    for scale in (1.0, 0.0, -1.0):
        for causal in (True, False):
            want = formula(q, k, v, scale, causal)
            for kernel in (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
                with sdpa_kernel([kernel]):
                    out = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal, scale=scale)
                out = out.numpy()[0, 0]
                nans = np.isnan(out).sum()
                text = f"{nans} of {out.size} are NaN" if nans else "differs by at most %.3g" % np.abs(out - want).max()
                print(f"scale {scale:4} is_causal {causal!s:5} {kernel.name:16} {text}")


if __name__ == "__main__":
    main()
