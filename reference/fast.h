/* The fast path: the same answer as the golden one within fp64 rounding, in blocks of rows and keys
 * multiplied by OpenBLAS, on all threads. Internal to reference/fast*.c. */
#ifndef AT_FAST_H
#define AT_FAST_H

#include "reference/noise.h"
#include "reference/score.h"

/* Block sizes. A block of score rows keeps its raw scores over all the keys it sees, which limits
 * its rows where keys are many. */
enum {
    AT_FAST_ROWS = 128, /* score rows a block of the row pass, query rows a tile of the key pass */
    AT_FAST_ROWS_LEAST = 16, /* ... however many keys there are */
    AT_FAST_KEYS = 256,      /* keys a chunk of the row pass */
    AT_FAST_COLUMNS = 128,   /* keys a block of the key pass */
    AT_FAST_WASTE = 4, /* pairs that a block computes for each one that is seen, at most, ... */
    AT_FAST_SPARE = 1 << 14, /* ... beside so many */
    AT_FAST_UNITS_LEAST = 4, /* units that make one task each worth while */
    AT_FAST_FUSED = 1 << 20, /* elements of K that such a task may hold sums of */
    AT_FAST_SCORES = 1 << 21 /* raw scores a block may keep */
};

/* Heads that share gradients: the least set of query heads whose K heads and V heads nobody else
 * uses. keys: those wanted, in order, or NULL for all. first_dk, first_dv: gold row of the first
 * key of the unit's first head; each further head stands `n_keys` rows later. */
typedef struct at_fast_unit {
    int64_t b, head; /* first query head */
    int64_t n_keys;
    const int64_t *keys;
    int64_t first_dk, first_dv;
} at_fast_unit;

typedef struct at_fast_span {
    int64_t first, last;
} at_fast_span;

/* One block of work of the row pass: consecutive entries of a row list, all of one sequence and
 * with one K head and one V head. gold: index of the first of them in the q-side gold tensors, -1
 * when only LSE and D are wanted. low..high: keys that any of them sees (empty: low > high). */
typedef struct at_fast_block {
    int64_t (*row)[3];
    int64_t n, gold, low, high;
} at_fast_block;

typedef struct at_fast {
    const at_problem *p;
    at_gold *gold;
    at_noise_type types[AT_TENSOR_COUNT];
    at_noise m;
    at_score score;
    bool scale, train;           /* error scale wanted; gradients wanted */
    int64_t group_k, group_v;    /* query heads a K head, a V head */
    int64_t unit_heads;          /* query heads a unit: least common multiple of the groups */
    int64_t *first_q, *first_kv; /* [batch] tokens of the sequences before */
    at_fast_span *span;          /* [sum len_q] keys that each row sees */
    at_fast_span *viewers;       /* [sum len_kv] rows that see each key; they are contiguous */
    double *seen;                /* [sum len_kv] rows of the sequence that see each key */
    at_row *rows;                /* of the units' heads: what the key pass needs of each row */
    int64_t *first_row;          /* [batch heads_q] first record of a head, -1: not kept */
    at_fast_unit *units;         /* for the key pass */
    int64_t n_units;
    int threads; /* that may run at once */
} at_fast;

/* Fills the context: spans, counts, room for the rows. */
at_status at_fast_open(at_fast *out, at_gold *gold, const at_problem *p,
                       const at_reference_options *options, at_arena *arena,
                       at_error *err) AT_MUST_CHECK;

/* Room for the records of all rows of the units' heads. */
at_status at_fast_keep_rows(at_fast *f, at_arena *arena, at_error *err) AT_MUST_CHECK;

/* The row pass over a row list in [b h s] order: LSE and D of every row, and O, LSE, dQ with their
 * scale into the gold tensors when `wanted` is set (the list is theirs). */
at_status at_fast_rows(at_fast *f, int64_t (*list)[3], int64_t n, bool wanted, at_arena *arena,
                       at_error *err) AT_MUST_CHECK;

/* The key pass: dK and dV of the units' keys. The rows that see them have been through the row
 * pass. */
at_status at_fast_keys(at_fast *f, at_arena *arena, at_error *err) AT_MUST_CHECK;

/* Record of row i of (b, h); NULL where none is kept. */
static inline at_row *at_fast_row(const at_fast *f, int64_t b, int64_t h, int64_t i)
{
    int64_t first = f->first_row[b * f->p->c.heads_q + h];
    return first >= 0 ? &f->rows[first + i] : NULL;
}

/* dBias of the rows listed in the gold tensor, and dSink of its heads from the rows' records. */
at_status at_fast_bias(at_fast *f, at_arena *arena, at_error *err) AT_MUST_CHECK;
void at_fast_sink(at_fast *f);

/* The answer: complete, or sampled where path is AT_REFERENCE_AUTO and the case is large. */
at_status at_fast_run(at_gold *out, const at_problem *p, const at_reference_options *options,
                      at_arena *arena, at_error *err) AT_MUST_CHECK;

/* Whether the units are many and small enough for one task each, whatever the number of threads;
 * and both passes so. */
bool at_fast_fuses(const at_fast *f);
at_status at_fast_fused(at_fast *f, at_arena *arena, at_error *err) AT_MUST_CHECK;

/* Threads worth starting for n pieces of work. */
int at_fast_threads(const at_fast *f, int64_t n);

#endif
