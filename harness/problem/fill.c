#include "harness/problem/fill.h"

#include <string.h>

#include "harness/clones.h"
#include "harness/problem/lens.h"
#include "harness/problem/rng.h"

enum { LANES = 16, PARALLEL_FROM = 1 << 15 };

/* Philox of LANES consecutive counters at a time, the same rounds as at_philox4x32. */
AT_CLONES static void philox_lanes(uint32_t *restrict low, uint32_t *restrict high, uint64_t first,
                                   size_t blocks, uint32_t stream, uint32_t key0, uint32_t key1)
{
    for (size_t done = 0; done < blocks; done += LANES) {
        uint32_t x0[LANES], x1[LANES], x2[LANES], x3[LANES];
        for (uint32_t i = 0; i < LANES; i++) {
            uint64_t counter = first + done + i;
            x0[i] = (uint32_t)counter;
            x1[i] = (uint32_t)(counter >> 32);
            x2[i] = stream;
            x3[i] = 0;
        }
        uint32_t k0 = key0, k1 = key1;
        for (int round = 0; round < 10; round++) {
#pragma omp simd
            for (int i = 0; i < LANES; i++) {
                uint64_t p0 = (uint64_t)0xd2511f53U * x0[i];
                uint64_t p1 = (uint64_t)0xcd9e8d57U * x2[i];
                x0[i] = (uint32_t)(p1 >> 32) ^ x1[i] ^ k0;
                x1[i] = (uint32_t)p1;
                x2[i] = (uint32_t)(p0 >> 32) ^ x3[i] ^ k1;
                x3[i] = (uint32_t)p0;
            }
            k0 += 0x9e3779b9U;
            k1 += 0xbb67ae85U;
        }
        for (int i = 0; i < LANES; i++) {
            low[2 * done + 2 * (size_t)i] = x0[i];
            high[2 * done + 2 * (size_t)i] = x1[i];
            low[2 * done + 2 * (size_t)i + 1] = x2[i];
            high[2 * done + 2 * (size_t)i + 1] = x3[i];
        }
    }
}

void at_fill_words(uint32_t *low, uint32_t *high, uint64_t seed, uint32_t stream, int64_t first,
                   int64_t n)
{
    enum { ROOM = AT_FILL_BLOCK + 2 + 2 * LANES };
    uint32_t padded_low[ROOM], padded_high[ROOM];
    AT_ASSERT(n >= 0 && n <= AT_FILL_BLOCK);
    size_t odd = (size_t)(first & 1);
    size_t blocks = (odd + (size_t)n + 1) / 2;
    philox_lanes(padded_low, padded_high, (uint64_t)first / 2, blocks, stream, (uint32_t)seed,
                 (uint32_t)(seed >> 32));
    memcpy(low, padded_low + odd, (size_t)n * sizeof *low);
    memcpy(high, padded_high + odd, (size_t)n * sizeof *high);
}

AT_CLONES static void garbage(float *restrict out, size_t n, const uint32_t *restrict low,
                              const uint32_t *restrict high)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        int32_t magnitude = 32 + (int32_t)(high[i] >> 27);
        out[i] = (float)(low[i] >> 31 ? -magnitude : magnitude);
    }
}

void at_fill_garbage(float *out, int64_t n, const uint32_t *low, const uint32_t *high)
{
    garbage(out, (size_t)n, low, high);
}

/* Rows of a tensor that hold live values; the others hold garbage. */
typedef struct live_rows {
    int64_t first, last;
    int64_t stored; /* rows that exist in memory */
} live_rows;

static live_rows live_rows_of(const at_case *c, const at_fill_plan *plan, int64_t b)
{
    at_extent x = at_extent_of(c, b);
    bool is_key = plan->tensor == AT_K || plan->tensor == AT_V;
    live_rows live = {.first = 0, .last = x.len_q - 1};
    if (is_key) {
        at_extent_seen(c, &x, &live.first, &live.last);
    }
    bool whole = c->layout != AT_THD || (is_key && c->page != 0);
    live.stored = whole ? (is_key ? c->len_kv : c->len_q) : is_key ? x.len_kv : x.len_q;
    for (int64_t i = 0; plan->one_batch && i < c->batch; i++) {
        int64_t first = 0, last = -1;
        x = at_extent_of(c, i);
        at_extent_seen(c, &x, &first, &last);
        bool none = live.first > live.last;
        live.first = first <= last && (none || first < live.first) ? first : live.first;
        live.last = first <= last && last > live.last ? last : live.last;
    }
    return live;
}

static int64_t element_of(const at_fill_plan *plan, const at_fill_block *block)
{
    return ((block->b * plan->heads + block->h) * plan->len + block->s) * plan->dim;
}

/* Values of a block: the distribution, then garbage in the rows that are not live. */
static void block_values(float *out, const at_fill_plan *plan, at_fill_block block,
                         const live_rows *live)
{
    uint32_t low[AT_FILL_BLOCK], high[AT_FILL_BLOCK];
    block.b = plan->one_batch ? 0 : block.b;
    block.h = plan->one_head ? 0 : block.h;
    int64_t first = element_of(plan, &block), dim = plan->dim;
    if (block.s <= live->last && block.s + block.rows > live->first) {
        at_fill_words(low, high, plan->seed, (uint32_t)plan->tensor, first, block.rows * dim);
        plan->make(out, plan, &block, low, high);
    }
    for (int64_t r = 0; r < block.rows; r++) {
        int64_t s = block.s + r;
        if (s < live->first || s > live->last) {
            at_fill_words(low, high, plan->seed, (uint32_t)plan->tensor + AT_STREAM_GARBAGE,
                          first + r * dim, dim);
            at_fill_garbage(out + r * dim, dim, low, high);
        }
    }
}

static void fill_block(const at_tensor *t, const at_case *c, const at_fill_plan *plan,
                       at_fill_block block)
{
    float values[AT_FILL_BLOCK];
    live_rows live = live_rows_of(c, plan, block.b);
    int64_t end = block.s + block.rows < live.stored ? block.s + block.rows : live.stored;
    block.rows = end - block.s;
    if (block.rows <= 0) {
        return;
    }
    block_values(values, plan, block, &live);
    for (int64_t r = 0; r < block.rows; r++) {
        at_tensor_store_row_float(t, block.b, block.h, block.s + r, values + r * plan->dim);
    }
}

void at_fill_gaps(void *data, int64_t n, at_dtype dtype, uint64_t seed, at_tensor_id home)
{
    unsigned char *bytes = data;
    int64_t blocks = (n + AT_FILL_BLOCK - 1) / AT_FILL_BLOCK;
#pragma omp parallel for schedule(static) if (n >= PARALLEL_FROM)
    for (int64_t i = 0; i < blocks; i++) {
        uint32_t low[AT_FILL_BLOCK], high[AT_FILL_BLOCK];
        float values[AT_FILL_BLOCK];
        int64_t from = i * AT_FILL_BLOCK, left = n - from;
        int64_t now = left < AT_FILL_BLOCK ? left : AT_FILL_BLOCK;
        at_fill_words(low, high, seed, (uint32_t)home + AT_STREAM_GAP, from, now);
        at_fill_garbage(values, now, low, high);
        at_dtype_store_float(dtype, bytes + (size_t)from * at_dtype_size(dtype), values,
                             (size_t)now);
    }
}

void at_fill_tensor(const at_tensor *t, const at_case *c, at_tensor_id tensor)
{
    at_fill_plan plan;
    at_fill_plan_init(&plan, c, tensor);
    int64_t rows = plan.dim < AT_FILL_BLOCK / 2 ? AT_FILL_BLOCK / 2 / plan.dim : 1;
    int64_t blocks = (plan.len + rows - 1) / rows; /* of one head */
    int64_t heads = plan.one_head ? 1 : plan.heads;
    int64_t total = (plan.one_batch && c->batch > 0 ? 1 : c->batch) * heads * blocks;
#pragma omp parallel for schedule(static) if (total * rows * plan.dim >= PARALLEL_FROM)
    for (int64_t i = 0; i < total; i++) {
        at_fill_block block = {.b = i / blocks / heads, .h = i / blocks % heads};
        block.s = i % blocks * rows;
        block.rows = rows < plan.len - block.s ? rows : plan.len - block.s;
        fill_block(t, c, &plan, block);
    }
}

double at_fill_value(const at_case *c, at_tensor_id tensor, int64_t b, int64_t h, int64_t s,
                     int64_t d)
{
    float row[AT_FILL_DIM_MAX];
    at_fill_plan plan;
    if (tensor == AT_SINK || tensor == AT_BIAS) {
        int both = at_bias_broadcast((at_bias)c->bias);
        int64_t heads = (both & 2) ? c->heads_q : 1, place = ((both & 1) ? b : 0) * heads;
        place = (place + ((both & 2) ? h : 0)) * c->len_q + s;
        at_fill_flat_values(row, c, tensor, tensor == AT_SINK ? h : place * c->len_kv + d, 1);
        return (double)row[0];
    }
    if (tensor == AT_AMASK) {
        return (double)at_fill_mask_value(c, b, h, s, d);
    }
    at_fill_plan_init(&plan, c, tensor);
    AT_ASSERT(d >= 0 && d < plan.dim);
    at_fill_block block = {.b = b, .h = h, .s = s, .rows = 1};
    live_rows live = live_rows_of(c, &plan, block.b);
    block_values(row, &plan, block, &live);
    return (double)row[d];
}
