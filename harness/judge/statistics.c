#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error "verdicts need NaN and infinities"
#endif
#include "harness/judge/statistics.h"

#include <math.h>

enum { INDEPENDENT = 8 };
#define LARGEST 300.0
#define ASYMPTOTIC 30.0 /* from here on erfc is replaced by the first term of its expansion */

static const double log10_e = 0.43429448190325182765;

double at_tail_normal(double z)
{
    return erfc(z * 0.70710678118654752440);
}

double at_log_tail_normal(double z)
{
    if (z < ASYMPTOTIC) {
        return log10(at_tail_normal(z));
    }
    return -0.5 * z * z * log10_e - log10(z * 1.25331413731550025121); /* sqrt(pi / 2) */
}

double at_log_tail_rms(double rms, int64_t n)
{
    if (n < 2) {
        return at_log_tail_normal(rms);
    }
    int half = n < INDEPENDENT ? (int)n / 2 : INDEPENDENT / 2;
    double x = half * rms * rms, term = 1, sum = 1; /* half of chi squared; Poisson sum of x */
    for (int i = 1; i < half; i++) {
        term *= x / i;
        sum += term;
    }
    return -x * log10_e + log10(sum);
}

double at_log_tail_count(int64_t count, double expected)
{
    if (count <= 0) {
        return 0;
    }
    double n = (double)count;
    return (n * log(expected) - lgamma(n + 1)) * log10_e;
}

double at_surprise(double log_tail, double groups)
{
    double log_all = log_tail + log10(groups > 1 ? groups : 1);
    return log_all >= 0 ? 0 : log_all >= -LARGEST ? -log_all : LARGEST;
}
