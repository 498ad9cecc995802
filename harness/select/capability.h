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
AT_API extern const char *const at_outcome_names[]; /* "unknown" "runs" "refuses" "wrong" */

/* The first entry that matches; text is borrowed from the set. outcome UNKNOWN: no entry matches
 * and the other members are NULL. */
typedef struct at_capability {
    at_outcome outcome;
    const char *id;
    const char *tensor;   /* WRONG: "dv" */
    const char *message;  /* REFUSES: what the build says; WRONG: what goes wrong */
    const char *evidence; /* "read" "reported" "measured" */
    const char *source;
    const char *backend; /* that was measured, for `attest repro`; NULL in the sets of the corpus */
} at_capability;

/* A file that cannot be used is AT_INVALID with one sentence that names file, rule and column. */
AT_API at_status at_capabilities_open(at_capabilities **out, const char *corpus, const char *name,
                                      at_error *err) AT_MUST_CHECK;
AT_API void at_capabilities_close(at_capabilities *set);                /* NULL is legal */
AT_API const char *at_capabilities_name(const at_capabilities *set);    /* "fa3-2025-02" */
AT_API const char *at_capabilities_arch(const at_capabilities *set);    /* "sm90" */
AT_API const char *at_capabilities_package(const at_capabilities *set); /* "flash-attn-3 ..." */
AT_API const char *at_capabilities_doc(const at_capabilities *set);

/* What the build does with the case at that step (forward or backward). The set's own arch stands
 * for arch=any. AT_INVALID when a rule cannot be evaluated. */
AT_API at_status at_capability_find(at_capability *out, const at_capabilities *set,
                                    const at_case *c, at_step step, at_error *err) AT_MUST_CHECK;

/* The same in numbers: the index of the entry, -1 for none. `arch`: at_arch in force, any: the
 * set's. */
AT_API at_status at_capability_find_fast(int *out, const at_capabilities *set, const at_case *c,
                                         at_step step, int64_t arch, at_error *err) AT_MUST_CHECK;
AT_API at_capability at_capability_at(const at_capabilities *set, int entry); /* -1: UNKNOWN */
AT_API size_t at_capabilities_size(const at_capabilities *set);               /* entries */
AT_API at_step at_capability_step(const at_capabilities *set, int entry);
AT_API uint64_t at_capability_keys(const at_capabilities *set, int entry); /* case keys it reads */

/* AT_OK when the corpus holds the set. */
AT_API at_status at_capabilities_exist(const char *corpus, const char *name,
                                       at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
