#include "harness/problem/dtype.h"

#include <math.h>
#include <string.h>

#include "harness/clones.h"

const char *const at_dtype_names[] = {"f32", "f16", "bf16", "f8e4m3", "f8e5m2", NULL, "u8", "i32"};

/* The poison and guard words are quiet NaNs (where the type has any) with bytes that no hardware
 * makes: 7fc00000 and 7fffffff, 7e00 and 7fff, 7fc0, 7e are what x86, Arm and CUDA write. */
static const struct {
    size_t size;
    double roundoff, max, tiny;
    uint32_t poison, guard;
} types[AT_I32 + 1] = {
    [AT_F32] = {4, 0x1p-24, 0x1.fffffep127, 0x1p-149, 0x7fe5a1c3, 0xffd3c5a9},
    [AT_F16] = {2, 0x1p-11, 65504.0, 0x1p-24, 0x7f5a, 0xff25},
    [AT_BF16] = {2, 0x1p-8, 0x1.fep127, 0x1p-133, 0x7fe5, 0xffd3},
    [AT_F8E4M3] = {1, 0x1p-4, 448.0, 0x1p-9, 0x7f, 0xff},
    [AT_F8E5M2] = {1, 0x1p-3, 57344.0, 0x1p-16, 0x7d, 0xfd},
    [AT_U8] = {1, 0, 255, 1, 0xa5, 0x5a},
    [AT_I32] = {4, 0, 2147483647.0, 1, 0xa5a5a5a5, 0x5a5a5a5a},
};

size_t at_dtype_size(at_dtype dtype)
{
    return types[dtype].size;
}

double at_dtype_roundoff(at_dtype dtype)
{
    return types[dtype].roundoff;
}

double at_dtype_max(at_dtype dtype)
{
    return types[dtype].max;
}

double at_dtype_tiny(at_dtype dtype)
{
    return types[dtype].tiny;
}

uint32_t at_dtype_poison(at_dtype dtype)
{
    return types[dtype].poison;
}

uint32_t at_dtype_guard(at_dtype dtype)
{
    return types[dtype].guard;
}

static inline uint32_t bits_of(float x)
{
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x = 0;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Inexact values take the neighbour with an odd last bit. Rounding that to nearest even in a type
 * with at least two bits less gives what rounding x itself would: no double rounding.
 * Source: Boldo & Melquiond, "When double rounding is odd", 2005. */
static inline float round_to_odd(double x)
{
    float nearest = (float)x;
    double back = (double)nearest;
    uint32_t bits = bits_of(nearest);
    uint32_t step = fabs(back) > fabs(x) ? UINT32_MAX : 1U;
    uint32_t inexact_and_even = ((uint32_t)(back < x) | (uint32_t)(back > x)) & ~bits & 1U;
    return float_of(bits + (inexact_and_even ? step : 0U));
}

/* Code of a type with `mantissa` bits and this bias, without its sign; codes above `top` become
 * `top` (the infinity, or e4m3's NaN). The sum with 2^k rounds at the subnormal step. */
static inline uint32_t small_from_float(uint32_t magnitude, unsigned mantissa, unsigned bias,
                                        uint32_t top, uint32_t quiet)
{
    unsigned shift = 23 - mantissa;
    uint32_t round = (1U << (shift - 1)) - 1U + ((magnitude >> shift) & 1U);
    uint32_t normal = ((magnitude + round) >> shift) - ((127U - bias) << mantissa);
    uint32_t magic = (127U + 1U - bias - mantissa + 23U) << 23;
    uint32_t subnormal = bits_of(float_of(magnitude) + float_of(magic)) - magic;
    uint32_t code = magnitude < (128U - bias) << 23 ? subnormal : normal;
    uint32_t payload = (magnitude >> shift) & ((1U << mantissa) - 1U);
    uint32_t nan = top | payload | (payload == 0 ? quiet : 0U);
    code = code > top ? top : code;
    return magnitude > 0x7f800000U ? nan : code;
}

static inline uint16_t f16_from_float(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t code = small_from_float(bits & 0x7fffffffU, 10, 15, 0x7c00, 0x200);
    return (uint16_t)(code | ((bits >> 16) & 0x8000U));
}

static inline uint16_t bf16_from_float(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    uint32_t kept = bits >> 16;
    uint32_t nan = kept | ((kept & 0x7fU) == 0 ? 0x40U : 0U);
    return (uint16_t)((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

static inline uint8_t f8e4m3_from_float(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t code = small_from_float(bits & 0x7fffffffU, 3, 7, 0x7f, 0);
    return (uint8_t)(code | ((bits >> 24) & 0x80U));
}

static inline uint8_t f8e5m2_from_float(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t code = small_from_float(bits & 0x7fffffffU, 2, 15, 0x7c, 0x2);
    return (uint8_t)(code | ((bits >> 24) & 0x80U));
}

/* Magnitude code of a type with an IEEE-like exponent at the float's place: the subtraction of
 * the smallest normal number turns a subnormal code into its value, exactly. */
static inline uint32_t small_to_float(uint32_t code, unsigned mantissa, unsigned bias)
{
    uint32_t wide = code << (23 - mantissa);
    uint32_t normal = wide + ((127U - bias) << 23);
    uint32_t least = (128U - bias) << 23;
    uint32_t subnormal = bits_of(float_of(least + wide) - float_of(least));
    return wide < 1U << 23 ? subnormal : normal;
}

static inline float f16_to_float(uint16_t half)
{
    uint32_t magnitude = half & 0x7fffU;
    uint32_t bits = small_to_float(magnitude, 10, 15);
    bits = magnitude >= 0x7c00U ? 0x7f800000U | (magnitude << 13) : bits;
    return float_of(bits | ((uint32_t)(half & 0x8000U) << 16));
}

static inline float bf16_to_float(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

static inline float f8e4m3_to_float(uint8_t code)
{
    uint32_t magnitude = code & 0x7fU;
    uint32_t bits = small_to_float(magnitude, 3, 7);
    bits = magnitude == 0x7fU ? 0x7ff00000U : bits;
    return float_of(bits | ((uint32_t)(code & 0x80U) << 24));
}

static inline float f8e5m2_to_float(uint8_t code)
{
    return f16_to_float((uint16_t)(code << 8));
}

uint16_t at_f16_from_double(double x)
{
    return f16_from_float(round_to_odd(x));
}

uint16_t at_bf16_from_double(double x)
{
    return bf16_from_float(round_to_odd(x));
}

uint8_t at_f8e4m3_from_double(double x)
{
    return f8e4m3_from_float(round_to_odd(x));
}

uint8_t at_f8e5m2_from_double(double x)
{
    return f8e5m2_from_float(round_to_odd(x));
}

float at_f16_to_float(uint16_t bits)
{
    return f16_to_float(bits);
}

float at_bf16_to_float(uint16_t bits)
{
    return bf16_to_float(bits);
}

float at_f8e4m3_to_float(uint8_t bits)
{
    return f8e4m3_to_float(bits);
}

float at_f8e5m2_to_float(uint8_t bits)
{
    return f8e5m2_to_float(bits);
}

double at_dtype_round(at_dtype dtype, double x)
{
    switch (dtype) {
    case AT_F32:
        return (double)(float)x;
    case AT_F16:
        return (double)f16_to_float(at_f16_from_double(x));
    case AT_BF16:
        return (double)bf16_to_float(at_bf16_from_double(x));
    case AT_F8E4M3:
        return (double)f8e4m3_to_float(at_f8e4m3_from_double(x));
    case AT_F8E5M2:
        return (double)f8e5m2_to_float(at_f8e5m2_from_double(x));
    case AT_U8:
    case AT_I32: {
        double low = dtype == AT_I32 ? -2147483648.0 : 0;
        x = x >= low ? rint(x) : low;
        return x <= types[dtype].max ? x : types[dtype].max;
    }
    case AT_DTYPE_COUNT:
        break;
    }
    AT_ASSERT(dtype != AT_DTYPE_COUNT);
    return 0;
}

AT_CLONES static void load_f16(float *restrict out, const uint16_t *restrict in, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = f16_to_float(in[i]);
    }
}

AT_CLONES static void load_bf16(float *restrict out, const uint16_t *restrict in, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = bf16_to_float(in[i]);
    }
}

AT_CLONES static void load_f8e4m3(float *restrict out, const uint8_t *restrict in, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = f8e4m3_to_float(in[i]);
    }
}

AT_CLONES static void load_f8e5m2(float *restrict out, const uint8_t *restrict in, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = f8e5m2_to_float(in[i]);
    }
}

AT_CLONES static void store_f16(uint16_t *restrict out, const float *restrict in, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = f16_from_float(in[i]);
    }
}

AT_CLONES static void store_bf16(uint16_t *restrict out, const float *restrict in, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = bf16_from_float(in[i]);
    }
}

AT_CLONES static void store_f8e4m3(uint8_t *restrict out, const float *restrict in, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = f8e4m3_from_float(in[i]);
    }
}

AT_CLONES static void store_f8e5m2(uint8_t *restrict out, const float *restrict in, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = f8e5m2_from_float(in[i]);
    }
}

AT_CLONES static void odd_floats(float *restrict out, const double *restrict in, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = round_to_odd(in[i]);
    }
}

AT_CLONES static void narrow(float *restrict out, const double *restrict in, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = (float)in[i];
    }
}

AT_CLONES static void widen(double *restrict out, const float *restrict in, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = (double)in[i];
    }
}

static void load_integers(at_dtype dtype, float *out, const void *bits, size_t n)
{
    const uint8_t *bytes = bits;
    for (size_t i = 0; i < n; i++) {
        int32_t word = 0;
        if (dtype == AT_I32) {
            memcpy(&word, bytes + i * sizeof word, sizeof word);
        }
        out[i] = dtype == AT_I32 ? (float)word : (float)bytes[i];
    }
}

static void store_integers(at_dtype dtype, void *bits, const float *in, size_t n)
{
    uint8_t *bytes = bits;
    for (size_t i = 0; i < n; i++) {
        int32_t word = (int32_t)at_dtype_round(dtype, (double)in[i]);
        if (dtype == AT_I32) {
            memcpy(bytes + i * sizeof word, &word, sizeof word);
        } else {
            bytes[i] = (uint8_t)word;
        }
    }
}

void at_dtype_load_float(at_dtype dtype, float *out, const void *bits, size_t n)
{
    switch (dtype) {
    case AT_F32:
        memcpy(out, bits, n * sizeof *out);
        return;
    case AT_F16:
        load_f16(out, bits, n);
        return;
    case AT_BF16:
        load_bf16(out, bits, n);
        return;
    case AT_F8E4M3:
        load_f8e4m3(out, bits, n);
        return;
    case AT_F8E5M2:
        load_f8e5m2(out, bits, n);
        return;
    case AT_U8:
    case AT_I32:
        load_integers(dtype, out, bits, n);
        return;
    case AT_DTYPE_COUNT:
        break;
    }
    AT_ASSERT(dtype != AT_DTYPE_COUNT);
}

void at_dtype_store_float(at_dtype dtype, void *bits, const float *in, size_t n)
{
    switch (dtype) {
    case AT_F32:
        memcpy(bits, in, n * sizeof *in);
        return;
    case AT_F16:
        store_f16(bits, in, n);
        return;
    case AT_BF16:
        store_bf16(bits, in, n);
        return;
    case AT_F8E4M3:
        store_f8e4m3(bits, in, n);
        return;
    case AT_F8E5M2:
        store_f8e5m2(bits, in, n);
        return;
    case AT_U8:
    case AT_I32:
        store_integers(dtype, bits, in, n);
        return;
    case AT_DTYPE_COUNT:
        break;
    }
    AT_ASSERT(dtype != AT_DTYPE_COUNT);
}

enum { CHUNK = 256 };

void at_dtype_load_double(at_dtype dtype, double *out, const void *bits, size_t n)
{
    const unsigned char *from = bits;
    float chunk[CHUNK];
    while (n > 0) {
        size_t now = n < CHUNK ? n : CHUNK;
        at_dtype_load_float(dtype, chunk, from, now);
        widen(out, chunk, now);
        from += now * types[dtype].size;
        out += now;
        n -= now;
    }
}

void at_dtype_store_double(at_dtype dtype, void *bits, const double *in, size_t n)
{
    unsigned char *to = bits;
    float chunk[CHUNK];
    while (n > 0) {
        size_t now = n < CHUNK ? n : CHUNK;
        if (dtype == AT_F32) {
            narrow(chunk, in, now);
        } else {
            odd_floats(chunk, in, now);
        }
        at_dtype_store_float(dtype, to, chunk, now);
        to += now * types[dtype].size;
        in += now;
        n -= now;
    }
}
