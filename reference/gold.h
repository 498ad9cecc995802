/* Storage of the reference's answer. */
#ifndef AT_GOLD_H
#define AT_GOLD_H

#include "reference/reference.h"

/* Tensors that the pass makes, of AT_O, AT_LSE, AT_DQ, AT_DK, AT_DV, AT_DBIAS, AT_DSINK. */
bool at_gold_makes(const at_case *c, at_tensor_id id);

/* Sequences, heads and row size of one of them; 1 where it is broadcast. */
int64_t at_gold_batch(const at_case *c, at_tensor_id id);
int64_t at_gold_heads(const at_case *c, at_tensor_id id);
int64_t at_gold_dim(const at_case *c, at_tensor_id id);

/* Live rows of the whole tensor. */
int64_t at_gold_total(const at_problem *p, at_tensor_id id);

/* Memory for `rows` rows of a tensor: row, ref, bound and sigma (unless no_scale), dead (q side);
 * total_rows is set, the row list is not. */
at_status at_gold_open(at_gold_tensor *out, const at_problem *p, at_tensor_id id, int64_t rows,
                       bool no_scale, at_arena *arena, at_error *err) AT_MUST_CHECK;

/* All live rows in [b h s] order; `out` was opened for that many. */
void at_gold_list(at_gold_tensor *out, const at_problem *p, at_tensor_id id);

/* Opens and lists every tensor that the pass makes, completely. */
at_status at_gold_open_all(at_gold *out, const at_problem *p, bool no_scale, at_arena *arena,
                           at_error *err) AT_MUST_CHECK;

/* Index of the first row of (b, h) in a complete tensor. */
int64_t at_gold_first(const at_problem *p, at_tensor_id id, int64_t b, int64_t h);

/* Sets the object pointer at `pointer` (a double **, ...) to `count` zeroed items of `size` bytes,
 * multiplied with a check. */
at_status at_gold_take(void *pointer, at_arena *arena, int64_t count, size_t size,
                       at_error *err) AT_MUST_CHECK;

#endif
