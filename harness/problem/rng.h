/* Counter-based random bits. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * SC'11 (Philox4x32-10). */
#ifndef AT_RNG_H
#define AT_RNG_H

#include <stdint.h>

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

AT_API void at_philox4x32(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

/* 64 random bits, a function of (seed, stream, index) alone. */
AT_API uint64_t at_rng_u64(uint64_t seed, uint32_t stream, uint64_t index);

/* Uniform in [0, n), n >= 1, by multiplication (bias < n 2^-64). */
AT_API uint64_t at_rng_below(uint64_t seed, uint32_t stream, uint64_t index, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif
