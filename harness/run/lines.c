#include "harness/run/lines.h"

#include <stdlib.h>
#include <string.h>

at_status at_lines_push(at_lines *lines, const char *bytes, size_t n, at_error *err)
{
    if (n == 0) {
        return AT_OK;
    }
    if (lines->start > 0) {
        memmove(lines->data, lines->data + lines->start, lines->used - lines->start);
        lines->used -= lines->start;
        lines->start = 0;
    }
    const char *newline = memchr(bytes, '\n', n);
    size_t first = newline != NULL ? (size_t)(newline - bytes) : n;
    bool fresh = memchr(lines->data ? lines->data : "", '\n', lines->used) == NULL;
    if (fresh && lines->used + first > AT_LINE_LIMIT) {
        return at_fail(err, AT_INVALID, "a line of more than %d bytes", AT_LINE_LIMIT);
    }
    if (lines->used + n > lines->room) {
        size_t room = 2 * (lines->used + n) + 4096;
        char *larger = realloc(lines->data, room);
        if (larger == NULL) {
            return at_fail(err, AT_NO_MEMORY, "no memory for a line of %zu bytes", room);
        }
        lines->data = larger;
        lines->room = room;
    }
    memcpy(lines->data + lines->used, bytes, n);
    lines->used += n;
    return AT_OK;
}

bool at_lines_next(at_lines *lines, char **line, size_t *length)
{
    char *begin = lines->data + lines->start;
    char *newline =
        lines->used > lines->start ? memchr(begin, '\n', lines->used - lines->start) : NULL;
    if (newline == NULL) {
        return false;
    }
    *newline = '\0';
    *line = begin;
    *length = (size_t)(newline - begin);
    lines->start += *length + 1;
    return true;
}

size_t at_lines_rest(const at_lines *lines)
{
    return lines->used - lines->start;
}

void at_lines_close(at_lines *lines)
{
    free(lines->data);
    *lines = (at_lines){0};
}

/* Length of the well-formed sequence at `s` (n bytes are readable), 0 when there is none.
 * Source: Unicode 15, table 3-7. */
static size_t sequence(const unsigned char *s, size_t n)
{
    if (s[0] < 0x80) {
        return 1;
    }
    size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || n < length) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xed && s[1] > 0x9f;
    bool beyond = s[0] == 0xf4 && s[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : length;
}

bool at_utf8_valid(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    for (size_t i = 0, step = 0; i < length; i += step) {
        step = sequence(s + i, length - i);
        if (step == 0) {
            return false;
        }
    }
    return true;
}

void at_text_clean(char *text)
{
    unsigned char *s = (unsigned char *)text;
    size_t n = strlen(text);
    for (size_t i = 0, step = 0; i < n; i += step) {
        step = sequence(s + i, n - i);
        bool control = s[i] < 0x20 && s[i] != '\n' && s[i] != '\t';
        if (step == 0 || control || s[i] == 0x7f) {
            s[i] = '?';
            step = 1;
        }
    }
}

at_status at_error_flatten(at_error *err, at_status status)
{
    if (err != NULL) {
        at_text_clean(err->text);
        for (char *c = err->text; *c != '\0'; c++) {
            *c = *c == '\n' || *c == '\t' ? ' ' : *c;
        }
    }
    return status;
}
