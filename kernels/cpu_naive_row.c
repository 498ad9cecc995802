/* Rows of cpu.naive: scores, softmax, output, gradients. */
#include "kernels/cpu_naive_row.h"

#include <math.h>
#include <stdlib.h>

#include "harness/clones.h"
#include "kernels/kernels.h"

AT_CLONES static float dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

AT_CLONES static void add_scaled(double *out, float factor, const float *in, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        out[i] += (double)factor * (double)in[i];
    }
}

void at_naive_store_sums(at_tensor_id id, const at_naive_work *w, int64_t b, int64_t h, int64_t s,
                         const double *sums)
{
    const at_tensor *t = &w->problem->t[id];
    for (int64_t d = 0; d < t->shape[3]; d++) {
        w->line[d] = (float)sums[d];
    }
    at_cpu_to_units(t->dtype, w->problem->unit[id], w->line, t->shape[3]);
    at_tensor_store_row_float(t, b, h, s, w->line);
}

static void load_row(const at_naive_work *w, at_tensor_id id, int64_t b, int64_t h, int64_t s,
                     float *out)
{
    const at_tensor *t = &w->problem->t[id];
    at_tensor_load_row_float(t, b, h, s, out);
    for (int64_t d = 0; d < t->shape[3]; d++) {
        out[d] *= w->problem->unit[id];
    }
}

/* Stores a row in the inputs' type and reads it back, in classes that do. */
static void pass_through(const at_naive_work *w, float *row, int64_t n)
{
    at_dtype dtype = (at_dtype)w->problem->c.dtype;
    if (w->stored && n > 0) {
        at_dtype_store_float(dtype, w->typed, row, (size_t)n);
        at_dtype_load_float(dtype, row, w->typed, (size_t)n);
    }
}

void at_naive_load_heads(const at_naive_work *w, at_tensor_id id, int64_t b, int64_t h, float *out)
{
    for (int64_t s = 0; s < w->problem->len_kv[b]; s++) {
        load_row(w, id, b, h, s, out + s * w->problem->t[id].shape[3]);
    }
}

/* Query row i of head h, and the keys first..last that its window and length leave it. */
typedef struct naive_row {
    int64_t b, h, i, first, last, n;
} naive_row;

static naive_row row_of(const at_problem *p, int64_t b, int64_t h, int64_t i)
{
    naive_row row = {.b = b, .h = h, .i = i, .last = -1};
    at_problem_keys(p, b, i, &row.first, &row.last);
    row.n = row.last >= row.first ? row.last - row.first + 1 : 0;
    return row;
}

static void add_row(const at_naive_work *w, const naive_row *row)
{
    for (int64_t j = 0; j < row->n; j++) {
        w->s[j] += w->add[j];
    }
}

/* Bias, ALiBi and dense mask, each added in a step of its own. What the lowest finite number of the
 * inputs' type makes of a score may be below that type's range, and is not stored. */
static void add_extras(const at_naive_work *w, const naive_row *row)
{
    const at_problem *p = w->problem;
    const at_tensor *bias = &p->t[AT_BIAS], *mask = &p->t[AT_AMASK];
    if (bias->data != NULL) {
        for (int64_t j = 0; j < row->n; j++) {
            w->add[j] = (float)at_tensor_get(bias, row->b, row->h, row->i, row->first + j);
        }
        add_row(w, row);
        pass_through(w, w->s, row->n);
    }
    if (p->c.bias == AT_BIAS_ALIBI) {
        double slope = exp2(-8 * (double)(row->h + 1) / (double)p->c.heads_q);
        for (int64_t j = 0; j < row->n; j++) {
            int64_t distance = row->i + p->diag[row->b] - (row->first + j);
            w->add[j] = -(float)slope * (float)llabs(distance);
        }
        add_row(w, row);
        pass_through(w, w->s, row->n);
    }
    if (mask->data != NULL) {
        for (int64_t j = 0; j < row->n; j++) {
            double x = at_tensor_get(mask, row->b, row->h, row->i, row->first + j);
            w->add[j] = mask->dtype != AT_U8 ? (float)x : x != 0 ? 0 : -HUGE_VALF;
        }
        add_row(w, row);
        pass_through(w, w->s, p->c.amask < AT_AMASK_MIN_11 ? row->n : 0);
    }
}

/* S of one row; `slope` gets dS/d(scale q.k), the softcap's derivative. */
static void score_row(const at_naive_work *w, const naive_row *row)
{
    const at_case *c = &w->problem->c;
    float scale = (float)w->problem->scale, cap = (float)c->softcap;
    for (int64_t j = 0; j < row->n; j++) {
        w->s[j] = scale * dot(w->q, w->k + (row->first + j) * c->dim_qk, c->dim_qk);
        w->slope[j] = 1;
        if (cap > 0) {
            float grow = coshf(w->s[j] / cap);
            w->slope[j] = 1 / (grow * grow);
            w->s[j] = cap * tanhf(w->s[j] / cap);
        }
    }
    pass_through(w, w->s, row->n);
    add_extras(w, row);
}

/* What dropout makes of P and dP of the row's keys. */
static void keep_row(const at_naive_work *w, const naive_row *row)
{
    const at_case *c = &w->problem->c;
    float factor = 1 / (1 - (float)c->dropout);
    for (int64_t j = 0; j < row->n; j++) {
        w->keep[j] = 1;
    }
    if (c->dropout > 0) {
        at_cpu_dropout(w->keep, c, row->b, row->h, row->i, row->first, row->n);
        for (int64_t j = 0; j < row->n; j++) {
            w->keep[j] *= factor;
        }
    }
}

/* S and P of one row. Returns LSE, the sink's score for a row without keys. */
static double softmax_row(const at_naive_work *w, const naive_row *row)
{
    double max = w->sink, sum = 0;
    score_row(w, row);
    keep_row(w, row);
    for (int64_t j = 0; j < row->n; j++) {
        max = fmax(max, (double)w->s[j]);
    }
    if (max == -HUGE_VAL) {
        for (int64_t j = 0; j < row->n; j++) {
            w->p[j] = 0;
        }
        return max;
    }
    for (int64_t j = 0; j < row->n; j++) {
        w->p[j] = expf((float)((double)w->s[j] - max));
        sum += (double)w->p[j];
    }
    sum += exp(w->sink - max);
    for (int64_t j = 0; j < row->n; j++) {
        w->p[j] /= (float)sum;
    }
    pass_through(w, w->p, row->n);
    return max + log(sum);
}

void at_naive_forward_row(const at_naive_work *w, int64_t b, int64_t h, int64_t i)
{
    const at_problem *p = w->problem;
    naive_row row = row_of(p, b, h, i);
    int64_t dim = p->c.dim_v;
    load_row(w, AT_Q, b, h, i, w->q);
    double lse = softmax_row(w, &row);
    for (int64_t d = 0; d < dim; d++) {
        w->o[d] = 0;
    }
    for (int64_t j = 0; j < row.n; j++) {
        add_scaled(w->o, w->p[j] * w->keep[j], w->v + (row.first + j) * dim, dim);
    }
    at_naive_store_sums(AT_O, w, b, h, i, w->o);
    if (p->t[AT_LSE].data != NULL) {
        at_tensor_set(&p->t[AT_LSE], b, h, i, 0, lse);
    }
}

/* D of one row: sum P dP, or rowsum(dO * O) of the stored O. */
static float find_d(const at_naive_work *w, const naive_row *row)
{
    double d = 0;
    if (!w->numeric.d_from_p) {
        load_row(w, AT_O, row->b, row->h, row->i, w->line);
        return dot(w->line, w->d_o, w->problem->c.dim_v);
    }
    for (int64_t j = 0; j < row->n; j++) {
        d += (double)w->p[j] * (double)w->dp[j];
    }
    return (float)d;
}

/* dS before the slope of the cap, into dBias, and D of the row into dSink. */
static void add_side_gradients(const at_naive_work *w, const naive_row *row, double lse, float d)
{
    const at_tensor *bias = &w->problem->t[AT_DBIAS];
    int64_t at = at_tensor_offset(bias, row->b, row->h, row->i, row->first);
    for (int64_t j = 0; j < row->n && w->dbias != NULL; j++) {
        w->dbias[at + j] += (double)(w->p[j] * (w->dp[j] - d));
    }
    if (w->dsink != NULL) {
        w->dsink[row->h] -= exp(w->sink - lse) * (double)d;
    }
}

void at_naive_backward_row(const at_naive_work *w, int64_t b, int64_t h, int64_t i)
{
    const at_problem *p = w->problem;
    const at_case *c = &p->c;
    naive_row row = row_of(p, b, h, i);
    load_row(w, AT_Q, b, h, i, w->q);
    load_row(w, AT_DO, b, h, i, w->d_o);
    double lse = softmax_row(w, &row);
    for (int64_t j = 0; j < row.n; j++) {
        w->dp[j] = dot(w->d_o, w->v + (row.first + j) * c->dim_v, c->dim_v);
    }
    pass_through(w, w->dp, row.n);
    for (int64_t j = 0; j < row.n; j++) {
        w->dp[j] *= w->keep[j];
        add_scaled(w->dv + (row.first + j) * c->dim_v, w->p[j] * w->keep[j], w->d_o, c->dim_v);
    }
    float d = find_d(w, &row);
    add_side_gradients(w, &row, lse, d);
    for (int64_t j = 0; j < row.n; j++) {
        w->s[j] = w->p[j] * (w->dp[j] - d) * w->slope[j];
    }
    pass_through(w, w->s, row.n);
    for (int64_t e = 0; e < c->dim_qk; e++) {
        w->dq[e] = 0;
    }
    for (int64_t j = 0; j < row.n; j++) {
        float ds = w->s[j] * (float)p->scale;
        add_scaled(w->dq, ds, w->k + (row.first + j) * c->dim_qk, c->dim_qk);
        add_scaled(w->dk + (row.first + j) * c->dim_qk, ds, w->q, c->dim_qk);
    }
    at_naive_store_sums(AT_DQ, w, b, h, i, w->dq);
}
