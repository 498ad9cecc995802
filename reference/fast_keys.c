/* The key pass: dK and dV of blocks of keys, summed over the rows and heads that see them. */
#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/fast_keys.h"

#include <omp.h>
#include <string.h>

#include "reference/fast_block.h"
#include "reference/gold.h"

static int64_t key_of(const at_fast_key_block *at, int64_t column)
{
    int64_t k = at->first + column;
    return at->unit->keys != NULL ? at->unit->keys[k] : k;
}

static at_status gradient_open(at_fast_gradient *g, int64_t heads, int64_t dim, int64_t keys,
                               bool scale, bool fused, at_arena *arena, at_error *err)
{
    const size_t d = sizeof(double);
    int64_t n = heads * keys * dim, more = scale ? n : 0;
    g->heads = heads;
    g->dim = dim;
    AT_TRY(at_gold_take(&g->source, arena, n, d, err));
    AT_TRY(at_gold_take(&g->ref, arena, n, d, err));
    AT_TRY(at_gold_take(&g->head, arena, keys * dim, d, err));
    AT_TRY(at_gold_take(&g->unit, arena, heads, d, err));
    AT_TRY(at_gold_take(&g->known, arena, more, d, err));
    AT_TRY(at_gold_take(&g->square, arena, fused ? 0 : more, sizeof(float), err));
    g->square = fused ? NULL : g->square;
    AT_TRY(at_gold_take(&g->a, arena, more, d, err));
    AT_TRY(at_gold_take(&g->squares, arena, more, d, err));
    return at_gold_take(&g->c, arena, more, d, err);
}

static at_status side_open(at_fast_side *s, int64_t n, bool scale, at_arena *arena, at_error *err)
{
    AT_TRY(at_gold_take(&s->rows, arena, n, sizeof(double), err));
    AT_TRY(at_gold_take(&s->plain, arena, scale ? n : 0, sizeof(float), err));
    AT_TRY(at_gold_take(&s->absolute, arena, scale ? n : 0, sizeof(float), err));
    return at_gold_take(&s->square, arena, scale ? n : 0, sizeof(float), err);
}

at_status at_fast_key_work_open(at_fast_key_work *w, const at_fast *f, int64_t rows,
                                int64_t columns, int64_t keys, bool fused, at_arena *arena,
                                at_error *err)
{
    const size_t d = sizeof(double), s = sizeof(float);
    const at_case *c = &f->p->c;
    int64_t qk = c->dim_qk, v = c->dim_v, dim = qk > v ? qk : v, n = rows * columns;
    int64_t more = f->scale ? n : 0, own = fused ? 0 : n, drop = f->score.dropped ? own : 0;
    const struct {
        void *pointer;
        int64_t count;
        size_t size;
    } wanted[] = {
        {&w->raw, own, d},
        {&w->add, f->score.added || f->score.before ? own : 0, d},
        {&w->keep, drop, d},
        {&w->kept, drop, d},
        {&w->p, own, d},
        {&w->dp, own, d},
        {&w->ds, own, d},
        {&w->squares, f->scale ? own : 0, s},
        {&w->dp_squares, f->scale ? own : 0, s},
        {&w->a_p, more, s},
        {&w->c_p, more, s},
        {&w->a_ds, more, s},
        {&w->c_ds, more, s},
        {&w->k_p, more, s},
        {&w->k_ds, more, s},
        {&w->p_most, columns, d},
        {&w->ds_most, columns, d},
        {&w->p_unit, columns, d},
        {&w->ds_unit, columns, d},
        {&w->factor, columns, d},
        {&w->count_k, keys, d},
        {&w->count_v, keys, d},
        {&w->columns, rows, sizeof *w->columns},
        {&w->product, f->scale ? columns * dim : 0, s},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        AT_TRY(at_gold_take(wanted[i].pointer, arena, wanted[i].count, wanted[i].size, err));
    }
    int64_t heads_k = f->unit_heads / f->group_k, heads_v = f->unit_heads / f->group_v;
    AT_TRY(gradient_open(&w->dk, heads_k, qk, keys, f->scale, fused, arena, err));
    AT_TRY(gradient_open(&w->dv, heads_v, v, keys, f->scale, fused, arena, err));
    w->dk.id = AT_DK;
    w->dv.id = AT_DV;
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
static void start_gradient(at_fast_gradient *g, const at_fast_key_block *at, at_tensor_id id)
{
    const at_fast *f = at->f;
    int64_t n = at->n * g->dim;
    memset(g->ref, 0, (size_t)(g->heads * n) * sizeof *g->ref);
    for (int64_t h = 0; h < g->heads; h++) {
        const int64_t *keys = at->unit->keys != NULL ? at->unit->keys + at->first : NULL;
        at_fast_load(g->source + h * n, f->p, id, at->unit->b, at->unit->head / g->group + h,
                     at->first, keys, at->n);
        if (f->scale && g->square != NULL) {
            g->unit[h] = at_fast_unit_of(g->source + h * n, n);
            at_fast_floats(&(at_fast_forms){.square = g->square + h * n}, g->source + h * n, n,
                           g->unit[h]);
        }
    }
    if (f->scale) {
        memset(g->a, 0, (size_t)(g->heads * n) * sizeof *g->a);
        memset(g->c, 0, (size_t)(g->heads * n) * sizeof *g->c);
        memset(g->known, 0, (size_t)(g->heads * n) * sizeof *g->known);
        memset(g->squares, 0, (size_t)(g->heads * n) * sizeof *g->squares);
    }
}

/* First of the block's columns whose key is >= `key`. */
static int64_t column_from(const at_fast_key_block *at, int64_t key)
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

/* The next tile of rows from row i on, of those up to at->last_row: skips rows that see none of the
 * block's keys, ends with one that does. Returns the number of rows, 0 when none is left; *first is
 * the first of them. */
static int64_t next_tile(at_fast_key_work *w, const at_fast_key_block *at, int64_t i,
                         int64_t *first)
{
    const at_fast *f = at->f;
    int64_t b = at->unit->b, n = 0, used = 0;
    for (; i <= at->last_row && n < AT_FAST_ROWS; i++) {
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

/* Adds the query head's sum to its group, rounded before where the class says. */
static void add_head(at_fast_gradient *g, const at_fast_key_block *at, int64_t h)
{
    const at_noise *m = &at->f->m;
    int64_t n = at->n * g->dim, to = h * n;
    for (int64_t i = 0; i < n; i++) {
        double x = g->weight * g->head[i];
        g->ref[to + i] += x;
        if (at->f->scale) {
            double rounding = m->head_rounded ? at_noise_rho(&m->out[g->id], x) : 0;
            g->a[to + i] += rounding;
            g->c[to + i] += AT_NOISE_TERM * rounding * rounding;
            g->squares[to + i] += x * x;
        }
    }
}

/* Bound and sigma of element i of the block, e of the gold tensor. */
static void finish_scale(const at_fast_gradient *g, const at_fast_key_block *at, at_tensor_id id,
                         int64_t i, int64_t e)
{
    const at_noise *m = &at->f->m;
    at_gold_tensor *t = &at->f->gold->t[id];
    double unit = id == AT_DK ? at->f->p->scale : 0;
    double n = g->count[i / g->dim % at->n];
    at_noise_sum sum = {.ref = g->ref[i], .a = g->a[i], .known = g->known[i]};
    sum.c = g->c[i] + at_noise_total_var(m, n, sum.ref, unit) +
            at_noise_heads_var(n, g->squares[i], sum.ref, (double)g->group);
    at_noise_finish(&sum, &m->out[id], &t->bound[e], &t->sigma[e]);
}

static void finish(const at_fast_gradient *g, const at_fast_key_block *at, at_tensor_id id,
                   int64_t first)
{
    at_gold_tensor *t = &at->f->gold->t[id];
    for (int64_t h = 0; h < g->heads; h++) {
        int64_t row = first + h * at->unit->n_keys + at->first;
        for (int64_t k = 0; k < at->n * g->dim; k++) {
            int64_t i = h * at->n * g->dim + k, e = row * g->dim + k;
            t->ref[e] = at_noise_stored(&at->f->m.out[id], g->ref[i]);
            if (at->f->scale) {
                finish_scale(g, at, id, i, e);
            }
        }
    }
}

void at_fast_key_start(at_fast_key_work *w, const at_fast_key_block *at)
{
    const at_fast *f = at->f;
    for (int64_t j = 0; j < at->n; j++) {
        double seen = f->seen[f->first_kv[at->unit->b] + key_of(at, j)];
        w->count_k[j] = (double)f->group_k * seen;
        w->count_v[j] = (double)f->group_v * seen;
    }
    start_gradient(&w->dk, at, AT_K);
    start_gradient(&w->dv, at, AT_V);
}

void at_fast_key_open_head(at_fast_key_work *w, const at_fast_key_block *at)
{
    memset(w->dk.head, 0, (size_t)(at->n * w->dk.dim) * sizeof *w->dk.head);
    memset(w->dv.head, 0, (size_t)(at->n * w->dv.dim) * sizeof *w->dv.head);
}

void at_fast_key_add_head(at_fast_key_work *w, const at_fast_key_block *at, int64_t h)
{
    add_head(&w->dk, at, (h - at->unit->head) / at->f->group_k);
    add_head(&w->dv, at, (h - at->unit->head) / at->f->group_v);
}

void at_fast_key_finish(at_fast_key_work *w, const at_fast_key_block *at)
{
    finish(&w->dk, at, AT_DK, at->unit->first_dk);
    finish(&w->dv, at, AT_DV, at->unit->first_dv);
}

/* What rows first..first+n_rows-1 of query head h add; w->columns says which columns they see. */
static void run_tile(at_fast_key_work *w, const at_fast_key_block *at, int64_t h, int64_t first,
                     int64_t n_rows)
{
    const at_fast *f = at->f;
    int64_t b = at->unit->b, local = h - at->unit->head, n = at->n, qk = w->dk.dim, v = w->dv.dim;
    at_fast_tile t = {.h_k = local / f->group_k,
                      .h_v = local / f->group_v,
                      .rows = n_rows,
                      .n = n,
                      .records = at_fast_row(f, b, h, first),
                      .raw = w->raw,
                      .add = w->add,
                      .dp = w->dp,
                      .squares = w->squares,
                      .dp_squares = w->dp_squares,
                      .wide = n,
                      .p = w->p,
                      .ds = w->ds,
                      .keep = w->keep,
                      .kept = w->kept};
    const double *k = w->dk.source + t.h_k * n * qk, *value = w->dv.source + t.h_v * n * v;
    at_fast_load_side(&w->q, f, AT_Q, b, h, first, n_rows);
    at_fast_load_side(&w->dout, f, AT_DO, b, h, first, n_rows);
    at_fast_mul_nt(w->raw, n, w->q.rows, k, n_rows, n, qk, f->p->scale);
    at_fast_mul_nt(w->dp, n, w->dout.rows, value, n_rows, n, v, 1);
    if (f->scale) {
        const float *k_square = w->dk.square + t.h_k * n * qk;
        const float *v_square = w->dv.square + t.h_v * n * v;
        at_fast_mul_nt_float(w->squares, n, w->q.square, k_square, n_rows, n, qk);
        at_fast_mul_nt_float(w->dp_squares, n, w->dout.square, v_square, n_rows, n, v);
        t.squares_factor = at_noise_square(f->p->scale / (w->q.unit * w->dk.unit[t.h_k]));
        t.dp_factor = 1 / at_noise_square(w->dout.unit * w->dv.unit[t.h_v]);
    }
    at_fast_tile_values(w, at, &t, h, first);
    at_fast_tile_sums(w, at, &t);
    if (f->scale) {
        at_fast_tile_scale(w, at, &t);
    }
}

static void run_block(at_fast_key_work *w, const at_fast_key_block *at)
{
    at_fast_key_start(w, at);
    for (int64_t h = at->unit->head; h < at->unit->head + at->f->unit_heads; h++) {
        int64_t first = 0, n_rows = 0;
        at_fast_key_open_head(w, at);
        for (int64_t i = at->first_row; (n_rows = next_tile(w, at, i, &first)) > 0;
             i = first + n_rows) {
            run_tile(w, at, h, first, n_rows);
        }
        at_fast_key_add_head(w, at, h);
    }
    at_fast_key_finish(w, at);
}

/* The block of a unit's keys from its key k on: grows while the keys' rows overlap enough. */
static at_fast_key_block block_from(at_fast *f, const at_fast_unit *unit, int64_t k)
{
    at_fast_key_block block = {.f = f, .unit = unit, .first = k, .first_row = 0, .last_row = -1};
    int64_t useful = 0;
    for (; k < unit->n_keys && block.n < AT_FAST_COLUMNS; k++, block.n++) {
        int64_t key = unit->keys != NULL ? unit->keys[k] : k;
        const at_fast_span *rows = &f->viewers[f->first_kv[unit->b] + key];
        int64_t first = block.first_row, last = block.last_row;
        if (rows->first <= rows->last) {
            first = last < first || rows->first < first ? rows->first : first;
            last = rows->last > last ? rows->last : last;
            useful += rows->last - rows->first + 1;
        }
        int64_t pairs = (block.n + 1) * (last - first + 1);
        if (block.n > 0 && pairs > AT_FAST_WASTE * useful + AT_FAST_SPARE) {
            break;
        }
        block.first_row = first;
        block.last_row = last;
    }
    return block;
}

/* Cuts all units into blocks: counts them, or stores them where `blocks` is not NULL. */
static int64_t cut_units(at_fast *f, at_fast_key_block *blocks)
{
    int64_t n = 0;
    for (int64_t u = 0; u < f->n_units; u++) {
        for (int64_t k = 0; k < f->units[u].n_keys;) {
            at_fast_key_block block = block_from(f, &f->units[u], k);
            if (blocks != NULL) {
                blocks[n] = block;
            }
            n++;
            k += block.n;
        }
    }
    return n;
}

at_status at_fast_keys(at_fast *f, at_arena *arena, at_error *err)
{
    int64_t keys = 0, rows = 0;
    for (int64_t u = 0; u < f->n_units; u++) {
        int64_t n = f->units[u].n_keys, len = f->p->len_q[f->units[u].b];
        keys = n > keys ? n : keys;
        rows = len > rows ? len : rows;
    }
    keys = keys < AT_FAST_COLUMNS ? keys : AT_FAST_COLUMNS;
    rows = rows < AT_FAST_ROWS ? rows : AT_FAST_ROWS;
    at_fast_key_block *blocks = NULL;
    at_fast_key_work *works = NULL;
    int64_t n_blocks = cut_units(f, NULL);
    int threads = at_fast_threads(f, n_blocks);
    AT_TRY(at_gold_take(&blocks, arena, n_blocks, sizeof *blocks, err));
    AT_TRY(at_gold_take(&works, arena, threads, sizeof *works, err));
    for (int t = 0; t < threads; t++) {
        AT_TRY(at_fast_key_work_open(&works[t], f, rows, keys, keys, false, arena, err));
    }
    (void)cut_units(f, blocks);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < n_blocks; i++) {
        run_block(&works[omp_get_thread_num()], &blocks[i]);
    }
    return AT_OK;
}
