/* One launch of cpu.flash: what forward and backward share. */
#ifndef AT_CPU_FLASH_RUN_H
#define AT_CPU_FLASH_RUN_H

#include "kernels/cpu_flash.h"
#include "kernels/cpu_tile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An engine of cpu.flash: the same mathematics in another order or form. */
typedef struct at_flash_engine {
    const char *name;
    int tile;      /* keys a tile: 32, 64, 128 */
    int splits;    /* parts of the keys, merged through LSE; 0: as the case says */
    bool reversed; /* tiles in descending order */
    bool p_f32;    /* P and dS are not rounded to the inputs' type */
    bool base2;    /* exp2 of scores times log2(e) */
    bool lazy;     /* sums are rescaled only where the maximum has grown by more than 8 ln 2 */
} at_flash_engine;

typedef struct at_flash_run {
    const at_problem *p;
    at_flash_engine engine;
    at_numeric_class numeric;  /* as declared: p, d_from_p, head_rounded, units, variant */
    at_flash_fault fault;      /* all zero where none acts in this pass */
    at_tile_softmax softmax;   /* scale, softcap */
    at_tile_rounding rounding; /* of P and dS */
    float p_unit, ds_unit;     /* what a stored 1 of them stands for: 1 but in fp8 */
    bool biased, masked;       /* bias or ALiBi, a dense mask */
    float drop;                /* 1 / (1 - dropout); 0 without dropout */
    at_tile_rounding sums;     /* of accumulators: AT_TILE_KEEP without a fault */
    int score_dims;            /* dims that q.k runs over */
    int dp_dims, d_dims;       /* dims that dO.v and D run over */
    int qk_stride, v_stride;   /* rows of dim_qk and dim_v floats */
    int threads;
    int *first, *last; /* [batch len_q] keys that each row sees: empty when first > last */
    float *d;          /* [batch heads_q len_q] backward: rowsum(dO * O), or sum P dP */
    float *scratch;    /* [threads scratch_floats] */
    size_t scratch_floats;
} at_flash_run;

/* Fills everything but d; `floats` is the scratch of one thread. at_flash_finish frees it, also
 * after a failure. */
at_status at_flash_start(at_flash_run *run, const at_backend *self, const at_problem *p,
                         const char *engine, int pass, int64_t items, size_t floats, at_error *err);
void at_flash_finish(at_flash_run *run);

/* This thread's scratch. */
float *at_flash_scratch(const at_flash_run *run);

/* Heads of K and V that query head h reads. */
int64_t at_flash_k_head(const at_flash_run *run, int64_t h);
int64_t at_flash_v_head(const at_flash_run *run, int64_t h);

/* Key range that any (low..high) and that every (full_low..full_high) of `rows` rows from row i of
 * sequence b sees; low > high when none sees a key. Rows without keys do not count in `any`. */
typedef struct at_flash_span {
    int low, high, full_low, full_high;
} at_flash_span;
at_flash_span at_flash_span_of(const at_flash_run *run, int64_t b, int64_t i, int rows);

/* Some query rows against some keys. by_row: tiles are [rows keys], else [keys rows]. */
typedef struct at_flash_block {
    int64_t b, h, i; /* sequence, query head, first row */
    int rows, key, keys;
    bool by_row;
} at_flash_block;

/* Dot products to masked scores in place; slope as in at_tile_score. */
void at_flash_score(const at_flash_run *run, const at_flash_block *block, at_flash_span span,
                    at_tile s, float *slope);

/* x *= factor where dropout keeps the pair, and 0 elsewhere. */
void at_flash_drop(const at_flash_run *run, const at_flash_block *block, at_tile x, float factor);

/* The score of the head's sink; -Inf without one. */
double at_flash_sink(const at_flash_run *run, int64_t h);

/* log(exp(a) + exp(b)). */
double at_flash_log_sum(double a, double b);

/* Rounds what becomes P or dS at the multiply. */
void at_flash_round(const at_flash_run *run, float unit, float *x, size_t n);

/* Rows [s, s + rows) of (b, h) as floats, zero from row `live` on and past the dims.
 * by_lane: out[dim * stride + row], otherwise out[row * stride + dim]. */
typedef struct at_flash_rows {
    at_tensor_id tensor;
    int64_t b, h, s;
    int rows, stride;
    int64_t live;
    bool by_lane;
} at_flash_rows;
void at_flash_load(const at_flash_run *run, const at_flash_rows *what, float *out);

/* Stores one row, which it may change; clears rows `from`.. of a padded tensor (packed ones have
 * none). */
void at_flash_store(const at_flash_run *run, at_tensor_id id, int64_t b, int64_t h, int64_t s,
                    float *row);
void at_flash_clear(const at_tensor *t, int64_t b, int64_t h, int64_t from);

/* Keys in key tile `tile` of sequence b: the last one ends with the length, with the fault
 * pad_scored it is whole. */
int at_flash_keys_in_tile(const at_flash_run *run, int64_t b, int tile);

#ifdef __cplusplus
}
#endif
#endif
