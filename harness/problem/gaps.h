/* Memory of a buffer that belongs to no tensor: between tokens, heads, sequences, before an offset,
 * pages that nobody uses. Inside the library. */
#ifndef AT_GAPS_H
#define AT_GAPS_H

#include "harness/problem/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of sequence b that the tensor has in memory: its length when packed (thd), else all. */
int64_t at_problem_rows(const at_problem *p, at_tensor_id id, int64_t b);

/* The tensor that owns buffer `home` leaves gaps in it, together with the other slices. */
bool at_problem_has_gaps(const at_problem *p, at_tensor_id home);

/* Makes `cover` for every output buffer with gaps. */
at_status at_problem_find_gaps(at_problem *p, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
