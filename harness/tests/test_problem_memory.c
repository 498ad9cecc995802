/* problem.c, problem_check.c: poison, guards, gaps, inputs that change, what is refused. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/problem/problem.h"

static at_arena *open_arena(void)
{
    at_arena *arena = NULL;
    at_error err = {""};
    CHECK_OK(at_arena_open(&arena, &err), &err);
    return arena;
}

static at_case parse(const char *text)
{
    at_case c;
    at_error err = {""};
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    return c;
}

static at_problem open_problem(const char *text, at_arena *arena)
{
    at_case c = parse(text);
    at_problem p;
    at_error err = {""};
    CHECK_OK(at_problem_open(&p, &c, arena, &err), &err);
    return p;
}

static size_t unpoisoned(const at_problem *p, int id)
{
    size_t wrong = 0, element = at_dtype_size(p->t[id].dtype);
    const unsigned char *bytes = p->t[id].data;
    for (size_t i = 0; i < p->size[id]; i++) {
        uint32_t poison = at_dtype_poison(p->t[id].dtype);
        wrong += bytes[i] != (unsigned char)(poison >> (8 * (i % element)));
    }
    return wrong;
}

static void test_poison(void)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16", "f8e4m3", "f8e5m2"};
    at_arena *arena = open_arena();
    for (int i = 0; i < 5; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "b=2:hq=3:sq=33:dqk=17:dtype=%s", dtypes[i]);
        at_problem p = open_problem(text, arena);
        for (int id = AT_O; id <= AT_DV; id++) {
            CHECK(unpoisoned(&p, id) == 0);
            memset(p.t[id].data, 0, p.size[id]);
        }
        at_problem_poison(&p, AT_DQ, AT_DV);
        CHECK(unpoisoned(&p, AT_O) > 0 && unpoisoned(&p, AT_LSE) > 0);
        CHECK(unpoisoned(&p, AT_DQ) == 0 && unpoisoned(&p, AT_DV) == 0);
        at_problem_poison(&p, AT_Q, AT_LSE);
        CHECK(unpoisoned(&p, AT_O) == 0 && unpoisoned(&p, AT_LSE) == 0);
        CHECK(memcmp(p.t[AT_Q].data, p.shadow[AT_Q], p.size[AT_Q]) == 0);
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

static void expect_fault(const at_problem *p, at_memory_fault want, int id, const char *sentence)
{
    at_tensor_id tensor = AT_TENSOR_COUNT;
    at_error what = {""};
    CHECK_INT(at_problem_check_memory(p, &tensor, &what), want);
    CHECK_INT(tensor, want == AT_MEMORY_OK ? AT_TENSOR_COUNT : id);
    CHECK_TEXT(what.text, sentence);
}

static void test_guards(void)
{
    at_arena *arena = open_arena();
    at_problem p = open_problem("b=2:hq=2:sq=5:skv=6:dqk=3:dtype=f16:layout=sbhd", arena);
    for (int id = 0; id <= AT_DV; id++) {
        unsigned char *bytes = p.t[id].data;
        unsigned char *const places[] = {bytes - 1, bytes + p.size[id], bytes - 4000,
                                         bytes + p.size[id] + 4000};
        static const char *const sentences[] = {"1 bytes before the start", "0 bytes past the end",
                                                "4000 bytes before the start",
                                                "4000 bytes past the end"};
        for (int i = 0; i < 4; i++) {
            char text[128];
            (void)snprintf(text, sizeof text, "%s: memory was written %s of the buffer",
                           at_tensor_names[id], sentences[i]);
            *places[i] ^= 0xff;
            expect_fault(&p, AT_MEMORY_OVERRUN, id, text);
            *places[i] ^= 0xff;
            expect_fault(&p, AT_MEMORY_OK, 0, "");
        }
    }
    for (int id = AT_O; id <= AT_DV; id++) {
        memset(p.t[id].data, 0, p.size[id]); /* outputs may be written */
    }
    expect_fault(&p, AT_MEMORY_OK, 0, "");
    at_arena_close(arena);
}

static void test_clobbered(void)
{
    static const char *const layouts[] = {"bshd", "sbhd", "bhsd", "thd"};
    at_arena *arena = open_arena();
    for (int i = 0; i < 4; i++) {
        char text[128];
        (void)snprintf(text, sizeof text,
                       "b=3:hq=4:hkv=2:sq=5:skv=6:dqk=3:dv=7:layout=%s:lens=full", layouts[i]);
        at_problem p = open_problem(text, arena);
        for (int id = AT_Q; id <= AT_DO; id++) {
            const at_tensor *t = &p.t[id];
            for (int64_t n = 0; n < t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]; n++) {
                int64_t d = n % t->shape[3], s = n / t->shape[3] % t->shape[2];
                int64_t h = n / t->shape[3] / t->shape[2] % t->shape[1];
                int64_t b = n / t->shape[3] / t->shape[2] / t->shape[1];
                unsigned char *byte = at_tensor_at(t, b, h, s, d);
                (void)snprintf(text, sizeof text, "%s: the input changed at [%d %d %d %d]",
                               at_tensor_names[id], (int)b, (int)h, (int)s, (int)d);
                *byte ^= 1;
                expect_fault(&p, AT_MEMORY_CLOBBERED, id, text);
                *byte ^= 1;
            }
        }
        expect_fault(&p, AT_MEMORY_OK, 0, "");
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

/* Tokens between thd sequences: outputs must keep their poison, inputs their garbage. */
static void test_gaps(void)
{
    at_arena *arena = open_arena();
    at_problem p =
        open_problem("b=3:hq=2:sq=4:skv=5:dqk=8:layout=thd:lenq=4+1+3:lenkv=2+5+0:gap=2", arena);
    CHECK(p.start_q[3] == 4 + 2 + 1 + 2 + 3);
    unsigned char *o = p.t[AT_O].data, *dk = p.t[AT_DK].data, *v = p.t[AT_V].data;
    size_t token = 2 * 8 * 2;
    for (size_t i = 4 * token; i < 6 * token; i++) {
        char text[128];
        (void)snprintf(text, sizeof text,
                       "o: memory was written in the gap after sequence 0, at byte %zu of the "
                       "buffer",
                       i);
        o[i] ^= 1;
        expect_fault(&p, AT_MEMORY_OVERRUN, AT_O, text);
        o[i] ^= 1;
    }
    o[4 * token - 1] ^= 1;
    o[6 * token] ^= 1;
    expect_fault(&p, AT_MEMORY_OK, 0, "");
    dk[9 * token] ^= 1;
    expect_fault(&p, AT_MEMORY_OVERRUN, AT_DK,
                 "dk: memory was written in the gap after sequence 1, at byte 288 of the buffer");
    dk[9 * token] ^= 1;
    dk[9 * token - 1] ^= 1; /* keys of sequence 1, which has more of them than rows */
    expect_fault(&p, AT_MEMORY_OK, 0, "");
    double x = 0;
    at_dtype_load_double(AT_BF16, &x, v + 2 * token, 1);
    CHECK(fabs(x) >= 32 && fabs(x) <= 63);
    v[2 * token + 3] ^= 1;
    expect_fault(&p, AT_MEMORY_CLOBBERED, AT_V,
                 "v: the input changed at element 33 of its memory, between sequences");
    at_arena_close(arena);
}

static void test_no_memory(void)
{
    static const char *const cases[][2] = {
        {"sq=16777216:hq=1024:dqk=64", "q: no memory for 2199023255552 bytes"},
        {"b=1048576:sq=1:skv=16384:hq=1:dqk=64", "k: no memory for 2199023255552 bytes"},
        {"sq=16777216:skv=1:hq=4096:hkv=1:dqk=1:dv=16", "q: no memory for 137438953472 bytes"},
        {"b=8:sq=16777216:hq=4096:dqk=2:layout=thd:lens=full",
         "q: no memory for 2199023255552 bytes"},
    };
    at_arena *arena = open_arena();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        at_case c = parse(cases[i][0]);
        at_problem p;
        at_error err = {""};
        CHECK_INT(at_problem_open(&p, &c, arena, &err), AT_NO_MEMORY);
        CHECK_HAS(err.text, cases[i][1]);
        at_arena_reset(arena);
    }
    /* Beyond what the case language accepts: still a status. */
    at_case c = parse("b=1");
    c.batch = c.len_q = c.heads_q = 1 << 20;
    c.dim_qk = 4096;
    at_problem p;
    at_error err = {""};
    CHECK_INT(at_problem_open(&p, &c, arena, &err), AT_NO_MEMORY);
    CHECK_TEXT(err.text, "q has more than 2^63 bytes");
    at_arena_close(arena);
}

const at_test at_tests[] = {
    {"unit", "poison", test_poison},
    {"unit", "guards", test_guards},
    {"unit", "clobbered", test_clobbered},
    {"unit", "gaps", test_gaps},
    {"unit", "no_memory", test_no_memory},
    {NULL, NULL, NULL},
};
