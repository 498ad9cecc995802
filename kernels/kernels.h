/* The built-in backends, each defined in the file of its name; registry.c lists them. */
#ifndef AT_KERNELS_H
#define AT_KERNELS_H

#include "harness/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const at_backend at_backend_cpu_naive;
extern const at_backend at_backend_cpu_flash;
extern const at_backend *const at_backends_fault_process[]; /* mutant.*, NULL-terminated */
extern const at_backend *const at_backends_modelled[];      /* modelled.*, NULL-terminated */

/* What the CPU backends can compute: AT_OK, or AT_UNSUPPORTED with code and a sentence that names
 * key and value. */
at_status at_cpu_supports(const at_case *c, at_reason *why);

/* What dropout keeps (1) and drops (0) of keys key..key+n-1 of row i, for i <= len_q; and the whole
 * mask, written to the problem's `drop` where it has one. */
void at_cpu_dropout(float *keep, const at_case *c, int64_t b, int64_t h, int64_t i, int64_t key,
                    int64_t n);
void at_cpu_hand_out_dropout(const at_problem *p);

/* n values as a tensor stores them, in units of `unit`; fp8 saturates, as conversions of GPUs do. */
void at_cpu_to_units(at_dtype dtype, float unit, float *x, int64_t n);

/* Greatest common divisor of a > 0 and b >= 0. */
int64_t at_common_divisor(int64_t a, int64_t b);

#ifdef __cplusplus
}
#endif
#endif
