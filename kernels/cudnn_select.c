/* One case asked of cuDNN, and which libcudnn is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/expr.h"
#include "kernels/cudnn_audit_core.h"
#include "kernels/cudnn_find.h"
#include "kernels/cudnn_spec.h"

/* The steps of one case and what came back. */
typedef struct asking {
    const at_case *c;
    at_cudnn_stage last;
    int next;
    at_json *steps, *refused, *admitted;
    bool refuses;
} asking;

static bool next_step(void *user, at_cudnn_spec *spec, at_cudnn_stage *last, uint64_t *tag)
{
    asking *a = user;
    at_reason why;
    const int steps = a->c->pass == AT_PASS_TRAIN ? 2 : 1;
    if (a->next >= steps) {
        return false;
    }
    const at_step step = (at_step)(AT_STEP_FORWARD + a->next);
    *tag = (uint64_t)step;
    *last = a->last;
    a->next++;
    return at_cudnn_spec_init(spec, a->c, step, (int)at_arch_number(a->c->arch), &why) == AT_OK;
}

static at_json *plan_json(const at_cudnn_plan *plan, bool asked)
{
    at_json *o = at_json_object();
    at_json_put_text(o, "plan", plan->name);
    if (asked) {
        at_json_put_text(o, "status", plan->built ? "BUILT" : "UNBUILDABLE");
        at_json_put_text(o, "message", plan->message);
        at_json_put_integer(o, "workspace", plan->workspace);
    }
    return o;
}

static void put_answer(at_json *o, const at_cudnn_answer *answer)
{
    at_json *plans = at_json_array();
    const bool asked = answer->stage == AT_CUDNN_S5_PLANS;
    for (int i = 0; i < answer->plan_count; i++) {
        at_json_add(plans, plan_json(&answer->plan[i], asked));
    }
    at_json_put_text(o, "stage", at_cudnn_stage_names[answer->stage]);
    at_json_put_bool(o, "passed", answer->passed);
    at_json_put_text(o, "code", answer->code);
    at_json_put_text(o, "message", answer->message);
    at_json_put(o, "plans", plans);
}

static void refuse(asking *a, at_step step, const char *rule, const char *why)
{
    char named[AT_CUDNN_MESSAGE + 16];
    at_json *r = at_json_object();
    (void)snprintf(named, sizeof named, "%s: %s", at_step_names[step], why);
    at_json_put_text(r, "backend", "cudnn");
    at_json_put_text(r, "rule", rule);
    at_json_put_text(r, "why", named);
    at_json_put_text(r, "source", "the library itself, called");
    if (!a->refuses) { /* the first refusal, as for any selector */
        at_json_add(a->refused, r);
    } else {
        at_json_close(r);
    }
    a->refuses = true;
}

static void step_done(void *user, uint64_t tag, const at_cudnn_result *result)
{
    asking *a = user;
    const at_cudnn_answer *answer = result->answer;
    at_json *o = at_json_object();
    at_json_put_text(o, "step", at_step_names[tag]);
    if (answer == NULL) {
        at_json_put_text(o, "death", result->death);
        at_json_put_text(o, "plan", result->plan);
        refuse(a, (at_step)tag, "crash", result->death);
    } else {
        char rule[AT_CUDNN_CODE + 8];
        put_answer(o, answer);
        (void)snprintf(rule, sizeof rule, "%s %s", at_cudnn_stage_names[answer->stage],
                       answer->code);
        if (!answer->passed && answer->stage < AT_CUDNN_S5_PLANS) {
            refuse(a, (at_step)tag, rule, answer->message);
        }
    }
    at_json_add(a->steps, o);
}

static at_json *selection(asking *a, long version, const char *frontend)
{
    char text[AT_CASE_TEXT_MAX], number[32], name[48];
    at_json *o = at_json_object(), *env = at_json_object();
    at_cudnn_version_text(version, number);
    (void)snprintf(name, sizeof name, "cudnn@%s", number);
    (void)at_case_print(a->c, text);
    at_json_put_text(o, "selector", name);
    at_json_put_text(o, "case", text);
    if (a->refuses) {
        at_json_put_null(o, "winner");
    } else {
        at_json_put_text(o, "winner", "cudnn");
        at_json_add_text(a->admitted, "cudnn");
    }
    at_json_put(o, "admitted", a->admitted);
    at_json_put(o, "refused", a->refused);
    at_json_put_text(env, "arch", at_case_field("arch", 4)->names[a->c->arch]);
    at_json_put_text(env, "cudnn", number);
    at_json_put_text(env, "frontend", frontend);
    at_json_put_text(env, "driver", at_cudnn_uses_driver() ? "installed" : "stand-in");
    at_json_put(o, "env", env);
    at_json_put(o, "steps", a->steps);
    return o;
}

at_status at_cudnn_select(at_json **out, const char *corpus, const at_case *c, at_cudnn_stage last,
                          at_error *err)
{
    at_cudnn_spec spec;
    at_reason why;
    long version = 0;
    char frontend[32] = "";
    if (at_arch_number(c->arch) == 0) {
        return at_fail(err, AT_INVALID,
                       "cudnn is asked for an architecture: say arch=sm90 in the case");
    }
    for (int step = AT_STEP_FORWARD;
         step <= (c->pass == AT_PASS_TRAIN ? AT_STEP_BACKWARD : AT_STEP_FORWARD); step++) {
        if (at_cudnn_spec_init(&spec, c, (at_step)step, 90, &why) != AT_OK) {
            return at_fail(err, AT_UNSUPPORTED, "%s", why.text);
        }
    }
    asking a = {.c = c,
                .last = last,
                .steps = at_json_array(),
                .refused = at_json_array(),
                .admitted = at_json_array()};
    const at_cudnn_pool pool = {
        .corpus = corpus, .jobs = 1, .next = next_step, .done = step_done, .user = &a};
    const at_status status = at_cudnn_pool_run(&pool, &version, frontend, err);
    if (status == AT_OK) {
        *out = selection(&a, version, frontend);
    } else {
        at_json_close(a.steps), at_json_close(a.refused), at_json_close(a.admitted);
    }
    return status;
}

at_status at_cudnn_choose(const char *selector, const char *given, at_error *err)
{
    static char users[AT_CUDNN_PATH]; /* what the caller's environment says */
    static bool asked;
    char path[AT_CUDNN_PATH];
    const char *set = getenv("ATTEST_CUDNN");
    if (!asked) {
        (void)snprintf(users, sizeof users, "%s", set != NULL ? set : "");
        asked = true;
    }
    AT_TRY(at_cudnn_find(path, selector, given, err));
    const char *chosen = path[0] != '\0' ? path : users;
    const int failed =
        chosen[0] != '\0' ? setenv("ATTEST_CUDNN", chosen, 1) : unsetenv("ATTEST_CUDNN");
    return failed == 0 ? AT_OK : at_fail(err, AT_NO_MEMORY, "no memory for a path");
}

at_status at_cudnn_check_version(const char *selector, const char *number, at_error *err)
{
    const char *wanted = selector != NULL ? strchr(selector, '@') : NULL;
    const size_t n = wanted != NULL ? strlen(wanted + 1) : 0;
    const bool same =
        n == 0 || strcmp(wanted + 1, "newest") == 0 ||
        (strncmp(number, wanted + 1, n) == 0 && (number[n] == '\0' || number[n] == '.')) ||
        strncmp(wanted + 1, number, strlen(number)) == 0;
    return same ? AT_OK
                : at_fail(err, AT_INVALID,
                          "%s was asked for, the library found is %s; `make cudnn-library "
                          "VERSION=%s` fetches it, --cudnn PATH names another",
                          selector, number, wanted + 1);
}
