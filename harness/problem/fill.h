/* Values of the inputs: one function of (seed, tensor, element), whatever the layout or threads. */
#ifndef AT_FILL_H
#define AT_FILL_H

#include "harness/problem/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Random streams. The element streams of q, k, v, do are their at_tensor_id; added to it: */
enum {
    AT_STREAM_GARBAGE = 0x100,   /* rows beyond a length, keys that no row sees; by element */
    AT_STREAM_GAP = 0x200,       /* tokens between thd sequences; by memory index */
    AT_STREAM_WEIGHT = 0x300,    /* lowrank: weights of each row, by 2 row + direction */
    AT_STREAM_DIRECTION = 0x400, /* lowrank: directions of each head, [heads 3 dim] */
    AT_STREAM_LENS_Q = 0x1000,
    AT_STREAM_LENS_KV = 0x1001
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
    int64_t heads, len, dim; /* full sizes of the tensor */
    int64_t heads_shared;    /* heads of do for each head of v, 1 for the others; 0: none */
    float amp, base, rest;   /* factors, as `make` takes them */
    bool tiny_first;         /* denormal: heads of v with an even seed + head are tiny */
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

/* Writes every element of an input of the case: live rows, padding, gaps. */
AT_API void at_fill_tensor(const at_tensor *t, const at_case *c, at_tensor_id tensor);

#ifdef __cplusplus
}
#endif
#endif
