#include "harness/tests/direct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double *at_direct_at(const at_direct *x, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    const int64_t *n = x->shape[id];
    int64_t b1 = n[0] > 1 ? b : 0, h1 = n[1] > 1 ? h : 0, s1 = n[2] > 1 ? s : 0;
    return x->t[id] + ((b1 * n[1] + h1) * n[2] + s1) * n[3];
}

static bool is_copied(at_tensor_id id)
{
    return (at_tensor_is_input(id) && id != AT_PAGES) || id == AT_DROP;
}

/* What a stored mask element adds to the score. */
static double mask_value(const at_problem *p, double stored)
{
    bool yes_or_no = p->c.amask < AT_AMASK_ADD_11;
    return !yes_or_no ? stored : stored != 0 ? 0 : -HUGE_VAL;
}

static void copy_tensor(at_direct *out, const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    bool rows = id <= AT_DO;
    for (int64_t b = 0; b < t->shape[0]; b++) {
        int64_t len = !rows ? t->shape[2] : id == AT_K || id == AT_V ? p->len_kv[b] : p->len_q[b];
        for (int64_t e = 0; e < t->shape[1] * len * t->shape[3]; e++) {
            int64_t d = e % t->shape[3], s = e / t->shape[3] % len, h = e / t->shape[3] / len;
            double x = at_tensor_get(t, b, h, s, d) * (double)p->unit[id];
            at_direct_at(out, id, b, h, s)[d] = id == AT_AMASK ? mask_value(p, x) : x;
        }
    }
}

void at_direct_open(at_direct *out, const at_problem *p, const at_variant *variant)
{
    const at_case *c = &p->c;
    memset(out, 0, sizeof *out);
    out->c = *c;
    out->variant = *variant;
    out->scale = c->scale == AT_SCALE_AUTO ? pow((double)c->dim_qk, -0.5) : c->scale;
    for (int64_t b = 0; b < c->batch; b++) {
        out->len_q[b] = p->len_q[b];
        out->len_kv[b] = p->len_kv[b];
        out->off[b] = c->align == AT_ALIGN_TL   ? 0
                      : c->align == AT_ALIGN_BR ? p->len_kv[b] - p->len_q[b]
                                                : c->align;
    }
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        memcpy(out->shape[id], p->t[id].shape, sizeof out->shape[id]);
        out->n[id] = 1;
        for (int i = 0; i < 4; i++) {
            out->n[id] *= out->shape[id][i];
        }
        out->t[id] = calloc((size_t)out->n[id] + 1, sizeof(double));
        AT_ASSERT(out->t[id] != NULL);
        if (is_copied((at_tensor_id)id) && p->t[id].data != NULL) {
            copy_tensor(out, p, (at_tensor_id)id);
        }
    }
    at_direct_run(out);
}

void at_direct_close(at_direct *x)
{
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        free(x->t[id]);
    }
}

static bool sees(const at_direct *x, int64_t b, int64_t i, int64_t j)
{
    const at_case *c = &x->c;
    if (i >= x->len_q[b] || j >= x->len_kv[b]) {
        return false;
    }
    int64_t ahead = j - (i + x->off[b]);
    if (c->mask == AT_MASK_CAUSAL && ahead > 0) {
        return false;
    }
    bool right = c->mask != AT_MASK_NONE && c->window_right != AT_UNBOUNDED;
    bool left = c->mask != AT_MASK_NONE && c->window_left != AT_UNBOUNDED;
    return !(right && ahead > c->window_right) && !(left && -ahead > c->window_left);
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* Bias and ALiBi of one pair. */
static double bias_of(const at_direct *x, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const at_case *c = &x->c;
    if (c->bias >= AT_BIAS_REL_11) {
        return at_direct_at(x, AT_BIAS, b, h, i)[j];
    }
    double heads = (double)c->heads_q, n = pow(2, floor(log2(heads))), place = (double)(h + 1);
    if (x->variant.alibi_paper) {
        heads = n;
        place = (double)h < n ? place : (double)h - n + 0.5;
    }
    double slope = pow(2, -8 * place / heads);
    double distance = (double)(x->variant.alibi_signed ? i - j : llabs(i + x->off[b] - j));
    return c->bias == AT_BIAS_ALIBI ? -slope * distance : 0;
}

static double keep_of(const at_direct *x, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return x->c.dropout > 0 ? at_direct_at(x, AT_DROP, b, h, i)[j] / (1 - x->c.dropout) : 1;
}

/* S of one head [len_q len_kv]; `slope` gets the cap's derivative. */
static void scores(const at_direct *x, int64_t b, int64_t h, double *s, double *slope)
{
    const at_case *c = &x->c;
    int64_t h_k = h * c->heads_kv / c->heads_q;
    for (int64_t e = 0; e < c->len_q * c->len_kv; e++) {
        int64_t i = e / c->len_kv, j = e % c->len_kv;
        double score = x->scale * dot(at_direct_at(x, AT_Q, b, h, i),
                                      at_direct_at(x, AT_K, b, h_k, j), c->dim_qk);
        double bias = bias_of(x, b, h, i, j);
        score += x->variant.bias_before_cap ? bias : 0;
        double t = c->softcap > 0 ? tanh(score / c->softcap) : 0;
        score = c->softcap > 0 ? c->softcap * t : score;
        score += x->variant.bias_before_cap ? 0 : bias;
        score += c->amask != AT_AMASK_NONE ? at_direct_at(x, AT_AMASK, b, h, i)[j] : 0;
        slope[e] = 1 - t * t;
        s[e] = sees(x, b, i, j) ? score : -HUGE_VAL;
    }
}

/* P of one head in the place of S, LSE, and the sinks' probabilities in `sink` [len_q]. */
static void probabilities(const at_direct *x, int64_t b, int64_t h, double *p, double *sink)
{
    const at_case *c = &x->c;
    double extra = c->sink == AT_SINK_LEARNED ? *at_direct_at(x, AT_SINK, 0, h, 0)
                   : c->sink == AT_SINK_OFF1  ? 0
                                              : -HUGE_VAL;
    for (int64_t i = 0; i < c->len_q; i++) {
        double *row = p + i * c->len_kv, sum = 0, largest = extra;
        for (int64_t j = 0; j < c->len_kv; j++) {
            largest = fmax(largest, row[j]);
        }
        for (int64_t j = 0; j < c->len_kv; j++) {
            row[j] = row[j] > -HUGE_VAL ? exp(row[j] - largest) : 0;
            sum += row[j];
        }
        double keys = sum;
        sink[i] = extra > -HUGE_VAL ? exp(extra - largest) : 0;
        sum += sink[i];
        double lse = largest + log(x->variant.lse_without_sink ? keys : sum);
        *at_direct_at(x, AT_LSE, b, h, i) = x->variant.lse_log2 ? lse * log2(exp(1)) : lse;
        for (int64_t j = 0; j < c->len_kv && sum > 0; j++) {
            row[j] /= sum;
        }
        sink[i] = sum > 0 ? sink[i] / sum : 0;
    }
}

/* What one pair of dS adds to the gradients. */
static void add_pair(const at_direct *x, int64_t b, int64_t h, int64_t i, int64_t j, double ds,
                     double slope)
{
    const at_case *c = &x->c;
    int64_t h_k = h * c->heads_kv / c->heads_q;
    const double *q = at_direct_at(x, AT_Q, b, h, i), *k = at_direct_at(x, AT_K, b, h_k, j);
    double *dq = at_direct_at(x, AT_DQ, b, h, i), *dk = at_direct_at(x, AT_DK, b, h_k, j);
    for (int64_t d = 0; d < c->dim_qk; d++) {
        dq[d] += x->scale * slope * ds * k[d];
        dk[d] += x->scale * slope * ds * q[d];
    }
    if (c->bias >= AT_BIAS_REL_11) {
        at_direct_at(x, AT_DBIAS, b, h, i)[j] += x->variant.bias_before_cap ? slope * ds : ds;
    }
}

static void run_row(const at_direct *x, int64_t b, int64_t h, int64_t i, const double *p,
                    const double *slope, double sink)
{
    const at_case *c = &x->c;
    int64_t h_v = h * c->heads_v / c->heads_q;
    double *o = at_direct_at(x, AT_O, b, h, i);
    const double *dout = at_direct_at(x, AT_DO, b, h, i);
    for (int64_t j = 0; j < c->len_kv; j++) {
        const double *v = at_direct_at(x, AT_V, b, h_v, j);
        for (int64_t d = 0; d < c->dim_v && p[j] > 0; d++) {
            o[d] += p[j] * keep_of(x, b, h, i, j) * v[d];
        }
    }
    double d_sum = dot(dout, o, c->dim_v);
    for (int64_t j = 0; j < c->len_kv; j++) {
        const double *v = at_direct_at(x, AT_V, b, h_v, j);
        double *dv = at_direct_at(x, AT_DV, b, h_v, j), keep = keep_of(x, b, h, i, j);
        for (int64_t d = 0; d < c->dim_v && p[j] > 0; d++) {
            dv[d] += p[j] * keep * dout[d];
        }
        if (p[j] > 0) {
            double dp = keep * dot(dout, v, c->dim_v);
            add_pair(x, b, h, i, j, p[j] * (dp - d_sum), slope[j]);
        }
    }
    *at_direct_at(x, AT_DSINK, 0, h, 0) -= sink * d_sum;
}

void at_direct_run(at_direct *x)
{
    const at_case *c = &x->c;
    size_t n = (size_t)(c->len_q * c->len_kv) + 1;
    double *p = calloc(n, sizeof *p), *slope = calloc(n, sizeof *slope);
    double *sink = calloc((size_t)c->len_q + 1, sizeof *sink);
    AT_ASSERT(p != NULL && slope != NULL && sink != NULL);
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        if (!is_copied((at_tensor_id)id)) {
            memset(x->t[id], 0, (size_t)x->n[id] * sizeof(double));
        }
    }
    for (int64_t b = 0; b < c->batch; b++) {
        for (int64_t h = 0; h < c->heads_q; h++) {
            scores(x, b, h, p, slope);
            probabilities(x, b, h, p, sink);
            for (int64_t i = 0; i < c->len_q; i++) {
                run_row(x, b, h, i, p + i * c->len_kv, slope + i * c->len_kv, sink[i]);
            }
        }
    }
    free(p);
    free(slope);
    free(sink);
}

double at_direct_loss(const at_direct *x)
{
    return dot(x->t[AT_DO], x->t[AT_O], x->n[AT_O]);
}
