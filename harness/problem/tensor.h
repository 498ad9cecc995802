/* A strided view of one tensor of a problem, always indexed [b h s d]. */
#ifndef AT_TENSOR_H
#define AT_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/problem/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Owns nothing. Logical shape is [batch heads len dim] whatever the memory order; strides are in
 * elements. Packed variable length (thd): `start` is not NULL, sequence b begins at token start[b],
 * and stride[0] is unused. Rank-3 tensors (LSE [batch heads len]) have shape[3] = 1. Paged (keys
 * and values of a paged cache): `pages` is not NULL, token s of sequence b is token s % page of
 * page pages[b * pages_wide + s / page], pages are stride[0] apart and `start` is NULL. A stride is
 * 0 where elements share memory: expanded heads or batch, and dimensions along which a mask or bias
 * is broadcast (their shape is 1, any index may be given). */
typedef struct at_tensor {
    at_dtype dtype;
    int64_t shape[4];
    int64_t stride[4];
    const int64_t *start; /* [batch + 1] first token of each sequence, then the total; or NULL */
    void *data;           /* NULL: this problem has no such tensor */
    const int32_t *pages; /* [batch pages_wide]; or NULL */
    int64_t page, pages_wide; /* tokens of a page; pages of a sequence */
} at_tensor;

/* Element offset of [b h s d] from data. */
AT_API int64_t at_tensor_offset(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t d);

/* Address of element [b h s d]. */
AT_API void *at_tensor_at(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t d);

/* One element as double. */
AT_API double at_tensor_get(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t d);
AT_API void at_tensor_set(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t d, double x);

/* Row [b h s 0..dim) to and from contiguous doubles or floats. */
AT_API void at_tensor_load_row(const at_tensor *t, int64_t b, int64_t h, int64_t s, double *out);
AT_API void at_tensor_load_row_float(const at_tensor *t, int64_t b, int64_t h, int64_t s,
                                     float *out);
AT_API void at_tensor_store_row_float(const at_tensor *t, int64_t b, int64_t h, int64_t s,
                                      const float *in);

#ifdef __cplusplus
}
#endif
#endif
