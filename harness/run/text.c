#include "harness/run/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/lines.h"

void at_text_add(at_text *text, const char *format, ...)
{
    for (;;) {
        va_list args;
        va_start(args, format);
        size_t left = text->room - text->used;
        int n = vsnprintf(text->data != NULL ? text->data + text->used : NULL, left, format, args);
        va_end(args);
        AT_ASSERT(n >= 0);
        if ((size_t)n < left) {
            text->used += (size_t)n;
            return;
        }
        text->room = 2 * (text->room + (size_t)n) + 256;
        char *larger = realloc(text->data, text->room);
        AT_ASSERT(larger != NULL);
        text->data = larger;
    }
}

void at_text_add_xml(at_text *text, const char *raw)
{
    char *clean = strdup(raw);
    AT_ASSERT(clean != NULL);
    at_text_clean(clean);
    for (const char *c = clean; *c != '\0'; c++) {
        static const char from[] = "&<>\"\n\t";
        static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#10;", "&#9;"};
        const char *hit = strchr(from, *c);
        /* U+FFFE and U+FFFF are text in UTF-8, not in XML */
        bool forbidden = memcmp(c, "\xef\xbf", 2) == 0 && ((unsigned char)c[2] | 1) == 0xbf;
        if (forbidden) {
            at_text_add(text, "?");
            c += 2;
        } else if (hit != NULL) {
            at_text_add(text, "%s", to[hit - from]);
        } else {
            at_text_add(text, "%c", *c);
        }
    }
    free(clean);
}
