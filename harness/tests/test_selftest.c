/* attest selftest in its short form: every fault acts somewhere, the goals are met, and the last
 * line is the summary. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "harness/judge/suspect.h"
#include "harness/selftest/faults.h"
#include "harness/tests/tool.h"
#include "kernels/kernels.h"
#include "kernels/mutants/mutants.h"

/* The object on the last line. */
static at_json *last_line(const char *text)
{
    at_json *root = NULL;
    at_error err = {""};
    size_t end = strlen(text);
    while (end > 0 && text[end - 1] == '\n') {
        end--;
    }
    size_t start = end;
    while (start > 0 && text[start - 1] != '\n') {
        start--;
    }
    CHECK_OK(at_json_parse(&root, "summary", text + start, end - start, &err), &err);
    return root;
}

static double number(const at_json *object, const char *key)
{
    double x = (double)NAN;
    const at_json *member = at_json_get(object, key);
    CHECK(member != NULL && at_json_number(member, &x));
    return x;
}

/* Every line fits reports/schema/selftest.schema.json; also where no validator is at hand. */
static bool fits_schema(void)
{
    char line[2048];
    (void)snprintf(line, sizeof line,
                   "cd '%s' && python3 '%s/harness/tests/validate.py' "
                   "'%s/reports/schema/selftest.schema.json' selftest.jsonl >/dev/null 2>&1",
                   at_test_folder(), AT_TEST_SOURCE, AT_TEST_SOURCE);
    int status = system(line), code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
    return code == 0 || code == 77 || code == 127;
}

static void test_short(void)
{
    const at_tool *t = at_tool_run("selftest --format jsonl --threads 1 -q");
    CHECK_INT(t->code, 0);
    at_json *summary = last_line(t->out);
    CHECK_INT(at_json_size(summary), 6);
    CHECK(number(summary, "kill_forward") >= 0.95 && number(summary, "kill_forward") <= 1);
    CHECK(number(summary, "kill_backward") >= 0.97 && number(summary, "kill_backward") <= 1);
    CHECK(number(summary, "kill_tier1_forward") >= 0.88);
    CHECK(number(summary, "kill_tier1_backward") >= 0.9);
    CHECK(number(summary, "kill_tier1_forward") < number(summary, "kill_forward"));
    CHECK(number(summary, "false_alarms") == 0);
    CHECK(number(summary, "healthy_runs") >= 3000);
    CHECK(at_tool_count(t->out, "\"fault\":\"mutant.") >= 100);
    CHECK_INT(at_tool_count(t->out, "\"runs\":0,"), 0); /* a fault that never acts tests nothing */
    CHECK_INT(at_tool_count(t->out, "\"fill\":"), 20);
    at_json_close(summary);
    at_tool_write("selftest.jsonl", t->out);
    CHECK(fits_schema());
}

static void test_rates(void)
{
    at_fault_score *scores = calloc(at_mutant_count(), sizeof *scores);
    AT_ASSERT(scores != NULL);
    for (size_t i = 0; i < at_mutant_count(); i++) {
        scores[i].backend = at_mutant_at(i);
        scores[i].changes_values = true;
    }
    CHECK(isnan(at_fault_mean(scores, AT_STEP_FORWARD, AT_TIER_ALL, -1)));
    scores[0].runs[0] = 4;
    scores[0].caught[0][AT_TIER_ALL] = 3;
    scores[1].runs[2] = 2;
    CHECK(at_fault_rate(&scores[0], AT_TIER_ALL, -1) == 0.75);
    CHECK(isnan(at_fault_rate(&scores[0], AT_TIER_ALL, 1)));
    CHECK(at_fault_mean(scores, AT_STEP_FORWARD, AT_TIER_ALL, -1) == 0.375);
    CHECK(at_fault_mean(scores, AT_STEP_FORWARD, AT_TIER_ALL, 0) == 0.75);
    scores[1].changes_values = false; /* the bound is not asked of it */
    CHECK(at_fault_mean(scores, AT_STEP_FORWARD, AT_TIER_BOUND, -1) == 0);
    CHECK(isnan(at_fault_mean(scores, AT_STEP_FORWARD, AT_TIER_BOUND, 2)));
    CHECK_INT(at_fault_runs(&scores[0]), 4);
    CHECK(at_fresh_seed(0, 0) != at_fresh_seed(0, 1) && at_fresh_seed(1, 0) != at_fresh_seed(0, 0));
    free(scores);
}

/* Keys that are all alike err together; beside a sink that does not cancel. */
static void test_alike_keys(void)
{
    at_case c;
    at_error err = {""};
    at_specimen s = {0};
    at_step_verdict v;
    const at_backend *flash = &at_backend_cpu_flash;
    CHECK_OK(at_case_parse(&c,
                           "b=2:hq=2:sq=26:skv=36:dtype=f32:layout=sbhd:mask=causal:align=br:"
                           "sink=off1:fill=constant:seed=2831975487",
                           &err),
             &err);
    CHECK_OK(at_specimen_make(&s, &c, &flash->numeric, &err), &err);
    at_specimen_judge(&v, &s, flash, "tile64", AT_STEP_FORWARD);
    CHECK_TEXT(v.reason.text, "");
    CHECK(v.m[AT_O].max_ratio < 0.9);
    at_specimen_close(&s);
}

const at_test at_tests[] = {
    {"cli", "short", test_short},
    {"unit", "rates", test_rates},
    {"unit", "alike_keys", test_alike_keys},
    {NULL, NULL, NULL},
};
