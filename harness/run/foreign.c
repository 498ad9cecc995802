#include "harness/run/foreign.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/judge/judge.h"
#include "harness/run/protocol.h"
#include "harness/run/session.h"

struct at_foreign {
    at_case c;
    bool ready, good;
    const at_problem *p;
    const at_gold *gold;
    at_numeric_class numeric;
    at_verdict verdict;
    char *text; /* of the last at_foreign_verdict */
};

static at_session *session; /* of the last case */

static void fail(at_foreign *run, at_status status, const char *code, const at_error *err)
{
    at_step_verdict *s = &run->verdict.step[AT_STEP_CLAIM];
    s->ran = true;
    s->kind = status == AT_UNSUPPORTED ? AT_SKIP : status == AT_NO_MEMORY ? AT_OOM : AT_ERROR;
    (void)snprintf(s->reason.code, sizeof s->reason.code, "%s", code);
    (void)snprintf(s->reason.text, sizeof s->reason.text, "%s", err->text);
}

static at_status read_class(at_numeric_class *out, const char *text, at_error *err)
{
    at_json *object = NULL;
    *out = (at_numeric_class){.p = AT_P_STORED};
    if (text == NULL) {
        return AT_OK;
    }
    AT_TRY(at_json_parse(&object, "numeric class", text, strlen(text), err));
    at_status status = at_json_type(object) == AT_JSON_OBJECT
                           ? at_numeric_from_json(out, object, err)
                           : at_fail(err, AT_INVALID, "the numeric class is a JSON object");
    at_json_close(object);
    return status;
}

static at_status use_session(const at_case *c, at_error *err)
{
    if (session != NULL && at_case_equal(at_session_case(session), c)) {
        return AT_OK;
    }
    at_session_close(session);
    session = NULL;
    return at_session_open(&session, c, err);
}

static at_status prepare(at_foreign *run, const char *text, const char *numeric, char code[48],
                         at_error *err)
{
    at_numeric_class class;
    (void)snprintf(code, 48, "case");
    AT_TRY(at_case_parse(&run->c, text, err));
    AT_TRY(read_class(&class, numeric, err));
    AT_TRY(at_reference_supports(&run->c, code, err));
    AT_TRY(use_session(&run->c, err));
    (void)snprintf(code, 48, "problem");
    AT_TRY(at_session_problem(session, &run->p, err));
    (void)snprintf(code, 48, "reference");
    run->numeric = class;
    return run->c.dropout > 0 ? AT_OK : at_session_gold(session, &run->gold, &class, err);
}

at_foreign *at_foreign_open(const char *case_text, const char *numeric)
{
    at_foreign *run = calloc(1, sizeof *run);
    AT_ASSERT(run != NULL);
    at_error err = {""};
    char code[48];
    at_verdict_init(&run->verdict);
    run->verdict.step[AT_STEP_CLAIM].ran = true;
    at_status status = prepare(run, case_text, numeric, code, &err);
    run->ready = run->good = status == AT_OK;
    if (status != AT_OK) {
        fail(run, status, code, &err);
    }
    return run;
}

int at_foreign_ready(const at_foreign *run)
{
    return run->ready;
}

void at_foreign_close(at_foreign *run)
{
    if (run != NULL) {
        free(run->text);
        free(run);
    }
}

double at_foreign_number(const at_foreign *run, const char *key)
{
    const at_field *f = at_case_field(key, strlen(key));
    if (f != NULL && strcmp(key, "scale") == 0) {
        return run->ready ? run->p->scale : run->c.scale;
    }
    if (f != NULL && strcmp(key, "softcap") == 0) {
        return run->c.softcap;
    }
    if (f != NULL && strcmp(key, "dropout") == 0) {
        return run->c.dropout;
    }
    bool whole = f != NULL && f->kind != AT_FIELD_REAL && f->kind != AT_FIELD_LIST;
    return whole ? (double)at_case_get(&run->c, f) : (double)NAN;
}

void *at_foreign_tensor(const at_foreign *run, const char *name, int64_t shape[4],
                        int64_t stride[4], const char **dtype)
{
    for (int i = 0; run->ready && i < AT_TENSOR_COUNT; i++) {
        if (strcmp(at_tensor_names[i], name) == 0) {
            const at_tensor *t = &run->p->t[i];
            memcpy(shape, t->shape, sizeof t->shape);
            memcpy(stride, t->stride, sizeof t->stride);
            *dtype = at_dtype_names[t->dtype];
            return t->data;
        }
    }
    return NULL;
}

const int64_t *at_foreign_len_q(const at_foreign *run)
{
    return run->ready ? run->p->len_q : NULL;
}

const int64_t *at_foreign_len_kv(const at_foreign *run)
{
    return run->ready ? run->p->len_kv : NULL;
}

void at_foreign_keys(const at_foreign *run, int64_t b, int64_t i, int64_t *first, int64_t *last)
{
    *first = 0;
    *last = -1;
    if (run->ready) {
        at_problem_keys(run->p, b, i, first, last);
    }
}

/* With dropout the reference follows the mask that the forward wrote into `drop`. */
static bool refer_to_mask(at_foreign *run, at_step_verdict *s)
{
    at_error err = {""};
    if (run->c.dropout <= 0) {
        return true;
    }
    s->kind = at_judge_dropout(run->p, &s->reason);
    if (s->kind != AT_PASS) {
        return false;
    }
    at_status status = at_session_gold(session, &run->gold, &run->numeric, &err);
    if (status != AT_OK) {
        s->kind = status == AT_NO_MEMORY ? AT_OOM : AT_ERROR;
        (void)snprintf(s->reason.code, sizeof s->reason.code, "reference");
        (void)snprintf(s->reason.text, sizeof s->reason.text, "%s", err.text);
    }
    return status == AT_OK;
}

int at_foreign_judge(at_foreign *run, const char *step, const char *refusal, double ms)
{
    static const at_contract contract;
    at_step which = strcmp(step, "backward") == 0 ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
    at_step_verdict *s = &run->verdict.step[which];
    if (!run->good) {
        return 0;
    }
    if (refusal != NULL) {
        s->kind = AT_KIND_REFUSED;
        (void)snprintf(s->reason.code, sizeof s->reason.code, "refused");
        (void)snprintf(s->reason.text, sizeof s->reason.text, "%s", refusal);
    } else if (which == AT_STEP_BACKWARD || refer_to_mask(run, s)) {
        at_judge_step(s, which, run->p, run->gold, &contract);
    }
    s->ran = true;
    s->ms = ms;
    run->good = at_kind_class(s->kind) == AT_CLASS_OK;
    if (at_kind_class(s->kind) == AT_CLASS_FAIL) {
        at_session_spoil(session);
        run->ready = false;
    }
    return run->good;
}

/* A worker that forgets a step must not pass. */
static void check_judged(at_foreign *run)
{
    bool backward = run->verdict.step[AT_STEP_BACKWARD].ran || run->c.pass != AT_PASS_TRAIN;
    if (run->good && !(run->verdict.step[AT_STEP_FORWARD].ran && backward)) {
        static const at_error unjudged = {"the worker asks for a verdict before all was judged"};
        fail(run, AT_INTERNAL, "unjudged", &unjudged);
        run->good = false;
    }
}

const char *at_foreign_verdict(at_foreign *run)
{
    at_json *object = at_json_object();
    check_judged(run);
    at_verdict_settle(&run->verdict);
    if (run->good && run->verdict.teeth_total == 0) {
        at_judge_teeth(&run->verdict, run->p, run->gold);
    }
    at_verdict_to_json(&run->verdict, object);
    free(run->text);
    run->text = at_json_print(object, false);
    at_json_close(object);
    return run->text;
}
