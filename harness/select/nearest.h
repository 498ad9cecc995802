/* The nearest case that a selector would admit a backend for. */
#ifndef AT_NEAREST_H
#define AT_NEAREST_H

#include "harness/select/selector.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_NEAREST_KEYS = 2, AT_NEAREST_ENV = 128 };

/* count: keys that differ, 0: no case within two keys is admitted. env: "fused=1", one key of the
 * environment that would do for the case as it is, "" when there is none. */
typedef struct at_nearest {
    int count;
    const at_field *key[AT_NEAREST_KEYS];
    at_case c;
    char env[AT_NEAREST_ENV];
} at_nearest;

/* Tries sensible values of one key, then of two; of equally many the smallest change counts (by the
 * ratio of numbers; the arch is changed last). `env` (may be NULL) is what the selector was opened
 * with. AT_INVALID when the case itself cannot be decided. */
AT_API at_status at_nearest_find(at_nearest *out, const at_selector *s, const char *corpus,
                                 const at_env *env, const at_case *c, size_t backend,
                                 at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
