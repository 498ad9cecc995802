/* cpu.flash with one planted fault each: what the judge must reject. */
#ifndef AT_MUTANTS_H
#define AT_MUTANTS_H

#include "harness/backend.h"
#include "kernels/cpu_flash.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Spoils tensor `id` of the problem after a healthy launch. */
typedef void (*at_spoil)(const at_problem *p, at_tensor_id id);

enum { AT_MUTANT_CASES = 4 };

/* What at_backend.data of a mutant points at. */
typedef struct at_mutant {
    at_flash_fault flash; /* faults inside the computation */
    at_spoil spoil;       /* or corruption of `target` after step `step`; NULL: none */
    at_tensor_id target;
    at_step step;       /* the first step whose verdict is not PASS */
    unsigned kinds;     /* bit set 1 << at_kind: the statuses that the step may get */
    bool drop_coarse;   /* the case's dropout is rounded to sixteenths */
    bool repeated;      /* shows only when two launches are compared */
    bool subtle;        /* within the bound by nature: left to statistics over many elements */
    const char *source; /* report or text that describes it; NULL: textbook */
    const char *cases[AT_MUTANT_CASES]; /* small cases in which the fault acts */
} at_mutant;

/* The mutants, each a backend named mutant.NAME; i < at_mutant_count(). */
AT_API size_t at_mutant_count(void);
AT_API const at_backend *at_mutant_at(size_t i);

/* Tables and functions of this folder. */
extern const at_backend at_mutants_forward[], at_mutants_backward[], at_mutants_feature[];
extern const at_backend at_mutants_reported[];
extern const size_t at_mutants_forward_count, at_mutants_backward_count, at_mutants_feature_count;
extern const size_t at_mutants_reported_count;
at_status at_mutant_forward(const at_backend *self, void *state, const at_problem *p,
                            const char *engine, at_error *err);
at_status at_mutant_backward(const at_backend *self, void *state, const at_problem *p,
                             const char *engine, at_error *err);
at_status at_mutant_open(const at_backend *self, void **state, at_error *err);
at_status at_mutant_claim(const at_backend *self, void *state, const at_case *c,
                          at_engines *engines, at_reason *why);
at_status at_mutant_supports(const at_backend *self, const at_case *c, at_reason *why);
void at_mutant_close(const at_backend *self, void *state);

/* One row of a table: AT_MUTANT_ROW("name", "what it does", members of at_mutant...). */
#define AT_MUTANT_ROW(title, sentence, ...)                                                        \
    {                                                                                              \
        .name = "mutant." title, .version = "1.0.0", .doc = sentence, .arch = AT_ARCH_CPU,         \
        .contract = {.pad = AT_PAD_ZERO},                                                          \
        .promises = AT_PROMISES_BACKWARD | AT_PROMISES_STATS | AT_PROMISES_DETERMINISM |           \
                    AT_PROMISES_MASK | AT_MUTANT,                                                  \
        .data = &(const at_mutant){__VA_ARGS__}, .supports = at_mutant_supports,                   \
        .open = at_mutant_open, .claim = at_mutant_claim, .forward = at_mutant_forward,            \
        .backward = at_mutant_backward, .close = at_mutant_close,                                  \
    }

/* Corruptions (spoil.c). Rows are live rows; a tensor too small for one is left alone. */
void at_spoil_zero(const at_problem *p, at_tensor_id id);
void at_spoil_negate(const at_problem *p, at_tensor_id id);
void at_spoil_double(const at_problem *p, at_tensor_id id);
void at_spoil_percent(const at_problem *p, at_tensor_id id);      /* x 1.01 */
void at_spoil_unscale(const at_problem *p, at_tensor_id id);      /* / scale */
void at_spoil_shift(const at_problem *p, at_tensor_id id);        /* row s gets row s - 1 */
void at_spoil_uniform(const at_problem *p, at_tensor_id id);      /* o: mean of the values */
void at_spoil_neighbour(const at_problem *p, at_tensor_id id);    /* one element copies the next */
void at_spoil_fragment(const at_problem *p, at_tensor_id id);     /* 16 x 8 zeros */
void at_spoil_columns(const at_problem *p, at_tensor_id id);      /* last 16 columns rotated by 8 */
void at_spoil_displace(const at_problem *p, at_tensor_id id);     /* columns past 64 (half) move */
void at_spoil_swap_heads(const at_problem *p, at_tensor_id id);   /* heads 0 and 1 */
void at_spoil_repeat_batch(const at_problem *p, at_tensor_id id); /* sequence 0 everywhere */
void at_spoil_last_row_zero(const at_problem *p, at_tensor_id id);
void at_spoil_last_row_copy(const at_problem *p, at_tensor_id id); /* = the row before */
void at_spoil_half_tile(const at_problem *p, at_tensor_id id); /* len % 128 = 64: last 64 rows 0 */
void at_spoil_last_tile_zero(const at_problem *p, at_tensor_id id); /* of 64, where there are two */
void at_spoil_nan(const at_problem *p, at_tensor_id id);            /* the last live element */
void at_spoil_infinity(const at_problem *p, at_tensor_id id);       /* the first live element */
void at_spoil_unwritten(const at_problem *p, at_tensor_id id);
void at_spoil_last_row_unwritten(const at_problem *p, at_tensor_id id);
void at_spoil_last_columns_unwritten(const at_problem *p, at_tensor_id id); /* past 8 n */
void at_spoil_other_heads_unwritten(const at_problem *p, at_tensor_id id); /* but the group's 1st */
void at_spoil_transpose(const at_problem *p, at_tensor_id id);             /* lse as [b s h] */
void at_spoil_dead_infinity(const at_problem *p, at_tensor_id id); /* lse of dead rows +inf */
void at_spoil_dead_garbage(const at_problem *p, at_tensor_id id);  /* dead rows 1 */
void at_spoil_pad_nan(const at_problem *p, at_tensor_id id);       /* rows beyond the lengths */
void at_spoil_write_after(const at_problem *p, at_tensor_id id);   /* one element past the end */
void at_spoil_write_before(const at_problem *p, at_tensor_id id);
void at_spoil_write_gap(const at_problem *p, at_tensor_id id);     /* a token between sequences */
void at_spoil_read_after(const at_problem *p, at_tensor_id id);    /* 0 x what stands past v */
void at_spoil_write_row_gap(const at_problem *p, at_tensor_id id); /* past the first row */
void at_spoil_unit(const at_problem *p, at_tensor_id id);        /* stored as if its unit were 1 */
void at_spoil_repeat_head(const at_problem *p, at_tensor_id id); /* head 0 everywhere */
void at_spoil_columns_past_qk(const at_problem *p, at_tensor_id id); /* columns past dqk poisoned */
void at_spoil_wrap(const at_problem *p, at_tensor_id id);        /* offsets modulo 2^16 elements */
void at_spoil_batch_limit(const at_problem *p, at_tensor_id id); /* past sequence 255 poisoned */
void at_spoil_idle_unwritten(const at_problem *p, at_tensor_id id); /* len_q = 0: poisoned */
void at_spoil_heads_as_rows(const at_problem *p, at_tensor_id id);  /* where heads = rows */
void at_spoil_swap_dk_dv(const at_problem *p, at_tensor_id id);

#ifdef __cplusplus
}
#endif
#endif
