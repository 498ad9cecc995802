/* One case with its reference, and runs of backends on it, in this process. */
#ifndef AT_TRIAL_H
#define AT_TRIAL_H

#include "harness/backend.h"
#include "harness/judge/judge.h"

typedef struct at_trial {
    at_arena *memory, *answers;
    at_problem p;
    at_gold gold;
} at_trial;

/* Parses the case, makes inputs and the reference. Records a failure and returns false otherwise.
 */
bool at_trial_open(at_trial *t, const char *text, const at_reference_options *options);
bool at_trial_open_case(at_trial *t, const at_case *c, const at_reference_options *options);
void at_trial_close(at_trial *t);

/* Poisons the step's outputs and launches; AT_OK or the backend's error. */
at_status at_trial_launch(const at_trial *t, const at_backend *b, void *state, const char *engine,
                          at_step step, at_error *err);

/* Launches and judges every step of the case, and applies the teeth. `launches` > 1 repeats each
 * step and turns a difference into NONDET. */
void at_trial_run(const at_trial *t, const at_backend *b, const char *engine, int launches,
                  at_verdict *v);

#endif
