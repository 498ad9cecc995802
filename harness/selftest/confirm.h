/* The rule for suspects: the same tensor and statistic beyond its limit on two of eight fresh
 * seeds. */
#ifndef AT_CONFIRM_H
#define AT_CONFIRM_H

#include "harness/judge/suspect.h"
#include "harness/selftest/specimen.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A case with its fresh seeds, made when first asked for. Zero-initialise. */
typedef struct at_confirm {
    at_case c;
    bool made[AT_FRESH_SEEDS];
    at_specimen specimen[AT_FRESH_SEEDS];
} at_confirm;

/* Another case: forgets the specimens of the one before. */
AT_API void at_confirm_begin(at_confirm *confirm, const at_case *c);
AT_API void at_confirm_close(at_confirm *confirm);

/* Runs the step (after the backend's own forward) on fresh seeds; *confirmed when a tensor and
 * statistic of `first` is beyond its limit, or an element beyond its bound, in two of them. */
AT_API at_status at_confirm_run(bool *confirmed, at_confirm *confirm, const at_backend *backend,
                                const char *engine, at_step step, const at_exceeded *first,
                                const at_limits *limits, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
