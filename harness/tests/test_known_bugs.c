/* The corpus of known bugs: read strictly; every case passes on a right kernel, and fails as the
 * entry says when the matching fault is planted. */
#include "harness/tests/test.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/known_bugs.h"
#include "harness/case/suite.h"
#include "harness/tests/tool.h"
#include "harness/tests/trial.h"
#include "kernels/kernels.h"

#define FOLDER AT_TEST_CORPUS "/known-bugs/"
enum { REPORTS = 113 };

/* Faults that end or hold the process: they are run by the tool. */
static const char *const deadly[] = {"mutant.segv", "mutant.abort", "mutant.oob_read_far",
                                     "mutant.hang", NULL};

static at_known_bugs *open_bugs(void)
{
    at_known_bugs *bugs = NULL;
    at_error err = {""};
    CHECK_OK(at_known_bugs_open(&bugs, FOLDER, &err), &err);
    AT_ASSERT(bugs != NULL);
    return bugs;
}

static at_suite *open_suite(const char *word)
{
    at_suite *suite = NULL;
    at_error err = {""};
    CHECK_OK(at_suite_open(&suite, AT_TEST_CORPUS, &word, 1, NULL, &err), &err);
    AT_ASSERT(suite != NULL);
    return suite;
}

static bool is_deadly(const char *backend)
{
    int i = 0;
    while (deadly[i] != NULL && strcmp(deadly[i], backend) != 0) {
        i++;
    }
    return deadly[i] != NULL;
}

static bool holds(const at_json *texts, const char *text)
{
    const at_json *item = texts != NULL ? at_json_first(texts) : NULL;
    for (; item != NULL && strcmp(at_json_text(item), text) != 0; item = at_json_next(item)) {
    }
    return item != NULL;
}

/* Whether the fault is to act on this text of "cases". */
static bool acts_on(const at_bug_fault *fault, const char *text)
{
    return fault->only == NULL || holds(fault->only, text);
}

/* What the case language can say of mechanisms M03 to M13. */
static bool counts(const at_known_bug *bug)
{
    int number = atoi(bug->mechanism + 1);
    return bug->cases != NULL && number >= 3 && number <= 13;
}

static void test_entries(void)
{
    at_known_bugs *bugs = open_bugs();
    at_suite *all = open_suite("known-bugs");
    size_t cases = 0, unsaid = 0, sayable = 0, planted = 0;
    const at_suite_unsaid *list = NULL;
    CHECK_INT(at_known_bugs_size(bugs), REPORTS);
    for (size_t i = 0; i < at_known_bugs_size(bugs); i++) {
        const at_known_bug *bug = at_known_bugs_at(bugs, i);
        char word[128];
        (void)snprintf(word, sizeof word, "known-bugs/%s", bug->id);
        at_suite *one = open_suite(word);
        CHECK((at_suite_size(one) > 0) == (bug->unsayable == NULL));
        cases += at_suite_size(one);
        unsaid += bug->unsayable != NULL;
        sayable += counts(bug);
        planted += counts(bug) && bug->fault_count > 0;
        for (size_t f = 0; f < bug->fault_count; f++) {
            if (at_registry_find(bug->fault[f].backend) == NULL) {
                at_test_fail(__FILE__, __LINE__, "%s: there is no %s", bug->id,
                             bug->fault[f].backend);
            }
        }
        at_suite_close(one);
    }
    CHECK_INT(at_suite_size(all), cases); /* no case stands in two entries */
    CHECK_INT(at_suite_unsaid_entries(all, &list), unsaid);
    CHECK(sayable >= 60 && 10 * planted >= 9 * sayable);
    (void)printf("%d entries, %zu cases, %zu without a case; of %zu sayable ones of M03 to M13 "
                 "%zu have a planted fault\n",
                 REPORTS, cases, unsaid, sayable, planted);
    at_suite_close(all);
    at_known_bugs_close(bugs);
}

static const char *engine_of(const at_backend *b, const at_case *c, const at_bug_fault *fault)
{
    static at_engines engines;
    at_reason why = {"", ""};
    at_error err = {""};
    void *state = NULL;
    if (fault->engine != NULL) {
        return fault->engine;
    }
    CHECK_OK(b->open(b, &state, &err), &err);
    CHECK_INT(b->claim(b, state, c, &engines, &why), AT_OK);
    b->close(b, state);
    return engines.name[0];
}

/* The fault must give one of its statuses (kinds), or leave the case alone (kinds of PASS). */
static void plant(const at_known_bug *bug, const at_bug_fault *fault, const at_case *c,
                  unsigned kinds)
{
    const at_backend *b = at_registry_find(fault->backend);
    at_reference_options options = {.numeric = b->numeric};
    char text[AT_CASE_TEXT_MAX];
    at_trial t;
    at_verdict v;
    (void)at_case_print(c, text);
    if (!at_trial_open_case(&t, c, &options)) {
        return;
    }
    const char *engine = engine_of(b, c, fault);
    at_trial_run(&t, &at_backend_cpu_flash, engine, 1, &v);
    if (v.kind != AT_PASS) {
        at_test_fail(__FILE__, __LINE__, "%s: cpu.flash on %s: %s %s", bug->id, text,
                     at_kind_names[v.kind], v.reason.text);
    }
    at_trial_run(&t, b, engine, (kinds & 1U << AT_NONDET) != 0 ? 2 : 1, &v);
    if ((kinds & 1U << v.kind) == 0) {
        at_test_fail(__FILE__, __LINE__, "%s: %s on %s: %s %s", bug->id, fault->backend, text,
                     at_kind_names[v.kind], v.reason.text);
    }
    at_trial_close(&t);
}

static size_t plant_texts(const at_known_bug *bug, const at_bug_fault *fault, const at_json *texts,
                          unsigned kinds)
{
    size_t runs = 0;
    const at_json *item = texts != NULL ? at_json_first(texts) : NULL;
    for (; item != NULL; item = at_json_next(item)) {
        bool acts = kinds == 1U << AT_PASS || acts_on(fault, at_json_text(item));
        at_suite *suite = acts ? open_suite(at_json_text(item)) : NULL;
        for (size_t i = 0; suite != NULL && i < at_suite_size(suite); i++, runs++) {
            plant(bug, fault, at_suite_case(suite, i, NULL), kinds);
        }
        at_suite_close(suite);
    }
    return runs;
}

static void test_faults(void)
{
    at_known_bugs *bugs = open_bugs();
    size_t runs = 0, controls = 0;
    char corpus[4096];
    at_error err = {""};
    CHECK_OK(at_corpus_find(corpus, AT_TEST_CORPUS, AT_TEST_CORPUS, &err), &err); /* modelled.* */
    omp_set_num_threads(1); /* small problems */
    for (size_t i = 0; i < at_known_bugs_size(bugs); i++) {
        const at_known_bug *bug = at_known_bugs_at(bugs, i);
        for (size_t f = 0; f < bug->fault_count; f++) {
            const at_bug_fault *fault = &bug->fault[f];
            if (!is_deadly(fault->backend)) {
                runs += plant_texts(bug, fault, bug->cases, fault->kinds);
                controls += plant_texts(bug, fault, bug->controls, 1U << AT_PASS);
            }
        }
    }
    CHECK(runs >= 120 && controls >= 10);
    (void)printf("%zu runs with planted faults, %zu neighbours that they leave right\n", runs,
                 controls);
    at_known_bugs_close(bugs);
}

/* All cases of all entries that plant this fault, one a line. */
static size_t list_cases(const at_known_bugs *bugs, const char *backend, unsigned *kinds)
{
    char *words = calloc(1, 1 << 16);
    size_t cases = 0;
    AT_ASSERT(words != NULL);
    for (size_t i = 0; i < at_known_bugs_size(bugs); i++) {
        const at_known_bug *bug = at_known_bugs_at(bugs, i);
        for (size_t f = 0; f < bug->fault_count; f++) {
            const at_json *item = at_json_first(bug->cases);
            bool planted = strcmp(bug->fault[f].backend, backend) == 0;
            *kinds |= planted ? bug->fault[f].kinds : 0;
            for (; planted && item != NULL; item = at_json_next(item)) {
                if (acts_on(&bug->fault[f], at_json_text(item))) {
                    at_suite *suite = open_suite(at_json_text(item));
                    cases += at_suite_size(suite);
                    at_suite_close(suite);
                    (void)strcat(strcat(words, at_json_text(item)), "\n");
                }
            }
        }
    }
    at_tool_write("words", words);
    free(words);
    return cases;
}

/* Deaths and hangs: the runner lives on and gives the status. */
static void test_deadly(void)
{
    at_known_bugs *bugs = open_bugs();
    for (int i = 0; deadly[i] != NULL; i++) {
        unsigned kinds = 0;
        size_t found = 0, cases = list_cases(bugs, deadly[i], &kinds);
        const at_tool *t = at_tool_run("sweep @words --backend %s --format jsonl -q -j2 "
                                       "--case-timeout 1 -o %s",
                                       deadly[i], deadly[i]);
        CHECK_INT(t->code, 1);
        CHECK(cases > 0);
        for (int kind = 0; kind < AT_KIND_COUNT; kind++) {
            char status[64];
            (void)snprintf(status, sizeof status, "\"engine\":\"tile64\",\"status\":\"%s\"",
                           at_kind_names[kind]);
            found += (kinds & 1U << kind) != 0 ? (size_t)at_tool_count(t->out, status) : 0;
        }
        CHECK_INT(found, cases);
    }
    at_known_bugs_close(bugs);
}

/* The suite on a right kernel. */
static void test_sweep(void)
{
    const at_tool *t = at_tool_run("sweep known-bugs --backend cpu.flash -q -o sweep");
    at_suite *suite = open_suite("known-bugs");
    const at_suite_unsaid *list = NULL;
    size_t n = at_suite_unsaid_entries(suite, &list), right = 0, refused = 0;
    char line[128];
    CHECK_INT(t->code, 0);
    (void)snprintf(line, sizeof line, "skipped: %zu known bugs that no case can say", n);
    CHECK_HAS(t->out, line);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(line, sizeof line, "  %s: %.60s", list[i].entry, list[i].reason);
        CHECK_HAS(t->out, line);
    }
    for (size_t i = 0; i < at_suite_size(suite); i++) {
        refused += at_suite_case(suite, i, NULL)->exec != AT_EXEC_ONCE;
    }
    char *results = at_tool_read("sweep/results.jsonl");
    right = (size_t)at_tool_count(results, "\"engine\":\"tile64\",\"status\":\"PASS\"");
    CHECK_INT(right, at_suite_size(suite) - refused); /* no device: nothing to capture or compile */
    CHECK_INT(at_tool_count(results, "\"status\":\"UNSUPPORTED\",\"reason\":\"exec\""),
              2 * refused); /* the verdict and its step */
    free(results);
    at_suite_close(suite);
}

static void test_list(void)
{
    const at_tool *t = at_tool_run("list known-bugs/fa-2552");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "hq=2:sq=100:dqk=128:dv=96  # fa-2552\n");
    CHECK_INT(at_tool_count(t->out, "\n"), 4);
    t = at_tool_run("list known-bugs/fa-2623");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "# fa-2623: no case: ");
    t = at_tool_run("list known-bugs/fa-2623 --format jsonl");
    CHECK_HAS(t->out, "\"group\":\"fa-2623\",\"skipped\":\"");
    CHECK_INT(at_tool_run("sweep known-bugs/fa-2623 --backend cpu.flash -q")->code, 4);
    t = at_tool_run("list known-bugs/nosuch");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "the suite known-bugs has no group \"nosuch\"");
    t = at_tool_run("list smoke/nosuch");
    CHECK_HAS(t->err, "the suite smoke has no group \"nosuch\"");
    CHECK_INT(at_tool_run("list smoke")->code, 0); /* lists are words again, and '#' a comment */
    char *all = strdup(at_tool_run("list known-bugs")->out);
    AT_ASSERT(all != NULL);
    for (char *mark = all; (mark = strstr(mark, "  # ")) != NULL;) {
        memset(mark, ' ', 2);
        mark += 2;
    }
    at_tool_write("list.txt", all);
    free(all);
    at_suite *suite = open_suite("known-bugs");
    CHECK_INT(at_tool_count(at_tool_run("list @list.txt")->out, "\n"), at_suite_size(suite));
    at_suite_close(suite);
}

static void test_page(void)
{
    static char page[1 << 18];
    FILE *file = fopen(AT_TEST_SOURCE "/reports/known-bugs.md", "r");
    CHECK(file != NULL);
    if (file != NULL) {
        page[fread(page, 1, sizeof page - 1, file)] = '\0';
        (void)fclose(file);
    }
    CHECK_TEXT(at_tool_run("explain known-bugs")->out, page);
    const at_tool *t = at_tool_run("explain te-3481");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "te-3481 (NVIDIA/TransformerEngine): training with unequal head sizes");
    CHECK_HAS(t->out, "modelled.fa3-2025-02: REFUSED");
}

#define FACTS                                                                                      \
    "\"title\":\"t\",\"versions\":\"1\",\"arch\":\"any\",\"what\":\"w\",\"invariant\":\"i\","      \
    "\"pass\":\"forward\",\"effect\":\"silent\",\"mechanism\":\"M08\","                            \
    "\"h200\":{\"retry\":\"no\",\"why\":\"y\"}"
#define SOURCE "\"sources\":[\"https://example.org/1\"]"
#define FAULT "\"faults\":[{\"backend\":\"mutant.x\",\"statuses\":[\"WRONG\"]}]"
#define ENTRY "{\"id\":\"a-1\"," SOURCE "," FACTS ",\"cases\":[\"sq=4\"]," FAULT "}"

static void refuses(const char *entries, const char *part)
{
    char text[4096];
    (void)snprintf(text, sizeof text,
                   "{\"schema\":\"attest-known-bugs-1\",\"library\":\"l\",\"bugs\":[%s]}", entries);
    at_tool_write("kb/bad.json", text);
    const at_tool *t = at_tool_run("list kb/bad.json");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "kb/bad.json: ");
    CHECK_HAS(t->err, part);
    CHECK_INT(at_tool_count(t->err, "\n"), 1);
}

static void test_strict(void)
{
    static const struct {
        const char *entry, *part;
    } bad[] = {
        {ENTRY "," ENTRY, "entry \"a-1\": kb/bad.json has an entry with this id already"},
        {"{\"id\":\"a-1\",\"colour\":1," SOURCE "," FACTS "}", "entry \"a-1\": "},
        {"{\"id\":\"a-1\"," FACTS ",\"unsayable\":\"u\"}", "\"sources\""},
        {"{\"id\":\"a-1\",\"sources\":[]," FACTS ",\"unsayable\":\"u\"}", "\"sources\" must be"},
        {"{\"id\":\"a-1\",\"sources\":[\"http://x\"]," FACTS ",\"unsayable\":\"u\"}", "no https"},
        {"{\"id\":\"A_1\"," SOURCE "," FACTS ",\"unsayable\":\"u\"}", "lower case letters"},
        {"{" SOURCE "," FACTS ",\"unsayable\":\"u\"}", "entry 1: "},
        {"{\"id\":\"a-1\"," SOURCE "," FACTS "}", "either \"cases\" or \"unsayable\""},
        {"{\"id\":\"a-1\"," SOURCE "," FACTS ",\"cases\":[\"sq=4\"],\"unsayable\":\"u\"," FAULT "}",
         "either \"cases\" or \"unsayable\""},
        {"{\"id\":\"a-1\"," SOURCE "," FACTS ",\"cases\":[\"sq=4\"]}", "either \"faults\" or"},
        {"{\"id\":\"a-1\"," SOURCE "," FACTS ",\"unsayable\":\"u\"," FAULT "}",
         "go with \"cases\""},
        {"{\"id\":\"a-1\"," SOURCE "," FACTS ",\"cases\":[\"sq=x\"]," FAULT "}",
         "entry \"a-1\": \"sq=x\": "},
        {"{\"id\":\"a-1\"," SOURCE "," FACTS ",\"cases\":[\"hq=3:hkv=2\"]," FAULT "}",
         "entry \"a-1\": \"hq=3:hkv=2\": "},
        {"{\"id\":\"a-1\"," SOURCE "," FACTS ",\"cases\":[\"sq=4\"],\"faults\":[]}", "\"faults\""},
        {"{\"id\":\"a-1\"," SOURCE "," FACTS ",\"cases\":[\"sq=4\"],\"faults\":[{\"backend\":"
         "\"cpu.flash\",\"statuses\":[\"WRONG\"]}]}",
         "neither mutant.NAME nor modelled.NAME"},
        {"{\"id\":\"a-1\"," SOURCE "," FACTS ",\"cases\":[\"sq=4\"],\"faults\":[{\"backend\":"
         "\"mutant.x\",\"statuses\":[\"PASS\"]}]}",
         "\"PASS\" is no status of a failure"},
        {"{\"id\":\"a-1\"," SOURCE "," FACTS ",\"cases\":[\"sq=4\"],\"faults\":[{\"backend\":"
         "\"mutant.x\",\"statuses\":[\"WRONG\"],\"only\":[\"sq=5\"]}]}",
         "\"only\" names \"sq=5\""},
        {"1", "entry 1: it must be an object"},
    };
    at_tool_write("kb/good.json", "{\"schema\":\"attest-known-bugs-1\",\"library\":\"l\",\"bugs\":"
                                  "[" ENTRY "]}");
    CHECK_TEXT(at_tool_run("list kb/good.json")->out, "sq=4  # a-1\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refuses(bad[i].entry, bad[i].part);
    }
    at_tool_write("kb/bad.json",
                  "{\"schema\":\"attest-known-bugs-2\",\"library\":\"l\",\"bugs\":[]}");
    CHECK_HAS(at_tool_run("list kb/bad.json")->err, "attest-known-bugs-1 is read");
    at_tool_write("kb/bad.json", "{\"schema\":\"attest-known-bugs-1\",\"library\":\"l\",\"bugs\":"
                                 "[" ENTRY "]}");
    CHECK_HAS(at_tool_run("list kb/")->err,
              "kb/good.json: entry \"a-1\": kb/bad.json has an entry with this id already");
    CHECK_HAS(at_tool_run("list kb/nosuch/")->err, "kb/nosuch/: cannot be read");
}

const at_test at_tests[] = {
    {"unit", "entries", test_entries}, {"mutant", "faults", test_faults},
    {"cli", "deadly", test_deadly},    {"cli", "sweep", test_sweep},
    {"cli", "list", test_list},        {"cli", "page", test_page},
    {"cli", "strict", test_strict},    {NULL, NULL, NULL},
};
