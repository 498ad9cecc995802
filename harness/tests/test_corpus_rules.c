/* corpus/capabilities and corpus/selectors: every file opens, hand-checked answers, no rule that
 * nothing triggers, and what the two find about each other. */
#include "harness/tests/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/audit.h"
#include "harness/select/capability.h"
#include "harness/select/selector.h"
#include "harness/tests/corpus_rules.h"

enum { TRIGGERED_MAX = 2048, WORD = 64 };

/* "set rule" for every rule that a table has triggered. */
typedef struct triggered {
    size_t count;
    char name[TRIGGERED_MAX][2 * WORD];
} triggered;

static bool has(const triggered *t, const char *set, const char *rule)
{
    char name[2 * WORD];
    (void)snprintf(name, sizeof name, "%s %s", set, rule);
    size_t i = 0;
    while (i < t->count && strcmp(t->name[i], name) != 0) {
        i++;
    }
    return i < t->count;
}

static void note(triggered *t, const char *set, const char *rule)
{
    if (!has(t, set, rule)) {
        CHECK(t->count < TRIGGERED_MAX);
        (void)snprintf(t->name[t->count++], 2 * WORD, "%s %s", set, rule);
    }
}

/* Next word of *list, or NULL. */
static const char *next_word(const char **list, char word[WORD])
{
    *list += strspn(*list, " ");
    size_t n = strcspn(*list, " ");
    (void)snprintf(word, WORD, "%.*s", (int)n, *list);
    *list += n;
    return n > 0 ? word : NULL;
}

static void describe(char got[2 * WORD], const at_capability *found)
{
    (void)snprintf(got, (size_t)2 * WORD, "%s %s", at_outcome_names[found->outcome],
                   found->id != NULL ? found->id : "-");
}

static at_case parsed(const char *text)
{
    at_error err = {""};
    at_case c;
    if (at_case_parse(&c, text, &err) != AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
        CHECK_OK(at_case_parse(&c, "b=1", &err), &err);
    }
    return c;
}

static void check_outcome(triggered *t, const at_known_outcome *row, const char *name)
{
    at_error err = {""};
    at_capabilities *set = NULL;
    at_capability found = {0};
    char got[2 * WORD];
    const at_case c = parsed(row->text);
    CHECK_OK(at_capabilities_open(&set, AT_TEST_CORPUS, name, &err), &err);
    if (set == NULL) {
        return;
    }
    at_step step = row->step == 'f' ? AT_STEP_FORWARD : AT_STEP_BACKWARD;
    CHECK_OK(at_capability_find(&found, set, &c, step, &err), &err);
    describe(got, &found);
    if (strcmp(got, row->want) != 0) {
        at_test_fail(__FILE__, __LINE__, "%s %c of %s is %s, want %s", row->text, row->step, name,
                     got, row->want);
    }
    if (found.id != NULL) {
        note(t, name, found.id);
    }
    at_capabilities_close(set);
}

static bool excused(const char *set, const char *id)
{
    size_t i = 0;
    while (at_unreached_rules[i].set != NULL && (strcmp(at_unreached_rules[i].set, set) != 0 ||
                                                 strcmp(at_unreached_rules[i].id, id) != 0)) {
        i++;
    }
    return at_unreached_rules[i].set != NULL;
}

/* Every rule of FOLDER/NAME.json is in the list, or is said to be unreachable. */
static void all_triggered(const triggered *t, const char *folder, const char *name)
{
    char path[1024];
    at_error err = {""};
    at_json *document = NULL;
    (void)snprintf(path, sizeof path, "%s/%s/%s.json", AT_TEST_CORPUS, folder, name);
    CHECK_OK(at_json_load(&document, path, &err), &err);
    const at_json *rules = at_json_get(document, "rules");
    for (const at_json *r = at_json_first(rules); r != NULL; r = at_json_next(r)) {
        const char *id = at_json_text(at_json_get(r, "id"));
        bool removed = false;
        (void)at_json_bool(at_json_get(r, "remove"), &removed);
        if (!removed && has(t, name, id) == excused(name, id)) {
            at_test_fail(__FILE__, __LINE__, "%s: no case of the table triggers %s", name, id);
        }
    }
    at_json_close(document);
}

typedef void visitor(void *context, const char *name);

static void each_file(const char *folder, visitor *visit, void *context)
{
    char path[1024], name[WORD];
    (void)snprintf(path, sizeof path, "%s/%s", AT_TEST_CORPUS, folder);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    int n = 0;
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        const char *end = strstr(e->d_name, ".json");
        if (end != NULL && end[5] == '\0') {
            (void)snprintf(name, sizeof name, "%.*s", (int)(end - e->d_name), e->d_name);
            visit(context, name);
            n++;
        }
    }
    CHECK(n > 0);
    (void)closedir(dir);
}

static void visit_capabilities(void *context, const char *name)
{
    const triggered *t = context;
    int rows = 0;
    for (const at_known_outcome *row = at_known_outcomes; row->sets != NULL; row++) {
        const char *list = row->sets;
        char word[WORD];
        while (next_word(&list, word) != NULL) {
            rows += strcmp(word, name) == 0;
        }
    }
    if (rows < 12) {
        at_test_fail(__FILE__, __LINE__, "%s: %d hand-checked outcomes, want 12", name, rows);
    }
    all_triggered(t, "capabilities", name);
}

static void test_outcomes(void)
{
    triggered *t = calloc(1, sizeof *t);
    CHECK(t != NULL);
    for (const at_known_outcome *row = at_known_outcomes; row->sets != NULL; row++) {
        const char *list = row->sets;
        char name[WORD];
        while (next_word(&list, name) != NULL) {
            check_outcome(t, row, name);
        }
    }
    each_file("capabilities", visit_capabilities, t);
    free(t);
}

static at_selector *open_selector(const char *name, const char *env_text)
{
    at_error err = {""};
    at_env *env = NULL;
    at_selector *s = NULL;
    CHECK_OK(at_env_set(&env, env_text, &err), &err);
    CHECK_OK(at_selector_open(&s, AT_TEST_CORPUS, name, env, &err), &err);
    at_env_close(env);
    return s;
}

static void check_decision(triggered *t, const at_known_decision *row, const char *name)
{
    at_error err = {""};
    at_selection d = {0};
    char got[400];
    const at_case c = parsed(row->text);
    at_selector *s = open_selector(name, row->env);
    if (s == NULL) {
        return;
    }
    CHECK_OK(at_selector_decide(&d, s, &c, &err), &err);
    int used = snprintf(got, sizeof got, "%s", d.winner != NULL ? d.winner : "none");
    for (int i = 0; i < d.refused_count; i++) {
        used += snprintf(got + used, sizeof got - (size_t)used, " %s:%s", d.refused[i].backend,
                         d.refused[i].rule);
        note(t, name, d.refused[i].rule);
    }
    if (strcmp(got, row->want) != 0) {
        at_test_fail(__FILE__, __LINE__, "%s --env %s '%s' is %s, want %s", name, row->env,
                     row->text, got, row->want);
    }
    at_selector_close(s);
}

static void test_decisions(void)
{
    static const char *const sets[] = {"fa2-2.8", "fa3", "fa4-b27", "fa4-b36", "torch-2.11"};
    triggered *t = calloc(1, sizeof *t);
    CHECK(t != NULL);
    for (const at_known_decision *row = at_known_decisions; row->selector != NULL; row++) {
        const char *list = row->selector;
        char name[WORD];
        while (next_word(&list, name) != NULL) {
            check_decision(t, row, name);
        }
    }
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        all_triggered(t, "selectors", sets[i]);
    }
    free(t);
}

static void open_rule_set(void *context, const char *name)
{
    (void)context;
    at_selector_close(open_selector(name, "arch=sm90"));
}

static void open_set(void *context, const char *name)
{
    (void)context;
    at_error err = {""};
    at_capabilities *set = NULL;
    CHECK_OK(at_capabilities_open(&set, AT_TEST_CORPUS, name, &err), &err);
    at_capabilities_close(set);
}

static void test_all_open(void)
{
    each_file("selectors", open_rule_set, NULL);
    each_file("capabilities", open_set, NULL);
}

/* The first step that refuses or goes wrong, as the audit takes it; "runs" when all run. */
static void build_does(char got[2 * WORD], const char *set_name, at_case c, int64_t arch)
{
    at_error err = {""};
    at_capabilities *set = NULL;
    at_capability found = {0};
    CHECK_OK(at_capabilities_open(&set, AT_TEST_CORPUS, set_name, &err), &err);
    (void)snprintf(got, (size_t)2 * WORD, "runs");
    int last = c.pass == AT_PASS_TRAIN ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
    c.arch = arch;
    for (int step = AT_STEP_FORWARD; set != NULL && step <= last; step++) {
        CHECK_OK(at_capability_find(&found, set, &c, (at_step)step, &err), &err);
        if (found.outcome != AT_OUTCOME_RUNS) {
            describe(got, &found);
        }
        if (found.outcome == AT_OUTCOME_REFUSES || found.outcome == AT_OUTCOME_WRONG) {
            break;
        }
    }
    at_capabilities_close(set);
}

static void check_finding(const at_known_finding *f)
{
    at_error err = {""};
    at_decision d;
    char does[2 * WORD], got[4 * WORD];
    const at_case c = parsed(f->text);
    at_selector *s = open_selector(f->selector, f->env);
    size_t i = 0;
    while (s != NULL && i < at_selector_backends(s) &&
           strcmp(at_selector_backend(s, i), f->backend) != 0) {
        i++;
    }
    CHECK(s != NULL && i < at_selector_backends(s));
    CHECK_OK(at_selector_decide_fast(&d, s, &c, &err), &err);
    const char *set = at_selector_capabilities(s, i);
    CHECK(set != NULL);
    build_does(does, set, c, at_selector_arch(s, &c));
    if ((d.admitted >> i & 1) != 0) {
        (void)snprintf(got, sizeof got, "%s", does);
    } else {
        CHECK(!at_selector_rule_is_callers(s, (size_t)d.rule[i]));
        (void)snprintf(got, sizeof got, "%s %s", at_selector_rule(s, (size_t)d.rule[i]).rule, does);
    }
    if (strcmp(got, f->want) != 0) {
        at_test_fail(__FILE__, __LINE__, "%s: %s --env %s '%s': %s is %s, want %s", f->item,
                     f->selector, f->env, f->text, f->backend, got, f->want);
    }
    at_selector_close(s);
}

static void test_findings(void)
{
    for (const at_known_finding *f = at_known_findings; f->item != NULL; f++) {
        check_finding(f);
    }
}

/* The report's bug in the newest release: FlashAttention 3 is still taken for training where its
 * backward refuses, and the boxes say where with builds that have a backward for other V dims. */
static void test_alive(void)
{
    at_error err = {""};
    at_env *env = NULL;
    at_audit *a = NULL;
    CHECK_OK(at_env_set(&env, "arch=sm90,fa3=3.0.0,fused=0", &err), &err);
    const at_audit_request request = {
        .corpus = AT_TEST_CORPUS, .selector = "te-2.20", .space = "training", .env = env};
    CHECK_OK(at_audit_open(&a, &request, &err), &err);
    at_env_close(env);
    CHECK(a != NULL && at_audit_boxes(a) > 0);
    for (size_t i = 0; a != NULL && i < at_audit_boxes(a); i++) {
        at_json *o = at_audit_box_json(a, i);
        const at_json *box = at_json_get(o, "box");
        CHECK_TEXT(at_json_text(at_json_get(o, "admits")), "fa3");
        CHECK_TEXT(at_json_text(at_json_get(o, "step")), "backward");
        CHECK_TEXT(at_json_text(at_json_get(o, "should_refuse_rule")), "fa3.hdim");
        CHECK_TEXT(at_json_text(at_json_get(o, "capabilities")), "fa3-3.0.0");
        CHECK_TEXT(at_json_text(at_json_get(box, "dqk")), "8..64/8");
        CHECK_TEXT(at_json_text(at_json_get(box, "dv")), "512");
        at_json_close(o);
    }
    at_audit_close(a);
}

const at_test at_tests[] = {
    {"unit", "all-open", test_all_open},   {"unit", "outcomes", test_outcomes},
    {"unit", "decisions", test_decisions}, {"unit", "findings", test_findings},
    {"unit", "alive", test_alive},         {NULL, NULL, NULL}};
