/* The value of --seed where cases are drawn. */
#ifndef AT_SEED_H
#define AT_SEED_H

#include <stdbool.h>
#include <stdint.h>

/* Decimal digits, at most 2^64 - 1; NULL is 0. False otherwise. */
bool at_seed_parse(uint64_t *out, const char *text);

#endif
