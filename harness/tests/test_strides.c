/* strides.c, gaps.c: packed, gapped, expanded and paged tensors; what lies between them. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/problem/gaps.h"
#include "harness/problem/strides.h"

static at_arena *open_arena(void)
{
    at_arena *arena = NULL;
    at_error err = {""};
    CHECK_OK(at_arena_open(&arena, &err), &err);
    return arena;
}

static at_problem open_problem(const char *text, at_arena *arena)
{
    at_case c;
    at_problem p;
    at_error err = {""};
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    CHECK_OK(at_problem_open(&p, &c, arena, &err), &err);
    return p;
}

/* What every test below is run on: layouts times kinds of memory. */
static const char *const layouts[] = {"bshd:lens=random", "sbhd:lens=half", "bhsd:lens=random",
                                      "thd:lens=random:gap=2"};
static const char *const kinds[] = {"hq=4:hkv=2:stride=row_gap",
                                    "hq=4:hkv=2:stride=head_gap",
                                    "hq=4:hkv=2:stride=offset",
                                    "hq=4:hkv=2:stride=expand_kv",
                                    "hq=4:hkv=1:stride=expand_kv",
                                    "hq=4:hkv=2:stride=dout_other",
                                    "hq=2:skv=7:pack=qkv3h",
                                    "hq=2:skv=7:pack=qkvh3:stride=dout_other",
                                    "hq=4:hkv=2:pack=kv2h",
                                    "hq=4:hkv=2:pack=kvh2",
                                    "hq=4:hkv=2:page=4:pass=stats",
                                    "hq=4:hkv=2:page=4:pack=kv2h:pass=stats",
                                    "hq=4:hkv=2:page=3:pack=kvh2:pass=stats",
                                    "hq=4:hkv=2:page=5:stride=row_gap:pass=stats",
                                    "hq=4:hkv=2:page=16:stride=expand_kv:pass=fwd"};
enum { LAYOUTS = 4, KINDS = sizeof kinds / sizeof *kinds };

static at_problem open_kind(int i, at_arena *arena)
{
    char text[256];
    const char *kind = kinds[i / LAYOUTS];
    (void)snprintf(text, sizeof text, "b=3:sq=7:%s%s:dqk=8:seed=3:layout=%s", kind,
                   strstr(kind, "skv") != NULL ? "" : ":skv=9", layouts[i % LAYOUTS]);
    return open_problem(text, arena);
}

static void each_kind(void (*check)(const at_problem *p))
{
    at_arena *arena = open_arena();
    for (int i = 0; i < LAYOUTS * KINDS; i++) {
        at_problem p = open_kind(i, arena);
        check(&p);
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

/* Every row reads back what the stream says, wherever it stands. */
static void check_values(const at_problem *p)
{
    int64_t wrong = 0;
    for (int id = AT_Q; id <= AT_DO; id++) {
        const at_tensor *t = &p->t[id];
        for (int64_t n = 0; t->data != NULL && n < t->shape[0] * t->shape[1]; n++) {
            int64_t b = n / t->shape[1], h = n % t->shape[1];
            for (int64_t e = 0; e < at_problem_rows(p, (at_tensor_id)id, b) * t->shape[3]; e++) {
                int64_t s = e / t->shape[3], d = e % t->shape[3];
                double want = at_fill_value(&p->c, (at_tensor_id)id, b, h, s, d);
                wrong += at_tensor_get(t, b, h, s, d) != at_dtype_round(t->dtype, want);
            }
        }
    }
    CHECK_INT(wrong, 0);
}

static void test_values(void)
{
    each_kind(check_values);
}

/* Counts how often each element of a buffer is some tensor's. */
static void count_uses(const at_problem *p, int home, int *uses)
{
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        const at_tensor *t = &p->t[id];
        if (t->data == NULL || (int)p->home[id] != home) {
            continue;
        }
        const unsigned char *base = p->base[home];
        for (int64_t n = 0; n < t->shape[0] * t->shape[1]; n++) {
            int64_t b = n / t->shape[1], h = n % t->shape[1];
            for (int64_t e = 0; e < at_problem_rows(p, (at_tensor_id)id, b) * t->shape[3]; e++) {
                const unsigned char *at = at_tensor_at(t, b, h, e / t->shape[3], e % t->shape[3]);
                ptrdiff_t place = (at - base) / (ptrdiff_t)at_dtype_size(t->dtype);
                CHECK(place >= 0 && (size_t)place < p->size[home] / at_dtype_size(t->dtype));
                uses[place]++;
            }
        }
    }
}

/* A change of any element is told apart: the tensor's own, or a gap. */
static void check_element(const at_problem *p, int home, size_t e, bool used)
{
    size_t size = at_dtype_size(p->t[home].dtype);
    unsigned char *at = (unsigned char *)p->base[home] + e * size;
    bool input = at_tensor_is_input((at_tensor_id)home);
    at_memory_fault want = input ? AT_MEMORY_CLOBBERED : used ? AT_MEMORY_OK : AT_MEMORY_OVERRUN;
    at_tensor_id tensor = AT_TENSOR_COUNT;
    at_error what = {""};
    *at ^= 1;
    CHECK_INT(at_problem_check_memory(p, &tensor, &what), want);
    if (want != AT_MEMORY_OK) {
        CHECK(p->home[tensor] == (at_tensor_id)home);
        CHECK(strstr(what.text, used    ? "changed at ["
                                : input ? "changed at element"
                                        : "gap") != NULL);
    }
    *at ^= 1;
}

static void check_memory(const at_problem *p)
{
    for (int home = 0; home < AT_TENSOR_COUNT; home++) {
        if (p->base[home] == NULL) {
            continue;
        }
        size_t n = p->size[home] / at_dtype_size(p->t[home].dtype), used = 0;
        bool shared = p->c.stride == AT_STRIDE_EXPAND_KV && (home == AT_K || home == AT_V);
        int *uses = calloc(n + 1, sizeof *uses);
        CHECK(uses != NULL);
        count_uses(p, home, uses);
        for (size_t e = 0; e < n; e++) {
            CHECK(uses[e] <= 1 || shared);
            used += uses[e] > 0;
            if (e % 3 == 0 || uses[e] == 0) {
                check_element(p, home, e, uses[e] > 0);
            }
        }
        CHECK_INT(used < n, at_problem_has_gaps(p, (at_tensor_id)home));
        free(uses);
    }
}

static void test_memory(void)
{
    each_kind(check_memory);
}

/* Inputs hold garbage between tokens and heads, before an offset and in unused pages. */
static void check_garbage(const at_problem *p)
{
    for (int home = 0; home <= AT_DO; home++) {
        if (p->base[home] == NULL) {
            continue;
        }
        size_t size = at_dtype_size(p->t[home].dtype), n = p->size[home] / size;
        int *uses = calloc(n + 1, sizeof *uses);
        CHECK(uses != NULL);
        count_uses(p, home, uses);
        for (size_t e = 0; e < n; e++) {
            double x = 0;
            at_dtype_load_double(p->t[home].dtype, &x, (const char *)p->base[home] + e * size, 1);
            CHECK(uses[e] > 0 || (fabs(x) >= 32 && fabs(x) <= 63));
        }
        free(uses);
    }
}

static void test_garbage(void)
{
    each_kind(check_garbage);
}

/* Strides said in numbers: b=2, 3 heads (q) or 1 and 3, 5 rows, 7 keys, dims 8. */
static void test_places(void)
{
    static const struct {
        const char *text;
        at_tensor_id id;
        int64_t stride[4], offset, elements;
    } rows[] = {
        {"stride=row_gap", AT_Q, {5 * 40, 8, 40, 1}, 0, 2 * 5 * 40},
        {"stride=row_gap:layout=sbhd", AT_DQ, {24, 8, 64, 1}, 0, 5 * 64},
        {"stride=row_gap:layout=bhsd", AT_O, {3 * 5 * 24, 5 * 24, 24, 1}, 0, 2 * 3 * 5 * 24},
        {"stride=head_gap", AT_K, {7 * 72, 24, 72, 1}, 0, 2 * 7 * 72},
        {"stride=head_gap:layout=bhsd", AT_DO, {3 * 56, 56, 8, 1}, 0, 2 * 3 * 56},
        {"stride=offset", AT_V, {168, 8, 24, 1}, 8, 2 * 168 + 8},
        {"stride=offset:dtype=f32", AT_O, {120, 8, 24, 1}, 4, 2 * 120 + 4},
        {"stride=expand_kv", AT_K, {7 * 8, 0, 8, 1}, 0, 2 * 7 * 8},
        {"stride=expand_kv:hkv=1", AT_V, {0, 8, 8, 1}, 0, 7 * 8},
        {"stride=expand_kv", AT_DK, {168, 8, 24, 1}, 0, 2 * 168},
        {"stride=dout_other", AT_DO, {120, 40, 8, 1}, 0, 2 * 120},
        {"stride=dout_other:layout=bhsd", AT_DO, {120, 8, 24, 1}, 0, 2 * 120},
        {"stride=dout_other:layout=sbhd", AT_DO, {120, 8, 24, 1}, 0, 2 * 120},
        {"stride=dout_other:layout=thd:lens=full", AT_DO, {0, 80, 8, 1}, 0, 2 * 120},
        {"stride=dout_other", AT_O, {120, 8, 24, 1}, 0, 2 * 120},
        {"pack=kv2h", AT_V, {7 * 48, 8, 48, 1}, 24, 2 * 7 * 48},
        {"pack=kvh2:layout=sbhd", AT_V, {48, 16, 96, 1}, 8, 7 * 96},
        {"pack=qkv3h:skv=5", AT_DV, {5 * 72, 8, 72, 1}, 48, 2 * 5 * 72},
        {"pack=qkvh3:skv=5:layout=bhsd", AT_K, {360, 120, 8, 1}, 40, 2 * 360},
        {"pack=qkv3h:skv=5:layout=bhsd", AT_K, {360, 40, 8, 1}, 120, 2 * 360},
        {"page=4:pass=fwd:lens=full", AT_K, {96, 8, 24, 1}, 0, 6 * 96},
        {"page=4:pass=fwd:lens=full:layout=bhsd", AT_V, {96, 32, 8, 1}, 0, 6 * 96},
        {"page=4:pass=fwd:lens=full", AT_PAGES, {2, 2, 2, 1}, 0, 4},
        {"bias=rel.1h:grads=qb", AT_DBIAS, {0, 35, 7, 1}, 0, 105},
        {"bias=rel.b1", AT_BIAS, {35, 0, 7, 1}, 0, 70},
        {"amask=add.bh", AT_AMASK, {105, 35, 7, 1}, 0, 210},
        {"sink=learned", AT_SINK, {0, 1, 1, 1}, 0, 3},
        {"dropout=0.5", AT_DROP, {105, 35, 7, 1}, 0, 210},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        at_case c;
        at_error err = {""};
        at_strides got;
        const char *skv = strstr(rows[i].text, "skv") != NULL ? "" : ":skv=7";
        (void)snprintf(text, sizeof text, "b=2:hq=3:sq=5%s:dqk=8:%s", skv, rows[i].text);
        CHECK_OK(at_case_parse(&c, text, &err), &err);
        at_case_strides(&got, &c, rows[i].id);
        CHECK(got.exists);
        if (memcmp(got.stride, rows[i].stride, sizeof got.stride) != 0 ||
            got.offset != rows[i].offset || got.elements != rows[i].elements) {
            at_test_fail(__FILE__, __LINE__, "%s %s: %lld %lld %lld %lld offset %lld of %lld", text,
                         at_tensor_names[rows[i].id], (long long)got.stride[0],
                         (long long)got.stride[1], (long long)got.stride[2],
                         (long long)got.stride[3], (long long)got.offset, (long long)got.elements);
        }
    }
}

/* Which tensors a case has, and of which type. */
static void test_existence(void)
{
    static const struct {
        const char *text;
        at_tensor_id id;
        int dtype; /* -1: none */
    } rows[] = {
        {"bias=alibi", AT_BIAS, -1},
        {"bias=rel.11", AT_BIAS, AT_BF16},
        {"bias=rel.11", AT_DBIAS, -1},
        {"bias=rel.11:grads=b", AT_DBIAS, AT_BF16},
        {"bias=rel.11:dtype=f8e4m3:odt=bf16", AT_BIAS, AT_F32},
        {"amask=bool.11", AT_AMASK, AT_U8},
        {"amask=min.11:dtype=f16", AT_AMASK, AT_F16},
        {"amask=add.11:dtype=f8e4m3", AT_AMASK, AT_F32},
        {"sink=off1", AT_SINK, -1},
        {"sink=learned", AT_DSINK, -1},
        {"sink=learned:grads=qs", AT_DSINK, AT_F32},
        {"dropout=0.25", AT_DROP, AT_U8},
        {"dropout=0.25:pass=fwd", AT_DROP, AT_U8},
        {"b=2", AT_DROP, -1},
        {"b=2", AT_PAGES, -1},
        {"page=16:pass=fwd:lens=full", AT_PAGES, AT_I32},
    };
    at_arena *arena = open_arena();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        at_problem p = open_problem(rows[i].text, arena);
        const at_tensor *t = &p.t[rows[i].id];
        CHECK_INT(t->data != NULL, rows[i].dtype >= 0);
        CHECK(t->data == NULL || (int)t->dtype == rows[i].dtype);
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

/* The table names distinct pages, shuffled, and some belong to nobody. */
static void test_pages(void)
{
    at_arena *arena = open_arena();
    at_problem p = open_problem("b=5:sq=1:skv=100:page=8:pass=fwd:lens=random", arena);
    const int32_t *table = p.t[AT_PAGES].data;
    int64_t wide = at_case_pages_wide(&p.c), pages = at_case_pages(&p.c), moved = 0;
    int seen[128] = {0};
    CHECK(wide == 13 && pages > 5 * 13 && pages <= 128);
    for (int64_t i = 0; i < 5 * wide; i++) {
        CHECK(table[i] >= 0 && table[i] < pages && seen[table[i]]++ == 0);
        moved += table[i] != i;
    }
    CHECK(moved > 5 * 13 / 2);
    CHECK(at_tensor_offset(&p.t[AT_K], 3, 0, 17, 5) == (table[3 * wide + 2] * 8 + 1) * 64 + 5);
    at_arena_close(arena);
}

const at_test at_tests[] = {
    {"unit", "values", test_values},
    {"unit", "memory", test_memory},
    {"unit", "garbage", test_garbage},
    {"unit", "places", test_places},
    {"unit", "existence", test_existence},
    {"unit", "pages", test_pages},
    {NULL, NULL, NULL},
};
