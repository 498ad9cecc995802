/* A planted fault: the input "crash" aborts. For the tests of replay.c. */
#include <stdlib.h>
#include <string.h>

#include "harness/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 5 && memcmp(data, "crash", 5) == 0) {
        abort();
    }
    return 0;
}
