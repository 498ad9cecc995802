/* Healthy kernels, emulated for tests of the error scale: f32 arithmetic, P and dS rounded as the
 * numeric class says. */
#ifndef AT_EMULATE_H
#define AT_EMULATE_H

#include "reference/reference.h"

typedef struct at_emulation {
    at_numeric_class numeric;
    int64_t tile;  /* keys a tile of the online softmax; 0: whole rows, P normalised before use */
    bool reversed; /* tiles, rows and heads from the last to the first */
    bool exp2;     /* exp2 of scores times scale log2(e) */
    bool lanes;    /* sums over dims and keys in 8 partial sums */
} at_emulation;

/* Outputs as floats that the stored types hold (in units of what is stored): [batch heads len dim]
 * over the full lengths, with the sizes of the tensors' shapes. */
typedef struct at_emulated {
    float *t[AT_TENSOR_COUNT];
} at_emulated;

void at_emulate(at_emulated *out, const at_problem *p, const at_emulation *how);
void at_emulated_close(at_emulated *x);

/* err / bound and err / sigma of one tensor against the reference. */
typedef struct at_ratios {
    double worst, rms_z, worst_z;
    int64_t n;
} at_ratios;
at_ratios at_emulated_ratios(const at_emulated *x, const at_problem *p, const at_gold *gold,
                             at_tensor_id id);

#endif
