/* dBias: dS of each pair, summed over the sequences and heads that the bias is broadcast over. */
#ifndef AT_GOLD_BIAS_H
#define AT_GOLD_BIAS_H

#include "reference/golden_row.h"

/* Sums of the listed rows of the gold tensor; sums is NULL where the case has no dBias. */
typedef struct at_gold_bias {
    const at_problem *p;
    const at_noise *m;
    at_gold_tensor *t;
    at_noise_sum *sums; /* [rows len_kv] */
    double shared;      /* pairs that one element sums at most */
} at_gold_bias;

/* For the rows that stand in the gold tensor. */
at_status at_gold_bias_open(at_gold_bias *out, at_gold *gold, const at_problem *p,
                            const at_noise *m, at_arena *arena, at_error *err) AT_MUST_CHECK;

/* Adds a row whose backward is done; rows that are not listed are passed over. */
void at_gold_bias_add(at_gold_bias *x, const at_golden_row *row);

/* Value, bound and sigma of all listed rows. */
void at_gold_bias_put(at_gold_bias *x);

#endif
