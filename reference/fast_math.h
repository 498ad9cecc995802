/* exp and tanh in fp64 without branches or calls, for loops that the compiler turns into vectors.
 */
#ifndef AT_FAST_MATH_H
#define AT_FAST_MATH_H

#include <stdint.h>
#include <string.h>

#include "harness/clones.h"

/* exp(x), within 1 ulp, for x <= 709; 0 below -708. x = n ln 2 + r, |r| <= ln 2 / 2; exp(r) by its
 * Taylor series (the remainder r^14 / 14! is below 2^-57), times 2^n put into the exponent. Source:
 * Cody and Waite, "Software manual for the elementary functions", 1980, chapter 6. */
AT_INLINE double at_fast_exp(double x)
{
    static const double log2e = 0x1.71547652b82fep0, magic = 0x1.8p52;
    static const double ln2_high = 0x1.62e42fefa3800p-1, ln2_low = 0x1.ef35793c76730p-45;
    double clamped = x > -708 ? x : -708;
    double shifted = clamped * log2e + magic, n = shifted - magic;
    double r = (clamped - n * ln2_high) - n * ln2_low;
    double q = 1.0 / 6227020800;
    q = q * r + 1.0 / 479001600;
    q = q * r + 1.0 / 39916800;
    q = q * r + 1.0 / 3628800;
    q = q * r + 1.0 / 362880;
    q = q * r + 1.0 / 40320;
    q = q * r + 1.0 / 5040;
    q = q * r + 1.0 / 720;
    q = q * r + 1.0 / 120;
    q = q * r + 1.0 / 24;
    q = q * r + 1.0 / 6;
    q = q * r + 0.5;
    double value = 1 + (r + r * r * q);
    uint64_t bits = 0;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    double power = 0;
    memcpy(&power, &bits, sizeof power);
    return x > -708 ? value * power : 0;
}

/* Running maxima side by side: compilers turn them into vectors without leave to reorder. */
enum { AT_FAST_LANES = 8 };
AT_INLINE double at_fast_lanes_max(const double lane[AT_FAST_LANES])
{
    double max = lane[0];
    for (int l = 1; l < AT_FAST_LANES; l++) {
        max = lane[l] > max ? lane[l] : max;
    }
    return max;
}

/* tanh(x), within 4 ulp: its series below 0.15, (1 - e) / (1 + e) with e = exp(-2 |x|) above. */
AT_INLINE double at_fast_tanh(double x)
{
    double size = x < 0 ? -x : x, x2 = x * x;
    double q = 6404582.0 / 10854718875.0;
    q = q * x2 - 929569.0 / 638512875.0;
    q = q * x2 + 21844.0 / 6081075.0;
    q = q * x2 - 1382.0 / 155925.0;
    q = q * x2 + 62.0 / 2835.0;
    q = q * x2 - 17.0 / 315.0;
    q = q * x2 + 2.0 / 15.0;
    q = q * x2 - 1.0 / 3.0;
    double near = x + x * x2 * q;
    double e = at_fast_exp(-2 * size), far = (1 - e) / (1 + e);
    return size < 0.15 ? near : x < 0 ? -far : far;
}

#endif
