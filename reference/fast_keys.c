/* The key pass: dK and dV of blocks of keys, summed over the rows and heads that see them. */
#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include <omp.h>
#include <string.h>

#include "reference/fast.h"
#include "reference/fast_block.h"
#include "reference/fast_pairs.h"
#include "reference/gold.h"

/* Gradient of one of K or V for the block's keys and the unit's heads: value, sum of roundings,
 * variance [heads K dim], and the query head at hand [K dim]. */
typedef struct gradient {
    int64_t heads, dim, group; /* of the unit; query heads a head */
    double *source;            /* the unit's K or V [heads K dim] */
    float *square;             /* its squares in f32, times unit^2 of the head */
    double *unit;              /* [heads] */
    double *ref, *a, *c, *head, *squares;
    const double *count; /* [K] additions in the chain of a key */
    double weight;       /* scale for dK, 1 for dV */
    at_noise_flat *flat; /* [heads] flattest of the rows, as far as roundings of P reach */
} gradient;

/* One side of a tile: rows of Q or dO. */
typedef struct side {
    double *rows;             /* [R dim] */
    float *absolute, *square; /* times unit, unit^2 */
    double unit;
} side;

/* One thread's buffers. R: rows of a tile, K: keys of a block. */
typedef struct work {
    gradient dk, dv;
    side q, dout;
    double *raw, *p, *dp, *ds;                             /* [R K] */
    float *squares, *dp_squares, *a_p, *c_p, *a_ds, *c_ds; /* [R K] */
    float *product;                                        /* [K dim] */
    double *p_most, *ds_most, *p_unit, *ds_unit, *factor;  /* [K] */
    double *count_k, *count_v;                             /* [K] */
    at_fast_span *columns; /* [R] columns that each row of the tile sees, empty: first > last */
} work;

/* A block of keys of one unit. */
typedef struct place {
    at_fast *f;
    const at_fast_unit *unit;
    int64_t first, n; /* among the unit's keys */
} place;

static int64_t key_of(const place *at, int64_t column)
{
    int64_t k = at->first + column;
    return at->unit->keys != NULL ? at->unit->keys[k] : k;
}

static at_status gradient_open(gradient *g, int64_t heads, int64_t dim, int64_t keys, bool scale,
                               at_arena *arena, at_error *err)
{
    const size_t d = sizeof(double);
    int64_t n = heads * keys * dim, more = scale ? n : 0;
    g->heads = heads;
    g->dim = dim;
    AT_TRY(at_gold_take(&g->source, arena, n, d, err));
    AT_TRY(at_gold_take(&g->ref, arena, n, d, err));
    AT_TRY(at_gold_take(&g->head, arena, keys * dim, d, err));
    AT_TRY(at_gold_take(&g->unit, arena, heads, d, err));
    AT_TRY(at_gold_take(&g->flat, arena, heads, sizeof *g->flat, err));
    AT_TRY(at_gold_take(&g->square, arena, more, sizeof(float), err));
    AT_TRY(at_gold_take(&g->a, arena, more, d, err));
    AT_TRY(at_gold_take(&g->squares, arena, more, d, err));
    return at_gold_take(&g->c, arena, more, d, err);
}

static at_status side_open(side *s, int64_t n, bool scale, at_arena *arena, at_error *err)
{
    AT_TRY(at_gold_take(&s->rows, arena, n, sizeof(double), err));
    AT_TRY(at_gold_take(&s->absolute, arena, scale ? n : 0, sizeof(float), err));
    return at_gold_take(&s->square, arena, scale ? n : 0, sizeof(float), err);
}

static at_status work_open(work *w, const at_fast *f, int64_t rows, int64_t keys, at_arena *arena,
                           at_error *err)
{
    const size_t d = sizeof(double), s = sizeof(float);
    const at_case *c = &f->p->c;
    int64_t qk = c->dim_qk, v = c->dim_v, dim = qk > v ? qk : v, n = rows * keys;
    int64_t more = f->scale ? n : 0;
    const struct {
        void *pointer;
        int64_t count;
        size_t size;
    } wanted[] = {
        {&w->raw, n, d},
        {&w->p, n, d},
        {&w->dp, n, d},
        {&w->ds, n, d},
        {&w->squares, more, s},
        {&w->dp_squares, more, s},
        {&w->a_p, more, s},
        {&w->c_p, more, s},
        {&w->a_ds, more, s},
        {&w->c_ds, more, s},
        {&w->p_most, keys, d},
        {&w->ds_most, keys, d},
        {&w->p_unit, keys, d},
        {&w->ds_unit, keys, d},
        {&w->factor, keys, d},
        {&w->count_k, keys, d},
        {&w->count_v, keys, d},
        {&w->columns, rows, sizeof *w->columns},
        {&w->product, f->scale ? keys * dim : 0, s},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        AT_TRY(at_gold_take(wanted[i].pointer, arena, wanted[i].count, wanted[i].size, err));
    }
    int64_t heads_k = f->unit_heads / f->group_k, heads_v = f->unit_heads / f->group_v;
    AT_TRY(gradient_open(&w->dk, heads_k, qk, keys, f->scale, arena, err));
    AT_TRY(gradient_open(&w->dv, heads_v, v, keys, f->scale, arena, err));
    w->dk.weight = f->p->scale;
    w->dk.group = f->group_k;
    w->dk.count = w->count_k;
    w->dv.weight = 1;
    w->dv.group = f->group_v;
    w->dv.count = w->count_v;
    AT_TRY(side_open(&w->q, rows * qk, f->scale, arena, err));
    return side_open(&w->dout, rows * v, f->scale, arena, err);
}

/* K or V of the unit's heads, and cleared sums. */
static void start_gradient(gradient *g, const place *at, at_tensor_id id)
{
    const at_fast *f = at->f;
    int64_t n = at->n * g->dim;
    memset(g->ref, 0, (size_t)(g->heads * n) * sizeof *g->ref);
    for (int64_t h = 0; h < g->heads; h++) {
        const int64_t *keys = at->unit->keys != NULL ? at->unit->keys + at->first : NULL;
        at_fast_load(g->source + h * n, &f->p->t[id], at->unit->b, at->unit->head / g->group + h,
                     at->first, keys, at->n);
        if (f->scale) {
            g->unit[h] = at_fast_unit_of(g->source + h * n, n);
            at_fast_floats(&(at_fast_forms){.square = g->square + h * n}, g->source + h * n, n,
                           g->unit[h]);
        }
    }
    if (f->scale) {
        memset(g->a, 0, (size_t)(g->heads * n) * sizeof *g->a);
        memset(g->c, 0, (size_t)(g->heads * n) * sizeof *g->c);
        memset(g->squares, 0, (size_t)(g->heads * n) * sizeof *g->squares);
    }
}

static void load_side(side *s, const at_fast *f, at_tensor_id id, int64_t b, int64_t h,
                      int64_t first, int64_t rows)
{
    int64_t n = rows * f->p->t[id].shape[3];
    at_fast_load(s->rows, &f->p->t[id], b, h, first, NULL, rows);
    if (f->scale) {
        const at_fast_forms forms = {.absolute = s->absolute, .square = s->square};
        s->unit = at_fast_unit_of(s->rows, n);
        at_fast_floats(&forms, s->rows, n, s->unit);
    }
}

/* First of the block's columns whose key is >= `key`. */
static int64_t column_from(const place *at, int64_t key)
{
    int64_t low = 0, high = at->n;
    if (at->unit->keys == NULL) {
        int64_t column = key - at->first;
        return column < 0 ? 0 : column > high ? high : column;
    }
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (key_of(at, middle) < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The next tile of rows from row i on: skips rows that see none of the block's keys, ends with one
 * that does. Returns the number of rows, 0 when none is left; *first is the first of them. */
static int64_t next_tile(work *w, const place *at, int64_t i, int64_t *first)
{
    const at_fast *f = at->f;
    int64_t b = at->unit->b, n = 0, used = 0;
    for (; i < f->p->len_q[b] && n < AT_FAST_ROWS; i++) {
        const at_fast_span *span = &f->span[f->first_q[b] + i];
        at_fast_span columns = {.first = column_from(at, span->first),
                                .last = column_from(at, span->last + 1) - 1};
        bool seen = span->first <= span->last && columns.first <= columns.last;
        if (!seen && n == 0) {
            continue;
        }
        *first = n == 0 ? i : *first;
        w->columns[n++] = seen ? columns : (at_fast_span){0, -1};
        used = seen ? n : used;
    }
    return used;
}

static at_fast_pairs pairs_of(const work *w, const place *at, const at_row *row, int64_t r,
                              double squares_factor, double dp_factor)
{
    int64_t e = r * at->n + w->columns[r].first;
    at_fast_pairs out = {
        .m = &at->f->m,
        .row = row,
        .n = w->columns[r].last - w->columns[r].first + 1,
        .raw = w->raw + e,
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
static void clear_outside(void *matrix, size_t size, const work *w, const place *at, int64_t r)
{
    unsigned char *row = (unsigned char *)matrix + (size_t)(r * at->n) * size;
    size_t from = (size_t)w->columns[r].first, end = (size_t)(w->columns[r].last + 1);
    memset(row, 0, from * size);
    memset(row + end * size, 0, ((size_t)at->n - end) * size);
}

static at_fast_columns columns_from(const work *w, int64_t column)
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

/* P and dS of a tile; with the scale also the largest of each column. */
static void tile_values(work *w, const place *at, const at_row *rows, int64_t n_rows)
{
    if (at->f->scale) {
        memset(w->p_most, 0, (size_t)at->n * sizeof *w->p_most);
        memset(w->ds_most, 0, (size_t)at->n * sizeof *w->ds_most);
    }
    for (int64_t r = 0; r < n_rows; r++) {
        at_fast_pairs x = pairs_of(w, at, &rows[r], r, 0, 0);
        clear_outside(w->p, sizeof *w->p, w, at, r);
        clear_outside(w->ds, sizeof *w->ds, w, at, r);
        at_fast_probabilities(&x);
        at_fast_gradients(&x, w->ds + r * at->n + w->columns[r].first);
        if (at->f->scale) {
            at_fast_columns columns = columns_from(w, w->columns[r].first);
            at_fast_column_most(&x, &columns);
        }
    }
}

/* Adds coefficients [R K]^T times rows [R dim] to sums of the head, column j in units of 1 /
 * unit[j] and `other`, squared where `power` is 2. */
static void add_product(work *w, double *sum, const float *coefficients, const float *rows,
                        const double *unit, double other, int power, int64_t columns, int64_t dim,
                        int64_t n_rows)
{
    for (int64_t j = 0; j < columns; j++) {
        double factor = other / unit[j];
        w->factor[j] = power == 2 ? factor * factor : factor;
    }
    at_fast_set_tn_float(w->product, coefficients, rows, columns, dim, n_rows);
    at_fast_add_rows(sum, w->product, w->factor, columns, dim);
}

static void tile_scale(work *w, const place *at, const at_row *rows, int64_t n_rows, int64_t h_k,
                       int64_t h_v)
{
    double scale = at->f->p->scale;
    double squares_factor = at_noise_square(scale / (w->q.unit * w->dk.unit[h_k]));
    double dp_factor = 1 / at_noise_square(w->dout.unit * w->dv.unit[h_v]);
    for (int64_t j = 0; j < at->n; j++) {
        w->p_unit[j] = at_fast_unit_of(&w->p_most[j], 1);
        w->ds_unit[j] = at_fast_unit_of(&w->ds_most[j], 1);
    }
    for (int64_t r = 0; r < n_rows; r++) {
        at_fast_pairs x = pairs_of(w, at, &rows[r], r, squares_factor, dp_factor);
        at_fast_columns columns = columns_from(w, w->columns[r].first);
        int64_t e = r * at->n + w->columns[r].first;
        const at_fast_column_terms out = {w->a_p + e, w->c_p + e, w->a_ds + e, w->c_ds + e};
        clear_outside(w->a_p, sizeof *w->a_p, w, at, r);
        clear_outside(w->c_p, sizeof *w->c_p, w, at, r);
        clear_outside(w->a_ds, sizeof *w->a_ds, w, at, r);
        clear_outside(w->c_ds, sizeof *w->c_ds, w, at, r);
        at_fast_key_terms(&x, &columns, &out);
    }
    int64_t dk = h_k * at->n * w->dk.dim, dv = h_v * at->n * w->dv.dim, n = at->n;
    double other_v = 1 / (AT_FAST_UNITS * w->dout.unit);
    double other_k = fabs(scale) / (AT_FAST_UNITS * w->q.unit);
    add_product(w, w->dv.a + dv, w->a_p, w->dout.absolute, w->p_unit, other_v, 1, n, w->dv.dim,
                n_rows);
    add_product(w, w->dv.c + dv, w->c_p, w->dout.square, w->p_unit, other_v, 2, n, w->dv.dim,
                n_rows);
    add_product(w, w->dk.a + dk, w->a_ds, w->q.absolute, w->ds_unit, other_k, 1, n, w->dk.dim,
                n_rows);
    add_product(w, w->dk.c + dk, w->c_ds, w->q.square, w->ds_unit, other_k, 2, n, w->dk.dim,
                n_rows);
}

/* What rows first..first+n_rows-1 of query head h add. */
static void run_tile(work *w, const place *at, int64_t h, int64_t first, int64_t n_rows)
{
    at_fast *f = at->f;
    int64_t b = at->unit->b, local = h - at->unit->head, n = at->n;
    int64_t h_k = local / f->group_k, h_v = local / f->group_v, qk = w->dk.dim, v = w->dv.dim;
    const at_row *rows = &f->rows[at_fast_row_index(f, b, h, first)];
    load_side(&w->q, f, AT_Q, b, h, first, n_rows);
    load_side(&w->dout, f, AT_DO, b, h, first, n_rows);
    at_fast_mul_nt(w->raw, n, w->q.rows, w->dk.source + h_k * n * qk, n_rows, n, qk, f->p->scale);
    at_fast_mul_nt(w->dp, n, w->dout.rows, w->dv.source + h_v * n * v, n_rows, n, v, 1);
    tile_values(w, at, rows, n_rows);
    at_fast_add_tn(w->dv.head, w->p, w->dout.rows, n, v, n_rows);
    at_fast_add_tn(w->dk.head, w->ds, w->q.rows, n, qk, n_rows);
    if (f->scale) {
        at_fast_mul_nt_float(w->squares, n, w->q.square, w->dk.square + h_k * n * qk, n_rows, n,
                             qk);
        at_fast_mul_nt_float(w->dp_squares, n, w->dout.square, w->dv.square + h_v * n * v, n_rows,
                             n, v);
        tile_scale(w, at, rows, n_rows, h_k, h_v);
    }
}

static void find_flat(gradient *g, const place *at, double times)
{
    const at_fast *f = at->f;
    for (int64_t h = 0; h < g->heads; h++) {
        const at_noise_flat *flat = f->flat + at->unit->b * f->p->c.heads_q + at->unit->head;
        g->flat[h] = (at_noise_flat){0, 0};
        for (int64_t q = h * g->group; q < (h + 1) * g->group; q++) {
            g->flat[h].p = fmax(g->flat[h].p, times * flat[q].p);
            g->flat[h].var = fmax(g->flat[h].var, times * flat[q].var);
        }
    }
}

/* Adds the query head's sum to its group, rounded before where the class says. */
static void add_head(gradient *g, const place *at, int64_t h)
{
    const at_noise *m = &at->f->m;
    int64_t n = at->n * g->dim, to = h * n;
    for (int64_t i = 0; i < n; i++) {
        double x = g->weight * g->head[i];
        g->ref[to + i] += x;
        if (at->f->scale) {
            double rounding = m->head_rounded ? fmax(m->u_in * fabs(x), m->half_in) : 0;
            g->a[to + i] += rounding;
            g->c[to + i] += AT_NOISE_TERM * rounding * rounding;
            g->squares[to + i] += x * x;
        }
    }
}

/* Bound and sigma of element i of the block, e of the gold tensor. */
static void finish_scale(const gradient *g, const place *at, at_tensor_id id, int64_t i, int64_t e)
{
    const at_noise *m = &at->f->m;
    at_gold_tensor *t = &at->f->gold->t[id];
    double unit = id == AT_DK ? at->f->p->scale : 0;
    double n = g->count[i / g->dim % at->n];
    const at_noise_flat *flat = &g->flat[i / g->dim / at->n];
    at_noise_sum sum = {.ref = g->ref[i], .a = g->a[i], .flat = flat->p};
    sum.c = g->c[i] + flat->var * sum.ref * sum.ref + at_noise_total_var(m, n, sum.ref, unit) +
            at_noise_heads_var(n, g->squares[i], sum.ref, (double)g->group);
    at_noise_finish(&sum, m->u_in, m->half_in, &t->bound[e], &t->sigma[e]);
}

static void finish(const gradient *g, const place *at, at_tensor_id id, int64_t first)
{
    at_gold_tensor *t = &at->f->gold->t[id];
    for (int64_t h = 0; h < g->heads; h++) {
        int64_t row = first + h * at->unit->n_keys + at->first;
        for (int64_t k = 0; k < at->n * g->dim; k++) {
            int64_t i = h * at->n * g->dim + k, e = row * g->dim + k;
            t->ref[e] = g->ref[i];
            if (at->f->scale) {
                finish_scale(g, at, id, i, e);
            }
        }
    }
}

static void run_block(work *w, const place *at)
{
    at_fast *f = at->f;
    const at_fast_unit *unit = at->unit;
    for (int64_t j = 0; j < at->n; j++) {
        double seen = f->seen[f->first_kv[unit->b] + key_of(at, j)];
        w->count_k[j] = (double)f->group_k * seen;
        w->count_v[j] = (double)f->group_v * seen;
    }
    start_gradient(&w->dk, at, AT_K);
    start_gradient(&w->dv, at, AT_V);
    find_flat(&w->dk, at, f->m.p_times - 1);
    find_flat(&w->dv, at, 1);
    for (int64_t h = unit->head; h < unit->head + f->unit_heads; h++) {
        memset(w->dk.head, 0, (size_t)(at->n * w->dk.dim) * sizeof *w->dk.head);
        memset(w->dv.head, 0, (size_t)(at->n * w->dv.dim) * sizeof *w->dv.head);
        int64_t first = 0, n_rows = 0;
        for (int64_t i = 0; (n_rows = next_tile(w, at, i, &first)) > 0; i = first + n_rows) {
            run_tile(w, at, h, first, n_rows);
        }
        add_head(&w->dk, at, (h - unit->head) / f->group_k);
        add_head(&w->dv, at, (h - unit->head) / f->group_v);
    }
    finish(&w->dk, at, AT_DK, unit->first_dk);
    finish(&w->dv, at, AT_DV, unit->first_dv);
}

/* Flattest of the rows of each head of the units. */
static void find_flat_rows(at_fast *f)
{
    for (int64_t u = 0; u < f->n_units; u++) {
        int64_t b = f->units[u].b;
        for (int64_t h = f->units[u].head; h < f->units[u].head + f->unit_heads; h++) {
            at_noise_flat *flat = &f->flat[b * f->p->c.heads_q + h];
            for (int64_t i = 0; i < f->p->len_q[b]; i++) {
                at_noise_flattest(flat, &f->rows[at_fast_row_index(f, b, h, i)]);
            }
        }
    }
}

at_status at_fast_keys(at_fast *f, at_arena *arena, at_error *err)
{
    int64_t n_blocks = 0, keys = 0, rows = 0;
    for (int64_t u = 0; u < f->n_units; u++) {
        int64_t n = f->units[u].n_keys, len = f->p->len_q[f->units[u].b];
        n_blocks += (n + AT_FAST_COLUMNS - 1) / AT_FAST_COLUMNS;
        keys = n > keys ? n : keys;
        rows = len > rows ? len : rows;
    }
    keys = keys < AT_FAST_COLUMNS ? keys : AT_FAST_COLUMNS;
    rows = rows < AT_FAST_ROWS ? rows : AT_FAST_ROWS;
    place *places = NULL;
    work *works = NULL;
    int threads = at_fast_threads(n_blocks);
    AT_TRY(at_gold_take(&places, arena, n_blocks, sizeof *places, err));
    AT_TRY(at_gold_take(&works, arena, threads, sizeof *works, err));
    for (int t = 0; t < threads; t++) {
        AT_TRY(work_open(&works[t], f, rows, keys, arena, err));
    }
    find_flat_rows(f);
    n_blocks = 0;
    for (int64_t u = 0; u < f->n_units; u++) {
        int64_t n = f->units[u].n_keys;
        for (int64_t k = 0; k < n; k += AT_FAST_COLUMNS) {
            int64_t left = n - k < AT_FAST_COLUMNS ? n - k : AT_FAST_COLUMNS;
            places[n_blocks++] = (place){.f = f, .unit = &f->units[u], .first = k, .n = left};
        }
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < n_blocks; i++) {
        run_block(&works[omp_get_thread_num()], &places[i]);
    }
    return AT_OK;
}
