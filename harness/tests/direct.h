/* A second opinion for tests of the reference: attention through whole matrices, in double, from
 * its own reading of the case. */
#ifndef AT_DIRECT_H
#define AT_DIRECT_H

#include "reference/reference.h"

/* Dense copies [batch heads len dim] over the full lengths, with the sizes of the tensors' shapes
 * (1 where a mask or bias is broadcast); rows beyond a sequence hold 0. amask: what is added to the
 * scores; drop: 0 or 1. */
typedef struct at_direct {
    at_case c;
    at_variant variant;
    double scale;
    double *t[AT_TENSOR_COUNT];
    int64_t shape[AT_TENSOR_COUNT][4];
    int64_t n[AT_TENSOR_COUNT]; /* elements */
    int64_t len_q[64], len_kv[64], off[64];
} at_direct;

/* Copies the stored inputs and computes the outputs: o, lse, dq, dk, dv, dbias, dsink. */
void at_direct_open(at_direct *out, const at_problem *p, const at_variant *variant);
/* Computes the outputs again from the inputs, which the test may have changed. */
void at_direct_run(at_direct *x);
void at_direct_close(at_direct *x);

double *at_direct_at(const at_direct *x, at_tensor_id id, int64_t b, int64_t h, int64_t s);
/* sum dO O over all elements: the function whose gradients the outputs are. */
double at_direct_loss(const at_direct *x);

#endif
