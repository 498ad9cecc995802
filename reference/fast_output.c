/* The row pass: O and LSE of a block. */
#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/fast_rows.h"

#include <string.h>

#include "reference/fast_block.h"

AT_CLONES static double sum_floats(const float *x, int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i];
    }
    return sum;
}

/* Dropout: roundings of P have its factors; score noise moves O by keep V - O, so that the weights
 * of dropped keys are taken out and their sum is returned. */
static double drop_terms(float *a, float *c, float *w, const double *keep, int64_t n)
{
    double dropped = 0;
    for (int64_t j = 0; j < n; j++) {
        float factor = (float)keep[j];
        a[j] *= factor;
        c[j] *= factor * factor;
        dropped += factor > 0 ? 0 : (double)w[j];
        w[j] = factor > 0 ? w[j] : 0;
    }
    return dropped;
}

/* Coefficients of O of the chunk in w->a, c, w; the sums of each row grow. */
static void output_terms(at_fast_work *w, const at_fast_place *at)
{
    for (int64_t r = 0; r < at->block->n; r++) {
        int64_t from = 0, n = at_fast_part_of(w, at, r, &from), e = r * at->n + from;
        at_fast_pairs x = at_fast_pairs_of(w, at, r, from, n);
        at_fast_clear_float(w->a, at, r, from, n);
        at_fast_clear_float(w->c, at, r, from, n);
        at_fast_clear_float(w->w, at, r, from, n);
        at_fast_p_terms(&x, w->a + e, w->c + e, w->w + e, &w->p_sums[r]);
        int64_t best = w->best[r] - at->first;
        if (n > 0 && best >= from && best < from + n) {
            float *own = &w->w[r * at->n + best];
            w->w_best[r] = (double)*own;
            w->keep_best[r] = x.keep != NULL ? w->keep[r * at->n + best] : 1;
            *own = 0;
        }
        if (x.keep != NULL) {
            w->w0_drop[r] += drop_terms(w->a + e, w->c + e, w->w + e, x.keep, n);
        }
        w->w0_chunk[r] = sum_floats(w->w + e, n);
    }
}

/* Sums of w v and w v^2 about `center`, from those about the chunk's mean:
 * v - center = (v - mean) + delta. */
AT_CLONES static void add_moment(double *restrict w1, double *restrict w2,
                                 const float *restrict product, const double *restrict delta,
                                 double w0, double unit, int64_t dim)
{
#pragma omp simd
    for (int64_t d = 0; d < dim; d++) {
        double first = (double)product[d] / unit;
        w1[d] += first + delta[d] * w0;
        w2[d] += 2 * delta[d] * first + delta[d] * delta[d] * w0;
    }
}

/* Error scale of O: a |V| and c V^2, then w (V - O)^2 through moments about a centre, since V and O
 * may be nearly equal. */
static void output_scale_chunk(at_fast_work *w, const at_fast_place *at, const double *v)
{
    int64_t m = at->block->n, dim = at->f->p->c.dim_v, n = at->n;
    output_terms(w, at);
    if (!at->wanted) {
        return;
    }
    double unit = at_fast_unit_of(v, n * dim);
    const at_fast_forms forms = {.absolute = w->absolute, .square = w->square};
    at_fast_floats(&forms, v, n * dim, unit);
    at_fast_set_nn_float(w->product, w->a, w->absolute, m, dim, n);
    at_fast_fill(w->unit, 1 / unit, m);
    at_fast_add_rows(w->o_a, w->product, w->unit, m, dim);
    at_fast_set_nn_float(w->product, w->c, w->square, m, dim, n);
    at_fast_fill(w->unit, 1 / (unit * unit), m);
    at_fast_add_rows(w->o_c, w->product, w->unit, m, dim);

    if (v != w->v) {
        memcpy(w->v, v, (size_t)(n * dim) * sizeof *v);
    }
    at_fast_center(w->v, w->mean, n, dim);
    if (at->first == at->block->low) {
        memcpy(w->center, w->mean, (size_t)dim * sizeof(double));
    }
    for (int64_t d = 0; d < dim; d++) {
        w->mean[d] -= w->center[d];
    }
    unit = at_fast_unit_of(w->v, n * dim);
    at_fast_floats(&(at_fast_forms){.plain = w->plain, .square = w->square}, w->v, n * dim, unit);
    at_fast_set_nn_float(w->product, w->w, w->square, m, dim, n);
    at_fast_fill(w->unit, 1 / (unit * unit), m);
    at_fast_add_rows(w->o_w2, w->product, w->unit, m, dim);
    at_fast_set_nn_float(w->product, w->w, w->plain, m, dim, n);
    for (int64_t r = 0; r < m; r++) {
        w->w0[r] += w->w0_chunk[r];
        add_moment(w->o_w1 + r * dim, w->o_w2 + r * dim, w->product + r * dim, w->mean,
                   w->w0_chunk[r], unit, dim);
    }
}

/* Bound and sigma of O and LSE of row r. */
static void output_scale_row(at_fast_work *w, const at_fast_place *at, int64_t r)
{
    const at_noise *m = &at->f->m;
    const at_row *row = w->rows[r];
    int64_t dim = at->f->p->c.dim_v, index = at->block->gold + r;
    at_gold_tensor *o = &at->f->gold->t[AT_O], *lse = &at->f->gold->t[AT_LSE];
    const double e = 1 / AT_FAST_UNITS;
    const double keep = at->f->score.keep; /* 1 without dropout */
    at_fast_load(w->v_best, at->f->p, AT_V, at->b, at->h_v, w->best[r], NULL, 1);
    for (int64_t d = 0; d < dim; d++) {
        int64_t i = r * dim + d;
        double ref = w->o[i], away = ref / keep - w->center[d];
        double moved = w->o_w2[i] - 2 * away * w->o_w1[i] + away * away * w->w0[r];
        moved = (moved > 0 ? moved : 0) * keep * keep + w->w0_drop[r] * ref * ref +
                w->w_best[r] * at_noise_square(w->keep_best[r] * w->v_best[d] - ref);
        at_noise_sum sum = {.ref = ref, .a = w->o_a[i] * e, .flat = row->flat_p};
        sum.c = (w->o_c[i] + moved) * e * e + (row->sum_var + row->flat_var) * ref * ref +
                at_noise_total_var(m, row->keys, ref, 0);
        at_noise_finish(&sum, &m->out[AT_O], &o->bound[index * dim + d],
                        &o->sigma[index * dim + d]);
    }
    if (lse->rows > 0) {
        at_noise_lse(m, row, w->p_sums[r].linear, &lse->bound[index], &lse->sigma[index]);
    }
}

static void finish_output(at_fast_work *w, const at_fast_place *at)
{
    int64_t dim = at->f->p->c.dim_v;
    at_gold_tensor *o = &at->f->gold->t[AT_O], *lse = &at->f->gold->t[AT_LSE];
    for (int64_t r = 0; r < at->block->n; r++) {
        at_row *row = w->rows[r];
        int64_t index = at->block->gold + r;
        if (row->keys > 0 && at->f->scale) {
            at_noise_row(&at->f->m, row, &w->p_sums[r]);
        }
        if (row->keys > 0 && at->wanted) {
            for (int64_t d = 0; d < dim; d++) {
                o->ref[index * dim + d] = at_noise_stored(&at->f->m.out[AT_O], w->o[r * dim + d]);
            }
            if (lse->rows > 0) {
                lse->ref[index] = row->lse_out * at->f->m.lse_factor;
            }
            if (at->f->scale) {
                output_scale_row(w, at, r);
            }
        }
    }
}

void at_fast_output_block(at_fast_work *w, at_fast_place *at)
{
    const at_problem *p = at->f->p;
    int64_t m = at->block->n, dim = p->c.dim_v;
    at_fast_clear(w->o, m * dim);
    if (at->f->scale) {
        at_fast_clear(w->o_a, m * dim);
        at_fast_clear(w->o_c, m * dim);
        at_fast_clear(w->o_w1, m * dim);
        at_fast_clear(w->o_w2, m * dim);
        at_fast_clear(w->w0, m);
        at_fast_clear(w->w0_drop, m);
        memset(w->p_sums, 0, (size_t)m * sizeof *w->p_sums);
    }
    for (int64_t j = at->block->low; at_fast_to_chunk(at, j); j += at->n) {
        at_fast_probability_chunk(w, at);
        const double *v = at_fast_chunk_v(w, at);
        at_fast_add_nn(w->o, at->f->score.dropped ? w->kept : w->p, v, m, dim, at->n);
        if (at->f->scale) {
            output_scale_chunk(w, at, v);
        }
    }
    finish_output(w, at);
}
