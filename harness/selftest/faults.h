/* Planted faults against the tiers of the judge: which of them catches which fault how often. */
#ifndef AT_FAULTS_H
#define AT_FAULTS_H

#include "harness/judge/limits.h"
#include "harness/selftest/specimen.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum at_tier {
    AT_TIER_EXACT,  /* tier 0: classes, poison, contracts, memory, equal launches */
    AT_TIER_BOUND,  /* tier 1 alone: an element beyond its bound, NaN included */
    AT_TIER_STATS,  /* tier 2: a statistic beyond its limit in this run */
    AT_TIER_CHECKS, /* metamorphic checks; tried where nothing else has caught the fault */
    AT_TIER_ALL, /* the verdict fails: tiers 0, 1 or checks, or tier 2 confirmed by fresh seeds */
    AT_TIERS
} at_tier;
AT_API extern const char *const at_tier_names[]; /* "exact" "bound" "statistics" "checks" "all" */

enum { AT_FAULT_FILLS = 10 };

/* Runs of one fault by distribution. A run in which the fault changes nothing, each output within
 * one rounding of the healthy kernel's at its row's scale, is idle and counts for nothing. */
typedef struct at_fault_score {
    const at_backend *backend;
    bool changes_values; /* not memory, nor two launches, alone */
    int64_t idle, runs[AT_FAULT_FILLS], caught[AT_FAULT_FILLS][AT_TIERS];
} at_fault_score;

typedef struct at_fault_plan {
    const at_limits *limits; /* NULL: without tier 2 */
    uint32_t dtypes;         /* bit set, for each geometry; 0: the one that it names */
    int64_t seeds;           /* of each geometry, dtype and distribution */
    bool checks;             /* metamorphic checks too */
    const char *const
        *texts;     /* geometries for all faults, NULL-terminated; NULL: each fault's own */
    uint32_t fills; /* bit set of distributions; 0: all */
    void (*progress)(void *user, size_t done, size_t of); /* geometries; NULL: none */
    void *user;
    /* Told of each acting run of a fault that changes values, and of healthy runs of every engine
     * (AT_NO_FAULT), while the outputs stand; NULL: nobody. */
    void (*observe)(void *observer, const at_specimen *s, size_t fault, at_step step,
                    const bool caught[AT_TIERS]);
    void *observer;
} at_fault_plan;
#define AT_NO_FAULT SIZE_MAX

/* Scores of all faults in the order of at_mutant_at; [at_mutant_count()], the caller frees. */
AT_API at_status at_faults_run(at_fault_score **out, const at_fault_plan *plan,
                               at_error *err) AT_MUST_CHECK;

/* Share of the fault's acting runs that the tier caught; NaN without one. fill < 0: of all. */
AT_API double at_fault_rate(const at_fault_score *score, at_tier tier, int fill);
AT_API int64_t at_fault_runs(const at_fault_score *score);

/* Mean of the rates over faults of the step that act at all; the bound alone is asked of faults
 * that change values. */
AT_API double at_fault_mean(const at_fault_score *scores, at_step step, at_tier tier, int fill);

#ifdef __cplusplus
}
#endif
#endif
