/* fill.c: equal bits for any number of threads and for ever, streams, garbage. */
#include "harness/tests/test.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stddef.h>

#include "harness/problem/fill.h"
#include "harness/problem/rng.h"

enum { FILLS = AT_FILL_DENORMAL + 1 };

static at_arena *open_arena(void)
{
    at_arena *arena = NULL;
    at_error err = {""};
    CHECK_OK(at_arena_open(&arena, &err), &err);
    return arena;
}

static at_problem open_case(const at_case *c, at_arena *arena)
{
    at_problem p;
    at_error err = {""};
    CHECK_OK(at_problem_open(&p, c, arena, &err), &err);
    return p;
}

static at_case parse(const char *text)
{
    at_case c;
    at_error err = {""};
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    return c;
}

/* FNV-1a of the bits of q, k, v, do. */
static uint64_t checksum(const at_problem *p)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (int id = AT_Q; id <= AT_DO; id++) {
        const unsigned char *bytes = p->t[id].data;
        for (size_t i = 0; i < p->size[id]; i++) {
            hash = (hash ^ bytes[i]) * 0x100000001b3U;
        }
    }
    return hash;
}

/* What a case means may never change: reports and waivers name cases by their text. */
static const uint64_t golden[FILLS][AT_DTYPE_COUNT] = {
    {0x62a28519adc26f0fU, 0xe4e5ae41a5edaff2U, 0x5e54285659aef062U, 0x41a177238d7f2247U,
     0xc48ae38990d4d610U},
    {0x9663efc65b6e49c0U, 0xa16c2f5ee582327eU, 0x174c21cfadf24020U, 0x3fba9720dc14d6a4U,
     0x1b1f560aab92193aU},
    {0x45648caabd59e42fU, 0x87d32eb0ab6db87aU, 0xccff2ba2e8e8fcb0U, 0xed030a86d0903949U,
     0xb17be9ff4d98b277U},
    {0xe8e6a77fdb455dc1U, 0xe14aab5d9c9d56c2U, 0x7e2546cf5fe6fb34U, 0xe46c87c9d1e4cf1fU,
     0xa293aef247631f40U},
    {0x3fb26c0aee251cd3U, 0x0964f51cdb8d7f32U, 0xb31eb9579aa49112U, 0x2be83669c618635fU,
     0x42ba1557917e50f0U},
    {0x606ecabd6ccfc791U, 0x3930c9c8140d9518U, 0xfa60784c2cd046e5U, 0xf56bd6d96ff8bb97U,
     0xd578d311e96ceb21U},
    {0x08da3a4ee4dc777eU, 0x44c9412abbdd5164U, 0xfff960a63a440f94U, 0x53180960cfa10885U,
     0x65924682f8dabfffU},
    {0x9bbbd1f363ce289aU, 0xd54cfab3beb8948eU, 0x31fa9715fff73666U, 0xeb7f13162938ae47U,
     0x6c8cf9325279ab9eU},
    {0x7c5e04a1d39c9042U, 0xe1a02f5b25e9a5e0U, 0xf0ffe42252131bc9U, 0x7e7356db2b194a99U,
     0xa4ff01da8fa613a3U},
    {0x2885c2dc7324e2ddU, 0xbbbba017099df637U, 0xa8330fbcba868a6dU, 0x0385f248b3735ee5U,
     0x7ea07bf1a48d987aU},
};

static void test_golden(void)
{
    at_arena *arena = open_arena();
    at_case c = parse("b=3:hq=6:hkv=3:hv=2:sq=37:skv=45:dqk=20:dv=13:lens=random:mask=band:wl=9:"
                      "wr=3:seed=81985529216486895");
    for (int i = 0; i < FILLS * AT_DTYPE_COUNT; i++) {
        c.fill = i / AT_DTYPE_COUNT;
        c.dtype = c.odt = i % AT_DTYPE_COUNT;
        at_problem p = open_case(&c, arena);
        uint64_t got = checksum(&p), want = golden[c.fill][c.dtype];
        if (got != want) {
            at_test_fail(__FILE__, __LINE__, "fill %d dtype %d: 0x%016" PRIx64, (int)c.fill,
                         (int)c.dtype, got);
        }
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

/* Packed sequences with gaps; lengths that name an empty sequence. */
static void test_golden_packed(void)
{
    at_arena *arena = open_arena();
    at_case c =
        parse("b=4:hq=3:hkv=1:sq=11:skv=9:dqk=8:dv=5:layout=thd:lens=zero_mid:gap=3:seed=4");
    at_problem p = open_case(&c, arena);
    CHECK(checksum(&p) == 0x09f5edce02e87f0eU);
    at_arena_close(arena);
}

static void test_threads(void)
{
    static const int threads[] = {1, 2, 7};
    at_arena *arena = open_arena();
    at_case c = parse("b=2:hq=3:hkv=1:sq=150:skv=261:dqk=67:dv=40:lens=random:seed=5");
    int before = omp_get_max_threads();
    for (int i = 0; i < FILLS * 2; i++) {
        uint64_t sums[3] = {0};
        c.fill = i % FILLS;
        c.layout = i < FILLS ? AT_SBHD : AT_THD;
        c.gap = i < FILLS ? 0 : 5;
        for (int k = 0; k < 3; k++) {
            omp_set_num_threads(threads[k]);
            at_problem p = open_case(&c, arena);
            sums[k] = checksum(&p);
            at_arena_reset(arena);
        }
        CHECK(sums[0] == sums[1] && sums[0] == sums[2]);
    }
    omp_set_num_threads(before);
    at_arena_close(arena);
}

/* Words by blocks of lanes are those of the plain generator. */
static void test_words(void)
{
    static uint32_t low[AT_FILL_BLOCK], high[AT_FILL_BLOCK];
    static const int64_t firsts[] = {0, 1, 30, 31, 0x1fffffffeLL, 0x1fffffff1LL, 1LL << 40};
    static const int64_t counts[] = {0, 1, 2, 31, 32, 33, 65, 4095, 4096};
    uint64_t seed = 0x123456789abcdef0U;
    for (int i = 0; i < 7 * 9; i++) {
        int64_t first = firsts[i % 7], n = counts[i / 7];
        unsigned wrong = 0;
        at_fill_words(low, high, seed, 3, first, n);
        for (int64_t k = 0; k < n; k++) {
            uint64_t block = (uint64_t)(first + k) / 2;
            uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 3, 0};
            uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, word[4];
            at_philox4x32(word, counter, key);
            wrong += low[k] != word[(first + k) % 2 * 2];
            wrong += high[k] != word[(first + k) % 2 * 2 + 1];
        }
        CHECK_INT(wrong, 0);
    }
}

/* Seeds, tensors and heads give other numbers; the same element in a longer tensor does not. */
static void test_streams(void)
{
    at_case c = parse("b=2:hq=2:sq=8:dqk=8"), other = parse("b=2:hq=2:sq=8:dqk=8:seed=1");
    unsigned equal = 0;
    for (int i = 0; i < 64; i++) {
        double x = at_fill_value(&c, AT_Q, 0, 0, i / 8, i % 8);
        equal += x == at_fill_value(&other, AT_Q, 0, 0, i / 8, i % 8);
        equal += x == at_fill_value(&c, AT_K, 0, 0, i / 8, i % 8);
        equal += x == at_fill_value(&c, AT_Q, 0, 1, i / 8, i % 8);
        equal += x == at_fill_value(&c, AT_Q, 1, 0, i / 8, i % 8);
    }
    CHECK(equal <= 2);
    other = parse("b=1:hq=1:sq=100:dqk=8:mask=causal:dtype=f8e4m3");
    CHECK(at_fill_value(&c, AT_Q, 0, 0, 7, 7) == at_fill_value(&other, AT_Q, 0, 0, 7, 7));
}

static int64_t garbage_rows(const at_problem *p, int id, int64_t b)
{
    const at_tensor *t = &p->t[id];
    int64_t rows = 0;
    for (int64_t s = 0; s < t->shape[2]; s++) {
        int64_t n = 0;
        for (int64_t d = 0; d < t->shape[3]; d++) {
            double x = fabs(at_tensor_get(t, b, 0, s, d));
            n += x >= 32 && x <= 64 && x == floor(x);
        }
        rows += n == t->shape[3];
    }
    return rows;
}

static void test_garbage(void)
{
    at_arena *arena = open_arena();
    at_case c = parse("b=3:sq=10:skv=12:dqk=16:lenq=10+4+0:lenkv=12+3+5");
    for (int i = 0; i < FILLS; i++) {
        c.fill = i;
        at_problem p = open_case(&c, arena);
        for (int64_t b = 0; b < 3; b++) {
            int64_t keys = b == 2 ? 12 : 12 - p.len_kv[b]; /* sequence 2 has no rows that look */
            CHECK_INT(garbage_rows(&p, AT_Q, b), 10 - p.len_q[b]);
            CHECK_INT(garbage_rows(&p, AT_DO, b), 10 - p.len_q[b]);
            CHECK_INT(garbage_rows(&p, AT_K, b), keys);
            CHECK_INT(garbage_rows(&p, AT_V, b), keys);
        }
        at_arena_reset(arena);
    }
    at_case causal = parse("sq=6:skv=10:dqk=16:mask=causal");
    at_problem p = open_case(&causal, arena);
    CHECK_INT(garbage_rows(&p, AT_K, 0), 4); /* keys 6..9 are right of every row */
    at_case band = parse("sq=4:skv=20:dqk=16:mask=band:wl=2:wr=1:align=br");
    p = open_case(&band, arena);
    CHECK_INT(garbage_rows(&p, AT_V, 0), 14); /* row 0 is at key 16 and sees from 14 on */
    at_arena_close(arena);
}

const at_test at_tests[] = {
    {"unit", "golden", test_golden},
    {"unit", "golden_packed", test_golden_packed},
    {"unit", "threads", test_threads},
    {"unit", "words", test_words},
    {"unit", "streams", test_streams},
    {"unit", "garbage", test_garbage},
    {NULL, NULL, NULL},
};
