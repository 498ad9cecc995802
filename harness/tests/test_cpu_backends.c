#include "harness/tests/test.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/backend.h"
#include "harness/judge/judge.h"
#include "kernels/kernels.h"

/* A case opened with its reference for one numeric class. */
typedef struct bench {
    at_case c;
    char text[AT_CASE_TEXT_MAX];
    at_arena *arena, *gold_arena;
    at_problem p;
    at_gold gold;
} bench;

static void bench_open(bench *b, const char *text, const at_backend *backend)
{
    at_error err = {""};
    at_reference_options options = {.path = AT_REFERENCE_GOLDEN, .numeric = backend->numeric};
    memset(b, 0, sizeof *b);
    at_status status = at_case_parse(&b->c, text, &err);
    status = status == AT_OK ? at_arena_open(&b->arena, &err) : status;
    status = status == AT_OK ? at_arena_open(&b->gold_arena, &err) : status;
    status = status == AT_OK ? at_problem_open(&b->p, &b->c, b->arena, &err) : status;
    if (status == AT_OK) {
        at_cpu_hand_out_dropout(&b->p);
    }
    status =
        status == AT_OK ? at_reference_run(&b->gold, &b->p, &options, b->gold_arena, &err) : status;
    if (status != AT_OK) {
        (void)fprintf(stderr, "%s: %s\n", text, err.text);
        abort();
    }
    (void)at_case_print(&b->c, b->text);
}

static void bench_close(bench *b)
{
    at_arena_close(b->arena);
    at_arena_close(b->gold_arena);
}

static void check_step(const bench *b, const at_backend *backend, const char *engine, at_step step)
{
    at_error err = {""};
    at_step_verdict verdict;
    memset(&verdict, 0, sizeof verdict);
    at_status status = step == AT_STEP_FORWARD
                           ? backend->forward(backend, NULL, &b->p, engine, &err)
                           : backend->backward(backend, NULL, &b->p, engine, &err);
    if (status != AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s %s: %s: %s", backend->name, engine, b->text, err.text);
        return;
    }
    at_judge_step(&verdict, step, &b->p, &b->gold, &backend->contract);
    if (verdict.kind != AT_PASS) {
        at_test_fail(__FILE__, __LINE__, "%s %s: %s: %s: %s", backend->name, engine, b->text,
                     at_kind_names[verdict.kind], verdict.reason.text);
    }
}

/* Every engine of the backend passes the judge in every step of the case. */
static void check_case(const char *text, const char *name)
{
    const at_backend *backend = at_registry_find(name);
    bench b;
    at_engines engines = {0};
    at_reason why;
    bench_open(&b, text, backend);
    CHECK(backend->claim(backend, NULL, &b.c, &engines, &why) == AT_OK);
    for (int i = 0; i < engines.n; i++) {
        at_problem_poison(&b.p, AT_O, AT_DV);
        check_step(&b, backend, engines.name[i], AT_STEP_FORWARD);
        if (b.c.pass == AT_PASS_TRAIN) {
            check_step(&b, backend, engines.name[i], AT_STEP_BACKWARD);
        }
    }
    bench_close(&b);
}

static const char *const geometries[] = {
    "b=2:hq=2:sq=37:skv=70:dqk=24:dv=40",
    "b=2:hq=4:hkv=2:sq=70:skv=37:dqk=40",
    "b=3:hq=6:hkv=3:hv=2:sq=20:skv=35:dqk=17:dv=9",
    "b=2:hq=4:hkv=1:hv=4:sq=9:skv=140:dqk=8:dv=16",
};
static const char *const features[] = {
    "",
    ":mask=causal",
    ":mask=causal:align=br",
    ":mask=causal:align=5",
    ":mask=causal:wl=6:align=br",
    ":mask=band:wl=9:wr=3",
    ":mask=band:wl=0:wr=0:align=br",
    ":mask=band:wr=4:align=30",
    ":lens=random:seed=3",
    ":lens=zero_mid:mask=causal:align=br:seed=4",
    ":lens=zero_first:seed=2",
    ":lens=one",
    ":softcap=3:scale=0.7",
    ":softcap=20:mask=causal:scale=-0.3",
    ":lens=half:softcap=1:mask=band:wl=3:wr=1",
};
/* What stands beside q, k and v, where they stand in memory, fp8. */
static const char *const extras[] = {
    "amask=bool.11",
    "amask=bool.bh:deadrows=1",
    "amask=add.1h:deadrows=1",
    "amask=min.b1",
    "bias=alibi",
    "bias=rel.11:grads=qkvb",
    "bias=rel.1h:grads=b",
    "bias=rel.b1:grads=qkvb",
    "bias=rel.bh:grads=vb",
    "sink=off1",
    "sink=learned:grads=qkvs",
    "sink=learned:grads=s:amask=bool.b1:deadrows=1",
    "dropout=0.25",
    "dropout=0.5:sink=learned:grads=qkvbs:bias=rel.1h:amask=add.bh",
    "stride=row_gap",
    "stride=head_gap:bias=rel.bh",
    "stride=offset",
    "stride=expand_kv",
    "stride=dout_other:dropout=0.1",
    "grads=k",
};
static const char *const fp8[] = {
    "dtype=f8e4m3",
    "dtype=f8e5m2:odt=bf16",
    "dtype=f8e4m3:odt=f32:bias=rel.1h:grads=qkvb:amask=min.11",
    "dtype=f8e5m2:sink=learned:grads=qkvs:dropout=0.25",
};
static const char *const layouts[] = {"bshd", "sbhd", "bhsd", "thd"};

/* All geometries, features and layouts for one dtype; packed layouts get lengths and gaps. */
static void check_grid(const char *name, const char *dtype)
{
    char text[512];
    for (size_t g = 0; g < sizeof geometries / sizeof *geometries; g++) {
        for (size_t f = 0; f < sizeof features / sizeof *features; f++) {
            const char *layout = layouts[(g + f) % 4];
            bool packed = strcmp(layout, "thd") == 0;
            bool has_lens = strstr(features[f], "lens") != NULL;
            (void)snprintf(text, sizeof text, "%s%s:dtype=%s:layout=%s%s%s", geometries[g],
                           features[f], dtype, layout, packed && !has_lens ? ":lens=random" : "",
                           packed ? ":gap=3" : "");
            check_case(text, name);
        }
    }
}

/* Every extra with every feature, on geometries and layouts in turn; each `step` from `first`. */
static void check_extras(const char *name, const char *const *words, size_t n, const char *dtype,
                         size_t first, size_t step)
{
    enum { FEATURES = sizeof features / sizeof *features };
    char text[512];
    for (size_t i = first; i < n * FEATURES; i += step) {
        const char *layout = layouts[(i + i / FEATURES) % 4];
        bool thd = strcmp(layout, "thd") == 0,
             lens = strstr(features[i % FEATURES], "lens") != NULL;
        (void)snprintf(text, sizeof text, "%s%s:%s%s:layout=%s%s:seed=%d", geometries[i % 4],
                       features[i % FEATURES], words[i / FEATURES], dtype, layout,
                       thd && !lens ? ":lens=random" : "", (int)i);
        char *seed = strstr(text, ":seed="), *last = strrchr(text, ':');
        *last = seed != last ? '\0' : *last; /* the feature's own seed stays */
        check_case(text, name);
    }
}

static void check_all_extras(const char *name)
{
    static const char *const dtypes[] = {":dtype=f32", ":dtype=f16", ":dtype=bf16"};
    for (size_t d = 0; d < 3; d++) {
        check_extras(name, extras, sizeof extras / sizeof *extras, dtypes[d], d, 4);
    }
    check_extras(name, fp8, sizeof fp8 / sizeof *fp8, "", 0, 2);
}

static void extras_of_flash(void)
{
    check_all_extras("cpu.flash");
}

static void extras_of_naive(void)
{
    check_all_extras("cpu.naive");
}

/* Fused buffers and paged caches. */
static void memory_of_every_kind(void)
{
    static const char *const cases[] = {
        "b=2:hq=3:sq=50:dqk=24:pack=qkv3h:layout=bshd",
        "b=2:hq=3:sq=50:dqk=24:pack=qkvh3:layout=sbhd:mask=causal",
        "b=2:hq=3:sq=50:dqk=24:pack=qkv3h:layout=bhsd:bias=alibi",
        "b=3:hq=2:sq=50:dqk=24:pack=qkvh3:layout=thd:lens=random:gap=2",
        "b=2:hq=4:hkv=2:sq=30:skv=70:dqk=24:pack=kv2h:layout=bshd:sink=off1",
        "b=2:hq=4:hkv=2:sq=30:skv=70:dqk=24:pack=kvh2:layout=bhsd:lens=random",
        "b=3:hq=4:hkv=2:sq=30:skv=70:dqk=24:pack=kv2h:layout=thd:lens=random:dropout=0.2",
        "b=2:hq=4:hkv=2:sq=30:skv=70:dqk=24:pack=kvh2:layout=sbhd:stride=dout_other",
        "b=3:hq=4:hkv=2:sq=5:skv=90:dqk=24:page=16:lens=random:pass=stats:mask=causal:align=br",
        "b=3:hq=4:hkv=1:sq=1:skv=90:dqk=24:page=1:lens=random:pass=fwd:layout=bhsd",
        "b=3:hq=4:hkv=2:sq=9:skv=300:dqk=24:page=37:lens=full:pass=stats:pack=kv2h:splits=0",
        "b=3:hq=4:hkv=2:sq=9:skv=90:dqk=24:page=16:lens=zero_mid:pass=stats:layout=thd:pack=kvh2",
        "b=3:hq=2:sq=9:skv=90:dqk=24:page=16:lens=random:pass=stats:stride=expand_kv",
        "b=3:hq=2:sq=9:skv=90:dqk=24:page=16:lens=random:pass=stats:stride=row_gap:dtype=f8e4m3"};
    static const char *const dtypes[] = {"f32", "f16", "bf16", "f8e5m2"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int d = 0; d < 4; d++) {
            char text[256];
            bool own = strstr(cases[i], "dtype=") != NULL;
            (void)snprintf(text, sizeof text, "%s%s%s", cases[i],
                           own ? "" : ":dtype=", own ? "" : dtypes[d]);
            check_case(text, "cpu.flash");
            check_case(text, "cpu.naive");
        }
    }
}

static void flash_f32(void)
{
    check_grid("cpu.flash", "f32");
}

static void flash_f16(void)
{
    check_grid("cpu.flash", "f16");
}

static void flash_bf16(void)
{
    check_grid("cpu.flash", "bf16");
}

static void naive_all_types(void)
{
    check_grid("cpu.naive", "f32");
    check_grid("cpu.naive", "f16");
    check_grid("cpu.naive", "bf16");
}

/* Sizes around the tiles, and none at all. */
static void sizes_at_every_edge(void)
{
    static const int sizes[] = {0, 1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 257};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    char text[256];
    for (int n = 0; n < COUNT * COUNT; n++) {
        int rows = sizes[n / COUNT], keys = sizes[n % COUNT];
        (void)snprintf(text, sizeof text, "sq=%d:skv=%d:dqk=%d:dv=%d:dtype=%s%s", rows, keys,
                       1 + n % 35, 1 + n % 19, n % 3 == 0 ? "f32" : "bf16",
                       n % 2 == 0 ? ":mask=causal:align=br" : "");
        check_case(text, "cpu.flash");
        if (n % 5 == 0) {
            check_case(text, "cpu.naive");
        }
    }
    check_case("b=0:hq=2", "cpu.flash");
    check_case("b=0:hq=2", "cpu.naive");
    check_case("hq=2:skv=0:bias=rel.1h:grads=qkvb:sink=learned", "cpu.flash");
    check_case("hq=2:skv=0:bias=rel.1h:grads=qkvb:sink=learned", "cpu.naive");
}

static void inputs_of_every_distribution(void)
{
    static const char *const fills[] = {"normal",   "small_int", "uniform01", "outlier",
                                        "peaky",    "lowrank",   "deep_neg",  "sink_heavy",
                                        "constant", "denormal"};
    static const char *const types[] = {"f32", "f16", "bf16"};
    char text[256];
    for (size_t i = 0; i < 30; i++) {
        (void)snprintf(text, sizeof text,
                       "b=1:hq=4:hkv=2:sq=90:skv=150:dqk=64:dv=32:dtype=%s:fill=%s:seed=7%s",
                       types[i / 10], fills[i % 10], i % 2 == 0 ? ":mask=causal:align=br" : "");
        check_case(text, "cpu.flash");
    }
}

static void passes_and_splits(void)
{
    check_case("hq=2:sq=3:skv=700:dqk=32:pass=fwd", "cpu.flash");
    check_case("hq=2:sq=3:skv=700:dqk=32:pass=stats", "cpu.flash");
    check_case("hq=2:sq=3:skv=700:dqk=32:pass=fwd", "cpu.naive");
    check_case("hq=2:sq=3:skv=700:dqk=32:splits=1", "cpu.flash");
    check_case("hq=2:sq=40:skv=700:dqk=32:splits=3:mask=causal:align=br", "cpu.flash");
    check_case("hq=2:sq=2:skv=100:dqk=32:splits=9", "cpu.flash");
    check_case("hq=2:sq=40:dqk=32:dtype=bf16:odt=f32", "cpu.flash");
    check_case("hq=2:sq=40:dqk=32:dtype=f32:odt=f16", "cpu.flash");
    check_case("hq=2:sq=40:dqk=200:dv=1200:dtype=bf16", "cpu.flash");
}

static void run_both(const bench *b, const at_backend *backend, const char *engine, int threads,
                     unsigned char *bits)
{
    at_error err = {""};
    int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    at_problem_poison(&b->p, AT_O, AT_DV);
    CHECK_OK(backend->forward(backend, NULL, &b->p, engine, &err), &err);
    CHECK_OK(backend->backward(backend, NULL, &b->p, engine, &err), &err);
    omp_set_num_threads(before);
    at_judge_keep(&b->p, AT_STEP_FORWARD, bits);
    at_judge_keep(&b->p, AT_STEP_BACKWARD, bits + at_judge_keep_size(&b->p, AT_STEP_FORWARD));
}

/* Equal bits for any number of threads, on a case that is large enough to be spread over them. */
static void bits_do_not_depend_on_threads(void)
{
    static const char *const names[] = {"cpu.flash", "cpu.naive"};
    for (int n = 0; n < 2; n++) {
        const at_backend *backend = at_registry_find(names[n]);
        bench b;
        at_engines engines = {0};
        at_reason why;
        bench_open(&b, "b=2:hq=6:hkv=2:sq=260:skv=300:dqk=72:lens=random:mask=causal:align=br",
                   backend);
        CHECK(backend->claim(backend, NULL, &b.c, &engines, &why) == AT_OK);
        size_t size =
            at_judge_keep_size(&b.p, AT_STEP_FORWARD) + at_judge_keep_size(&b.p, AT_STEP_BACKWARD);
        unsigned char *one = calloc(size, 1), *more = calloc(size, 1);
        for (int i = 0; one != NULL && more != NULL && i < engines.n; i++) {
            run_both(&b, backend, engines.name[i], 1, one);
            run_both(&b, backend, engines.name[i], 3, more);
            CHECK(memcmp(one, more, size) == 0);
        }
        free(one);
        free(more);
        bench_close(&b);
    }
}

static void threads_share_a_large_case(void)
{
    int before = omp_get_max_threads();
    omp_set_num_threads(2);
    check_case("b=1:hq=8:hkv=2:sq=330:skv=500:dqk=64:mask=causal:align=br:lens=random",
               "cpu.flash");
    omp_set_num_threads(before);
}

static void padded_rows_are_zero(void)
{
    static const at_tensor_id padded[] = {AT_O, AT_DQ, AT_DK, AT_DV};
    const at_backend *backend = at_registry_find("cpu.flash");
    at_error err = {""};
    bench b;
    bench_open(&b, "b=2:hq=2:sq=9:skv=12:dqk=8:lenq=4+9:lenkv=12+5:layout=sbhd", backend);
    CHECK_OK(backend->forward(backend, NULL, &b.p, "tile64", &err), &err);
    CHECK_OK(backend->backward(backend, NULL, &b.p, "tile64", &err), &err);
    for (int i = 0; i < 4; i++) {
        const at_tensor *t = &b.p.t[padded[i]];
        int64_t seq = padded[i] == AT_O || padded[i] == AT_DQ ? 0 : 1, live = seq == 0 ? 4 : 5;
        for (int64_t s = 0; s < t->shape[2]; s++) {
            double x = at_tensor_get(t, seq, 1, s, 3);
            CHECK(s < live ? fabs(x) > 0 : x == 0);
        }
    }
    CHECK(at_tensor_get(&b.p.t[AT_LSE], 0, 1, 5, 0) == -HUGE_VAL);
    bench_close(&b);
}

static void check_unsupported(const char *name, const char *text, const char *code,
                              const char *sentence)
{
    const at_backend *backend = at_registry_find(name);
    at_error err = {""};
    at_case c;
    at_reason why = {"", ""};
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    CHECK_INT(backend->supports(backend, &c, &why), AT_UNSUPPORTED);
    CHECK_TEXT(why.code, code);
    CHECK_HAS(why.text, sentence);
}

static void what_is_not_computed_is_said(void)
{
    static const char *const names[] = {"cpu.flash", "cpu.naive"};
    for (int i = 0; i < 2; i++) {
        check_unsupported(names[i], "exec=replay", "exec", "exec=replay");
        check_unsupported(names[i], "exec=cached", "exec", "exec=cached");
        check_unsupported(names[i], "hq=3:hkv=2:invalid=1", "invalid", "invalid=1");
    }
    check_unsupported("cpu.naive", "splits=4", "splits", "splits=4");
}

static void unknown_engine_is_an_error(void)
{
    const at_backend *backend = at_registry_find("cpu.flash");
    at_error err = {""};
    bench b;
    bench_open(&b, "sq=4:skv=4:dqk=8", backend);
    CHECK_INT(backend->forward(backend, NULL, &b.p, "tile63", &err), AT_INVALID);
    CHECK_HAS(err.text, "no engine called \"tile63\"");
    bench_close(&b);
}

const at_test at_tests[] = {
    {"ref", "flash_f32", flash_f32},
    {"ref", "flash_f16", flash_f16},
    {"ref", "flash_bf16", flash_bf16},
    {"ref", "naive_all_types", naive_all_types},
    {"ref", "extras_of_flash", extras_of_flash},
    {"ref", "extras_of_naive", extras_of_naive},
    {"ref", "memory_of_every_kind", memory_of_every_kind},
    {"ref", "sizes_at_every_edge", sizes_at_every_edge},
    {"ref", "inputs_of_every_distribution", inputs_of_every_distribution},
    {"ref", "passes_and_splits", passes_and_splits},
    {"ref", "bits_do_not_depend_on_threads", bits_do_not_depend_on_threads},
    {"ref", "threads_share_a_large_case", threads_share_a_large_case},
    {"ref", "padded_rows_are_zero", padded_rows_are_zero},
    {"unit", "what_is_not_computed_is_said", what_is_not_computed_is_said},
    {"unit", "unknown_engine_is_an_error", unknown_engine_is_an_error},
    {NULL, NULL, NULL},
};
