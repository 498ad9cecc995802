/* Statuses, reasons and the numbers behind them. */
#ifndef AT_VERDICT_H
#define AT_VERDICT_H

#include "harness/json.h"
#include "harness/problem/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Order = severity inside a class; at_kind_worse compares. */
typedef enum at_kind {
    /* class ok */
    AT_PASS,
    /* class neutral */
    AT_UNSUPPORTED_CASE, /* "UNSUPPORTED" */
    AT_SKIP,
    AT_OOM,
    AT_WAIVED,
    AT_VACUOUS,
    AT_SUSPECT,
    AT_BUILT,
    AT_OVER_REFUSED,
    /* class fail */
    AT_WRONG,
    AT_NONFINITE,
    AT_UNWRITTEN,
    AT_OVERRUN,
    AT_CLOBBERED,
    AT_NONDET,
    AT_KIND_REFUSED, /* "REFUSED" */
    AT_UNBUILDABLE,
    AT_CRASH,
    AT_DEVICE_LOST,
    AT_TIMEOUT,
    AT_FLAKY,
    AT_XPASS,
    AT_FALLBACK,
    /* class error */
    AT_ERROR,
    AT_KIND_COUNT
} at_kind;

typedef enum at_class { AT_CLASS_OK, AT_CLASS_NEUTRAL, AT_CLASS_FAIL, AT_CLASS_ERROR } at_class;

AT_API extern const char *const at_kind_names[]; /* "PASS" ... */
AT_API at_class at_kind_class(at_kind kind);
AT_API const char *at_class_name(at_class c); /* "ok" "neutral" "fail" "error" */
AT_API const char *at_kind_doc(at_kind kind); /* one sentence, for `attest explain` */
AT_API bool at_kind_parse(at_kind *out, const char *name);
AT_API at_kind at_kind_worse(at_kind a, at_kind b);

typedef struct at_reason {
    char code[48];  /* lower_snake, stable, machine-readable; "" for a plain PASS */
    char text[512]; /* one sentence */
} at_reason;

typedef enum at_step { AT_STEP_CLAIM, AT_STEP_FORWARD, AT_STEP_BACKWARD, AT_STEP_COUNT } at_step;
AT_API extern const char *const at_step_names[]; /* "claim" "forward" "backward" */

/* Statistics of z = err / sigma over one tensor. */
typedef enum at_stat {
    AT_STAT_MAX,      /* largest |z| */
    AT_STAT_RMS,      /* root mean square of z */
    AT_STAT_ROW,      /* the same of the worst row */
    AT_STAT_TILE,     /* ... of the worst tile of 16 rows x 8 columns */
    AT_STAT_BLOCK,    /* ... of the worst block of 64 rows */
    AT_STAT_BIAS,     /* |sum sign(ref) z| / sqrt(n) */
    AT_STAT_OUTLIERS, /* number of |z| > 5 */
    AT_STAT_ERROR,    /* largest |err| / (1 + |ref|) */
    AT_STAT_COUNT
} at_stat;
AT_API extern const char *const at_stat_names[]; /* "max_z" "rms_z" ..., as in the record */

/* Measures of one judged tensor. `index` is [b h s d] of the worst element (by err / bound).
 * score: what limits apply to. For maxima and counts -log10 of the probability of as much under
 * normal z of variance 1 with this number of elements, rows, tiles; 0 when that is 1 or more. RMS:
 * the value; BIAS: the mean of sign(ref) z; ERROR: in units of 2^-24. */
typedef struct at_measure {
    bool judged;
    at_kind kind;
    at_reason reason;
    double max_ratio; /* max err/bound; 0..1 for healthy kernels */
    double max_z, rms_z, row_rms_z, tile_rms_z, block_rms_z, bias_z, max_error;
    int64_t outliers, compared; /* |z| > 5; elements with a finite reference */
    double score[AT_STAT_COUNT];
    int64_t index[4];
    double got, want, bound;
    int64_t wrong, total; /* elements beyond the bound or of the wrong class; elements judged */
    double sensitivity;   /* share of the soft fault set that the rule flags, 0..1 */
} at_measure;

typedef struct at_step_verdict {
    bool ran;
    at_kind kind;
    at_reason reason;
    double ms; /* wall time of the launch */
    at_measure m[AT_TENSOR_COUNT];
} at_step_verdict;

/* Verdict of one (case, backend, engine). */
typedef struct at_verdict {
    at_kind kind; /* the worst step's */
    at_reason reason;
    at_step_verdict step[AT_STEP_COUNT];
    int teeth_caught, teeth_total; /* hard fault set; caught < total makes a PASS VACUOUS */
    double share;                  /* of the live elements that were judged */
} at_verdict;

AT_API void at_verdict_init(at_verdict *v);
/* Overall kind, reason from the steps. */
AT_API void at_verdict_settle(at_verdict *v);

/* {"status","reason","message","steps":[...],"teeth",...}: the part of a results line that a
 * verdict fills, and back. */
AT_API void at_verdict_to_json(const at_verdict *v, at_json *object);
AT_API at_status at_verdict_from_json(at_verdict *out, const at_json *object,
                                      at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
