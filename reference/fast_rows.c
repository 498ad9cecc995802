/* The row pass: O, LSE, D and dQ of blocks of score rows. */
#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include <omp.h>
#include <string.h>

#include "harness/clones.h"
#include "reference/fast.h"
#include "reference/fast_block.h"
#include "reference/fast_pairs.h"
#include "reference/gold.h"

/* One thread's buffers. M: rows of a block, K: keys of a chunk, W: keys that a block sees. */
typedef struct work {
    double *q, *dout;                           /* [M dim] */
    double *k, *v;                              /* [K dim] */
    double *raw, *p, *dp, *ds;                  /* [M W], [M K] */
    float *squares, *dp_squares;                /* [M W], [M K] */
    float *a, *c, *w;                           /* [M K] */
    float *q_square, *dout_square;              /* [M dim] */
    float *plain, *absolute, *square, *product; /* [K dim], product [M dim] */
    double *o, *o_a, *o_c, *o_w1, *o_w2;        /* [M dim_v] */
    double *dq, *dq_a, *dq_c, *mass;            /* [M dim_qk] */
    double *w0, *w0_chunk, *unit;               /* [M] */
    double *k_unit;                             /* [W / K] of each chunk's forms of K */
    double *mean, *center;                      /* [dim_v] of V: of the chunk, of the first one */
    at_fast_p_sums *p_sums;                     /* [M] */
    at_noise_d *d_sums;                         /* [M] */
    at_row **rows;                              /* [M] */
    at_fast_span *spans;                        /* [M] */
    double squares_unit, dp_unit;               /* of q_square, dout_square */
    double dp_factor;                           /* of the chunk's dp_squares */
} work;

/* What a thread has in hand: the block, its heads, and the chunk of keys first..first+n-1. */
typedef struct place {
    at_fast *f;
    const at_fast_block *block;
    bool wanted;
    int64_t b, h_k, h_v, width; /* width: keys low..high of the block */
    int64_t first, n;
} place;

static at_status work_open(work *w, const at_fast *f, int64_t rows, int64_t scores, int64_t keys,
                           at_arena *arena, at_error *err)
{
    const size_t d = sizeof(double), s = sizeof(float);
    int64_t qk = f->p->c.dim_qk, v = f->p->c.dim_v, dim = qk > v ? qk : v;
    int64_t backward = f->train ? rows : 0, scale = f->scale ? 1 : 0;
    const struct {
        void *pointer;
        int64_t count;
        size_t size;
    } wanted[] = {
        {&w->q, rows * qk, d},
        {&w->k, keys * qk, d},
        {&w->v, keys * v, d},
        {&w->raw, scores, d},
        {&w->p, rows * keys, d},
        {&w->o, rows * v, d},
        {&w->rows, rows, sizeof *w->rows},
        {&w->spans, rows, sizeof *w->spans},
        {&w->dout, backward * v, d},
        {&w->dp, backward * keys, d},
        {&w->ds, backward * keys, d},
        {&w->dq, backward * qk, d},
        {&w->squares, scale * scores, s},
        {&w->a, scale * rows * keys, s},
        {&w->c, scale * rows * keys, s},
        {&w->w, scale * rows * keys, s},
        {&w->q_square, scale * rows * qk, s},
        {&w->plain, scale * keys * dim, s},
        {&w->absolute, scale * keys * dim, s},
        {&w->square, scale * keys * dim, s},
        {&w->product, scale * rows * dim, s},
        {&w->o_a, scale * rows * v, d},
        {&w->o_c, scale * rows * v, d},
        {&w->o_w1, scale * rows * v, d},
        {&w->o_w2, scale * rows * v, d},
        {&w->w0, scale * rows, d},
        {&w->w0_chunk, scale * rows, d},
        {&w->unit, scale * rows, d},
        {&w->k_unit, scale * (scores / AT_FAST_KEYS + 1), d},
        {&w->mean, scale * v, d},
        {&w->center, scale * v, d},
        {&w->p_sums, scale * rows, sizeof *w->p_sums},
        {&w->dp_squares, scale * backward * keys, s},
        {&w->dout_square, scale * backward * v, s},
        {&w->dq_a, scale * backward * qk, d},
        {&w->dq_c, scale * backward * qk, d},
        {&w->mass, scale * backward * qk, d},
        {&w->d_sums, scale * backward, sizeof *w->d_sums},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        AT_TRY(at_gold_take(wanted[i].pointer, arena, wanted[i].count, wanted[i].size, err));
    }
    return AT_OK;
}

/* Keys of row r in the chunk: their number; *from is the first of them, counted from the chunk's.
 */
static int64_t part_of(const work *w, const place *at, int64_t r, int64_t *from)
{
    const at_fast_span *span = &w->spans[r];
    int64_t first = span->first > at->first ? span->first : at->first;
    int64_t end = at->first + at->n, last = span->last + 1 < end ? span->last + 1 : end;
    *from = last > first ? first - at->first : 0;
    return last > first ? last - first : 0;
}

static at_fast_pairs pairs_of(const work *w, const place *at, int64_t r, int64_t from, int64_t n)
{
    int64_t wide = r * at->width + at->first - at->block->low + from, narrow = r * at->n + from;
    bool backward = w->dp != NULL && at->f->train;
    at_fast_pairs out = {
        .m = &at->f->m,
        .row = w->rows[r],
        .n = n,
        .raw = w->raw + wide,
        .p = w->p + narrow,
        .dp_factor = w->dp_factor,
    };
    if (at->f->scale) {
        double unit = w->squares_unit * w->k_unit[(at->first - at->block->low) / AT_FAST_KEYS];
        out.squares = w->squares + wide;
        out.squares_factor = at_noise_square(at->f->p->scale / unit);
    }
    out.dp = backward ? w->dp + narrow : NULL;
    out.dp_squares = backward && at->f->scale ? w->dp_squares + narrow : NULL;
    return out;
}

/* Puts 0 into row r of a chunk's matrix outside of from..from+n-1. */
static void clear_double(double *x, const place *at, int64_t r, int64_t from, int64_t n)
{
    double *row = x + r * at->n;
    memset(row, 0, (size_t)from * sizeof *x);
    memset(row + from + n, 0, (size_t)(at->n - from - n) * sizeof *x);
}

static void clear_float(float *x, const place *at, int64_t r, int64_t from, int64_t n)
{
    float *row = x + r * at->n;
    memset(row, 0, (size_t)from * sizeof *x);
    memset(row + from + n, 0, (size_t)(at->n - from - n) * sizeof *x);
}

/* Spans and row records of the block; dead rows are written at once. */
static void find_rows(work *w, const place *at)
{
    at_fast *f = at->f;
    const at_fast_block *block = at->block;
    for (int64_t r = 0; r < block->n; r++) {
        const int64_t *row = block->row[r];
        at_row *record = &f->rows[at_fast_row_index(f, row[0], row[1], row[2])];
        w->spans[r] = f->span[f->first_q[row[0]] + row[2]];
        w->rows[r] = record;
        int64_t keys = w->spans[r].last - w->spans[r].first + 1;
        *record = (at_row){.keys = keys > 0 ? (double)keys : 0};
        for (int id = AT_O; id <= AT_DQ && at->wanted && keys <= 0; id++) {
            at_gold_tensor *t = &f->gold->t[id];
            if (t->rows > 0) {
                t->dead[block->gold + r] = true;
                t->ref[(block->gold + r) * t->dim] = id == AT_LSE ? -HUGE_VAL : 0;
            }
        }
    }
}

static void load_queries(work *w, const place *at)
{
    const at_problem *p = at->f->p;
    const at_fast_block *block = at->block;
    int64_t n_q = block->n * p->c.dim_qk, n_v = block->n * p->c.dim_v;
    for (int64_t r = 0; r < block->n; r++) {
        const int64_t *row = block->row[r];
        at_tensor_load_row(&p->t[AT_Q], at->b, row[1], row[2], w->q + r * p->c.dim_qk);
        if (at->f->train) {
            at_tensor_load_row(&p->t[AT_DO], at->b, row[1], row[2], w->dout + r * p->c.dim_v);
        }
    }
    if (at->f->scale) {
        w->squares_unit = at_fast_unit_of(w->q, n_q);
        at_fast_floats(&(at_fast_forms){.square = w->q_square}, w->q, n_q, w->squares_unit);
    }
    if (at->f->scale && at->f->train) {
        w->dp_unit = at_fast_unit_of(w->dout, n_v);
        at_fast_floats(&(at_fast_forms){.square = w->dout_square}, w->dout, n_v, w->dp_unit);
    }
}

/* Goes to the chunk that begins at key `first`; false past the block's last key. */
static bool to_chunk(place *at, int64_t first)
{
    int64_t left = at->block->high - first + 1;
    at->first = first;
    at->n = left < AT_FAST_KEYS ? left : AT_FAST_KEYS;
    return left > 0;
}

/* Raw scores of the chunk, and their sums of squares. */
static void score_chunk(work *w, const place *at)
{
    const at_problem *p = at->f->p;
    int64_t m = at->block->n, dim = p->c.dim_qk, column = at->first - at->block->low;
    at_fast_load(w->k, &p->t[AT_K], at->b, at->h_k, at->first, NULL, at->n);
    at_fast_mul_nt(w->raw + column, at->width, w->q, w->k, m, at->n, dim, p->scale);
    if (at->f->scale) {
        double unit = at_fast_unit_of(w->k, at->n * dim);
        w->k_unit[column / AT_FAST_KEYS] = unit;
        at_fast_floats(&(at_fast_forms){.square = w->square}, w->k, at->n * dim, unit);
        at_fast_mul_nt_float(w->squares + column, at->width, w->q_square, w->square, m, at->n, dim);
    }
}

/* Scores of the block over all its keys, then the softmax of each row. */
static void score_block(work *w, place *at)
{
    const at_fast_block *block = at->block;
    for (int64_t j = block->low; to_chunk(at, j); j += at->n) {
        score_chunk(w, at);
    }
    for (int64_t r = 0; r < block->n; r++) {
        const at_fast_span *span = &w->spans[r];
        if (span->first <= span->last) {
            const double *raw = w->raw + r * at->width + span->first - block->low;
            at_fast_softmax(&at->f->m, w->rows[r], raw, span->last - span->first + 1);
        }
    }
}

/* P of the chunk in w->p. */
static void probability_chunk(work *w, const place *at)
{
    for (int64_t r = 0; r < at->block->n; r++) {
        int64_t from = 0, n = part_of(w, at, r, &from);
        at_fast_pairs x = pairs_of(w, at, r, from, n);
        clear_double(w->p, at, r, from, n);
        at_fast_probabilities(&x);
    }
}

/* Coefficients of O of the chunk in w->a, c, w; the sums of each row grow. */
static void output_terms(work *w, const place *at)
{
    for (int64_t r = 0; r < at->block->n; r++) {
        int64_t from = 0, n = part_of(w, at, r, &from), e = r * at->n + from;
        double before = w->p_sums[r].w;
        at_fast_pairs x = pairs_of(w, at, r, from, n);
        clear_float(w->a, at, r, from, n);
        clear_float(w->c, at, r, from, n);
        clear_float(w->w, at, r, from, n);
        at_fast_p_terms(&x, w->a + e, w->c + e, w->w + e, &w->p_sums[r]);
        w->w0_chunk[r] = w->p_sums[r].w - before;
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

static void fill(double *x, double value, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = value;
    }
}

/* Error scale of O: a |V| and c V^2, then w (V - O)^2 through moments about a centre, since V and O
 * may be nearly equal. */
static void output_scale_chunk(work *w, const place *at)
{
    int64_t m = at->block->n, dim = at->f->p->c.dim_v, n = at->n;
    output_terms(w, at);
    if (!at->wanted) {
        return;
    }
    double unit = at_fast_unit_of(w->v, n * dim);
    const at_fast_forms forms = {.absolute = w->absolute, .square = w->square};
    at_fast_floats(&forms, w->v, n * dim, unit);
    at_fast_set_nn_float(w->product, w->a, w->absolute, m, dim, n);
    fill(w->unit, 1 / unit, m);
    at_fast_add_rows(w->o_a, w->product, w->unit, m, dim);
    at_fast_set_nn_float(w->product, w->c, w->square, m, dim, n);
    fill(w->unit, 1 / (unit * unit), m);
    at_fast_add_rows(w->o_c, w->product, w->unit, m, dim);

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
    fill(w->unit, 1 / (unit * unit), m);
    at_fast_add_rows(w->o_w2, w->product, w->unit, m, dim);
    at_fast_set_nn_float(w->product, w->w, w->plain, m, dim, n);
    for (int64_t r = 0; r < m; r++) {
        w->w0[r] += w->w0_chunk[r];
        add_moment(w->o_w1 + r * dim, w->o_w2 + r * dim, w->product + r * dim, w->mean,
                   w->w0_chunk[r], unit, dim);
    }
}

/* Bound and sigma of O and LSE of row r. */
static void output_scale_row(const work *w, const place *at, int64_t r)
{
    const at_noise *m = &at->f->m;
    const at_row *row = w->rows[r];
    int64_t dim = at->f->p->c.dim_v, index = at->block->gold + r;
    at_gold_tensor *o = &at->f->gold->t[AT_O], *lse = &at->f->gold->t[AT_LSE];
    const double e = 1 / AT_FAST_UNITS;
    for (int64_t d = 0; d < dim; d++) {
        int64_t i = r * dim + d;
        double ref = w->o[i], away = ref - w->center[d];
        double moved = w->o_w2[i] - 2 * away * w->o_w1[i] + away * away * w->w0[r];
        at_noise_sum sum = {.ref = ref, .a = w->o_a[i] * e};
        sum.c = (w->o_c[i] + (moved > 0 && row->keys > 1 ? moved : 0)) * e * e +
                row->sum_var * ref * ref + at_noise_total_var(m, row->keys, ref, 0);
        at_noise_finish(&sum, m->u_o, m->half_o, &o->bound[index * dim + d],
                        &o->sigma[index * dim + d]);
    }
    if (lse->rows > 0) {
        const at_fast_p_sums *s = &w->p_sums[r];
        at_noise_lse(m, row, s->linear, s->squares, &lse->bound[index], &lse->sigma[index]);
    }
}

static void finish_output(const work *w, const place *at)
{
    int64_t dim = at->f->p->c.dim_v;
    at_gold_tensor *o = &at->f->gold->t[AT_O], *lse = &at->f->gold->t[AT_LSE];
    for (int64_t r = 0; r < at->block->n; r++) {
        at_row *row = w->rows[r];
        int64_t index = at->block->gold + r;
        if (row->keys > 0 && at->f->scale) {
            at_noise_row(row, w->p_sums[r].pp);
        }
        if (row->keys > 0 && at->wanted) {
            memcpy(o->ref + index * dim, w->o + r * dim, (size_t)dim * sizeof(double));
            if (lse->rows > 0) {
                lse->ref[index] = row->lse;
            }
            if (at->f->scale) {
                output_scale_row(w, at, r);
            }
        }
    }
}

static void clear(double *x, int64_t n)
{
    memset(x, 0, (size_t)n * sizeof *x);
}

/* O = P V, LSE. */
static void output_block(work *w, place *at)
{
    const at_problem *p = at->f->p;
    int64_t m = at->block->n, dim = p->c.dim_v;
    clear(w->o, m * dim);
    if (at->f->scale) {
        clear(w->o_a, m * dim);
        clear(w->o_c, m * dim);
        clear(w->o_w1, m * dim);
        clear(w->o_w2, m * dim);
        clear(w->w0, m);
        memset(w->p_sums, 0, (size_t)m * sizeof *w->p_sums);
    }
    for (int64_t j = at->block->low; to_chunk(at, j); j += at->n) {
        probability_chunk(w, at);
        at_fast_load(w->v, &p->t[AT_V], at->b, at->h_v, at->first, NULL, at->n);
        at_fast_add_nn(w->o, w->p, w->v, m, dim, at->n);
        if (at->f->scale) {
            output_scale_chunk(w, at);
        }
    }
    finish_output(w, at);
}

/* D of each live row, and what its variance needs of O. */
static void find_d(work *w, const place *at)
{
    int64_t dim = at->f->p->c.dim_v;
    for (int64_t r = 0; r < at->block->n; r++) {
        double d = 0, squares = 0;
        for (int64_t i = r * dim; i < (r + 1) * dim; i++) {
            double x = w->dout[i] * w->o[i];
            d += x;
            squares += x * x;
        }
        w->rows[r]->d = d;
        if (at->f->scale) {
            w->d_sums[r] = (at_noise_d){.do_o2 = squares};
        }
    }
}

/* dS of the chunk in w->ds; its coefficients in w->a, c and the mass in w->w, each row in its unit;
 * the sums of D's variance grow. */
static void gradient_terms(work *w, const place *at)
{
    double least = at->f->m.sub / at->f->m.u_p;
    for (int64_t r = 0; r < at->block->n; r++) {
        int64_t from = 0, n = part_of(w, at, r, &from), e = r * at->n + from;
        at_fast_pairs x = pairs_of(w, at, r, from, n);
        if (at->wanted) {
            clear_double(w->ds, at, r, from, n);
            at_fast_gradients(&x, w->ds + e);
        }
        if (!at->f->scale) {
            continue;
        }
        double size = 1 / at_fast_unit_of(x.dp, n) + fabs(w->rows[r]->d);
        size = size > least ? size : least;
        double unit = at_fast_unit_of(&size, 1);
        w->unit[r] = 1 / unit;
        clear_float(w->a, at, r, from, n);
        clear_float(w->c, at, r, from, n);
        clear_float(w->w, at, r, from, n);
        at_fast_dq_terms(&x, unit, at->wanted ? w->a + e : NULL, w->c + e, w->w + e, &w->d_sums[r]);
    }
}

/* Error scale of dQ: a |K|, c K^2, and the mass of K that D's error moves. */
static void gradient_scale_chunk(work *w, const place *at)
{
    int64_t m = at->block->n, dim = at->f->p->c.dim_qk, n = at->n;
    double unit = at_fast_unit_of(w->k, n * dim);
    const at_fast_forms forms = {.plain = w->plain, .absolute = w->absolute, .square = w->square};
    at_fast_floats(&forms, w->k, n * dim, unit);
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
    fill(w->unit, 1 / unit, m);
    at_fast_add_rows(w->mass, w->product, w->unit, m, dim);
}

static void gradient_chunk(work *w, const place *at)
{
    const at_problem *p = at->f->p;
    int64_t m = at->block->n, dim_v = p->c.dim_v, dim_qk = p->c.dim_qk;
    probability_chunk(w, at);
    at_fast_load(w->v, &p->t[AT_V], at->b, at->h_v, at->first, NULL, at->n);
    at_fast_mul_nt(w->dp, at->n, w->dout, w->v, m, at->n, dim_v, 1);
    if (at->f->scale) {
        double unit = at_fast_unit_of(w->v, at->n * dim_v);
        at_fast_floats(&(at_fast_forms){.square = w->square}, w->v, at->n * dim_v, unit);
        at_fast_mul_nt_float(w->dp_squares, at->n, w->dout_square, w->square, m, at->n, dim_v);
        w->dp_factor = 1 / at_noise_square(w->dp_unit * unit);
    }
    gradient_terms(w, at);
    if (at->wanted) {
        at_fast_load(w->k, &p->t[AT_K], at->b, at->h_k, at->first, NULL, at->n);
        at_fast_add_nn(w->dq, w->ds, w->k, m, dim_qk, at->n);
        if (at->f->scale) {
            gradient_scale_chunk(w, at);
        }
    }
}

/* dQ of row r with its bound and sigma. */
static void finish_gradient(const work *w, const place *at, int64_t r)
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
        t->ref[e] = scale * w->dq[i];
        if (at->f->scale) {
            at_noise_sum sum = {.ref = t->ref[e], .a = w->dq_a[i] * a_unit};
            sum.c = w->dq_c[i] * a_unit * a_unit + row->common_var * sum.ref * sum.ref +
                    row->d_var * at_noise_square(scale * w->mass[i]) +
                    at_noise_total_var(m, row->keys, sum.ref, scale);
            at_noise_finish(&sum, m->u_in, m->half_in, &t->bound[e], &t->sigma[e]);
        }
    }
}

/* D and its variance; dQ = scale dS K. */
static void gradient_block(work *w, place *at)
{
    int64_t n = at->block->n * at->f->p->c.dim_qk;
    find_d(w, at);
    if (!at->wanted && !at->f->scale) {
        return;
    }
    clear(w->dq, n);
    if (at->f->scale) {
        clear(w->dq_a, n);
        clear(w->dq_c, n);
        clear(w->mass, n);
    }
    for (int64_t j = at->block->low; to_chunk(at, j); j += at->n) {
        gradient_chunk(w, at);
    }
    for (int64_t r = 0; r < at->block->n; r++) {
        if (w->rows[r]->keys > 0) {
            finish_gradient(w, at, r);
        }
    }
}

static void run_block(at_fast *f, work *w, const at_fast_block *block, bool wanted)
{
    const int64_t *row = block->row[0];
    place at = {
        .f = f,
        .block = block,
        .wanted = wanted,
        .b = row[0],
        .h_k = row[1] / f->group_k,
        .h_v = row[1] / f->group_v,
        .width = block->high - block->low + 1,
    };
    find_rows(w, &at);
    if (at.width > 0) {
        load_queries(w, &at);
        score_block(w, &at);
        output_block(w, &at);
        if (f->train) {
            gradient_block(w, &at);
        }
    }
}

/* Grows `block`, which begins at list[first], while rows share their heads and their scores fit. */
static void grow_block(const at_fast *f, at_fast_block *block, int64_t (*list)[3], int64_t first,
                       int64_t n)
{
    const int64_t *head = list[first];
    *block = (at_fast_block){.row = list + first, .low = 0, .high = -1};
    for (int64_t r = first; r < n && block->n < AT_FAST_ROWS; r++, block->n++) {
        const int64_t *row = list[r];
        const at_fast_span *span = &f->span[f->first_q[row[0]] + row[2]];
        int64_t low = block->low, high = block->high;
        if (row[0] != head[0] || row[1] / f->group_k != head[1] / f->group_k ||
            row[1] / f->group_v != head[1] / f->group_v) {
            return;
        }
        if (span->first <= span->last) {
            low = high < low || span->first < low ? span->first : low;
            high = span->last > high ? span->last : high;
        }
        if (block->n >= AT_FAST_ROWS_LEAST && (block->n + 1) * (high - low + 1) > AT_FAST_SCORES) {
            return;
        }
        block->low = low;
        block->high = high;
    }
}

/* Cuts the list into blocks; *scores, *rows and *keys get the largest M W, M and K. */
static at_status cut_list(const at_fast *f, at_fast_block **out, int64_t *n_blocks,
                          int64_t (*list)[3], int64_t n, int64_t largest[3], at_arena *arena,
                          at_error *err)
{
    int64_t count = 0;
    at_fast_block block;
    for (int64_t r = 0; r < n; r += block.n, count++) {
        grow_block(f, &block, list, r, n);
        int64_t width = block.high - block.low + 1;
        int64_t keys = width < AT_FAST_KEYS ? width : AT_FAST_KEYS;
        largest[0] = block.n > largest[0] ? block.n : largest[0];
        largest[1] = block.n * width > largest[1] ? block.n * width : largest[1];
        largest[2] = keys > largest[2] ? keys : largest[2];
    }
    AT_TRY(at_gold_take(out, arena, count, sizeof **out, err));
    *n_blocks = count;
    count = 0;
    for (int64_t r = 0; r < n; r += (*out)[count++].n) {
        grow_block(f, &(*out)[count], list, r, n);
        (*out)[count].gold = r;
    }
    return AT_OK;
}

at_status at_fast_rows(at_fast *f, int64_t (*list)[3], int64_t n, bool wanted, at_arena *arena,
                       at_error *err)
{
    at_fast_block *blocks = NULL;
    work *works = NULL;
    int64_t n_blocks = 0, largest[3] = {0, 0, 0};
    AT_TRY(cut_list(f, &blocks, &n_blocks, list, n, largest, arena, err));
    int threads = at_fast_threads(n_blocks);
    AT_TRY(at_gold_take(&works, arena, threads, sizeof *works, err));
    for (int t = 0; t < threads; t++) {
        AT_TRY(work_open(&works[t], f, largest[0], largest[1], largest[2], arena, err));
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < n_blocks; i++) {
        run_block(f, &works[omp_get_thread_num()], &blocks[i], wanted);
    }
    return AT_OK;
}
