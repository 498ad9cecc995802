#include "kernels/cudnn_spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static at_status refuse(at_reason *why, const char *code, const char *text)
{
    (void)snprintf(why->code, sizeof why->code, "%s", code);
    (void)snprintf(why->text, sizeof why->text, "%s", text);
    return AT_UNSUPPORTED;
}

/* What the API cannot say, whatever the version. */
static at_status check(const at_case *c, at_step step, at_reason *why)
{
    if (c->amask >= AT_AMASK_BOOL_11 && c->amask <= AT_AMASK_BOOL_BH) {
        return refuse(why, "cudnn_bool_mask", "amask=bool.*: a bias tensor cannot be boolean");
    }
    if (c->amask != AT_AMASK_NONE && c->bias >= AT_BIAS_REL_11) {
        return refuse(why, "cudnn_two_biases",
                      "amask and bias=rel.* both need the one bias tensor");
    }
    if (c->softcap != 0) {
        return refuse(why, "cudnn_softcap", "softcap: only as a caller's score modifier graph");
    }
    if (c->sink == AT_SINK_OFF1) {
        return refuse(why, "cudnn_off1_sink",
                      "sink=off1: the sink token is a tensor (sink=learned)");
    }
    if (c->stride != AT_STRIDE_PACKED && c->stride != AT_STRIDE_DOUT_OTHER) {
        return refuse(why, "cudnn_stride", "stride: only packed and dout_other are mapped yet");
    }
    if (c->exec != AT_EXEC_ONCE) {
        return refuse(why, "cudnn_exec", "exec: offline graphs are only planned, exec=once");
    }
    if (c->batch == 0 || c->len_q == 0 || c->len_kv == 0) {
        return refuse(why, "cudnn_empty", "b, sq or skv is 0: callers return before they ask");
    }
    if (step == AT_STEP_BACKWARD && c->page > 0) {
        return refuse(why, "cudnn_paged_backward", "page: the backward has no paged K and V");
    }
    return AT_OK;
}

static at_cudnn_type type_of(int64_t dtype)
{
    static const at_cudnn_type types[] = {AT_CUDNN_F32, AT_CUDNN_F16, AT_CUDNN_BF16, AT_CUDNN_E4M3,
                                          AT_CUDNN_E5M2};
    return types[dtype];
}

/* Strides of [b h s d] in a buffer whose rows hold `slices` tensors: 3 for qkv, 2 for kv, else 1;
 * heads_first: the slices lie inside each head (h3, h2), else around the heads (3h, 2h). */
static at_cudnn_tensor place(const at_case *c, int64_t layout, int64_t h, int64_t s, int64_t d,
                             int64_t slices, bool heads_first)
{
    const int64_t b = c->batch, head = heads_first ? slices * d : d, row = slices * h * d;
    at_cudnn_tensor t = {{b, h, s, d}, {s * row, head, row, 1}}; /* bshd and thd */
    if (layout == AT_SBHD) {
        t.stride[0] = row;
        t.stride[2] = b * row;
    } else if (layout == AT_BHSD) {
        t.stride[0] = slices * h * s * d;
        t.stride[1] = (heads_first ? slices : 1) * s * d;
        t.stride[2] = d;
    }
    return t;
}

static void place_all(at_cudnn_spec *out, const at_case *c)
{
    const bool qkv = c->pack == AT_PACK_QKV3H || c->pack == AT_PACK_QKVH3;
    const bool inside = c->pack == AT_PACK_QKVH3 || c->pack == AT_PACK_KVH2;
    const int64_t q_slices = qkv ? 3 : 1, kv_slices = qkv ? 3 : c->pack != AT_PACK_NONE ? 2 : 1;
    out->q = place(c, c->layout, c->heads_q, c->len_q, c->dim_qk, q_slices, inside);
    out->k = place(c, c->layout, c->heads_kv, c->len_kv, c->dim_qk, kv_slices, inside);
    out->v = place(c, c->layout, c->heads_v, c->len_kv, c->dim_v, kv_slices, inside);
    out->o = place(c, c->layout, c->heads_q, c->len_q, c->dim_v, 1, false);
    const int64_t other = c->layout == AT_BHSD ? AT_BSHD : AT_BHSD;
    out->dout = place(c, c->stride == AT_STRIDE_DOUT_OTHER ? other : c->layout, c->heads_q,
                      c->len_q, c->dim_v, 1, false);
    if (c->page > 0) {
        const int64_t pages = (c->len_kv + c->page - 1) / c->page * c->batch, p = c->page;
        const at_cudnn_tensor k = {{pages, c->heads_kv, p, c->dim_qk},
                                   {c->heads_kv * p * c->dim_qk, p * c->dim_qk, c->dim_qk, 1}};
        const at_cudnn_tensor v = {{pages, c->heads_v, p, c->dim_v},
                                   {c->heads_v * p * c->dim_v, p * c->dim_v, c->dim_v, 1}};
        out->k = k;
        out->v = v;
    }
}

/* attest keeps keys i+off-wl <= j <= i+off+wr; cuDNN keeps j > i+shift-left and j <= i+shift+right,
 * with shift 0 or, bottom right, len_kv - len_q. */
static void set_bounds(at_cudnn_spec *out, const at_case *c)
{
    const int64_t off = c->align >= 0 ? c->align : 0;
    out->bottom_right = c->align == AT_ALIGN_BR && c->mask != AT_MASK_NONE;
    out->has_left = c->mask != AT_MASK_NONE && c->window_left != AT_UNBOUNDED;
    out->left = out->has_left ? c->window_left + 1 - off : 0;
    const bool causal = c->mask == AT_MASK_CAUSAL;
    out->has_right = causal || (c->mask == AT_MASK_BAND && c->window_right != AT_UNBOUNDED);
    out->right = out->has_right ? (causal ? 0 : c->window_right) + off : 0;
}

static void set_extras(at_cudnn_spec *out, const at_case *c, bool backward)
{
    const bool dense = c->amask != AT_AMASK_NONE, rel = c->bias >= AT_BIAS_REL_11;
    const int cast =
        dense ? at_amask_broadcast((at_amask)c->amask) : at_bias_broadcast((at_bias)c->bias);
    out->bias = dense || rel;
    out->bias_batch = out->bias && (cast & 1) ? c->batch : 1;
    out->bias_heads = out->bias && (cast & 2) ? c->heads_q : 1;
    out->dbias = backward && rel && (c->grads & AT_GRAD_B) != 0;
    out->alibi = c->bias == AT_BIAS_ALIBI;
    out->has_dropout = c->dropout > 0;
    out->dropout = (float)c->dropout;
    out->sink = c->sink == AT_SINK_LEARNED;
    out->dsink = backward && out->sink && (c->grads & AT_GRAD_S) != 0;
    out->deterministic = c->deterministic != 0;
}

at_status at_cudnn_spec_init(at_cudnn_spec *out, const at_case *c, at_step step, int sm,
                             at_reason *why)
{
    memset(out, 0, sizeof *out);
    AT_TRY(check(c, step, why));
    const bool backward = step == AT_STEP_BACKWARD;
    out->backward = backward;
    out->type = type_of(c->dtype);
    out->out_type = type_of(c->odt);
    out->sm = sm;
    out->heuristics = "AF";
    out->scale = (float)(isfinite(c->scale) ? c->scale : 1 / sqrt((double)c->dim_qk));
    out->stats = c->pass != AT_PASS_FWD;
    out->ragged = c->layout == AT_THD;
    out->padding = c->lens != AT_LENS_NONE || c->lens_q.n > 0 || out->ragged || c->page > 0;
    out->page = c->page;
    out->len_kv = c->len_kv;
    place_all(out, c);
    set_bounds(out, c);
    set_extras(out, c, backward);
    return AT_OK;
}
