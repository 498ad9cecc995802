/* Limits of the statistical tier: the fit, what a verdict makes of them, and files that are wrong.
 */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/judge/limits.h"
#include "harness/problem/rng.h"
#include "harness/tests/tool.h"

static const char good[] = AT_TEST_CORPUS "/limits/cpu.json";

/* n exponential scores with this mean, from uniform bits. */
static double *exponentials(size_t n, double mean)
{
    double *x = malloc(n * sizeof *x);
    AT_ASSERT(x != NULL);
    for (size_t i = 0; i < n; i++) {
        x[i] = -mean * log(((double)(at_rng_u64(1, 2, i) >> 11) + 0.5) * 0x1p-53);
    }
    return x;
}

/* The tail of an exponential distribution is known: mean * ln(1e6). */
static void test_fit(void)
{
    at_error err = {""};
    at_limit fit;
    size_t n = 200000;
    double *x = exponentials(n, 0.1), want = 0.1 * log(1e6);
    CHECK_OK(at_limit_fit(&fit, AT_STAT_RMS, x, n, &err), &err);
    CHECK(fabs(fit.limit - want) < 0.25 * want);
    CHECK(fabs(fit.threshold - 0.1 * log(50)) < 0.01 && fabs(fit.shape) < 0.1);
    CHECK_INT(fit.runs, n);
    CHECK_INT(fit.excesses, n / 50);
    CHECK(fit.limit > fit.largest);
    CHECK_INT(at_limit_fit(&fit, AT_STAT_RMS, x, AT_LIMITS_RUNS_MIN - 1, &err), AT_INVALID);
    CHECK_HAS(err.text, "9999 runs; at least 10000 are needed");
    x[5] = (double)NAN;
    CHECK_INT(at_limit_fit(&fit, AT_STAT_RMS, x, n, &err), AT_INVALID);
    CHECK_HAS(err.text, "not finite");
    memset(x, 0, n * sizeof *x); /* never surprised: 1e-6 is a decade below what was seen */
    CHECK_OK(at_limit_fit(&fit, AT_STAT_MAX, x, n, &err), &err);
    CHECK(fit.limit >= 1 && fit.limit < 2);
    CHECK_INT(at_limit_fit(&fit, AT_STAT_RMS, x, n, &err), AT_INVALID);
    free(x);
}

static at_limits *open_good(void)
{
    at_limits *l = NULL;
    at_error err = {""};
    CHECK_OK(at_limits_open_corpus(&l, AT_TEST_CORPUS, &err), &err);
    AT_ASSERT(l != NULL);
    return l;
}

static void test_check(void)
{
    static at_verdict v;
    const at_numeric_class stored = {0}, other = {.head_rounded = true};
    at_limits *l = open_good();
    at_exceeded found;
    at_error err = {""};
    at_case c;
    at_case_init(&c);
    at_verdict_init(&v);
    at_measure *m = &v.step[AT_STEP_BACKWARD].m[AT_DK];
    v.step[AT_STEP_BACKWARD].ran = true;
    *m = (at_measure){.judged = true, .compared = 4096};
    CHECK(at_limits_check(&found, l, &stored, &c, &v) && found.n == 0);
    m->score[AT_STAT_RMS] = 50;
    m->score[AT_STAT_ERROR] = 1e9; /* judged on lse alone */
    CHECK(at_limits_check(&found, l, &stored, &c, &v));
    CHECK_INT(found.n, 1);
    CHECK(found.at[AT_DK][AT_STAT_RMS] && found.step == AT_STEP_BACKWARD);
    CHECK(found.tensor == AT_DK && found.stat == AT_STAT_RMS && found.score == 50);
    CHECK(found.limit > 0 && found.limit < 50);
    m->score[AT_STAT_MAX] = (double)NAN;
    CHECK(at_limits_check(&found, l, &stored, &c, &v) && found.n == 2);
    c.fill = AT_FILL_SMALL_INT;
    CHECK(!at_limits_check(&found, l, &stored, &c, &v) && found.n == 0);
    c.fill = AT_FILL_NORMAL;
    CHECK(!at_limits_check(&found, l, &other, &c, &v) && found.n == 0);
    c.dtype = c.odt = AT_F8E4M3;
    CHECK(!at_limits_check(&found, l, &stored, &c, &v));
    CHECK_OK(at_limits_require(l, &stored, &err), &err);
    CHECK_INT(at_limits_require(l, &other, &err), AT_INVALID);
    CHECK_HAS(err.text, "no limits for the numeric class stored+head_rounded");
    at_limits_close(l);
}

/* The good file with `from` replaced by `to` once, or cut after n bytes; opened. */
static at_status open_spoilt(const char *from, const char *to, size_t cut, at_error *err)
{
    char name[4096], *text = NULL;
    FILE *file = fopen(good, "rb");
    AT_ASSERT(file != NULL);
    enum { ROOM = 1 << 22 };
    text = calloc(1, ROOM);
    AT_ASSERT(text != NULL);
    size_t n = fread(text, 1, ROOM - 1, file);
    (void)fclose(file);
    (void)snprintf(name, sizeof name, "%s/spoilt.json", at_test_folder());
    file = fopen(name, "wb");
    AT_ASSERT(file != NULL);
    char *at = from != NULL ? strstr(text, from) : NULL;
    AT_ASSERT(from == NULL || at != NULL);
    size_t before = at != NULL ? (size_t)(at - text) : cut > 0 ? n * cut / 100 : n;
    (void)fwrite(text, 1, before, file);
    if (at != NULL) {
        (void)fputs(to, file);
        (void)fputs(at + strlen(from), file);
    }
    AT_ASSERT(fclose(file) == 0);
    free(text);
    at_limits *l = NULL;
    at_status status = at_limits_open(&l, name, err);
    at_limits_close(l);
    return status;
}

static void refuses(const char *from, const char *to, size_t cut, const char *sentence)
{
    at_error err = {""};
    CHECK_INT(open_spoilt(from, to, cut, &err), AT_INVALID);
    CHECK_HAS(err.text, "spoilt.json");
    CHECK_HAS(err.text, sentence);
}

static void test_wrong_files(void)
{
    at_error err = {""};
    CHECK_OK(open_spoilt(NULL, NULL, 0, &err), &err);
    refuses("attest-limits-1", "attest-limits-2", 0, "\"attest-limits-2\"");
    refuses("\"tail\": 1e-06", "\"tail\": 0.01", 0, "tail probability");
    refuses("\"class\":\"stored\"", "\"class\":\"other\"", 0, "does not declare");
    refuses("\"classes\": [", "\"classes\": [\"f32\",", 0, "no limit of max_z for class f32");
    refuses("\"tensor\":\"dq\"", "\"tensor\":\"dbias\"", 0, "no limit of max_z for class stored");
    refuses("\"small_int\"", "\"normal\"", 0, "\"normal\" is listed twice");
    refuses("\"smooth\":[\"normal\",", "\"smooth\":[", 0, "\"normal\" is in no group");
    refuses("\"max_z\":[[", "\"max_z\":[[9999,", 0, "array of 7 numbers");
    refuses("\"max_z\":", "\"max_w\":", 0, "no limit of max_z");
    refuses(NULL, NULL, 50, "not valid JSON");
    refuses(NULL, NULL, 99, "not valid JSON");
    CHECK_INT(at_limits_open(&(at_limits *){NULL}, "/no/such/file", &err), AT_IO);
}

/* Every limit's run count below the minimum is refused. */
static void test_too_few_runs(void)
{
    at_json *root = NULL;
    at_error err = {""};
    char first[64] = "", few[64];
    CHECK_OK(at_json_load(&root, good, &err), &err);
    const at_json *cell = at_json_first(at_json_get(root, "cells"));
    double runs = 0;
    AT_ASSERT(at_json_number(at_json_first(at_json_first(at_json_get(cell, "max_z"))), &runs));
    (void)snprintf(first, sizeof first, "\"max_z\":[[%.0f,", runs);
    (void)snprintf(few, sizeof few, "\"max_z\":[[%d,", AT_LIMITS_RUNS_MIN - 1);
    refuses(first, few, 0, "stands on 9999 runs; at least 10000 are needed");
    at_json_close(root);
}

/* The same at the command line: one sentence, exit code 3, nothing judged. */
static void test_exit_codes(void)
{
    at_error err = {""};
    const at_tool *t = at_tool_run("selftest --limits /no/such/file -q");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "/no/such/file");
    CHECK_INT(open_spoilt("attest-limits-1", "attest-limits-0", 0, &err), AT_INVALID);
    t = at_tool_run("selftest --limits spoilt.json -q");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "attest: selftest: limits spoilt.json: the schema is \"attest-limits-0\"");
    CHECK_INT(at_tool_count(t->err, "\n"), 1);
    CHECK(t->out[0] == '\0');
    CHECK_INT(at_tool_run("calibrate --runs 9999")->code, 3);
    CHECK_INT(at_tool_run("calibrate --backend no.such")->code, 3);
    CHECK_INT(at_tool_run("calibrate --seed x")->code, 3);
}

const at_test at_tests[] = {
    {"unit", "fit", test_fit},
    {"unit", "check", test_check},
    {"unit", "wrong_files", test_wrong_files},
    {"unit", "too_few_runs", test_too_few_runs},
    {"cli", "exit_codes", test_exit_codes},
    {NULL, NULL, NULL},
};
