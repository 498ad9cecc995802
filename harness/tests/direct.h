/* A second opinion for tests of the reference: attention through whole matrices, in double, from
 * its own reading of the case. */
#ifndef AT_DIRECT_H
#define AT_DIRECT_H

#include "reference/reference.h"

/* Dense copies [batch heads len dim] over the full lengths; rows beyond a sequence hold 0. */
typedef struct at_direct {
    at_case c;
    double scale;
    double *t[AT_TENSOR_COUNT];
    int64_t n[AT_TENSOR_COUNT]; /* elements */
    int64_t len_q[64], len_kv[64], off[64];
} at_direct;

/* Copies the stored inputs and computes o, lse, dq, dk, dv. */
void at_direct_open(at_direct *out, const at_problem *p);
/* Computes the outputs again from t[AT_Q] .. t[AT_DO], which the test may have changed. */
void at_direct_run(at_direct *x);
void at_direct_close(at_direct *x);

double *at_direct_at(const at_direct *x, at_tensor_id id, int64_t b, int64_t h, int64_t s);
/* sum dO O over all elements: the function whose gradients dq, dk, dv are. */
double at_direct_loss(const at_direct *x);

#endif
