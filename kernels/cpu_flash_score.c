/* From dot products to scores: scale, cap, bias, ALiBi, masks; and what dropout keeps of a tile. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu_flash_run.h"
#include "kernels/kernels.h"

static const float log2_e = 1.44269504F;

/* Slopes 2^(-8 (h + 1) / H). Where H is no power of two the paper takes those of the next smaller
 * one, n, then every other one of 2 n. Source: Press et al. 2022. */
static double alibi_slope(const at_flash_run *run, int64_t h)
{
    const at_case *c = &run->p->c;
    int64_t n = 1;
    h -= run->fault.alibi == AT_FLASH_ALIBI_HEAD ? 1 : 0;
    while (2 * n <= c->heads_q) {
        n *= 2;
    }
    if (!run->numeric.variant.alibi_paper) {
        return exp2(-8 * (double)(h + 1) / (double)c->heads_q);
    }
    return exp2(-8 * (h < n ? (double)(h + 1) : (double)(h - n) + 0.5) / (double)n);
}

/* line[k] += ALiBi of row i at the block's key k. */
static void add_alibi(const at_flash_run *run, const at_flash_block *block, int64_t i, int n,
                      float *line)
{
    float slope = (float)alibi_slope(run, block->h);
    int64_t off = run->fault.alibi == AT_FLASH_ALIBI_CORNER ? 0 : run->p->diag[block->b];
    bool is_signed = run->numeric.variant.alibi_signed || run->fault.alibi == AT_FLASH_ALIBI_SIGNED;
    for (int k = 0; k < n; k++) {
        float distance = (float)(block->key + k - i - (is_signed ? 0 : off));
        line[k] += slope * (is_signed ? distance : -fabsf(distance));
    }
}

/* Bias and ALiBi of row i at the block's first n keys. */
static void load_bias(const at_flash_run *run, const at_flash_block *block, int64_t i, int n,
                      float *line)
{
    const at_tensor *t = &run->p->t[AT_BIAS];
    const at_case *c = &run->p->c;
    int64_t h = (block->h + run->fault.bias_head) % c->heads_q;
    memset(line, 0, (size_t)n * sizeof *line);
    if (run->fault.bias_lost) {
        return;
    }
    if (t->data != NULL) {
        at_tile_load(t->dtype, line, at_tensor_at(t, block->b, h, i, block->key), n);
    }
    if (c->bias == AT_BIAS_ALIBI) {
        add_alibi(run, block, i, n, line);
    }
}

/* The dense mask of row i on top of what is to be added. */
static void add_mask(const at_flash_run *run, const at_flash_block *block, int64_t i, int n,
                     float *line)
{
    const at_tensor *t = &run->p->t[AT_AMASK];
    bool first = run->fault.mask == AT_FLASH_MASK_FIRST;
    const void *row = at_tensor_at(t, first ? 0 : block->b, first ? 0 : block->h, i, block->key);
    float mask[AT_TILE_MAX];
    if (t->dtype == AT_U8) {
        const uint8_t *seen = row;
        uint8_t hidden = run->fault.mask == AT_FLASH_MASK_INVERTED;
        for (int k = 0; k < n; k++) {
            line[k] = (seen[k] != 0) != hidden ? line[k] : -HUGE_VALF;
        }
        return;
    }
    at_tile_load(t->dtype, mask, row, n);
    for (int k = 0; k < n; k++) {
        line[k] += mask[k];
    }
}

enum { BIAS = 1, MASK = 2 };

/* s += what stands in row block->i + r of bias and mask, for all rows of the block. */
static void add_rows(const at_flash_run *run, const at_flash_block *block, at_tile s, int what)
{
    float line[AT_TILE_MAX], base = run->softmax.base2 ? log2_e : 1.0F;
    int64_t left = run->p->c.len_kv - block->key;
    int n = left < block->keys ? (int)left : block->keys;
    bool masked =
        (what & MASK) && run->p->t[AT_AMASK].data != NULL && run->fault.mask != AT_FLASH_MASK_LOST;
    for (int r = 0; r < block->rows; r++) {
        int64_t i = block->i + r;
        memset(line, 0, sizeof line);
        if (what & BIAS) {
            load_bias(run, block, i, n, line);
        }
        if (masked) {
            add_mask(run, block, i, n, line);
        }
        float *x = s.x + (block->by_row ? (ptrdiff_t)r * s.stride : r);
        ptrdiff_t step = block->by_row ? 1 : s.stride;
        for (int k = 0; k < n; k++) {
            x[k * step] += base * line[k];
        }
    }
}

static void hide_keys(const at_flash_run *run, const at_flash_block *block, at_tile s)
{
    int first[AT_TILE_MAX] = {0}, last[AT_TILE_MAX] = {0};
    size_t at = (size_t)(block->b * run->p->c.len_q + block->i), n = (size_t)block->rows;
    memcpy(first, run->first + at, n * sizeof *first);
    memcpy(last, run->last + at, n * sizeof *last);
    (block->by_row ? at_tile_mask_rows : at_tile_mask)(s, block->key, first, last);
}

void at_flash_score(const at_flash_run *run, const at_flash_block *block, at_flash_span span,
                    at_tile s, float *slope)
{
    bool before = run->biased && run->numeric.variant.bias_before_cap && run->softmax.cap > 0;
    at_tile_softmax how = run->softmax;
    if (before) {
        at_tile_score(&(at_tile_softmax){.scale = how.scale}, s, slope);
        how.scale = 1;
        at_tile_softmax natural = run->softmax;
        natural.base2 = false;
        at_flash_run plain = *run;
        plain.softmax = natural;
        add_rows(&plain, block, s, BIAS);
    }
    at_tile_score(&how, s, slope);
    int what = (run->biased && !before ? BIAS : 0) | (run->masked ? MASK : 0);
    if (what != 0) {
        add_rows(run, block, s, what);
    }
    if (span.full_low > block->key || span.full_high < block->key + block->keys - 1) {
        hide_keys(run, block, s);
    }
}

void at_flash_drop(const at_flash_run *run, const at_flash_block *block, at_tile x, float factor)
{
    float keep[AT_TILE_MAX];
    for (int r = 0; r < block->rows; r++) {
        int64_t i = block->i + r + run->fault.drop_shifted;
        at_cpu_dropout(keep, &run->p->c, block->b, block->h, i, block->key, block->keys);
        float *at = x.x + (block->by_row ? (ptrdiff_t)r * x.stride : r);
        ptrdiff_t step = block->by_row ? 1 : x.stride;
        for (int k = 0; k < block->keys; k++) {
            at[k * step] *= factor * keep[k];
        }
    }
}

double at_flash_sink(const at_flash_run *run, int64_t h)
{
    const at_case *c = &run->p->c;
    if (c->sink == AT_SINK_NONE || run->fault.sink == AT_FLASH_SINK_LOST) {
        return -HUGE_VAL;
    }
    if (run->fault.sink == AT_FLASH_SINK_HEAD) {
        h = (h + 1) % c->heads_q;
    }
    return c->sink == AT_SINK_LEARNED ? at_tensor_get(&run->p->t[AT_SINK], 0, h, 0, 0) : 0;
}
