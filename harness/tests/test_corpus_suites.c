/* The suites of the corpus: they open, hold what they promise, and stay small where they must. */
#include "harness/tests/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/suite.h"

static at_suite *open_suite(const char *name)
{
    at_suite *suite = NULL;
    at_error err = {""};
    CHECK_OK(at_suite_open(&suite, AT_TEST_CORPUS, &name, 1, NULL, &err), &err);
    return suite;
}

/* name = the file's, doc on the file and on every group. */
static void check_file(const char *stem)
{
    char path[512];
    at_json *root = NULL;
    at_error err = {""};
    const char *name = "", *doc = "";
    const at_json *groups = NULL;
    (void)snprintf(path, sizeof path, "%s/suites/%s.json", AT_TEST_CORPUS, stem);
    CHECK_OK(at_json_load(&root, path, &err), &err);
    CHECK_OK(at_json_want_text(root, "name", true, &name, &err), &err);
    CHECK_OK(at_json_want_text(root, "doc", true, &doc, &err), &err);
    CHECK_OK(at_json_want_array(root, "groups", false, &groups, &err), &err);
    CHECK_TEXT(name, stem);
    for (const at_json *g = groups != NULL ? at_json_first(groups) : NULL; g != NULL;
         g = at_json_next(g)) {
        CHECK_OK(at_json_want_text(g, "name", true, &name, &err), &err);
        CHECK_OK(at_json_want_text(g, "doc", true, &doc, &err), &err);
        CHECK(strlen(doc) > 10);
    }
    at_json_close(root);
}

static void test_all_open(void)
{
    struct dirent **entry = NULL;
    int suites = 0, n = scandir(AT_TEST_CORPUS "/suites", &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char *end = strstr(entry[i]->d_name, ".json");
        if (end != NULL) {
            *end = '\0';
            at_suite *suite = open_suite(entry[i]->d_name);
            CHECK(suite != NULL && at_suite_size(suite) > 0);
            check_file(entry[i]->d_name);
            at_suite_close(suite);
            suites++;
        }
        free(entry[i]);
    }
    free(entry);
    CHECK(suites >= 9);
}

/* How many cases hold each value of an enumerated key. */
static void count_values(const at_suite *suite, const char *key, size_t counts[16])
{
    const at_field *f = at_case_field(key, strlen(key));
    memset(counts, 0, 16 * sizeof counts[0]);
    for (size_t i = 0; i < at_suite_size(suite); i++) {
        counts[at_case_get(at_suite_case(suite, i, NULL), f)]++;
    }
}

static void holds_all(const at_suite *suite, const char *key, size_t values, size_t least)
{
    size_t counts[16];
    count_values(suite, key, counts);
    for (size_t i = 0; i < values; i++) {
        if (counts[i] < least) {
            at_test_fail(__FILE__, __LINE__, "%s: value %zu has %zu cases, at least %zu are wanted",
                         key, i, counts[i], least);
        }
    }
}

static double work(const at_case *c)
{
    return (double)c->batch * (double)c->heads_q * (double)c->len_q * (double)c->len_kv *
           (double)(c->dim_qk + c->dim_v);
}

static void test_smoke(void)
{
    at_suite *suite = open_suite("smoke");
    double total = 0;
    const at_suite_plan *plan = NULL;
    CHECK(at_suite_size(suite) >= 150 && at_suite_size(suite) <= 250);
    for (size_t i = 0; i < at_suite_size(suite); i++) {
        total += work(at_suite_case(suite, i, &plan));
        CHECK_INT(plan->backend_count, 2);
        CHECK(!plan->modelled);
    }
    CHECK(total < 2e9);
    holds_all(suite, "dtype", 3, 20);
    holds_all(suite, "layout", 4, 5);
    holds_all(suite, "mask", 3, 10);
    holds_all(suite, "lens", 8, 3);
    holds_all(suite, "pass", 3, 3);
    holds_all(suite, "fill", 10, 3);
    at_suite_close(suite);
}

static void test_sampled(void)
{
    at_suite *suite = open_suite("sampled");
    CHECK_INT(at_suite_size(suite), 40000);
    holds_all(suite, "dtype", 5, 1500);
    holds_all(suite, "amask", 13, 300);
    holds_all(suite, "bias", 6, 500);
    holds_all(suite, "sink", 3, 2000);
    holds_all(suite, "pack", 5, 300);
    holds_all(suite, "stride", 6, 500);
    holds_all(suite, "layout", 4, 2000);
    holds_all(suite, "mask", 3, 3000);
    holds_all(suite, "lens", 8, 600);
    holds_all(suite, "pass", 3, 3000);
    holds_all(suite, "fill", 10, 1500);
    for (size_t i = 0; i < at_suite_size(suite); i++) {
        CHECK(work(at_suite_case(suite, i, NULL)) <= 2e7);
    }
    at_suite_close(suite);
}

static void test_models(void)
{
    at_suite *suite = open_suite("models"), *full = open_suite("models-full");
    double total = 0;
    CHECK(at_suite_size(suite) >= 50);
    for (size_t i = 0; i < at_suite_size(suite); i++) {
        const at_case *c = at_suite_case(suite, i, NULL);
        CHECK(c->len_q <= 1024 && c->len_kv <= 1500);
        total += work(c);
    }
    CHECK(total < 1e11);
    CHECK(at_suite_size(full) >= 50);
    at_suite_close(suite);
    at_suite_close(full);
}

static bool has_case(const at_suite *suite, const char *text)
{
    at_case c;
    at_error err = {""};
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    for (size_t i = 0; i < at_suite_size(suite); i++) {
        if (at_case_equal(&c, at_suite_case(suite, i, NULL))) {
            return true;
        }
    }
    return false;
}

static void test_known_bugs(void)
{
    static const char *const crash[] = {"dqk=192:dv=128", "dqk=160:dv=128", "dqk=64:dv=128",
                                        "dqk=64:dv=512",  "dqk=128:dv=64",  "dqk=256:dv=128"};
    at_suite *suite = open_suite("te-3481");
    CHECK_INT(at_suite_size(suite), 24);
    for (size_t i = 0; i < 24; i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "b=1:hq=16:hkv=1:sq=4096:%s:layout=sbhd:mask=causal%s:pass=%s:arch=sm90",
                       crash[i / 4], i % 2 ? ":wl=127" : "", i / 2 % 2 ? "fwd" : "train");
        CHECK(has_case(suite, text));
    }
    const at_suite_plan *plan = NULL;
    (void)at_suite_case(suite, 0, &plan);
    CHECK(plan->modelled);
    CHECK_TEXT(plan->selector, "te-2.10");
    CHECK_TEXT(plan->env, "fa3=2025-02,fused=0");
    CHECK_TEXT(plan->serves, "fa3=modelled.fa3-2025-02");
    at_suite_close(suite);
    suite = open_suite("fa-2552");
    CHECK(has_case(suite, "hq=4:sq=256:dqk=128:dv=96:arch=sm100"));
    (void)at_suite_case(suite, 0, &plan);
    CHECK_TEXT(plan->serves, "fa4=modelled.fa4-b11");
    CHECK(plan->modelled);
    at_suite_close(suite);
}

static void test_default(void)
{
    at_suite *suite = open_suite("default");
    const at_suite_audit *audits = NULL;
    size_t live = 0, modelled = 0;
    for (size_t i = 0; i < at_suite_size(suite); i++) {
        const at_suite_plan *plan = NULL;
        (void)at_suite_case(suite, i, &plan);
        live += !plan->modelled;
        modelled += plan->modelled;
    }
    CHECK(live > 200 && modelled > 40);
    CHECK_INT(at_suite_audits(suite, &audits), 3);
    CHECK_TEXT(audits[0].selector, "te-2.10");
    CHECK_TEXT(audits[1].selector, "fa4-b11");
    CHECK_TEXT(audits[2].selector, "te-newest");
    CHECK_INT(audits[2].limit, 10);
    at_suite_close(suite);
}

const at_test at_tests[] = {
    {"unit", "all_open", test_all_open},
    {"unit", "smoke", test_smoke},
    {"unit", "sampled", test_sampled},
    {"unit", "models", test_models},
    {"unit", "known_bugs", test_known_bugs},
    {"unit", "default", test_default},
    {NULL, NULL, NULL},
};
