#include "harness/tests/direct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t heads_of(const at_case *c, int id)
{
    switch (id) {
    case AT_K:
    case AT_DK:
        return c->heads_kv;
    case AT_V:
    case AT_DV:
        return c->heads_v;
    default:
        return c->heads_q;
    }
}

static int64_t len_of(const at_case *c, int id)
{
    return id == AT_K || id == AT_V || id == AT_DK || id == AT_DV ? c->len_kv : c->len_q;
}

static int64_t dim_of(const at_case *c, int id)
{
    bool wide = id == AT_V || id == AT_DO || id == AT_O || id == AT_DV;
    return id == AT_LSE ? 1 : wide ? c->dim_v : c->dim_qk;
}

double *at_direct_at(const at_direct *x, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    return x->t[id] + ((b * heads_of(&x->c, id) + h) * len_of(&x->c, id) + s) * dim_of(&x->c, id);
}

void at_direct_open(at_direct *out, const at_problem *p)
{
    const at_case *c = &p->c;
    memset(out, 0, sizeof *out);
    out->c = *c;
    out->scale = c->scale == AT_SCALE_AUTO ? pow((double)c->dim_qk, -0.5) : c->scale;
    for (int64_t b = 0; b < c->batch; b++) {
        out->len_q[b] = p->len_q[b];
        out->len_kv[b] = p->len_kv[b];
        out->off[b] = c->align == AT_ALIGN_TL   ? 0
                      : c->align == AT_ALIGN_BR ? p->len_kv[b] - p->len_q[b]
                                                : c->align;
    }
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        int64_t heads = heads_of(c, id), dim = dim_of(c, id);
        out->n[id] = c->batch * heads * len_of(c, id) * dim;
        out->t[id] = calloc((size_t)out->n[id] + 1, sizeof(double));
        AT_ASSERT(out->t[id] != NULL);
        if (id > AT_DO || p->t[id].data == NULL) {
            continue;
        }
        for (int64_t b = 0; b < c->batch; b++) {
            int64_t len = id == AT_K || id == AT_V ? p->len_kv[b] : p->len_q[b];
            for (int64_t h = 0; h < heads; h++) {
                for (int64_t e = 0; e < len * dim; e++) {
                    at_direct_at(out, (at_tensor_id)id, b, h, 0)[e] =
                        at_tensor_get(&p->t[id], b, h, e / dim, e % dim);
                }
            }
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

/* S, then P in its place, of one head [len_q len_kv]; `slope` gets the cap's derivative. */
static void probabilities(const at_direct *x, int64_t b, int64_t h, double *p, double *slope)
{
    const at_case *c = &x->c;
    int64_t h_k = h * c->heads_kv / c->heads_q;
    for (int64_t i = 0; i < c->len_q; i++) {
        double *row = p + i * c->len_kv, sum = 0;
        const double *q = at_direct_at(x, AT_Q, b, h, i);
        double largest = -HUGE_VAL;
        for (int64_t j = 0; j < c->len_kv; j++) {
            double s = x->scale * dot(q, at_direct_at(x, AT_K, b, h_k, j), c->dim_qk);
            double t = c->softcap > 0 ? tanh(s / c->softcap) : 0;
            slope[i * c->len_kv + j] = 1 - t * t;
            row[j] = !sees(x, b, i, j) ? -HUGE_VAL : c->softcap > 0 ? c->softcap * t : s;
            largest = fmax(largest, row[j]);
        }
        for (int64_t j = 0; j < c->len_kv; j++) {
            row[j] = row[j] > -HUGE_VAL ? exp(row[j] - largest) : 0;
            sum += row[j];
        }
        *at_direct_at(x, AT_LSE, b, h, i) = largest + log(sum);
        for (int64_t j = 0; j < c->len_kv && sum > 0; j++) {
            row[j] /= sum;
        }
    }
}

static void run_head(const at_direct *x, int64_t b, int64_t h, double *p, double *ds)
{
    const at_case *c = &x->c;
    int64_t h_k = h * c->heads_kv / c->heads_q, h_v = h * c->heads_v / c->heads_q;
    probabilities(x, b, h, p, ds);
    for (int64_t i = 0; i < c->len_q; i++) {
        double *o = at_direct_at(x, AT_O, b, h, i), *dq = at_direct_at(x, AT_DQ, b, h, i);
        const double *dout = at_direct_at(x, AT_DO, b, h, i), *q = at_direct_at(x, AT_Q, b, h, i);
        const double *pi = p + i * c->len_kv;
        for (int64_t j = 0; j < c->len_kv; j++) {
            const double *v = at_direct_at(x, AT_V, b, h_v, j);
            for (int64_t d = 0; d < c->dim_v; d++) {
                o[d] += pi[j] * v[d];
            }
        }
        double d_sum = dot(dout, o, c->dim_v);
        for (int64_t j = 0; j < c->len_kv; j++) {
            const double *k = at_direct_at(x, AT_K, b, h_k, j);
            const double *v = at_direct_at(x, AT_V, b, h_v, j);
            double *dk = at_direct_at(x, AT_DK, b, h_k, j), *dv = at_direct_at(x, AT_DV, b, h_v, j);
            double g = ds[i * c->len_kv + j] * pi[j] * (dot(dout, v, c->dim_v) - d_sum);
            for (int64_t d = 0; d < c->dim_qk; d++) {
                dq[d] += x->scale * g * k[d];
                dk[d] += x->scale * g * q[d];
            }
            for (int64_t d = 0; d < c->dim_v; d++) {
                dv[d] += pi[j] * dout[d];
            }
        }
    }
}

void at_direct_run(at_direct *x)
{
    const at_case *c = &x->c;
    size_t n = (size_t)(c->len_q * c->len_kv) + 1;
    double *p = calloc(n, sizeof *p), *ds = calloc(n, sizeof *ds);
    AT_ASSERT(p != NULL && ds != NULL);
    for (int id = AT_O; id < AT_TENSOR_COUNT; id++) {
        memset(x->t[id], 0, (size_t)x->n[id] * sizeof(double));
    }
    for (int64_t b = 0; b < c->batch; b++) {
        for (int64_t h = 0; h < c->heads_q; h++) {
            run_head(x, b, h, p, ds);
        }
    }
    free(p);
    free(ds);
}

double at_direct_loss(const at_direct *x)
{
    return dot(x->t[AT_DO], x->t[AT_O], x->n[AT_O]);
}
