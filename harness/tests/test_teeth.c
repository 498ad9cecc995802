/* teeth.c: a bound that lets a broken kernel pass makes the case VACUOUS, and nothing else does. */
#include "harness/tests/test.h"

#include <math.h>
#include <string.h>

#include "harness/tests/bench.h"

static void give_verdict(at_bench *t, at_verdict *v)
{
    at_bench_judge(t);
    at_verdict_init(v);
    v->step[AT_STEP_FORWARD] = t->forward;
    v->step[AT_STEP_BACKWARD] = t->backward;
    v->step[AT_STEP_FORWARD].ran = v->step[AT_STEP_BACKWARD].ran = true;
    at_judge_teeth(v, &t->p, &t->gold);
}

static void test_teeth(void)
{
    at_bench t;
    at_verdict v;
    at_bench_open(&t, "b=2:hq=2:sq=20:skv=24:dqk=8:dtype=f32");
    give_verdict(&t, &v);
    CHECK_INT(v.kind, AT_PASS);
    CHECK_INT(v.teeth_total, 30);
    CHECK_INT(v.teeth_caught, 30);
    CHECK(v.share == 1);
    double sharp = v.step[AT_STEP_FORWARD].m[AT_O].sensitivity;
    CHECK(sharp > 0 && sharp < 1); /* 1/64 lets 1 per mille pass, not a lost fragment */
    at_gold_tensor *g = &t.gold.t[AT_DV];
    for (int64_t i = 0; i < g->rows * g->dim; i++) {
        g->bound[i] = 1.99; /* zeros pass; negated values do not */
    }
    give_verdict(&t, &v);
    CHECK_INT(v.kind, AT_VACUOUS);
    CHECK_TEXT(v.reason.code, "toothless");
    CHECK_HAS(v.reason.text, "dv passes, but so would a kernel that writes zeros");
    CHECK(v.teeth_caught < v.teeth_total);
    CHECK_INT(v.step[AT_STEP_BACKWARD].m[AT_DV].kind, AT_VACUOUS);
    CHECK_INT(v.step[AT_STEP_FORWARD].kind, AT_PASS);
    at_tensor_set(&t.p.t[AT_DK], 0, 0, 0, 0, 100); /* a failure outranks it */
    give_verdict(&t, &v);
    CHECK_INT(v.kind, AT_WRONG);
    at_bench_close(&t);
}

/* Faults that change nothing do not count. */
static void test_no_operation(void)
{
    at_bench t;
    at_verdict v;
    at_bench_open(&t, "sq=1:skv=1:dqk=4:dtype=f32");
    for (int i = 0; i < 4; i++) { /* dQ is 0 with one key */
        t.gold.t[AT_DQ].ref[i] = i % 2 == 0 ? 0 : 1e-18;
        at_tensor_set(&t.p.t[AT_DQ], 0, 0, 0, i, 0);
    }
    give_verdict(&t, &v);
    CHECK_INT(v.kind, AT_PASS);
    CHECK(v.teeth_caught == v.teeth_total && v.teeth_total > 0);
    CHECK(v.step[AT_STEP_BACKWARD].m[AT_DQ].sensitivity == 0);
    at_bench_close(&t);
    at_bench_open(&t, "b=2:sq=0:skv=5:dqk=4:dtype=f32");
    memset(t.gold.t[AT_DK].ref, 0, sizeof(double) * 2 * 5 * 4);
    memset(t.p.t[AT_DK].data, 0, t.p.size[AT_DK]);
    memset(t.gold.t[AT_DV].ref, 0, sizeof(double) * 2 * 5 * 4);
    memset(t.p.t[AT_DV].data, 0, t.p.size[AT_DV]);
    give_verdict(&t, &v);
    CHECK_INT(v.kind, AT_PASS);
    CHECK_TEXT(v.reason.code, "");
    CHECK_INT(v.teeth_total, 0);
    at_bench_close(&t);
}

/* A last row below its own noise says nothing about the bound; a whole tensor below it does. */
static void test_noise(void)
{
    at_bench t;
    at_verdict v;
    at_bench_open(&t, "sq=20:skv=24:dqk=8:dtype=f32");
    at_gold_tensor *g = &t.gold.t[AT_DK];
    for (int64_t r = 0; r < g->rows; r++) {
        for (int64_t d = 0; d < g->dim && r == g->rows - 1; d++) {
            g->ref[r * g->dim + d] = 1.0 / 100; /* under 2 sigma, under the bound */
            at_tensor_set(&t.p.t[AT_DK], 0, 0, r, d, 1.0 / 100);
        }
    }
    give_verdict(&t, &v);
    CHECK_INT(v.kind, AT_PASS);
    CHECK_INT(v.teeth_total, 29);
    for (int64_t e = 0; e < g->rows * g->dim; e++) {
        g->ref[e] = 1.0 / 100;
        at_tensor_set(&t.p.t[AT_DK], 0, 0, e / g->dim, e % g->dim, 1.0 / 100);
    }
    give_verdict(&t, &v);
    CHECK_INT(v.kind, AT_VACUOUS);
    CHECK_HAS(v.reason.text, "dk passes, but so would a kernel that writes zeros");
    at_bench_close(&t);
}

const at_test at_tests[] = {
    {"unit", "teeth", test_teeth},
    {"unit", "no_operation", test_no_operation},
    {"unit", "noise", test_noise},
    {NULL, NULL, NULL},
};
