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

/* Sequence b of the case. Explicit lists say it all. Kinds, q and kv drawn independently from the
 * seed: none, full: the full length; half: ceil(len / 2); one: min(1, len); random: uniform in
 * 1..len (0 when len is 0); zero_first, zero_mid, zero_last: random, except that sequence 0,
 * batch / 2 or batch - 1 is empty: seed % 3 = 0: q and kv, 1: kv only (dead rows), 2: q only. */
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
