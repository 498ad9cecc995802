/* Healthy kernels on tiny cases without end: how often the judge calls one broken. */
#ifndef AT_HEALTHY_H
#define AT_HEALTHY_H

#include "harness/judge/limits.h"
#include "harness/selftest/specimen.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_ALARMS_KEPT = 8 };

typedef struct at_healthy {
    int64_t runs;                    /* (case, engine) pairs, forward and backward */
    int64_t bound;                   /* verdicts of tiers 0 and 1 that fail: false alarms */
    int64_t suspects;                /* beyond a limit of tier 2 */
    int64_t confirmed;               /* and again on two of eight fresh seeds: false alarms */
    int64_t limited;                 /* runs that tier 2 had limits for */
    char alarm[AT_ALARMS_KEPT][512]; /* the first ones, by case */
} at_healthy;

/* At least `runs` runs of every engine of cpu.flash and cpu.naive. limits NULL: without tier 2. */
AT_API at_status at_healthy_run(at_healthy *out, int64_t runs, uint64_t seed,
                                const at_limits *limits, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
