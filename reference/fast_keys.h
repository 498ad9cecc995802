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
    float *square;             /* its squares in f32, times unit^2 of the head; NULL when fused */
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

/* One thread's buffers. R, C: rows and columns of a tile, K: keys of a block. */
typedef struct at_fast_key_work {
    at_fast_gradient dk, dv;
    at_fast_side q, dout;
    double *raw, *add, *p, *dp, *ds, *keep, *kept;        /* [R C] */
    float *squares, *dp_squares;                          /* [R C] */
    float *a_p, *c_p, *a_ds, *c_ds, *k_p, *k_ds;          /* [R C] */
    float *product;                                       /* [C dim] */
    double *p_most, *ds_most, *p_unit, *ds_unit, *factor; /* [C] */
    double *count_k, *count_v;                            /* [K] */
    at_fast_span *columns; /* [R] columns that each row of the tile sees, empty: first > last */
} at_fast_key_work;

/* A block of keys of one unit. */
typedef struct at_fast_key_block {
    at_fast *f;
    const at_fast_unit *unit;
    int64_t first, n;            /* among the unit's keys */
    int64_t first_row, last_row; /* rows that see any of them */
} at_fast_key_block;

/* A tile of the pairs of some rows of one query head and columns column..column+n-1 of the block.
 * w->columns says which of its columns each row sees; w->q and w->dout hold its rows. */
typedef struct at_fast_tile {
    int64_t h_k, h_v; /* heads of the unit */
    int64_t rows, column, n;
    const at_row *records;  /* [rows] */
    double *raw, *add, *dp; /* rows of `wide` elements */
    float *squares, *dp_squares;
    int64_t wide;
    double squares_factor, dp_factor;
    double *p, *ds, *keep, *kept; /* [rows n], p, ds, kept 0 where a row does not see a column */
} at_fast_tile;

/* Rows first..first+n-1 of a head of Q or dO, with their forms. */
void at_fast_load_side(at_fast_side *s, const at_fast *f, at_tensor_id id, int64_t b, int64_t h,
                       int64_t first, int64_t n);

/* P and dS of a tile of rows first.. of query head h whose raw and dp hold products alone. */
void at_fast_tile_values(at_fast_key_work *w, const at_fast_key_block *at, const at_fast_tile *t,
                         int64_t h, int64_t first);

/* What the tile adds to the query head's dV = P^T dO and dK = dS^T Q. */
void at_fast_tile_sums(at_fast_key_work *w, const at_fast_key_block *at, const at_fast_tile *t);

/* What it adds to the error scale; needs P. */
void at_fast_tile_scale(at_fast_key_work *w, const at_fast_key_block *at, const at_fast_tile *t);

/* Buffers for tiles of `rows` x `columns` and blocks of `keys` keys; `fused`: tiles come from the
 * row pass. */
at_status at_fast_key_work_open(at_fast_key_work *w, const at_fast *f, int64_t rows,
                                int64_t columns, int64_t keys, bool fused, at_arena *arena,
                                at_error *err) AT_MUST_CHECK;

/* A block from its first head to its last one: start, then for each query head of the unit
 * open_head, its tiles, add_head; then finish, which fills dK and dV of the gold. */
void at_fast_key_start(at_fast_key_work *w, const at_fast_key_block *at);
void at_fast_key_open_head(at_fast_key_work *w, const at_fast_key_block *at);
void at_fast_key_add_head(at_fast_key_work *w, const at_fast_key_block *at, int64_t h);
void at_fast_key_finish(at_fast_key_work *w, const at_fast_key_block *at);

#endif
