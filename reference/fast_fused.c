/* Both passes at once, where there are units enough to share out: one task makes all rows and all
 * keys of a unit, so that scores and dP are computed once. */
#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include <omp.h>

#include "reference/fast_block.h"
#include "reference/fast_rows.h"
#include "reference/gold.h"

typedef struct work {
    at_fast_work rows;
    at_fast_key_work keys;
} work;

/* The chunk in hand as a tile of the unit; the columns that its rows see go to keys->columns. */
static at_fast_tile tile_of(at_fast_work *w, const at_fast_place *at)
{
    at_fast *f = at->f;
    int64_t column = at->first - at->block->low, head = at->unit->unit->head;
    const int64_t *row = at->block->row[0];
    for (int64_t r = 0; r < at->block->n; r++) {
        int64_t from = 0, n = at_fast_part_of(w, at, r, &from);
        at->keys->columns[r] = (at_fast_span){from, from + n - 1};
    }
    at_fast_pairs x = at_fast_pairs_of(w, at, 0, 0, 0);
    return (at_fast_tile){
        .h_k = (row[1] - head) / f->group_k,
        .h_v = (row[1] - head) / f->group_v,
        .rows = at->block->n,
        .column = at->first,
        .n = at->n,
        .records = at_fast_row(f, row[0], row[1], row[2]),
        .raw = w->raw + column,
        .add = f->score.added ? w->add + column : NULL,
        .dp = w->dp + column,
        .squares = f->scale ? w->squares + column : NULL,
        .dp_squares = f->scale ? w->dp_squares + column : NULL,
        .wide = at->width,
        .squares_factor = x.squares_factor,
        .dp_factor = x.dp_factor,
        .p = w->p,
        .ds = w->ds,
        .keep = w->keep,
        .kept = w->kept,
    };
}

void at_fast_fused_chunk(at_fast_work *w, const at_fast_place *at)
{
    at_fast_tile t = tile_of(w, at);
    at_fast_tile_sums(at->keys, at->unit, &t);
}

/* A block of rows of one head: its rows, then the error scale of its keys, which needs the variance
 * of each row's D. */
static void run_rows(work *w, at_fast_place *at)
{
    const int64_t *row = at->block->row[0];
    at_fast_load_side(&w->keys.q, at->f, AT_Q, row[0], row[1], row[2], at->block->n);
    at_fast_load_side(&w->keys.dout, at->f, AT_DO, row[0], row[1], row[2], at->block->n);
    at_fast_run_rows(&w->rows, at);
    for (int64_t j = at->block->low; at->f->scale && at_fast_to_chunk(at, j); j += at->n) {
        at_fast_probability_chunk(&w->rows, at);
        at_fast_tile t = tile_of(&w->rows, at);
        at_fast_tile_scale(at->keys, at->unit, &t);
    }
}

static void run_unit(at_fast *f, work *w, const at_fast_unit *unit)
{
    int64_t(*list)[3] = f->gold->t[AT_O].row;
    const at_fast_key_block keys = {.f = f, .unit = unit, .n = unit->n_keys};
    at_fast_key_start(&w->keys, &keys);
    for (int64_t h = unit->head; h < unit->head + f->unit_heads; h++) {
        int64_t first = at_gold_first(f->p, AT_O, unit->b, h), end = first + f->p->len_q[unit->b];
        at_fast_block block;
        at_fast_key_open_head(&w->keys, &keys);
        for (int64_t r = first; r < end; r += block.n) {
            at_fast_grow_block(f, &block, list, r, end);
            block.gold = r;
            at_fast_place at = {.f = f, .block = &block, .wanted = true};
            at.keys = &w->keys;
            at.unit = &keys;
            run_rows(w, &at);
        }
        at_fast_key_add_head(&w->keys, &keys, h);
    }
    at_fast_key_finish(&w->keys, &keys);
}

bool at_fast_fuses(const at_fast *f)
{
    const at_case *c = &f->p->c;
    int64_t dim = c->dim_qk > c->dim_v ? c->dim_qk : c->dim_v;
    return f->train && f->n_units >= AT_FAST_UNITS_LEAST && c->len_kv * dim <= AT_FAST_FUSED;
}

at_status at_fast_fused(at_fast *f, at_arena *arena, at_error *err)
{
    const at_case *c = &f->p->c;
    int64_t rows = c->len_q < AT_FAST_ROWS ? c->len_q : AT_FAST_ROWS;
    int64_t keys = c->len_kv < AT_FAST_KEYS ? c->len_kv : AT_FAST_KEYS;
    int64_t least = c->len_q < AT_FAST_ROWS_LEAST ? c->len_q : AT_FAST_ROWS_LEAST;
    int64_t scores = rows * c->len_kv < AT_FAST_SCORES ? rows * c->len_kv : AT_FAST_SCORES;
    scores = least * c->len_kv > scores ? least * c->len_kv : scores;
    int threads = at_fast_threads(f, f->n_units);
    work *works = NULL;
    AT_TRY(at_gold_take(&works, arena, threads, sizeof *works, err));
    for (int t = 0; t < threads; t++) {
        AT_TRY(at_fast_work_open(&works[t].rows, f, rows, scores, keys, arena, err));
        AT_TRY(at_fast_key_work_open(&works[t].keys, f, rows, keys, c->len_kv, true, arena, err));
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t u = 0; u < f->n_units; u++) {
        run_unit(f, &works[omp_get_thread_num()], &f->units[u]);
    }
    return AT_OK;
}
