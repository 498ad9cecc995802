#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/score.h"

#include <math.h>
#include <string.h>

static bool is_boolean(const at_case *c)
{
    return c->amask >= AT_AMASK_BOOL_11 && c->amask <= AT_AMASK_BOOL_BH;
}

void at_score_init(at_score *out, const at_problem *p, const at_variant *variant)
{
    const at_case *c = &p->c;
    bool biased = c->bias != AT_BIAS_NONE;
    *out = (at_score){
        .p = p,
        .variant = *variant,
        .before = biased && variant->bias_before_cap && c->softcap > 0,
        .dropped = c->dropout > 0,
        .sink = c->sink != AT_SINK_NONE,
        .keep = 1 / (1 - c->dropout),
    };
    out->added = (biased && !out->before) || c->amask != AT_AMASK_NONE;
}

/* Values of row i of a dense tensor at the keys. */
static void load_keys(double *out, const at_tensor *t, int64_t b, int64_t h, int64_t i,
                      const at_score_keys *keys)
{
    if (keys->keys == NULL) {
        at_dtype_load_double(t->dtype, out, at_tensor_at(t, b, h, i, keys->first), (size_t)keys->n);
        return;
    }
    for (int64_t j = 0; j < keys->n; j++) {
        out[j] = at_tensor_get(t, b, h, i, keys->keys[j]);
    }
}

/* Slopes 2^(-8 (h + 1) / H); of the paper where H is no power of two: those of the next smaller
 * one, n, then every other one of 2 n. */
static double slope_of(const at_score *x, int64_t h)
{
    int64_t n = 1;
    while (2 * n <= x->p->c.heads_q) {
        n *= 2;
    }
    if (!x->variant.alibi_paper) {
        return at_alibi_slope(&x->p->c, h);
    }
    double place = h < n ? (double)(h + 1) : (double)(2 * (h - n) + 1) / 2;
    return exp2(-8 * place / (double)n);
}

static void add_alibi(const at_score *x, double *out, int64_t b, int64_t h, int64_t i,
                      const at_score_keys *keys)
{
    double slope = slope_of(x, h);
    int64_t off = x->p->diag[b];
    for (int64_t k = 0; k < keys->n; k++) {
        int64_t j = keys->keys != NULL ? keys->keys[k] : keys->first + k;
        double distance = (double)(i + off - j);
        out[k] += x->variant.alibi_signed ? slope * (double)(j - i) : -slope * fabs(distance);
    }
}

static void load_bias(const at_score *x, double *out, int64_t b, int64_t h, int64_t i,
                      const at_score_keys *keys)
{
    if (x->p->t[AT_BIAS].data != NULL) {
        load_keys(out, &x->p->t[AT_BIAS], b, h, i, keys);
    } else {
        memset(out, 0, (size_t)keys->n * sizeof *out);
    }
    if (x->p->c.bias == AT_BIAS_ALIBI) {
        add_alibi(x, out, b, h, i, keys);
    }
}

void at_score_before(const at_score *x, double *out, int64_t b, int64_t h, int64_t i,
                     const at_score_keys *keys)
{
    if (x->before) {
        load_bias(x, out, b, h, i, keys);
    } else {
        memset(out, 0, (size_t)keys->n * sizeof *out);
    }
}

void at_score_after(const at_score *x, double *out, int64_t b, int64_t h, int64_t i,
                    const at_score_keys *keys)
{
    enum { CHUNK = 512 };
    double mask[CHUNK];
    const at_tensor *t = &x->p->t[AT_AMASK];
    if (x->before) {
        memset(out, 0, (size_t)keys->n * sizeof *out);
    } else {
        load_bias(x, out, b, h, i, keys);
    }
    for (int64_t k = 0; t->data != NULL && k < keys->n; k += CHUNK) {
        at_score_keys some = {.first = keys->first + k, .n = keys->n - k};
        some.n = some.n < CHUNK ? some.n : CHUNK;
        some.keys = keys->keys != NULL ? keys->keys + k : NULL;
        load_keys(mask, t, b, h, i, &some);
        for (int64_t j = 0; j < some.n; j++) {
            double add = is_boolean(&x->p->c) ? (mask[j] != 0 ? 0 : -HUGE_VAL) : mask[j];
            out[k + j] += add;
        }
    }
}

void at_score_dropout(const at_score *x, double *out, int64_t b, int64_t h, int64_t i,
                      const at_score_keys *keys)
{
    load_keys(out, &x->p->t[AT_DROP], b, h, i, keys);
    for (int64_t j = 0; j < keys->n; j++) {
        out[j] = out[j] != 0 ? x->keep : 0;
    }
}

double at_score_sink(const at_score *x, int64_t h)
{
    return x->p->c.sink == AT_SINK_LEARNED ? at_tensor_get(&x->p->t[AT_SINK], 0, h, 0, 0) : 0;
}
