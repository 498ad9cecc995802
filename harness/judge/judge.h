/* Turns outputs and reference into a verdict. */
#ifndef AT_JUDGE_H
#define AT_JUDGE_H

#include "harness/judge/verdict.h"
#include "reference/reference.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Judges the dropout mask that a forward handed out, before there is a reference. PASS; SKIP
 * (mask_hidden) when nothing was written; UNWRITTEN; WRONG: drop_value (neither 0 nor 1), drop_rate
 * (the share kept is not 1 - dropout). */
AT_API at_kind at_judge_dropout(const at_problem *p, at_reason *reason);

/* Judges the tensors of one step (forward: o, lse; backward: dq dk dv dbias dsink as `grads` asks)
 * after a
 * launch that returned AT_OK: tier 0 (memory, class, poison, contracts), then tier 1. Fills kind,
 * reason and measures of `out`; never fails: numbers are verdicts. */
AT_API void at_judge_step(at_step_verdict *out, at_step step, const at_problem *p,
                          const at_gold *gold, const at_contract *contract);

/* Bitwise comparison of the step's outputs with a copy from an earlier launch (at_judge_keep).
 * Returns false, with tensor and index in `what`, when they differ. */
AT_API size_t at_judge_keep_size(const at_problem *p, at_step step);
AT_API void at_judge_keep(const at_problem *p, at_step step, void *copy);
AT_API bool at_judge_same(const at_problem *p, at_step step, const void *copy, at_error *what);

/* Whether every live element of the step's outputs is within one rounding, at its row's scale, of
 * the copy; where one of the two is not finite, the bits must agree. */
AT_API bool at_judge_near(const at_problem *p, at_step step, const void *copy);

/* Teeth: applies the hard fault set to the reference output of every judged tensor and counts those
 * that the rule would flag; a fault that is a no-op within u on this case does not count. Also
 * measures the soft set (sensitivity; 0 where no fault of it applies) and takes over the share.
 * Turns a PASS into VACUOUS (reason "toothless") when one of the hard set would pass, and settles
 * v. */
AT_API void at_judge_teeth(at_verdict *v, const at_problem *p, const at_gold *gold);

#ifdef __cplusplus
}
#endif
#endif
