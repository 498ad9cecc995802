/* Capability sets: what a kernel build does with a case. CORPUS/capabilities/NAME.json */
#ifndef AT_CAPABILITY_H
#define AT_CAPABILITY_H

#include "harness/case/case.h"
#include "harness/judge/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_capabilities at_capabilities;

typedef enum at_outcome {
    AT_OUTCOME_UNKNOWN,
    AT_OUTCOME_RUNS,
    AT_OUTCOME_REFUSES,
    AT_OUTCOME_WRONG
} at_outcome;

/* The first entry that matches; text is borrowed from the set. outcome UNKNOWN: no entry matches
 * and the other members are NULL. */
typedef struct at_capability {
    at_outcome outcome;
    const char *id;
    const char *tensor;   /* WRONG: "dv" */
    const char *message;  /* REFUSES: what the build says; WRONG: what goes wrong */
    const char *evidence; /* "read" "reported" "measured" */
    const char *source;
} at_capability;

AT_API at_status at_capabilities_open(at_capabilities **out, const char *corpus, const char *name,
                                      at_error *err) AT_MUST_CHECK;
AT_API void at_capabilities_close(at_capabilities *set);             /* NULL is legal */
AT_API const char *at_capabilities_arch(const at_capabilities *set); /* "sm90" */

/* What the build does with the case at that step (forward or backward). The set's own arch stands
 * for arch=any. */
AT_API at_status at_capability_find(at_capability *out, const at_capabilities *set,
                                    const at_case *c, at_step step, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
