/* Peaks over threshold. Source: Pickands 1975, "Statistical inference using extreme order
 * statistics"; moments: Hosking and Wallis 1987, "Parameter and quantile estimation for the
 * generalized Pareto distribution", section 3. */
#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error "verdicts need NaN and infinities"
#endif
#include "harness/judge/limits.h"

#include <math.h>
#include <stdlib.h>

/* Share of the runs above the threshold. */
#define EXCESS_SHARE 0.02
/* A tail that ends (shape < 0) is taken for an exponential one; beyond 1/2 moments do not exist. */
#define SHAPE_MAX 0.45

/* Averages do not vary from seed to seed as much as from geometry to geometry, and a geometry that
 * no run had may lie beyond those that had one. */
#define AVERAGES 1.15

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A surprise of s more decades is 10^s times less likely, whatever the fit says of few excesses:
 * the limit lies at least as many decades above the largest score as the runs miss to the tail. */
static double least_limit(at_stat stat, double largest, double n)
{
    bool decades = stat != AT_STAT_RMS && stat != AT_STAT_BIAS && stat != AT_STAT_ERROR;
    return decades ? largest + fmax(1, -log10(n * AT_LIMITS_TAIL)) : largest;
}

at_status at_limit_fit(at_limit *out, at_stat stat, double *x, size_t n, at_error *err)
{
    if (n < AT_LIMITS_RUNS_MIN) {
        return at_fail(err, AT_INVALID, "%s: %zu runs; at least %d are needed", at_stat_names[stat],
                       n, AT_LIMITS_RUNS_MIN);
    }
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            return at_fail(err, AT_INVALID, "%s: a healthy run has a score that is not finite",
                           at_stat_names[stat]);
        }
    }
    qsort(x, n, sizeof *x, ascending);
    size_t k = (size_t)((double)n * EXCESS_SHARE);
    *out = (at_limit){.runs = (int64_t)n, .threshold = x[n - k - 1], .largest = x[n - 1]};
    double sum = 0, squares = 0;
    for (size_t i = n - k; i < n; i++) {
        double excess = x[i] - out->threshold;
        out->excesses += excess > 0;
        sum += excess;
        squares += excess * excess;
    }
    double mean = sum / (double)k, variance = squares / (double)k - mean * mean;
    double limit = out->threshold;
    if (mean > 0 && variance > 0) {
        double shape = 0.5 * (1 - mean * mean / variance);
        out->shape = shape < 0 ? 0 : shape > SHAPE_MAX ? SHAPE_MAX : shape;
        out->scale = mean * (1 - out->shape);
        double odds = (double)k / ((double)n * AT_LIMITS_TAIL);
        limit += out->shape > 0 ? out->scale / out->shape * (pow(odds, out->shape) - 1)
                                : out->scale * log(odds);
    }
    bool average = stat == AT_STAT_RMS || stat == AT_STAT_BIAS || stat == AT_STAT_ERROR;
    out->limit = fmax(limit, least_limit(stat, out->largest, (double)n)) * (average ? AVERAGES : 1);
    if (!(out->limit > 0)) {
        return at_fail(err, AT_INVALID, "%s is 0 in every run", at_stat_names[stat]);
    }
    return AT_OK;
}
