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
    at_problem judged; /* a view of p without what the backend does not write */
    at_contract contract;
    const at_gold *gold;
    at_numeric_class numeric;
    at_verdict verdict;
    char *text;          /* of the last at_foreign_verdict */
    char *folder, *note; /* of the dump; NULL: none */
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
    run->judged = *run->p;
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
        free(run->folder);
        free(run->note);
        free(run);
    }
}

/* Sets *out to the index in `names` of the text member; a missing member is names[0]. */
static at_status read_choice(int *out, const at_json *object, const char *key,
                             const char *const *names, at_error *err)
{
    const char *text = names[0];
    AT_TRY(at_json_want_text(object, key, false, &text, err));
    for (*out = 0; names[*out] != NULL; ++*out) {
        if (strcmp(names[*out], text) == 0) {
            return AT_OK;
        }
    }
    return at_fail(err, AT_INVALID, "\"%s\" of the contract is \"%.40s\", it accepts \"%s\", ...",
                   key, text, names[0]);
}

static at_status read_contract(at_contract *out, bool *stats, const at_json *object, at_error *err)
{
    static const char *const o[] = {"zero", "nan", "mean", NULL};
    static const char *const lse[] = {"minus_inf", "plus_inf", "any", NULL};
    static const char *const grads[] = {"zero", "any", NULL};
    static const char *const pad[] = {"any", "zero", "untouched", NULL};
    int choice[4] = {0};
    AT_TRY(read_choice(&choice[0], object, "dead_o", o, err));
    AT_TRY(read_choice(&choice[1], object, "dead_lse", lse, err));
    AT_TRY(read_choice(&choice[2], object, "dead_grads", grads, err));
    AT_TRY(read_choice(&choice[3], object, "pad", pad, err));
    *out = (at_contract){(at_dead_o)choice[0], (at_dead_lse)choice[1], (at_dead_grads)choice[2],
                         (at_pad_rows)choice[3]};
    *stats = true;
    return at_json_want_bool(object, "stats", false, stats, err);
}

int at_foreign_promise(at_foreign *run, const char *contract)
{
    at_error err = {""};
    at_json *object = NULL;
    bool stats = true;
    at_status status = at_json_parse(&object, "contract", contract, strlen(contract), &err);
    if (status == AT_OK && at_json_type(object) != AT_JSON_OBJECT) {
        status = at_fail(&err, AT_INVALID, "the contract is a JSON object");
    }
    status = status == AT_OK ? read_contract(&run->contract, &stats, object, &err) : status;
    at_json_close(object);
    if (status == AT_OK && !stats) {
        run->judged.t[AT_LSE].data = NULL;
    } else if (status != AT_OK && run->good) {
        fail(run, status, "contract", &err);
        run->ready = run->good = false;
    }
    return status == AT_OK;
}

void at_foreign_dump(at_foreign *run, const char *folder, const char *text)
{
    free(run->folder);
    free(run->note);
    run->folder = strdup(folder);
    run->note = strdup(text);
    AT_ASSERT(run->folder != NULL && run->note != NULL);
}

static void dump(at_foreign *run)
{
    at_error err = {""};
    at_status status = run->folder == NULL
                           ? AT_OK
                           : at_session_dump(run->p, run->gold, run->folder, run->note, &err);
    if (status != AT_OK) {
        fail(run, status, "dump", &err);
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
        at_judge_step(s, which, &run->judged, run->gold, &run->contract);
    }
    s->ran = true;
    s->ms = ms;
    dump(run);
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
        at_judge_teeth(&run->verdict, &run->judged, run->gold);
    }
    at_verdict_to_json(&run->verdict, object);
    free(run->text);
    run->text = at_json_print(object, false);
    at_json_close(object);
    return run->text;
}
