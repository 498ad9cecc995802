/* Healthy kernels of every numeric class: each passes under its own class, on every engine, over a
 * slice of the suite `sampled`; under a class that is too good for it, or under another formula, it
 * is caught. Not every wrong class can be: one that allows more than the kernel needs (stored
 * scores for a fused kernel, D from O for D from P) only makes bounds wider. */
#include "kernels/variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/suite.h"
#include "harness/tests/test.h"
#include "harness/tests/trial.h"

enum { STEP = 4000 };

static at_kind run_engine(const at_trial *t, const at_backend *b, const char *engine, at_verdict *v)
{
    at_trial_run(t, b, engine, 1, v);
    return v->kind;
}

/* Every engine of the variant under `numeric`; how many fail, and how many tell nothing. */
static void run_case(const at_backend *b, const at_numeric_class *numeric, const at_case *c,
                     int *runs, int *failed, int *vacuous)
{
    const at_reference_options options = {.numeric = *numeric};
    char text[AT_CASE_TEXT_MAX];
    at_engines engines = {0};
    at_reason why = {"", ""};
    at_trial t;
    (void)at_case_print(c, text);
    CHECK_INT(b->claim(b, NULL, c, &engines, &why), AT_OK);
    if (at_trial_open_case(&t, c, &options)) {
        for (int e = 0; e < engines.n; e++) {
            at_verdict v;
            at_kind kind = run_engine(&t, b, engines.name[e], &v);
            bool fails = at_kind_class(kind) > AT_CLASS_NEUTRAL;
            *runs += 1;
            *failed += fails;
            *vacuous += kind == AT_VACUOUS;
            if (fails && numeric == &b->numeric) {
                at_test_fail(__FILE__, __LINE__, "%s %s on %s: %s", b->name, engines.name[e], text,
                             v.reason.text);
            }
        }
    }
    at_trial_close(&t);
}

static void test_own_class(void)
{
    static const char *const words[] = {"sampled"};
    const char *text = getenv("AT_VARIANTS_STEP");
    size_t step = text != NULL ? strtoull(text, NULL, 10) : STEP;
    at_suite *suite = NULL;
    at_error err = {""};
    int runs = 0, failed = 0, vacuous = 0;
    CHECK_OK(at_suite_open(&suite, AT_TEST_CORPUS, words, 1, NULL, &err), &err);
    for (size_t i = 0; i < at_variant_count() && step > 0; i++) {
        const at_backend *b = at_variant_at(i);
        for (size_t k = 7 * i; k < at_suite_size(suite); k += step) {
            const at_suite_plan *plan = NULL;
            at_case c = *at_suite_case(suite, k, &plan);
            c.splits = 0;
            run_case(b, &b->numeric, &c, &runs, &failed, &vacuous);
        }
    }
    at_suite_close(suite);
    (void)printf("%d runs of %d variants, %d failed, %d vacuous\n", runs, (int)at_variant_count(),
                 failed, vacuous);
    CHECK(runs >= 16 * 20 && failed == 0 && vacuous * 5 < runs);
}

/* The variant under another class: some of the cases must fail. */
static void expect_alarm(const char *name, at_numeric_class wrong, const char *const cases[4])
{
    const at_backend *b = at_variant_find(name);
    int runs = 0, failed = 0, vacuous = 0;
    AT_ASSERT(b != NULL);
    for (int i = 0; i < 4 && cases[i] != NULL; i++) {
        at_case c;
        at_error err = {""};
        CHECK_OK(at_case_parse(&c, cases[i], &err), &err);
        run_case(b, &b->numeric, &c, &runs, &(int){0}, &vacuous);
        run_case(b, &wrong, &c, &runs, &failed, &vacuous);
    }
    (void)printf("%s under another class: %d alarms\n", name, failed);
    if (failed == 0) {
        at_test_fail(__FILE__, __LINE__, "%s passes under a class that is not its own", name);
    }
}

static void test_too_good_a_class(void)
{
    static const char *const cancel[4] = {"hq=8:hkv=1:sq=60:skv=20:dqk=32",
                                          "hq=8:hkv=1:sq=60:skv=20:dqk=32:dtype=f16"};
    static const char *const steep[4] = {"hq=2:sq=60:skv=90:dqk=64:fill=peaky",
                                         "hq=2:sq=60:skv=90:dqk=64:fill=outlier",
                                         "hq=2:sq=60:skv=90:dqk=64:fill=deep_neg"};
    static const char *const fp8[4] = {"hq=2:sq=40:skv=90:dqk=32:dtype=f8e4m3:odt=f32",
                                       "hq=2:sq=40:skv=90:dqk=32:dtype=f8e4m3:odt=bf16:seed=1"};
    expect_alarm("variant.head_rounded", (at_numeric_class){.p = AT_P_F32}, cancel);
    expect_alarm("variant.p32_head_rounded", (at_numeric_class){.p = AT_P_F32}, cancel);
    expect_alarm("variant.d_from_p", (at_numeric_class){.p = AT_P_F32, .d_from_p = true}, cancel);
    expect_alarm("variant.unfused", (at_numeric_class){.d_from_p = true}, steep);
    expect_alarm("variant.unfused_d_from_o", (at_numeric_class){.p = AT_P_STORED}, steep);
    expect_alarm("variant.unfused_head_rounded", (at_numeric_class){.head_rounded = true}, steep);
    expect_alarm("variant.fp8_coarse", (at_numeric_class){.p_unit = 0x1p-8F, .ds_unit = 0x1p-4F},
                 fp8);
    expect_alarm("variant.fp8_fine", (at_numeric_class){.p = AT_P_F32, .d_from_p = true}, fp8);
}

static void test_other_formula(void)
{
    static const at_numeric_class usual = {.p = AT_P_STORED};
    static const struct {
        const char *name, *cases[4];
    } rows[] = {
        {"variant.bias_before_cap", {"hq=2:sq=30:skv=40:dqk=16:bias=rel.1h:softcap=1:grads=qkvb"}},
        {"variant.alibi_signed", {"hq=4:sq=30:skv=40:dqk=16:bias=alibi"}},
        {"variant.alibi_paper", {"hq=6:sq=30:skv=40:dqk=16:bias=alibi"}},
        {"variant.lse_log2", {"hq=2:sq=30:skv=40:dqk=16"}},
        {"variant.lse_without_sink", {"hq=2:sq=30:skv=40:dqk=16:sink=off1"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_alarm(rows[i].name, usual, rows[i].cases);
    }
}

const at_test at_tests[] = {
    {"mutant", "own_class", test_own_class},
    {"mutant", "too_good_a_class", test_too_good_a_class},
    {"mutant", "other_formula", test_other_formula},
    {NULL, NULL, NULL},
};
