/* The rule set cudnn-frontend-VERSION against validate() of the frontend itself, whose only
 * question to libcudnn, its release, is answered by cudnn_version.c. Skipped where the cuDNN part
 * was not built. ATTEST_FRONTEND_CASES: cases a direction, and what was said behind each rule is
 * printed; ATTEST_FRONTEND_RECORD: a file that gets a sample of them, with the frontend's answers.
 */
#include "harness/tests/test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness/select/expr.h"
#include "harness/select/selector.h"
#include "harness/tests/frontend_cases.h"
#include "kernels/cudnn_load.h"
#include "kernels/cudnn_spec.h"

enum { SHORT = 150000, RELEASES_MAX = 64, NODES = 3, SHOWN = 20, EACH = 4, ADMITTED = 200 };

static const char *const nodes[NODES] = {"auto", "composite", "unified"};

/* What the frontend said where a rule was the first to refuse. */
typedef struct reason {
    uint64_t count;
    char message[AT_CUDNN_MESSAGE];
} reason;

typedef struct comparison {
    const at_cudnn_api *api;
    void (*say_version)(size_t);
    char rules[64];
    at_selector *selector[RELEASES_MAX][NODES];
    at_step step;
    uint64_t cases, asked, admitted, disagreements, recorded;
    reason reason[AT_SELECTOR_RULES_MAX];
    FILE *record;
} comparison;

static int backend_of(const at_selector *s, const char *name)
{
    for (size_t i = 0; i < at_selector_backends(s); i++) {
        if (strcmp(at_selector_backend(s, i), name) == 0) {
            return (int)i;
        }
    }
    at_test_fail(__FILE__, __LINE__, "no backend %s", name);
    return 0;
}

/* The frontend that was built may be another release than the newest rule set. */
static void open_all(comparison *k)
{
    at_error err = {""};
    for (size_t v = 0; v < at_frontend_release_count; v++) {
        for (size_t n = 0; n < NODES; n++) {
            char text[160];
            at_env *env = NULL;
            (void)snprintf(text, sizeof text, "cudnn=%s,header=%s,node=%s",
                           at_frontend_releases[v].name, k->api->header_version, nodes[n]);
            CHECK_OK(at_env_set(&env, text, &err), &err);
            CHECK_OK(at_selector_open(&k->selector[v][n], AT_TEST_CORPUS, k->rules, env, &err),
                     &err);
            at_env_close(env);
        }
    }
}

static void open_frontend(comparison *k)
{
    at_error err = {""};
    int major = 0, minor = 0;
    CHECK(setenv("ATTEST_CUDNN", AT_TEST_CUDNN_VERSION, 1) == 0);
    if (at_cudnn_load(&k->api, true, &err) != AT_OK) {
        at_test_skip(err.text);
    }
    union {
        void *address;
        void (*function)(size_t);
    } say = {dlsym(dlopen(AT_TEST_CUDNN_VERSION, RTLD_NOW | RTLD_NOLOAD), "attest_cudnn_version")};
    CHECK(say.address != NULL);
    k->say_version = say.function;
    CHECK(sscanf(k->api->frontend_version, "%d.%d", &major, &minor) == 2);
    (void)snprintf(k->rules, sizeof k->rules, "cudnn-frontend-%d.%d", major, minor);
    CHECK(at_frontend_release_count <= RELEASES_MAX);
}

static void disagree(comparison *k, const at_case *c, size_t v, size_t n, const char *rule,
                     const char *said)
{
    char text[AT_CASE_TEXT_MAX];
    if (k->disagreements++ < SHOWN) {
        (void)at_case_print(c, text);
        at_test_fail(__FILE__, __LINE__,
                     "attest select '%s' --selector %s --env cudnn=%s,header=%s,node=%s\n"
                     "  %s\n  rules     %s\n  frontend  %s",
                     text, k->rules, at_frontend_releases[v].name, k->api->header_version, nodes[n],
                     at_step_names[k->step], rule, said);
    }
}

/* Up to the first digit (numbers of the case, names of releases), at most 32 bytes: lists follow.
 */
static bool same_message(const char *a, const char *b)
{
    size_t n = strcspn(a, "0123456789");
    n = n < 32 ? n : 32;
    return n > 0 && strncmp(a, b, n) == 0;
}

/* One rule stands for one sentence of the frontend. */
static void note_reason(comparison *k, const at_case *c, size_t v, size_t n, int rule,
                        const char *message)
{
    reason *r = &k->reason[rule];
    const at_selector *s = k->selector[v][n];
    if (r->count++ == 0) {
        (void)snprintf(r->message, sizeof r->message, "%s", message);
    } else if (!same_message(r->message, message)) {
        char said[2 * AT_CUDNN_MESSAGE + 32];
        (void)snprintf(said, sizeof said, "%s (elsewhere: %s)", message, r->message);
        disagree(k, c, v, n, at_selector_rule(s, (size_t)rule).rule, said);
    }
}

static void record(comparison *k, const at_case *c, size_t v, size_t n, const bool admits[2])
{
    const bool train = c->pass == AT_PASS_TRAIN, all = admits[0] && (!train || admits[1]);
    char text[AT_CASE_TEXT_MAX];
    (void)at_case_print(c, text);
    (void)fprintf(k->record,
                  "{\"case\":\"%s\",\"env\":\"cudnn=%s,header=%s,node=%s\",\"winner\":", text,
                  at_frontend_releases[v].name, k->api->header_version, nodes[n]);
    const char *winner = all                  ? "\"cudnn\""
                         : admits[0]          ? "\"forward\""
                         : train && admits[1] ? "\"backward\""
                                              : "null";
    (void)fprintf(k->record, "%s,\"admitted\":[%s%s%s]}\n", winner, all ? "\"cudnn\"" : "",
                  admits[0] ? (all ? ",\"forward\"" : "\"forward\"") : "",
                  train && admits[1] ? (admits[0] ? ",\"backward\"" : "\"backward\"") : "");
}

/* *admits: the frontend says yes; false where the API has no word for the case. */
static bool ask(comparison *k, at_cudnn_answer *answer, const at_case *c, size_t n, at_step step)
{
    at_cudnn_spec spec;
    at_reason why = {"", ""};
    memset(answer, 0, offsetof(at_cudnn_answer, plan));
    if (at_cudnn_spec_init(&spec, c, step, (int)at_arch_number(c->arch), &why) != AT_OK) {
        (void)snprintf(answer->message, sizeof answer->message, "%s", why.text);
        return false;
    }
    spec.node = n == 0 ? AT_CUDNN_AUTO : n == 1 ? AT_CUDNN_COMPOSITE : AT_CUDNN_UNIFIED;
    k->api->ask(answer, &spec, AT_CUDNN_S1_VALIDATE, NULL, NULL);
    return true;
}

static void record_sample(comparison *k, const at_case *c, size_t v, size_t n, int rule,
                          const at_cudnn_answer *answer)
{
    const bool few = rule < 0 ? k->admitted <= ADMITTED : k->reason[rule].count <= EACH;
    if (k->record != NULL && few) {
        const at_step other = k->step == AT_STEP_FORWARD ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
        at_cudnn_answer second;
        const bool train = c->pass == AT_PASS_TRAIN;
        const bool asked = train && ask(k, &second, c, n, other);
        const bool own = answer->passed, others = asked && second.passed;
        const bool admits[2] = {k->step == AT_STEP_FORWARD ? own : others,
                                k->step == AT_STEP_FORWARD ? others : own};
        record(k, c, v, n, admits);
    }
}

static void compare(comparison *k, uint64_t index)
{
    at_case c;
    at_error err = {""};
    at_decision d;
    at_cudnn_answer answer;
    const size_t v = index % at_frontend_release_count;
    const size_t n = index / at_frontend_release_count % (NODES + 2) % NODES; /* auto most */
    const at_selector *s = k->selector[v][n];
    const int backend = backend_of(s, k->step == AT_STEP_FORWARD ? "forward" : "backward");
    at_frontend_case(&c, 1 + (uint64_t)k->step, index, k->step == AT_STEP_BACKWARD);
    k->say_version((size_t)at_frontend_releases[v].version);
    k->cases++;
    CHECK_OK(at_selector_decide_fast(&d, s, &c, &err), &err);
    const int rule = d.rule[backend];
    const char *name = rule >= 0 ? at_selector_rule(s, (size_t)rule).rule : "admitted";
    const bool asked = ask(k, &answer, &c, n, k->step);
    const bool callers = rule >= 0 && at_selector_rule_is_callers(s, (size_t)rule);
    const bool step_1 = answer.passed || answer.stage <= AT_CUDNN_S1_VALIDATE;
    k->asked += asked;
    if (asked == callers || (asked && answer.passed != (rule < 0)) || !step_1) {
        disagree(k, &c, v, n, name, answer.passed ? "admitted" : answer.message);
    }
    k->admitted += asked && answer.passed;
    if (rule >= 0) {
        note_reason(k, &c, v, n, rule, answer.message);
    }
    if (asked || callers) {
        record_sample(k, &c, v, n, rule, &answer);
    }
}

static bool about(const char *rule, at_step step)
{
    const char *other = step == AT_STEP_FORWARD ? "bwd" : "fwd";
    return strncmp(rule, other, 3) != 0 && strncmp(rule, "env.", 4) != 0 &&
           strcmp(rule, "api.cpu") != 0 && strcmp(rule, "api.forward_only") != 0 &&
           (step == AT_STEP_BACKWARD || strncmp(rule, "api.fp8", 7) != 0);
}

/* Rules that only a frontend compiled with a later cudnn.h has room for. */
static bool out_of_reach(const comparison *k, const char *rule)
{
    int major = 0, minor = 0;
    const bool later =
        strcmp(rule, "fwd.unified_dropout") == 0 || strcmp(rule, "fwd.unified_dropout_stats") == 0;
    CHECK(sscanf(k->api->header_version, "%d.%d", &major, &minor) == 2);
    return later && 100 * major + minor < 922;
}

static void check_rules(const comparison *k)
{
    const at_selector *s = k->selector[0][0];
    for (size_t i = 0; i < at_selector_rules(s); i++) {
        const char *rule = at_selector_rule(s, i).rule;
        if (about(rule, k->step) && (k->reason[i].count == 0) != out_of_reach(k, rule)) {
            at_test_fail(__FILE__, __LINE__, "%llu cases met the rule %s",
                         (unsigned long long)k->reason[i].count, rule);
        }
    }
}

/* The long form: what the frontend said behind each rule. */
static void print_reasons(const comparison *k)
{
    const at_selector *s = k->selector[0][0];
    for (size_t i = 0; i < at_selector_rules(s); i++) {
        if (k->reason[i].count > 0) {
            (void)printf("%-26s %8llu  %s\n", at_selector_rule(s, i).rule,
                         (unsigned long long)k->reason[i].count, k->reason[i].message);
        }
    }
}

static void run(at_step step)
{
    comparison *k = calloc(1, sizeof *k);
    const char *wanted = getenv("ATTEST_FRONTEND_CASES"), *file = getenv("ATTEST_FRONTEND_RECORD");
    const uint64_t n = wanted != NULL ? strtoull(wanted, NULL, 10) : SHORT;
    CHECK(k != NULL && n > 0);
    k->step = step;
    open_frontend(k);
    open_all(k);
    k->record = file != NULL ? fopen(file, "a") : NULL;
    const clock_t begin = clock();
    for (uint64_t i = 0; i < n && k->disagreements < (uint64_t)10 * SHOWN; i++) {
        compare(k, i);
    }
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (n >= SHORT) {
        check_rules(k);
    }
    CHECK_INT(k->disagreements, 0);
    (void)printf("%s, header %s, %s: %llu cases, %llu graphs, %llu admitted, %llu disagreements, "
                 "%.0f cases/s\n",
                 k->rules, k->api->header_version, at_step_names[step],
                 (unsigned long long)k->cases, (unsigned long long)k->asked,
                 (unsigned long long)k->admitted, (unsigned long long)k->disagreements,
                 (double)k->cases / seconds);
    if (wanted != NULL) {
        print_reasons(k);
    }
    for (size_t v = 0; v < at_frontend_release_count; v++) {
        for (size_t i = 0; i < NODES; i++) {
            at_selector_close(k->selector[v][i]);
        }
    }
    if (k->record != NULL) {
        CHECK(fclose(k->record) == 0);
    }
    free(k);
}

static void test_forward(void)
{
    run(AT_STEP_FORWARD);
}

static void test_backward(void)
{
    run(AT_STEP_BACKWARD);
}

const at_test at_tests[] = {
    {"unit", "forward", test_forward},
    {"unit", "backward", test_backward},
    {0},
};
