/* Rule sets against recorded decisions of the releases that they copy. The recordings are
 * corpus/selectors/golden/NAME.jsonl (kernels/python/te_selector/record.py and
 * torch_selector/record.py make them, and test_frontend.c for cudnn-frontend); `make fidelity` sets
 * ATTEST_GOLDEN to a folder of larger ones. */
#include "harness/case/case.h"
#include "harness/select/selector.h"
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN = 20, ENOUGH = 100000, LINE = 8192 };

typedef struct comparison {
    const char *name;
    at_selector *selector;
    char env[LINE]; /* of the open selector */
    long lines, disagreements;
} comparison;

/* Space-separated names; the order of `admitted` means nothing, so both sides use the rule set's.
 */
static void print_decision(char *text, size_t room, const at_selection *s)
{
    int used = snprintf(text, room, "%s:", s->winner != NULL ? s->winner : "none");
    for (int i = 0; i < s->admitted_count; i++) {
        used += snprintf(text + used, room - (size_t)used, " %s", s->admitted[i]);
    }
}

static void print_recorded(char *text, size_t room, const at_json *line, const at_selector *s)
{
    const char *winner = at_json_text(at_json_get(line, "winner"));
    int used = snprintf(text, room, "%s:", winner != NULL ? winner : "none");
    const at_json *admitted = at_json_get(line, "admitted");
    for (size_t i = 0; i < at_selector_backends(s); i++) {
        const char *name = at_selector_backend(s, i);
        for (const at_json *a = at_json_first(admitted); a != NULL; a = at_json_next(a)) {
            if (strcmp(at_json_text(a), name) == 0) {
                used += snprintf(text + used, room - (size_t)used, " %s", name);
            }
        }
    }
}

static bool open_for(comparison *c, const char *env_text)
{
    at_error err = {""};
    at_env *env = NULL;
    if (c->selector != NULL && strcmp(c->env, env_text) == 0) {
        return true;
    }
    at_selector_close(c->selector);
    c->selector = NULL;
    (void)snprintf(c->env, sizeof c->env, "%s", env_text);
    CHECK_OK(at_env_set(&env, env_text, &err), &err);
    CHECK_OK(at_selector_open(&c->selector, AT_TEST_CORPUS, c->name, env, &err), &err);
    at_env_close(env);
    return c->selector != NULL;
}

static void explain(const comparison *c, const char *text, const char *got, const char *want,
                    const at_selection *selection)
{
    at_test_fail(__FILE__, __LINE__,
                 "%s: attest select '%s' --selector %s --env %s\n  rules   %s"
                 "\n  release %s",
                 c->name, text, c->name, c->env, got, want);
    for (int i = 0; i < selection->refused_count; i++) {
        (void)fprintf(stderr, "  %s off by %s\n", selection->refused[i].backend,
                      selection->refused[i].rule);
    }
}

static void compare(comparison *c, const at_json *line)
{
    at_error err = {""};
    at_case kase;
    at_selection selection;
    char got[256], want[256];
    const char *text = at_json_text(at_json_get(line, "case"));
    const char *env = at_json_text(at_json_get(line, "env"));
    c->lines++;
    if (text == NULL || env == NULL || at_json_get(line, "admitted") == NULL) {
        at_test_fail(__FILE__, __LINE__, "%s: line %ld lacks case, env or admitted", c->name,
                     c->lines);
        return;
    }
    if (!open_for(c, env)) {
        c->disagreements += ENOUGH;
        return;
    }
    at_status status = at_case_parse(&kase, text, &err);
    status = status == AT_OK ? at_selector_decide(&selection, c->selector, &kase, &err) : status;
    if (status != AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s: %s: %s", c->name, text, err.text);
        c->disagreements++;
        return;
    }
    print_decision(got, sizeof got, &selection);
    print_recorded(want, sizeof want, line, c->selector);
    if (strcmp(got, want) != 0 && c->disagreements++ < SHOWN) {
        explain(c, text, got, want, &selection);
    }
}

static void compare_file(comparison *c, FILE *f)
{
    static char text[LINE];
    while (c->disagreements <= ENOUGH && fgets(text, sizeof text, f) != NULL) {
        at_error err = {""};
        at_json *line = NULL;
        CHECK_OK(at_json_parse(&line, c->name, text, strlen(text), &err), &err);
        if (line != NULL) {
            compare(c, line);
        }
        at_json_close(line);
    }
}

static void compare_with_golden(const char *name)
{
    char path[1024], rules[1024];
    const char *golden = getenv("ATTEST_GOLDEN");
    comparison c = {.name = name};
    (void)snprintf(rules, sizeof rules, "%s/selectors/%s.json", AT_TEST_CORPUS, name);
    if (access(rules, R_OK) != 0) {
        at_test_skip("the corpus has no such rule set");
    }
    (void)snprintf(path, sizeof path, "%s/%s.jsonl", golden != NULL ? golden : "", name);
    FILE *f = fopen(path, "r");
    if (f == NULL) { /* what that folder does not hold */
        (void)snprintf(path, sizeof path, "%s/selectors/golden/%s.jsonl", AT_TEST_CORPUS, name);
        f = fopen(path, "r");
    }
    CHECK(f != NULL);
    if (f == NULL) {
        return;
    }
    compare_file(&c, f);
    (void)fclose(f);
    at_selector_close(c.selector);
    CHECK(c.lines > 0);
    CHECK_INT(c.disagreements, 0);
    (void)printf("%s: %ld decisions, %ld disagreements\n", name, c.lines, c.disagreements);
}

static void te_2_10(void)
{
    compare_with_golden("te-2.10");
}
static void te_2_12(void)
{
    compare_with_golden("te-2.12");
}
static void te_2_14(void)
{
    compare_with_golden("te-2.14");
}
static void te_2_16(void)
{
    compare_with_golden("te-2.16");
}
static void te_2_17(void)
{
    compare_with_golden("te-2.17");
}
static void te_2_18(void)
{
    compare_with_golden("te-2.18");
}
static void te_2_19(void)
{
    compare_with_golden("te-2.19");
}
static void te_2_20(void)
{
    compare_with_golden("te-2.20");
}
static void torch_2_11(void)
{
    compare_with_golden("torch-2.11");
}
static void cudnn_frontend_1_23(void)
{
    compare_with_golden("cudnn-frontend-1.23");
}
static void cudnn_frontend_1_32(void)
{
    compare_with_golden("cudnn-frontend-1.32");
}

/* What the sampler asks are cases in canonical text and environments that the rule set takes. */
static void check_questions(const char *version, int extra)
{
    char command[1200], name[32];
    static char text[LINE];
    comparison c = {.name = name};
    (void)snprintf(name, sizeof name, "te-%s", version);
    (void)snprintf(command, sizeof command,
                   "python3 '%s/kernels/python/te_selector/inputs.py' %s 500", AT_TEST_SOURCE,
                   version);
    FILE *f = popen(command, "r");
    CHECK(f != NULL);
    while (f != NULL && fgets(text, sizeof text, f) != NULL) {
        at_error err = {""};
        at_json *line = NULL;
        at_case kase;
        char printed[AT_CASE_TEXT_MAX], env[LINE] = "";
        CHECK_OK(at_json_parse(&line, name, text, strlen(text), &err), &err);
        const at_json *object = at_json_get(line, "env");
        for (const at_json *m = at_json_first(object); m != NULL; m = at_json_next(m)) {
            size_t used = strlen(env);
            (void)snprintf(env + used, sizeof env - used, "%s%s=%s", used > 0 ? "," : "",
                           at_json_key(m), at_json_text(m));
        }
        CHECK_OK(at_case_parse(&kase, at_json_text(at_json_get(line, "case")), &err), &err);
        (void)at_case_print(&kase, printed);
        CHECK_TEXT(printed, at_json_text(at_json_get(line, "case")));
        CHECK(open_for(&c, env));
        at_json_close(line);
        c.lines++;
    }
    CHECK_INT(f != NULL ? pclose(f) : 1, 0);
    at_selector_close(c.selector);
    CHECK_INT(c.lines, 500 + extra); /* cuDNN that it does not load with, eval mode */
}

static void sampler(void)
{
    check_questions("2.10", 225);
    check_questions("2.20", 275);
}

const at_test at_tests[] = {
    {"unit", "te_2_10", te_2_10},
    {"unit", "te_2_12", te_2_12},
    {"unit", "te_2_14", te_2_14},
    {"unit", "te_2_16", te_2_16},
    {"unit", "te_2_17", te_2_17},
    {"unit", "te_2_18", te_2_18},
    {"unit", "te_2_19", te_2_19},
    {"unit", "te_2_20", te_2_20},
    {"unit", "torch_2_11", torch_2_11},
    {"unit", "cudnn_frontend_1_23", cudnn_frontend_1_23},
    {"unit", "cudnn_frontend_1_32", cudnn_frontend_1_32},
    {"unit", "sampler", sampler},
    {0},
};
