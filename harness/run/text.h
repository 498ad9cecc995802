/* A growing text, for files that are written at once. */
#ifndef AT_TEXT_H
#define AT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise; `data` is NULL until something is added; free it with free(). */
typedef struct at_text {
    char *data;
    size_t used, room;
} at_text;

/* Appends; running out of memory aborts. */
AT_API void at_text_add(at_text *text, const char *format, ...) AT_PRINTF(2, 3);

/* Appends text for XML 1.0, as content or in double quotes: cleaned, and with entities. */
AT_API void at_text_add_xml(at_text *text, const char *raw);

#ifdef __cplusplus
}
#endif
#endif
