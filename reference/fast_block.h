/* Blocks of matrices, row-major and dense: loading, multiplying, and the f32 forms that the error
 * scale is made of. */
#ifndef AT_FAST_BLOCK_H
#define AT_FAST_BLOCK_H

#include "harness/problem/problem.h"

/* out [m n] (+)= alpha a [m k] b [n k]^T; out has rows of `stride` elements. */
void at_fast_mul_nt(double *out, int64_t stride, const double *a, const double *b, int64_t m,
                    int64_t n, int64_t k, double alpha);
void at_fast_mul_nt_float(float *out, int64_t stride, const float *a, const float *b, int64_t m,
                          int64_t n, int64_t k);
/* out [m n] += a [m k] b [k n]. */
void at_fast_add_nn(double *out, const double *a, const double *b, int64_t m, int64_t n, int64_t k);
/* out [m n] += a [k m]^T b [k n]. */
void at_fast_add_tn(double *out, const double *a, const double *b, int64_t m, int64_t n, int64_t k);
/* out [m n] = a [m k] b [k n], and a [k m]^T b [k n]. */
void at_fast_set_nn_float(float *out, const float *a, const float *b, int64_t m, int64_t n,
                          int64_t k);
void at_fast_set_tn_float(float *out, const float *a, const float *b, int64_t m, int64_t n,
                          int64_t k);

/* Rows first..first+n-1 of a head, or rows list[0..n) where list is not NULL, as values. */
void at_fast_load(double *out, const at_problem *p, at_tensor_id id, int64_t b, int64_t h,
                  int64_t first, const int64_t *list, int64_t n);

/* Power of two that brings the largest of n magnitudes into [1/2, 1); 1 when all are 0. */
double at_fast_unit_of(const double *x, int64_t n);

/* f32 forms of n doubles times `factor`; NULL members are left out. */
typedef struct at_fast_forms {
    float *plain, *absolute, *square;
} at_fast_forms;
void at_fast_floats(const at_fast_forms *out, const double *x, int64_t n, double factor);

/* x [n dim] minus the mean of each column, in place; the means go to mean [dim]. */
void at_fast_center(double *x, double *mean, int64_t n, int64_t dim);

/* sum [m n] += x [m n] with row r times factor[r]. */
void at_fast_add_rows(double *sum, const float *x, const double *factor, int64_t m, int64_t n);

#endif
