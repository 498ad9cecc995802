/* One launch of cpu.naive: what its rows and its heads share. */
#ifndef AT_CPU_NAIVE_ROW_H
#define AT_CPU_NAIVE_ROW_H

#include "kernels/cpu_naive.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One (batch, head) at a time. */
typedef struct at_naive_work {
    const at_problem *problem;
    at_numeric_class numeric;        /* as declared: scores_stored, d_from_p, head_rounded */
    bool stored;                     /* S, P, dP and dS pass through the inputs' type */
    double *o, *dq;                  /* sums: rows [dim_v] [dim_qk] */
    double *dk, *dv;                 /* heads [len_kv dim] of the query head at hand */
    double *group_dk, *group_dv;     /* and of its group */
    double *dbias, *dsink;           /* whole tensors; shared, NULL where they are not asked for */
    double sink;                     /* score of the head's sink, -Inf without */
    float *q, *d_o, *line;           /* rows: [dim_qk] [dim_v] [dim_qk + dim_v] */
    float *k, *v;                    /* [len_kv dim] of the head at hand */
    float *s, *p, *dp, *slope, *add; /* rows: [len_kv] */
    float *keep;                     /* [len_kv] 0 where dropped, else 1 / (1 - dropout) */
    float *typed;                    /* [len_kv], holds values of the inputs' type */
    void *memory;                    /* what the rows and heads are cut from */
} at_naive_work;

/* Keys or values of K or V head h, [len_kv dim]. */
void at_naive_load_heads(const at_naive_work *w, at_tensor_id id, int64_t b, int64_t h, float *out);

/* Rounds a row of sums to the tensor's type. */
void at_naive_store_sums(at_tensor_id id, const at_naive_work *w, int64_t b, int64_t h, int64_t s,
                         const double *sums);

/* O and LSE of row i of query head h, whose k, v and sink are loaded. */
void at_naive_forward_row(const at_naive_work *w, int64_t b, int64_t h, int64_t i);

/* Stores dQ of the row and adds its share to dk, dv, dbias and dsink. */
void at_naive_backward_row(const at_naive_work *w, int64_t b, int64_t h, int64_t i);

#ifdef __cplusplus
}
#endif
#endif
