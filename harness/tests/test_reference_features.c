/* Every feature of the case language in the golden reference: a second opinion, finite differences,
 * identities. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/tests/world.h"

static const char *const features[] = {
    "amask=bool.11",
    "amask=bool.bh:deadrows=1",
    "amask=add.b1:deadrows=1",
    "amask=min.1h",
    "amask=min.b1:deadrows=1:dtype=f16",
    "bias=alibi",
    "bias=rel.11:grads=qkvb",
    "bias=rel.1h:grads=qb",
    "bias=rel.b1:grads=b",
    "bias=rel.bh:grads=vb",
    "sink=off1",
    "sink=learned:grads=qkvs",
    "sink=learned:grads=s:amask=bool.bh:deadrows=1",
    "dropout=0.25",
    "dropout=0.5:sink=learned:grads=qkvs:bias=rel.b1",
    "bias=rel.1h:amask=add.bh:sink=learned:dropout=0.125:grads=qkvbs",
    "dtype=f8e4m3:odt=bf16",
    "dtype=f8e5m2",
    "dtype=f8e5m2:odt=f16:sink=learned:bias=rel.11:dropout=0.25:grads=qkvbs",
    "dtype=f8e4m3:bias=rel.bh:amask=min.11:sink=off1:grads=qkvb",
    "stride=row_gap:bias=alibi",
    "stride=expand_kv:dropout=0.25",
};
static const char *const shapes[] = {
    "sq=1:dqk=4",
    "hq=4:hkv=2:sq=9:skv=6:dqk=8:dv=5",
    "b=3:hq=4:hkv=2:hv=1:sq=7:skv=12:dqk=4:dv=6:lens=random:softcap=1.5",
    "b=3:hq=2:hkv=1:sq=8:skv=8:dqk=5:lens=zero_mid:layout=thd:scale=-0.3",
    "b=2:hq=3:sq=6:skv=9:dqk=4:lenq=3+6:lenkv=9+1:layout=sbhd:fill=peaky",
};
static const char *const masks[] = {
    "",
    ":mask=causal:align=br",
    ":mask=band:wl=3:wr=2:align=2",
};
enum { FEATURES = sizeof features / sizeof *features, SHAPES = 5, MASKS = 3 };

static const at_variant standard = {0};

static void second_opinion(const char *text, const at_variant *variant)
{
    const at_numeric_class numeric = {.variant = *variant};
    at_world w;
    at_direct x;
    if (at_world_open(&w, text) && at_world_run(&w, AT_REFERENCE_GOLDEN, &numeric)) {
        at_direct_open(&x, &w.p, variant);
        at_world_agrees(&w, &x, 4e-14);
        at_direct_close(&x);
    }
    at_world_close(&w);
}

static void test_second_opinion(void)
{
    char text[512];
    for (int n = 0; n < FEATURES * SHAPES * MASKS; n++) {
        (void)snprintf(text, sizeof text, "%s:%s%s:seed=%d", features[n % FEATURES],
                       shapes[n / FEATURES % SHAPES], masks[n / FEATURES / SHAPES], n);
        second_opinion(text, &standard);
    }
}

static void test_variants(void)
{
    static const at_variant variants[] = {
        {.bias_before_cap = true}, {.alibi_signed = true},     {.alibi_paper = true},
        {.lse_log2 = true},        {.lse_without_sink = true}, {true, true, true, true, true}};
    static const char *const cases[] = {
        "b=2:hq=3:sq=5:skv=7:dqk=4:softcap=1:bias=rel.1h:grads=qkvb:sink=learned",
        "b=2:hq=6:hkv=2:sq=5:skv=7:dqk=4:softcap=2:bias=alibi:sink=off1:amask=bool.bh:deadrows=1",
        "b=2:hq=3:sq=5:skv=7:dqk=4:bias=alibi:lens=random:mask=causal:align=br:fill=peaky"};
    for (int i = 0; i < 6 * 3; i++) {
        second_opinion(cases[i % 3], &variants[i / 3]);
    }
}

/* d loss / d input by central differences of the direct formula, every element. */
static void differences(const at_world *w, at_direct *x, at_tensor_id input, at_tensor_id output)
{
    const at_gold_tensor *t = &w->gold.t[output];
    double size = 0, unit = (double)w->p.unit[output]; /* of the stored fp8 gradient */
    for (int64_t e = 0; e < t->rows * t->dim; e++) {
        size = fmax(size, unit * fabs(t->ref[e]));
    }
    for (int64_t e = 0; e < t->rows * t->dim; e++) {
        const int64_t *row = t->row[e / t->dim];
        double *place = at_direct_at(x, input, row[0], row[1], row[2]) + e % t->dim;
        double here = *place, h = 1e-5;
        if (e % t->dim >= at_problem_live_columns(&w->p, output, row[0])) {
            continue;
        }
        *place = here + h;
        at_direct_run(x);
        double up = at_direct_loss(x);
        *place = here - h;
        at_direct_run(x);
        double slope = (up - at_direct_loss(x)) / (2 * h);
        *place = here;
        if (!(fabs(slope - unit * t->ref[e]) <= 2e-7 * size + 1e-10)) {
            at_test_fail(__FILE__, __LINE__, "%s: %s element %lld is %.12g, differences say %.12g",
                         w->text, at_tensor_names[output], (long long)e, unit * t->ref[e], slope);
            return;
        }
    }
}

static void all_differences(const char *text, const at_variant *variant)
{
    static const at_tensor_id pairs[][2] = {
        {AT_Q, AT_DQ}, {AT_K, AT_DK}, {AT_V, AT_DV}, {AT_BIAS, AT_DBIAS}, {AT_SINK, AT_DSINK}};
    const at_numeric_class numeric = {.variant = *variant};
    at_world w;
    at_direct x;
    if (at_world_open(&w, text) && at_world_run(&w, AT_REFERENCE_GOLDEN, &numeric)) {
        at_direct_open(&x, &w.p, variant);
        for (int i = 0; i < 5; i++) {
            differences(&w, &x, pairs[i][0], pairs[i][1]);
        }
        at_direct_close(&x);
    }
    at_world_close(&w);
}

static void test_finite_differences(void)
{
    static const char *const sizes[] = {
        "hq=2:hkv=1:sq=3:skv=4:dqk=2:dv=3",
        "b=2:hq=2:hkv=1:sq=3:skv=4:dqk=2:softcap=1:lens=random:mask=causal:align=br:seed=3",
    };
    static const at_variant before = {.bias_before_cap = true};
    char text[512];
    for (int i = 0; i < 2 * FEATURES; i++) {
        /* Scores near -65504 have too few digits left for a difference. */
        if (strstr(features[i / 2], "amask=min.b1") == NULL &&
            strstr(features[i / 2], "amask=min.11") == NULL) {
            (void)snprintf(text, sizeof text, "%s:%s", features[i / 2], sizes[i % 2]);
            all_differences(text, &standard);
        }
    }
    (void)snprintf(text, sizeof text, "bias=rel.1h:grads=qkvb:%s", sizes[1]);
    all_differences(text, &before);
}

/* Two cases with one answer. `edit` changes the second problem before it is solved. */
static void equal_to(const char *one, const char *other, void (*edit)(at_world *w),
                     double tolerance)
{
    at_world a, b;
    bool ready = at_world_open(&a, one);
    ready = at_world_open(&b, other) && ready;
    if (ready && edit != NULL) {
        edit(&b);
    }
    if (ready && at_world_run(&a, AT_REFERENCE_GOLDEN, NULL) &&
        at_world_run(&b, AT_REFERENCE_GOLDEN, NULL)) {
        for (int i = 0; i < 5; i++) {
            at_world_same(&a, &b, at_world_outputs[i], 1, tolerance);
        }
    }
    at_world_close(&a);
    at_world_close(&b);
}

static void fill_tensor(at_world *w, at_tensor_id id, double value)
{
    at_tensor *t = &w->p.t[id];
    for (int64_t e = 0; e < t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]; e++) {
        at_dtype_store_double(t->dtype, (char *)t->data + (size_t)e * at_dtype_size(t->dtype),
                              &value, 1);
    }
}

static void all_true(at_world *w)
{
    fill_tensor(w, AT_AMASK, 1);
}

static void all_zero_mask(at_world *w)
{
    fill_tensor(w, AT_AMASK, 0);
}

static void zero_bias(at_world *w)
{
    fill_tensor(w, AT_BIAS, 0);
}

static void no_sink(at_world *w)
{
    fill_tensor(w, AT_SINK, -HUGE_VAL);
}

static void zero_sink(at_world *w)
{
    fill_tensor(w, AT_SINK, 0);
}

static void keep_all(at_world *w)
{
    fill_tensor(w, AT_DROP, 1);
}

#define SIZES "b=2:hq=4:hkv=2:sq=7:skv=9:dqk=4:dv=3:mask=causal:align=br:lens=random"
static void test_identities(void)
{
    equal_to(SIZES, SIZES ":amask=bool.b1", all_true, 0);
    equal_to(SIZES, SIZES ":amask=add.11", all_zero_mask, 0);
    equal_to(SIZES, SIZES ":amask=min.bh", all_zero_mask, 0);
    equal_to(SIZES, SIZES ":bias=rel.1h", zero_bias, 0);
    equal_to(SIZES, SIZES ":sink=learned", no_sink, 1e-15);
    equal_to(SIZES ":sink=off1", SIZES ":sink=learned", zero_sink, 0);
    equal_to(SIZES ":amask=bool.bh:deadrows=1", SIZES ":amask=add.bh:deadrows=1", NULL, 0);
    equal_to(SIZES ":amask=bool.bh", SIZES ":amask=min.bh", NULL, 1e-14);
}

/* Dropout of p that drops nothing scales O by 1 / (1 - p) and leaves P alone: dV follows O. */
static void test_dropout_of_nothing(void)
{
    at_world a, b;
    bool ready = at_world_open(&a, SIZES);
    ready = at_world_open(&b, SIZES ":dropout=0.5") && ready;
    if (ready) {
        keep_all(&b);
        if (at_world_run(&a, AT_REFERENCE_GOLDEN, NULL) &&
            at_world_run(&b, AT_REFERENCE_GOLDEN, NULL)) {
            at_world_same(&a, &b, AT_LSE, 1, 0);
            at_world_same(&a, &b, AT_O, 2, 1e-15);
            at_world_same(&a, &b, AT_DV, 2, 1e-15);
            at_world_same(&a, &b, AT_DQ, 2, 1e-15);
            at_world_same(&a, &b, AT_DK, 2, 1e-15);
        }
    }
    at_world_close(&a);
    at_world_close(&b);
}

/* A bias that is the same for all keys moves LSE by itself and nothing else; its gradient is 0. */
static void test_constant_bias(void)
{
    static const char text[] = "b=2:hq=2:sq=5:skv=6:dqk=4:bias=rel.b1:grads=qkvb:dtype=f32";
    at_world a, b;
    bool ready = at_world_open(&a, "b=2:hq=2:sq=5:skv=6:dqk=4:dtype=f32");
    ready = at_world_open(&b, text) && ready;
    for (int64_t e = 0; ready && e < 2 * 5 * 6; e++) {
        at_tensor_set(&b.p.t[AT_BIAS], e / 30, 0, e / 6 % 5, e % 6, (double)(e / 6) / 4 - 1);
    }
    if (ready && at_world_run(&a, AT_REFERENCE_GOLDEN, NULL) &&
        at_world_run(&b, AT_REFERENCE_GOLDEN, NULL)) {
        at_world_same(&a, &b, AT_O, 1, 1e-14);
        at_world_same(&a, &b, AT_DQ, 1, 1e-14);
        at_world_same(&a, &b, AT_DK, 1, 1e-14);
        at_world_same(&a, &b, AT_DV, 1, 1e-14);
        const at_gold_tensor *x = &a.gold.t[AT_LSE], *y = &b.gold.t[AT_LSE];
        for (int64_t r = 0; r < x->rows; r++) {
            double shift = (double)(x->row[r][0] * 5 + x->row[r][2]) / 4 - 1;
            CHECK(fabs(y->ref[r] - x->ref[r] - shift) <= 1e-14);
        }
        const at_gold_tensor *t = &b.gold.t[AT_DBIAS];
        CHECK_INT(t->rows, 2 * 5);
        for (int64_t r = 0; r < t->rows; r++) {
            double sum = 0;
            for (int64_t j = 0; j < 6; j++) {
                sum += t->ref[r * 6 + j];
            }
            CHECK(fabs(sum) <= 1e-14);
        }
    }
    at_world_close(&a);
    at_world_close(&b);
}

/* Where a tensor stands in memory changes nothing, bit for bit; nor which gradients are asked for.
 */
static void test_memory(void)
{
    static const char *const same[][2] = {
        {"hq=4:hkv=2:skv=9:lens=random:pass=stats", ":page=4"},
        {"hq=4:hkv=2:skv=9:lens=random:pass=stats", ":page=16:pack=kv2h"},
        {"hq=4:hkv=2:skv=9:lens=random:pass=stats:layout=bhsd", ":page=3"},
        {"hq=4:skv=7:layout=bshd", ":pack=qkv3h"},
        {"hq=4:skv=7:layout=thd:lenq=3+7:lenkv=3+7", ":pack=qkvh3"},
        {"hq=4:hkv=2:skv=9:layout=sbhd", ":pack=kv2h"},
        {"hq=4:hkv=2:skv=9:layout=bhsd", ":pack=kvh2"},
        {"hq=4:hkv=2:skv=9", ":stride=row_gap"},
        {"hq=4:hkv=2:skv=9:layout=thd:lens=random", ":stride=row_gap:gap=3"},
        {"hq=4:hkv=2:skv=9:layout=bhsd", ":stride=head_gap"},
        {"hq=4:hkv=2:skv=9", ":stride=offset"},
        {"hq=4:hkv=2:skv=9:layout=sbhd", ":stride=dout_other"},
        {"hq=4:hkv=2:skv=9", ":grads=k"},
        {"hq=4:hkv=2:skv=9:bias=rel.1h:sink=learned", ":grads=qvbs"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char one[256], other[256];
        (void)snprintf(one, sizeof one, "b=2:sq=7:dqk=4:%s", same[i][0]);
        (void)snprintf(other, sizeof other, "%s%s", one, same[i][1]);
        equal_to(one, other, NULL, 0);
    }
}

/* All heads of k and v of an expanded case are one: heads that are set equal give the same. */
static void equal_heads(at_world *w)
{
    for (int id = AT_K; id <= AT_V; id++) {
        at_tensor *t = &w->p.t[id];
        for (int64_t e = 0; e < t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]; e++) {
            int64_t d = e % t->shape[3], s = e / t->shape[3] % t->shape[2];
            int64_t h = e / t->shape[3] / t->shape[2] % t->shape[1];
            int64_t b = e / t->shape[3] / t->shape[2] / t->shape[1];
            at_tensor_set(t, b, h, s, d, at_tensor_get(t, b, 0, s, d));
        }
    }
}

static void test_expanded(void)
{
    equal_to("b=2:hq=4:hkv=2:sq=7:skv=9:dqk=4:stride=expand_kv", "b=2:hq=4:hkv=2:sq=7:skv=9:dqk=4",
             equal_heads, 0);
}

/* Rows that a dense mask leaves without keys, and what a sink makes of them. */
static void test_dead_rows(void)
{
    at_world w;
    if (at_world_open(&w, "b=2:hq=3:sq=9:dqk=4:amask=bool.bh:deadrows=1:sink=learned:grads=qs") &&
        at_world_run(&w, AT_REFERENCE_GOLDEN, NULL)) {
        const at_gold_tensor *o = &w.gold.t[AT_O], *lse = &w.gold.t[AT_LSE];
        for (int64_t r = 0; r < o->rows; r++) {
            const int64_t *row = o->row[r];
            bool dead = at_problem_is_dead(&w.p, row[0], row[1], row[2]);
            CHECK(o->dead[r] == dead && !lse->dead[r] && (row[2] > 0 || dead));
            CHECK(!dead || lse->ref[r] == at_tensor_get(&w.p.t[AT_SINK], 0, row[1], 0, 0));
            CHECK(!dead || (o->ref[r * 4] == 0 && o->bound[r * 4] == 0 && lse->bound[r] > 0));
        }
    }
    at_world_close(&w);
    if (at_world_open(&w, "b=2:hq=3:sq=9:dqk=4:amask=add.bh:deadrows=1") &&
        at_world_run(&w, AT_REFERENCE_GOLDEN, NULL)) {
        const at_gold_tensor *lse = &w.gold.t[AT_LSE];
        CHECK(lse->dead[0] && lse->ref[0] == -HUGE_VAL && lse->bound[0] == 0);
    }
    at_world_close(&w);
}

/* A mask that nobody wrote is no mask. */
static void test_unwritten_dropout(void)
{
    at_world w;
    at_error err = {""};
    at_reference_options options = {.path = AT_REFERENCE_GOLDEN};
    if (at_world_open(&w, "sq=5:dqk=4:dropout=0.5:mask=causal")) {
        at_problem_poison(&w.p, AT_O, AT_LSE);
        CHECK_INT(at_reference_run(&w.gold, &w.p, &options, w.answers, &err), AT_INVALID);
        CHECK_HAS(err.text, "drop[0 0 0 0] is 165");
        for (int i = 0; i < 15; i++) {
            at_tensor_set(&w.p.t[AT_DROP], 0, 0, i / 5 + i / 5 % 2, 0, 1);
        }
        fill_tensor(&w, AT_DROP, 1);
        at_tensor_set(&w.p.t[AT_DROP], 0, 0, 2, 3, 77); /* beyond the diagonal */
        CHECK_OK(at_reference_run(&w.gold, &w.p, &options, w.answers, &err), &err);
    }
    at_world_close(&w);
}

const at_test at_tests[] = {
    {"ref", "second_opinion", test_second_opinion},
    {"ref", "variants", test_variants},
    {"ref", "finite_differences", test_finite_differences},
    {"ref", "identities", test_identities},
    {"ref", "dropout_of_nothing", test_dropout_of_nothing},
    {"ref", "constant_bias", test_constant_bias},
    {"ref", "memory", test_memory},
    {"ref", "expanded", test_expanded},
    {"ref", "dead_rows", test_dead_rows},
    {"ref", "unwritten_dropout", test_unwritten_dropout},
    {NULL, NULL, NULL},
};
