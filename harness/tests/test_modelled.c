#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/backend.h"
#include "harness/case/suite.h"
#include "harness/judge/judge.h"

/* What a modelled backend did with a case: claim, then each step with its verdict. */
typedef struct outcome {
    at_status claim;
    at_reason why;
    at_status status[AT_STEP_COUNT];
    at_error err[AT_STEP_COUNT];
    at_step_verdict verdict[AT_STEP_COUNT];
} outcome;

static void run_steps(outcome *out, const at_backend *backend, void *state, const at_problem *p,
                      const at_gold *gold, const char *engine)
{
    for (int step = AT_STEP_FORWARD; step < AT_STEP_COUNT; step++) {
        if (step == AT_STEP_BACKWARD && p->c.pass != AT_PASS_TRAIN) {
            return;
        }
        out->status[step] = step == AT_STEP_FORWARD
                                ? backend->forward(backend, state, p, engine, &out->err[step])
                                : backend->backward(backend, state, p, engine, &out->err[step]);
        if (out->status[step] != AT_OK) {
            return;
        }
        at_judge_step(&out->verdict[step], (at_step)step, p, gold, &backend->contract);
    }
}

static void run(outcome *out, const char *name, const char *text)
{
    const at_backend *backend = at_registry_find(name);
    at_reference_options options = {.numeric = backend->numeric};
    at_error err = {""};
    at_case c;
    at_arena *arena = NULL, *gold_arena = NULL;
    at_problem p;
    at_gold gold;
    at_engines engines = {0};
    char corpus[4096];
    void *state = NULL;
    memset(out, 0, sizeof *out);
    CHECK_OK(at_corpus_find(corpus, AT_TEST_CORPUS, NULL, &err), &err);
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    CHECK_OK(backend->open(backend, &state, &err), &err);
    out->claim = backend->claim(backend, state, &c, &engines, &out->why);
    if (out->claim == AT_OK) {
        CHECK_OK(at_arena_open(&arena, &err), &err);
        CHECK_OK(at_arena_open(&gold_arena, &err), &err);
        CHECK_OK(at_problem_open(&p, &c, arena, &err), &err);
        CHECK_OK(at_reference_run(&gold, &p, &options, gold_arena, &err), &err);
        run_steps(out, backend, state, &p, &gold, engines.name[0]);
    }
    at_arena_close(arena);
    at_arena_close(gold_arena);
    backend->close(backend, state);
}

/* Transformer Engine #3481: the forward is right, the backward refuses. */
static void fa3_refuses_unequal_dims_in_the_backward(void)
{
    static const char *const pairs[] = {"dqk=192:dv=128", "dqk=160:dv=128", "dqk=64:dv=128",
                                        "dqk=64:dv=512"};
    char text[256];
    for (size_t i = 0; i < 4; i++) {
        outcome out;
        (void)snprintf(text, sizeof text, "hq=4:hkv=1:sq=80:%s:layout=sbhd:mask=causal%s:arch=sm90",
                       pairs[i], i % 2 == 0 ? "" : ":wl=31");
        run(&out, "modelled.fa3-2025-02", text);
        CHECK_INT(out.claim, AT_OK);
        CHECK_INT(out.status[AT_STEP_FORWARD], AT_OK);
        CHECK_INT(out.verdict[AT_STEP_FORWARD].kind, AT_PASS);
        CHECK_INT(out.status[AT_STEP_BACKWARD], AT_REFUSED);
        CHECK_TEXT(out.err[AT_STEP_BACKWARD].text,
                   "out must have shape (batch_size, seqlen_q, num_heads, head_size)");
    }
}

static void fa3_trains_equal_dims(void)
{
    outcome out;
    run(&out, "modelled.fa3-2025-02", "hq=4:hkv=2:sq=80:dqk=128:dtype=f16:mask=causal");
    CHECK_INT(out.verdict[AT_STEP_FORWARD].kind, AT_PASS);
    CHECK_INT(out.status[AT_STEP_BACKWARD], AT_OK);
    CHECK_INT(out.verdict[AT_STEP_BACKWARD].kind, AT_PASS);
}

static void fa3_refuses_in_the_forward(void)
{
    outcome out;
    run(&out, "modelled.fa3-2025-02", "hq=4:sq=80:dqk=128:dv=64");
    CHECK_INT(out.claim, AT_OK);
    CHECK_INT(out.status[AT_STEP_FORWARD], AT_REFUSED);
    CHECK_HAS(out.err[AT_STEP_FORWARD].text, "If V headdim is different from Q/K dim");
}

/* flash-attention #2552: dV alone is wrong. */
static void fa4_spoils_dv_alone(void)
{
    static const char *const cases[] = {
        "hq=4:sq=150:dqk=128:dv=96:arch=sm100",
        "hq=4:hkv=2:sq=90:dqk=128:dv=96:dtype=f16:mask=causal:arch=sm100",
        "hq=2:sq=70:dqk=128:dv=80",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome out;
        run(&out, "modelled.fa4-b11", cases[i]);
        CHECK_INT(out.claim, AT_OK);
        CHECK_INT(out.verdict[AT_STEP_FORWARD].kind, AT_PASS);
        CHECK_INT(out.status[AT_STEP_BACKWARD], AT_OK);
        CHECK_INT(out.verdict[AT_STEP_BACKWARD].kind, AT_WRONG);
        CHECK_INT(out.verdict[AT_STEP_BACKWARD].m[AT_DQ].kind, AT_PASS);
        CHECK_INT(out.verdict[AT_STEP_BACKWARD].m[AT_DK].kind, AT_PASS);
        CHECK_INT(out.verdict[AT_STEP_BACKWARD].m[AT_DV].kind, AT_WRONG);
    }
}

static void fa4_neighbours_run(void)
{
    static const char *const cases[] = {"hq=4:sq=90:dqk=128:dv=64:mask=causal",
                                        "hq=4:sq=90:dqk=128",
                                        "hq=4:sq=90:dqk=192:dv=128:mask=causal"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome out;
        run(&out, "modelled.fa4-b11", cases[i]);
        CHECK_INT(out.verdict[AT_STEP_FORWARD].kind, AT_PASS);
        CHECK_INT(out.status[AT_STEP_BACKWARD], AT_OK);
        CHECK_INT(out.verdict[AT_STEP_BACKWARD].kind, AT_PASS);
    }
    outcome out;
    run(&out, "modelled.fa4-b11", "hq=4:sq=90:dqk=128:dv=96:pass=stats");
    CHECK_INT(out.status[AT_STEP_FORWARD], AT_OK);
    CHECK_INT(out.verdict[AT_STEP_FORWARD].kind, AT_PASS);
}

/* What a set does not know is not modelled, and a case that cpu.flash cannot compute neither. */
static void unknown_is_unsupported(void)
{
    outcome out;
    run(&out, "modelled.fa3-2025-02", "b=2:sq=8:dqk=64:mask=causal:lens=random");
    CHECK_INT(out.claim, AT_UNSUPPORTED);
    CHECK_TEXT(out.why.code, "capability_unknown");
    CHECK_HAS(out.why.text, "fa3-2025-02 does not say what the forward of this case does");
    run(&out, "modelled.fa4-b11", "sq=8:dqk=64:softcap=2");
    CHECK_INT(out.claim, AT_UNSUPPORTED);
    CHECK_HAS(out.why.text, "what the backward of this case does");
    run(&out, "modelled.fa3-2025-02", "sq=8:dqk=64:exec=replay");
    CHECK_INT(out.claim, AT_UNSUPPORTED);
    CHECK_TEXT(out.why.code, "exec");
}

static void without_corpus_it_does_not_open(void)
{
    const at_backend *backend = at_registry_find("modelled.fa4-b11");
    at_error err = {""};
    void *state = NULL;
    CHECK_INT(backend->open(backend, &state, &err), AT_IO);
    CHECK_HAS(err.text, "needs the capability set fa4-b11");
    CHECK(state == NULL);
}

const at_test at_tests[] = {
    {"unit", "without_corpus_it_does_not_open", without_corpus_it_does_not_open},
    {"ref", "fa3_refuses_unequal_dims_in_the_backward", fa3_refuses_unequal_dims_in_the_backward},
    {"ref", "fa3_trains_equal_dims", fa3_trains_equal_dims},
    {"ref", "fa3_refuses_in_the_forward", fa3_refuses_in_the_forward},
    {"ref", "fa4_spoils_dv_alone", fa4_spoils_dv_alone},
    {"ref", "fa4_neighbours_run", fa4_neighbours_run},
    {"unit", "unknown_is_unsupported", unknown_is_unsupported},
    {NULL, NULL, NULL},
};
