/* Storage types and their conversions. Rounding is to nearest even by our own code everywhere. */
#ifndef AT_DTYPE_H
#define AT_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The types before AT_DTYPE_COUNT are those of q, k, v and o; masks and page tables take the
 * others, whose numbers are integers. */
typedef enum at_dtype {
    AT_F32,
    AT_F16,
    AT_BF16,
    AT_F8E4M3,
    AT_F8E5M2,
    AT_DTYPE_COUNT,
    AT_U8,
    AT_I32
} at_dtype;

/* "f32" "f16" "bf16" "f8e4m3" "f8e5m2" NULL "u8" "i32" */
AT_API extern const char *const at_dtype_names[];
AT_API size_t at_dtype_size(at_dtype dtype); /* bytes */

/* Unit roundoff: 2^-24, 2^-11, 2^-8, 2^-4, 2^-3; 0 for u8 and i32. */
AT_API double at_dtype_roundoff(at_dtype dtype);

/* Largest finite value and smallest positive (subnormal) value. */
AT_API double at_dtype_max(at_dtype dtype);
AT_API double at_dtype_tiny(at_dtype dtype);

/* Fixed NaN bit patterns, low bytes first in the word: poison fills outputs before a run, guard
 * fills the bands around every buffer. They differ from each other and from the NaN that hardware
 * makes. e4m3 has one NaN a sign: poison 0x7f, guard 0xff. In u8 and i32 they are no values of any
 * mask or table. */
AT_API uint32_t at_dtype_poison(at_dtype dtype);
AT_API uint32_t at_dtype_guard(at_dtype dtype);

/* Conversions of single values, round to nearest even, subnormals kept. Overflow: f16, bf16, e5m2
 * to infinity; e4m3 (no infinity) to NaN; u8 and i32 to the nearest end of their range. */
AT_API uint16_t at_f16_from_double(double x);
AT_API uint16_t at_bf16_from_double(double x);
AT_API uint8_t at_f8e4m3_from_double(double x);
AT_API uint8_t at_f8e5m2_from_double(double x);
AT_API float at_f16_to_float(uint16_t bits);
AT_API float at_bf16_to_float(uint16_t bits);
AT_API float at_f8e4m3_to_float(uint8_t bits);
AT_API float at_f8e5m2_to_float(uint8_t bits);

/* Rounds to the type and back. */
AT_API double at_dtype_round(at_dtype dtype, double x);

/* n elements, contiguous. `bits` points at stored elements of dtype. */
AT_API void at_dtype_load_double(at_dtype dtype, double *out, const void *bits, size_t n);
AT_API void at_dtype_load_float(at_dtype dtype, float *out, const void *bits, size_t n);
AT_API void at_dtype_store_double(at_dtype dtype, void *bits, const double *in, size_t n);
AT_API void at_dtype_store_float(at_dtype dtype, void *bits, const float *in, size_t n);

#ifdef __cplusplus
}
#endif
#endif
