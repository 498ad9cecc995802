/* Whether a condition can hold at all, whatever the case and the environment. Inside the folder. */
#ifndef AT_POSSIBLE_H
#define AT_POSSIBLE_H

#include "harness/select/env_table.h"
#include "harness/select/expr.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_possible at_possible;

/* Over the ranges that the keys of the case and of `env` (NULL: none) declare; versions may be any
 * and none. Texts and names are borrowed. */
void at_possible_open(at_possible **out, const at_env_table *env);
void at_possible_close(at_possible *p); /* NULL is legal */

/* One more let, which may use those before it. */
at_status at_possible_let(at_possible *p, const char *name, const char *text,
                          at_error *err) AT_MUST_CHECK;

/* AT_INVALID: "column N: sentence" for a condition that never holds, or for a comparison of its
 * text that never holds where it stands. Ranges of keys, and of what is computed from them, are
 * followed along every way through the condition; relations between two keys only as far as the
 * same comparison returns. So what it refuses is impossible, and it may miss something impossible.
 * It gives up, and accepts, after 20,000 branches. */
at_status at_possible_check(const at_possible *p, const char *text, const char *const *backend,
                            size_t backend_count, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
