/* A problem and its reference, for tests of the latter. */
#ifndef AT_WORLD_H
#define AT_WORLD_H

#include "harness/tests/direct.h"
#include "harness/tests/test.h"

typedef struct at_world {
    const char *text;
    at_arena *inputs, *answers;
    at_problem p;
    at_gold gold;
} at_world;

extern const at_tensor_id at_world_outputs[];
enum { AT_WORLD_OUTPUTS = 7 };

/* A problem without its answer, with a dropout mask drawn from the seed; false after a failure. */
bool at_world_open(at_world *w, const char *text);
/* The answer of a path for a numeric class (NULL: the default). */
bool at_world_run(at_world *w, at_reference_path path, const at_numeric_class *numeric);
void at_world_close(at_world *w);

/* The reference agrees with the direct formula in every row to `tolerance` of the tensor's largest
 * value, or to a ten-millionth of the bound where large terms cancel. */
void at_world_agrees(const at_world *w, const at_direct *x, double tolerance);

/* Tensor `id` of a times `factor` is that of b, to `tolerance` of its largest value. */
void at_world_same(const at_world *a, const at_world *b, at_tensor_id id, double factor,
                   double tolerance);

#endif
