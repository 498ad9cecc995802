/* The golden path: the formula as it reads, in plain fp64 loops. */
#ifndef AT_GOLDEN_H
#define AT_GOLDEN_H

#include "reference/reference.h"

/* Complete forward and backward with the error scale. Keeps one score row at a time and the
 * gradients of one sequence: O(S d) memory, beside dBias itself. S = scale q.k, capped: c tanh(S /
 * c); S += bias, ALiBi, mask; P = softmax(S, sink) over the keys that the row sees; O = (P drop) V;
 * dV = (P drop)^T dO; dP = (dO V^T) drop; D = rowsum(dO O); dS = P (dP - D), dBias = dS, capped:
 * times 1 - (S / c)^2; dQ = scale dS K; dK = scale dS^T Q; dK, dV summed over the group, dBias over
 * what it is broadcast over; dSink = -sum P_sink D; drop = mask / (1 - p). Source: FlashAttention-2
 * (Dao 2023), section 2. */
at_status at_golden_run(at_gold *out, const at_problem *p, const at_reference_options *options,
                        at_arena *arena, at_error *err) AT_MUST_CHECK;

#endif
