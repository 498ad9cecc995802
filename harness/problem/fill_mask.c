/* Inputs beside q, k, v and do: dense masks, bias, sinks, page tables, fp8 scales.
 *
 * amask: a quarter of the elements is masked, and where a row has more than one tile of 64 keys, a
 * quarter of the 64 x 64 tiles as a whole, never the one at the tile column (tile row mod tile
 * columns). Of the keys that the window and the lengths leave a row in each sequence (that the mask
 * serves) one, drawn at random, is kept. deadrows=1: row 0 and one row in eight lose all keys.
 * bias: like do (normal ... see fill_kinds.c), where deep_neg takes N - 8 and the kinds without a
 * sense for scores take N.
 * sink: N plus about the logarithm of the number of keys, so that the sink takes about half: for
 * peaky 16 N, for deep_neg around the logits.
 * fp8 units: 1 + n / 16, n in 0..15 drawn by tensor, for q k v do; the outputs' follow from the
 * inputs: o is at most the largest v; dq, dk, dv are estimated from largest values as sums of
 * random signs, with room to spare. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "harness/problem/fill.h"
#include "harness/problem/lens.h"
#include "harness/problem/rng.h"
#include "harness/problem/strides.h"

enum { TILE = 64, PARALLEL_FROM = 1 << 15 };

/* Sequences first..last that row b of a mask serves, and its own number of heads. */
typedef struct mask_shape {
    int64_t heads, first, last;
} mask_shape;

static mask_shape shape_of(const at_case *c, int64_t b)
{
    int broadcast = at_amask_broadcast((at_amask)c->amask);
    bool own = (broadcast & 1) != 0;
    return (mask_shape){.heads = (broadcast & 2) ? c->heads_q : 1,
                        .first = own ? b : 0,
                        .last = own ? b : c->batch - 1};
}

static bool loses_all(const at_case *c, int64_t row, int64_t i)
{
    uint64_t word = at_rng_u64(c->seed, AT_STREAM_MASK_DEAD, (uint64_t)row);
    return c->dead_rows != 0 && (i == 0 || word % 8 == 0);
}

void at_fill_mask_row(uint8_t *seen, const at_case *c, int64_t b, int64_t h, int64_t i)
{
    uint32_t low[AT_FILL_BLOCK], high[AT_FILL_BLOCK];
    mask_shape shape = shape_of(c, b);
    int64_t head = b * shape.heads + h, row = head * c->len_q + i;
    int64_t tiles_q = (c->len_q + TILE - 1) / TILE, tiles = (c->len_kv + TILE - 1) / TILE;
    memset(seen, 0, (size_t)c->len_kv);
    if (loses_all(c, row, i)) {
        return;
    }
    for (int64_t j = 0; j < c->len_kv; j += AT_FILL_BLOCK) {
        int64_t left = c->len_kv - j, n = left < AT_FILL_BLOCK ? left : AT_FILL_BLOCK;
        at_fill_words(low, high, c->seed, AT_AMASK, row * c->len_kv + j, n);
        for (int64_t e = 0; e < n; e++) {
            seen[j + e] = high[e] >> 30 != 0;
        }
    }
    for (int64_t tile = 0; tile < tiles; tile++) {
        int64_t index = (head * tiles_q + i / TILE) * tiles + tile, first = tile * TILE;
        int64_t left = c->len_kv - first;
        bool masked = at_rng_u64(c->seed, AT_STREAM_MASK_TILE, (uint64_t)index) % 4 == 0;
        if (masked && tile != i / TILE % tiles) {
            memset(seen + first, 0, (size_t)(left < TILE ? left : TILE));
        }
    }
    for (int64_t sequence = shape.first; sequence <= shape.last; sequence++) {
        at_extent x = at_extent_of(c, sequence);
        int64_t first = 0, last = -1;
        at_extent_keys(c, &x, i, &first, &last);
        if (first <= last) {
            uint64_t index = (uint64_t)((sequence * shape.heads + h) * c->len_q + i);
            uint64_t n = (uint64_t)(last - first + 1);
            seen[first + (int64_t)at_rng_below(c->seed, AT_STREAM_MASK_KEEP, index, n)] = 1;
        }
    }
}

int at_fill_mask_value(const at_case *c, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int broadcast = at_amask_broadcast((at_amask)c->amask);
    b = (broadcast & 1) ? b : 0;
    h = (broadcast & 2) ? h : 0;
    mask_shape shape = shape_of(c, b);
    int64_t head = b * shape.heads + h, row = head * c->len_q + i;
    int64_t tiles_q = (c->len_q + TILE - 1) / TILE, tiles = (c->len_kv + TILE - 1) / TILE;
    if (loses_all(c, row, i)) {
        return 0;
    }
    for (int64_t sequence = shape.first; sequence <= shape.last; sequence++) {
        at_extent x = at_extent_of(c, sequence);
        int64_t first = 0, last = -1;
        at_extent_keys(c, &x, i, &first, &last);
        uint64_t index = (uint64_t)((sequence * shape.heads + h) * c->len_q + i);
        if (first <= last && j == first + (int64_t)at_rng_below(c->seed, AT_STREAM_MASK_KEEP, index,
                                                                (uint64_t)(last - first + 1))) {
            return 1;
        }
    }
    uint32_t low = 0, high = 0;
    at_fill_words(&low, &high, c->seed, AT_AMASK, row * c->len_kv + j, 1);
    int64_t index = (head * tiles_q + i / TILE) * tiles + j / TILE;
    bool tile = at_rng_u64(c->seed, AT_STREAM_MASK_TILE, (uint64_t)index) % 4 == 0 &&
                j / TILE != i / TILE % tiles;
    return high >> 30 != 0 && !tile;
}

/* Writes a row of the mask in its own kind; `seen` holds it as 0 and 1. */
static void store_mask_row(const at_tensor *t, const at_case *c, const uint8_t *seen, int64_t b,
                           int64_t h, int64_t i)
{
    float values[AT_FILL_BLOCK];
    bool lowest = c->amask >= AT_AMASK_MIN_11;
    float masked = lowest ? (float)-at_dtype_max(t->dtype) : -HUGE_VALF;
    unsigned char *row = at_tensor_at(t, b, h, i, 0);
    if (t->dtype == AT_U8) {
        memcpy(row, seen, (size_t)c->len_kv);
        return;
    }
    for (int64_t j = 0; j < c->len_kv; j += AT_FILL_BLOCK) {
        int64_t left = c->len_kv - j, n = left < AT_FILL_BLOCK ? left : AT_FILL_BLOCK;
        for (int64_t e = 0; e < n; e++) {
            values[e] = seen[j + e] ? 0 : masked;
        }
        at_dtype_store_float(t->dtype, row + (size_t)j * at_dtype_size(t->dtype), values,
                             (size_t)n);
    }
}

at_status at_fill_mask(const at_tensor *t, const at_case *c, at_arena *arena, at_error *err)
{
    int64_t rows = t->shape[0] * t->shape[1] * t->shape[2];
    int threads = omp_get_max_threads();
    void *memory = NULL;
    AT_TRY(at_arena_scratch(&memory, arena, (size_t)threads * (size_t)c->len_kv, err));
    uint8_t *seen = memory;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (rows * c->len_kv >= PARALLEL_FROM)
    for (int64_t r = 0; r < rows; r++) {
        int64_t i = r % t->shape[2], h = r / t->shape[2] % t->shape[1];
        int64_t b = r / t->shape[2] / t->shape[1];
        uint8_t *row = seen + (size_t)omp_get_thread_num() * (size_t)c->len_kv;
        at_fill_mask_row(row, c, b, h, i);
        store_mask_row(t, c, row, b, h, i);
    }
    return AT_OK;
}

void at_fill_flat_values(float *out, const at_case *c, at_tensor_id tensor, int64_t first,
                         int64_t n)
{
    uint32_t low[AT_FILL_BLOCK], high[AT_FILL_BLOCK];
    at_fill_plan plan;
    at_fill_block block = {.rows = 1};
    at_fill_plan_flat(&plan, c, tensor, n);
    at_fill_words(low, high, c->seed, (uint32_t)tensor, first, n);
    plan.make(out, &plan, &block, low, high);
}

void at_fill_flat(const at_tensor *t, const at_case *c, at_tensor_id tensor)
{
    int64_t total = t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
    int64_t blocks = (total + AT_FILL_BLOCK - 1) / AT_FILL_BLOCK;
#pragma omp parallel for schedule(static) if (total >= PARALLEL_FROM)
    for (int64_t i = 0; i < blocks; i++) {
        float values[AT_FILL_BLOCK];
        int64_t first = i * AT_FILL_BLOCK, left = total - first;
        int64_t n = left < AT_FILL_BLOCK ? left : AT_FILL_BLOCK;
        unsigned char *bytes = t->data;
        at_fill_flat_values(values, c, tensor, first, n);
        at_dtype_store_float(t->dtype, bytes + (size_t)first * at_dtype_size(t->dtype), values,
                             (size_t)n);
    }
}

at_status at_fill_pages(const at_tensor *t, const at_case *c, at_arena *arena, at_error *err)
{
    int64_t pages = at_case_pages(c), used = t->shape[0] * t->shape[3];
    void *memory = NULL;
    AT_TRY(at_arena_scratch(&memory, arena, (size_t)pages * sizeof(int32_t), err));
    int32_t *order = memory;
    for (int64_t i = 0; i < pages; i++) {
        order[i] = (int32_t)i;
    }
    for (int64_t i = pages - 1; i > 0; i--) {
        uint64_t with = at_rng_below(c->seed, AT_STREAM_PAGES, (uint64_t)i, (uint64_t)i + 1);
        int32_t kept = order[i];
        order[i] = order[with];
        order[with] = kept;
    }
    memcpy(t->data, order, (size_t)used * sizeof(int32_t));
    return AT_OK;
}

/* Largest magnitude among the live rows of a tensor, times its unit. */
static double largest(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    double most = 0;
    for (int64_t b = 0; b < t->shape[0] && t->data != NULL; b++) {
        int64_t rows = at_tensor_has_keys(id) ? p->len_kv[b] : p->len_q[b];
        for (int64_t r = 0; r < t->shape[1] * rows; r++) {
            float row[AT_FILL_DIM_MAX];
            at_tensor_load_row_float(t, b, r / rows, r % rows, row);
            for (int64_t d = 0; d < t->shape[3]; d++) {
                most = fmax(most, fabs((double)row[d]));
            }
        }
    }
    return most * (double)p->unit[id];
}

static bool is_fp8(const at_tensor *t)
{
    return t->dtype == AT_F8E4M3 || t->dtype == AT_F8E5M2;
}

/* The unit that brings `size` to a share of the type's largest number. */
static void set_unit(at_problem *p, at_tensor_id id, double size, double share)
{
    if (is_fp8(&p->t[id]) && size > 0) {
        p->unit[id] = (float)(size / (share * at_dtype_max(p->t[id].dtype)));
    }
}

void at_fill_units(at_problem *p)
{
    const at_case *c = &p->c;
    if (!is_fp8(&p->t[AT_Q])) {
        return;
    }
    for (int id = AT_Q; id <= AT_DO; id++) {
        uint64_t word = at_rng_u64(c->seed, AT_STREAM_UNIT, (uint64_t)id);
        p->unit[id] = is_fp8(&p->t[id]) ? 1 + (float)(word % 16) / 16 : 1;
    }
    double kept = 1 / (1 - c->dropout), v = largest(p, AT_V);
    set_unit(p, AT_O, v * kept, 1);
    if (c->pass == AT_PASS_TRAIN) {
        double dout = largest(p, AT_DO) * kept, rows = (double)(c->len_q > 0 ? c->len_q : 1);
        double ds = fabs(p->scale) * dout * v * sqrt((double)c->dim_v);
        double group_k = (double)(c->heads_q / c->heads_kv);
        double group_v = (double)(c->heads_q / c->heads_v);
        set_unit(p, AT_DQ, ds * largest(p, AT_K), 0.5);
        set_unit(p, AT_DK, ds * largest(p, AT_Q) * sqrt(rows * group_k), 0.5);
        set_unit(p, AT_DV, dout * sqrt(rows * group_v), 0.5);
    }
}
