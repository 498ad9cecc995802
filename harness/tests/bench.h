/* A problem with a reference made up here, and outputs that equal it: what a test then spoils. */
#ifndef AT_BENCH_H
#define AT_BENCH_H

#include "harness/judge/judge.h"

enum { AT_BENCH_OUTPUTS = 5 };
extern const at_tensor_id at_bench_outputs[AT_BENCH_OUTPUTS]; /* o lse dq dk dv */

typedef struct at_bench {
    at_arena *arena;
    at_problem p;
    at_gold gold; /* |ref| in 1..2, exact in every type; bound 1/64, sigma 1/128 */
    at_contract contract;
    at_step_verdict forward, backward;
} at_bench;

void at_bench_open(at_bench *t, const char *text);
/* The reference lists every step-th live row, and the rows that see no key. */
void at_bench_open_sampled(at_bench *t, const char *text, int64_t step);
void at_bench_close(at_bench *t);

/* Sets reference, bound, sigma and output of the tensor as at first. */
void at_bench_fill(at_bench *t, at_tensor_id id);

void at_bench_judge(at_bench *t);
const at_measure *at_bench_measure(const at_bench *t, at_tensor_id id);

#endif
