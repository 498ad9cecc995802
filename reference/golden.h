/* The golden path: the formula as it reads, in plain fp64 loops. */
#ifndef AT_GOLDEN_H
#define AT_GOLDEN_H

#include "reference/reference.h"

/* Complete forward and backward with the error scale. Keeps one score row at a time and the
 * gradients of one sequence: O(S d) memory. S = scale q.k, capped: c tanh(S / c); P = softmax(S)
 * over the keys that the row sees; O = P V; dV = P^T dO; dP = dO V^T; D = rowsum(dO O); dS = P (dP
 * - D), capped: times 1 - (S / c)^2; dQ = scale dS K; dK = scale dS^T Q; dK, dV summed over the
 * group. Source: FlashAttention-2 (Dao 2023), section 2. */
at_status at_golden_run(at_gold *out, const at_problem *p, const at_reference_options *options,
                        at_arena *arena, at_error *err) AT_MUST_CHECK;

#endif
