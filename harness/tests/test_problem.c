/* problem.c, lens.c: layouts, lengths, keys of a row, memory checks, refusals. */
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

/* Live rows of a tensor of this problem in sequence b. */
static int64_t rows_of(const at_problem *p, int id, int64_t b)
{
    return id == AT_K || id == AT_V || id == AT_DK || id == AT_DV ? p->len_kv[b] : p->len_q[b];
}

/* Every stored element is the stream's value, rounded to the tensor's type. */
static int64_t wrong_elements(const at_problem *p, int id)
{
    const at_tensor *t = &p->t[id];
    int64_t wrong = 0;
    for (int64_t b = 0; b < t->shape[0]; b++) {
        int64_t rows = t->start != NULL ? rows_of(p, id, b) : t->shape[2];
        for (int64_t i = 0; i < t->shape[1] * rows * t->shape[3]; i++) {
            int64_t d = i % t->shape[3], s = i / t->shape[3] % rows, h = i / t->shape[3] / rows;
            double want = at_fill_value(&p->c, (at_tensor_id)id, b, h, s, d);
            wrong += at_tensor_get(t, b, h, s, d) != at_dtype_round(t->dtype, want);
        }
    }
    return wrong;
}

static void test_layouts(void)
{
    static const char *const lens[] = {"lens=full", "lens=random", "lens=half:gap=3",
                                       "lens=zero_mid:seed=1:gap=2"};
    static const char *const layouts[] = {"bshd", "sbhd", "bhsd", "thd"};
    static const char *const dtypes[] = {"f32", "f16", "bf16", "f8e4m3", "f8e5m2"};
    at_arena *arena = open_arena();
    for (int i = 0; i < 4 * 4 * 5; i++) {
        char text[256];
        const char *layout = layouts[i % 4], *len = lens[i / 4 % 4];
        if (strstr(len, "gap") != NULL && i % 4 != 3) {
            continue;
        }
        (void)snprintf(text, sizeof text,
                       "b=3:hq=4:hkv=2:sq=7:skv=9:dqk=6:dv=5:dtype=%s:layout=%s:%s",
                       dtypes[i / 16], layout, len);
        at_problem p = open_problem(text, arena);
        for (int id = AT_Q; id <= AT_DO; id++) {
            CHECK_INT(wrong_elements(&p, id), 0);
        }
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

const at_test at_tests[] = {
    {"unit", "layouts", test_layouts},
    {NULL, NULL, NULL},
};
