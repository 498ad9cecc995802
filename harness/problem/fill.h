/* Values of the inputs: one function of (seed, tensor, element), whatever the layout or threads. */
#ifndef AT_FILL_H
#define AT_FILL_H

#include "harness/problem/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Random streams. The element streams of q k v do bias amask sink are their at_tensor_id; added to
 * it: */
enum {
    AT_STREAM_GARBAGE = 0x100,   /* rows beyond a length, keys that no row sees; by element */
    AT_STREAM_GAP = 0x200,       /* memory of the buffer that is no tensor's; by memory index */
    AT_STREAM_WEIGHT = 0x300,    /* lowrank: weights of each row, by 2 row + direction */
    AT_STREAM_DIRECTION = 0x400, /* lowrank: directions of each head, [heads 3 dim] */
    AT_STREAM_MASK_TILE = 0x500, /* amask: tiles that are masked as a whole, [b h tile tile] */
    AT_STREAM_MASK_KEEP = 0x501, /* the key that a row keeps, by [batch, h of the mask, row] */
    AT_STREAM_MASK_DEAD = 0x502, /* rows that lose all keys, by row [b h i] of the mask */
    AT_STREAM_LENS_Q = 0x1000,
    AT_STREAM_LENS_KV = 0x1001,
    AT_STREAM_PAGES = 0x1002, /* swaps of the page table */
    AT_STREAM_UNIT = 0x1003   /* fp8 scales, by tensor */
};
enum { AT_FILL_DIM_MAX = 4096, AT_FILL_BLOCK = 4096 }; /* elements worked on at a time */

/* Consecutive rows of one head: elements [b h s..s+rows-1 0..dim-1] of the stream. */
typedef struct at_fill_block {
    int64_t b, h, s, rows;
} at_fill_block;

/* What a tensor's values depend on, worked out once. A value is made by a few float operations,
 * each rounded to nearest even, from factors that are the same everywhere: bits agree on all
 * machines. */
typedef struct at_fill_plan at_fill_plan;
struct at_fill_plan {
    at_tensor_id tensor;
    uint64_t seed;
    int64_t heads, len, dim;  /* full sizes of the tensor */
    int64_t heads_shared;     /* heads of do for each head of v, 1 for the others; 0: none */
    bool one_head, one_batch; /* all heads, or sequences, share the values of the first */
    float amp, base, rest;    /* factors, as `make` takes them */
    bool tiny_first;          /* denormal: heads of v with an even seed + head are tiny */
    void (*make)(float *out, const at_fill_plan *plan, const at_fill_block *block,
                 const uint32_t *low, const uint32_t *high);
};

/* The plan of q, k, v or do; its `make` writes the live values of a block from the words of its
 * elements. */
AT_API void at_fill_plan_init(at_fill_plan *out, const at_case *c, at_tensor_id tensor);

/* Words of elements first..first+n-1 of a stream: two of 32 bits each, one Philox block for two
 * neighbours. n <= AT_FILL_BLOCK. */
AT_API void at_fill_words(uint32_t *low, uint32_t *high, uint64_t seed, uint32_t stream,
                          int64_t first, int64_t n);

/* Integers of magnitude 32..63 and either sign: what no result may depend on. */
AT_API void at_fill_garbage(float *out, int64_t n, const uint32_t *low, const uint32_t *high);

/* Writes every element of q, k, v or do: live rows and padding. */
AT_API void at_fill_tensor(const at_tensor *t, const at_case *c, at_tensor_id tensor);

/* Garbage for the n elements of a buffer, before its tensors are written. */
void at_fill_gaps(void *data, int64_t n, at_dtype dtype, uint64_t seed, at_tensor_id home);

/* Row i of mask [b h]: 1 where it sees the key, for all len_kv keys; and one element, of any b and
 * h.
 */
void at_fill_mask_row(uint8_t *seen, const at_case *c, int64_t b, int64_t h, int64_t i);
int at_fill_mask_value(const at_case *c, int64_t b, int64_t h, int64_t i, int64_t j);

/* Writes amask; bias and sink, whose element is the index in memory. */
at_status at_fill_mask(const at_tensor *t, const at_case *c, at_arena *arena,
                       at_error *err) AT_MUST_CHECK;
void at_fill_flat(const at_tensor *t, const at_case *c, at_tensor_id tensor);
void at_fill_flat_values(float *out, const at_case *c, at_tensor_id tensor, int64_t first,
                         int64_t n);
void at_fill_plan_flat(at_fill_plan *out, const at_case *c, at_tensor_id tensor, int64_t n);

/* The page table: a permutation of all pages, of which the sequences take the first ones in turn.
 */
at_status at_fill_pages(const at_tensor *t, const at_case *c, at_arena *arena,
                        at_error *err) AT_MUST_CHECK;

/* The scales of fp8 tensors. */
void at_fill_units(at_problem *p);

#ifdef __cplusplus
}
#endif
#endif
