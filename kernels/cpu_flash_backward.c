/* Backward of cpu.flash, from the stored LSE and O: one sweep over key tiles for dK and dV, one
 * over row tiles for dQ, so that no two threads add to the same sum. Source: FlashAttention-2 (Dao
 * 2023), algorithm 2. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu_flash_run.h"
#include "kernels/kernels.h"

enum { ROW_TILE = AT_TILE_MAX, LANE_STRIDE = AT_TILE_MAX + AT_TILE_LANES };

static const double log2_e = 1.44269504088896340736;

/* P and dS of one tile. Sweep over rows: rows = keys, lanes = query rows. Sweep over keys: the
 * other way round. */
typedef struct grad_tile {
    int64_t b, h, i;           /* sequence, head, first query row */
    int rows;                  /* query rows */
    int key, keys;             /* first key, number of keys */
    float *s, *dp, *slope;     /* [AT_TILE_MAX LANE_STRIDE] */
    float *lse, *d;            /* [ROW_TILE] of the query rows; lse as at_tile_gradient takes it */
    float *fixed_qk, *fixed_v; /* by lane [dim LANE_STRIDE]: Q and dO, or K and V */
    float *moving_qk, *moving_v; /* [AT_TILE_MAX dim]: K and V, or Q and dO */
} grad_tile;

static size_t tile_floats(const at_case *c)
{
    size_t qk = (size_t)at_tile_stride((int)c->dim_qk), v = (size_t)at_tile_stride((int)c->dim_v);
    return 3 * (size_t)AT_TILE_MAX * LANE_STRIDE + 2 * ROW_TILE +
           (qk + v) * (LANE_STRIDE + AT_TILE_MAX);
}

/* Cuts the tile's parts from `memory` and returns what is left. */
static float *lay_out(const at_flash_run *run, grad_tile *t, float *memory)
{
    size_t square = (size_t)AT_TILE_MAX * LANE_STRIDE;
    size_t qk = (size_t)run->qk_stride, v = (size_t)run->v_stride;
    *t = (grad_tile){.s = memory, .dp = memory + square, .slope = memory + 2 * square};
    t->lse = t->slope + square;
    t->d = t->lse + ROW_TILE;
    t->fixed_qk = t->d + ROW_TILE;
    t->fixed_v = t->fixed_qk + qk * LANE_STRIDE;
    t->moving_qk = t->fixed_v + v * LANE_STRIDE;
    t->moving_v = t->moving_qk + qk * AT_TILE_MAX;
    return t->moving_v + v * AT_TILE_MAX;
}

/* LSE as the forward left it, back to the right natural logarithm where the fault says that both
 * passes agree on the wrong form. */
static double stored_lse(const at_flash_run *run, int64_t b, int64_t h, int64_t i)
{
    double lse = at_tensor_get(&run->p->t[AT_LSE], b, h, i, 0);
    if (run->fault.lse == AT_FLASH_LSE_LOG2) {
        return lse / log2_e;
    }
    return run->fault.lse == AT_FLASH_LSE_NEGATED ? -lse : lse;
}

/* LSE and D of the tile's query rows; +Inf where no key is seen makes P = 0. */
static void load_row_values(const at_flash_run *run, grad_tile *t)
{
    const at_case *c = &run->p->c;
    for (int r = 0; r < ROW_TILE; r++) {
        t->lse[r] = HUGE_VALF;
        t->d[r] = 0;
    }
    for (int r = 0; r < t->rows; r++) {
        int64_t at = t->b * c->len_q + t->i + r;
        if (run->first[at] <= run->last[at]) {
            double lse = stored_lse(run, t->b, t->h, t->i + r);
            t->lse[r] = (float)(run->softmax.base2 ? lse * log2_e : lse);
        }
        int64_t i = t->i + r - (run->fault.d == AT_FLASH_D_ROW_BEFORE ? 16 : 0);
        t->d[r] = run->d[(t->b * c->heads_q + t->h) * c->len_q + (i > 0 ? i : 0)];
    }
}

/* The fault exp_split: P = exp(S) exp(-LSE). */
static void split_gradient(const at_flash_run *run, const grad_tile *t, at_tile s, bool by_row)
{
    for (int r = 0; r < s.rows; r++) {
        for (int l = 0; l < s.lanes; l++) {
            ptrdiff_t at = (ptrdiff_t)r * s.stride + l;
            float lse = t->lse[by_row ? r : l], d = t->d[by_row ? r : l];
            bool seen = s.x[at] > -HUGE_VALF && lse < HUGE_VALF;
            float p =
                run->softmax.base2 ? exp2f(s.x[at]) * exp2f(-lse) : expf(s.x[at]) * expf(-lse);
            s.x[at] = seen ? p : 0;
            t->dp[at] = seen ? p * (t->dp[at] - d) : 0;
            t->dp[at] *= run->softmax.cap > 0 && !run->fault.slope_lost ? t->slope[at] : 1;
        }
    }
}

/* moving [rows dim] times fixed [dim lanes], over the first `dims` dims. */
static void multiply_fixed(at_tile out, const float *moving, int stride, const float *fixed,
                           int dims)
{
    memset(out.x, 0, (size_t)out.rows * (size_t)out.stride * sizeof *out.x);
    at_tile_multiply(&(at_tile_product){.m = out.rows,
                                        .n = out.lanes,
                                        .k = dims,
                                        .a = moving,
                                        .a_m = stride,
                                        .a_k = 1,
                                        .b = fixed,
                                        .b_k = LANE_STRIDE,
                                        .c = out.x,
                                        .c_m = out.stride});
}

/* From the loaded tiles to rounded P in t->s and dS in t->dp. */
static void make_gradient(const at_flash_run *run, const grad_tile *t, at_flash_span span,
                          bool by_row)
{
    int rows = by_row ? t->rows : t->keys, lanes = at_tile_lanes(by_row ? t->keys : t->rows);
    at_tile s = {rows, lanes, LANE_STRIDE, t->s}, dp = {rows, lanes, LANE_STRIDE, t->dp};
    multiply_fixed(s, t->moving_qk, run->qk_stride, t->fixed_qk, run->score_dims);
    multiply_fixed(dp, t->moving_v, run->v_stride, t->fixed_v, run->dp_dims);
    at_tile_score(&run->softmax, s, t->slope);
    if (span.full_low > t->key || span.full_high < t->key + t->keys - 1) {
        int first[ROW_TILE] = {0}, last[ROW_TILE] = {0};
        size_t at = (size_t)(t->b * run->p->c.len_q + t->i), n = (size_t)t->rows;
        memcpy(first, run->first + at, n * sizeof *first);
        memcpy(last, run->last + at, n * sizeof *last);
        (by_row ? at_tile_mask_rows : at_tile_mask)(s, t->key, first, last);
    }
    if (run->fault.exp_split) {
        split_gradient(run, t, s, by_row);
    } else {
        bool sloped = run->softmax.cap > 0 && !run->fault.slope_lost;
        at_tile_gradient(&run->softmax, s, t->dp, sloped ? t->slope : NULL, t->lse, t->d, by_row);
    }
    at_tile_round(run->rounding, t->s, (size_t)rows * LANE_STRIDE);
    at_tile_round(run->rounding, t->dp, (size_t)rows * LANE_STRIDE);
}

static void load_rows(const at_flash_run *run, const grad_tile *t, bool by_lane, float *q,
                      float *d_o)
{
    at_flash_rows what = {.tensor = AT_Q,
                          .b = t->b,
                          .h = t->h,
                          .s = t->i,
                          .rows = t->rows,
                          .stride = by_lane ? LANE_STRIDE : run->qk_stride,
                          .live = run->p->len_q[t->b],
                          .by_lane = by_lane};
    at_flash_load(run, &what, q);
    what.tensor = AT_DO;
    what.stride = by_lane ? LANE_STRIDE : run->v_stride;
    at_flash_load(run, &what, d_o);
}

static void load_keys(const at_flash_run *run, const grad_tile *t, bool by_lane, float *k, float *v)
{
    at_flash_rows what = {.tensor = AT_K,
                          .b = t->b,
                          .h = at_flash_k_head(run, t->h),
                          .s = t->key,
                          .rows = t->keys,
                          .stride = by_lane ? LANE_STRIDE : run->qk_stride,
                          .live = run->p->len_kv[t->b],
                          .by_lane = by_lane};
    at_flash_load(run, &what, k);
    what.tensor = AT_V;
    what.h = at_flash_v_head(run, t->h);
    what.stride = by_lane ? LANE_STRIDE : run->v_stride;
    at_flash_load(run, &what, v);
}

/* dQ of one row tile; `sum` [ROW_TILE qk_stride]. */
static void run_row_tile(const at_flash_run *run, int64_t b, int64_t h, int64_t i)
{
    const at_problem *p = run->p;
    grad_tile t;
    float *sum = lay_out(run, &t, at_flash_scratch(run)), scale[ROW_TILE];
    int64_t left = p->len_q[b] - i;
    t.b = b;
    t.h = h;
    t.i = i;
    t.rows = left < ROW_TILE ? (int)left : ROW_TILE;
    load_rows(run, &t, true, t.fixed_qk, t.fixed_v);
    load_row_values(run, &t);
    size_t floats = (size_t)ROW_TILE * (size_t)run->qk_stride;
    memset(sum, 0, floats * sizeof *sum);
    at_flash_span span = at_flash_span_of(run, b, i, t.rows);
    int low = span.low / run->engine.tile, high = span.high / run->engine.tile;
    for (int n = low; span.low <= span.high && n <= high; n++) {
        int tile = run->engine.reversed ? high - (n - low) : n;
        t.key = tile * run->engine.tile;
        t.keys = at_flash_keys_in_tile(run, b, tile);
        load_keys(run, &t, false, t.moving_qk, t.moving_v);
        make_gradient(run, &t, span, false);
        at_tile_multiply(&(at_tile_product){.m = t.rows,
                                            .n = at_tile_lanes((int)p->c.dim_qk),
                                            .k = t.keys,
                                            .a = t.dp,
                                            .a_m = 1,
                                            .a_k = LANE_STRIDE,
                                            .b = t.moving_qk,
                                            .b_k = run->qk_stride,
                                            .c = sum,
                                            .c_m = run->qk_stride});
        at_tile_round(run->sums, sum, floats);
    }
    for (int r = 0; r < t.rows; r++) {
        scale[r] = run->softmax.scale;
    }
    at_tile_scale_rows((at_tile){t.rows, (int)p->c.dim_qk, run->qk_stride, sum}, scale);
    for (int r = 0; r < t.rows; r++) {
        at_flash_store(&p->t[AT_DQ], b, h, i + r, sum + (size_t)r * (size_t)run->qk_stride);
    }
}

/* Query heads that share K and V heads with nobody else: family f of `families` has those query
 * heads h, K heads and V heads. */
typedef struct family {
    int64_t families, f;
    int64_t heads_k, heads_v; /* in one family */
    float *dk, *dv;           /* [heads_k or heads_v] [tile dim] */
    size_t dk_floats, dv_floats;
} family;

static int64_t family_of(const at_flash_run *run, int64_t families, int64_t heads, int64_t h)
{
    return run->fault.head_modulo ? h % families : h / (heads / families);
}

static int64_t place_in_family(const at_flash_run *run, int64_t families, int64_t heads, int64_t h)
{
    return run->fault.head_modulo ? h / families : h % (heads / families);
}

/* dst [keys dim] += tile^T rows, where tile is P or dS [rows keys]. */
static void add_transposed(const at_flash_run *run, const grad_tile *t, const float *tile,
                           const float *rows, int stride, float *dst)
{
    at_tile_multiply(&(at_tile_product){.m = t->keys,
                                        .n = stride - AT_TILE_LANES,
                                        .k = t->rows,
                                        .a = tile,
                                        .a_m = 1,
                                        .a_k = LANE_STRIDE,
                                        .b = rows,
                                        .b_k = stride,
                                        .c = dst,
                                        .c_m = stride});
    at_tile_round(run->sums, dst, (size_t)t->keys * (size_t)stride);
}

/* Adds one query head's share to dK and dV of the key tile. */
static void add_head(const at_flash_run *run, grad_tile *t, float *dk, float *dv)
{
    const at_problem *p = run->p;
    int64_t step = run->engine.tile, tiles = (p->len_q[t->b] + step - 1) / step;
    for (int64_t n = 0; n < tiles; n++) {
        t->i = (run->engine.reversed ? tiles - 1 - n : n) * step;
        t->rows = (int)(p->len_q[t->b] - t->i < step ? p->len_q[t->b] - t->i : step);
        at_flash_span span = at_flash_span_of(run, t->b, t->i, t->rows);
        if (span.low > t->key + t->keys - 1 || span.high < t->key) {
            continue;
        }
        load_rows(run, t, false, t->moving_qk, t->moving_v);
        load_row_values(run, t);
        make_gradient(run, t, span, true);
        add_transposed(run, t, t->s, t->moving_v, run->v_stride, dv);
        add_transposed(run, t, t->dp, t->moving_qk, run->qk_stride, dk);
    }
}

/* Stores the family's sums of the key tile, times `factor`. */
static void store_keys(const at_flash_run *run, const grad_tile *t, const family *own,
                       at_tensor_id id, float factor)
{
    const at_tensor *out = &run->p->t[id];
    int64_t heads = out->shape[1];
    int stride = id == AT_DK ? run->qk_stride : run->v_stride;
    float scale[AT_TILE_MAX];
    for (int r = 0; r < t->keys; r++) {
        scale[r] = factor;
    }
    for (int64_t h = 0; h < heads; h++) {
        if (family_of(run, own->families, heads, h) != own->f) {
            continue;
        }
        size_t place = (size_t)place_in_family(run, own->families, heads, h);
        float *sum =
            id == AT_DK ? own->dk + place * own->dk_floats : own->dv + place * own->dv_floats;
        at_tile_scale_rows((at_tile){t->keys, (int)out->shape[3], stride, sum}, scale);
        for (int r = 0; r < t->keys; r++) {
            at_flash_store(out, t->b, h, t->key + r, sum + (size_t)r * (size_t)stride);
        }
    }
}

/* dK and dV of one key tile and family. */
static void run_key_tile(const at_flash_run *run, int64_t b, int64_t f, int64_t families, int tile)
{
    const at_problem *p = run->p;
    const at_case *c = &p->c;
    grad_tile t;
    family own = {.families = families,
                  .f = f,
                  .heads_k = c->heads_kv / families,
                  .heads_v = c->heads_v / families};
    own.dk = lay_out(run, &t, at_flash_scratch(run));
    own.dk_floats = (size_t)AT_TILE_MAX * (size_t)run->qk_stride;
    own.dv = own.dk + own.dk_floats * (size_t)own.heads_k;
    own.dv_floats = (size_t)AT_TILE_MAX * (size_t)run->v_stride;
    memset(own.dk, 0, own.dk_floats * (size_t)own.heads_k * sizeof *own.dk);
    memset(own.dv, 0, own.dv_floats * (size_t)own.heads_v * sizeof *own.dv);
    t.b = b;
    t.key = tile * run->engine.tile;
    t.keys =
        (int)(p->len_kv[b] - t.key < run->engine.tile ? p->len_kv[b] - t.key : run->engine.tile);
    int64_t loaded_k = -1, loaded_v = -1;
    for (t.h = 0; t.h < c->heads_q; t.h++) {
        if (family_of(run, families, c->heads_q, t.h) != f) {
            continue;
        }
        int64_t k = at_flash_k_head(run, t.h), v = at_flash_v_head(run, t.h);
        if (k != loaded_k || v != loaded_v) {
            load_keys(run, &t, true, t.fixed_qk, t.fixed_v);
            loaded_k = k;
            loaded_v = v;
        }
        float *dk = own.dk + own.dk_floats * (size_t)place_in_family(run, families, c->heads_kv, k);
        float *dv = own.dv + own.dv_floats * (size_t)place_in_family(run, families, c->heads_v, v);
        if (run->fault.group_sum_lost) {
            memset(dk, 0, own.dk_floats * sizeof *dk);
            memset(dv, 0, own.dv_floats * sizeof *dv);
        }
        add_head(run, &t, dk, dv);
    }
    store_keys(run, &t, &own, AT_DK, run->softmax.scale);
    store_keys(run, &t, &own, AT_DV, 1);
}

/* D of every live row, from the stored O. */
static at_status make_d(at_flash_run *run, at_error *err)
{
    const at_problem *p = run->p;
    int64_t rows = p->c.batch * p->c.heads_q * p->c.len_q;
    int dim = (int)p->c.dim_v;
    run->d = calloc((size_t)rows + 1, sizeof *run->d);
    float *line = calloc(2 * (size_t)dim + 1, sizeof *line);
    if (run->d == NULL || line == NULL) {
        free(line);
        return at_fail(err, AT_NO_MEMORY, "cpu.flash: no memory for D of %lld rows",
                       (long long)rows);
    }
    for (int64_t n = 0; n < rows && run->fault.d != AT_FLASH_D_MISSING; n++) {
        int64_t i = n % p->c.len_q, h = n / p->c.len_q % p->c.heads_q;
        int64_t b = n / p->c.len_q / p->c.heads_q;
        if (i < p->len_q[b]) {
            at_tile_load(p->t[AT_O].dtype, line, at_tensor_at(&p->t[AT_O], b, h, i, 0), dim);
            at_tile_load(p->t[AT_DO].dtype, line + dim, at_tensor_at(&p->t[AT_DO], b, h, i, 0),
                         dim);
            run->d[n] = at_tile_dot(line, line + dim, run->d_dims);
        }
    }
    free(line);
    return AT_OK;
}

static void clear_padding(const at_problem *p)
{
    for (int64_t b = 0; b < p->c.batch; b++) {
        for (int64_t h = 0; h < p->c.heads_q; h++) {
            at_flash_clear(&p->t[AT_DQ], b, h, p->len_q[b]);
        }
        for (int64_t h = 0; h < p->c.heads_kv; h++) {
            at_flash_clear(&p->t[AT_DK], b, h, p->len_kv[b]);
        }
        for (int64_t h = 0; h < p->c.heads_v; h++) {
            at_flash_clear(&p->t[AT_DV], b, h, p->len_kv[b]);
        }
    }
}

static void run_sweeps(const at_flash_run *run, int64_t row_items, int64_t families)
{
    const at_problem *p = run->p;
    int64_t row_tiles = (p->c.len_q + ROW_TILE - 1) / ROW_TILE, heads = p->c.heads_q;
    int64_t key_tiles = (p->c.len_kv + run->engine.tile - 1) / run->engine.tile;
    int64_t items = row_items + p->c.batch * families * key_tiles;
#pragma omp parallel for schedule(dynamic) num_threads(run->threads) if (run->threads > 1)
    for (int64_t n = 0; n < items; n++) {
        int64_t m = n - row_items;
        if (n < row_items) {
            int64_t b = n / (heads * row_tiles), i = n % row_tiles * ROW_TILE;
            if (i < p->len_q[b]) {
                run_row_tile(run, b, n / row_tiles % heads, i);
            }
        } else {
            int64_t b = m / (families * key_tiles), tile = m % key_tiles;
            if (tile * run->engine.tile < p->len_kv[b]) {
                run_key_tile(run, b, m / key_tiles % families, families, (int)tile);
            }
        }
    }
}

at_status at_flash_backward(const at_backend *self, void *state, const at_problem *p,
                            const char *engine, at_error *err)
{
    (void)state;
    const at_case *c = &p->c;
    at_flash_run run;
    int64_t families = at_common_divisor(c->heads_kv, c->heads_v);
    int64_t row_items = c->batch * c->heads_q * ((c->len_q + ROW_TILE - 1) / ROW_TILE);
    size_t qk = (size_t)at_tile_stride((int)c->dim_qk), v = (size_t)at_tile_stride((int)c->dim_v);
    size_t floats = tile_floats(c) + (size_t)AT_TILE_MAX * (qk * (size_t)(c->heads_kv / families) +
                                                            v * (size_t)(c->heads_v / families));
    at_status status = at_flash_start(&run, self, p, engine, AT_FLASH_BACKWARD,
                                      row_items + c->batch * families, floats, err);
    if (status == AT_OK) {
        status = make_d(&run, err);
    }
    if (status == AT_OK) {
        run_sweeps(&run, row_items, families);
        clear_padding(p);
    }
    at_flash_finish(&run);
    return status;
}
