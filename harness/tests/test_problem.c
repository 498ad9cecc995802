/* problem.c, lens.c: layouts, shapes, lengths, keys of a row. */
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

/* Every stored element (every 11th of long rows) is the stream's value, rounded to the type. */
static int64_t wrong_elements(const at_problem *p, int id)
{
    const at_tensor *t = &p->t[id];
    int64_t wrong = 0;
    for (int64_t b = 0; b < t->shape[0]; b++) {
        int64_t rows = t->start != NULL ? rows_of(p, id, b) : t->shape[2];
        int64_t step = t->shape[3] > 64 ? 11 : 1; /* at_fill_value makes a whole row */
        for (int64_t i = 0; i < t->shape[1] * rows * t->shape[3]; i += step) {
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
                       "b=3:hq=4:hkv=2:sq=7:skv=9:dqk=6:dv=5:dtype=%s:layout=%s:%s", dtypes[i / 16],
                       layout, len);
        at_problem p = open_problem(text, arena);
        for (int id = AT_Q; id <= AT_DO; id++) {
            CHECK_INT(wrong_elements(&p, id), 0);
        }
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

/* Every distribution agrees with at_fill_value, for odd dims and blocks that end inside a head. */
static void test_values(void)
{
    static const char *const shapes[] = {"b=2:hq=2:sq=3:skv=5:dqk=1:dv=3",
                                         "hq=2:sq=70:skv=3:dqk=67:dv=129:lens=half",
                                         "b=2:hq=6:hkv=2:sq=2:skv=9:dqk=513:dv=5:mask=causal"};
    at_arena *arena = open_arena();
    for (int i = 0; i < 3 * (AT_FILL_DENORMAL + 1); i++) {
        at_case c = parse(shapes[i % 3]);
        at_problem p;
        at_error err = {""};
        c.fill = i / 3;
        CHECK_OK(at_problem_open(&p, &c, arena, &err), &err);
        for (int id = AT_Q; id <= AT_DO; id++) {
            CHECK_INT(wrong_elements(&p, id), 0);
        }
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

/* The tensors' elements stand where the layout's name says. */
static void test_memory_order(void)
{
    static const char *const layouts[] = {"bshd", "sbhd", "bhsd", "thd"};
    enum { B = 2, H = 3, S = 5, D = 4 };
    at_arena *arena = open_arena();
    for (int layout = 0; layout < 4; layout++) {
        char text[128];
        (void)snprintf(text, sizeof text, "b=2:hq=3:sq=5:dqk=4:dtype=f32:layout=%s:lens=full",
                       layouts[layout]);
        at_problem p = open_problem(text, arena);
        const float *q = p.t[AT_Q].data;
        unsigned wrong = 0;
        for (int i = 0; i < B * H * S * D; i++) {
            int d = i % D, s = i / D % S, h = i / D / S % H, b = i / D / S / H;
            int place = layout == AT_SBHD   ? ((s * B + b) * H + h) * D + d
                        : layout == AT_BHSD ? ((b * H + h) * S + s) * D + d
                                            : ((b * S + s) * H + h) * D + d;
            wrong += (double)q[place] != at_fill_value(&p.c, AT_Q, b, h, s, d);
            wrong += at_tensor_offset(&p.t[AT_Q], b, h, s, d) != place;
        }
        CHECK_INT(wrong, 0);
        CHECK(p.size[AT_Q] == sizeof(float) * B * H * S * D);
        CHECK(layout == AT_THD ? p.start_q[1] == S && p.start_q[2] == 2 * S : p.start_q == NULL);
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

static void test_rows(void)
{
    at_arena *arena = open_arena();
    at_problem p = open_problem("b=2:hq=2:sq=3:skv=4:dqk=5:dtype=f16:layout=sbhd", arena);
    double row[5];
    float narrow[5] = {1, -2, 0.5F, 3, 1e9F};
    at_tensor_load_row(&p.t[AT_K], 1, 0, 3, row);
    for (int d = 0; d < 5; d++) {
        CHECK(row[d] == at_tensor_get(&p.t[AT_K], 1, 0, 3, d));
    }
    at_tensor_store_row_float(&p.t[AT_O], 1, 1, 2, narrow);
    at_tensor_set(&p.t[AT_O], 0, 1, 2, 4, 0.1);
    CHECK(at_tensor_get(&p.t[AT_O], 1, 1, 2, 1) == -2);
    CHECK(at_tensor_get(&p.t[AT_O], 1, 1, 2, 4) == HUGE_VAL);
    CHECK(at_tensor_get(&p.t[AT_O], 0, 1, 2, 4) == at_dtype_round(AT_F16, 0.1));
    at_tensor_load_row_float(&p.t[AT_O], 1, 1, 2, narrow);
    CHECK(narrow[0] == 1 && narrow[3] == 3);
    at_tensor odd = p.t[AT_O]; /* a view along the sequence */
    odd.shape[3] = 3;
    odd.stride[3] = p.t[AT_O].stride[2];
    at_tensor_store_row_float(&odd, 0, 0, 0, narrow);
    CHECK(at_tensor_get(&p.t[AT_O], 0, 0, 2, 0) == 0.5);
    at_tensor_load_row(&odd, 0, 0, 0, row);
    at_tensor_load_row_float(&odd, 0, 0, 0, narrow + 2);
    CHECK(row[0] == 1 && row[1] == -2 && row[2] == 0.5 && narrow[4] == 0.5F);
    at_arena_close(arena);
}

static void test_shapes(void)
{
    at_arena *arena = open_arena();
    at_problem p = open_problem(
        "b=2:hq=6:hkv=3:hv=2:sq=5:skv=7:dqk=8:dv=4:dtype=f16:odt=f32:pass=train", arena);
    static const int64_t shapes[AT_TENSOR_COUNT][4] = {
        {2, 6, 5, 8}, {2, 3, 7, 8}, {2, 2, 7, 4}, {2, 6, 5, 4}, {2, 6, 5, 4},
        {2, 6, 5, 1}, {2, 6, 5, 8}, {2, 3, 7, 8}, {2, 2, 7, 4},
    };
    for (int id = 0; id <= AT_DV; id++) {
        bool is_f32 = id == AT_DO || id == AT_O || id == AT_LSE;
        CHECK(memcmp(p.t[id].shape, shapes[id], sizeof shapes[id]) == 0);
        CHECK_INT(p.t[id].dtype, is_f32 ? AT_F32 : AT_F16);
        CHECK(p.t[id].data != NULL && (p.shadow[id] != NULL) == (id <= AT_DO));
    }
    CHECK(p.scale == 1 / sqrt(8.0));
    p = open_problem("pass=stats:scale=-2", arena);
    CHECK(p.scale == -2 && p.t[AT_LSE].data != NULL && p.t[AT_DO].data == NULL);
    CHECK(p.t[AT_DQ].data == NULL && p.t[AT_DV].data == NULL);
    p = open_problem("pass=fwd", arena);
    CHECK(p.t[AT_O].data != NULL && p.t[AT_LSE].data == NULL);
    p = open_problem("b=0", arena);
    CHECK(p.t[AT_Q].data != NULL && p.size[AT_Q] == 0 && p.size[AT_LSE] == 0);
    p = open_problem("sq=0:skv=3:hq=3:hkv=2:invalid=1:layout=thd:lens=full", arena);
    CHECK(p.size[AT_Q] == 0 && p.size[AT_V] == 2 * 3 * 64 * 2 && p.start_q[1] == 0);
    at_arena_close(arena);
}

static void test_lengths(void)
{
    at_arena *arena = open_arena();
    at_problem p = open_problem("b=2:sq=7:skv=0:lens=half", arena);
    CHECK(p.len_q[0] == 4 && p.len_q[1] == 4 && p.len_kv[0] == 0);
    p = open_problem("b=2:sq=7:skv=8:lens=full", arena);
    CHECK(p.len_q[1] == 7 && p.len_kv[1] == 8);
    p = open_problem("b=2:sq=7:skv=8", arena);
    CHECK(p.len_q[1] == 7 && p.len_kv[1] == 8 && p.diag[1] == 0);
    p = open_problem("b=2:sq=7:skv=0:lens=one", arena);
    CHECK(p.len_q[1] == 1 && p.len_kv[1] == 0);
    p = open_problem("b=3:sq=7:skv=8:lenq=3+0+7:lenkv=8+2+0:layout=thd:gap=2:mask=causal:align=br",
                     arena);
    CHECK(p.len_q[0] == 3 && p.len_q[1] == 0 && p.len_kv[2] == 0);
    CHECK(p.diag[0] == 5 && p.diag[1] == 2 && p.diag[2] == -7);
    CHECK(p.start_q[0] == 0 && p.start_q[1] == 5 && p.start_q[2] == 7 && p.start_q[3] == 14);
    CHECK(p.start_kv[1] == 10 && p.start_kv[2] == 14 && p.start_kv[3] == 14);
    CHECK(p.size[AT_Q] == 14 * 64 * 2 && p.size[AT_K] == 14 * 64 * 2);
    p = open_problem("mask=band:wl=3:align=9", arena);
    CHECK(p.diag[0] == 9);
    at_arena_close(arena);
}

/* Random lengths reach both ends, never 0, and those of q say nothing about those of kv. */
static void test_random_lengths(void)
{
    at_arena *arena = open_arena();
    at_problem p = open_problem("b=4000:sq=8:skv=8:dqk=1:lens=random:pass=fwd", arena);
    int count[9][9] = {{0}};
    for (int64_t b = 0; b < 4000; b++) {
        CHECK(p.len_q[b] >= 1 && p.len_q[b] <= 8 && p.len_kv[b] >= 1 && p.len_kv[b] <= 8);
        count[p.len_q[b]][p.len_kv[b]]++;
    }
    double chi = 0;
    for (int i = 0; i < 64; i++) {
        double difference = count[1 + i / 8][1 + i % 8] - 62.5;
        chi += difference * difference / 62.5;
    }
    CHECK(chi < 110); /* 63 degrees of freedom: 99.98 % */
    at_arena_close(arena);
}

static void test_zero_lengths(void)
{
    static const char *const kinds[] = {"zero_first", "zero_mid", "zero_last"};
    at_arena *arena = open_arena();
    for (int i = 0; i < 3 * 3; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "b=5:sq=9:skv=7:lens=%s:seed=%d", kinds[i % 3], i / 3);
        at_problem p = open_problem(text, arena);
        for (int64_t b = 0; b < 5; b++) {
            bool emptied = b == i % 3 * 2;
            CHECK_INT(p.len_q[b] == 0, emptied && i / 3 != 1);
            CHECK_INT(p.len_kv[b] == 0, emptied && i / 3 != 2);
            CHECK(p.len_q[b] <= 9 && p.len_kv[b] <= 7);
        }
    }
    at_arena_close(arena);
}

/* Design: key j when i + off - wl <= j <= i + off + wr, within the length; no key for other rows.
 */
static bool sees(const at_problem *p, int64_t b, int64_t i, int64_t j)
{
    const at_case *c = &p->c;
    int64_t off = c->align == AT_ALIGN_TL ? 0 : p->len_kv[b] - p->len_q[b];
    off = c->align >= 0 ? c->align : off;
    int64_t wr = c->mask == AT_MASK_CAUSAL ? 0 : c->window_right;
    bool inside = i < p->len_q[b] && j < p->len_kv[b];
    bool left = c->window_left < 0 || j >= i + off - c->window_left;
    bool right = wr < 0 || j <= i + off + wr;
    return inside && (c->mask == AT_MASK_NONE || (left && right));
}

static int64_t wrong_rows(const at_problem *p)
{
    int64_t wrong = 0;
    for (int64_t row = 0; row < p->c.batch * p->c.len_q; row++) {
        int64_t b = row / p->c.len_q, i = row % p->c.len_q, first = 0, last = 0;
        at_problem_keys(p, b, i, &first, &last);
        wrong += first > last && (first != 0 || last != -1);
        wrong += first < 0 || last >= p->c.len_kv;
        for (int64_t j = 0; j < p->c.len_kv; j++) {
            wrong += sees(p, b, i, j) != (j >= first && j <= last);
        }
    }
    return wrong;
}

static void test_keys(void)
{
    static const char *const masks[] = {"mask=none",           "mask=causal",
                                        "mask=causal:wl=0",    "mask=causal:wl=3:wr=0",
                                        "mask=band",           "mask=band:wl=0:wr=0",
                                        "mask=band:wl=2",      "mask=band:wr=2",
                                        "mask=band:wl=4:wr=1", "mask=band:wl=16777216:wr=16777216"};
    static const char *const aligns[] = {"align=tl", "align=br", "align=0", "align=5",
                                         "align=16777216"};
    static const char *const sizes[] = {"sq=9:skv=9", "sq=4:skv=13", "sq=13:skv=4",
                                        "sq=1:skv=8", "sq=8:skv=1",  "sq=3:skv=0"};
    at_arena *arena = open_arena();
    for (int i = 0; i < 10 * 5 * 6 * 2; i++) {
        char text[256];
        if (i % 10 == 0 && i / 10 % 5 != 0) {
            continue; /* no diagonal without a mask */
        }
        (void)snprintf(text, sizeof text, "b=3:dqk=1:%s:%s:%s:lens=%s", masks[i % 10],
                       aligns[i / 10 % 5], sizes[i / 50 % 6], i < 300 ? "none" : "random");
        at_problem p = open_problem(text, arena);
        CHECK_INT(wrong_rows(&p), 0);
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

const at_test at_tests[] = {
    {"unit", "layouts", test_layouts},
    {"unit", "values", test_values},
    {"unit", "memory_order", test_memory_order},
    {"unit", "rows", test_rows},
    {"unit", "shapes", test_shapes},
    {"unit", "lengths", test_lengths},
    {"unit", "random_lengths", test_random_lengths},
    {"unit", "zero_lengths", test_zero_lengths},
    {"unit", "keys", test_keys},
    {NULL, NULL, NULL},
};
