/* Backward of cpu.flash apart from dQ, dK and dV: D, dBias, dSink. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu_flash_grad.h"

/* D of one row from the stored O. */
static float d_from_output(const at_flash_run *run, int64_t b, int64_t h, int64_t i, float *line)
{
    const at_problem *p = run->p;
    int dim = (int)p->c.dim_v;
    at_flash_rows what = {.b = b, .h = h, .s = i, .rows = 1, .stride = dim, .live = p->len_q[b]};
    float *lines[] = {line, line + at_tile_lanes(dim)};
    const at_tensor_id ids[] = {AT_O, AT_DO};
    for (int n = 0; n < 2; n++) {
        what.tensor = ids[n];
        at_flash_load(run, &what, lines[n]);
    }
    return at_tile_dot(lines[0], lines[1], run->d_dims);
}

/* D of a row tile as sum P dP, in run->d, which holds 0 before. */
static void d_from_p(const at_flash_run *run, int64_t b, int64_t h, int64_t i)
{
    const at_problem *p = run->p;
    int64_t left = p->len_q[b] - i;
    at_flash_grad t;
    (void)at_flash_lay_out(run, &t, at_flash_scratch(run));
    t.b = b;
    t.h = h;
    t.i = i;
    t.rows = left < ROW_TILE ? (int)left : ROW_TILE;
    at_flash_load_rows(run, &t, true, t.fixed_qk, t.fixed_v);
    at_flash_load_row_values(run, &t);
    float *d = run->d + (b * p->c.heads_q + h) * p->c.len_q + i;
    at_flash_span span = at_flash_span_of(run, b, i, t.rows);
    for (int tile = span.low / run->engine.tile; t.rows > 0 && span.low <= span.high; tile++) {
        t.key = tile * run->engine.tile;
        if (t.key > span.high) {
            break;
        }
        t.keys = at_flash_keys_in_tile(run, b, tile);
        at_flash_load_keys(run, &t, false, t.moving_qk, t.moving_v);
        at_flash_gradient(run, &t, span, false, false);
        for (int k = 0; k < t.keys; k++) {
            for (int r = 0; r < t.rows; r++) {
                d[r] += t.dp[(ptrdiff_t)k * LANE_STRIDE + r];
            }
        }
    }
}

at_status at_flash_make_d(at_flash_run *run, at_error *err)
{
    const at_problem *p = run->p;
    int64_t rows = p->c.batch * p->c.heads_q * p->c.len_q;
    int64_t step = run->numeric.d_from_p ? ROW_TILE : 1;
    run->d = calloc((size_t)rows + 1, sizeof *run->d);
    float *line = calloc(2 * (size_t)at_tile_lanes((int)p->c.dim_v) + 1, sizeof *line);
    if (run->d == NULL || line == NULL) {
        free(line);
        return at_fail(err, AT_NO_MEMORY, "cpu.flash: no memory for D of %lld rows",
                       (long long)rows);
    }
    for (int64_t n = 0; n < rows && run->fault.d != AT_FLASH_D_MISSING; n++) {
        int64_t i = n % p->c.len_q, h = n / p->c.len_q % p->c.heads_q;
        int64_t b = n / p->c.len_q / p->c.heads_q;
        if (i < p->len_q[b] && i % step == 0 && step > 1) {
            d_from_p(run, b, h, i);
        } else if (i < p->len_q[b] && step == 1) {
            run->d[n] = d_from_output(run, b, h, i, line);
        }
    }
    free(line);
    return AT_OK;
}

/* One tile of dBias: the rows and keys at hand, and what it sums up. */
typedef struct bias_tile {
    int64_t b, h, i; /* of dBias; first row */
    int key;
    float *sum; /* [ROW_TILE LANE_STRIDE] */
} bias_tile;

/* Adds dS of one query head. */
static void add_head(const at_flash_run *run, const bias_tile *x, at_flash_grad *t)
{
    const at_problem *p = run->p;
    int64_t rows = p->len_q[t->b] - x->i, keys = p->len_kv[t->b] - x->key;
    bool sloped = run->numeric.variant.bias_before_cap != (run->fault.dbias_sloped != 0);
    if (rows <= 0 || keys <= 0) {
        return;
    }
    t->i = x->i;
    t->rows = rows < ROW_TILE ? (int)rows : ROW_TILE;
    t->key = x->key;
    t->keys = keys < run->engine.tile ? (int)keys : run->engine.tile;
    at_flash_load_keys(run, t, true, t->fixed_qk, t->fixed_v);
    at_flash_load_rows(run, t, false, t->moving_qk, t->moving_v);
    at_flash_load_row_values(run, t);
    at_flash_gradient(run, t, at_flash_span_of(run, t->b, t->i, t->rows), true, sloped);
    for (int r = 0; r < t->rows; r++) {
        for (int k = 0; k < t->keys; k++) {
            ptrdiff_t at = (ptrdiff_t)r * LANE_STRIDE + k;
            x->sum[at] += t->dp[at];
        }
    }
}

static void run_bias_tile(const at_flash_run *run, bias_tile x)
{
    const at_tensor *out = &run->p->t[AT_DBIAS];
    const at_case *c = &run->p->c;
    int64_t rows = c->len_q - x.i < ROW_TILE ? c->len_q - x.i : ROW_TILE;
    int64_t left = c->len_kv - x.key;
    int keys = left < run->engine.tile ? (int)left : run->engine.tile;
    bool one_b = out->stride[0] == 0, one_h = out->stride[1] == 0;
    int64_t last_b = one_b && !run->fault.dbias_first ? c->batch - 1 : x.b;
    int64_t last_h = one_h && !run->fault.dbias_first ? c->heads_q - 1 : x.h;
    at_flash_grad t;
    x.sum = at_flash_lay_out(run, &t, at_flash_scratch(run));
    memset(x.sum, 0, (size_t)ROW_TILE * LANE_STRIDE * sizeof *x.sum);
    for (t.b = x.b; t.b <= last_b; t.b++) {
        for (t.h = x.h; t.h <= last_h; t.h++) {
            add_head(run, &x, &t);
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        at_tile_store(out->dtype, at_tensor_at(out, x.b, x.h, x.i + r, x.key),
                      x.sum + r * LANE_STRIDE, keys);
    }
}

void at_flash_bias_gradient(const at_flash_run *run)
{
    const at_tensor *out = &run->p->t[AT_DBIAS];
    int64_t tile = run->engine.tile, rows = (out->shape[2] + ROW_TILE - 1) / ROW_TILE;
    int64_t keys = (out->shape[3] + tile - 1) / tile;
    int64_t items = out->data != NULL ? out->shape[0] * out->shape[1] * rows * keys : 0;
#pragma omp parallel for schedule(dynamic) num_threads(run->threads) if (run->threads > 1)
    for (int64_t n = 0; n < items; n++) {
        int64_t head = n / keys / rows;
        run_bias_tile(run, (bias_tile){.b = head / out->shape[1],
                                       .h = head % out->shape[1],
                                       .i = n / keys % rows * ROW_TILE,
                                       .key = (int)(n % keys * tile)});
    }
}

void at_flash_sink_gradient(const at_flash_run *run)
{
    const at_problem *p = run->p;
    const at_tensor *out = &p->t[AT_DSINK];
    int64_t last = run->fault.dsink_first && p->c.batch > 0 ? 1 : p->c.batch;
    for (int64_t h = 0; h < out->shape[1] && out->data != NULL; h++) {
        double sink = at_flash_sink(run, h), sum = 0;
        for (int64_t b = 0; b < last; b++) {
            for (int64_t i = 0; i < p->len_q[b]; i++) {
                double lse = at_flash_stored_lse(run, b, h, i);
                double d = (double)run->d[(b * p->c.heads_q + h) * p->c.len_q + i];
                sum -= sink > -HUGE_VAL ? exp(sink - lse) * d : 0;
            }
        }
        at_tensor_set(out, 0, h, 0, 0, sum);
    }
}
