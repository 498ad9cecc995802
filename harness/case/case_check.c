#include "harness/case/field.h"

#include <stdio.h>

/* Elements of one tensor, and of one score matrix where a dense mask or bias is stored. */
static const int64_t element_limit = INT64_C(1) << 40;

static at_status check_ranges(const at_case *c, at_error *err)
{
    for (size_t row = 0; row < at_case_field_count; row++) {
        const at_field *f = &at_case_fields[row];
        if (!at_case_in_range(c, f)) {
            return at_fail(err, AT_INVALID, "the value of %s is out of range, it takes %s", f->key,
                           f->accepts);
        }
    }
    return AT_OK;
}

static at_status check_heads(const at_case *c, at_error *err)
{
    const char *key = c->heads_q % c->heads_kv != 0  ? "hkv"
                      : c->heads_q % c->heads_v != 0 ? "hv"
                                                     : NULL;
    int64_t heads = c->heads_q % c->heads_kv != 0 ? c->heads_kv : c->heads_v;
    if (key != NULL && c->invalid == 0) {
        return at_fail(err, AT_INVALID,
                       "hq=%lld is not a multiple of %s=%lld; invalid=1 marks such a case, which "
                       "every backend must refuse",
                       (long long)c->heads_q, key, (long long)heads);
    }
    if (key == NULL && c->invalid != 0) {
        return at_fail(err, AT_INVALID,
                       "invalid=1 needs heads that do not divide, hq=%lld is a multiple of "
                       "hkv=%lld and hv=%lld",
                       (long long)c->heads_q, (long long)c->heads_kv, (long long)c->heads_v);
    }
    return AT_OK;
}

/* a b h d, all >= 0 and < 2^25, stays under the limit. */
static bool fits(int64_t a, int64_t b, int64_t h, int64_t d)
{
    int64_t most = element_limit;
    const int64_t factors[] = {a, b, h, d};
    for (int i = 0; i < 4; i++) {
        if (factors[i] == 0) {
            return true;
        }
        most /= factors[i];
    }
    return most >= 1;
}

static at_status check_sizes(const at_case *c, at_error *err)
{
    int64_t dim = c->dim_qk > c->dim_v ? c->dim_qk : c->dim_v;
    int64_t heads = c->heads_kv > c->heads_v ? c->heads_kv : c->heads_v;
    int64_t q = c->len_q + c->gap, kv = c->len_kv + c->gap;
    if (!fits(c->batch, q, c->heads_q, dim)) {
        return at_fail(err, AT_INVALID,
                       "b * sq * hq * max(dqk, dv) is more than 2^40 elements, one tensor takes at "
                       "most that");
    }
    if (!fits(c->batch, kv, heads, dim)) {
        return at_fail(err, AT_INVALID,
                       "b * skv * max(hkv, hv) * max(dqk, dv) is more than 2^40 elements, one "
                       "tensor takes at most that");
    }
    int amask = at_amask_broadcast((at_amask)c->amask), bias = at_bias_broadcast((at_bias)c->bias);
    bool dense_mask = c->amask != AT_AMASK_NONE, dense_bias = c->bias >= AT_BIAS_REL_11;
    if (dense_mask &&
        !fits((amask & 1) ? c->batch : 1, (amask & 2) ? c->heads_q : 1, c->len_q, c->len_kv)) {
        return at_fail(err, AT_INVALID,
                       "the dense mask amask would have more than 2^40 elements, take a smaller "
                       "sq, skv or broadcast");
    }
    if (dense_bias &&
        !fits((bias & 1) ? c->batch : 1, (bias & 2) ? c->heads_q : 1, c->len_q, c->len_kv)) {
        return at_fail(err, AT_INVALID,
                       "the bias would have more than 2^40 elements, take a smaller sq, skv or "
                       "broadcast");
    }
    return AT_OK;
}

static at_status check_mask(const at_case *c, at_error *err)
{
    if (c->mask == AT_MASK_CAUSAL && c->window_right > 0) {
        return at_fail(err, AT_INVALID,
                       "mask=causal with wr=%lld contradicts itself, causal takes wr=-1 or wr=0 "
                       "(mask=band takes any)",
                       (long long)c->window_right);
    }
    if (c->mask == AT_MASK_NONE &&
        (c->window_left != AT_UNBOUNDED || c->window_right != AT_UNBOUNDED)) {
        return at_fail(
            err, AT_INVALID,
            "%s=%lld needs mask=causal or mask=band, with mask=none there is no window",
            c->window_left != AT_UNBOUNDED ? "wl" : "wr",
            (long long)(c->window_left != AT_UNBOUNDED ? c->window_left : c->window_right));
    }
    if (c->align != AT_ALIGN_TL && c->mask == AT_MASK_NONE && c->bias != AT_BIAS_ALIBI) {
        return at_fail(err, AT_INVALID,
                       "align needs a diagonal: mask=causal, mask=band or bias=alibi");
    }
    if (c->dead_rows != 0 && c->amask == AT_AMASK_NONE && c->mask != AT_MASK_BAND) {
        return at_fail(err, AT_INVALID,
                       "deadrows=1 needs a dense mask (amask) or mask=band to leave rows without "
                       "keys");
    }
    return AT_OK;
}

static at_status check_list(const char *key, const at_len_list *list, int64_t batch,
                            const char *size_key, int64_t size, at_error *err)
{
    if (list->n != batch) {
        return at_fail(err, AT_INVALID, "%s holds %d lengths and b=%lld, one a sequence is needed",
                       key, (int)list->n, (long long)batch);
    }
    for (int32_t i = 0; i < list->n; i++) {
        if (list->len[i] > size) {
            return at_fail(err, AT_INVALID, "%s holds the length %d, at most %s=%lld is accepted",
                           key, (int)list->len[i], size_key, (long long)size);
        }
    }
    return AT_OK;
}

static bool equal_lists(const at_len_list *a, const at_len_list *b)
{
    for (int32_t i = 0; i < a->n; i++) {
        if (a->len[i] != b->len[i]) {
            return false;
        }
    }
    return true;
}

static at_status check_lengths(const at_case *c, at_error *err)
{
    bool q = c->lens_q.n > 0, kv = c->lens_kv.n > 0;
    if (q != kv) {
        return at_fail(err, AT_INVALID, "%s needs %s too, explicit lengths come in pairs",
                       q ? "lenq" : "lenkv", q ? "lenkv" : "lenq");
    }
    if (q && c->lens != AT_LENS_NONE) {
        return at_fail(err, AT_INVALID,
                       "lens and lenq, lenkv exclude each other: a kind, or explicit lengths");
    }
    if (q) {
        AT_TRY(check_list("lenq", &c->lens_q, c->batch, "sq", c->len_q, err));
        AT_TRY(check_list("lenkv", &c->lens_kv, c->batch, "skv", c->len_kv, err));
    }
    if (c->layout == AT_THD && !q && c->lens == AT_LENS_NONE) {
        return at_fail(err, AT_INVALID,
                       "layout=thd needs lengths: lens other than none, or lenq and lenkv");
    }
    if (c->gap != 0 && c->layout != AT_THD) {
        return at_fail(err, AT_INVALID,
                       "gap=%lld needs layout=thd, only there sequences lie one after the other",
                       (long long)c->gap);
    }
    return AT_OK;
}

static at_status check_pack(const at_case *c, at_error *err)
{
    bool qkv = c->pack == AT_PACK_QKV3H || c->pack == AT_PACK_QKVH3;
    if (c->pack == AT_PACK_NONE) {
        return AT_OK;
    }
    if (c->heads_kv != c->heads_v || c->dim_qk != c->dim_v) {
        return at_fail(err, AT_INVALID, "pack puts k and v in one buffer: hkv=hv and dqk=dv only");
    }
    if (qkv && (c->heads_q != c->heads_kv || c->len_q != c->len_kv)) {
        return at_fail(err, AT_INVALID,
                       "pack=qkv3h and qkvh3 put q, k, v in one buffer: hq=hkv and sq=skv only");
    }
    if (c->stride != AT_STRIDE_PACKED && c->stride != AT_STRIDE_DOUT_OTHER) {
        return at_fail(err, AT_INVALID,
                       "pack sets the strides of q, k, v: stride=packed or dout_other only");
    }
    if (qkv && c->page != 0) {
        return at_fail(err, AT_INVALID,
                       "page needs k and v apart from q: pack=none, kv2h or kvh2 only");
    }
    if (qkv && c->layout == AT_THD && !equal_lists(&c->lens_q, &c->lens_kv)) {
        return at_fail(err, AT_INVALID,
                       "pack=qkv3h and qkvh3 with layout=thd share the lengths: lenq equal to "
                       "lenkv only");
    }
    return AT_OK;
}

static at_status check_gradients(const at_case *c, at_error *err)
{
    const int64_t usual = AT_GRAD_Q | AT_GRAD_K | AT_GRAD_V;
    const char *key = c->grads != usual                   ? "grads"
                      : c->deterministic != 0             ? "det=1"
                      : c->stride == AT_STRIDE_DOUT_OTHER ? "stride=dout_other"
                                                          : NULL;
    if (c->pass != AT_PASS_TRAIN && key != NULL) {
        return at_fail(err, AT_INVALID, "%s needs pass=train, there is no backward otherwise", key);
    }
    if ((c->grads & AT_GRAD_B) != 0 && c->bias < AT_BIAS_REL_11) {
        return at_fail(err, AT_INVALID, "b in grads needs a stored bias: bias=rel.11 1h b1 or bh");
    }
    if ((c->grads & AT_GRAD_S) != 0 && c->sink != AT_SINK_LEARNED) {
        return at_fail(err, AT_INVALID, "s in grads needs sink=learned");
    }
    return AT_OK;
}

static at_status check_rest(const at_case *c, at_error *err)
{
    if (c->page != 0 && c->pass == AT_PASS_TRAIN) {
        return at_fail(err, AT_INVALID,
                       "page=%lld needs pass=fwd or pass=stats, a paged cache has no backward",
                       (long long)c->page);
    }
    if (c->page != 0 && c->lens == AT_LENS_NONE && c->lens_kv.n == 0) {
        return at_fail(err, AT_INVALID,
                       "page=%lld needs the keys of each sequence: lens other than none, or lenq "
                       "and lenkv",
                       (long long)c->page);
    }
    bool fp8 = c->dtype == AT_F8E4M3 || c->dtype == AT_F8E5M2;
    bool fp8_out = c->odt == AT_F8E4M3 || c->odt == AT_F8E5M2;
    if (fp8_out && !fp8) {
        return at_fail(err, AT_INVALID,
                       "odt=%s needs an fp8 dtype, it is for outputs of fp8 attention",
                       c->odt == AT_F8E4M3 ? "f8e4m3" : "f8e5m2");
    }
    return AT_OK;
}

at_status at_case_check(const at_case *c, at_error *err)
{
    AT_TRY(check_ranges(c, err));
    AT_TRY(check_heads(c, err));
    AT_TRY(check_mask(c, err));
    AT_TRY(check_lengths(c, err));
    AT_TRY(check_pack(c, err));
    AT_TRY(check_gradients(c, err));
    AT_TRY(check_rest(c, err));
    return check_sizes(c, err);
}
