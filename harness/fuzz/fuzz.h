/* What every fuzz target defines; replay.c and libFuzzer call it. */
#ifndef AT_FUZZ_H
#define AT_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Checks the target's property on one input; aborts where it does not hold. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
