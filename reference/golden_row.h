/* One score row of the golden path: the formula as it reads, in plain fp64 loops. */
#ifndef AT_GOLDEN_ROW_H
#define AT_GOLDEN_ROW_H

#include "reference/noise.h"
#include "reference/score.h"

/* What a score row holds of key j. */
typedef struct at_pair {
    bool live;               /* the row sees the key; nothing else is set otherwise */
    double raw, capped, add; /* before the cap; after it; what is added then */
    double squares;          /* scale^2 sum (q k)^2 */
    double p, x0, x;         /* probability; score noise; the same as a relative one of p */
    double keep;             /* factor of dropout */
    double dp, dp_squares;   /* keep dO.v; keep^2 sum (dO v)^2 */
    double ds;               /* slope p (dp - D) */
    double s;                /* capped + add */
} at_pair;

/* A row at work. k, v: the keys and values of its heads [len_kv dim], as the caller loaded them. */
typedef struct at_golden_row {
    const at_problem *p;
    const at_noise *m;
    const at_score *score;
    const double *k, *v;
    int64_t b, h, i, first, last; /* keys first..last by window and length */
    double *q, *dout, *o;         /* [dim] */
    double *line;                 /* [len_kv] */
    at_pair *pairs;               /* [len_kv], by key */
    at_row row;
    double linear; /* what the bound of LSE needs */
} at_golden_row;

at_status at_golden_row_open(at_golden_row *out, const at_problem *p, const at_noise *m,
                             const at_score *score, at_arena *arena, at_error *err) AT_MUST_CHECK;

/* Keys and values of query head h, in full lengths. */
void at_golden_load(double *k, double *v, const at_problem *p, int64_t b, int64_t h);

/* Scores, P, LSE and O of row i. False for a row without keys: keys 0, O 0, LSE -inf or the sink's.
 */
bool at_golden_forward(at_golden_row *w, int64_t b, int64_t h, int64_t i);

/* dP, D with its variance, and dS of a row whose forward saw keys. */
void at_golden_backward(at_golden_row *w);

/* Coefficients of dS of a pair in a sum of n terms. */
at_noise_ds at_golden_ds(const at_golden_row *w, const at_pair *x, double n);

#endif
