/* One f32 lane at a time, written so that loops over them become vector code. */
#ifndef AT_CPU_LANE_H
#define AT_CPU_LANE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define AT_LANE static inline __attribute__((always_inline, unused))

AT_LANE uint32_t at_lane_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

AT_LANE float at_lane_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^n for -252 <= n <= 254 in two steps, so that results below 2^-126 keep their bits. */
AT_LANE float at_lane_times_power(float x, int32_t n)
{
    int32_t half = n >> 1;
    return x * at_lane_float((uint32_t)(half + 127) << 23) *
           at_lane_float((uint32_t)(n - half + 127) << 23);
}

/* exp(r) for |r| <= 0.35, then times 2^n. Source: Cephes expf, Moshier 1992. */
AT_LANE float at_lane_exp_reduced(float r, int32_t n)
{
    float y = 1.9875691500E-4F;
    y = y * r + 1.3981999507E-3F;
    y = y * r + 8.3334519073E-3F;
    y = y * r + 4.1665795894E-2F;
    y = y * r + 1.6666665459E-1F;
    y = y * r + 5.0000001201E-1F;
    return at_lane_times_power(y * r * r + r + 1.0F, n);
}

/* Nearest integer of |x| < 2^22, as float and as int: adding 1.5 2^23 leaves it in the low bits. */
AT_LANE int32_t at_lane_nearest(float x, float *integer)
{
    const float shift = 12582912.0F;
    float shifted = x + shift;
    *integer = shifted - shift;
    return (int32_t)(at_lane_bits(shifted) << 10) >> 10;
}

AT_LANE float at_lane_clamp(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* Within 1.5 units in the last place; 0 below -104.2, finite up to 88.7; NaN stays NaN. */
AT_LANE float at_lane_exp(float x)
{
    float n;
    x = at_lane_clamp(x, -105.0F, 89.0F);
    int32_t power = at_lane_nearest(x * 1.44269504F, &n);
    float r = x - n * 0.693359375F;
    return at_lane_exp_reduced(r + n * 2.12194440E-4F, power);
}

AT_LANE float at_lane_exp2(float x)
{
    float n;
    x = at_lane_clamp(x, -151.0F, 129.0F);
    int32_t power = at_lane_nearest(x, &n);
    return at_lane_exp_reduced((x - n) * 0.693147180559945F, power);
}

/* tanh(x), and its derivative without the cancellation of 1 - tanh^2. */
AT_LANE float at_lane_tanh(float x, float *slope)
{
    float size = x < 0 ? -x : x;
    float z = at_lane_exp(-2.0F * size), square = x * x, y = -5.70498872745E-3F;
    y = y * square + 2.06390887954E-2F;
    y = y * square - 5.37397155531E-2F;
    y = y * square + 1.33314422036E-1F;
    y = y * square - 3.33332819422E-1F;
    float small = x + x * square * y, large = (1.0F - z) / (1.0F + z);
    *slope = 4.0F * z / ((1.0F + z) * (1.0F + z));
    large = x < 0 ? -large : large;
    return size < 0.625F ? small : large;
}

AT_LANE float at_lane_bf16(float x)
{
    uint32_t bits = at_lane_bits(x);
    float rounded = at_lane_float((bits + 0x7fffU + (bits >> 16 & 1U)) & 0xffff0000U);
    return x != x ? x : rounded;
}

/* Below 2^-14 the step is 2^-24, that of a float in [0.5, 1). */
AT_LANE float at_lane_f16(float x)
{
    uint32_t bits = at_lane_bits(x), sign = bits & 0x80000000U;
    float size = at_lane_float(bits ^ sign);
    float normal = at_lane_float((at_lane_bits(size) + 0xfffU + (bits >> 13 & 1U)) & 0xffffe000U);
    normal = normal > 65504.0F ? HUGE_VALF : normal;
    float subnormal = (size + 0.75F) - 0.75F;
    float rounded = size < 0x1p-14F ? subnormal : normal;
    return x != x ? x : at_lane_float(at_lane_bits(rounded) | sign);
}

/* `bits` mantissa bits below the leading one, steps of `step` below `least`. Adding 1.5 2^23 steps
 * rounds to them. */
AT_LANE float at_lane_fp8(float x, int bits, float step, float least)
{
    uint32_t word = at_lane_bits(x), sign = word & 0x80000000U, low = 1U << (23 - bits);
    uint32_t half = (low >> 1) - 1 + (word >> (23 - bits) & 1U);
    float size = at_lane_float(word ^ sign), shift = 12582912.0F * step;
    float normal = at_lane_float((at_lane_bits(size) + half) & ~(low - 1));
    float rounded = size < least ? (size + shift) - shift : normal;
    return x != x ? x : at_lane_float(at_lane_bits(rounded) | sign);
}

AT_LANE float at_lane_f8e4m3(float x)
{
    return at_lane_fp8(x, 3, 0x1p-9F, 0x1p-6F);
}

AT_LANE float at_lane_f8e5m2(float x)
{
    return at_lane_fp8(x, 2, 0x1p-16F, 0x1p-14F);
}

AT_LANE float at_lane_f16_zero(float x)
{
    float rounded = at_lane_f16(x), size = x < 0 ? -x : x, up = rounded < 0 ? -rounded : rounded;
    float step = size < 0x1p-14F ? 0x1p-24F
                                 : at_lane_float((at_lane_bits(size) & 0x7f800000U) - (10U << 23));
    float down = up > size ? up - step : up;
    down = up > 65504.0F ? 65504.0F : down;
    return x != x ? x : (x < 0 ? -down : down);
}

#endif
