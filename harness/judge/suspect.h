/* The rule for suspects: a statistic beyond its limit is SUSPECT; the same tensor and statistic
 * beyond it on two of eight fresh seeds is WRONG. */
#ifndef AT_SUSPECT_H
#define AT_SUSPECT_H

#include "harness/judge/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_FRESH_SEEDS = 8, AT_FRESH_HITS = 2 };

typedef struct at_suspect {
    at_exceeded first;
    int runs; /* fresh seeds so far */
    int hits; /* the most that one tensor and statistic has */
    int of[AT_TENSOR_COUNT][AT_STAT_COUNT];
} at_suspect;

/* Seed k of the eight. */
AT_API uint64_t at_fresh_seed(uint64_t seed, int k);

AT_API void at_suspect_begin(at_suspect *s, const at_exceeded *first);
/* Adds the run of the next fresh seed; one that failed outright counts for every statistic. */
AT_API void at_suspect_add(at_suspect *s, const at_exceeded *now, bool failed);
/* Another seed could still change the outcome. */
AT_API bool at_suspect_wants_more(const at_suspect *s);
AT_API bool at_suspect_is_confirmed(const at_suspect *s);
/* Turns the verdict of the first run into WRONG (statistics) or SUSPECT (unconfirmed). */
AT_API void at_suspect_settle(const at_suspect *s, at_verdict *v);

#ifdef __cplusplus
}
#endif
#endif
