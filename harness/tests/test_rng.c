/* rng.c: the known answers of Random123 (kat_vectors), the derived numbers, uniformity. */
#include "harness/tests/test.h"

#include <stddef.h>
#include <stdint.h>

#include "harness/problem/rng.h"

typedef struct known {
    uint32_t counter[4], key[2], answer[4];
} known;

static const known answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void test_known_answers(void)
{
    for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++) {
        uint32_t out[4] = {0};
        at_philox4x32(out, answers[i].counter, answers[i].key);
        for (int word = 0; word < 4; word++) {
            CHECK_INT(out[word], answers[i].answer[word]);
        }
    }
}

static void test_u64_layout(void)
{
    CHECK(at_rng_u64(0, 0, 0) == 0xe169c58d6627e8d5U);
    uint32_t counter[4] = {0x89abcdefU, 0x01234567U, 5, 0}, key[2] = {0x76543210U, 0xfedcba98U};
    uint32_t word[4];
    at_philox4x32(word, counter, key);
    CHECK(at_rng_u64(0xfedcba9876543210U, 5, 0x0123456789abcdefU) ==
          (word[0] | (uint64_t)word[1] << 32));
}

/* The high half of x n, by a second route: 64 steps of shift and add. */
static uint64_t high_half(uint64_t x, uint64_t n)
{
    uint64_t high = 0, low = 0;
    for (int bit = 63; bit >= 0; bit--) {
        high = high << 1 | low >> 63;
        low <<= 1;
        uint64_t add = (n >> bit & 1) != 0 ? x : 0;
        low += add;
        high += low < add;
    }
    return high;
}

static void test_below(void)
{
    static const uint64_t limits[] = {
        1, 2, 3, 10, 1000003, 1ULL << 32, 0xfffffffffffffffULL, UINT64_MAX};
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        for (uint64_t index = 0; index < 200; index++) {
            uint64_t got = at_rng_below(9, i, index, limits[i]);
            CHECK(got < limits[i]);
            CHECK(got == high_half(at_rng_u64(9, i, index), limits[i]));
        }
    }
}

static void test_uniform(void)
{
    enum { BINS = 10, DRAWS = 100000 };
    int count[BINS] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        count[at_rng_below(1, 2, i, BINS)]++;
    }
    double chi = 0, want = (double)DRAWS / BINS;
    for (int bin = 0; bin < BINS; bin++) {
        chi += (count[bin] - want) * (count[bin] - want) / want;
    }
    CHECK(chi < 27.9); /* 99.9 % of chi square with 9 degrees of freedom */
    CHECK(chi > 1.15); /* and not suspiciously even */
}

/* Seeds, streams and indices that differ in one bit share nothing. */
static void test_distinct(void)
{
    uint64_t base = at_rng_u64(1, 1, 1);
    for (int bit = 0; bit < 64; bit++) {
        CHECK(at_rng_u64(1 ^ 1ULL << bit, 1, 1) != base);
        CHECK(at_rng_u64(1, 1, 1 ^ 1ULL << bit) != base);
        CHECK(bit >= 32 || at_rng_u64(1, 1 ^ 1U << bit, 1) != base);
    }
}

const at_test at_tests[] = {
    {"unit", "known_answers", test_known_answers},
    {"unit", "u64_layout", test_u64_layout},
    {"unit", "below", test_below},
    {"unit", "uniform", test_uniform},
    {"unit", "distinct", test_distinct},
    {NULL, NULL, NULL},
};
