#include "harness/problem/rng.h"

void at_philox4x32(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53U * x0;
        uint64_t p1 = (uint64_t)0xcd9e8d57U * x2;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)p1;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)p0;
        k0 += 0x9e3779b9U;
        k1 += 0xbb67ae85U;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

uint64_t at_rng_u64(uint64_t seed, uint32_t stream, uint64_t index)
{
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), stream, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t word[4];
    at_philox4x32(word, counter, key);
    return word[0] | (uint64_t)word[1] << 32;
}

uint64_t at_rng_below(uint64_t seed, uint32_t stream, uint64_t index, uint64_t n)
{
    AT_ASSERT(n >= 1);
    uint64_t x = at_rng_u64(seed, stream, index);
    uint64_t low = (x & UINT32_MAX) * (n & UINT32_MAX);
    uint64_t cross1 = (x >> 32) * (n & UINT32_MAX);
    uint64_t cross2 = (x & UINT32_MAX) * (n >> 32);
    uint64_t middle = (low >> 32) + (cross1 & UINT32_MAX) + (cross2 & UINT32_MAX);
    return (x >> 32) * (n >> 32) + (cross1 >> 32) + (cross2 >> 32) + (middle >> 32);
}
