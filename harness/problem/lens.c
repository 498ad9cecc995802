#include "harness/problem/lens.h"

#include "harness/problem/fill.h"
#include "harness/problem/rng.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t random_length(const at_case *c, uint32_t stream, int64_t b, int64_t full)
{
    if (full <= 0) {
        return 0;
    }
    return 1 + (int64_t)at_rng_below(c->seed, stream, (uint64_t)b, (uint64_t)full);
}

static int64_t length_of(const at_case *c, at_lens kind, uint32_t stream, int64_t b, int64_t full)
{
    switch (kind) {
    case AT_LENS_NONE:
    case AT_LENS_FULL:
        return full;
    case AT_LENS_HALF:
        return full - full / 2;
    case AT_LENS_ONE:
        return smaller(1, full);
    case AT_LENS_RANDOM:
    case AT_LENS_ZERO_FIRST:
    case AT_LENS_ZERO_MID:
    case AT_LENS_ZERO_LAST:
        break;
    }
    return random_length(c, stream, b, full);
}

static bool is_emptied(const at_case *c, int64_t b)
{
    return (c->lens == AT_LENS_ZERO_FIRST && b == 0) ||
           (c->lens == AT_LENS_ZERO_MID && b == c->batch / 2) ||
           (c->lens == AT_LENS_ZERO_LAST && b == c->batch - 1);
}

at_extent at_extent_of(const at_case *c, int64_t b)
{
    at_extent x = {0, 0, 0};
    if (b < c->lens_q.n) {
        x.len_q = c->lens_q.len[b];
    } else {
        x.len_q = length_of(c, (at_lens)c->lens, AT_STREAM_LENS_Q, b, c->len_q);
    }
    if (b < c->lens_kv.n) {
        x.len_kv = c->lens_kv.len[b];
    } else {
        x.len_kv = length_of(c, (at_lens)c->lens, AT_STREAM_LENS_KV, b, c->len_kv);
    }
    if (is_emptied(c, b)) {
        x.len_q = c->seed % 3 == 1 ? x.len_q : 0;
        x.len_kv = c->seed % 3 == 2 ? x.len_kv : 0;
    }
    if (c->layout == AT_THD && (c->pack == AT_PACK_QKV3H || c->pack == AT_PACK_QKVH3)) {
        x.len_kv = x.len_q;
    }
    x.diag = c->align == AT_ALIGN_TL ? 0 : c->align == AT_ALIGN_BR ? x.len_kv - x.len_q : c->align;
    return x;
}

/* Bounds of a row's keys before they are cut to 0..len_kv-1. Sums stay below 2^26. */
static int64_t row_first(const at_case *c, const at_extent *x, int64_t i)
{
    bool bounded = c->mask != AT_MASK_NONE && c->window_left != AT_UNBOUNDED;
    return bounded ? i + x->diag - c->window_left : 0;
}

static int64_t row_last(const at_case *c, const at_extent *x, int64_t i)
{
    bool banded = c->mask == AT_MASK_BAND && c->window_right != AT_UNBOUNDED;
    return c->mask == AT_MASK_CAUSAL ? i + x->diag
           : banded                  ? i + x->diag + c->window_right
                                     : x->len_kv - 1;
}

static void cut(const at_extent *x, int64_t *first, int64_t *last)
{
    *first = larger(*first, 0);
    *last = smaller(*last, x->len_kv - 1);
    if (*first > *last) {
        *first = 0;
        *last = -1;
    }
}

void at_extent_keys(const at_case *c, const at_extent *x, int64_t i, int64_t *first, int64_t *last)
{
    bool live = i >= 0 && i < x->len_q;
    *first = live ? row_first(c, x, i) : 0;
    *last = live ? row_last(c, x, i) : -1;
    cut(x, first, last);
}

void at_extent_seen(const at_case *c, const at_extent *x, int64_t *first, int64_t *last)
{
    *first = x->len_q > 0 ? row_first(c, x, 0) : 0;
    *last = x->len_q > 0 ? row_last(c, x, x->len_q - 1) : -1;
    cut(x, first, last);
}
