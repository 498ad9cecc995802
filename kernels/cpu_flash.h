/* `cpu.flash`: tiled attention on the CPU, and the faults that can be planted in it. */
#ifndef AT_CPU_FLASH_H
#define AT_CPU_FLASH_H

#include "harness/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Passes in which a fault acts; 0 in at_flash_fault.passes means both. */
enum { AT_FLASH_FORWARD = 1, AT_FLASH_BACKWARD = 2 };

typedef enum at_flash_scale_fault {
    AT_FLASH_SCALE_RIGHT,
    AT_FLASH_SCALE_TWICE,  /* scale * scale */
    AT_FLASH_SCALE_FROM_V, /* 1/sqrt(dim_v), also where the case gives a scale */
    AT_FLASH_SCALE_UP      /* 1.02 scale */
} at_flash_scale_fault;

/* With LOG2 and NEGATED the backward reads LSE back in the same wrong form, so that only LSE itself
 * is wrong; SHIFTED spoils the gradients too. */
typedef enum at_flash_lse_fault {
    AT_FLASH_LSE_RIGHT,
    AT_FLASH_LSE_LOG2,
    AT_FLASH_LSE_NEGATED,
    AT_FLASH_LSE_SHIFTED /* + 0.02 */
} at_flash_lse_fault;

typedef enum at_flash_d_fault {
    AT_FLASH_D_RIGHT,
    AT_FLASH_D_MISSING,    /* D = 0 */
    AT_FLASH_D_ROW_BEFORE, /* of row i - 16, of row 0 for the first 16 rows */
    AT_FLASH_D_TRUNCATED   /* without the last 16 dims of v (half of them below 32) */
} at_flash_d_fault;

/* What a row that sees no key leaves in o. */
typedef enum at_flash_dead_fault {
    AT_FLASH_DEAD_RIGHT,
    AT_FLASH_DEAD_NAN,      /* 0 / 0 */
    AT_FLASH_DEAD_MEAN,     /* mean of the sequence's values, LSE = log(len_kv) */
    AT_FLASH_DEAD_UNWRITTEN /* o and lse keep what memory held */
} at_flash_dead_fault;

typedef enum at_flash_mask_fault {
    AT_FLASH_MASK_RIGHT,
    AT_FLASH_MASK_LOST,    /* the dense mask is ignored */
    AT_FLASH_MASK_FIRST,   /* every sequence and head reads the dense mask of the first ones */
    AT_FLASH_MASK_INVERTED /* bool: 1 hides the key */
} at_flash_mask_fault;

typedef enum at_flash_alibi_fault {
    AT_FLASH_ALIBI_RIGHT,
    AT_FLASH_ALIBI_HEAD,   /* slope 2^(-8 h / H), counting heads from 1 */
    AT_FLASH_ALIBI_CORNER, /* distances from the top left corner */
    AT_FLASH_ALIBI_SIGNED  /* slope (j - i) */
} at_flash_alibi_fault;

typedef enum at_flash_sink_fault {
    AT_FLASH_SINK_RIGHT,
    AT_FLASH_SINK_LOST, /* left out of the denominator */
    AT_FLASH_SINK_HEAD  /* of the next head */
} at_flash_sink_fault;

typedef enum at_flash_read_fault {
    AT_FLASH_READ_RIGHT,
    AT_FLASH_READ_DENSE,     /* k and v as if their rows had no gaps and slices between them */
    AT_FLASH_READ_V_AS_K,    /* v from where k starts: the offset in the fused buffer is lost */
    AT_FLASH_READ_DO_AS_O,   /* do with the strides of o */
    AT_FLASH_READ_PAGE_ROW,  /* the page table's row of the first sequence for all */
    AT_FLASH_READ_PAGE_NONE, /* the table ignored: sequence b has pages b n, b n + 1 .. */
    AT_FLASH_READ_UNIT_K,    /* fp8: the scale of k is forgotten */
    AT_FLASH_READ_UNIT_V
} at_flash_read_fault;

/* Planted faults of cpu.flash; all zero = none. A backend made of the at_flash_* functions below
 * points its `data` at one of these (NULL = none). Flags are 0 or 1 unless said otherwise. A fault
 * that has nothing to act on in a case (no window, one key tile, ungrouped heads) changes nothing.
 */
typedef struct at_flash_fault {
    uint8_t passes; /* AT_FLASH_FORWARD | AT_FLASH_BACKWARD; 0: both */

    int8_t edge_left;       /* added to wl where bounded: 1 sees one key more, -1 one less */
    int8_t edge_right;      /* added to wr where bounded (0 under mask=causal) */
    int8_t diagonal;        /* added to the diagonal's offset under causal and band masks */
    uint8_t corner_swapped; /* tl for br and br for tl; align=N keeps its diagonal */
    uint8_t last_key_lost;  /* the last live key of each sequence is masked */
    uint8_t pad_scored;     /* keys from the length to the end of its tile score 0, value 0 */
    uint8_t last_tile_lost; /* the last key tile of a row tile that has two or more */
    uint8_t stale_v;        /* the last key tile uses the V of the tile before it */
    uint8_t no_rescale;     /* the accumulator is not rescaled when the row maximum grows */
    uint8_t scale;          /* at_flash_scale_fault */
    uint8_t softcap_lost;
    uint8_t head_modulo;      /* kv head h % heads_kv in place of h / group */
    uint8_t start_off;        /* thd: sequences after the first read k and v one token early */
    uint8_t dims_tail;        /* n in 8 16 32 64: scores leave out the dims past a multiple of n */
    uint8_t low_accumulators; /* O, dQ, dK, dV pass through the input type after every tile */
    uint8_t toward_zero;      /* P and dS are rounded toward zero */
    uint8_t dead;             /* at_flash_dead_fault */
    uint8_t lse;              /* at_flash_lse_fault */
    uint8_t mask;             /* at_flash_mask_fault */
    uint8_t alibi;            /* at_flash_alibi_fault */
    uint8_t sink;             /* at_flash_sink_fault */
    uint8_t read;             /* at_flash_read_fault */
    uint8_t bias_head;        /* the bias of head h + 1 */
    uint8_t bias_lost;        /* neither bias nor ALiBi is added */
    uint8_t drop_shifted;     /* row i drops what the mask says of row i + 1 */
    uint8_t drop_unscaled;    /* without the factor 1 / (1 - dropout) */
    uint8_t max_from_zero;    /* the running maximum starts at 0, not at -inf */
    uint8_t nondeterministic; /* every other launch runs other tiles in reverse order */

    uint8_t d;              /* at_flash_d_fault */
    uint8_t dp_short;       /* dP leaves out the last 16 dims of v (half of them below 32) */
    uint8_t group_sum_lost; /* dK, dV of the group's last query head alone */
    uint8_t exp_split;      /* P = exp(S) exp(-LSE): overflows where LSE < -88.7 */
    uint8_t slope_lost;     /* dS without the softcap's slope */
    uint8_t dbias_first;    /* dBias of the first sequence and head that it serves */
    uint8_t dbias_sloped;   /* dBias with the softcap's slope */
    uint8_t dsink_first;    /* dSink of the first sequence alone */
} at_flash_fault;

/* The functions of cpu.flash for backends with planted faults; `self->data` is a const
 * at_flash_fault * or NULL. Engines: tile64 tile32 tile128 reversed split p32 exp2. */
at_status at_flash_supports(const at_backend *self, const at_case *c, at_reason *why);
at_status at_flash_open(const at_backend *self, void **state, at_error *err);
at_status at_flash_claim(const at_backend *self, void *state, const at_case *c, at_engines *engines,
                         at_reason *why);
at_status at_flash_forward(const at_backend *self, void *state, const at_problem *p,
                           const char *engine, at_error *err);
at_status at_flash_backward(const at_backend *self, void *state, const at_problem *p,
                            const char *engine, at_error *err);
void at_flash_close(const at_backend *self, void *state);

#ifdef __cplusplus
}
#endif
#endif
