/* Named sub-conditions of a rule file, evaluated once a case. Inside the folder. */
#ifndef AT_LETS_H
#define AT_LETS_H

#include "harness/select/expr.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_LETS_MAX = 128, AT_LET_SLOTS = 64 };

/* Constants take no slot. Names and texts are borrowed. */
typedef struct at_lets {
    size_t fixed;       /* names that stand before the lets */
    size_t count;       /* of all names */
    at_expr_name *name; /* scope of the rules */
    at_expr *slot[AT_LET_SLOTS];
    const char *slot_name[AT_LET_SLOTS];
    size_t slots;
} at_lets;

/* Takes copies of `fixed` names of the environment. */
void at_lets_open(at_lets *lets, const at_expr_name *fixed, size_t count);
void at_lets_close(at_lets *lets);

/* Compiles one more; it may use the names before it. */
at_status at_lets_add(at_lets *lets, const char *name, const char *text,
                      at_error *err) AT_MUST_CHECK;

/* The slots and those that they read. */
uint64_t at_lets_reach(const at_lets *lets, uint64_t slots);

/* Fills the wanted slots (a reach) that are not in *done yet, in slot and frame->bad. */
void at_lets_fill(const at_lets *lets, at_expr_frame *frame, int64_t slot[AT_LET_SLOTS],
                  uint64_t *done, uint64_t wanted);

/* Appends what went wrong in the first bad let that an expression with these slots reads. */
void at_lets_explain(const at_lets *lets, const at_expr_frame *frame, uint64_t slots,
                     at_error *err);

#ifdef __cplusplus
}
#endif
#endif
