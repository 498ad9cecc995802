/* Lengths and diagonals of the sequences of a case, one sequence at a time. */
#ifndef AT_LENS_H
#define AT_LENS_H

#include "harness/case/case.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_extent {
    int64_t len_q, len_kv; /* live rows and keys */
    int64_t diag;          /* off: key j is on row i's diagonal when j = i + off */
} at_extent;

/* Sequence b of the case; the kinds of `lens` are described at at_problem_open. */
AT_API at_extent at_extent_of(const at_case *c, int64_t b);

/* Keys first..last (inclusive) that row i sees; first = 0, last = -1 when it sees none, as rows
 * beyond the length do. */
AT_API void at_extent_keys(const at_case *c, const at_extent *x, int64_t i, int64_t *first,
                           int64_t *last);

/* Keys that any row sees; they are always contiguous. */
AT_API void at_extent_seen(const at_case *c, const at_extent *x, int64_t *first, int64_t *last);

#ifdef __cplusplus
}
#endif
#endif
