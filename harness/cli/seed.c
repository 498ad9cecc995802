#include "harness/cli/seed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool at_seed_parse(uint64_t *out, const char *text)
{
    *out = 0;
    if (text == NULL) {
        return true;
    }
    errno = 0;
    *out = strtoull(text, NULL, 10);
    return errno == 0 && *text != '\0' && strspn(text, "0123456789") == strlen(text);
}
