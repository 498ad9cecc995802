/* Metamorphic checks: relations between launches of one kernel that hold whatever the reference
 * says. */
#ifndef AT_CHECKS_H
#define AT_CHECKS_H

#include "harness/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum at_check {
    AT_CHECK_BATCH,      /* sequences in another order: the same bits in that order */
    AT_CHECK_HEADS,      /* heads in another order, group by group: the same bits in that order */
    AT_CHECK_V_POWER,    /* V times a power of two: O times the same, bit for bit */
    AT_CHECK_V_ONES,     /* V = 1: every row of O is 1 within the roundings of P and O */
    AT_CHECK_V_ONEHOT,   /* V = one key a column: O reads P back, 0 where the mask hides */
    AT_CHECK_K_CONSTANT, /* a vector added to every key: the same O, LSE + scale q.c */
    AT_CHECK_GARBAGE,    /* other garbage in keys that no row sees and beyond lengths: same bits */
    AT_CHECK_PREFIX,     /* other keys behind a causal mask: the same bits in the rows before */
    AT_CHECK_SUMS,       /* dV summed over the keys = dO summed over the rows */
    AT_CHECK_DS_ROWS,    /* K = 1 in one column: dQ is 0 there, as rows of dS sum to 0 */
    AT_CHECK_GROUPED,    /* grouped heads = the same keys repeated for every head */
    AT_CHECK_FULL_LENS,  /* full lengths passed = none passed: the same bits */
    AT_CHECK_TRUE_MASK,  /* a mask that hides nothing = none */
    AT_CHECK_SPLIT,      /* two halves of the keys merged through LSE = the whole */
    AT_CHECK_EXACT,      /* Q = 0 and small integers: the answer is exact */
    AT_CHECK_COUNT
} at_check;
AT_API extern const char *const at_check_names[]; /* "batch" "heads" "v_power" ... */
AT_API const char *at_check_doc(at_check check);

/* Bit set of a list "batch,sums", "all" or "none". AT_INVALID names the word that is no check. */
AT_API at_status at_checks_parse(uint32_t *out, const char *list, at_error *err) AT_MUST_CHECK;

typedef enum at_check_outcome { AT_CHECK_IDLE, AT_CHECK_HOLDS, AT_CHECK_BROKEN } at_check_outcome;

/* Launches what the check needs, in memory of its own. IDLE: the case, the backend or its promises
 * do not allow the check. BROKEN: `step`, and `why` with the code "check_NAME" and a sentence; a
 * launch that fails is broken too. */
AT_API at_check_outcome at_check_run(at_check check, const at_backend *backend, void *state,
                                     const char *engine, const at_case *c, at_step *step,
                                     at_reason *why);

#ifdef __cplusplus
}
#endif
#endif
