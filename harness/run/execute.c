#include "harness/run/execute.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/checks/checks.h"
#include "harness/judge/judge.h"
#include "harness/run/process.h"

/* One run on its way. */
typedef struct run {
    const at_execution *how;
    at_session *session;
    const at_case *c;
    const at_problem *p;
    at_problem judged; /* a view of p without what the backend does not write */
    const at_gold *gold;
    at_verdict *v;
    at_engines engines;
    const char *engine;
} run;

static void say(run *r, at_begin_step step)
{
    if (r->how->begin != NULL) {
        r->how->begin(r->how->user, step, r->v);
    }
}

/* Ends a step with a kind and a reason; returns false, so that callers can stop. */
AT_PRINTF(5, 6)
static bool settle(run *r, at_step step, at_kind kind, const char *code, const char *format, ...)
{
    at_step_verdict *s = &r->v->step[step];
    va_list args;
    va_start(args, format);
    s->ran = true;
    s->kind = kind;
    (void)snprintf(s->reason.code, sizeof s->reason.code, "%s", code);
    (void)vsnprintf(s->reason.text, sizeof s->reason.text, format, args);
    va_end(args);
    return false;
}

static const char *key_name(const char *key, int64_t value)
{
    return at_case_field(key, strlen(key))->names[value];
}

/* What follows from the backend's table alone. */
static bool check_promises(run *r)
{
    const at_backend *b = r->how->backend;
    const at_case *c = r->c;
    if (c->arch != AT_ARCH_ANY && b->arch != AT_ARCH_ANY && c->arch != (int64_t)b->arch) {
        return settle(r, AT_STEP_CLAIM, AT_UNSUPPORTED_CASE, "arch",
                      "the case is for arch=%s, %s runs on %s", key_name("arch", c->arch), b->name,
                      key_name("arch", (int64_t)b->arch));
    }
    if (c->pass == AT_PASS_TRAIN && !(b->promises & AT_PROMISES_BACKWARD)) {
        return settle(r, AT_STEP_CLAIM, AT_UNSUPPORTED_CASE, "pass",
                      "pass=train: %s has no backward", b->name);
    }
    if (c->pass == AT_PASS_STATS && !(b->promises & AT_PROMISES_STATS)) {
        return settle(r, AT_STEP_CLAIM, AT_UNSUPPORTED_CASE, "pass",
                      "pass=stats: %s does not write LSE", b->name);
    }
    if (c->dropout > 0 && !(b->promises & (AT_PROMISES_MASK | AT_PLANS_ONLY))) {
        return settle(r, AT_STEP_CLAIM, AT_SKIP, "mask_hidden",
                      "dropout=%.17g: %s does not hand out its dropout mask, so there is no answer "
                      "to compare with",
                      c->dropout, b->name);
    }
    if (c->deterministic &&
        !(b->promises & (AT_PROMISES_DETERMINISM | AT_PROMISES_DET_ON_REQUEST))) {
        return settle(r, AT_STEP_CLAIM, AT_UNSUPPORTED_CASE, "det",
                      "det=1: %s does not promise determinism", b->name);
    }
    return true;
}

static bool choose_engine(run *r)
{
    const char *wanted = r->how->engine;
    for (int i = 0; i < r->engines.n; i++) {
        if (*wanted == '\0' || strcmp(wanted, r->engines.name[i]) == 0) {
            r->engine = r->engines.name[i];
            return true;
        }
    }
    if (r->engines.n < 1) {
        return settle(r, AT_STEP_CLAIM, AT_ERROR, "no_engine", "%s claims the case with no engine",
                      r->how->backend->name);
    }
    return settle(r, AT_STEP_CLAIM, AT_UNSUPPORTED_CASE, "engine", "no engine \"%s\" here, but %s",
                  wanted, r->engines.name[0]);
}

/* The claim step. A static refusal that is passed over is left in *forced, with *was_forced set. */
static bool claim(run *r, at_reason *forced, bool *was_forced)
{
    const at_backend *b = r->how->backend;
    at_reason why = {"", ""};
    if (!check_promises(r)) {
        return false;
    }
    at_status status = b->supports(b, r->c, &why);
    if (status != AT_OK && r->how->force) {
        *forced = why;
        *was_forced = true;
    } else if (status != AT_OK) {
        return settle(r, AT_STEP_CLAIM, AT_UNSUPPORTED_CASE, why.code, "%s", why.text);
    }
    why = (at_reason){"", ""};
    status = b->claim(b, r->how->state, r->c, &r->engines, &why);
    if (status != AT_OK) {
        return settle(r, AT_STEP_CLAIM,
                      status == AT_UNSUPPORTED ? AT_UNSUPPORTED_CASE : AT_UNBUILDABLE, why.code,
                      "%s", why.text);
    }
    if (!choose_engine(r)) {
        return false;
    }
    r->v->step[AT_STEP_CLAIM].ran = true;
    if (r->how->claimed != NULL) {
        r->how->claimed(r->how->user, &r->engines, r->engine);
    }
    return true;
}

static at_kind kind_of_ours(at_status status)
{
    return status == AT_UNSUPPORTED ? AT_SKIP : status == AT_NO_MEMORY ? AT_OOM : AT_ERROR;
}

/* Inputs and poisoned outputs. Failures here and of the reference are ours, never the backend's. */
static bool open_problem(run *r)
{
    at_error err = {""};
    char code[48] = "reference";
    at_status status = at_reference_supports(r->c, code, &err);
    if (status != AT_OK) {
        return settle(r, AT_STEP_CLAIM, kind_of_ours(status), code, "%s", err.text);
    }
    say(r, AT_BEGIN_PROBLEM);
    status = at_session_problem(r->session, &r->p, &err);
    if (status != AT_OK) {
        return settle(r, AT_STEP_CLAIM, kind_of_ours(status), "problem", "%s", err.text);
    }
    return true;
}

static bool make_reference(run *r)
{
    at_error err = {""};
    if (!at_session_has_gold(r->session, &r->how->backend->numeric)) {
        say(r, AT_BEGIN_REFERENCE);
    }
    at_status status = at_session_gold(r->session, &r->gold, &r->how->backend->numeric, &err);
    if (status != AT_OK) {
        return settle(r, AT_STEP_CLAIM, kind_of_ours(status), "reference", "%s", err.text);
    }
    r->judged = *r->p;
    if (!(r->how->backend->promises & AT_PROMISES_STATS)) {
        r->judged.t[AT_LSE].data = NULL;
    }
    return true;
}

/* With dropout the reference needs the mask that the forward used, if that is a mask at all. */
static bool refer_to_mask(run *r)
{
    at_reason reason;
    if (r->c->dropout <= 0) {
        return true;
    }
    at_kind kind = at_judge_dropout(r->p, &reason);
    return kind == AT_PASS ? make_reference(r)
                           : settle(r, AT_STEP_FORWARD, kind, reason.code, "%s", reason.text);
}

static at_status launch(run *r, at_step step, at_error *err)
{
    const at_backend *b = r->how->backend;
    return step == AT_STEP_FORWARD ? b->forward(b, r->how->state, r->p, r->engine, err)
                                   : b->backward(b, r->how->state, r->p, r->engine, err);
}

/* What a launch that failed means; false. */
static bool blame(run *r, at_step step, at_status status, const at_error *err)
{
    const char *text = err->text[0] != '\0' ? err->text : "no message";
    if (status == AT_NO_MEMORY) {
        return settle(r, step, AT_OOM, "no_memory", "%s", text);
    }
    return settle(r, step, AT_KIND_REFUSED, status == AT_REFUSED ? "refused" : "failed", "%s",
                  text);
}

static bool promises_bits(const run *r)
{
    unsigned promises = r->how->backend->promises;
    return (promises & AT_PROMISES_DETERMINISM) ||
           ((promises & AT_PROMISES_DET_ON_REQUEST) && r->c->deterministic);
}

/* Launches again into poisoned outputs and compares bits with the launch that was judged. */
static bool repeat(run *r, at_step step)
{
    size_t size = at_judge_keep_size(&r->judged, step);
    void *copy = malloc(size + 1);
    if (copy == NULL) {
        return settle(r, step, AT_ERROR, "no_memory", "no memory to compare launches");
    }
    at_judge_keep(&r->judged, step, copy);
    bool same = true;
    for (int64_t i = 1; i < r->how->repeat && same; i++) {
        at_error err = {""};
        at_problem_poison(r->p, step == AT_STEP_FORWARD ? AT_O : AT_DQ,
                          step == AT_STEP_FORWARD ? AT_LSE : AT_DV);
        at_status status = launch(r, step, &err);
        if (status != AT_OK) {
            same = blame(r, step, status, &err);
        } else if (!at_judge_same(&r->judged, step, copy, &err)) {
            same = settle(r, step, AT_NONDET, "bits_differ", "launch %lld: %s", (long long)(i + 1),
                          err.text);
        }
    }
    free(copy);
    return same;
}

static bool run_step(run *r, at_step step)
{
    at_step_verdict *s = &r->v->step[step];
    at_error err = {""};
    say(r, step == AT_STEP_FORWARD ? AT_BEGIN_FORWARD : AT_BEGIN_BACKWARD);
    double start = at_clock();
    at_status status = launch(r, step, &err);
    s->ran = true;
    s->ms = 1e3 * (at_clock() - start);
    if (status != AT_OK) {
        return blame(r, step, status, &err);
    }
    if (step == AT_STEP_FORWARD && !refer_to_mask(r)) {
        return false;
    }
    say(r, AT_BEGIN_JUDGE);
    double ms = s->ms;
    at_judge_step(s, step, &r->judged, r->gold, &r->how->backend->contract);
    s->ran = true;
    s->ms = ms;
    if (at_kind_class(s->kind) != AT_CLASS_OK) {
        return false;
    }
    if (r->how->repeat > 1 && promises_bits(r)) {
        say(r, step == AT_STEP_FORWARD ? AT_BEGIN_FORWARD : AT_BEGIN_BACKWARD);
        return repeat(r, step);
    }
    return true;
}

/* Launches without judging. False: a launch failed, as in an earlier run; no reference is needed.
 */
static bool probe(run *r)
{
    at_error err = {""};
    at_step last = r->c->pass == AT_PASS_TRAIN ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
    for (at_step step = AT_STEP_FORWARD; step <= last; step++) {
        say(r, step == AT_STEP_FORWARD ? AT_BEGIN_FORWARD : AT_BEGIN_BACKWARD);
        at_status status = launch(r, step, &err);
        r->v->step[step].ran = true;
        if (status != AT_OK) {
            return blame(r, step, status, &err);
        }
    }
    at_verdict_init(r->v);
    r->v->step[AT_STEP_CLAIM].ran = true;
    return open_problem(r); /* poisons the outputs again */
}

static bool has_elements(const at_gold *gold)
{
    for (int i = 0; i < AT_TENSOR_COUNT; i++) {
        if (gold->t[i].rows > 0 && gold->t[i].dim > 0) {
            return true;
        }
    }
    return false;
}

/* The first relation that does not hold makes its step WRONG. */
static void run_checks(run *r)
{
    at_reason why = {"", ""};
    at_step step = AT_STEP_FORWARD;
    for (int i = 0; i < AT_CHECK_COUNT; i++) {
        if ((r->how->checks >> i & 1) == 0) {
            continue;
        }
        say(r, r->c->pass == AT_PASS_TRAIN ? AT_BEGIN_BACKWARD : AT_BEGIN_FORWARD);
        if (at_check_run((at_check)i, r->how->backend, r->how->state, r->engine, r->c, &step,
                         &why) == AT_CHECK_BROKEN) {
            (void)settle(r, step, AT_WRONG, why.code, "%s", why.text);
            return;
        }
    }
}

static void judge_all(run *r)
{
    bool good = run_step(r, AT_STEP_FORWARD);
    if (good && r->c->pass == AT_PASS_TRAIN) {
        good = run_step(r, AT_STEP_BACKWARD);
    }
    if (good) {
        run_checks(r);
    }
    at_verdict_settle(r->v);
    if (good && has_elements(r->gold)) {
        say(r, AT_BEGIN_JUDGE);
        at_judge_teeth(r->v, &r->judged, r->gold);
    }
}

/* Builds the chosen plan, or says why it cannot be built: whether it was the first choice of its
 * step, and whether any other plan of the step can be. */
static void build_plan(run *r)
{
    static const char backward[] = "backward:";
    const at_step step =
        strncmp(r->engine, backward, sizeof backward - 1) == 0 ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
    const size_t prefix = step == AT_STEP_BACKWARD ? sizeof backward - 1 : sizeof "forward:" - 1;
    const at_problem bare = {.c = *r->c};
    const char *chosen = r->engine, *first = NULL, *built = NULL;
    at_error err = {""}, other = {""};
    r->p = &bare;
    say(r, step == AT_STEP_FORWARD ? AT_BEGIN_FORWARD : AT_BEGIN_BACKWARD);
    const double start = at_clock();
    const at_status status = launch(r, step, &err);
    r->v->step[step].ms = 1e3 * (at_clock() - start);
    for (int i = 0; status != AT_OK && i < r->engines.n && built == NULL; i++) {
        r->engine = r->engines.name[i];
        if (strncmp(r->engine, chosen, prefix) == 0) {
            first = first != NULL ? first : r->engine;
            built = r->engine != chosen && launch(r, step, &other) == AT_OK ? r->engine : NULL;
        }
    }
    r->engine = chosen;
    r->p = NULL;
    if (status == AT_OK) {
        (void)settle(r, step, AT_BUILT, "built", "the plan was built; nothing was executed");
    } else if (status == AT_NO_MEMORY) {
        (void)blame(r, step, status, &err);
    } else {
        (void)settle(r, step, AT_UNBUILDABLE,
                     built == NULL     ? "no_plan_builds"
                     : first == chosen ? "first_plan_fails"
                                       : "later_plan_fails",
                     "%s%s%s", err.text, built != NULL ? "; this one builds: " : "",
                     built != NULL ? built + prefix : "");
    }
}

/* An invalid case must be refused, at whatever step, without harm. */
static void judge_invalid(run *r, bool claimed)
{
    at_error err = {""};
    at_step_verdict *s = &r->v->step[AT_STEP_CLAIM];
    if (!claimed) {
        bool refused = s->kind == AT_UNSUPPORTED_CASE;
        (void)(refused ? settle(r, AT_STEP_CLAIM, AT_PASS, "", "%s", "") : false);
        return;
    }
    at_status status = at_session_problem(r->session, &r->p, &err);
    if (status != AT_OK) {
        (void)settle(r, AT_STEP_CLAIM, kind_of_ours(status), "problem", "%s", err.text);
        return;
    }
    say(r, AT_BEGIN_FORWARD);
    status = launch(r, AT_STEP_FORWARD, &err);
    if (status == AT_OK) {
        (void)settle(r, AT_STEP_FORWARD, AT_WRONG, "accepted_invalid",
                     "the case is invalid (invalid=1), yet it ran without an error");
    } else {
        r->v->step[AT_STEP_FORWARD].ran = true;
    }
}

/* Written before the launch too: a worker that dies leaves the inputs and the answer. */
static void dump(run *r, const char *status)
{
    if (r->how->dump == NULL || r->how->dump[0] == '\0' || r->p == NULL) {
        return;
    }
    at_error err = {""};
    char text[AT_CASE_TEXT_MAX + 2048], case_text[AT_CASE_TEXT_MAX];
    (void)at_case_print(r->c, case_text);
    (void)snprintf(text, sizeof text,
                   "case     %s\nbackend  %s@%s\nengine   %s\nstatus   %s %s\nmessage  %s\n",
                   case_text, r->how->backend->name, r->how->backend->version, r->engine, status,
                   r->v->reason.code, r->v->reason.text);
    if (at_session_dump(r->p, r->gold, r->how->dump, text, &err) != AT_OK) {
        (void)settle(r, AT_STEP_CLAIM, AT_ERROR, "dump", "%s", err.text);
        at_verdict_settle(r->v);
    }
}

void at_execute(at_verdict *out, char engine[AT_ENGINE_NAME], at_session *session,
                const at_execution *how)
{
    run r = {.how = how, .session = session, .c = at_session_case(session), .v = out, .engine = ""};
    at_reason forced = {"", ""};
    bool was_forced = false;
    at_verdict_init(out);
    say(&r, AT_BEGIN_CLAIM);
    bool claimed = claim(&r, &forced, &was_forced);
    if (claimed && (how->backend->promises & AT_PLANS_ONLY)) {
        build_plan(&r);
        at_verdict_settle(out);
    } else if (r.c->invalid) {
        judge_invalid(&r, claimed);
        at_verdict_settle(out);
    } else if (claimed && open_problem(&r) && (!how->probe || probe(&r)) &&
               (r.c->dropout > 0 || make_reference(&r))) {
        dump(&r, "the worker died");
        judge_all(&r);
    } else {
        at_verdict_settle(out);
    }
    if (was_forced && claimed) {
        out->kind = out->kind == AT_PASS ? AT_OVER_REFUSED : AT_UNSUPPORTED_CASE;
        out->reason = forced;
    }
    dump(&r, at_kind_names[out->kind]);
    if (at_kind_class(out->kind) == AT_CLASS_FAIL) {
        at_session_spoil(session);
    }
    (void)snprintf(engine, AT_ENGINE_NAME, "%s", r.engine);
}
