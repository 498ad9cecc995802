/* What the files of the row pass share: a thread's buffers, the block and the chunk in hand. */
#ifndef AT_FAST_ROWS_H
#define AT_FAST_ROWS_H

#include "reference/fast.h"
#include "reference/fast_pairs.h"

/* One thread's buffers. M: rows of a block, K: keys of a chunk, W: keys that a block sees. */
typedef struct at_fast_work {
    double *q, *dout;                           /* [M dim] */
    double *k, *v;                              /* [K dim] */
    double *raw, *add;                          /* [M W]; add where something is added */
    double *p, *dp, *ds;                        /* [M K] */
    double *keep, *kept;                        /* [M K] dropout's factors, and P times them */
    float *squares, *dp_squares;                /* [M W], [M K] */
    float *a, *c, *w;                           /* [M K] */
    float *q_square, *dout_square;              /* [M dim] */
    float *plain, *absolute, *square, *product; /* [K dim], product [M dim] */
    double *o, *o_a, *o_c, *o_w1, *o_w2;        /* [M dim_v] */
    double *dq, *dq_a, *dq_c, *mass;            /* [M dim_qk] */
    double *w0, *w0_chunk, *w0_drop, *unit;     /* [M]; w0_drop: of dropped keys */
    double *k_unit;                             /* [W / K] of each chunk's forms of K */
    double *v_best;                             /* [dim_v] */
    double *mean, *center;                      /* [dim_v] of V: of the chunk, of the first one */
    at_noise_p_sums *p_sums;                    /* [M] */
    at_noise_d *d_sums;                         /* [M] */
    int64_t *best;                              /* [M] the row's likeliest key */
    double
        *w_best; /* [M] its w, kept out of the moments: it cancels in rows that see little else */
    double *keep_best;            /* [M] its factor of dropout */
    at_row **rows;                /* [M] records: kept ones, or the block's own */
    at_row *own;                  /* [M] */
    at_fast_span *spans;          /* [M] */
    double squares_unit, dp_unit; /* of q_square, dout_square */
    double dp_factor;             /* of the chunk's dp_squares */
} at_fast_work;

/* What a thread has in hand: the block, its heads, and the chunk of keys first..first+n-1. */
typedef struct at_fast_place {
    at_fast *f;
    const at_fast_block *block;
    bool wanted;
    int64_t b, h_k, h_v, width; /* width: keys low..high of the block */
    int64_t first, n;
} at_fast_place;

/* Keys of row r in the chunk: their number; *from is the first of them, counted from the chunk's.
 */
int64_t at_fast_part_of(const at_fast_work *w, const at_fast_place *at, int64_t r, int64_t *from);

/* n keys of row r, `from` counted from the chunk's first. */
at_fast_pairs at_fast_pairs_of(const at_fast_work *w, const at_fast_place *at, int64_t r,
                               int64_t from, int64_t n);

/* Puts 0 into row r of a chunk's matrix outside of from..from+n-1. */
void at_fast_clear_double(double *x, const at_fast_place *at, int64_t r, int64_t from, int64_t n);
void at_fast_clear_float(float *x, const at_fast_place *at, int64_t r, int64_t from, int64_t n);

/* Goes to the chunk that begins at key `first`; false past the block's last key. */
bool at_fast_to_chunk(at_fast_place *at, int64_t first);

/* P of the chunk in w->p. */
void at_fast_probability_chunk(at_fast_work *w, const at_fast_place *at);

/* O = P V and LSE of a block whose scores and softmax are done. */
void at_fast_output_block(at_fast_work *w, at_fast_place *at);

/* D with its variance and dQ = scale dS K of a block whose output is done. */
void at_fast_gradient_block(at_fast_work *w, at_fast_place *at);

void at_fast_fill(double *x, double value, int64_t n);
void at_fast_clear(double *x, int64_t n);

#endif
