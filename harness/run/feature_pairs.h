/* Which pairs of features the oracle judges: behind the table in reports/feature-matrix.md. */
#ifndef AT_FEATURE_PAIRS_H
#define AT_FEATURE_PAIRS_H

#include "harness/case/case.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A feature as keys of a case. `own` is what it is; `soft` is what it needs around it, where the
 * other feature says nothing of that key. */
typedef struct at_feature_word {
    const char *name, *own, *soft;
} at_feature_word;
AT_API extern const at_feature_word at_feature_words[];
AT_API extern const size_t at_feature_word_count;

typedef enum at_pair_state {
    AT_PAIR_JUDGED,
    AT_PAIR_BY_MASK, /* judged where the backend hands out its dropout mask, else SKIP(mask_hidden);
                      * cpu.flash hands it out */
    AT_PAIR_REFUSED, /* the oracle judges it, cpu.flash is UNSUPPORTED with the code */
    AT_PAIR_SKIPPED, /* SKIP with the code */
    AT_PAIR_EXCLUDED /* the case language has no such case */
} at_pair_state;

/* The small case with both features (one feature: a = b), and what becomes of it. `why` says what
 * excludes or skips it. */
AT_API at_pair_state at_feature_pair(at_case *out, char code[48], at_error *why, size_t a,
                                     size_t b);

#ifdef __cplusplus
}
#endif
#endif
