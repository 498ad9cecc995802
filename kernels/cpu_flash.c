/* Forward of cpu.flash. Scores are made transposed, rows = keys, so that the softmax runs down the
 * lanes and no tile of K or V has to be turned. Source: FlashAttention-2 (Dao 2023), algorithm 1.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu_flash_run.h"
#include "kernels/kernels.h"

enum { ROW_TILE = AT_TILE_MAX, LANE_STRIDE = AT_TILE_MAX + AT_TILE_LANES };

static const double log_2 = 0.69314718055994530942;
static const double log2_e = 1.44269504088896340736;

/* ROW_TILE rows of one query head. */
typedef struct row_tile {
    int64_t b, h, i; /* sequence, head, first row */
    int rows, lanes;
    int key_rows;     /* of the key tile at hand */
    float *q;         /* [dim_qk lanes] */
    float *k, *v;     /* [tile dim] */
    float *s, *slope; /* [tile lanes] */
    float *sum_pv;    /* [rows dim_v] of the split at hand */
    float *out;       /* [rows dim_v] of the splits before it, divided */
    float *max, *sum; /* [lanes] of the split at hand */
    float *correction;
    /* [lanes] of the splits before it: largest score, sum relative to it, LSE; natural units. They
     * are not merged through LSE, which far from 0 has no digits for the sum. */
    double *top, *weight, *lse;
} row_tile;

static size_t scratch_floats(const at_case *c)
{
    size_t qk = (size_t)at_tile_stride((int)c->dim_qk), v = (size_t)at_tile_stride((int)c->dim_v);
    return qk * LANE_STRIDE + AT_TILE_MAX * (qk + v) + 2 * (size_t)AT_TILE_MAX * LANE_STRIDE +
           2 * ROW_TILE * v + 9 * ROW_TILE;
}

static row_tile lay_out(const at_flash_run *run, float *memory)
{
    row_tile t = {0};
    t.q = memory;
    t.k = t.q + (size_t)run->qk_stride * LANE_STRIDE;
    t.v = t.k + (size_t)AT_TILE_MAX * (size_t)run->qk_stride;
    t.s = t.v + (size_t)AT_TILE_MAX * (size_t)run->v_stride;
    t.slope = t.s + (size_t)AT_TILE_MAX * LANE_STRIDE;
    t.sum_pv = t.slope + (size_t)AT_TILE_MAX * LANE_STRIDE;
    t.out = t.sum_pv + (size_t)ROW_TILE * (size_t)run->v_stride;
    t.max = t.out + (size_t)ROW_TILE * (size_t)run->v_stride;
    t.sum = t.max + ROW_TILE;
    t.correction = t.sum + ROW_TILE;
    t.top = (double *)(void *)(t.correction + ROW_TILE);
    t.weight = t.top + ROW_TILE;
    t.lse = t.weight + ROW_TILE;
    return t;
}

/* P of one key tile, rounded, in t->s; carries max and sum. */
static void softmax_tile(const at_flash_run *run, row_tile *t, int tile, at_flash_span span)
{
    int key = tile * run->engine.tile, lanes = t->lanes;
    at_tile s = {t->key_rows, lanes, LANE_STRIDE, t->s};
    memset(t->s, 0, (size_t)t->key_rows * LANE_STRIDE * sizeof *t->s);
    at_tile_multiply(&(at_tile_product){.m = t->key_rows,
                                        .n = lanes,
                                        .k = run->score_dims,
                                        .a = t->k,
                                        .a_m = run->qk_stride,
                                        .a_k = 1,
                                        .b = t->q,
                                        .b_k = LANE_STRIDE,
                                        .c = t->s,
                                        .c_m = LANE_STRIDE});
    at_flash_block block = {
        .b = t->b, .h = t->h, .i = t->i, .rows = t->rows, .key = key, .keys = t->key_rows};
    at_flash_score(run, &block, span, s, t->slope);
    at_tile_softmax_step(&run->softmax, s, t->max, t->sum, t->correction);
    at_flash_round(run, run->p_unit, t->s, (size_t)t->key_rows * LANE_STRIDE);
    if (run->drop > 0) {
        at_flash_drop(run, &block, s, 1);
    }
}

static void key_tile(const at_flash_run *run, row_tile *t, int tile, at_flash_span span)
{
    const at_problem *p = run->p;
    int from = tile * run->engine.tile, dim_v = (int)p->c.dim_v;
    t->key_rows = at_flash_keys_in_tile(run, t->b, tile);
    at_flash_rows k = {.tensor = AT_K,
                       .b = t->b,
                       .h = at_flash_k_head(run, t->h),
                       .s = from,
                       .rows = t->key_rows,
                       .stride = run->qk_stride,
                       .live = p->len_kv[t->b]};
    at_flash_rows v = {.tensor = AT_V,
                       .b = t->b,
                       .h = at_flash_v_head(run, t->h),
                       .s = from,
                       .rows = t->key_rows,
                       .stride = run->v_stride,
                       .live = p->len_kv[t->b]};
    if (run->fault.stale_v && tile > 0 && tile == span.high / run->engine.tile) {
        v.s -= run->engine.tile;
    }
    at_flash_load(run, &k, t->k);
    at_flash_load(run, &v, t->v);
    softmax_tile(run, t, tile, span);
    if (!run->fault.no_rescale) {
        at_tile_scale_rows((at_tile){t->rows, at_tile_lanes(dim_v), run->v_stride, t->sum_pv},
                           t->correction);
    }
    at_tile_multiply(&(at_tile_product){.m = t->rows,
                                        .n = at_tile_lanes(dim_v),
                                        .k = t->key_rows,
                                        .a = t->s,
                                        .a_m = 1,
                                        .a_k = LANE_STRIDE,
                                        .b = t->v,
                                        .b_k = run->v_stride,
                                        .c = t->sum_pv,
                                        .c_m = run->v_stride});
    at_tile_round(run->sums, t->sum_pv, (size_t)t->rows * (size_t)run->v_stride);
}

/* Divides what the split has summed and merges it into `out`. */
static void merge_split(const at_flash_run *run, row_tile *t)
{
    for (int r = 0; r < t->rows; r++) {
        float *out = t->out + (size_t)r * (size_t)run->v_stride;
        const float *pv = t->sum_pv + (size_t)r * (size_t)run->v_stride;
        double max = run->softmax.base2 ? (double)t->max[r] * log_2 : (double)t->max[r];
        if (t->sum[r] == 0) {
            continue;
        }
        double top = fmax(max, t->top[r]), before = t->weight[r] * exp(t->top[r] - top);
        double now = (double)t->sum[r] * exp(max - top);
        float old = (float)(before / (before + now)), share = (float)(now / (before + now));
        for (int d = 0; d < (int)run->p->c.dim_v; d++) {
            out[d] = out[d] * old + pv[d] / t->sum[r] * share;
        }
        t->top[r] = top;
        t->weight[r] = before + now;
        t->lse[r] = top + log(t->weight[r]);
    }
}

/* Key tiles of split `split`, in the engine's order. */
static void run_split(const at_flash_run *run, row_tile *t, int split, at_flash_span span)
{
    int low = span.low / run->engine.tile, high = span.high / run->engine.tile;
    if (run->fault.last_tile_lost && high > low) {
        high--;
    }
    int64_t tiles = high - low + 1, splits = run->engine.splits;
    int from = low + (int)(tiles * split / splits), to = low + (int)(tiles * (split + 1) / splits);
    for (int r = 0; r < t->lanes; r++) {
        t->max[r] = run->fault.max_from_zero ? 0 : -HUGE_VALF;
        t->sum[r] = 0;
    }
    memset(t->sum_pv, 0, (size_t)ROW_TILE * (size_t)run->v_stride * sizeof *t->sum_pv);
    for (int n = from; n < to; n++) {
        key_tile(run, t, run->engine.reversed ? to - 1 - (n - from) : n, span);
    }
    if (from < to) {
        merge_split(run, t);
    }
}

/* The row that the dead-row fault makes of a row without keys; false: leave memory as it is. */
static bool dead_row(const at_flash_run *run, const row_tile *t, float *out, double *lse)
{
    const at_problem *p = run->p;
    int64_t keys = p->len_kv[t->b], dim_v = p->c.dim_v;
    switch (run->fault.dead) {
    case AT_FLASH_DEAD_NAN:
        for (int64_t d = 0; d < dim_v; d++) {
            out[d] = (float)NAN;
        }
        break;
    case AT_FLASH_DEAD_MEAN:
        for (int64_t j = 0; j < keys; j++) {
            for (int64_t d = 0; d < dim_v; d++) {
                int64_t head = at_flash_v_head(run, t->h);
                out[d] += (float)(at_tensor_get(&p->t[AT_V], t->b, head, j, d) / (double)keys);
            }
        }
        *lse = log((double)keys);
        break;
    default:
        break;
    }
    return run->fault.dead != AT_FLASH_DEAD_UNWRITTEN;
}

static double faulty_lse(double lse, uint8_t fault)
{
    switch (fault) {
    case AT_FLASH_LSE_LOG2:
        return lse * log2_e;
    case AT_FLASH_LSE_NEGATED:
        return -lse;
    case AT_FLASH_LSE_SHIFTED:
        return lse + 0.02;
    default:
        return lse;
    }
}

/* LSE in the form that the backend leaves it in. `keys` is without the sink, `all` with it. */
static double lse_to_leave(const at_flash_run *run, double keys, double all)
{
    const at_variant *variant = &run->numeric.variant;
    double lse = variant->lse_without_sink ? keys : all;
    return faulty_lse(variant->lse_log2 ? lse * log2_e : lse, run->fault.lse);
}

static void store_tile(const at_flash_run *run, row_tile *t)
{
    const at_tensor *lse = &run->p->t[AT_LSE];
    double sink = at_flash_sink(run, t->h);
    float drop = run->drop > 0 && !run->fault.drop_unscaled ? run->drop : 1;
    for (int r = 0; r < t->rows; r++) {
        int64_t i = t->i + r;
        float *out = t->out + (size_t)r * (size_t)run->v_stride;
        if (t->lse[r] == -HUGE_VAL && !dead_row(run, t, out, &t->lse[r])) {
            continue;
        }
        double all = at_flash_log_sum(t->lse[r], sink);
        float share = all > -HUGE_VAL ? (float)exp(t->lse[r] - all) * drop : 1;
        for (int d = 0; share != 1 && d < (int)run->p->c.dim_v; d++) {
            out[d] *= share;
        }
        at_flash_store(run, AT_O, t->b, t->h, i, out);
        if (lse->data != NULL) {
            float value = (float)lse_to_leave(run, t->lse[r], all);
            memcpy(at_tensor_at(lse, t->b, t->h, i, 0), &value, sizeof value);
        }
    }
}

static void run_row_tile(const at_flash_run *run, int64_t b, int64_t h, int64_t i)
{
    const at_problem *p = run->p;
    row_tile t = lay_out(run, at_flash_scratch(run));
    int64_t left = p->len_q[b] - i;
    t.b = b;
    t.h = h;
    t.i = i;
    t.rows = left < ROW_TILE ? (int)left : ROW_TILE;
    t.lanes = at_tile_lanes(t.rows);
    at_flash_rows q = {.tensor = AT_Q,
                       .b = b,
                       .h = h,
                       .s = i,
                       .rows = t.rows,
                       .stride = LANE_STRIDE,
                       .live = p->len_q[b],
                       .by_lane = true};
    at_flash_load(run, &q, t.q);
    memset(t.out, 0, (size_t)ROW_TILE * (size_t)run->v_stride * sizeof *t.out);
    for (int r = 0; r < ROW_TILE; r++) {
        t.top[r] = t.lse[r] = -HUGE_VAL;
        t.weight[r] = 0;
    }
    at_flash_span span = at_flash_span_of(run, b, i, t.rows);
    for (int split = 0; span.low <= span.high && split < run->engine.splits; split++) {
        run_split(run, &t, split, span);
    }
    store_tile(run, &t);
}

static void clear_padding(const at_problem *p)
{
    const at_tensor *lse = &p->t[AT_LSE];
    const float dead = -HUGE_VALF;
    for (int64_t b = 0; b < p->c.batch; b++) {
        for (int64_t h = 0; h < p->c.heads_q; h++) {
            at_flash_clear(&p->t[AT_O], b, h, p->len_q[b]);
            for (int64_t i = p->len_q[b]; lse->data != NULL && i < p->c.len_q; i++) {
                memcpy(at_tensor_at(lse, b, h, i, 0), &dead, sizeof dead);
            }
        }
    }
}

at_status at_flash_forward(const at_backend *self, void *state, const at_problem *p,
                           const char *engine, at_error *err)
{
    (void)state;
    at_flash_run run;
    int64_t tiles = (p->c.len_q + ROW_TILE - 1) / ROW_TILE, heads = p->c.heads_q;
    int64_t items = p->c.batch * heads * tiles;
    at_status status =
        at_flash_start(&run, self, p, engine, AT_FLASH_FORWARD, items, scratch_floats(&p->c), err);
    if (status == AT_OK) {
#pragma omp parallel for schedule(dynamic) num_threads(run.threads) if (run.threads > 1)
        for (int64_t n = 0; n < items; n++) {
            int64_t b = n / (heads * tiles), i = n % tiles * ROW_TILE;
            if (i < p->len_q[b]) {
                run_row_tile(&run, b, n / tiles % heads, i);
            }
        }
        clear_padding(p);
        at_cpu_hand_out_dropout(p);
    }
    at_flash_finish(&run);
    return status;
}

const at_backend at_backend_cpu_flash = {
    .name = "cpu.flash",
    .version = "1.0.0",
    .promises =
        AT_PROMISES_BACKWARD | AT_PROMISES_STATS | AT_PROMISES_DETERMINISM | AT_PROMISES_MASK,
    .arch = AT_ARCH_CPU,
    .numeric = {.p = AT_P_STORED},
    .contract = {.pad = AT_PAD_ZERO},
    .doc = "tiled attention, online softmax, recomputing backward; P and dS rounded as on a GPU",
    .supports = at_flash_supports,
    .open = at_flash_open,
    .claim = at_flash_claim,
    .forward = at_flash_forward,
    .backward = at_flash_backward,
    .close = at_flash_close,
};
