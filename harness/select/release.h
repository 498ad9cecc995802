/* Release numbers of packages: 2.8.3, 9.14.0, 4.0.0b11, 2.8.3.post1, 2025-02. */
#ifndef AT_RELEASE_H
#define AT_RELEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_RELEASE_PARTS = 8, AT_RELEASE_TEXT = 32 };

/* count = 0: not installed. Missing parts compare as 0; dev < a < b < rc < nothing < post. */
typedef struct at_release {
    int32_t count;
    int32_t part[AT_RELEASE_PARTS];
} at_release;

/* "v" is optional; parts are joined by '.' or '-', so a month names a build; "none" is not
 * installed; text after '+' is ignored. AT_INVALID: one sentence. */
AT_API at_status at_release_parse(at_release *out, const char *text, size_t length,
                                  at_error *err) AT_MUST_CHECK;

/* -1, 0, 1 component by component; both must be installed. */
AT_API int at_release_compare(const at_release *a, const at_release *b);

#ifdef __cplusplus
}
#endif
#endif
