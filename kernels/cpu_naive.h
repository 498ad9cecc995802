/* `cpu.naive`: three loops, for backends of other numeric classes. */
#ifndef AT_CPU_NAIVE_H
#define AT_CPU_NAIVE_H

#include "harness/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of cpu.naive. They compute as `self->numeric` says: scores_stored (else S, P, dP
 * and dS stay in f32), d_from_p, head_rounded. One engine, "loops". */
at_status at_naive_supports(const at_backend *self, const at_case *c, at_reason *why);
at_status at_naive_open(const at_backend *self, void **state, at_error *err);
at_status at_naive_claim(const at_backend *self, void *state, const at_case *c, at_engines *engines,
                         at_reason *why);
at_status at_naive_forward(const at_backend *self, void *state, const at_problem *p,
                           const char *engine, at_error *err);
at_status at_naive_backward(const at_backend *self, void *state, const at_problem *p,
                            const char *engine, at_error *err);
void at_naive_close(const at_backend *self, void *state);

#ifdef __cplusplus
}
#endif
#endif
