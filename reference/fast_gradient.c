/* The row pass: D and dQ of a block. */
#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/fast_rows.h"

#include "reference/fast_block.h"

/* D of each live row, and what its variance needs of O. */
static void find_d(at_fast_work *w, const at_fast_place *at)
{
    int64_t dim = at->f->p->c.dim_v;
    for (int64_t r = 0; r < at->block->n; r++) {
        double d = 0, rounding = 0;
        at_noise_d sums = {0};
        for (int64_t i = r * dim; i < (r + 1) * dim; i++) {
            d += w->dout[i] * w->o[i];
            rounding += w->dout[i] * (at_noise_round(&at->f->m.out[AT_O], w->o[i]) - w->o[i]);
            at_noise_add_output(&at->f->m, &sums, w->dout[i], w->o[i], w->rows[r]->keys);
        }
        w->rows[r]->d = d;
        w->rows[r]->d_round = at->f->m.d_from_p ? 0 : rounding;
        if (at->f->scale) {
            w->d_sums[r] = sums;
        }
    }
}

/* dS of the chunk in w->ds; its coefficients in w->a, c and the mass in w->w, each row in its unit;
 * the sums of D's variance grow. */
static void gradient_terms(at_fast_work *w, const at_fast_place *at)
{
    double least = at->f->m.ds.half / at->f->m.ds.u;
    for (int64_t r = 0; r < at->block->n; r++) {
        int64_t from = 0, n = at_fast_part_of(w, at, r, &from), e = r * at->n + from;
        at_fast_pairs x = at_fast_pairs_of(w, at, r, from, n);
        if (at->wanted) {
            at_fast_clear_double(w->ds, at, r, from, n);
            at_fast_gradients(&x, w->ds + e);
        }
        if (!at->f->scale) {
            continue;
        }
        double size = 1 / at_fast_unit_of(x.dp, n) + fabs(w->rows[r]->d);
        size = size > least ? size : least;
        double unit = at_fast_unit_of(&size, 1);
        w->unit[r] = 1 / unit;
        at_fast_clear_float(w->a, at, r, from, n);
        at_fast_clear_float(w->c, at, r, from, n);
        at_fast_clear_float(w->w, at, r, from, n);
        at_fast_dq_terms(&x, unit, at->wanted ? w->a + e : NULL, w->c + e, w->w + e, &w->d_sums[r]);
    }
}

/* Error scale of dQ: a |K|, c K^2, and the mass of K that D's error moves. */
static void gradient_scale_chunk(at_fast_work *w, const at_fast_place *at, const double *k)
{
    int64_t m = at->block->n, dim = at->f->p->c.dim_qk, n = at->n;
    double unit = at_fast_unit_of(k, n * dim);
    const at_fast_forms forms = {.plain = w->plain, .absolute = w->absolute, .square = w->square};
    at_fast_floats(&forms, k, n * dim, unit);
    for (int64_t r = 0; r < m; r++) {
        w->unit[r] /= unit;
    }
    at_fast_set_nn_float(w->product, w->a, w->absolute, m, dim, n);
    at_fast_add_rows(w->dq_a, w->product, w->unit, m, dim);
    at_fast_set_nn_float(w->product, w->c, w->square, m, dim, n);
    for (int64_t r = 0; r < m; r++) {
        w->unit[r] *= w->unit[r];
    }
    at_fast_add_rows(w->dq_c, w->product, w->unit, m, dim);
    at_fast_set_nn_float(w->product, w->w, w->plain, m, dim, n);
    at_fast_fill(w->unit, 1 / unit, m);
    at_fast_add_rows(w->mass, w->product, w->unit, m, dim);
}

/* Dropout's factors on dP and on the squares behind its noise. */
static void drop_dp(at_fast_work *w, const at_fast_place *at)
{
    int64_t column = at->first - at->block->low;
    for (int64_t r = 0; r < at->block->n; r++) {
        int64_t from = 0, n = at_fast_part_of(w, at, r, &from);
        const double *keep = w->keep + r * at->n + from;
        int64_t wide = r * at->width + column + from;
        for (int64_t j = 0; j < n; j++) {
            w->dp[wide + j] *= keep[j];
            if (at->f->scale) {
                w->dp_squares[wide + j] *= (float)(keep[j] * keep[j]);
            }
        }
    }
}

static void gradient_chunk(at_fast_work *w, const at_fast_place *at)
{
    const at_problem *p = at->f->p;
    int64_t m = at->block->n, dim_v = p->c.dim_v, dim_qk = p->c.dim_qk;
    int64_t column = at->first - at->block->low;
    const double *v = at_fast_chunk_v(w, at);
    at_fast_probability_chunk(w, at);
    at_fast_mul_nt(w->dp + column, at->width, w->dout, v, m, at->n, dim_v, 1);
    if (at->f->scale) {
        double unit = at_fast_unit_of(v, at->n * dim_v);
        w->v_unit[column / AT_FAST_KEYS] = unit;
        at_fast_floats(&(at_fast_forms){.square = w->square}, v, at->n * dim_v, unit);
        at_fast_mul_nt_float(w->dp_squares + column, at->width, w->dout_square, w->square, m, at->n,
                             dim_v);
    }
    if (at->f->score.dropped) {
        drop_dp(w, at);
    }
    gradient_terms(w, at);
    if (at->wanted) {
        const double *k = at_fast_chunk_k(w, at);
        at_fast_add_nn(w->dq, w->ds, k, m, dim_qk, at->n);
        if (at->f->scale) {
            gradient_scale_chunk(w, at, k);
        }
    }
    if (at->keys != NULL) {
        at_fast_fused_chunk(w, at);
    }
}

/* dQ of row r with its bound and sigma. */
static void finish_gradient(const at_fast_work *w, const at_fast_place *at, int64_t r)
{
    const at_noise *m = &at->f->m;
    at_row *row = w->rows[r];
    at_gold_tensor *t = &at->f->gold->t[AT_DQ];
    double scale = at->f->p->scale;
    const double a_unit = fabs(scale) / AT_FAST_UNITS;
    if (at->f->scale) {
        row->d_var = at_noise_d_var(m, row, &w->d_sums[r]);
    }
    for (int64_t d = 0; d < t->dim && at->wanted; d++) {
        int64_t i = r * t->dim + d, e = (at->block->gold + r) * t->dim + d;
        double ref = scale * w->dq[i];
        t->ref[e] = at_noise_stored(&m->out[AT_DQ], ref);
        if (at->f->scale) {
            at_noise_sum sum = {.ref = ref, .a = w->dq_a[i] * a_unit};
            sum.c = w->dq_c[i] * a_unit * a_unit + row->common_var * sum.ref * sum.ref +
                    row->d_var * at_noise_square(scale * w->mass[i]) +
                    at_noise_total_var(m, row->keys, sum.ref, scale);
            at_noise_finish(&sum, &m->out[AT_DQ], &t->bound[e], &t->sigma[e]);
        }
    }
}

void at_fast_gradient_block(at_fast_work *w, at_fast_place *at)
{
    int64_t n = at->block->n * at->f->p->c.dim_qk;
    find_d(w, at);
    if (!at->wanted && !at->f->scale) {
        return;
    }
    at_fast_clear(w->dq, n);
    if (at->f->scale) {
        at_fast_clear(w->dq_a, n);
        at_fast_clear(w->dq_c, n);
        at_fast_clear(w->mass, n);
    }
    for (int64_t j = at->block->low; at_fast_to_chunk(at, j); j += at->n) {
        gradient_chunk(w, at);
    }
    for (int64_t r = 0; r < at->block->n; r++) {
        if (w->rows[r]->keys > 0) {
            finish_gradient(w, at, r);
        }
    }
}
