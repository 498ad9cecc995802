/* The rule for suspects, in the judge and in a sweep. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/judge/suspect.h"
#include "harness/tests/tool.h"

static at_exceeded exceeded(at_tensor_id tensor, at_stat stat)
{
    at_exceeded e = {.n = 1, .step = AT_STEP_BACKWARD, .tensor = tensor, .stat = stat};
    e.at[tensor][stat] = true;
    e.limits[tensor][stat] = 2.5;
    return e;
}

static void fill_verdict(at_verdict *v)
{
    at_verdict_init(v);
    v->step[AT_STEP_FORWARD].ran = v->step[AT_STEP_BACKWARD].ran = true;
    v->step[AT_STEP_FORWARD].m[AT_O].judged = true;
    v->step[AT_STEP_BACKWARD].m[AT_DK].judged = true;
    v->step[AT_STEP_BACKWARD].m[AT_DK].score[AT_STAT_ROW] = 3;
}

static void test_rule(void)
{
    static at_verdict v;
    const at_exceeded none = {0}, same = exceeded(AT_DK, AT_STAT_ROW);
    const at_exceeded other_stat = exceeded(AT_DK, AT_STAT_RMS);
    const at_exceeded other_tensor = exceeded(AT_DQ, AT_STAT_ROW);
    at_suspect s;
    at_suspect_begin(&s, &same);
    for (int k = 0; k < 6; k++) { /* neither another statistic nor another tensor counts */
        CHECK(at_suspect_wants_more(&s));
        at_suspect_add(&s, k == 0 ? &same : k % 2 == 0 ? &other_stat : &other_tensor, false);
    }
    CHECK(at_suspect_wants_more(&s) && s.runs == 6 && s.hits == 1);
    at_suspect_add(&s, &none, false);
    CHECK(at_suspect_wants_more(&s));
    at_suspect_add(&s, &none, false);
    CHECK(!at_suspect_wants_more(&s) && !at_suspect_is_confirmed(&s) && s.runs == AT_FRESH_SEEDS);
    fill_verdict(&v);
    at_suspect_settle(&s, &v);
    CHECK_INT(v.kind, AT_SUSPECT);
    CHECK_INT(at_kind_class(v.kind), AT_CLASS_NEUTRAL);
    CHECK_TEXT(v.reason.code, "unconfirmed");
    CHECK_HAS(v.reason.text,
              "dk: row_rms_z is unlike that of healthy kernels (score 3, limit 2.5), "
              "and again on 1 of 8 fresh seeds.");
    at_suspect_begin(&s, &same);
    at_suspect_add(&s, &same, false);
    CHECK(at_suspect_wants_more(&s));
    at_suspect_add(&s, &none, true); /* a run that fails outright is no less than a suspect one */
    CHECK(!at_suspect_wants_more(&s) && at_suspect_is_confirmed(&s));
    fill_verdict(&v);
    at_suspect_settle(&s, &v);
    CHECK_INT(v.kind, AT_WRONG);
    CHECK_TEXT(v.reason.code, "statistics");
    CHECK_INT(v.step[AT_STEP_BACKWARD].m[AT_DK].kind, AT_WRONG);
    CHECK_INT(v.step[AT_STEP_FORWARD].kind, AT_PASS);
    at_suspect_begin(&s, &same); /* seven runs without a hit cannot become two hits */
    for (int k = 0; k < 7; k++) {
        CHECK(at_suspect_wants_more(&s));
        at_suspect_add(&s, &none, false);
    }
    CHECK(!at_suspect_wants_more(&s));
}

#define BIASED "hq=2:sq=40:skv=800:dqk=32"

/* A fault that only statistics see, in a sweep and in repro; the healthy kernel beside it. */
static void test_sweep(void)
{
    const at_tool *t =
        at_tool_run("sweep " BIASED " --backend mutant.toward_zero,cpu.flash -o out -q");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "fresh seeds");
    char *lines = at_tool_read("out/results.jsonl");
    CHECK_HAS(lines, "\"status\":\"WRONG\",\"reason\":\"statistics\"");
    CHECK_HAS(lines, "\"limits\":\"beyond\"");
    CHECK_HAS(lines, "\"runs\":3,\"hits\":3");
    CHECK_HAS(lines, "\"limits\":\"within\"");
    CHECK_INT(at_tool_count(lines, "\n"), 2);
    free(lines);
    t = at_tool_run("repro " BIASED " --backend mutant.toward_zero");
    CHECK_INT(t->code, 1);
    CHECK_INT(at_tool_count(t->out, "suspect   run again with seed="), 2);
    CHECK_HAS(t->out, "WRONG (statistics), in 3 of 3 runs");
    CHECK_INT(
        at_tool_run("sweep " BIASED " --backend mutant.toward_zero --limits none -o none -q")->code,
        0);
    lines = at_tool_read("none/results.jsonl");
    CHECK_INT(at_tool_count(lines, "\"limits\""), 0);
    free(lines);
}

/* Where nothing was compared the record says so. */
static void test_no_limits(void)
{
    CHECK_INT(at_tool_run("sweep sq=8:fill=small_int --backend cpu.flash -o out -q")->code, 0);
    char *lines = at_tool_read("out/results.jsonl");
    CHECK_HAS(lines, "\"limits\":\"none\"");
    free(lines);
    at_tool_write("bare/suites/s.json", "{\"name\":\"s\",\"groups\":[{\"name\":\"g\",\"case\":"
                                        "{\"sq\":4}}]}");
    at_tool_write("bare/waivers.json", "{\"schema\":\"attest-waivers-1\",\"waivers\":[]}");
    const at_tool *t = at_tool_run("sweep sq=4 --backend cpu.flash --corpus bare -o out -q");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->err, "bare/limits/cpu.json, so the statistical tier judges nothing");
}

/* A file without the class of a backend: exit 3 before anything runs. */
static void test_missing_class(void)
{
    at_json *root = NULL, *few = at_json_object(), *cells = at_json_array();
    at_json *classes = at_json_array();
    at_error err = {""};
    CHECK_OK(at_json_load(&root, AT_TEST_CORPUS "/limits/cpu.json", &err), &err);
    at_json_add_text(classes, "stored");
    for (const at_json *m = at_json_first(root); m != NULL; m = at_json_next(m)) {
        bool mine = strcmp(at_json_key(m), "cells") == 0 || strcmp(at_json_key(m), "classes") == 0;
        if (!mine) {
            at_json_put(few, at_json_key(m), at_json_copy(m));
        }
    }
    const at_json *list = at_json_get(root, "cells");
    for (const at_json *m = at_json_first(list); m != NULL; m = at_json_next(m)) {
        if (strcmp(at_json_text(at_json_get(m, "class")), "stored") == 0) {
            at_json_add(cells, at_json_copy(m));
        }
    }
    at_json_put(few, "classes", classes);
    at_json_put(few, "cells", cells);
    char *text = at_json_print(few, false);
    at_tool_write("few.json", text);
    const at_tool *t = at_tool_run("sweep sq=4 --backend cpu.naive --limits few.json -o out -q");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "backend cpu.naive: no limits for the numeric class stored+scores+d_from_p; "
                      "there are some for stored");
    CHECK_INT(at_tool_run("repro sq=4 --backend cpu.naive --limits few.json")->code, 3);
    CHECK_INT(at_tool_run("sweep sq=4 --backend cpu.flash --limits few.json -o out -q")->code, 0);
    free(text);
    at_json_close(few);
    at_json_close(root);
}

const at_test at_tests[] = {
    {"unit", "rule", test_rule},
    {"cli", "sweep", test_sweep},
    {"cli", "no_limits", test_no_limits},
    {"cli", "missing_class", test_missing_class},
    {NULL, NULL, NULL},
};
