"""The names that Transformer Engine imports from FlashAttention 3, over torch.ops.flash_attn_3 of xformers' build."""
import torch

import fa3_ops

_ops, VERSION = fa3_ops.load()


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, common, lengths, num_splits, pack_gqa, deterministic):
        out, lse, *_ = _ops.fwd(q, k, v, num_splits=num_splits, pack_gqa=pack_gqa, **lengths, **common)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.given = {**lengths, **common, "deterministic": deterministic}
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, do, _):
        q, k, v, out, lse = ctx.saved_tensors
        grads = [torch.empty_like(x) for x in (q, k, v)]
        _ops.bwd(do.contiguous() if do.stride(-1) != 1 else do, q, k, v, out, lse, *grads, **ctx.given)
        return (*grads, *[None] * 5)


def _call(q, k, v, lengths, softmax_scale, causal, window_size, softcap, num_splits, pack_gqa, deterministic,
          return_attn_probs):
    common = {"softmax_scale": q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale, "is_causal": causal,
              "window_size_left": window_size[0], "window_size_right": window_size[1], "softcap": softcap}
    out, lse = _Attention.apply(q, k, v, common, lengths, num_splits, pack_gqa, deterministic)
    return (out, lse) if return_attn_probs else out


def flash_attn_func(q, k, v, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, num_splits=1,
                    pack_gqa=None, deterministic=False, return_attn_probs=False):
    return _call(q, k, v, {}, softmax_scale, causal, window_size, softcap, num_splits, pack_gqa, deterministic,
                 return_attn_probs)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q=None,
                           seqused_k=None, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                           num_splits=1, pack_gqa=None, deterministic=False, return_attn_probs=False):
    lengths = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k, "seqused_q": seqused_q,
               "seqused_k": seqused_k, "max_seqlen_q": max_seqlen_q, "max_seqlen_k": max_seqlen_k}
    return _call(q, k, v, lengths, softmax_scale, causal, window_size, softcap, num_splits, pack_gqa, deterministic,
                 return_attn_probs)


def flash_attn_with_kvcache(*_, softcap=0.0, **__):
    raise NotImplementedError("a KV cache is not hosted here")


def _flash_attn_forward(*_, **__):
    raise NotImplementedError("context parallelism is not hosted here")


_flash_attn_backward = _flash_attn_forward
