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

/* The same with every build: how many of the pairs of head dims 8..256 in steps of 8, with 512 for
 * V, contradict in training, and in which step. */
static void test_alive_by_build(void)
{
    static const struct {
        const char *build, *step;
        int pairs;
    } builds[] = {
        {"2024-07", "forward", 288},  {"2025-01", "forward", 288}, {"2025-02", "backward", 288},
        {"2025-03", "backward", 288}, {"2025-04", "backward", 8},  {"2025-08", "backward", 8},
        {"2025-09", "backward", 8},   {"3.0.0", "backward", 8},    {"2026-01", "backward", 8}};
    for (size_t k = 0; k < sizeof builds / sizeof *builds; k++) {
        char pairs[96];
        at_error err = {""};
        at_env *env = NULL;
        at_audit *a = NULL;
        (void)snprintf(pairs, sizeof pairs, "arch=sm90,fused=0,fa3=%s", builds[k].build);
        CHECK_OK(at_env_set(&env, pairs, &err), &err);
        const at_audit_request request = {
            .corpus = AT_TEST_CORPUS,
            .selector = "te-2.20",
            .space = "hq=16:hkv=1:sq=4096:dqk=8..256/8:dv=8..256/8,512:layout=sbhd:mask=causal",
            .env = env};
        CHECK_OK(at_audit_open(&a, &request, &err), &err);
        at_env_close(env);
        int admits = 0;
        for (size_t i = 0; a != NULL && i < at_audit_boxes(a); i++) {
            at_json *o = at_audit_box_json(a, i);
            bool fa3 = strcmp(at_json_text(at_json_get(o, "backend")), "fa3") == 0;
            if (fa3 && at_json_text(at_json_get(o, "admits")) != NULL) {
                CHECK_TEXT(at_json_text(at_json_get(o, "step")), builds[k].step);
                CHECK_TEXT(at_json_text(at_json_get(o, "outcome")), "refuses");
                admits++; /* a box is a case here */
            }
            at_json_close(o);
        }
        CHECK_INT(admits, builds[k].pairs);
        at_audit_close(a);
    }
}

/* Whether a list such as "C3 - C6, C15" or "A1" has the item. */
static bool lists(const char *cell, size_t length, const char *item)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%.*s", (int)(length < 63 ? length : 63), cell);
    int number = atoi(item + 1);
    for (char *part = strtok(text, ","); part != NULL; part = strtok(NULL, ",")) {
        char letter = 0;
        int from = 0, to = 0;
        int n = sscanf(part, " %c%d - %*c%d", &letter, &from, &to);
        to = n < 3 ? from : to;
        if (n >= 2 && letter == item[0] && number >= from && number <= to) {
            return true;
        }
    }
    return false;
}

/* The line of the report's tables that speaks of the item; NULL: none, or two. */
static const char *report_line(const char *report, const char *item)
{
    const char *found = NULL;
    for (const char *line = report; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *cell = strncmp(line, "| ", 2) == 0 ? line + 2 : NULL;
        if (cell != NULL && lists(cell, strcspn(cell, "|"), item)) {
            if (found != NULL) {
                return NULL;
            }
            found = line;
        }
    }
    return found;
}

/* The report says "found" of the items that the rows above prove, and why not of all others. */
static void test_report(void)
{
    static const struct {
        char letter;
        int last;
    } series[] = {{'A', 26}, {'C', 15}, {'R', 12}};
    static char report[65536];
    FILE *file = fopen(AT_TEST_SOURCE "/reports/selection-audit.md", "r");
    CHECK(file != NULL && fread(report, 1, sizeof report - 1, file) > 1000);
    CHECK(file == NULL || fclose(file) == 0);
    for (size_t s = 0; s < 3; s++) {
        for (int n = 1; n <= series[s].last; n++) {
            char item[16];
            bool proved = false;
            (void)snprintf(item, sizeof item, "%c%d", series[s].letter, n);
            for (const at_known_finding *f = at_known_findings; f->item != NULL; f++) {
                proved = proved || strcmp(f->item, item) == 0;
            }
            const char *line = report_line(report, item);
            if (line == NULL && strcmp(item, "A11") != 0) { /* there is no A11 */
                at_test_fail(__FILE__, __LINE__, "%s: not one line of the report", item);
                continue;
            }
            char text[1024] = "";
            (void)snprintf(text, sizeof text, "%.*s", line != NULL ? (int)strcspn(line, "\n") : 0,
                           line != NULL ? line : "");
            bool no = strstr(text, "not found: ") != NULL;
            bool yes = !no && strstr(text, "found") != NULL;
            if (strncmp(text, "| C11 |", 7) == 0) { /* test of cudnn-frontend-1.32 */
                CHECK(yes);
                continue;
            }
            CHECK(yes == proved && (no != yes || line == NULL));
        }
    }
}

const at_test at_tests[] = {
    {"unit", "all-open", test_all_open},   {"unit", "outcomes", test_outcomes},
    {"unit", "decisions", test_decisions}, {"unit", "findings", test_findings},
    {"unit", "alive", test_alive},         {"unit", "alive-by-build", test_alive_by_build},
    {"unit", "report", test_report},       {NULL, NULL, NULL}};
