/* What the files of the key pass share: a thread's buffers and the block in hand. */
#ifndef AT_FAST_KEYS_H
#define AT_FAST_KEYS_H

#include "reference/fast.h"

/* Gradient of one of K or V for the block's keys and the unit's heads: value, sum of roundings,
 * variance [heads K dim], and the query head at hand [K dim]. */
typedef struct at_fast_gradient {
    at_tensor_id id;
    int64_t heads, dim, group; /* of the unit; query heads a head */
    double *source;            /* the unit's K or V [heads K dim] */
    float *square;             /* its squares in f32, times unit^2 of the head */
    double *unit;              /* [heads] */
    double *ref, *a, *c, *head, *squares, *known;
    const double *count; /* [K] additions in the chain of a key */
    double weight;       /* scale for dK, 1 for dV */
} at_fast_gradient;

/* One side of a tile: rows of Q or dO. */
typedef struct at_fast_side {
    double *rows;                     /* [R dim] */
    float *plain, *absolute, *square; /* times unit, unit^2 */
    double unit;
} at_fast_side;

/* One thread's buffers. R: rows of a tile, K: keys of a block. */
typedef struct at_fast_key_work {
    at_fast_gradient dk, dv;
    at_fast_side q, dout;
    double *add, *keep, *kept; /* [R K] as in the row pass */
    double *raw, *p, *dp, *ds; /* [R K] */
    float *squares, *dp_squares, *a_p, *c_p, *a_ds, *c_ds, *k_p, *k_ds; /* [R K] */
    float *product;                                                     /* [K dim] */
    double *p_most, *ds_most, *p_unit, *ds_unit, *factor;               /* [K] */
    double *count_k, *count_v;                                          /* [K] */
    at_fast_span *columns; /* [R] columns that each row of the tile sees, empty: first > last */
} at_fast_key_work;

/* A block of keys of one unit. */
typedef struct at_fast_key_block {
    at_fast *f;
    const at_fast_unit *unit;
    int64_t first, n;            /* among the unit's keys */
    int64_t first_row, last_row; /* rows that see any of them */
} at_fast_key_block;

/* What rows first..first+n_rows-1 of query head h add to the head's sums; w->columns says which
 * columns they see. */
void at_fast_run_tile(at_fast_key_work *w, const at_fast_key_block *at, int64_t h, int64_t first,
                      int64_t n_rows);

#endif
