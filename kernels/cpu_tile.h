/* Arithmetic on small f32 tiles: products, softmax steps, rounding. All rows start 64-byte aligned,
 * lane counts are multiples of AT_TILE_LANES. Nothing here can fail. */
#ifndef AT_CPU_TILE_H
#define AT_CPU_TILE_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/problem/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_TILE_LANES = 16, AT_TILE_MAX = 128 };

/* n rounded up to whole vectors. */
int at_tile_lanes(int n);

/* Row stride for n lanes: one vector more than needed, so that rows do not share cache sets. */
int at_tile_stride(int n);

/* n stored elements to float and back, round to nearest even. */
void at_tile_load(at_dtype dtype, float *out, const void *in, int n);
void at_tile_store(at_dtype dtype, void *out, const float *in, int n);

/* c[i][j] += sum_e a[i * a_m + e * a_k] b[e * b_k + j], i < m, j < n, e < k, each sum in the order
 * of e. n is a multiple of AT_TILE_LANES; a_k or a_m of 1 makes a plain or a transposed A. */
typedef struct at_tile_product {
    int m, n, k;
    const float *a;
    int a_m, a_k;
    const float *b;
    int b_k;
    float *c;
    int c_m;
} at_tile_product;
void at_tile_multiply(const at_tile_product *product);

typedef enum at_tile_rounding {
    AT_TILE_KEEP,
    AT_TILE_BF16,
    AT_TILE_F16,
    AT_TILE_BF16_ZERO, /* toward zero */
    AT_TILE_F16_ZERO,
    AT_TILE_F8E4M3, /* fp8 without an end of its range, as scales chosen from the data would have */
    AT_TILE_F8E5M2
} at_tile_rounding;
void at_tile_round(at_tile_rounding rounding, float *x, size_t n);

/* A borrowed tile: x[row * stride + lane]. */
typedef struct at_tile {
    int rows, lanes, stride;
    float *x;
} at_tile;

/* x[r][*] *= factor[r]. */
void at_tile_scale_rows(at_tile x, const float *factor);

/* sum a[i] b[i], i < n. */
float at_tile_dot(const float *a, const float *b, int n);

/* How dot products become scores and scores probabilities. */
typedef struct at_tile_softmax {
    float scale; /* score = scale * dot */
    float cap;   /* score = cap tanh(score / cap); 0: none */
    bool base2;  /* scores are kept times log2(e), and exp2 takes the place of exp */
    float slack; /* the maximum stays where it is until a score exceeds it by more */
} at_tile_softmax;

/* Dot products to scores in place. With a cap, slope (same shape and stride) gets
 * d score / d (scale dot), without the factor log2(e). */
void at_tile_score(const at_tile_softmax *how, at_tile s, float *slope);

/* Scores of keys outside first[lane]..last[lane] become -Inf; row r of s is key `key` + r, lanes
 * are query rows. */
void at_tile_mask(at_tile s, int key, const int *first, const int *last);

/* The same where row r of s is a query row that sees first[r]..last[r], and lane i is key `key` +
 * i. */
void at_tile_mask_rows(at_tile s, int key, const int *first, const int *last);

/* One step of the online softmax, rows = keys, lanes = query rows: s becomes P = exp(s - max), not
 * yet divided; max, sum [lanes] are carried on; correction [lanes] = exp(old max - new max). A lane
 * that has seen no key has max = -Inf, sum = 0. */
void at_tile_softmax_step(const at_tile_softmax *how, at_tile s, float *max, float *sum,
                          float *correction);

/* s becomes P = exp(s - lse), dp becomes dS = P (dp - d) slope (slope NULL: 1). lse and d belong to
 * lanes, or to rows with `by_row`. +Inf in lse makes P = 0 and dS = 0 whatever dp is. */
void at_tile_gradient(const at_tile_softmax *how, at_tile s, float *dp, const float *slope,
                      const float *lse, const float *d, bool by_row);

#ifdef __cplusplus
}
#endif
#endif
