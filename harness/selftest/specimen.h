/* One case in this process: inputs, reference, and launches that are judged without a worker. */
#ifndef AT_SPECIMEN_H
#define AT_SPECIMEN_H

#include "harness/backend.h"
#include "harness/judge/judge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise; memory is kept from one case to the next. */
typedef struct at_specimen {
    at_arena *memory, *answers;
    at_problem p;
    at_gold gold;
} at_specimen;

/* Inputs and reference of another case for the numeric class. Status as at_problem_open and
 * at_reference_run. */
AT_API at_status at_specimen_make(at_specimen *s, const at_case *c, const at_numeric_class *numeric,
                                  at_error *err) AT_MUST_CHECK;
/* The reference of another numeric class for the same inputs. */
AT_API at_status at_specimen_refer(at_specimen *s, const at_numeric_class *numeric,
                                   at_error *err) AT_MUST_CHECK;
AT_API void at_specimen_close(at_specimen *s);

/* Poisons the step's outputs and launches. Backends are used without their state. */
AT_API at_status at_specimen_launch(const at_specimen *s, const at_backend *b, const char *engine,
                                    at_step step, at_error *err) AT_MUST_CHECK;

/* Launches and judges one step; the backward on the outputs of the backend's own forward, which has
 * run. A launch that fails is REFUSED. */
AT_API void at_specimen_judge(at_step_verdict *out, const at_specimen *s, const at_backend *b,
                              const char *engine, at_step step);

/* Inputs and guards as they were before a fault touched them. */
AT_API void at_specimen_restore(const at_specimen *s);

/* Last step of the case's pass. */
AT_API at_step at_specimen_last(const at_specimen *s);

/* Case n of an endless, seeded series of tiny ones: lengths below 48 and dims up to 64, one in
 * seven longer or wider; three dtypes, every distribution, masks, windows, lengths, layouts,
 * grouped heads; of the other features those that `backend` supports, one at a time. */
AT_API void at_tiny_case(at_case *out, const at_backend *backend, uint64_t seed, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif
