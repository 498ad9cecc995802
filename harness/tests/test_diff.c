/* diff: every case that two rule sets decide differently is in a box, with the rules of both. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/diff_core.h"
#include "harness/tests/tool.h"

#define HEAD(name)                                                                                 \
    "{\"schema\":\"attest-rules-1\",\"name\":\"" name "\",\"doc\":\"d\",\"source\":\"s\","
#define RULE(id, off, when)                                                                        \
    "{\"id\":\"" id "\",\"off\":[\"" off "\"],\"when\":\"" when                                    \
    "\",\"why\":\"why\",\"source\":\"at " id "\"}"

static const char before[] = HEAD(
    "b") "\"env\":{\"k\":{\"type\":\"version\",\"default\":\"1.0\",\"doc\":\"\"},"
         "\"old\":{\"type\":\"bool\",\"default\":false,\"doc\":\"\"}},"
         "\"backends\":[{\"name\":\"x\",\"doc\":\"\"},{\"name\":\"gone\",\"doc\":\"\"},"
         "{\"name\":\"y\",\"doc\":\"\"}],\"rules\":[" RULE("x.pair", "x", "dqk != dv") "," RULE(
             "gone.long", "gone", "sq > 1 || old") "," RULE("y.k", "y", "k < 2.0") "]}";
static const char after[] = HEAD(
    "a") "\"env\":{\"k\":{\"type\":\"version\",\"default\":\"2.0\",\"doc\":\"\"},"
         "\"new\":{\"type\":\"int\",\"default\":\"1\",\"min\":0,\"max\":3,\"doc\":\"\"}},"
         "\"backends\":[{\"name\":\"y\",\"doc\":\"\"},{\"name\":\"x\",\"doc\":\"\"},"
         "{\"name\":\"z\",\"doc\":\"\"}],\"rules\":[" RULE("x.small", "x", "dqk < dv") "," RULE(
             "z.new", "z",
             "new < 2 || mask == none") "," RULE("y.k", "y",
                                                 "k < 2.0 || dv == 32") "],"
                                                                        "\"prefer\":[{\"order\":["
                                                                        "\"x\",\"y\",\"z\"]}]}";

static at_status compare(at_diff **out, const char *env_text, const char *const *sweep,
                         at_error *err)
{
    at_env *env = NULL;
    size_t n = 0;
    while (sweep != NULL && sweep[n] != NULL) {
        n++;
    }
    at_tool_write("selectors/b.json", before);
    at_tool_write("selectors/a.json", after);
    at_tool_write("spaces/t.json",
                  "{\"schema\":\"attest-space-1\",\"name\":\"t\",\"doc\":\"d\",\"case\":\"hq=2\","
                  "\"axes\":[{\"name\":\"dqk\",\"points\":[\"dqk=8..48/8\"]},{\"name\":\"dv\","
                  "\"points\":[\"dv=8..48/8\"]},{\"name\":\"sq\",\"points\":[\"sq=1,2,3\"]},"
                  "{\"name\":\"mask\",\"points\":[\"mask=none,causal\",\"mask=causal:wl=3\","
                  "\"mask=causal:wr=3\"]}],\"compare\":[\"dqk\",\"dv\"]}");
    AT_TRY(at_env_set(&env, env_text, err));
    const at_diff_request request = {.corpus = at_test_folder(),
                                     .before = "b",
                                     .after = "a",
                                     .space = "t",
                                     .env = env,
                                     .sweep = sweep,
                                     .sweep_count = n};
    at_status status = at_diff_open(out, &request, err);
    at_env_close(env);
    return status;
}

static at_selector *selector(const char *name, const char *env_text)
{
    at_error err = {""};
    at_env *env = NULL;
    at_selector *s = NULL;
    CHECK_OK(at_env_set(&env, env_text, &err), &err);
    CHECK_OK(at_selector_open(&s, at_test_folder(), name, env, &err), &err);
    at_env_close(env);
    return s;
}

static bool admits(const at_selection *s, const char *backend)
{
    bool found = false;
    for (int i = 0; i < s->admitted_count; i++) {
        found = found || strcmp(s->admitted[i], backend) == 0;
    }
    return found;
}

/* What differs, as text; "" for nothing. By the public interface alone. */
static void describe(char out[400], const at_selector *b, const at_selector *a, const at_case *c)
{
    static const char *const names[] = {"x", "gone", "y", "z"};
    at_selection old, now;
    at_error err = {""};
    CHECK_OK(at_selector_decide(&old, b, c, &err), &err);
    CHECK_OK(at_selector_decide(&now, a, c, &err), &err);
    const char *from = old.winner != NULL ? old.winner : "none";
    const char *to = now.winner != NULL ? now.winner : "none";
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < 4; i++) {
        if (admits(&old, names[i]) != admits(&now, names[i])) {
            used += (size_t)snprintf(out + used, 400 - used, "%s%s ",
                                     admits(&now, names[i]) ? "+" : "-", names[i]);
        }
    }
    if (used > 0 || strcmp(from, to) != 0) {
        (void)snprintf(out + used, 400 - used, "%s>%s", from, to);
    }
}

/* The same of a box. */
static void describe_box(char out[400], const at_diff *d, size_t i)
{
    static const char *const names[] = {"x", "gone", "y", "z"};
    at_json *o = at_diff_box_json(d, i);
    const at_json *winner = at_json_get(o, "winner");
    const char *from = at_json_text(at_json_get(winner, "before"));
    const char *to = at_json_text(at_json_get(winner, "after"));
    size_t used = 0;
    out[0] = '\0';
    for (size_t k = 0; k < 4; k++) {
        for (const at_json *c = at_json_first(at_json_get(o, "changes")); c != NULL;
             c = at_json_next(c)) {
            bool old = false, now = false;
            CHECK(at_json_bool(at_json_get(at_json_get(c, "before"), "admitted"), &old));
            CHECK(at_json_bool(at_json_get(at_json_get(c, "after"), "admitted"), &now));
            CHECK(old != now);
            if (strcmp(at_json_text(at_json_get(c, "backend")), names[k]) == 0) {
                used +=
                    (size_t)snprintf(out + used, 400 - used, "%s%s ", now ? "+" : "-", names[k]);
            }
        }
    }
    (void)snprintf(out + used, 400 - used, "%s>%s", from != NULL ? from : "none",
                   to != NULL ? to : "none");
    at_json_close(o);
}

static uint64_t check_env(const at_diff *d, uint64_t env, const at_selector *b,
                          const at_selector *a)
{
    const at_region *r = d->region;
    uint64_t each = r->cells / r->envs, changed = 0;
    for (uint64_t cell = env * each; cell < (env + 1) * each; cell++) {
        at_region_place place;
        at_case c = r->base;
        char want[400], got[400];
        bool found = false;
        at_region_locate(&place, r, cell);
        at_region_case(&c, r, &place, 0);
        if (at_case_check(&c, NULL) != AT_OK) {
            continue;
        }
        describe(want, b, a, &c);
        changed += want[0] != '\0';
        for (size_t i = 0; i < d->boxes.count; i++) {
            if (at_box_holds(r, &d->boxes.box[i], &place)) {
                describe_box(got, d, i);
                CHECK_TEXT(got, want);
                found = true;
            }
        }
        CHECK(found == (want[0] != '\0'));
    }
    return changed;
}

static void test_exact(void)
{
    static const char *const sweep[] = {"k=1.0,2.0", "new=1..3", NULL};
    at_error err = {""};
    at_diff *d = NULL;
    uint64_t changed = 0;
    CHECK_OK(compare(&d, "old=1", sweep, &err), &err);
    if (d == NULL) {
        return;
    }
    CHECK_INT(d->envs, 6);
    CHECK_INT(at_diff_cases(d), 6 * 36 * 3 * 3); /* causal with wr=3 is no case */
    for (uint64_t e = 0; e < 6; e++) {
        char old[64], now[64];
        (void)snprintf(old, sizeof old, "old=1,k=%d.0", e < 3 ? 1 : 2);
        (void)snprintf(now, sizeof now, "new=%d,k=%d.0", 1 + (int)e % 3, e < 3 ? 1 : 2);
        at_selector *b = selector("b", old), *a = selector("a", now);
        changed += check_env(d, e, b, a);
        at_selector_close(b);
        at_selector_close(a);
    }
    CHECK_INT(at_diff_changed(d), changed);
    CHECK(changed > 0 && at_diff_boxes(d) > 0 && at_diff_boxes(d) < 40);
    at_diff_close(d);
}

/* The later default stands on both sides, and is told. */
static void test_defaults(void)
{
    at_error err = {""};
    at_diff *d = NULL;
    CHECK_OK(compare(&d, "", NULL, &err), &err);
    CHECK_TEXT(d->note, "k=2.0 (b alone: 1.0)");
    for (size_t i = 0; i < at_diff_boxes(d); i++) {
        at_json *o = at_diff_box_json(d, i);
        const at_json *env = at_json_get(o, "env");
        CHECK_TEXT(at_json_text(at_json_get(at_json_get(env, "before"), "k")), "2.0");
        CHECK_TEXT(at_json_text(at_json_get(at_json_get(env, "after"), "k")), "2.0");
        CHECK_HAS(at_json_text(at_json_first(at_json_get(o, "select"))),
                  "--selector b --env k=2.0");
        at_json_close(o);
    }
    at_diff_close(d);
}

static void test_equal_and_errors(void)
{
    at_error err = {""};
    at_diff *d = NULL;
    CHECK_INT(compare(&d, "nosuch=1", NULL, &err), AT_INVALID);
    CHECK(d == NULL);
    CHECK_HAS(err.text, "neither b nor a has the environment key \"nosuch\"");
    CHECK_INT(compare(&d, "k=x", NULL, &err), AT_INVALID);
    CHECK_HAS(err.text, "k=x is not accepted");
    const at_diff_request request = {
        .corpus = at_test_folder(), .before = "a", .after = "a", .space = "t"};
    CHECK_OK(at_diff_open(&d, &request, &err), &err);
    CHECK_INT(at_diff_changed(d), 0);
    CHECK_INT(at_diff_boxes(d), 0);
    at_diff_close(d);
    at_tool_write("selectors/z.json",
                  HEAD("z") "\"env\":{},\"backends\":[{\"name\":\"x\",\"doc\":"
                            "\"\"}],\"rules\":[" RULE("div", "x", "8 / (sq - 2) > 0") "]}");
    const at_diff_request bad = {
        .corpus = at_test_folder(), .before = "a", .after = "z", .space = "t"};
    CHECK_INT(at_diff_open(&d, &bad, &err), AT_INVALID);
    CHECK_HAS(err.text, "sq=2:");
    CHECK_HAS(err.text, "selectors/z.json: rule \"div\": column 3: division by zero");
}

static void test_command(void)
{
    const at_tool *t = at_tool_run("audit --diff te-2.17 te-2.18 --arch sm100 --space training "
                                   "--env fa4=4.0.0b11,fused=0");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out,
              "from te-2.17 to te-2.18, space training: 1881792 cases decided, 256 changed, "
              "in 1 box\n");
    CHECK_HAS(t->out, "1. fa4 is no longer admitted, the winner changes from fa4 to fa2\n"
                      "   dqk      256\n   dv       256\n");
    CHECK_HAS(t->out, "   fa4      te-2.17 admits it\n            te-2.18 refuses it by "
                      "swa.fa4_hd256: ");
    CHECK_INT(at_tool_count(t->out, "   ask      "), 2);
    t = at_tool_run("audit --diff te-2.17 te-2.18 --arch sm100 --space training --env "
                    "fa4=4.0.0b11,fused=0 --format markdown");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "# From te-2.17 to te-2.18\n");
    CHECK_HAS(t->out, "## 1. The winner changes from fa4 to fa2\n");
    CHECK_HAS(t->out, "| 256 | 256 | ");
    t = at_tool_run("audit --diff te-2.18 te-2.18 --arch sm90 --space te-3481");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, " 0 changed, in 0 boxes\n");
    t = at_tool_run("audit --diff te-2.18 --arch sm90 --space training");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "audit: --diff takes two rule sets and a space, such as");
    t = at_tool_run("audit --diff te-2.18 te-2.19 --space training");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "a comparison asks for the arch: give it as --arch sm90");
}

const at_test at_tests[] = {{"unit", "exact", test_exact},
                            {"unit", "defaults", test_defaults},
                            {"unit", "equal-and-errors", test_equal_and_errors},
                            {"cli", "command", test_command},
                            {NULL, NULL, NULL}};
