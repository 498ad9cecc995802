#include "harness/problem/strides.h"

#include <string.h>

#include "harness/problem/lens.h"

enum { B, H, S, D }; /* places in shape and stride */

static bool is_paged(const at_case *c, at_tensor_id id)
{
    return c->page != 0 && (id == AT_K || id == AT_V);
}

int64_t at_case_pages_wide(const at_case *c)
{
    return c->page != 0 ? (c->len_kv + c->page - 1) / c->page : 0;
}

int64_t at_case_pages(const at_case *c)
{
    int64_t used = c->batch * at_case_pages_wide(c);
    return c->page != 0 ? used + used / 4 + 1 : 0;
}

/* Tokens of all sequences and the gaps between them. */
static int64_t count_tokens(const at_case *c, bool keys)
{
    int64_t tokens = 0;
    for (int64_t b = 0; b < c->batch; b++) {
        at_extent x = at_extent_of(c, b);
        tokens += (keys ? x.len_kv : x.len_q) + (b + 1 < c->batch ? c->gap : 0);
    }
    return tokens;
}

/* Slices of the buffer that tensor `id` lies in, and which of them it is. */
static int64_t slices_of(const at_case *c, at_tensor_id id, int64_t *part)
{
    static const int8_t order[AT_TENSOR_COUNT] = {[AT_K] = 1, [AT_V] = 2, [AT_DK] = 1, [AT_DV] = 2};
    bool qkv = c->pack == AT_PACK_QKV3H || c->pack == AT_PACK_QKVH3;
    bool sliced = id == AT_K || id == AT_V || id == AT_DK || id == AT_DV ||
                  (qkv && (id == AT_Q || id == AT_DQ));
    *part = 0;
    if (c->pack == AT_PACK_NONE || !sliced) {
        return 1;
    }
    *part = qkv ? order[id] : order[id] - 1;
    return qkv ? 3 : 2;
}

static at_tensor_id home_of(const at_case *c, at_tensor_id id)
{
    int64_t part = 0;
    int64_t slices = slices_of(c, id, &part);
    bool gradient = id == AT_DQ || id == AT_DK || id == AT_DV;
    return slices == 1 ? id : slices == 3 ? (gradient ? AT_DQ : AT_Q) : (gradient ? AT_DK : AT_K);
}

/* Strides of dimensions that stand in `order`, innermost first, each `count` long and followed by
 * gap[] elements. Returns the elements of all, -1 beyond 2^63. */
static int64_t stack(int64_t stride[4], const int order[4], const int64_t count[4],
                     const int64_t gap[4])
{
    int64_t total = 1;
    for (int i = 0; i < 4; i++) {
        int k = order[i];
        stride[k] = total + gap[k];
        if (__builtin_mul_overflow(stride[k], count[k], &total)) {
            return -1;
        }
    }
    return total;
}

static bool is_gapped(at_tensor_id id)
{
    return id <= AT_O || (id >= AT_DQ && id <= AT_DV);
}

/* Tensors that follow the layout: q k v do o dq dk dv. */
static void in_layout(at_strides *out, const at_case *c, at_tensor_id id)
{
    static const int orders[][4] = {[AT_BSHD] = {D, H, S, B},
                                    [AT_SBHD] = {D, H, B, S},
                                    [AT_BHSD] = {D, S, H, B},
                                    [AT_THD] = {D, H, S, B}};
    static const int head_major[4] = {D, S, H, B};
    static const int8_t others[] = {
        [AT_BSHD] = AT_BHSD, [AT_SBHD] = AT_BSHD, [AT_BHSD] = AT_BSHD, [AT_THD] = AT_THD};
    int64_t layout = c->layout, part = 0, slices = slices_of(c, id, &part);
    bool other = id == AT_DO && c->stride == AT_STRIDE_DOUT_OTHER;
    int64_t count[4] = {out->shape[B], slices * out->shape[H], out->shape[S], out->shape[D]};
    const int64_t gap[4] = {
        [S] = c->stride == AT_STRIDE_ROW_GAP ? AT_STRIDE_GAP : 0,
        [H] = c->stride == AT_STRIDE_HEAD_GAP ? AT_STRIDE_GAP : 0,
    };
    if (is_paged(c, id)) {
        layout = layout == AT_BHSD ? AT_BHSD : AT_BSHD;
        count[B] = at_case_pages(c);
        count[S] = c->page;
    } else if (layout == AT_THD) {
        count[B] = 1;
        count[S] = count_tokens(c, at_tensor_has_keys(id));
    }
    bool expanded = c->stride == AT_STRIDE_EXPAND_KV && (id == AT_K || id == AT_V);
    bool over_batch = expanded && out->shape[H] == 1 && layout != AT_THD && !is_paged(c, id);
    count[over_batch ? B : H] =
        expanded ? (count[over_batch ? B : H] > 0) : count[over_batch ? B : H];
    const int *order =
        other && layout == AT_THD ? head_major : orders[other ? others[layout] : layout];
    out->elements = stack(out->stride, order, count, gap);
    if (slices > 1) {
        bool apart = c->pack == AT_PACK_QKV3H || c->pack == AT_PACK_KV2H;
        int64_t unit = out->stride[H];
        out->offset = part * unit * (apart ? out->shape[H] : 1);
        out->stride[H] = apart ? unit : slices * unit;
    }
    if (expanded) {
        out->stride[over_batch ? B : H] = 0;
    }
    if (c->layout == AT_THD && !is_paged(c, id)) {
        out->stride[B] = 0;
    }
    if (c->stride == AT_STRIDE_OFFSET && out->elements >= 0) {
        out->offset = AT_STRIDE_OFFSET_BYTES / (int64_t)at_dtype_size(out->dtype);
        out->elements += out->offset;
    }
}

/* Tensors in [b h s d] order whatever the layout; a broadcast dimension has size 1 and stride 0. */
static void in_order(at_strides *out, bool one_batch, bool one_head)
{
    static const int order[4] = {D, S, H, B};
    static const int64_t no_gap[4] = {0, 0, 0, 0};
    out->shape[B] = one_batch ? 1 : out->shape[B];
    out->shape[H] = one_head ? 1 : out->shape[H];
    out->elements = stack(out->stride, order, out->shape, no_gap);
    out->stride[B] = one_batch ? 0 : out->stride[B];
    out->stride[H] = one_head ? 0 : out->stride[H];
}

static bool exists(const at_case *c, at_tensor_id id)
{
    bool train = c->pass == AT_PASS_TRAIN;
    switch (id) {
    case AT_Q:
    case AT_K:
    case AT_V:
    case AT_O:
        return true;
    case AT_LSE:
        return c->pass != AT_PASS_FWD;
    case AT_DO:
    case AT_DQ:
    case AT_DK:
    case AT_DV:
        return train;
    case AT_BIAS:
        return c->bias >= AT_BIAS_REL_11;
    case AT_AMASK:
        return c->amask != AT_AMASK_NONE;
    case AT_SINK:
        return c->sink == AT_SINK_LEARNED;
    case AT_PAGES:
        return c->page != 0;
    case AT_DROP:
        return c->dropout > 0;
    case AT_DBIAS:
        return train && (c->grads & AT_GRAD_B) != 0;
    case AT_DSINK:
        return train && (c->grads & AT_GRAD_S) != 0;
    case AT_TENSOR_COUNT:
        break;
    }
    return false;
}

static void set_shape(at_strides *out, const at_case *c, at_tensor_id id)
{
    const int64_t q_heads = c->heads_q, len = at_tensor_has_keys(id) ? c->len_kv : c->len_q;
    const int64_t heads = id == AT_K || id == AT_DK   ? c->heads_kv
                          : id == AT_V || id == AT_DV ? c->heads_v
                                                      : q_heads;
    const bool values = id == AT_V || id == AT_DV || id == AT_O || id == AT_DO;
    const bool square = id == AT_BIAS || id == AT_DBIAS || id == AT_AMASK || id == AT_DROP;
    const bool row = id == AT_LSE, sink = id == AT_SINK || id == AT_DSINK;
    const int64_t dim = square ? c->len_kv : row || sink ? 1 : values ? c->dim_v : c->dim_qk;
    const int64_t shape[4] = {c->batch, heads, sink ? 1 : len, dim};
    const int64_t table[4] = {c->batch, 1, 1, at_case_pages_wide(c)};
    memcpy(out->shape, id == AT_PAGES ? table : shape, sizeof shape);
}

static at_dtype dtype_of(const at_case *c, at_tensor_id id)
{
    bool fp8 = c->dtype == AT_F8E4M3 || c->dtype == AT_F8E5M2;
    at_dtype in = (at_dtype)c->dtype, wide = fp8 ? AT_F32 : in;
    bool boolean = c->amask >= AT_AMASK_BOOL_11 && c->amask <= AT_AMASK_BOOL_BH;
    switch (id) {
    case AT_O:
    case AT_DO:
        return (at_dtype)c->odt;
    case AT_LSE:
    case AT_SINK:
    case AT_DSINK:
        return AT_F32;
    case AT_BIAS:
    case AT_DBIAS:
        return wide;
    case AT_AMASK:
        return boolean ? AT_U8 : wide;
    case AT_DROP:
        return AT_U8;
    case AT_PAGES:
        return AT_I32;
    case AT_Q:
    case AT_K:
    case AT_V:
    case AT_DQ:
    case AT_DK:
    case AT_DV:
    case AT_TENSOR_COUNT:
        break;
    }
    return in;
}

void at_case_strides(at_strides *out, const at_case *c, at_tensor_id id)
{
    *out = (at_strides){.exists = exists(c, id), .dtype = dtype_of(c, id), .home = home_of(c, id)};
    set_shape(out, c, id);
    if (is_gapped(id)) {
        in_layout(out, c, id);
    } else if (id == AT_AMASK) {
        int broadcast = at_amask_broadcast((at_amask)c->amask);
        in_order(out, !(broadcast & 1), !(broadcast & 2));
    } else if (id == AT_BIAS || id == AT_DBIAS) {
        int broadcast = at_bias_broadcast((at_bias)c->bias);
        in_order(out, !(broadcast & 1), !(broadcast & 2));
    } else {
        in_order(out, id == AT_SINK || id == AT_DSINK, false);
    }
}
