#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/fast_pairs.h"

#include "harness/clones.h"
#include "reference/fast_math.h"

/* Each loop stands in a body that is compiled once a kind of case: with and without a cap, with the
 * chain model and the loose one, with and without something added to the scores. */
enum { CAPPED = 1, CHAIN = 2, ADDED = 4 };

static int kind_of(const at_noise *m, const double *add)
{
    return (m->cap > 0 ? CAPPED : 0) | (m->chain ? CHAIN : 0) | (add != NULL ? ADDED : 0);
}

/* A copy of the model, so that stores cannot change it, with what the kind leaves out. */
AT_INLINE at_noise model_of(const at_fast_pairs *x, int kind)
{
    at_noise m = *x->m;
    m.chain = (kind & CHAIN) != 0;
    if (!(kind & CAPPED)) {
        m.capped = m.cap = m.inv_cap = 0;
    }
    if (!(kind & ADDED)) {
        m.added = 0;
    }
    return m;
}

AT_INLINE double score_of(const at_noise *m, int kind, double raw)
{
    return (kind & CAPPED) ? m->cap * at_fast_tanh(raw * m->inv_cap) : raw;
}

AT_INLINE double add_of(int kind, const double *add, int64_t j)
{
    return (kind & ADDED) ? add[j] : 0;
}

/* 1 where the row sees the key, 0 where it is hidden. */
AT_INLINE double live_of(int kind, double add)
{
    return !(kind & ADDED) || add > -HUGE_VAL ? 1 : 0;
}

AT_INLINE double sum_exp(const at_noise *m, int kind, const double *raw, const double *add,
                         int64_t n, double max)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        sum += at_fast_exp(score_of(m, kind, raw[j]) + add_of(kind, add, j) - max);
    }
    return sum;
}

/* Where nothing is added the largest raw score is the largest one: the cap grows with it. */
AT_INLINE double plain_max(const at_noise *m, const double *raw, int64_t n, int64_t *best)
{
    double lane[AT_FAST_LANES];
    int64_t j = 0;
    for (int l = 0; l < AT_FAST_LANES; l++) {
        lane[l] = raw[0];
    }
    for (; j + AT_FAST_LANES <= n; j += AT_FAST_LANES) {
        for (int l = 0; l < AT_FAST_LANES; l++) {
            lane[l] = raw[j + l] > lane[l] ? raw[j + l] : lane[l];
        }
    }
    for (; j < n; j++) {
        lane[0] = raw[j] > lane[0] ? raw[j] : lane[0];
    }
    double max = at_fast_lanes_max(lane);
    *best = 0;
    while (*best < n - 1 && raw[*best] < max) {
        ++*best;
    }
    return score_of(m, m->cap > 0 ? CAPPED : 0, max);
}

AT_INLINE double added_max(const at_noise *m, int kind, const double *raw, const double *add,
                           int64_t n, int64_t *best, double *live)
{
    double lane[AT_FAST_LANES], count = 0;
    int64_t j = 0;
    for (int l = 0; l < AT_FAST_LANES; l++) {
        lane[l] = -HUGE_VAL;
    }
    for (; j + AT_FAST_LANES <= n; j += AT_FAST_LANES) {
        for (int l = 0; l < AT_FAST_LANES; l++) {
            double s = score_of(m, kind, raw[j + l]) + add[j + l];
            lane[l] = s > lane[l] ? s : lane[l];
        }
    }
    for (; j < n; j++) {
        double s = score_of(m, kind, raw[j]) + add[j];
        lane[0] = s > lane[0] ? s : lane[0];
    }
#pragma omp simd reduction(+ : count)
    for (j = 0; j < n; j++) {
        count += live_of(kind, add[j]);
    }
    double max = at_fast_lanes_max(lane);
    *best = 0;
    while (*best < n - 1 && score_of(m, kind, raw[*best]) + add[*best] < max) {
        ++*best;
    }
    *live = count;
    return max;
}

/* Sum and LSE from the largest score of the keys and their sum beside it. */
static void finish_softmax(const at_noise *m, at_row *row, double max, double keys)
{
    row->max = m->sink && row->sink_s > max ? row->sink_s : max;
    double sum = keys * exp(max - row->max);
    double sink = m->sink ? exp(row->sink_s - row->max) : 0;
    row->inv_sum = 1 / (sum + sink);
    row->lse = row->max + log(sum + sink);
    row->lse_out = m->lse_bare ? max + log(keys) : row->lse;
    row->sink_p = sink * row->inv_sum;
}

AT_CLONES int64_t at_fast_softmax(const at_noise *m, at_row *row, const double *raw,
                                  const double *add, int64_t n)
{
    int64_t best = 0;
    double max = 0, keys = 0;
    row->keys = (double)n;
    switch (kind_of(m, add) & (CAPPED | ADDED)) {
    case CAPPED | ADDED:
        max = added_max(m, CAPPED | ADDED, raw, add, n, &best, &row->keys);
        keys = sum_exp(m, CAPPED | ADDED, raw, add, n, max);
        break;
    case ADDED:
        max = added_max(m, ADDED, raw, add, n, &best, &row->keys);
        keys = sum_exp(m, ADDED, raw, add, n, max);
        break;
    case CAPPED:
        max = plain_max(m, raw, n, &best);
        keys = sum_exp(m, CAPPED, raw, add, n, max);
        break;
    default:
        max = plain_max(m, raw, n, &best);
        keys = sum_exp(m, 0, raw, add, n, max);
        break;
    }
    if (row->keys > 0) {
        finish_softmax(m, row, max, keys);
    }
    return best;
}

AT_INLINE void probabilities(const at_fast_pairs *x, int kind)
{
    const at_noise m = model_of(x, kind);
    double max = x->row->max, inv_sum = x->row->inv_sum, *restrict p = x->p;
    const double *restrict raw = x->raw, *restrict add = x->add;
    int64_t n = x->n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        double s = score_of(&m, kind, raw[j]) + add_of(kind, add, j);
        p[j] = at_fast_exp(s - max) * inv_sum;
    }
}

AT_CLONES void at_fast_probabilities(const at_fast_pairs *x)
{
    switch (kind_of(x->m, x->add) & (CAPPED | ADDED)) {
    case CAPPED | ADDED:
        probabilities(x, CAPPED | ADDED);
        break;
    case ADDED:
        probabilities(x, ADDED);
        break;
    case CAPPED:
        probabilities(x, CAPPED);
        break;
    default:
        probabilities(x, 0);
        break;
    }
}

AT_INLINE void gradients(const at_fast_pairs *x, int kind, double *restrict ds)
{
    const at_noise m = model_of(x, kind);
    double d = x->row->d;
    const double *restrict p = x->p, *restrict dp = x->dp, *restrict raw = x->raw;
    int64_t n = x->n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        double slope = at_noise_slope(&m, score_of(&m, kind, raw[j]));
        ds[j] = slope * p[j] * (dp[j] - d);
    }
}

AT_CLONES void at_fast_gradients(const at_fast_pairs *x, double *ds)
{
    if (x->m->cap > 0) {
        gradients(x, CAPPED, ds);
    } else {
        gradients(x, 0, ds);
    }
}

AT_INLINE void p_terms(const at_fast_pairs *x, int kind, float *restrict a, float *restrict c,
                       float *restrict w, at_noise_p_sums *sums)
{
    const at_noise m = model_of(x, kind);
    double lse = x->row->lse, keys = x->row->keys, factor = x->squares_factor;
    const double *restrict raw = x->raw, *restrict p = x->p, *restrict add = x->add;
    const float *restrict squares = x->squares;
    double max = x->row->max, all = 0, linear = 0, square = 0, pp = 0, t1 = 0, t2 = 0;
    int64_t n = x->n;
#pragma omp simd reduction(+ : all, linear, square, pp, t1, t2)
    for (int64_t j = 0; j < n; j++) {
        double more = add_of(kind, add, j), live = live_of(kind, more);
        more = live > 0 ? more : 0;
        double capped = score_of(&m, kind, raw[j]), t = live > 0 ? capped + more - max : 0;
        double x0 = at_noise_score(&m, raw[j], capped, more, factor * (double)squares[j], lse);
        at_noise_p of_p = at_noise_of_p(&m, p[j], at_noise_exp(x0), keys);
        a[j] = (float)(AT_FAST_UNITS * live * of_p.a);
        c[j] = (float)(AT_FAST_UNITS * AT_FAST_UNITS * live * of_p.c);
        w[j] = (float)(AT_FAST_UNITS * AT_FAST_UNITS * of_p.w);
        all += p[j];
        linear += p[j] * x0;
        square += p[j] * x0 * (p[j] * x0);
        pp += p[j] * p[j];
        t1 += p[j] * t;
        t2 += p[j] * t * t;
    }
    sums->p += all;
    sums->linear += linear;
    sums->squares += square;
    sums->pp += pp;
    sums->t += t1;
    sums->tt += t2;
}

AT_CLONES void at_fast_p_terms(const at_fast_pairs *x, float *a, float *c, float *w,
                               at_noise_p_sums *sums)
{
    switch (kind_of(x->m, x->add)) {
    case CAPPED | CHAIN | ADDED:
        p_terms(x, CAPPED | CHAIN | ADDED, a, c, w, sums);
        break;
    case CHAIN | ADDED:
        p_terms(x, CHAIN | ADDED, a, c, w, sums);
        break;
    case CAPPED | ADDED:
        p_terms(x, CAPPED | ADDED, a, c, w, sums);
        break;
    case ADDED:
        p_terms(x, ADDED, a, c, w, sums);
        break;
    case CAPPED | CHAIN:
        p_terms(x, CAPPED | CHAIN, a, c, w, sums);
        break;
    case CHAIN:
        p_terms(x, CHAIN, a, c, w, sums);
        break;
    case CAPPED:
        p_terms(x, CAPPED, a, c, w, sums);
        break;
    default:
        p_terms(x, 0, a, c, w, sums);
        break;
    }
}

/* The same pair of a row in the backward: everything that its coefficients need. */
typedef struct back {
    double live, slope, x, own;
    at_noise_ds t;
} back;

AT_INLINE back back_of(const at_noise *m, int kind, const at_fast_pairs *x, int64_t j, double count)
{
    const at_row *row = x->row;
    double s = score_of(m, kind, x->raw[j]), dp = x->dp[j], d = row->d;
    double add = add_of(kind, x->add, j), live = live_of(kind, add);
    add = live > 0 ? add : 0;
    double squares = x->squares_factor * (double)x->squares[j];
    double x1 = at_noise_exp(at_noise_score(m, x->raw[j], s, add, squares, row->lse));
    double own = at_noise_dp(m, dp, x->dp_factor * (double)x->dp_squares[j], d);
    back out = {.live = live, .slope = at_noise_slope_most(m, s, x1), .x = x1, .own = own};
    out.t = at_noise_of_ds(m, row, x->p[j], s, x1, dp, own, count);
    return out;
}

AT_INLINE void dq_terms(const at_fast_pairs *pairs, int kind, double unit, float *restrict a,
                        float *restrict c, float *restrict mass)
{
    const at_fast_pairs x = *pairs;
    const at_row row = *pairs->row;
    const at_noise m = model_of(&x, kind);
    at_fast_pairs local = x;
    local.row = &row;
    double unit_a = AT_FAST_UNITS * unit, unit_c = unit_a * unit_a;
    int64_t n = x.n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        back b = back_of(&m, kind, &local, j, row.keys);
        a[j] = (float)(unit_a * b.live * b.t.a);
        c[j] = (float)(unit_c * b.live * b.t.c);
        mass[j] = (float)(b.slope * x.p[j]);
    }
}

AT_INLINE void d_terms(const at_fast_pairs *pairs, int kind, at_noise_d *sums)
{
    const at_fast_pairs x = *pairs;
    const at_row row = *pairs->row;
    const at_noise m = model_of(&x, kind);
    at_fast_pairs local = x;
    local.row = &row;
    double rounded = 0, score = 0, chained = 0, stored = 0, own = 0;
    int64_t n = x.n;
#pragma omp simd reduction(+ : rounded, score, chained, stored, own)
    for (int64_t j = 0; j < n; j++) {
        back b = back_of(&m, kind, &local, j, row.keys);
        double p = x.p[j], dp = x.dp[j];
        double squares = m.d_from_p ? dp * dp : x.dp_factor * (double)x.dp_squares[j];
        rounded += b.live * at_noise_square(at_noise_rho(&m.p, p) * dp);
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

AT_INLINE void dq_kind(const at_fast_pairs *x, int kind, double unit, float *a, float *c,
                       float *mass, at_noise_d *sums)
{
    d_terms(x, kind, sums);
    if (a != NULL) {
        dq_terms(x, kind, unit, a, c, mass);
    }
}

AT_CLONES void at_fast_dq_terms(const at_fast_pairs *x, double unit, float *a, float *c,
                                float *mass, at_noise_d *sums)
{
    switch (kind_of(x->m, x->add)) {
    case CAPPED | CHAIN | ADDED:
        dq_kind(x, CAPPED | CHAIN | ADDED, unit, a, c, mass, sums);
        break;
    case CHAIN | ADDED:
        dq_kind(x, CHAIN | ADDED, unit, a, c, mass, sums);
        break;
    case CAPPED | ADDED:
        dq_kind(x, CAPPED | ADDED, unit, a, c, mass, sums);
        break;
    case ADDED:
        dq_kind(x, ADDED, unit, a, c, mass, sums);
        break;
    case CAPPED | CHAIN:
        dq_kind(x, CAPPED | CHAIN, unit, a, c, mass, sums);
        break;
    case CHAIN:
        dq_kind(x, CHAIN, unit, a, c, mass, sums);
        break;
    case CAPPED:
        dq_kind(x, CAPPED, unit, a, c, mass, sums);
        break;
    default:
        dq_kind(x, 0, unit, a, c, mass, sums);
        break;
    }
}

AT_CLONES void at_fast_column_most(const at_fast_pairs *x, const at_fast_columns *columns)
{
    double least_p = fmax(x->m->p.half / x->m->p.u, AT_NOISE_TINY / AT_NOISE_E),
           least = x->m->ds.half / x->m->ds.u, d = fabs(x->row->d) + sqrt(x->row->d_var);
    const double *restrict p = x->p, *restrict dp = x->dp;
    const float *restrict squares = x->dp_squares;
    double factor = x->dp_factor;
    double *restrict p_most = columns->p_most, *restrict ds_most = columns->ds_most;
    int64_t n = x->n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        double size = p[j] > least_p ? p[j] : least_p;
        double ds = size * (fabs(dp[j]) + d + sqrt(factor * (double)squares[j]));
        ds = ds > least ? ds : least;
        p_most[j] = size > p_most[j] ? size : p_most[j];
        ds_most[j] = ds > ds_most[j] ? ds : ds_most[j];
    }
}

AT_INLINE void key_terms(const at_fast_pairs *pairs, int kind, const at_fast_columns *columns,
                         const at_fast_column_terms *out)
{
    const at_fast_pairs x = *pairs;
    const at_row row = *pairs->row;
    const at_fast_columns col = *columns;
    const at_noise m = model_of(&x, kind);
    at_fast_pairs local = x;
    local.row = &row;
    float *restrict a_p = out->a_p, *restrict c_p = out->c_p;
    float *restrict a_ds = out->a_ds, *restrict c_ds = out->c_ds;
    float *restrict k_p = out->k_p, *restrict k_ds = out->k_ds;
    int64_t n = x.n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        back b = back_of(&m, kind, &local, j, col.count_k[j]);
        at_noise_p t = at_noise_of_p(&m, x.p[j], b.x, col.count_v[j]);
        double up = AT_FAST_UNITS * col.p_unit[j], us = AT_FAST_UNITS * col.ds_unit[j];
        double common = at_noise_of_row(&row, x.p[j], b.slope, b.t.ds);
        a_p[j] = (float)(up * b.live * t.a);
        c_p[j] = (float)(up * up * b.live * (t.c + t.w + x.p[j] * x.p[j] * row.p_var));
        a_ds[j] = (float)(us * b.live * b.t.a);
        c_ds[j] = (float)(us * us * b.live * (b.t.c + common));
        double p_error = at_noise_p_error(&m, x.p[j]);
        k_p[j] = (float)(up * p_error);
        k_ds[j] = (float)(us * at_noise_ds_error(&m, &row, x.p[j], p_error, b.slope, x.dp[j]));
    }
}

/* Dropout's factors on what dV is made of. */
static void drop_terms(const at_fast_pairs *x, const at_fast_column_terms *out)
{
    for (int64_t j = 0; x->keep != NULL && j < x->n; j++) {
        float keep = (float)x->keep[j];
        out->a_p[j] *= keep;
        out->c_p[j] *= keep * keep;
        out->k_p[j] *= keep;
    }
}

AT_CLONES void at_fast_key_terms(const at_fast_pairs *x, const at_fast_columns *columns,
                                 const at_fast_column_terms *out)
{
    switch (kind_of(x->m, x->add)) {
    case CAPPED | CHAIN | ADDED:
        key_terms(x, CAPPED | CHAIN | ADDED, columns, out);
        break;
    case CHAIN | ADDED:
        key_terms(x, CHAIN | ADDED, columns, out);
        break;
    case CAPPED | ADDED:
        key_terms(x, CAPPED | ADDED, columns, out);
        break;
    case ADDED:
        key_terms(x, ADDED, columns, out);
        break;
    case CAPPED | CHAIN:
        key_terms(x, CAPPED | CHAIN, columns, out);
        break;
    case CHAIN:
        key_terms(x, CHAIN, columns, out);
        break;
    case CAPPED:
        key_terms(x, CAPPED, columns, out);
        break;
    default:
        key_terms(x, 0, columns, out);
        break;
    }
    drop_terms(x, out);
}
