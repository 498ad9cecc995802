/* Cases that stand at the boundaries of the cuDNN frontend's rules. */
#ifndef AT_TESTS_FRONTEND_CASES_H
#define AT_TESTS_FRONTEND_CASES_H

#include "harness/case/case.h"

/* Case number `index` of a stream, without contradictions, for a GPU architecture; pass=train with
 * `train`. Three in four have few features, each drawn from both sides of a boundary; the others
 * come from at_case_from_bytes. A function of (seed, index) alone. */
void at_frontend_case(at_case *out, uint64_t seed, uint64_t index, bool train);

/* Releases at the boundaries of the rules, "9.19.0", as cudnnGetVersion says them. */
typedef struct at_frontend_release {
    const char *name;
    long version;
} at_frontend_release;
extern const at_frontend_release at_frontend_releases[];
extern const size_t at_frontend_release_count;

#endif
