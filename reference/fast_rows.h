/* What the files of the row pass share: a thread's buffers, the block and the chunk in hand. */
#ifndef AT_FAST_ROWS_H
#define AT_FAST_ROWS_H

#include "reference/fast_keys.h"
#include "reference/fast_pairs.h"

/* One thread's buffers. M: rows of a block, K: keys of a chunk, W: keys that a block sees. */
typedef struct at_fast_work {
    double *q, *dout;                           /* [M dim] */
    double *k, *v;                              /* [K dim] */
    double *raw, *add, *dp;                     /* [M W]; add where something is added */
    double *p, *ds;                             /* [M K] */
    double *keep, *kept;                        /* [M K] dropout's factors, and P times them */
    float *squares, *dp_squares;                /* [M W] */
    float *a, *c, *w;                           /* [M K] */
    float *q_square, *dout_square;              /* [M dim] */
    float *plain, *absolute, *square, *product; /* [K dim], product [M dim] */
    double *o, *o_a, *o_c, *o_w1, *o_w2;        /* [M dim_v] */
    double *dq, *dq_a, *dq_c, *mass;            /* [M dim_qk] */
    double *w0, *w0_chunk, *w0_drop, *unit;     /* [M]; w0_drop: of dropped keys */
    double *k_unit, *v_unit;                    /* [W / K] of each chunk's forms of K and V */
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
} at_fast_work;

/* What a thread has in hand: the block, its heads, and the chunk of keys first..first+n-1. */
typedef struct at_fast_place {
    at_fast *f;
    const at_fast_block *block;
    bool wanted;
    int64_t b, h_k, h_v, width; /* width: keys low..high of the block */
    int64_t first, n;
    at_fast_key_work *keys; /* not NULL: dK and dV are made along with the rows, for this unit */
    const at_fast_key_block *unit;
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

/* K and V of the chunk [n dim]: the unit's copy, or one in w->k, w->v. */
const double *at_fast_chunk_k(at_fast_work *w, const at_fast_place *at);
const double *at_fast_chunk_v(at_fast_work *w, const at_fast_place *at);

/* What a chunk whose P and dS are made adds to dK and dV of the place's unit. */
void at_fast_fused_chunk(at_fast_work *w, const at_fast_place *at);

/* Buffers for blocks of `rows` rows, `scores` pairs and chunks of `keys` keys. */
at_status at_fast_work_open(at_fast_work *w, const at_fast *f, int64_t rows, int64_t scores,
                            int64_t keys, at_arena *arena, at_error *err) AT_MUST_CHECK;

/* Grows `block`, which begins at list[first], while rows share their heads and their keys. */
void at_fast_grow_block(const at_fast *f, at_fast_block *block, int64_t (*list)[3], int64_t first,
                        int64_t n);

/* Runs the place's block, whose heads and width it sets. */
void at_fast_run_rows(at_fast_work *w, at_fast_place *at);

void at_fast_fill(double *x, double value, int64_t n);
void at_fast_clear(double *x, int64_t n);

#endif
