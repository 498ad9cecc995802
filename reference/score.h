/* What stands beside scale q.k in a score row: bias, ALiBi, dense mask, sink; and dropout. Shared
 * by the golden and the fast path; reads rows of the tensors, keeps none. */
#ifndef AT_SCORE_H
#define AT_SCORE_H

#include "reference/reference.h"

typedef struct at_score {
    const at_problem *p;
    at_variant variant;
    bool added;   /* something is added to scores after the cap, or masked */
    bool before;  /* bias and ALiBi are added before the cap */
    bool dropped; /* the problem holds a dropout mask */
    bool sink;
    double keep; /* 1 / (1 - dropout) */
} at_score;

/* Consecutive keys first..first+n-1 of a row, or keys[0..n) where keys is not NULL. */
typedef struct at_score_keys {
    int64_t first, n;
    const int64_t *keys;
} at_score_keys;

void at_score_init(at_score *out, const at_problem *p, const at_variant *variant);

/* What is added to scale q.k before the cap (0 unless `before`). */
void at_score_before(const at_score *x, double *out, int64_t b, int64_t h, int64_t i,
                     const at_score_keys *keys);

/* What is added after the cap; -HUGE_VAL where the dense mask hides the key. */
void at_score_after(const at_score *x, double *out, int64_t b, int64_t h, int64_t i,
                    const at_score_keys *keys);

/* Factors of P and dP: 0 where dropped, else 1 / (1 - dropout). */
void at_score_dropout(const at_score *x, double *out, int64_t b, int64_t h, int64_t i,
                      const at_score_keys *keys);

/* The sink's score; for cases with a sink. */
double at_score_sink(const at_score *x, int64_t h);

#endif
