/* Makes a case smaller, one key at a time, while something stays true of it. */
#ifndef AT_SHRINK_H
#define AT_SHRINK_H

#include "harness/case/case.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum at_shrink_answer {
    AT_SHRINK_LOST, /* the smaller case no longer shows it */
    AT_SHRINK_KEPT,
    AT_SHRINK_STOP /* no time is left */
} at_shrink_answer;

typedef at_shrink_answer (*at_shrink_ask)(void *user, const at_case *smaller);

/* Walks the field table until no step is KEPT: a key to its default; an integer to 1, to half, to
 * the power of two below; an enumerator to an earlier one; the pass to a shorter one. Where a step
 * contradicts another key, that key goes to its default with it. `arch` stays. Equal cases are
 * asked once. True: *c is 1-minimal (no such step keeps it); false: `ask` said STOP, *c is the
 * smallest case found. */
AT_API bool at_shrink(at_case *c, at_shrink_ask ask, void *user) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
