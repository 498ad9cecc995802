/* The fast reference equals the golden one within fp64 rounding, and its error scale within 1 %. */
#include "harness/tests/test.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "harness/problem/problem.h"
#include "reference/reference.h"

static const at_tensor_id outputs[] = {AT_O, AT_LSE, AT_DQ, AT_DK, AT_DV};

typedef struct both {
    at_arena *inputs, *answers;
    at_problem p;
    at_gold golden, fast;
    const char *text;
} both;

static at_status run(both *w, at_gold *out, at_reference_path path, const at_numeric_class *numeric,
                     at_error *err)
{
    at_reference_options options = {.path = path};
    if (numeric != NULL) {
        options.numeric = *numeric;
    }
    return at_reference_run(out, &w->p, &options, w->answers, err);
}

static bool both_open(both *w, const char *text, const at_numeric_class *numeric)
{
    at_case c;
    at_error err = {""};
    memset(w, 0, sizeof *w);
    w->text = text;
    CHECK_OK(at_arena_open(&w->inputs, &err), &err);
    CHECK_OK(at_arena_open(&w->answers, &err), &err);
    at_status status = at_case_parse(&c, text, &err);
    status = status == AT_OK ? at_problem_open(&w->p, &c, w->inputs, &err) : status;
    status = status == AT_OK ? run(w, &w->golden, AT_REFERENCE_GOLDEN, numeric, &err) : status;
    status = status == AT_OK ? run(w, &w->fast, AT_REFERENCE_FAST, numeric, &err) : status;
    if (status != AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
    }
    return status == AT_OK;
}

static void both_close(both *w)
{
    at_arena_close(w->inputs);
    at_arena_close(w->answers);
}

static bool near(double a, double b, double tolerance)
{
    return a == b || fabs(a - b) <= tolerance;
}

/* fp64 rounding is far below any noise of a kernel: a millionth of the bound. */
static bool same_element(const at_gold_tensor *a, const at_gold_tensor *b, int64_t e)
{
    double scale = 0.01 * a->sigma[e] + 1e-60;
    return near(a->ref[e], b->ref[e], 1e-6 * a->bound[e] + 1e-300) &&
           near(a->bound[e], b->bound[e], 0.01 * a->bound[e]) &&
           near(a->sigma[e], b->sigma[e], scale);
}

static void same_tensor(const both *w, at_tensor_id id)
{
    const at_gold_tensor *a = &w->golden.t[id], *b = &w->fast.t[id];
    CHECK_INT(b->rows, a->rows);
    CHECK_INT(b->total_rows, a->total_rows);
    CHECK_INT(b->dim, a->dim);
    for (int64_t r = 0; r < a->rows && b->rows == a->rows; r++) {
        bool same = memcmp(a->row[r], b->row[r], sizeof a->row[r]) == 0 &&
                    (a->dead == NULL || a->dead[r] == b->dead[r]);
        for (int64_t d = 0; d < a->dim && same; d++) {
            int64_t e = r * a->dim + d;
            same = same_element(a, b, e);
            if (!same) {
                at_test_fail(__FILE__, __LINE__,
                             "%s: %s [%lld %lld %lld %lld]: ref %.17g %.17g, bound %g %g, sigma %g "
                             "%g",
                             w->text, at_tensor_names[id], (long long)a->row[r][0],
                             (long long)a->row[r][1], (long long)a->row[r][2], (long long)d,
                             a->ref[e], b->ref[e], a->bound[e], b->bound[e], a->sigma[e],
                             b->sigma[e]);
            }
        }
        if (!same) {
            return;
        }
    }
}

static void check(const char *text, const at_numeric_class *numeric)
{
    both w;
    if (both_open(&w, text, numeric)) {
        CHECK_TEXT(w.golden.path, "golden");
        CHECK_TEXT(w.fast.path, "fast");
        CHECK(w.fast.share == 1);
        for (size_t i = 0; i < 5; i++) {
            same_tensor(&w, outputs[i]);
        }
    }
    both_close(&w);
}

static const char *const masks[] = {
    "",
    ":mask=causal",
    ":mask=causal:align=br",
    ":mask=causal:align=2",
    ":mask=causal:wl=1",
    ":mask=band:wl=0:wr=0",
    ":mask=band:wl=2:wr=1:align=br",
    ":mask=band:wr=0:align=1",
    ":mask=band:wl=1:align=3",
};
enum { N_MASKS = sizeof masks / sizeof masks[0] };

static void test_tiny_lengths(void)
{
    static const char *const heads[] = {"hq=1", "hq=4:hkv=2", "hq=6:hkv=3:hv=2", "b=2:hq=2:hkv=1"};
    static const int dims[] = {1, 2, 3, 8};
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    char text[256];
    int n = 0;
    for (int sq = 0; sq <= 5; sq++) {
        for (int skv = 0; skv <= 5; skv++) {
            for (int m = 0; m < N_MASKS; m++) {
                for (int h = 0; h < 4; h++, n++) {
                    (void)snprintf(text, sizeof text, "%s:sq=%d:skv=%d:dqk=%d:dv=%d:dtype=%s%s",
                                   heads[h], sq, skv, dims[n / 3 % 4], dims[n / 7 % 4],
                                   dtypes[n % 3], masks[m]);
                    check(text, NULL);
                }
            }
        }
    }
}

static void test_tiny_sequences(void)
{
    static const char *const lens[] = {"full",       "half",     "random",   "one",
                                       "zero_first", "zero_mid", "zero_last"};
    static const char *const layouts[] = {"bshd", "sbhd", "bhsd", "thd"};
    char text[256];
    int n = 0;
    for (int k = 0; k < 7; k++) {
        for (int m = 0; m < N_MASKS; m++) {
            for (int len = 1; len <= 5; len += 2, n++) {
                (void)snprintf(
                    text, sizeof text,
                    "b=3:hq=4:hkv=2:sq=%d:skv=%d:dqk=3:dv=2:lens=%s:layout=%s%s%s:seed=%d", len,
                    6 - len, lens[k], layouts[n % 4], masks[m], n % 2 ? ":softcap=1.5" : "", n);
                check(text, NULL);
            }
        }
    }
    check("b=3:hq=2:sq=8:skv=6:dqk=4:lenq=8+0+3:lenkv=2+6+0:layout=thd:gap=2:mask=causal", NULL);
    check("b=0:hq=2:dqk=4", NULL);
    check("b=0:hq=8:dqk=4:pass=fwd", NULL);
}

/* Every distribution and type at sizes that take several blocks and chunks, in every class. */
static void test_distributions(void)
{
    static const char *const fills[] = {"normal",   "small_int", "uniform01", "outlier",
                                        "peaky",    "lowrank",   "deep_neg",  "sink_heavy",
                                        "constant", "denormal"};
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    static const char *const rest[] = {"", ":mask=causal:align=br", ":softcap=2", ":scale=0.001",
                                       ":mask=causal:wl=20"};
    char text[256];
    for (int f = 0, n = 0; f < 10; f++) {
        for (int d = 0; d < 3; d++, n++) {
            at_numeric_class numeric = {.p = n % 2 ? AT_P_F32 : AT_P_STORED,
                                        .scores_stored = n / 2 % 2 != 0,
                                        .d_from_p = n / 3 % 2 != 0,
                                        .head_rounded = n % 3 == 0};
            (void)snprintf(text, sizeof text,
                           "hq=2:hkv=1:sq=150:skv=300:dqk=24:dv=16:dtype=%s:fill=%s%s", dtypes[d],
                           fills[f], rest[n % 5]);
            check(text, &numeric);
            check(text, NULL);
        }
    }
}

static void test_samples(void)
{
    check("hq=4:hkv=2:sq=260:skv=130:dqk=64:dv=40:mask=causal", NULL);
    check("hq=6:hkv=3:hv=2:sq=129:skv=257:dqk=40:dv=64:mask=band:wl=70:wr=3:align=br", NULL);
    check("b=3:hq=3:hkv=1:sq=140:skv=270:dqk=32:lens=random:layout=thd:softcap=20", NULL);
    check("hq=8:hkv=1:sq=1:skv=1500:dqk=64:dv=32:dtype=f16", NULL);
    check("hq=1:sq=700:skv=3:dqk=16:dtype=f32:odt=bf16", NULL);
    check("sq=300:dqk=200:dv=8:dtype=bf16:odt=f32:pass=stats", NULL);
    check("sq=900:dqk=16:mask=causal:wl=9", NULL);
}

/* Bits do not depend on the number of threads. */
static void test_threads(void)
{
    at_error err = {""};
    both w;
    int before = omp_get_max_threads();
    if (both_open(&w, "hq=6:hkv=3:hv=2:sq=150:skv=300:dqk=32:dv=24:mask=causal:align=br", NULL)) {
        for (int threads = 1; threads <= 5; threads += 2) {
            at_gold again = {0};
            omp_set_num_threads(threads);
            CHECK_OK(run(&w, &again, AT_REFERENCE_FAST, NULL, &err), &err);
            CHECK_INT(omp_get_max_threads(), threads);
            for (size_t i = 0; i < 5; i++) {
                const at_gold_tensor *a = &w.fast.t[outputs[i]], *b = &again.t[outputs[i]];
                size_t size = (size_t)(a->rows * a->dim) * sizeof(double);
                CHECK(memcmp(a->ref, b->ref, size) == 0);
                CHECK(memcmp(a->bound, b->bound, size) == 0);
                CHECK(memcmp(a->sigma, b->sigma, size) == 0);
            }
        }
    }
    omp_set_num_threads(before);
    both_close(&w);
}

static int64_t find_row(const at_gold_tensor *t, int64_t b, int64_t h, int64_t s)
{
    for (int64_t r = 0; r < t->rows; r++) {
        if (t->row[r][0] == b && t->row[r][1] == h && t->row[r][2] == s) {
            return r;
        }
    }
    return -1;
}

static bool after(const int64_t *a, const int64_t *b)
{
    for (int i = 0; i < 3; i++) {
        if (a[i] != b[i]) {
            return a[i] > b[i];
        }
    }
    return false;
}

/* A sampled tensor is a sorted part of the complete one with equal values. */
static void part_of(const char *text, const at_gold_tensor *part, const at_gold_tensor *whole,
                    at_tensor_id id)
{
    CHECK_INT(part->total_rows, whole->rows);
    CHECK(part->rows > 0 && part->rows <= whole->rows);
    int64_t w = 0;
    for (int64_t r = 0; r < part->rows; r++, w++) {
        CHECK(r == 0 || after(part->row[r], part->row[r - 1]));
        while (w < whole->rows && after(part->row[r], whole->row[w])) {
            w++;
        }
        bool same = w < whole->rows && !after(whole->row[w], part->row[r]) &&
                    (part->dead == NULL || part->dead[r] == whole->dead[w]);
        for (int64_t d = 0; d < part->dim && same; d++) {
            at_gold_tensor a = *whole, b = *part;
            a.ref += w * a.dim, a.bound += w * a.dim, a.sigma += w * a.dim;
            b.ref += r * b.dim, b.bound += r * b.dim, b.sigma += r * b.dim;
            same = same_element(&a, &b, d);
        }
        if (!same) {
            at_test_fail(__FILE__, __LINE__, "%s: sampled %s row %lld differs", text,
                         at_tensor_names[id], (long long)r);
            return;
        }
    }
}

/* Samples with room for some rows and keys, compares with the complete answer, and returns the
 * sampled one in w->golden. */
static bool sample(both *w, const char *text, double above)
{
    at_case c;
    at_error err = {""};
    memset(w, 0, sizeof *w);
    CHECK_OK(at_arena_open(&w->inputs, &err), &err);
    CHECK_OK(at_arena_open(&w->answers, &err), &err);
    at_reference_options options = {.path = AT_REFERENCE_AUTO, .sample_above = above};
    at_status status = at_case_parse(&c, text, &err);
    status = status == AT_OK ? at_problem_open(&w->p, &c, w->inputs, &err) : status;
    status = status == AT_OK ? run(w, &w->fast, AT_REFERENCE_FAST, NULL, &err) : status;
    status =
        status == AT_OK ? at_reference_run(&w->golden, &w->p, &options, w->answers, &err) : status;
    if (status != AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
        return false;
    }
    double held = 0, all = 0;
    for (size_t i = 0; i < 5; i++) {
        const at_gold_tensor *t = &w->golden.t[outputs[i]];
        if (w->fast.t[outputs[i]].rows > 0) {
            part_of(text, t, &w->fast.t[outputs[i]], outputs[i]);
        }
        held += (double)(t->rows * t->dim);
        all += (double)(t->total_rows * t->dim);
    }
    CHECK(w->golden.share < 1 && fabs(w->golden.share - held / all) <= 1e-12);
    return true;
}

static void test_sampled(void)
{
    both w;
    if (sample(&w, "hq=4:hkv=2:sq=700:skv=600:dqk=16:mask=causal:align=br:wl=300", 2e7)) {
        static const int64_t rows[] = {0, 699, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257,
                                       511, 512, 513, 639, 640, 641, 687, 688, 689,
                                       /* first live row; first row that loses keys to the window */
                                       99, 100, 101, 400, 401, 402};
        static const int64_t keys[] = {
            0,   599, 15,  16,  17,  127, 128, 129, 255,
            256, 257, 511, 512, 513, 591, 592, 593, /* last key that all its rows see */
            299, 300};
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            for (int64_t h = 0; h < 4; h++) {
                CHECK(find_row(&w.golden.t[AT_O], 0, h, rows[i]) >= 0);
                CHECK(find_row(&w.golden.t[AT_DQ], 0, h, rows[i]) >= 0);
            }
        }
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
            for (int64_t h = 0; h < 2; h++) {
                CHECK(find_row(&w.golden.t[AT_DK], 0, h, keys[i]) >= 0);
                CHECK(find_row(&w.golden.t[AT_DV], 0, h, keys[i]) >= 0);
            }
        }
    }
    both_close(&w);
}

/* With next to no room: the ends of every sequence and head on the q side, and one unit's keys. */
static void test_sampled_little(void)
{
    both w;
    if (sample(&w, "b=3:hq=6:hkv=3:hv=2:sq=80:skv=90:dqk=8:lens=random:layout=thd", 1)) {
        for (int64_t b = 0; b < 3; b++) {
            for (int64_t h = 0; h < 6; h++) {
                CHECK(find_row(&w.golden.t[AT_O], b, h, 0) >= 0);
                CHECK(find_row(&w.golden.t[AT_LSE], b, h, w.p.len_q[b] - 1) >= 0);
            }
        }
        int64_t b = w.golden.t[AT_DK].row[0][0];
        for (int64_t r = 0; r < w.golden.t[AT_DK].rows; r++) {
            CHECK_INT(w.golden.t[AT_DK].row[r][0], b);
        }
        CHECK(find_row(&w.golden.t[AT_DK], b, w.golden.t[AT_DK].row[0][1], 0) >= 0);
        CHECK(find_row(&w.golden.t[AT_DV], b, w.golden.t[AT_DV].row[0][1], w.p.len_kv[b] - 1) >= 0);
    }
    both_close(&w);
    if (sample(&w, "b=2:hq=4:sq=200:skv=150:dqk=8", 6e6)) {
        /* Room for three of eight heads: the first, the last, one between. */
        const at_gold_tensor *t = &w.golden.t[AT_DK];
        CHECK(t->row[0][0] == 0 && t->row[0][1] == 0);
        CHECK(t->row[t->rows - 1][0] == 1 && t->row[t->rows - 1][1] == 3);
    }
    both_close(&w);
    if (sample(&w, "hq=8:hkv=2:sq=3:skv=2000:dqk=8:pass=fwd", 1e4)) {
        CHECK_INT(w.golden.t[AT_LSE].rows, 0);
        CHECK_INT(w.golden.t[AT_DK].rows, 0);
    }
    both_close(&w);
    if (sample(&w, "sq=3000:skv=3000:dqk=8:mask=causal:wl=7", 1e5)) {
        CHECK(find_row(&w.golden.t[AT_DV], 0, 0, 2999) >= 0);
    }
    both_close(&w);
}

const at_test at_tests[] = {
    {"ref", "tiny_lengths", test_tiny_lengths},
    {"ref", "tiny_sequences", test_tiny_sequences},
    {"ref", "distributions", test_distributions},
    {"ref", "samples", test_samples},
    {"ref", "threads", test_threads},
    {"ref", "sampled", test_sampled},
    {"ref", "sampled_little", test_sampled_little},
    {NULL, NULL, NULL},
};
