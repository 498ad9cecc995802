/* Cuts a byte stream into lines, with a limit. */
#ifndef AT_LINES_H
#define AT_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_LINE_LIMIT = 1 << 20 }; /* bytes of one line, without its newline */

/* Zero-initialise; at_lines_close frees. */
typedef struct at_lines {
    char *data;
    size_t start, used, room;
} at_lines;

/* Appends bytes. AT_INVALID when a line grows beyond the limit; AT_NO_MEMORY. */
AT_API at_status at_lines_push(at_lines *lines, const char *bytes, size_t n,
                               at_error *err) AT_MUST_CHECK;

/* Takes the next complete line, ended by NUL instead of its newline; valid until the next push. */
AT_API bool at_lines_next(at_lines *lines, char **line, size_t *length);

/* Bytes after the last newline. */
AT_API size_t at_lines_rest(const at_lines *lines);
AT_API void at_lines_close(at_lines *lines);

/* Is every byte part of a well-formed UTF-8 sequence? */
AT_API bool at_utf8_valid(const char *text, size_t length);

/* Makes text fit for JSON, XML and a terminal: bytes that are not UTF-8 and control characters
 * other than newline and tab become '?'. In place. */
AT_API void at_text_clean(char *text);

/* Makes a sentence that quotes what others wrote fit one line; returns status. */
AT_API at_status at_error_flatten(at_error *err, at_status status);

#ifdef __cplusplus
}
#endif
#endif
