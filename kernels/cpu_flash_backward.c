/* Backward of cpu.flash, from the stored LSE and O: one sweep over key tiles for dK and dV, one
 * over row tiles for dQ, so that no two threads add to the same sum. Source: FlashAttention-2 (Dao
 * 2023), algorithm 2. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu_flash_grad.h"
#include "kernels/kernels.h"

static const double log2_e = 1.44269504088896340736;

size_t at_flash_tile_floats(const at_case *c)
{
    size_t qk = (size_t)at_tile_stride((int)c->dim_qk), v = (size_t)at_tile_stride((int)c->dim_v);
    return 3 * (size_t)AT_TILE_MAX * LANE_STRIDE + 2 * ROW_TILE +
           (qk + v) * (LANE_STRIDE + AT_TILE_MAX);
}

float *at_flash_lay_out(const at_flash_run *run, at_flash_grad *t, float *memory)
{
    size_t square = (size_t)AT_TILE_MAX * LANE_STRIDE;
    size_t qk = (size_t)run->qk_stride, v = (size_t)run->v_stride;
    *t = (at_flash_grad){.s = memory, .dp = memory + square, .slope = memory + 2 * square};
    t->lse = t->slope + square;
    t->d = t->lse + ROW_TILE;
    t->fixed_qk = t->d + ROW_TILE;
    t->fixed_v = t->fixed_qk + qk * LANE_STRIDE;
    t->moving_qk = t->fixed_v + v * LANE_STRIDE;
    t->moving_v = t->moving_qk + qk * AT_TILE_MAX;
    return t->moving_v + v * AT_TILE_MAX;
}

/* LSE as the forward left it, back to the right natural logarithm with the sink in it, where the
 * variant, or the fault in which both passes agree, has it in another form. */
double at_flash_stored_lse(const at_flash_run *run, int64_t b, int64_t h, int64_t i)
{
    double lse = at_tensor_get(&run->p->t[AT_LSE], b, h, i, 0);
    if (run->fault.lse == AT_FLASH_LSE_LOG2 || run->numeric.variant.lse_log2) {
        lse /= log2_e;
    }
    if (run->numeric.variant.lse_without_sink) {
        lse = at_flash_log_sum(lse, at_flash_sink(run, h));
    }
    return run->fault.lse == AT_FLASH_LSE_NEGATED ? -lse : lse;
}

void at_flash_load_row_values(const at_flash_run *run, at_flash_grad *t)
{
    const at_case *c = &run->p->c;
    for (int r = 0; r < ROW_TILE; r++) {
        t->lse[r] = HUGE_VALF;
        t->d[r] = 0;
    }
    for (int r = 0; r < t->rows; r++) {
        int64_t at = t->b * c->len_q + t->i + r;
        double lse = at_flash_stored_lse(run, t->b, t->h, t->i + r);
        if (run->first[at] <= run->last[at] && lse != -HUGE_VAL) {
            t->lse[r] = (float)(run->softmax.base2 ? lse * log2_e : lse);
        }
        int64_t i = t->i + r - (run->fault.d == AT_FLASH_D_ROW_BEFORE ? 16 : 0);
        t->d[r] = run->d[(t->b * c->heads_q + t->h) * c->len_q + (i > 0 ? i : 0)];
    }
}

/* The fault exp_split: P = exp(S) exp(-LSE). */
static void split_gradient(const at_flash_run *run, const at_flash_grad *t, at_tile s, bool by_row,
                           bool sloped)
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
            t->dp[at] *= sloped ? t->slope[at] : 1;
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

void at_flash_gradient(const at_flash_run *run, const at_flash_grad *t, at_flash_span span,
                       bool by_row, bool sloped)
{
    int rows = by_row ? t->rows : t->keys, lanes = at_tile_lanes(by_row ? t->keys : t->rows);
    at_tile s = {rows, lanes, LANE_STRIDE, t->s}, dp = {rows, lanes, LANE_STRIDE, t->dp};
    at_flash_block block = {t->b, t->h, t->i, t->rows, t->key, t->keys, by_row};
    multiply_fixed(s, t->moving_qk, run->qk_stride, t->fixed_qk, run->score_dims);
    multiply_fixed(dp, t->moving_v, run->v_stride, t->fixed_v, run->dp_dims);
    at_flash_score(run, &block, span, s, t->slope);
    if (run->drop > 0) {
        at_flash_drop(run, &block, dp, run->fault.drop_unscaled ? 1 : run->drop);
    }
    sloped = sloped && run->softmax.cap > 0 && !run->fault.slope_lost;
    if (run->fault.exp_split) {
        split_gradient(run, t, s, by_row, sloped);
    } else {
        at_tile_gradient(&run->softmax, s, t->dp, sloped ? t->slope : NULL, t->lse, t->d, by_row);
    }
}

/* What the multiplies take: rounded P with dropout in t->s and dS in t->dp. */
static void make_products(const at_flash_run *run, const at_flash_grad *t, at_flash_span span,
                          bool by_row)
{
    int rows = by_row ? t->rows : t->keys, lanes = at_tile_lanes(by_row ? t->keys : t->rows);
    at_flash_gradient(run, t, span, by_row, true);
    at_flash_round(run, run->p_unit, t->s, (size_t)rows * LANE_STRIDE);
    at_flash_round(run, run->ds_unit, t->dp, (size_t)rows * LANE_STRIDE);
    if (run->drop > 0) {
        at_flash_block block = {t->b, t->h, t->i, t->rows, t->key, t->keys, by_row};
        at_flash_drop(run, &block, (at_tile){rows, lanes, LANE_STRIDE, t->s}, 1);
    }
}

void at_flash_load_rows(const at_flash_run *run, const at_flash_grad *t, bool by_lane, float *q,
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

void at_flash_load_keys(const at_flash_run *run, const at_flash_grad *t, bool by_lane, float *k,
                        float *v)
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
    at_flash_grad t;
    float *sum = at_flash_lay_out(run, &t, at_flash_scratch(run)), scale[ROW_TILE];
    int64_t left = p->len_q[b] - i;
    t.b = b;
    t.h = h;
    t.i = i;
    t.rows = left < ROW_TILE ? (int)left : ROW_TILE;
    at_flash_load_rows(run, &t, true, t.fixed_qk, t.fixed_v);
    at_flash_load_row_values(run, &t);
    size_t floats = (size_t)ROW_TILE * (size_t)run->qk_stride;
    memset(sum, 0, floats * sizeof *sum);
    at_flash_span span = at_flash_span_of(run, b, i, t.rows);
    int low = span.low / run->engine.tile, high = span.high / run->engine.tile;
    for (int n = low; span.low <= span.high && n <= high; n++) {
        int tile = run->engine.reversed ? high - (n - low) : n;
        t.key = tile * run->engine.tile;
        t.keys = at_flash_keys_in_tile(run, b, tile);
        at_flash_load_keys(run, &t, false, t.moving_qk, t.moving_v);
        make_products(run, &t, span, false);
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
        at_flash_store(run, AT_DQ, b, h, i + r, sum + (size_t)r * (size_t)run->qk_stride);
    }
}

/* Query heads that share K and V heads with nobody else: family f of `families` has those query
 * heads h, K heads and V heads. */
typedef struct family {
    int64_t families, f;
    int64_t heads_k, heads_v; /* in one family */
    float *dk, *dv;           /* [heads_k or heads_v] [tile dim] */
    float *dk_head, *dv_head; /* [tile dim] of one query head, where each is rounded */
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
static void add_transposed(const at_flash_run *run, const at_flash_grad *t, const float *tile,
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
static void add_head(const at_flash_run *run, at_flash_grad *t, float *dk, float *dv)
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
        at_flash_load_rows(run, t, false, t->moving_qk, t->moving_v);
        at_flash_load_row_values(run, t);
        make_products(run, t, span, true);
        add_transposed(run, t, t->s, t->moving_v, run->v_stride, dv);
        add_transposed(run, t, t->dp, t->moving_qk, run->qk_stride, dk);
    }
}

/* Stores the family's sums of the key tile, times `factor`. */
static void store_keys(const at_flash_run *run, const at_flash_grad *t, const family *own,
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
            at_flash_store(run, id, t->b, h, t->key + r, sum + (size_t)r * (size_t)stride);
        }
    }
}

/* Adds a head's gradient to its group's as it would be stored. */
static void add_rounded(const at_flash_run *run, at_tensor_id id, float factor, float *head,
                        float *sum, size_t n)
{
    at_dtype dtype = run->p->t[id].dtype;
    float unit = run->p->unit[id];
    for (size_t i = 0; i < n; i++) {
        sum[i] += (float)at_dtype_round(dtype, (double)(head[i] * factor / unit)) * unit;
    }
}

/* dK and dV of one key tile and family. */
static void run_key_tile(const at_flash_run *run, int64_t b, int64_t f, int64_t families, int tile)
{
    const at_problem *p = run->p;
    const at_case *c = &p->c;
    at_flash_grad t;
    family own = {.families = families,
                  .f = f,
                  .heads_k = c->heads_kv / families,
                  .heads_v = c->heads_v / families};
    own.dk = at_flash_lay_out(run, &t, at_flash_scratch(run));
    own.dk_floats = (size_t)AT_TILE_MAX * (size_t)run->qk_stride;
    own.dv = own.dk + own.dk_floats * (size_t)own.heads_k;
    own.dv_floats = (size_t)AT_TILE_MAX * (size_t)run->v_stride;
    own.dk_head = own.dv + own.dv_floats * (size_t)own.heads_v;
    own.dv_head = own.dk_head + own.dk_floats;
    memset(own.dk, 0, own.dk_floats * (size_t)own.heads_k * sizeof *own.dk);
    memset(own.dv, 0, own.dv_floats * (size_t)own.heads_v * sizeof *own.dv);
    t.b = b;
    t.key = tile * run->engine.tile;
    t.keys =
        (int)(p->len_kv[b] - t.key < run->engine.tile ? p->len_kv[b] - t.key : run->engine.tile);
    int64_t loaded_k = -1, loaded_v = -1;
    float drop = run->drop > 0 && !run->fault.drop_unscaled ? run->drop : 1;
    for (t.h = 0; t.h < c->heads_q; t.h++) {
        if (family_of(run, families, c->heads_q, t.h) != f) {
            continue;
        }
        int64_t k = at_flash_k_head(run, t.h), v = at_flash_v_head(run, t.h);
        if (k != loaded_k || v != loaded_v) {
            at_flash_load_keys(run, &t, true, t.fixed_qk, t.fixed_v);
            loaded_k = k;
            loaded_v = v;
        }
        float *dk = own.dk + own.dk_floats * (size_t)place_in_family(run, families, c->heads_kv, k);
        float *dv = own.dv + own.dv_floats * (size_t)place_in_family(run, families, c->heads_v, v);
        if (run->fault.group_sum_lost) {
            memset(dk, 0, own.dk_floats * sizeof *dk);
            memset(dv, 0, own.dv_floats * sizeof *dv);
        }
        if (run->numeric.head_rounded) {
            memset(own.dk_head, 0, (own.dk_floats + own.dv_floats) * sizeof *own.dk_head);
            add_head(run, &t, own.dk_head, own.dv_head);
            add_rounded(run, AT_DK, run->softmax.scale, own.dk_head, dk, own.dk_floats);
            add_rounded(run, AT_DV, drop, own.dv_head, dv, own.dv_floats);
        } else {
            add_head(run, &t, dk, dv);
        }
    }
    bool scaled = run->numeric.head_rounded;
    store_keys(run, &t, &own, AT_DK, scaled ? 1 : run->softmax.scale);
    store_keys(run, &t, &own, AT_DV, scaled ? 1 : drop);
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
    size_t own = (size_t)AT_TILE_MAX * (qk * (size_t)(1 + c->heads_kv / families) +
                                        v * (size_t)(1 + c->heads_v / families));
    size_t square = (size_t)AT_TILE_MAX * LANE_STRIDE;
    size_t floats = at_flash_tile_floats(c) + (own > square ? own : square);
    at_status status = at_flash_start(&run, self, p, engine, AT_FLASH_BACKWARD,
                                      row_items + c->batch * families, floats, err);
    if (status == AT_OK) {
        status = at_flash_make_d(&run, err);
    }
    if (status == AT_OK) {
        run_sweeps(&run, row_items, families);
        at_flash_bias_gradient(&run);
        at_flash_sink_gradient(&run);
        clear_padding(p);
    }
    at_flash_finish(&run);
    return status;
}
