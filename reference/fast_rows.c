/* The row pass: blocks of score rows, their scores and probabilities. */
#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/fast_rows.h"

#include <omp.h>
#include <string.h>

#include "reference/fast_block.h"
#include "reference/gold.h"

/* A buffer and its size. */
typedef struct buffer {
    void *pointer;
    int64_t count;
    size_t size;
} buffer;

static at_status take_all(const buffer *list, size_t n, at_arena *arena, at_error *err)
{
    for (size_t i = 0; i < n; i++) {
        AT_TRY(at_gold_take(list[i].pointer, arena, list[i].count, list[i].size, err));
    }
    return AT_OK;
}

/* What the error scale needs. */
static at_status open_scale(at_fast_work *w, const at_fast *f, int64_t rows, int64_t scores,
                            int64_t keys, at_arena *arena, at_error *err)
{
    const size_t d = sizeof(double), s = sizeof(float);
    int64_t qk = f->p->c.dim_qk, v = f->p->c.dim_v, dim = qk > v ? qk : v;
    int64_t backward = f->train ? rows : 0;
    const buffer list[] = {
        {&w->w_best, rows, d},
        {&w->keep_best, rows, d},
        {&w->v_best, v, d},
        {&w->squares, scores, s},
        {&w->a, rows * keys, s},
        {&w->c, rows * keys, s},
        {&w->w, rows * keys, s},
        {&w->q_square, rows * qk, s},
        {&w->plain, keys * dim, s},
        {&w->absolute, keys * dim, s},
        {&w->square, keys * dim, s},
        {&w->product, rows * dim, s},
        {&w->o_a, rows * v, d},
        {&w->o_c, rows * v, d},
        {&w->o_w1, rows * v, d},
        {&w->o_w2, rows * v, d},
        {&w->w0, rows, d},
        {&w->w0_chunk, rows, d},
        {&w->w0_drop, rows, d},
        {&w->unit, rows, d},
        {&w->k_unit, scores / AT_FAST_KEYS + 1, d},
        {&w->v_unit, scores / AT_FAST_KEYS + 1, d},
        {&w->mean, v, d},
        {&w->center, v, d},
        {&w->p_sums, rows, sizeof *w->p_sums},
        {&w->dp_squares, f->train ? scores : 0, s},
        {&w->dout_square, backward * v, s},
        {&w->dq_a, backward * qk, d},
        {&w->dq_c, backward * qk, d},
        {&w->mass, backward * qk, d},
        {&w->d_sums, backward, sizeof *w->d_sums},
    };
    return take_all(list, sizeof list / sizeof list[0], arena, err);
}

at_status at_fast_work_open(at_fast_work *w, const at_fast *f, int64_t rows, int64_t scores,
                            int64_t keys, at_arena *arena, at_error *err)
{
    const size_t d = sizeof(double);
    int64_t qk = f->p->c.dim_qk, v = f->p->c.dim_v, backward = f->train ? rows : 0;
    int64_t added = f->score.added || f->score.before ? 1 : 0, drop = f->score.dropped ? 1 : 0;
    const buffer list[] = {
        {&w->q, rows * qk, d},
        {&w->k, keys * qk, d},
        {&w->v, keys * v, d},
        {&w->raw, scores, d},
        {&w->add, added * scores, d},
        {&w->p, rows * keys, d},
        {&w->keep, drop * rows * keys, d},
        {&w->kept, drop * rows * keys, d},
        {&w->o, rows * v, d},
        {&w->rows, rows, sizeof *w->rows},
        {&w->own, rows, sizeof *w->own},
        {&w->spans, rows, sizeof *w->spans},
        {&w->best, rows, sizeof *w->best},
        {&w->dout, backward * v, d},
        {&w->dp, f->train ? scores : 0, d},
        {&w->ds, backward * keys, d},
        {&w->dq, backward * qk, d},
    };
    AT_TRY(take_all(list, sizeof list / sizeof list[0], arena, err));
    return f->scale ? open_scale(w, f, rows, scores, keys, arena, err) : AT_OK;
}

int64_t at_fast_part_of(const at_fast_work *w, const at_fast_place *at, int64_t r, int64_t *from)
{
    const at_fast_span *span = &w->spans[r];
    int64_t first = span->first > at->first ? span->first : at->first;
    int64_t end = at->first + at->n, last = span->last + 1 < end ? span->last + 1 : end;
    *from = last > first ? first - at->first : 0;
    return last > first ? last - first : 0;
}

at_fast_pairs at_fast_pairs_of(const at_fast_work *w, const at_fast_place *at, int64_t r,
                               int64_t from, int64_t n)
{
    int64_t column = at->first - at->block->low, wide = r * at->width + column + from;
    int64_t narrow = r * at->n + from;
    at_fast_pairs out = {
        .m = &at->f->m,
        .row = w->rows[r],
        .n = n,
        .raw = w->raw + wide,
        .add = at->f->score.added ? w->add + wide : NULL,
        .keep = at->f->score.dropped ? w->keep + narrow : NULL,
        .p = w->p + narrow,
        .dp = at->f->train ? w->dp + wide : NULL,
    };
    if (at->f->scale) {
        double unit = w->squares_unit * w->k_unit[column / AT_FAST_KEYS];
        out.squares = w->squares + wide;
        out.squares_factor = at_noise_square(at->f->p->scale / unit);
    }
    if (at->f->scale && at->f->train) {
        double unit = w->dp_unit * w->v_unit[column / AT_FAST_KEYS];
        out.dp_squares = w->dp_squares + wide;
        out.dp_factor = 1 / at_noise_square(unit);
    }
    return out;
}

void at_fast_clear_double(double *x, const at_fast_place *at, int64_t r, int64_t from, int64_t n)
{
    double *row = x + r * at->n;
    memset(row, 0, (size_t)from * sizeof *x);
    memset(row + from + n, 0, (size_t)(at->n - from - n) * sizeof *x);
}

void at_fast_clear_float(float *x, const at_fast_place *at, int64_t r, int64_t from, int64_t n)
{
    float *row = x + r * at->n;
    memset(row, 0, (size_t)from * sizeof *x);
    memset(row + from + n, 0, (size_t)(at->n - from - n) * sizeof *x);
}

void at_fast_fill(double *x, double value, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = value;
    }
}

void at_fast_clear(double *x, int64_t n)
{
    memset(x, 0, (size_t)n * sizeof *x);
}

/* Writes row r, which sees no key: O and dQ 0, LSE -inf or the sink's score. */
static void write_dead(at_fast_work *w, const at_fast_place *at, int64_t r)
{
    at_fast *f = at->f;
    at_row *row = w->rows[r];
    int64_t index = at->block->gold + r;
    bool sink = f->score.sink && !f->m.lse_bare;
    *row = (at_row){.sink_s = row->sink_s, .lse_share = 1};
    row->lse_out = sink ? row->sink_s : -HUGE_VAL;
    for (int id = AT_O; id <= AT_DQ && at->wanted; id++) {
        at_gold_tensor *t = &f->gold->t[id];
        if (t->rows > 0) {
            t->dead[index] = id != AT_LSE || !sink;
            t->ref[index * t->dim] = id == AT_LSE ? row->lse_out * f->m.lse_factor : 0;
        }
    }
    at_gold_tensor *lse = &f->gold->t[AT_LSE];
    if (at->wanted && sink && lse->rows > 0 && lse->bound != NULL) {
        at_noise_lse(&f->m, row, 0, &lse->bound[index], &lse->sigma[index]);
    }
}

/* Spans and row records of the block; rows outside of the window and lengths are written at once.
 */
static void find_rows(at_fast_work *w, const at_fast_place *at)
{
    at_fast *f = at->f;
    const at_fast_block *block = at->block;
    for (int64_t r = 0; r < block->n; r++) {
        const int64_t *row = block->row[r];
        at_row *record = at_fast_row(f, row[0], row[1], row[2]);
        record = record != NULL ? record : &w->own[r];
        w->spans[r] = f->span[f->first_q[row[0]] + row[2]];
        w->rows[r] = record;
        *record = (at_row){.lse_share = 1};
        record->sink_s = f->score.sink ? at_score_sink(&f->score, row[1]) : 0;
        if (w->spans[r].first > w->spans[r].last) {
            write_dead(w, at, r);
        }
    }
}

static void load_queries(at_fast_work *w, const at_fast_place *at)
{
    const at_problem *p = at->f->p;
    const at_fast_block *block = at->block;
    int64_t n_q = block->n * p->c.dim_qk, n_v = block->n * p->c.dim_v;
    for (int64_t r = 0; r < block->n; r++) {
        const int64_t *row = block->row[r];
        at_fast_load(w->q + r * p->c.dim_qk, p, AT_Q, at->b, row[1], row[2], NULL, 1);
        if (at->f->train) {
            at_fast_load(w->dout + r * p->c.dim_v, p, AT_DO, at->b, row[1], row[2], NULL, 1);
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

bool at_fast_to_chunk(at_fast_place *at, int64_t first)
{
    int64_t left = at->block->high - first + 1;
    at->first = first;
    at->n = left < AT_FAST_KEYS ? left : AT_FAST_KEYS;
    return left > 0;
}

const double *at_fast_chunk_k(at_fast_work *w, const at_fast_place *at)
{
    const at_fast *f = at->f;
    if (at->keys != NULL) {
        int64_t h = at->h_k - at->unit->unit->head / f->group_k;
        return at->keys->dk.source + (h * at->unit->n + at->first) * f->p->c.dim_qk;
    }
    at_fast_load(w->k, f->p, AT_K, at->b, at->h_k, at->first, NULL, at->n);
    return w->k;
}

const double *at_fast_chunk_v(at_fast_work *w, const at_fast_place *at)
{
    const at_fast *f = at->f;
    if (at->keys != NULL) {
        int64_t h = at->h_v - at->unit->unit->head / f->group_v;
        return at->keys->dv.source + (h * at->unit->n + at->first) * f->p->c.dim_v;
    }
    at_fast_load(w->v, f->p, AT_V, at->b, at->h_v, at->first, NULL, at->n);
    return w->v;
}

/* Raw scores of the chunk, and their sums of squares. */
static void score_chunk(at_fast_work *w, const at_fast_place *at)
{
    const at_problem *p = at->f->p;
    const double *k = at_fast_chunk_k(w, at);
    int64_t m = at->block->n, dim = p->c.dim_qk, column = at->first - at->block->low;
    at_fast_mul_nt(w->raw + column, at->width, w->q, k, m, at->n, dim, p->scale);
    if (at->f->scale) {
        double unit = at_fast_unit_of(k, at->n * dim);
        w->k_unit[column / AT_FAST_KEYS] = unit;
        at_fast_floats(&(at_fast_forms){.square = w->square}, k, at->n * dim, unit);
        at_fast_mul_nt_float(w->squares + column, at->width, w->q_square, w->square, m, at->n, dim);
    }
}

/* What is added to row r's scores, before the cap and after it. */
static void add_to_row(at_fast_work *w, const at_fast_place *at, int64_t r)
{
    const at_score *score = &at->f->score;
    const int64_t *row = at->block->row[r];
    const at_fast_span *span = &w->spans[r];
    const at_score_keys keys = {.first = span->first, .n = span->last - span->first + 1};
    int64_t place = r * at->width + span->first - at->block->low;
    if (score->before) {
        at_score_before(score, w->add + place, at->b, row[1], row[2], &keys);
        for (int64_t j = place; j < place + keys.n; j++) {
            w->raw[j] += w->add[j];
        }
    }
    if (score->added) {
        at_score_after(score, w->add + place, at->b, row[1], row[2], &keys);
    }
}

/* Scores of the block over all its keys, then the softmax of each row. */
static void score_block(at_fast_work *w, at_fast_place *at)
{
    const at_fast_block *block = at->block;
    for (int64_t j = block->low; at_fast_to_chunk(at, j); j += at->n) {
        score_chunk(w, at);
    }
    for (int64_t r = 0; r < block->n; r++) {
        const at_fast_span *span = &w->spans[r];
        if (span->first > span->last) {
            continue;
        }
        int64_t place = r * at->width + span->first - block->low;
        int64_t n = span->last - span->first + 1;
        add_to_row(w, at, r);
        const double *add = at->f->score.added ? w->add + place : NULL;
        w->best[r] = span->first + at_fast_softmax(&at->f->m, w->rows[r], w->raw + place, add, n);
        if (w->rows[r]->keys <= 0) {
            write_dead(w, at, r);
        }
    }
}

/* Dropout's factors of row r's keys in the chunk, and P times them. */
static void drop_row(at_fast_work *w, const at_fast_place *at, int64_t r, int64_t from, int64_t n)
{
    const int64_t *row = at->block->row[r];
    const at_score_keys keys = {.first = at->first + from, .n = n};
    int64_t e = r * at->n + from;
    at_fast_clear_double(w->kept, at, r, from, n);
    if (n > 0) {
        at_score_dropout(&at->f->score, w->keep + e, at->b, row[1], row[2], &keys);
    }
    for (int64_t j = e; j < e + n; j++) {
        w->kept[j] = w->p[j] * w->keep[j];
    }
}

void at_fast_probability_chunk(at_fast_work *w, const at_fast_place *at)
{
    for (int64_t r = 0; r < at->block->n; r++) {
        int64_t from = 0, n = at_fast_part_of(w, at, r, &from);
        at_fast_pairs x = at_fast_pairs_of(w, at, r, from, n);
        at_fast_clear_double(w->p, at, r, from, n);
        at_fast_probabilities(&x);
        if (at->f->score.dropped) {
            drop_row(w, at, r, from, n);
        }
    }
}

void at_fast_run_rows(at_fast_work *w, at_fast_place *at)
{
    const int64_t *row = at->block->row[0];
    at->b = row[0];
    at->h_k = row[1] / at->f->group_k;
    at->h_v = row[1] / at->f->group_v;
    at->width = at->block->high - at->block->low + 1;
    find_rows(w, at);
    if (at->width > 0) {
        load_queries(w, at);
        score_block(w, at);
        at_fast_output_block(w, at);
        if (at->f->train) {
            at_fast_gradient_block(w, at);
        }
    }
}

/* Whether a block of n rows or columns and `width` of the others, `useful` pairs of which are seen,
 * is worth computing as one. */
static bool worth(int64_t n, int64_t width, int64_t useful)
{
    return n * width <= AT_FAST_WASTE * useful + AT_FAST_SPARE &&
           (n <= AT_FAST_ROWS_LEAST || n * width <= AT_FAST_SCORES);
}

void at_fast_grow_block(const at_fast *f, at_fast_block *block, int64_t (*list)[3], int64_t first,
                        int64_t n)
{
    const int64_t *head = list[first];
    int64_t useful = 0;
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
            useful += span->last - span->first + 1;
        }
        if (block->n > 0 && !worth(block->n + 1, high - low + 1, useful)) {
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
        at_fast_grow_block(f, &block, list, r, n);
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
        at_fast_grow_block(f, &(*out)[count], list, r, n);
        (*out)[count].gold = r;
    }
    return AT_OK;
}

at_status at_fast_rows(at_fast *f, int64_t (*list)[3], int64_t n, bool wanted, at_arena *arena,
                       at_error *err)
{
    at_fast_block *blocks = NULL;
    at_fast_work *works = NULL;
    int64_t n_blocks = 0, largest[3] = {0, 0, 0};
    AT_TRY(cut_list(f, &blocks, &n_blocks, list, n, largest, arena, err));
    int threads = at_fast_threads(f, n_blocks);
    AT_TRY(at_gold_take(&works, arena, threads, sizeof *works, err));
    for (int t = 0; t < threads; t++) {
        AT_TRY(at_fast_work_open(&works[t], f, largest[0], largest[1], largest[2], arena, err));
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < n_blocks; i++) {
        at_fast_place at = {.f = f, .block = &blocks[i], .wanted = wanted};
        at_fast_run_rows(&works[omp_get_thread_num()], &at);
    }
    return AT_OK;
}
