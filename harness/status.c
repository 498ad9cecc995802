#include "harness/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

at_status at_fail(at_error *err, at_status status, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return status;
}

at_status at_fail_in(at_error *err, at_status status, const char *format, ...)
{
    if (err != NULL) {
        at_error inner = *err;
        va_list args;
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        (void)snprintf(err->text + used, sizeof err->text - used, ": %s", inner.text);
    }
    return status;
}

void at_assert_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "attest: %s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

int at_abi(void)
{
    return AT_ABI;
}
