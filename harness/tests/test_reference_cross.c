/* Features times features: the fast reference equals the golden one within fp64 rounding, and its
 * error scale within 1 %. */
#include "harness/tests/test.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "harness/tests/world.h"

static bool near(double a, double b, double tolerance)
{
    return a == b || fabs(a - b) <= tolerance;
}

/* Where all that a row sees is dropped, the f32 coefficients of the fast path fall below their
 * range.
 */
#define TINY 1e-38

static bool same_element(const at_gold_tensor *a, const at_gold_tensor *b, int64_t e)
{
    return near(a->ref[e], b->ref[e], 1e-6 * a->bound[e] + 1e-300) &&
           near(a->bound[e], b->bound[e], 0.01 * a->bound[e] + TINY) &&
           near(a->sigma[e], b->sigma[e], 0.01 * a->sigma[e] + TINY);
}

static void same_tensor(const at_world *w, const at_gold *golden, const at_gold *fast,
                        at_tensor_id id)
{
    const at_gold_tensor *a = &golden->t[id], *b = &fast->t[id];
    CHECK_INT(b->rows, a->rows);
    CHECK_INT(b->total_rows, a->total_rows);
    for (int64_t e = 0; e < a->rows * a->dim && b->rows == a->rows; e++) {
        const int64_t *row = a->row[e / a->dim];
        bool same = memcmp(row, b->row[e / a->dim], sizeof a->row[0]) == 0 &&
                    (a->dead == NULL || a->dead[e / a->dim] == b->dead[e / a->dim]);
        bool outside = e % a->dim >= at_problem_live_columns(&w->p, id, row[0]);
        if (!same || (!outside && !same_element(a, b, e))) {
            at_test_fail(__FILE__, __LINE__,
                         "%s: %s [%lld %lld %lld %lld]: ref %.17g %.17g, bound %g %g, sigma %g %g",
                         w->text, at_tensor_names[id], (long long)row[0], (long long)row[1],
                         (long long)row[2], (long long)(e % a->dim), a->ref[e], b->ref[e],
                         a->bound[e], b->bound[e], a->sigma[e], b->sigma[e]);
            return;
        }
    }
}

static void check(const char *text, const at_numeric_class *numeric)
{
    at_world w;
    if (at_world_open(&w, text) && at_world_run(&w, AT_REFERENCE_GOLDEN, numeric)) {
        at_gold golden = w.gold;
        if (at_world_run(&w, AT_REFERENCE_FAST, numeric)) {
            CHECK_TEXT(w.gold.path, "fast");
            for (int i = 0; i < AT_WORLD_OUTPUTS; i++) {
                same_tensor(&w, &golden, &w.gold, at_world_outputs[i]);
            }
        }
    }
    at_world_close(&w);
}

/* Words that change what is computed; a pair that sets one key twice or contradicts is passed over.
 */
static const char *const words[] = {
    "mask=causal",
    "mask=causal:align=br",
    "mask=band:wl=3:wr=2",
    "amask=bool.b1",
    "amask=add.1h:deadrows=1",
    "amask=min.bh",
    "bias=alibi",
    "bias=rel.11:grads=qkvb",
    "bias=rel.bh:grads=qkvb",
    "bias=rel.1h:grads=qkvb",
    "sink=off1",
    "sink=learned:grads=qkvs",
    "dropout=0.3",
    "softcap=1.5",
    "lens=random",
    "layout=thd:lens=half:gap=3",
    "lenq=9+0+30:lenkv=2+7+21",
    "hkv=2:hv=1",
    "dtype=f32",
    "dtype=f16:scale=-0.4",
    "dtype=f8e4m3:odt=bf16",
    "dtype=f8e5m2",
    "pack=kv2h",
    "stride=expand_kv",
    "fill=peaky",
    "fill=outlier",
    "pass=stats",
};
enum { WORDS = sizeof words / sizeof *words };

static void test_pairs(void)
{
    char text[512];
    int pairs = 0;
    omp_set_num_threads(1); /* many tiny problems */
    for (int i = 0; i < WORDS * WORDS; i++) {
        at_case c;
        at_error err = {""};
        if (i % WORDS < i / WORDS) {
            continue;
        }
        (void)snprintf(text, sizeof text, "b=3:hq=4:sq=40:skv=37:dqk=12:dv=%d:seed=%d:%s%s%s",
                       strstr(words[i % WORDS], "pack") || strstr(words[i / WORDS], "pack") ? 12
                                                                                            : 9,
                       i, words[i / WORDS], i % WORDS == i / WORDS ? "" : ":",
                       i % WORDS == i / WORDS ? "" : words[i % WORDS]);
        if (at_case_parse(&c, text, &err) == AT_OK) {
            check(text, NULL);
            pairs++;
        }
    }
    CHECK(pairs > 230);
}

static void test_classes(void)
{
    static const at_numeric_class classes[] = {
        {.p = AT_P_F32},
        {.scores_stored = true, .d_from_p = true, .head_rounded = true},
        {.variant = {.bias_before_cap = true, .alibi_signed = true, .lse_log2 = true}},
        {.variant = {.alibi_paper = true, .lse_without_sink = true}},
        {.p_unit = 0x1p-8F, .ds_unit = 0.25F},
    };
    static const char *const cases[] = {
        "b=2:hq=3:sq=30:skv=25:dqk=8:bias=rel.1h:grads=qkvbs:sink=learned:softcap=2:amask=bool.bh",
        "b=2:hq=6:hkv=2:sq=30:skv=25:dqk=8:bias=alibi:sink=off1:dropout=0.5:mask=causal",
        "b=2:hq=3:sq=30:skv=25:dqk=8:dtype=f8e4m3:bias=alibi:softcap=3:amask=add.11:deadrows=1",
        "b=2:hq=3:sq=30:skv=25:dqk=8:dtype=f32:bias=rel.b1:grads=qb:softcap=3:dropout=0.1",
    };
    for (int i = 0; i < 5 * 4; i++) {
        check(cases[i % 4], &classes[i / 4]);
    }
}

/* Larger than a block in rows and keys, with every feature at work. */
static void test_large(void)
{
    check("b=2:hq=4:hkv=2:sq=150:skv=300:dqk=16:dv=20:amask=bool.bh:bias=rel.1h:sink=learned:"
          "grads=qkvbs:dropout=0.2:softcap=4:mask=causal:align=br:lens=random",
          NULL);
    check("b=2:hq=4:hkv=1:sq=290:skv=270:dqk=16:amask=add.b1:deadrows=1:bias=alibi:dtype=f16:"
          "mask=band:wl=130:wr=20",
          NULL);
    check("b=5:hq=8:hkv=4:hv=2:sq=70:skv=300:dqk=16:dv=20:amask=add.b1:bias=rel.1h:sink=learned:"
          "grads=qkvbs:dropout=0.2:softcap=4:mask=causal:align=br:lens=random",
          NULL);
    check("hq=2:sq=600:skv=600:dqk=16:amask=bool.11:bias=rel.11:grads=b:dtype=f32:fill=peaky",
          NULL);
}

/* What a sample holds is what the complete answer holds. */
static void test_sampled(void)
{
    static const char *const cases[] = {
        "b=3:hq=4:hkv=2:sq=180:skv=200:dqk=16:amask=bool.bh:bias=rel.b1:sink=learned:grads=qkvbs:"
        "dropout=0.2:lens=random:layout=thd",
        "b=2:hq=4:sq=200:skv=180:dqk=16:bias=rel.11:grads=b:mask=causal:amask=add.1h:deadrows=1"};
    for (int i = 0; i < 2; i++) {
        at_world w;
        at_error err = {""};
        at_gold sampled;
        at_reference_options options = {.sample_above = 1e6};
        if (at_world_open(&w, cases[i]) && at_world_run(&w, AT_REFERENCE_FAST, NULL)) {
            CHECK_OK(at_reference_run(&sampled, &w.p, &options, w.answers, &err), &err);
            CHECK(sampled.share < 0.6 && sampled.share > 0);
            for (int k = 0; k < AT_WORLD_OUTPUTS; k++) {
                const at_gold_tensor *a = &w.gold.t[at_world_outputs[k]];
                const at_gold_tensor *b = &sampled.t[at_world_outputs[k]];
                int64_t found = 0;
                for (int64_t r = 0, s = 0; r < a->rows && s < b->rows; r++) {
                    if (memcmp(a->row[r], b->row[s], sizeof a->row[0]) == 0) {
                        for (int64_t d = 0; d < a->dim; d++) {
                            int64_t x = r * a->dim + d, y = s * a->dim + d;
                            CHECK(near(a->ref[x], b->ref[y], 1e-6 * a->bound[x] + 1e-300));
                            CHECK(near(a->bound[x], b->bound[y], 0.01 * a->bound[x]));
                        }
                        found++;
                        s++;
                    }
                }
                CHECK_INT(found, b->rows);
                CHECK((b->rows > 0) == (a->rows > 0));
            }
        }
        at_world_close(&w);
    }
}

const at_test at_tests[] = {
    {"ref", "pairs", test_pairs}, {"ref", "classes", test_classes},
    {"ref", "large", test_large}, {"ref", "sampled", test_sampled},
    {NULL, NULL, NULL},
};
