/* cpu.flash without a fault over the suite `sampled`: no alarm, and how much of the bound it uses.
 * CTest takes every 100th case; AT_HEALTHY_STEP=1 takes all 40,000. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/suite.h"
#include "harness/tests/trial.h"
#include "kernels/kernels.h"

enum { STEP = 100, DTYPES = AT_DTYPE_COUNT, PLAIN_DTYPES = 3, FILLS = AT_FILL_DENORMAL + 1 };

static const at_tensor_id outputs[] = {AT_O, AT_LSE, AT_DQ, AT_DK, AT_DV, AT_DBIAS, AT_DSINK};
enum { OUTPUTS = sizeof outputs / sizeof *outputs };

typedef struct record {
    double ratio[AT_TENSOR_COUNT][DTYPES], z[AT_TENSOR_COUNT][DTYPES];
    char worst[AT_TENSOR_COUNT][DTYPES][AT_CASE_TEXT_MAX];
    int judged[2], vacuous[2], failed; /* [fp8] */
    int of_fill[FILLS], vacuous_fill[FILLS];
} record;

static void note(record *r, const at_verdict *v, const at_case *c, const char *text)
{
    for (int s = 0; s < AT_STEP_COUNT; s++) {
        for (int t = 0; t < AT_TENSOR_COUNT; t++) {
            const at_measure *m = &v->step[s].m[t];
            if (m->judged && m->rms_z > r->z[t][c->dtype]) {
                r->z[t][c->dtype] = m->rms_z;
            }
            if (m->judged && m->max_ratio > r->ratio[t][c->dtype]) {
                r->ratio[t][c->dtype] = m->max_ratio;
                (void)snprintf(r->worst[t][c->dtype], AT_CASE_TEXT_MAX, "%s", text);
            }
        }
    }
}

static void run_case(record *r, const at_case *c, uint64_t n)
{
    const at_backend *b = &at_backend_cpu_flash;
    char text[AT_CASE_TEXT_MAX];
    at_engines engines = {0};
    at_reason why = {"", ""};
    at_trial t;
    (void)at_case_print(c, text);
    if (b->claim(b, NULL, c, &engines, &why) != AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s: refused: %s", text, why.text);
        return;
    }
    const char *engine = engines.name[n % (uint64_t)engines.n];
    const at_reference_options options = {
        .numeric = b->numeric,
        .path = getenv("AT_HEALTHY_GOLDEN") != NULL ? AT_REFERENCE_GOLDEN : AT_REFERENCE_AUTO};
    if (at_trial_open_case(&t, c, &options)) {
        at_verdict v;
        at_trial_run(&t, b, engine, 1, &v);
        note(r, &v, c, text);
        bool fp8 = c->dtype >= PLAIN_DTYPES;
        r->judged[fp8]++;
        r->of_fill[c->fill]++;
        r->vacuous[fp8] += v.kind == AT_VACUOUS;
        r->vacuous_fill[c->fill] += v.kind == AT_VACUOUS;
        r->failed += at_kind_class(v.kind) > AT_CLASS_NEUTRAL;
        if (v.kind == AT_VACUOUS) {
            (void)printf("VACUOUS %s: %s\n", text, v.reason.text);
        } else if (v.kind != AT_PASS) {
            at_test_fail(__FILE__, __LINE__, "%s %s: %s %s: %s", engine, text,
                         at_kind_names[v.kind], v.reason.code, v.reason.text);
        }
    }
    at_trial_close(&t);
}

static void print_record(const record *r)
{
    const at_field *fill = at_case_field("fill", 4);
    for (int i = 0; i < OUTPUTS; i++) {
        for (int d = 0; d < DTYPES; d++) {
            at_tensor_id t = outputs[i];
            (void)printf("%-5s %-6s worst err/bound %.3f, worst rms z %.3f: %s\n",
                         at_tensor_names[t], at_dtype_names[d], r->ratio[t][d], r->z[t][d],
                         r->worst[t][d]);
        }
    }
    for (int f = 0; f < FILLS; f++) {
        (void)printf("%-10s %d of %d cases vacuous\n", fill->names[f], r->vacuous_fill[f],
                     r->of_fill[f]);
    }
    (void)printf("%d cases and %d in fp8, %d failed, %d and %d vacuous\n", r->judged[0],
                 r->judged[1], r->failed, r->vacuous[0], r->vacuous[1]);
}

static void test_sampled(void)
{
    static record r;
    static const char *const words[] = {"sampled"};
    const char *text = getenv("AT_HEALTHY_STEP");
    size_t step = text != NULL ? strtoull(text, NULL, 10) : STEP;
    at_suite *suite = NULL;
    at_error err = {""};
    CHECK_OK(at_suite_open(&suite, AT_TEST_CORPUS, words, 1, NULL, &err), &err);
    CHECK(step > 0 && at_suite_size(suite) >= 38000);
    for (size_t i = 0; i < at_suite_size(suite) && step > 0; i += step) {
        const at_suite_plan *plan = NULL;
        run_case(&r, at_suite_case(suite, i, &plan), i / step);
    }
    at_suite_close(suite);
    print_record(&r);
    for (int i = 0; i < OUTPUTS; i++) {
        for (int d = 0; d < DTYPES; d++) {
            /* Enough cases of each to say what is usual. */
            double usual = d < PLAIN_DTYPES && outputs[i] <= AT_DV ? 0.1 : 0;
            CHECK(r.ratio[outputs[i]][d] >= usual && r.ratio[outputs[i]][d] <= 1);
            CHECK(r.z[outputs[i]][d] >= usual && r.z[outputs[i]][d] <= 3);
        }
    }
    CHECK(r.judged[0] > 0 && r.judged[1] > 0 && r.failed == 0);
    /* Few bits tell little: rows whose differences cancel, sinks that leave nothing. */
    CHECK(r.vacuous[0] * 40 <= r.judged[0] && r.vacuous[1] * 3 <= r.judged[1]);
}

const at_test at_tests[] = {
    {"unit", "sampled", test_sampled},
    {NULL, NULL, NULL},
};
