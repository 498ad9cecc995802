/* Limits of the statistical tier: data measured on healthy runs, and what a verdict does to them.
 */
#ifndef AT_LIMITS_H
#define AT_LIMITS_H

#include "harness/judge/verdict.h"
#include "reference/reference.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AT_LIMITS_SCHEMA "attest-limits-1"
#define AT_LIMITS_TAIL 1e-6 /* probability that a healthy run is beyond one limit */
enum { AT_LIMITS_RUNS_MIN = 10000, AT_LIMIT_BINS = 2, AT_LIMIT_MANY = 1024 };

/* Name of the part of a numeric class that decides how errors are distributed: "stored", "f32",
 * with "+scores", "+d_from_p", "+head_rounded" where it says so. */
enum { AT_CLASS_TEXT = 64 };
AT_API void at_limits_class(const at_numeric_class *numeric, char text[AT_CLASS_TEXT]);

/* What limits apply to: the measure's score; of max_error divided by sqrt(1 + keys / 64), as chains
 * of additions grow with the keys. bin: averages over fewer than 1024 elements have limits of their
 * own; maxima, which are tail probabilities, have one. */
AT_API double at_limits_score(const at_measure *m, at_stat stat, const at_case *c);
AT_API int at_limits_bin(at_stat stat, int64_t compared);
/* max_error is judged on LSE alone; everything else on every output. */
AT_API bool at_limits_apply(at_tensor_id tensor, at_stat stat);

/* A limit and the fit behind it: a generalised Pareto distribution (shape, scale) of the excesses
 * over the threshold, by moments. */
typedef struct at_limit {
    int64_t runs, excesses;
    double threshold, shape, scale, largest, limit;
} at_limit;
/* Sorts x, [n] scores of healthy runs, and fits. AT_INVALID with fewer than 10^4 runs. */
AT_API at_status at_limit_fit(at_limit *out, at_stat stat, double *x, size_t n,
                              at_error *err) AT_MUST_CHECK;

typedef struct at_limits at_limits;

/* Reads PATH. AT_INVALID and one sentence: another schema, a file that ends early, a distribution
 * that is in no group, a declared class without its cells, fewer runs than 10^4, a limit that is no
 * positive number. */
AT_API at_status at_limits_open(at_limits **out, const char *path, at_error *err) AT_MUST_CHECK;
AT_API void at_limits_close(at_limits *limits); /* NULL is legal */

/* CORPUS/limits/cpu.json, the limits that come with the tool. */
AT_API at_status at_limits_open_corpus(at_limits **out, const char *corpus,
                                       at_error *err) AT_MUST_CHECK;

/* Does the file have limits for the class? AT_INVALID with a sentence that names those there are.
 */
AT_API at_status at_limits_require(const at_limits *limits, const at_numeric_class *numeric,
                                   at_error *err) AT_MUST_CHECK;

/* Statistics of one verdict that are beyond their limits. */
typedef struct at_exceeded {
    int n;
    bool at[AT_TENSOR_COUNT][AT_STAT_COUNT];
    double limits[AT_TENSOR_COUNT][AT_STAT_COUNT]; /* where `at` */
    at_step step;                                  /* of the first one, and what it is */
    at_tensor_id tensor;
    at_stat stat;
    double score, limit;
} at_exceeded;
/* False: nothing was compared, since the class, dtype or distribution has no limits. */
AT_API bool at_limits_check(at_exceeded *out, const at_limits *limits,
                            const at_numeric_class *numeric, const at_case *c, const at_verdict *v);

/* Groups of distributions whose errors are alike, pooled; and the distributions without limits,
 * whose errors are correlated by construction. NULL-terminated lists of names. */
enum { AT_FILL_GROUPS = 4 };
typedef struct at_fill_group {
    const char *name, *fills[8];
} at_fill_group;
AT_API extern const at_fill_group at_fill_groups[AT_FILL_GROUPS];
AT_API extern const char *const at_fills_without_limits[];

#ifdef __cplusplus
}
#endif
#endif
