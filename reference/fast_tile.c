/* The key pass: one tile of query rows and keys. */
#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/fast_keys.h"

#include <string.h>

#include "reference/fast_block.h"
#include "reference/fast_pairs.h"

static void load_side(at_fast_side *s, const at_fast *f, at_tensor_id id, int64_t b, int64_t h,
                      int64_t first, int64_t rows)
{
    int64_t n = rows * f->p->t[id].shape[3];
    at_fast_load(s->rows, f->p, id, b, h, first, NULL, rows);
    if (f->scale) {
        const at_fast_forms forms = {s->plain, s->absolute, s->square};
        s->unit = at_fast_unit_of(s->rows, n);
        at_fast_floats(&forms, s->rows, n, s->unit);
    }
}

static at_fast_pairs pairs_of(const at_fast_key_work *w, const at_fast_key_block *at,
                              const at_row *row, int64_t r, double squares_factor, double dp_factor)
{
    int64_t e = r * at->n + w->columns[r].first;
    at_fast_pairs out = {
        .m = &at->f->m,
        .row = row,
        .n = w->columns[r].last - w->columns[r].first + 1,
        .raw = w->raw + e,
        .add = at->f->score.added ? w->add + e : NULL,
        .keep = at->f->score.dropped ? w->keep + e : NULL,
        .squares_factor = squares_factor,
        .p = w->p + e,
        .dp = w->dp + e,
        .dp_factor = dp_factor,
    };
    out.squares = at->f->scale ? w->squares + e : NULL;
    out.dp_squares = at->f->scale ? w->dp_squares + e : NULL;
    return out;
}

/* Puts 0 into what row r does not see. */
static void clear_outside(void *matrix, size_t size, const at_fast_key_work *w,
                          const at_fast_key_block *at, int64_t r)
{
    unsigned char *row = (unsigned char *)matrix + (size_t)(r * at->n) * size;
    size_t from = (size_t)w->columns[r].first, end = (size_t)(w->columns[r].last + 1);
    memset(row, 0, from * size);
    memset(row + end * size, 0, ((size_t)at->n - end) * size);
}

static at_fast_columns columns_from(const at_fast_key_work *w, int64_t column)
{
    return (at_fast_columns){
        .count_k = w->count_k + column,
        .count_v = w->count_v + column,
        .p_most = w->p_most + column,
        .ds_most = w->ds_most + column,
        .p_unit = w->p_unit + column,
        .ds_unit = w->ds_unit + column,
    };
}

/* What stands beside scale q.k in row r of the tile, row i of head h; dropout's factors go to dP.
 */
static void extend_row(at_fast_key_work *w, const at_fast_key_block *at, int64_t h, int64_t i,
                       int64_t r)
{
    const at_score *score = &at->f->score;
    const at_fast_span *columns = &w->columns[r];
    int64_t e = r * at->n + columns->first, b = at->unit->b, first = at->first + columns->first;
    at_score_keys keys = {.first = first, .n = columns->last - columns->first + 1};
    keys.keys = at->unit->keys != NULL ? at->unit->keys + first : NULL;
    if (keys.n <= 0) {
        return;
    }
    if (score->before) {
        at_score_before(score, w->add + e, b, h, i, &keys);
        for (int64_t j = e; j < e + keys.n; j++) {
            w->raw[j] += w->add[j];
        }
    }
    if (score->added) {
        at_score_after(score, w->add + e, b, h, i, &keys);
    }
    if (score->dropped) {
        at_score_dropout(score, w->keep + e, b, h, i, &keys);
    }
    for (int64_t j = e; score->dropped && j < e + keys.n; j++) {
        w->dp[j] *= w->keep[j];
        if (at->f->scale) {
            w->dp_squares[j] *= (float)(w->keep[j] * w->keep[j]);
        }
    }
}

/* P times dropout's factors. */
static void keep_row(at_fast_key_work *w, const at_fast_key_block *at, int64_t r)
{
    int64_t e = r * at->n;
    clear_outside(w->kept, sizeof *w->kept, w, at, r);
    for (int64_t j = e + w->columns[r].first; j <= e + w->columns[r].last; j++) {
        w->kept[j] = w->p[j] * w->keep[j];
    }
}

/* P and dS of a tile; with the scale also the largest of each column. */
static void tile_values(at_fast_key_work *w, const at_fast_key_block *at, const at_row *rows,
                        int64_t n_rows, double dp_factor)
{
    if (at->f->scale) {
        memset(w->p_most, 0, (size_t)at->n * sizeof *w->p_most);
        memset(w->ds_most, 0, (size_t)at->n * sizeof *w->ds_most);
    }
    for (int64_t r = 0; r < n_rows; r++) {
        at_fast_pairs x = pairs_of(w, at, &rows[r], r, 0, dp_factor);
        clear_outside(w->p, sizeof *w->p, w, at, r);
        clear_outside(w->ds, sizeof *w->ds, w, at, r);
        at_fast_probabilities(&x);
        at_fast_gradients(&x, w->ds + r * at->n + w->columns[r].first);
        if (at->f->score.dropped) {
            keep_row(w, at, r);
        }
        if (at->f->scale) {
            at_fast_columns columns = columns_from(w, w->columns[r].first);
            at_fast_column_most(&x, &columns);
        }
    }
}

/* Coefficients of a tile [R K] for one gradient, and whether the known errors matter. */
typedef struct coefficients {
    const float *a, *c, *known;
    const double *unit; /* [K] of a and known; c has its square */
    bool know;
} coefficients;

/* sum [K dim] += coefficients^T rows, column j times (factor / unit[j])^power. */
static void add_product(at_fast_key_work *w, double *sum, const float *x, const float *rows,
                        const double *unit, double factor, int power, const int64_t size[3])
{
    for (int64_t j = 0; j < size[0]; j++) {
        double f = factor / unit[j];
        w->factor[j] = power == 2 ? f * f : f;
    }
    at_fast_set_tn_float(w->product, x, rows, size[0], size[1], size[2]);
    at_fast_add_rows(sum, w->product, w->factor, size[0], size[1]);
}

/* Adds a tile to the error scale of head `h` of the unit's K or V. */
static void add_scale(at_fast_key_work *w, at_fast_gradient *g, int64_t h, const at_fast_side *side,
                      const coefficients *x, int64_t keys, int64_t rows)
{
    const int64_t size[3] = {keys, g->dim, rows};
    int64_t e = h * keys * g->dim;
    double factor = fabs(g->weight) / (AT_FAST_UNITS * side->unit);
    add_product(w, g->a + e, x->a, side->absolute, x->unit, factor, 1, size);
    add_product(w, g->c + e, x->c, side->square, x->unit, factor, 2, size);
    if (x->know) {
        add_product(w, g->known + e, x->known, side->plain, x->unit, factor, 1, size);
    }
}

static void tile_scale(at_fast_key_work *w, const at_fast_key_block *at, const at_row *rows,
                       int64_t n_rows, int64_t h_k, int64_t h_v, double dp_factor)
{
    double scale = at->f->p->scale;
    double squares_factor = at_noise_square(scale / (w->q.unit * w->dk.unit[h_k]));
    for (int64_t j = 0; j < at->n; j++) {
        w->p_unit[j] = at_fast_unit_of(&w->p_most[j], 1);
        w->ds_unit[j] = at_fast_unit_of(&w->ds_most[j], 1);
    }
    for (int64_t r = 0; r < n_rows; r++) {
        at_fast_pairs x = pairs_of(w, at, &rows[r], r, squares_factor, dp_factor);
        at_fast_columns columns = columns_from(w, w->columns[r].first);
        int64_t e = r * at->n + w->columns[r].first;
        const at_fast_column_terms out = {w->a_p + e,  w->c_p + e, w->a_ds + e,
                                          w->c_ds + e, w->k_p + e, w->k_ds + e};
        clear_outside(w->a_p, sizeof *w->a_p, w, at, r);
        clear_outside(w->c_p, sizeof *w->c_p, w, at, r);
        clear_outside(w->a_ds, sizeof *w->a_ds, w, at, r);
        clear_outside(w->c_ds, sizeof *w->c_ds, w, at, r);
        clear_outside(w->k_p, sizeof *w->k_p, w, at, r);
        clear_outside(w->k_ds, sizeof *w->k_ds, w, at, r);
        at_fast_key_terms(&x, &columns, &out);
    }
    const at_noise *m = &at->f->m;
    bool low_p = m->p.u > AT_NOISE_E, low_d = m->out[AT_O].u > AT_NOISE_E && !m->d_from_p;
    const coefficients dv = {w->a_p, w->c_p, w->k_p, w->p_unit, low_p};
    const coefficients dk = {w->a_ds, w->c_ds, w->k_ds, w->ds_unit,
                             low_d || (low_p && m->p_times > 1)};
    add_scale(w, &w->dv, h_v, &w->dout, &dv, at->n, n_rows);
    add_scale(w, &w->dk, h_k, &w->q, &dk, at->n, n_rows);
}

void at_fast_run_tile(at_fast_key_work *w, const at_fast_key_block *at, int64_t h, int64_t first,
                      int64_t n_rows)
{
    at_fast *f = at->f;
    int64_t b = at->unit->b, local = h - at->unit->head, n = at->n;
    int64_t h_k = local / f->group_k, h_v = local / f->group_v, qk = w->dk.dim, v = w->dv.dim;
    const at_row *rows = at_fast_row(f, b, h, first);
    load_side(&w->q, f, AT_Q, b, h, first, n_rows);
    load_side(&w->dout, f, AT_DO, b, h, first, n_rows);
    at_fast_mul_nt(w->raw, n, w->q.rows, w->dk.source + h_k * n * qk, n_rows, n, qk, f->p->scale);
    at_fast_mul_nt(w->dp, n, w->dout.rows, w->dv.source + h_v * n * v, n_rows, n, v, 1);
    double dp_factor = 0;
    if (f->scale) {
        dp_factor = 1 / at_noise_square(w->dout.unit * w->dv.unit[h_v]);
        at_fast_mul_nt_float(w->squares, n, w->q.square, w->dk.square + h_k * n * qk, n_rows, n,
                             qk);
        at_fast_mul_nt_float(w->dp_squares, n, w->dout.square, w->dv.square + h_v * n * v, n_rows,
                             n, v);
    }
    for (int64_t r = 0; r < n_rows; r++) {
        extend_row(w, at, h, first + r, r);
    }
    tile_values(w, at, rows, n_rows, dp_factor);
    at_fast_add_tn(w->dv.head, f->score.dropped ? w->kept : w->p, w->dout.rows, n, v, n_rows);
    at_fast_add_tn(w->dk.head, w->ds, w->q.rows, n, qk, n_rows);
    if (f->scale) {
        tile_scale(w, at, rows, n_rows, h_k, h_v, dp_factor);
    }
}
