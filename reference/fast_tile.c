/* The key pass: one tile of query rows and keys. */
#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/fast_keys.h"

#include <string.h>

#include "reference/fast_block.h"
#include "reference/fast_pairs.h"

void at_fast_load_side(at_fast_side *s, const at_fast *f, at_tensor_id id, int64_t b, int64_t h,
                       int64_t first, int64_t n)
{
    int64_t size = n * f->p->t[id].shape[3];
    at_fast_load(s->rows, f->p, id, b, h, first, NULL, n);
    if (f->scale) {
        const at_fast_forms forms = {s->plain, s->absolute, s->square};
        s->unit = at_fast_unit_of(s->rows, size);
        at_fast_floats(&forms, s->rows, size, s->unit);
    }
}

static at_fast_pairs pairs_of(const at_fast_key_work *w, const at_fast_key_block *at,
                              const at_fast_tile *t, int64_t r)
{
    int64_t from = w->columns[r].first, wide = r * t->wide + from, narrow = r * t->n + from;
    at_fast_pairs out = {
        .m = &at->f->m,
        .row = &t->records[r],
        .n = w->columns[r].last - from + 1,
        .raw = t->raw + wide,
        .add = at->f->score.added ? t->add + wide : NULL,
        .keep = at->f->score.dropped ? t->keep + narrow : NULL,
        .squares_factor = t->squares_factor,
        .p = t->p + narrow,
        .dp = t->dp + wide,
        .dp_factor = t->dp_factor,
    };
    out.squares = at->f->scale ? t->squares + wide : NULL;
    out.dp_squares = at->f->scale ? t->dp_squares + wide : NULL;
    return out;
}

/* Puts 0 into what row r does not see. */
static void clear_outside(void *matrix, size_t size, const at_fast_key_work *w,
                          const at_fast_tile *t, int64_t r)
{
    unsigned char *row = (unsigned char *)matrix + (size_t)(r * t->n) * size;
    size_t from = (size_t)w->columns[r].first, end = (size_t)(w->columns[r].last + 1);
    memset(row, 0, from * size);
    memset(row + end * size, 0, ((size_t)t->n - end) * size);
}

/* What stands beside scale q.k in row r of the tile, row i of head h; dropout's factors go to dP.
 */
static void extend_row(const at_fast_key_work *w, const at_fast_key_block *at,
                       const at_fast_tile *t, int64_t h, int64_t i, int64_t r)
{
    const at_score *score = &at->f->score;
    const at_fast_span *columns = &w->columns[r];
    int64_t b = at->unit->b, first = at->first + columns->first;
    int64_t e = r * t->wide + columns->first, narrow = r * t->n + columns->first;
    at_score_keys keys = {.first = first, .n = columns->last - columns->first + 1};
    keys.keys = at->unit->keys != NULL ? at->unit->keys + first : NULL;
    if (keys.n <= 0) {
        return;
    }
    if (score->before) {
        at_score_before(score, t->add + e, b, h, i, &keys);
        for (int64_t j = e; j < e + keys.n; j++) {
            t->raw[j] += t->add[j];
        }
    }
    if (score->added) {
        at_score_after(score, t->add + e, b, h, i, &keys);
    }
    if (score->dropped) {
        at_score_dropout(score, t->keep + narrow, b, h, i, &keys);
    }
    for (int64_t j = 0; score->dropped && j < keys.n; j++) {
        double keep = t->keep[narrow + j];
        t->dp[e + j] *= keep;
        if (at->f->scale) {
            t->dp_squares[e + j] *= (float)(keep * keep);
        }
    }
}

/* P times dropout's factors. */
static void keep_row(const at_fast_key_work *w, const at_fast_tile *t, int64_t r)
{
    int64_t e = r * t->n;
    clear_outside(t->kept, sizeof *t->kept, w, t, r);
    for (int64_t j = e + w->columns[r].first; j <= e + w->columns[r].last; j++) {
        t->kept[j] = t->p[j] * t->keep[j];
    }
}

void at_fast_tile_values(at_fast_key_work *w, const at_fast_key_block *at, const at_fast_tile *t,
                         int64_t h, int64_t first)
{
    for (int64_t r = 0; r < t->rows; r++) {
        at_fast_pairs x = pairs_of(w, at, t, r);
        extend_row(w, at, t, h, first + r, r);
        clear_outside(t->p, sizeof *t->p, w, t, r);
        clear_outside(t->ds, sizeof *t->ds, w, t, r);
        at_fast_probabilities(&x);
        at_fast_gradients(&x, t->ds + r * t->n + w->columns[r].first);
        if (at->f->score.dropped) {
            keep_row(w, t, r);
        }
    }
}

void at_fast_tile_sums(at_fast_key_work *w, const at_fast_key_block *at, const at_fast_tile *t)
{
    const double *p = at->f->score.dropped ? t->kept : t->p;
    double *dv = w->dv.head + t->column * w->dv.dim, *dk = w->dk.head + t->column * w->dk.dim;
    at_fast_add_tn(dv, p, w->dout.rows, t->n, w->dv.dim, t->rows);
    at_fast_add_tn(dk, t->ds, w->q.rows, t->n, w->dk.dim, t->rows);
}

static at_fast_columns columns_from(const at_fast_key_work *w, const at_fast_tile *t,
                                    int64_t column)
{
    return (at_fast_columns){
        .count_k = w->count_k + t->column + column,
        .count_v = w->count_v + t->column + column,
        .p_most = w->p_most + column,
        .ds_most = w->ds_most + column,
        .p_unit = w->p_unit + column,
        .ds_unit = w->ds_unit + column,
    };
}

/* The columns' units. */
static void find_units(at_fast_key_work *w, const at_fast_key_block *at, const at_fast_tile *t)
{
    memset(w->p_most, 0, (size_t)t->n * sizeof *w->p_most);
    memset(w->ds_most, 0, (size_t)t->n * sizeof *w->ds_most);
    for (int64_t r = 0; r < t->rows; r++) {
        at_fast_pairs x = pairs_of(w, at, t, r);
        at_fast_columns columns = columns_from(w, t, w->columns[r].first);
        at_fast_column_most(&x, &columns);
    }
    for (int64_t j = 0; j < t->n; j++) {
        w->p_unit[j] = at_fast_unit_of(&w->p_most[j], 1);
        w->ds_unit[j] = at_fast_unit_of(&w->ds_most[j], 1);
    }
}

/* Coefficients of a tile [R C] for one gradient, and whether the known errors matter. */
typedef struct coefficients {
    const float *a, *c, *known;
    const double *unit; /* [C] of a and known; c has its square */
    bool know;
} coefficients;

/* sum [C dim] += coefficients^T rows, column j times (factor / unit[j])^power. */
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

/* Adds a tile to the error scale, from column `column` of the unit's K or V on. */
static void add_scale(at_fast_key_work *w, at_fast_gradient *g, int64_t column,
                      const at_fast_side *side, const coefficients *x, const at_fast_tile *t)
{
    const int64_t size[3] = {t->n, g->dim, t->rows};
    int64_t e = column * g->dim;
    double factor = fabs(g->weight) / (AT_FAST_UNITS * side->unit);
    add_product(w, g->a + e, x->a, side->absolute, x->unit, factor, 1, size);
    add_product(w, g->c + e, x->c, side->square, x->unit, factor, 2, size);
    if (x->know) {
        add_product(w, g->known + e, x->known, side->plain, x->unit, factor, 1, size);
    }
}

void at_fast_tile_scale(at_fast_key_work *w, const at_fast_key_block *at, const at_fast_tile *t)
{
    find_units(w, at, t);
    for (int64_t r = 0; r < t->rows; r++) {
        at_fast_pairs x = pairs_of(w, at, t, r);
        at_fast_columns columns = columns_from(w, t, w->columns[r].first);
        int64_t e = r * t->n + w->columns[r].first;
        float *const matrix[] = {w->a_p, w->c_p, w->a_ds, w->c_ds, w->k_p, w->k_ds};
        for (int i = 0; i < 6; i++) {
            clear_outside(matrix[i], sizeof(float), w, t, r);
        }
        const at_fast_column_terms out = {w->a_p + e,  w->c_p + e, w->a_ds + e,
                                          w->c_ds + e, w->k_p + e, w->k_ds + e};
        at_fast_key_terms(&x, &columns, &out);
    }
    const at_noise *m = &at->f->m;
    bool low_p = m->p.u > AT_NOISE_E, low_d = m->out[AT_O].u > AT_NOISE_E && !m->d_from_p;
    const coefficients dv = {w->a_p, w->c_p, w->k_p, w->p_unit, low_p};
    const coefficients dk = {w->a_ds, w->c_ds, w->k_ds, w->ds_unit,
                             low_d || (low_p && m->p_times > 1)};
    add_scale(w, &w->dv, t->h_v * at->n + t->column, &w->dout, &dv, t);
    add_scale(w, &w->dk, t->h_k * at->n + t->column, &w->q, &dk, t);
}
