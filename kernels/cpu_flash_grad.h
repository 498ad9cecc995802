/* The backward of cpu.flash: what its sweeps share. */
#ifndef AT_CPU_FLASH_GRAD_H
#define AT_CPU_FLASH_GRAD_H

#include "kernels/cpu_flash_run.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ROW_TILE = AT_TILE_MAX, LANE_STRIDE = AT_TILE_MAX + AT_TILE_LANES };

/* P and dS of one tile. Sweep over rows: rows = keys, lanes = query rows. Sweep over keys: the
 * other way round. */
typedef struct at_flash_grad {
    int64_t b, h, i;           /* sequence, head, first query row */
    int rows;                  /* query rows */
    int key, keys;             /* first key, number of keys */
    float *s, *dp, *slope;     /* [AT_TILE_MAX LANE_STRIDE] */
    float *lse, *d;            /* [ROW_TILE] of the query rows; lse as at_tile_gradient takes it */
    float *fixed_qk, *fixed_v; /* by lane [dim LANE_STRIDE]: Q and dO, or K and V */
    float *moving_qk, *moving_v; /* [AT_TILE_MAX dim]: K and V, or Q and dO */
} at_flash_grad;

/* Scratch of one tile; cuts its parts from `memory` and returns what is left. */
size_t at_flash_tile_floats(const at_case *c);
float *at_flash_lay_out(const at_flash_run *run, at_flash_grad *t, float *memory);

/* LSE and D of the tile's query rows; +Inf where no key is seen makes P = 0. */
void at_flash_load_row_values(const at_flash_run *run, at_flash_grad *t);

/* Natural LSE of a row, the sink in it. */
double at_flash_stored_lse(const at_flash_run *run, int64_t b, int64_t h, int64_t i);

/* Q and dO of the tile's rows, K and V of its keys, by lane [dim LANE_STRIDE] or by row. */
void at_flash_load_rows(const at_flash_run *run, const at_flash_grad *t, bool by_lane, float *q,
                        float *d_o);
void at_flash_load_keys(const at_flash_run *run, const at_flash_grad *t, bool by_lane, float *k,
                        float *v);

/* From the loaded tiles to P in t->s and dS in t->dp, as they are before they are rounded. P has no
 * dropout in it, dS has; `sloped`: also the slope of the cap. */
void at_flash_gradient(const at_flash_run *run, const at_flash_grad *t, at_flash_span span,
                       bool by_row, bool sloped);

/* D of every live row: rowsum(dO * O), or sum P dP where the class says so. */
at_status at_flash_make_d(at_flash_run *run, at_error *err);

/* dBias and dSink, where the problem has them. */
void at_flash_bias_gradient(const at_flash_run *run);
void at_flash_sink_gradient(const at_flash_run *run);

#ifdef __cplusplus
}
#endif
#endif
