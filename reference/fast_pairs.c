#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/fast_pairs.h"

#include "harness/clones.h"
#include "reference/fast_math.h"

/* Each loop stands in a body that is compiled once a kind of case: with and without a cap, with the
 * chain model and the loose one. `model` is a copy, so that stores cannot change it. */
AT_INLINE at_noise model_of(const at_fast_pairs *x, bool capped, bool chain)
{
    at_noise m = *x->m;
    m.chain = chain;
    if (!capped) {
        m.capped = m.cap = m.inv_cap = 0;
    }
    return m;
}

AT_INLINE double score_of(const at_noise *m, bool capped, double raw)
{
    return capped ? m->cap * at_fast_tanh(raw * m->inv_cap) : raw;
}

AT_INLINE double sum_exp(const at_noise *model, bool capped, const double *raw, int64_t n,
                         double max)
{
    const at_noise m = *model;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        sum += at_fast_exp(score_of(&m, capped, raw[j]) - max);
    }
    return sum;
}

AT_CLONES int64_t at_fast_softmax(const at_noise *m, at_row *row, const double *raw, int64_t n)
{
    double max = raw[0];
#pragma omp simd reduction(max : max)
    for (int64_t j = 0; j < n; j++) {
        max = raw[j] > max ? raw[j] : max;
    }
    int64_t best = 0;
    while (best < n - 1 && raw[best] < max) {
        best++;
    }
    max = score_of(m, m->cap > 0, max);
    double sum = m->cap > 0 ? sum_exp(m, true, raw, n, max) : sum_exp(m, false, raw, n, max);
    row->max = max;
    row->inv_sum = 1 / sum;
    row->lse = row->lse_out = max + log(sum);
    row->lse_share = 1;
    return best;
}

AT_INLINE void probabilities(const at_fast_pairs *x, bool capped)
{
    const at_noise m = model_of(x, capped, false);
    double max = x->row->max, inv_sum = x->row->inv_sum, *restrict p = x->p;
    const double *restrict raw = x->raw;
    int64_t n = x->n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        p[j] = at_fast_exp(score_of(&m, capped, raw[j]) - max) * inv_sum;
    }
}

AT_CLONES void at_fast_probabilities(const at_fast_pairs *x)
{
    if (x->m->cap > 0) {
        probabilities(x, true);
    } else {
        probabilities(x, false);
    }
}

AT_INLINE void gradients(const at_fast_pairs *x, bool capped, double *restrict ds)
{
    const at_noise m = model_of(x, capped, false);
    double d = x->row->d;
    const double *restrict p = x->p, *restrict dp = x->dp, *restrict raw = x->raw;
    int64_t n = x->n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        double slope = at_noise_slope(&m, score_of(&m, capped, raw[j]));
        ds[j] = slope * p[j] * (dp[j] - d);
    }
}

AT_CLONES void at_fast_gradients(const at_fast_pairs *x, double *ds)
{
    if (x->m->cap > 0) {
        gradients(x, true, ds);
    } else {
        gradients(x, false, ds);
    }
}

AT_INLINE void p_terms(const at_fast_pairs *x, bool capped, bool chain, float *restrict a,
                       float *restrict c, float *restrict w, at_noise_p_sums *sums)
{
    const at_noise m = model_of(x, capped, chain);
    double lse = x->row->lse, keys = x->row->keys, factor = x->squares_factor;
    const double *restrict raw = x->raw, *restrict p = x->p;
    const float *restrict squares = x->squares;
    double max = x->row->max, linear = 0, square = 0, pp = 0, t1 = 0, t2 = 0;
    int64_t n = x->n;
#pragma omp simd reduction(+ : linear, square, pp, t1, t2)
    for (int64_t j = 0; j < n; j++) {
        double s = score_of(&m, capped, raw[j]);
        double x0 = at_noise_score(&m, raw[j], s, 0, factor * (double)squares[j], lse);
        at_noise_p t = at_noise_of_p(&m, p[j], at_noise_exp(x0), keys);
        a[j] = (float)(AT_FAST_UNITS * t.a);
        c[j] = (float)(AT_FAST_UNITS * AT_FAST_UNITS * t.c);
        w[j] = (float)(AT_FAST_UNITS * AT_FAST_UNITS * t.w);
        linear += p[j] * x0;
        square += p[j] * x0 * (p[j] * x0);
        pp += p[j] * p[j];
        t1 += p[j] * (s - max);
        t2 += p[j] * (s - max) * (s - max);
    }
    sums->linear += linear;
    sums->squares += square;
    sums->pp += pp;
    sums->t += t1;
    sums->tt += t2;
}

AT_CLONES void at_fast_p_terms(const at_fast_pairs *x, float *a, float *c, float *w,
                               at_noise_p_sums *sums)
{
    if (x->m->cap > 0) {
        if (x->m->chain) {
            p_terms(x, true, true, a, c, w, sums);
        } else {
            p_terms(x, true, false, a, c, w, sums);
        }
    } else if (x->m->chain) {
        p_terms(x, false, true, a, c, w, sums);
    } else {
        p_terms(x, false, false, a, c, w, sums);
    }
}

/* The same pair of a row in the backward: everything that its coefficients need. */
typedef struct back {
    double slope, x, own;
    at_noise_ds t;
} back;

AT_INLINE back back_of(const at_noise *m, bool capped, const at_fast_pairs *x, int64_t j,
                       double count)
{
    const at_row *row = x->row;
    double s = score_of(m, capped, x->raw[j]), dp = x->dp[j], d = row->d;
    double squares = x->squares_factor * (double)x->squares[j];
    double x1 = at_noise_exp(at_noise_score(m, x->raw[j], s, 0, squares, row->lse));
    double own = at_noise_dp(m, dp, x->dp_factor * (double)x->dp_squares[j], d);
    back out = {.slope = at_noise_slope_most(m, s, x1), .x = x1, .own = own};
    out.t = at_noise_of_ds(m, row, x->p[j], s, x1, dp, own, count);
    return out;
}

AT_INLINE void dq_terms(const at_fast_pairs *pairs, bool capped, bool chain, double unit,
                        float *restrict a, float *restrict c, float *restrict mass)
{
    const at_fast_pairs x = *pairs;
    const at_row row = *pairs->row;
    const at_noise m = model_of(&x, capped, chain);
    at_fast_pairs local = x;
    local.row = &row;
    double unit_a = AT_FAST_UNITS * unit, unit_c = unit_a * unit_a;
    int64_t n = x.n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        back b = back_of(&m, capped, &local, j, row.keys);
        a[j] = (float)(unit_a * b.t.a);
        c[j] = (float)(unit_c * b.t.c);
        mass[j] = (float)(b.slope * x.p[j]);
    }
}

AT_INLINE void d_terms(const at_fast_pairs *pairs, bool capped, bool chain, at_noise_d *sums)
{
    const at_fast_pairs x = *pairs;
    const at_row row = *pairs->row;
    const at_noise m = model_of(&x, capped, chain);
    at_fast_pairs local = x;
    local.row = &row;
    double rounded = 0, score = 0, chained = 0, stored = 0, own = 0;
    int64_t n = x.n;
#pragma omp simd reduction(+ : rounded, score, chained, stored, own)
    for (int64_t j = 0; j < n; j++) {
        back b = back_of(&m, capped, &local, j, row.keys);
        double p = x.p[j], dp = x.dp[j];
        double squares = m.d_from_p ? dp * dp : x.dp_factor * (double)x.dp_squares[j];
        rounded += at_noise_square(at_noise_rho(&m.p, p) * dp);
        score += at_noise_square(p * (dp - row.d) * b.x);
        chained += p * p * squares;
        stored += at_noise_square(p * m.u_s * dp);
        own += at_noise_square(p * b.own);
    }
    sums->rounded += rounded;
    sums->score += score;
    sums->chain += chained;
    sums->stored += stored;
    sums->own += own;
}

AT_INLINE void dq_kind(const at_fast_pairs *x, bool capped, bool chain, double unit, float *a,
                       float *c, float *mass, at_noise_d *sums)
{
    d_terms(x, capped, chain, sums);
    if (a != NULL) {
        dq_terms(x, capped, chain, unit, a, c, mass);
    }
}

AT_CLONES void at_fast_dq_terms(const at_fast_pairs *x, double unit, float *a, float *c,
                                float *mass, at_noise_d *sums)
{
    if (x->m->cap > 0) {
        if (x->m->chain) {
            dq_kind(x, true, true, unit, a, c, mass, sums);
        } else {
            dq_kind(x, true, false, unit, a, c, mass, sums);
        }
    } else if (x->m->chain) {
        dq_kind(x, false, true, unit, a, c, mass, sums);
    } else {
        dq_kind(x, false, false, unit, a, c, mass, sums);
    }
}

AT_CLONES void at_fast_column_most(const at_fast_pairs *x, const at_fast_columns *columns)
{
    double least = x->m->p.half / x->m->p.u, d = fabs(x->row->d) + sqrt(x->row->d_var);
    const double *restrict p = x->p, *restrict dp = x->dp;
    const float *restrict squares = x->dp_squares;
    double factor = x->dp_factor;
    double *restrict p_most = columns->p_most, *restrict ds_most = columns->ds_most;
    int64_t n = x->n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        double size = p[j] > least ? p[j] : least;
        double ds = size * (fabs(dp[j]) + d + sqrt(factor * (double)squares[j]));
        ds = ds > least ? ds : least;
        p_most[j] = size > p_most[j] ? size : p_most[j];
        ds_most[j] = ds > ds_most[j] ? ds : ds_most[j];
    }
}

AT_INLINE void key_terms(const at_fast_pairs *pairs, bool capped, bool chain,
                         const at_fast_columns *columns, const at_fast_column_terms *out)
{
    const at_fast_pairs x = *pairs;
    const at_row row = *pairs->row;
    const at_fast_columns col = *columns;
    const at_noise m = model_of(&x, capped, chain);
    at_fast_pairs local = x;
    local.row = &row;
    float *restrict a_p = out->a_p, *restrict c_p = out->c_p;
    float *restrict a_ds = out->a_ds, *restrict c_ds = out->c_ds;
    float *restrict k_p = out->k_p, *restrict k_ds = out->k_ds;
    int64_t n = x.n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        back b = back_of(&m, capped, &local, j, col.count_k[j]);
        at_noise_p t = at_noise_of_p(&m, x.p[j], b.x, col.count_v[j]);
        double up = AT_FAST_UNITS * col.p_unit[j], us = AT_FAST_UNITS * col.ds_unit[j];
        double common = at_noise_of_row(&row, x.p[j], b.slope, b.t.ds);
        a_p[j] = (float)(up * t.a);
        c_p[j] = (float)(up * up * (t.c + t.w + x.p[j] * x.p[j] * row.p_var));
        a_ds[j] = (float)(us * b.t.a);
        c_ds[j] = (float)(us * us * (b.t.c + common));
        double p_error = at_noise_p_error(&m, x.p[j]);
        k_p[j] = (float)(up * p_error);
        k_ds[j] = (float)(us * at_noise_ds_error(&m, &row, x.p[j], p_error, b.slope, x.dp[j]));
    }
}

AT_CLONES void at_fast_key_terms(const at_fast_pairs *x, const at_fast_columns *columns,
                                 const at_fast_column_terms *out)
{
    if (x->m->cap > 0) {
        if (x->m->chain) {
            key_terms(x, true, true, columns, out);
        } else {
            key_terms(x, true, false, columns, out);
        }
    } else if (x->m->chain) {
        key_terms(x, false, true, columns, out);
    } else {
        key_terms(x, false, false, columns, out);
    }
}
