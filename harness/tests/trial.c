#include "harness/tests/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/tests/test.h"
#include "kernels/kernels.h"

bool at_trial_open_case(at_trial *t, const at_case *c, const at_reference_options *options)
{
    at_error err = {""};
    memset(t, 0, sizeof *t);
    at_status status = at_arena_open(&t->memory, &err);
    status = status == AT_OK ? at_arena_open(&t->answers, &err) : status;
    status = status == AT_OK ? at_problem_open(&t->p, c, t->memory, &err) : status;
    if (status == AT_OK) {
        at_cpu_hand_out_dropout(&t->p); /* the mask that cpu.flash and cpu.naive will use */
    }
    status =
        status == AT_OK ? at_reference_run(&t->gold, &t->p, options, t->answers, &err) : status;
    if (status != AT_OK) {
        char text[AT_CASE_TEXT_MAX];
        (void)at_case_print(c, text);
        at_test_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
    }
    return status == AT_OK;
}

bool at_trial_open(at_trial *t, const char *text, const at_reference_options *options)
{
    at_error err = {""};
    at_case c;
    memset(t, 0, sizeof *t);
    if (at_case_parse(&c, text, &err) != AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
        return false;
    }
    return at_trial_open_case(t, &c, options);
}

void at_trial_close(at_trial *t)
{
    at_arena_close(t->answers);
    at_arena_close(t->memory);
}

at_status at_trial_launch(const at_trial *t, const at_backend *b, void *state, const char *engine,
                          at_step step, at_error *err)
{
    if (step == AT_STEP_FORWARD) {
        at_problem_poison(&t->p, AT_O, AT_LSE);
        return b->forward(b, state, &t->p, engine, err);
    }
    at_problem_poison(&t->p, AT_DQ, AT_DV);
    return b->backward(b, state, &t->p, engine, err);
}

static void set_kind(at_step_verdict *s, at_kind kind, const char *code, const at_error *what)
{
    s->kind = kind;
    (void)snprintf(s->reason.code, sizeof s->reason.code, "%s", code);
    (void)snprintf(s->reason.text, sizeof s->reason.text, "%s", what->text);
}

static void run_step(const at_trial *t, const at_backend *b, void *state, const char *engine,
                     at_step step, int launches, at_step_verdict *s)
{
    at_error err = {""};
    void *copy = malloc(at_judge_keep_size(&t->p, step) + 1);
    AT_ASSERT(copy != NULL);
    s->ran = true;
    for (int i = 0; i < launches && s->kind == AT_PASS; i++) {
        if (at_trial_launch(t, b, state, engine, step, &err) != AT_OK) {
            set_kind(s, AT_KIND_REFUSED, "error", &err);
        } else if (i == 0) {
            at_judge_step(s, step, &t->p, &t->gold, &b->contract);
            at_judge_keep(&t->p, step, copy);
        } else if (!at_judge_same(&t->p, step, copy, &err)) {
            set_kind(s, AT_NONDET, "repeat", &err);
        }
    }
    free(copy);
}

void at_trial_run(const at_trial *t, const at_backend *b, const char *engine, int launches,
                  at_verdict *v)
{
    void *state = NULL;
    at_error err = {""};
    at_verdict_init(v);
    AT_ASSERT(b->open(b, &state, &err) == AT_OK);
    at_step last = t->p.c.pass == AT_PASS_TRAIN ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
    for (at_step s = AT_STEP_FORWARD; s <= last && v->kind == AT_PASS; s++) {
        run_step(t, b, state, engine, s, launches, &v->step[s]);
        at_verdict_settle(v);
    }
    at_judge_teeth(v, &t->p, &t->gold);
    b->close(b, state);
}
