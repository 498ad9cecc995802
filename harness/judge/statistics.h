/* How likely statistics of z are: tail probabilities under independent normal z of variance 1. The
 * model is a scale, not a claim: limits on these scores are measured. */
#ifndef AT_STATISTICS_H
#define AT_STATISTICS_H

#include <stdint.h>

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* P(|Z| > z), z >= 0, and its log10; the latter stays finite where the former underflows. */
AT_API double at_tail_normal(double z);
AT_API double at_log_tail_normal(double z);

/* log10 of the probability that n values have at least this root mean square. Elements of a group
 * share roundings, so no more than 8 of them count as independent; an odd number is rounded down.
 */
AT_API double at_log_tail_rms(double rms, int64_t n);

/* log10 of an upper bound of the probability of `count` events or more where `expected` are
 * expected (the first term of the Poisson tail); 0 for count 0. */
AT_API double at_log_tail_count(int64_t count, double expected);

/* -log10 of the probability that the least likely of `groups` is as unlikely; between 0 and 300.
 * NaN is 300. */
AT_API double at_surprise(double log_tail, double groups);

#ifdef __cplusplus
}
#endif
#endif
