/* Two problems and what checks do with them; used inside harness/checks only. */
#ifndef AT_CHECKS_RELATION_H
#define AT_CHECKS_RELATION_H

#include <math.h>

#include "harness/checks/checks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* State of one check. p[0] is the problem as it is (or as the check makes it), p[1] its variant. */
typedef struct at_relation {
    const at_backend *backend;
    void *state;
    const char *engine;
    at_case c;
    at_arena *arena[2];
    at_problem p[2];
    bool has_backward;
    at_check check;
    at_step step;
    at_reason *why;
    bool broken;
} at_relation;

/* A bitwise copy of rows may be asked for: [b h s] of p[0] to that of p[1]; false: not compared. */
typedef bool (*at_row_map)(const at_relation *b, at_tensor_id id, const int64_t row[3],
                           int64_t other[3]);

/* Opens problem i for the case: inputs as generated. False: the backend does not take the case. */
bool at_relation_open(at_relation *b, int i, const at_case *c);
/* Launches forward and, where the pass has one, backward. False: a launch failed, which is noted.
 */
bool at_relation_launch(at_relation *b, int i);

/* Notes that the relation does not hold; returns false. */
bool at_relation_break(at_relation *b, at_step step, const char *format, ...) AT_PRINTF(3, 4);

/* Compares rows bit by bit, of o, lse and the gradients up to `last`. */
bool at_relation_same(at_relation *b, at_step last, at_row_map map);

/* |got - want| <= slack, or a note that names the element. */
bool at_relation_close(at_relation *b, at_tensor_id id, const int64_t row[3], int64_t d, double got,
                       double want, double slack);

/* Row r of problem i as values (not as stored, in fp8). */
double at_relation_value(const at_relation *b, int i, at_tensor_id id, int64_t bb, int64_t h,
                         int64_t s, int64_t d);
/* Sets an input element of problem i. */
void at_relation_set(at_relation *b, int i, at_tensor_id id, int64_t bb, int64_t h, int64_t s,
                     int64_t d, double x);

/* Unit roundoffs: of the stored outputs; of P and dS at the multiply, twice where P is stored. */
double at_relation_u(const at_relation *b);
double at_relation_u_p(const at_relation *b);
/* Largest |V| that sequence bb, head h of q could see. */
double at_relation_top_v(const at_relation *b, int i, int64_t bb, int64_t h);
/* What scores of this row may be off, as a relative error of P. */
double at_relation_noise(const at_relation *b, double score, double lse);

/* Nothing but q, k, v, masks by position and lengths; the only features that most checks know. */
bool at_relation_is_plain(const at_case *c);
/* Equal launches promise equal bits. */
bool at_relation_has_bits(const at_relation *b);
/* No lengths are passed, or full ones: every sequence is whole. */
bool at_relation_is_whole(const at_case *c);

/* The checks; each returns its outcome. */
at_check_outcome at_check_batch(at_relation *b);
at_check_outcome at_check_heads(at_relation *b);
at_check_outcome at_check_garbage(at_relation *b);
at_check_outcome at_check_prefix(at_relation *b);
at_check_outcome at_check_full_lens(at_relation *b);
at_check_outcome at_check_grouped(at_relation *b);
at_check_outcome at_check_true_mask(at_relation *b);
at_check_outcome at_check_v_power(at_relation *b);
at_check_outcome at_check_v_ones(at_relation *b);
at_check_outcome at_check_v_onehot(at_relation *b);
at_check_outcome at_check_k_constant(at_relation *b);
at_check_outcome at_check_sums(at_relation *b);
at_check_outcome at_check_ds_rows(at_relation *b);
at_check_outcome at_check_split(at_relation *b);
at_check_outcome at_check_exact(at_relation *b);

#ifdef __cplusplus
}
#endif
#endif
