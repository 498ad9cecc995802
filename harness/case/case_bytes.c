#include "harness/case/field.h"

#include <string.h>

/* How the bytes of a row become a value, in table order; other rows are decoded by kind alone. */
typedef struct byte_rule {
    const char *key;
    int64_t most;    /* INT: largest value, smaller than the row's own */
    bool rare;       /* the default three times in four: few backends know the feature */
    double reals[8]; /* REAL: the values, the default first */
} byte_rule;

static const byte_rule rules[] = {
    {.key = "b", .most = 4},
    {.key = "hq", .most = 8},
    {.key = "hkv", .most = 8},
    {.key = "sq", .most = 512},
    {.key = "skv", .most = 512},
    {.key = "dqk", .most = 256},
    {.key = "dv", .most = 256},
    {.key = "hv", .most = 8},
    {.key = "pack", .rare = true},
    {.key = "stride", .rare = true},
    {.key = "align", .most = 512},
    {.key = "wl", .most = 512},
    {.key = "wr", .most = 512},
    {.key = "amask", .rare = true},
    {.key = "gap", .most = 64, .rare = true},
    {.key = "bias", .rare = true},
    {.key = "softcap", .reals = {0, 50, 30, 15, 1, 0.5, 1e-3, 1e4}},
    {.key = "scale", .reals = {AT_SCALE_AUTO, 0.125, 1, 0.08838834764831845, -0.125, 0, 1e-3, 4}},
    {.key = "sink", .rare = true},
    {.key = "dropout", .rare = true, .reals = {0, 0.1, 0.5, 0.25, 0.01, 0.9, 0.99, 1e-6}},
    {.key = "page", .most = 1024, .rare = true},
    {.key = "splits", .most = 16, .rare = true},
    {.key = "exec", .rare = true},
    {.key = "arch", .rare = true},
    {.key = ""},
};

typedef struct byte_source {
    const uint8_t *next;
    size_t left;
} byte_source;

static uint64_t take(byte_source *in, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n && in->left > 0; i++, in->next++, in->left--) {
        value |= (uint64_t)*in->next << (8 * i);
    }
    return value;
}

/* Index into the row's values: names first, then the numbers from min up. */
static int64_t int_value(const at_field *f, const byte_rule *rule, uint64_t index)
{
    int64_t names = f->name_count, most = rule->most > 0 ? rule->most : f->max;
    int64_t i = (int64_t)(index % (uint64_t)(names + most - f->min + 1));
    return i < names ? -1 - i : f->min + i - names;
}

static void decode_list(at_case *c, const at_field *f, byte_source *in)
{
    at_len_list *list = at_case_list(c, f);
    list->n = (int32_t)(take(in, 1) & 1) * (int32_t)c->batch;
    for (int32_t i = 0; i < list->n; i++) {
        list->len[i] = (int32_t)take(in, 2);
    }
}

static void decode_row(at_case *c, const at_field *f, const byte_rule *rule, byte_source *in)
{
    if (f->same_as != NULL && (take(in, 1) & 1) == 0) {
        at_case_set(c, f, at_field_init(c, f));
        return;
    }
    uint64_t gate = rule->rare ? take(in, 1) : 3;
    if (f->kind == AT_FIELD_LIST) {
        decode_list(c, f, in);
    } else if (f->kind == AT_FIELD_REAL) {
        *at_case_real(c, f) = rule->reals[(gate & 3) == 3 ? take(in, 1) % 8 : 0];
    } else if ((gate & 3) != 3) {
        at_case_set(c, f, f->init);
    } else if (f->kind == AT_FIELD_INT) {
        at_case_set(c, f, int_value(f, rule, take(in, 2)));
    } else if (f->kind == AT_FIELD_ENUM) {
        at_case_set(c, f, (int64_t)(take(in, 1) % (uint64_t)f->name_count));
    } else if (f->kind == AT_FIELD_SET) {
        at_case_set(c, f, 1 + (int64_t)(take(in, 1) % ((UINT64_C(1) << f->name_count) - 1)));
    } else {
        at_case_set(c, f, (int64_t)take(in, 8));
    }
}

static int64_t gcd(int64_t a, int64_t b)
{
    return b == 0 ? a : gcd(b, a % b);
}

/* Each repair removes one contradiction of case_check.c and makes none that is checked before it.
 */
static void repair_heads(at_case *c)
{
    bool qkv = c->pack == AT_PACK_QKV3H || c->pack == AT_PACK_QKVH3;
    c->invalid = 0;
    c->heads_kv = qkv ? c->heads_q : gcd(c->heads_q, c->heads_kv);
    c->heads_v = c->pack != AT_PACK_NONE ? c->heads_kv : gcd(c->heads_q, c->heads_v);
    c->dim_v = c->pack != AT_PACK_NONE ? c->dim_qk : c->dim_v;
    c->len_kv = qkv ? c->len_q : c->len_kv;
    if (c->pack != AT_PACK_NONE && c->stride != AT_STRIDE_DOUT_OTHER) {
        c->stride = AT_STRIDE_PACKED;
    }
    if (qkv || c->pass == AT_PASS_TRAIN) {
        c->page = 0;
    }
}

static void repair_mask(at_case *c)
{
    if (c->mask == AT_MASK_NONE) {
        c->window_left = c->window_right = AT_UNBOUNDED;
    }
    if (c->mask == AT_MASK_CAUSAL && c->window_right > 0) {
        c->window_right = 0;
    }
    if (c->mask == AT_MASK_NONE && c->bias != AT_BIAS_ALIBI) {
        c->align = AT_ALIGN_TL;
    }
    if (c->amask == AT_AMASK_NONE && c->mask != AT_MASK_BAND) {
        c->dead_rows = 0;
    }
}

static void fit_list(at_len_list *list, const at_case *c, int64_t size)
{
    list->n = (int32_t)c->batch;
    for (int32_t i = 0; i < list->n; i++) {
        list->len[i] = (int32_t)(list->len[i] % (size + 1));
    }
}

static void repair_lengths(at_case *c)
{
    bool qkv = c->pack == AT_PACK_QKV3H || c->pack == AT_PACK_QKVH3;
    if (c->lens_q.n > 0 && c->lens_kv.n > 0) {
        c->lens = AT_LENS_NONE;
        fit_list(&c->lens_q, c, c->len_q);
        fit_list(&c->lens_kv, c, c->len_kv);
        c->lens_kv = qkv && c->layout == AT_THD ? c->lens_q : c->lens_kv;
    } else {
        c->lens_q.n = c->lens_kv.n = 0;
        if (c->lens == AT_LENS_NONE && (c->layout == AT_THD || c->page != 0)) {
            c->lens = AT_LENS_FULL;
        }
    }
    if (c->layout != AT_THD) {
        c->gap = 0;
    }
}

static void repair_gradients(at_case *c)
{
    const int64_t usual = AT_GRAD_Q | AT_GRAD_K | AT_GRAD_V;
    c->grads &= c->bias < AT_BIAS_REL_11 ? ~AT_GRAD_B : -1;
    c->grads &= c->sink != AT_SINK_LEARNED ? ~AT_GRAD_S : -1;
    if (c->grads == 0 || c->pass != AT_PASS_TRAIN) {
        c->grads = usual;
    }
    if (c->pass != AT_PASS_TRAIN) {
        c->deterministic = 0;
        c->stride = c->stride == AT_STRIDE_DOUT_OTHER ? AT_STRIDE_PACKED : c->stride;
    }
    if (c->dtype != AT_F8E4M3 && c->dtype != AT_F8E5M2 &&
        (c->odt == AT_F8E4M3 || c->odt == AT_F8E5M2)) {
        c->odt = c->dtype;
    }
}

void at_case_from_bytes(at_case *out, const uint8_t *bytes, size_t n)
{
    byte_source in = {bytes, n};
    memset(out, 0, sizeof *out);
    static const byte_rule plain = {.key = ""};
    const byte_rule *rule = rules;
    for (size_t row = 0; row < at_case_field_count; row++) {
        const at_field *f = &at_case_fields[row];
        bool own = strcmp(rule->key, f->key) == 0;
        decode_row(out, f, own ? rule : &plain, &in);
        rule += own;
    }
    AT_ASSERT(rule->key[0] == '\0'); /* every rule met its row */
    repair_heads(out);
    repair_mask(out);
    repair_lengths(out);
    repair_gradients(out);
    AT_ASSERT(at_case_check(out, NULL) == AT_OK);
}
