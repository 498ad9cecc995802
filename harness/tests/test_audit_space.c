/* audits: swept environments, suites as spaces, the order in which a user meets the boxes. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/audit_core.h"
#include "harness/tests/tool.h"

static const char rules[] =
    "{\"schema\":\"attest-rules-1\",\"name\":\"r\",\"doc\":\"d\",\"source\":\"s\",\"env\":{"
    "\"x\":{\"type\":\"version\",\"default\":\"1.0\",\"doc\":\"\"},"
    "\"n\":{\"type\":\"int\",\"default\":\"2\",\"min\":0,\"max\":9,\"doc\":\"\"},"
    "\"flag\":{\"type\":\"bool\",\"default\":false,\"doc\":\"\"},"
    "\"mode\":{\"type\":\"enum\",\"default\":\"a\",\"values\":[\"a\",\"b\",\"c\"],\"doc\":\"\"},"
    "\"arch\":{\"type\":\"arch\",\"default\":\"sm90\",\"doc\":\"\"}},"
    "\"backends\":[{\"name\":\"x\",\"doc\":\"\",\"capabilities\":\"x-{x}\"},"
    "{\"name\":\"y\",\"doc\":\"\"}],"
    "\"rules\":[{\"id\":\"strict\",\"off\":[\"x\"],\"when\":\"dqk > 128 && n < 3\",\"why\":\"w\","
    "\"source\":\"s\"},{\"id\":\"mode\",\"off\":[\"x\"],\"when\":\"mode == c\",\"why\":\"w\","
    "\"source\":\"s\",\"caller\":true},{\"id\":\"arch\",\"off\":[\"x\"],\"when\":\"sm != 90\","
    "\"why\":\"w\",\"source\":\"s\"}],"
    "\"prefer\":[{\"when\":\"flag\",\"order\":[\"y\",\"x\"]},{\"order\":[\"x\",\"y\"]}]}";

/* Both builds refuse small dims in the same words, by different entries; the newer one runs the
 * rest. */
#define BUILD(version, rule, more)                                                                 \
    "{\"schema\":\"attest-capabilities-1\",\"name\":\"x-" version "\",\"arch\":\"sm90\","          \
    "\"package\":\"p " version "\",\"doc\":\"d\",\"rules\":[" more                                 \
    "{\"id\":\"small\",\"when\":\"" rule "\",\"step\":\"forward\",\"outcome\":\"refuses\","        \
    "\"message\":\"too small\",\"evidence\":\"read\",\"source\":\"s" version "\"}"

static void write_corpus(const char *space)
{
    at_tool_write("selectors/r.json", rules);
    at_tool_write("capabilities/x-1.0.json", BUILD("1.0", "dqk <= 16", "") "]}");
    at_tool_write(
        "capabilities/x-2.0.json",
        BUILD("2.0", "dqk == 8",
              "") ",{\"id\":\"runs\",\"step\":\"forward\",\"outcome\":\"runs\",\"evidence\":"
                  "\"measured\",\"source\":\"s\"},{\"id\":\"back\",\"step\":\"backward\","
                  "\"outcome\":\"runs\",\"evidence\":\"measured\",\"source\":\"s\"}]}");
    at_tool_write("suites/few.json", "{\"name\":\"few\",\"doc\":\"d\",\"groups\":[{\"name\":\"g\","
                                     "\"cases\":[\"dqk=8,16,64\",\"dqk=256:arch=sm90\"]}]}");
    if (space != NULL) {
        at_tool_write("spaces/t.json", space);
    }
}

#define SPACE(env)                                                                                 \
    "{\"schema\":\"attest-space-1\",\"name\":\"t\",\"doc\":\"d\"," env                             \
    "\"axes\":[{\"name\":\"dqk\",\"points\":[\"dqk=8,16,64,256\"]},"                               \
    "{\"name\":\"sq\",\"points\":[\"sq=1,2\"]}]}"

static at_status audit(at_audit **out, const char *space, const char *env_text,
                       const char *const *sweep, at_error *err)
{
    at_env *env = NULL;
    size_t n = 0;
    while (sweep != NULL && sweep[n] != NULL) {
        n++;
    }
    AT_TRY(at_env_set(&env, env_text, err));
    const at_audit_request request = {.corpus = at_test_folder(),
                                      .selector = "r",
                                      .space = space,
                                      .env = env,
                                      .sweep = sweep,
                                      .sweep_count = n};
    at_status status = at_audit_open(out, &request, err);
    at_env_close(env);
    return status;
}

static char *box_text(const at_audit *a, size_t i)
{
    at_json *o = at_audit_box_json(a, i);
    char *text = at_json_print(o, false);
    at_json_close(o);
    return text;
}

/* One box for both builds' equal words, one for the older build alone, one for what is refused. */
static void test_sweep(void)
{
    static const char *const sweep[] = {"x=*", "flag=*", "n=1..3/2", NULL};
    at_error err = {""};
    at_audit *a = NULL;
    write_corpus(SPACE(""));
    CHECK_OK(audit(&a, "t", "", sweep, &err), &err);
    if (a == NULL) {
        return;
    }
    CHECK_INT(a->envs, 8);
    CHECK_INT(at_audit_cases(a), 8 * 8);
    CHECK_INT(at_audit_contradictions(a), 16 + 8 + 4);
    CHECK_INT(at_audit_boxes(a), 3);
    static const char *const want[] = {
        "\"direction\":\"admits\",\"box\":{\"x\":\"1.0,2.0\",\"flag\":\"0,1\",\"n\":\"1,3\","
        "\"dqk\":\"8\",\"sq\":\"1,2\"},\"relation\":null,\"cases\":16,\"wins\":8,",
        "\"direction\":\"admits\",\"box\":{\"x\":\"1.0\",\"flag\":\"0,1\",\"n\":\"1,3\",\"dqk\":"
        "\"8,"
        "16\",\"sq\":\"1,2\"},\"relation\":null,\"cases\":16,\"wins\":8,",
        "\"direction\":\"refuses\",\"box\":{\"x\":\"2.0\",\"flag\":\"0,1\",\"n\":\"1\",\"dqk\":"
        "\"256\",\"sq\":\"1,2\"},\"relation\":null,\"cases\":4,\"wins\":0,"};
    for (size_t i = 0; i < 3; i++) {
        char *text = box_text(a, i);
        CHECK_HAS(text, want[i]);
        free(text);
    }
    char *first = box_text(a, 0);
    CHECK_HAS(first, "\"select\":\"attest select 'sq=1:dqk=8:arch=sm90' --selector r --env "
                     "flag=0,n=1,x=1.0\"");
    free(first);
    at_audit_close(a);
}

/* The sum over environments, one by one. */
static void test_sweep_is_the_sum(void)
{
    static const char *const sweep[] = {"mode=*", "arch=sm90,sm100", NULL};
    at_error err = {""};
    at_audit *a = NULL, *one = NULL;
    uint64_t cases = 0, found = 0;
    char env[64];
    write_corpus(SPACE("\"env\":{\"x\":\"1.0,2.0\",\"n\":\"0..9/3\"},"));
    CHECK_OK(audit(&a, "t", "", sweep, &err), &err);
    if (a == NULL) {
        return;
    }
    CHECK_INT(a->envs, 2 * 4 * 3 * 2);
    for (int i = 0; i < 48; i++) {
        (void)snprintf(env, sizeof env, "x=%d.0,n=%d,mode=%c,arch=%s", 1 + i % 2, i / 2 % 4 * 3,
                       'a' + i / 8 % 3, i / 24 == 0 ? "sm90" : "sm100");
        CHECK_OK(audit(&one, "t", env, NULL, &err), &err);
        CHECK_INT(one->envs, 1);
        cases += at_audit_cases(one);
        found += at_audit_contradictions(one);
        at_audit_close(one);
    }
    CHECK_INT(at_audit_cases(a), cases);
    CHECK_INT(at_audit_contradictions(a), found);
    CHECK(found > 0);
    at_audit_close(a);
}

/* "env" as a list: what the caller gives wins, and makes environments equal. */
static void test_env_list(void)
{
    at_error err = {""};
    at_audit *a = NULL;
    write_corpus(SPACE("\"env\":[\"x=1.0,flag=0\",\"x=2.0,flag=0\",\"x=2.0,flag=1\",\"\"],"));
    CHECK_OK(audit(&a, "t", "", NULL, &err), &err);
    CHECK_INT(a->envs, 4);
    char *text = box_text(a, at_audit_boxes(a) - 1);
    CHECK_HAS(text, "\"box\":{\"env\":[\"flag=0,x=2.0\",\"flag=1,x=2.0\"],\"dqk\":\"256\"");
    free(text);
    at_audit_close(a);
    CHECK_OK(audit(&a, "t", "x=2.0", NULL, &err), &err);
    CHECK_INT(a->envs, 3);
    at_audit_close(a);
    CHECK_OK(audit(&a, "t", "x=2.0,flag=0", NULL, &err), &err);
    CHECK_INT(a->envs, 1);
    at_audit_close(a);
}

static void refuses(int line, const char *space, const char *env, const char *sweep,
                    const char *part)
{
    at_error err = {""};
    at_audit *a = NULL;
    const char *const list[] = {sweep, NULL};
    write_corpus(space);
    at_status status = audit(&a, "t", env, sweep != NULL ? list : NULL, &err);
    if (status != AT_INVALID || a != NULL || strstr(err.text, part) == NULL) {
        at_test_fail(__FILE__, line, "status %d, \"%s\", want \"%s\"", (int)status, err.text, part);
    }
}
#define REFUSES(space, env, sweep, part) refuses(__LINE__, space, env, sweep, part)

static void test_refusals(void)
{
    REFUSES(SPACE("\"env\":3,"), "", NULL,
            "space t: \"env\": it must be a list of environments, or an object");
    REFUSES(SPACE("\"env\":[3],"), "", NULL, "space t: \"env\": it must hold texts");
    REFUSES(SPACE("\"env\":[\"z=1\"],"), "", NULL, "no environment key is called \"z\"");
    REFUSES(SPACE("\"env\":[\"x=1.0\",\"x=1.0\"],"), "", NULL,
            "the environment \"x=1.0\" stands twice");
    REFUSES(SPACE("\"env\":{\"z\":\"1\"},"), "", NULL, "no environment key is called \"z\"");
    REFUSES(SPACE("\"env\":{\"n\":1},"), "", NULL, "the values of n must be a text");
    REFUSES(SPACE("\"env\":{\"n\":\"3..1\"},"), "", NULL, "n=3..1 is not accepted: a range");
    REFUSES(SPACE("\"env\":{\"n\":\"1,,2\"},"), "", NULL, "a value of n is missing");
    REFUSES(SPACE(""), "", "n", "--sweep n is not KEY=VALUES");
    REFUSES(SPACE(""), "", "n=", "--sweep n= is not KEY=VALUES");
    REFUSES(SPACE(""), "", "n=11", "environment: n=11 is not accepted: an integer 0..9");
    REFUSES(SPACE(""), "n=1", "n=2", "--sweep n: the environment gives n already");
    REFUSES(SPACE("\"env\":{\"n\":\"1,2\"},"), "", "n=3", "--sweep n: the axis n stands twice");
    REFUSES(SPACE(""), "", "dqk=3", "no environment key is called \"dqk\"");
}

static void test_suite_is_a_space(void)
{
    static const char *const sweep[] = {"x=1.0,2.0", NULL};
    at_error err = {""};
    at_audit *a = NULL;
    write_corpus(NULL);
    CHECK_OK(audit(&a, "few", "", sweep, &err), &err);
    CHECK_INT(at_audit_cases(a), 8);
    CHECK_INT(at_audit_contradictions(a), 4);
    CHECK_INT(at_audit_boxes(a), 3);
    static const char *const want[] = {
        ("\"box\":{\"x\":\"1.0,2.0\",\"case\":\"dqk=8\"},\"relation\":null,\"cases\":2,\"wins\":2,"
         "\"example\":\"dqk=8:arch=sm90\""),
        "\"box\":{\"x\":\"1.0\",\"case\":\"dqk=16\"},",
        "\"box\":{\"x\":\"2.0\",\"case\":\"dqk=256:arch=sm90\"},"};
    for (size_t i = 0; i < 3 && i < at_audit_boxes(a); i++) {
        char *text = box_text(a, i);
        CHECK_HAS(text, want[i]);
        free(text);
    }
    at_audit_close(a);
    CHECK_OK(audit(&a, "dqk=8,64:sq=1..3", "", NULL, &err), &err);
    CHECK_INT(at_audit_cases(a), 6);
    CHECK_INT(at_audit_boxes(a), 3);
    at_audit_close(a);
    CHECK_INT(audit(&a, "dqk=x", "", NULL, &err), AT_INVALID);
    CHECK_HAS(err.text, "dqk=x is not accepted");
    CHECK_INT(audit(&a, "nosuch", "", NULL, &err), AT_INVALID);
    CHECK_HAS(err.text, "no space is called \"nosuch\"; ");
    CHECK_HAS(err.text, "suites/ few");
}

#define POPULAR(models)                                                                            \
    "{\"schema\":\"attest-popular-1\",\"doc\":\"d\",\"features\":[{\"name\":\"f\",\"points\":["    \
    "{\"when\":\"sq == 2\",\"percent\":100},{\"when\":\"sq == 1\",\"percent\":50}]}],"             \
    "\"models\":[" models "]}"
#define MODEL(name, text, weight)                                                                  \
    "{\"name\":\"" name "\",\"case\":\"" text "\",\"weight\":" weight ",\"source\":\"s\"}"

/* 64/64 is refused by no build: of the weight of 40, 8 and 2 are met, and the likeliest case of a
 * box is its example. */
static void test_popular(void)
{
    at_error err = {""};
    at_audit *a = NULL;
    at_tool_write("popular.json", POPULAR(MODEL("A", "dqk=16", "8") "," MODEL(
                                      "B", "dqk=64", "30") "," MODEL("C", "dqk=256", "2")));
    write_corpus(SPACE("\"env\":{\"x\":\"1.0,2.0\"},"));
    CHECK_OK(audit(&a, "t", "", NULL, &err), &err);
    CHECK_INT(at_audit_boxes(a), 3);
    static const char *const want[] = {
        "\"finding\":1,\"score\":20,\"models\":[\"A\"],\"backend\":\"x\",\"direction\":\"admits\"",
        ("\"finding\":2,\"score\":0.5,\"models\":[\"C\"],\"backend\":\"x\",\"direction\":"
         "\"refuses\""),
        "\"finding\":1,\"score\":0,\"models\":[],\"backend\":\"x\",\"direction\":\"admits\""};
    static const char *const example[] = {"\"example\":\"sq=2:dqk=16:arch=sm90\"",
                                          "\"example\":\"sq=2:dqk=256:arch=sm90\"",
                                          "\"example\":\"sq=1:dqk=8:arch=sm90\""};
    for (size_t i = 0; i < 3 && i < at_audit_boxes(a); i++) {
        char *text = box_text(a, i);
        CHECK_HAS(text, want[i]);
        CHECK_HAS(text, example[i]);
        free(text);
    }
    size_t shown[3];
    CHECK_INT(at_audit_findings(a), 2);
    CHECK_INT(at_audit_shown(a, 1, shown), 2);
    CHECK_INT(at_audit_shown(a, 0, shown), 3);
    at_audit_close(a);
}

static void popular_refuses(int line, const char *text, const char *part)
{
    at_error err = {""};
    at_audit *a = NULL;
    write_corpus(SPACE(""));
    at_tool_write("popular.json", text);
    at_status status = audit(&a, "t", "", NULL, &err);
    if (status != AT_INVALID || strstr(err.text, part) == NULL ||
        strstr(err.text, "popular.json") == NULL) {
        at_test_fail(__FILE__, line, "status %d, \"%s\", want \"%s\"", (int)status, err.text, part);
    }
    at_audit_close(status == AT_OK ? a : NULL);
}

static void test_popular_refusals(void)
{
    popular_refuses(__LINE__, "[]", "it must be an object");
    popular_refuses(__LINE__, "{\"schema\":\"x\",\"doc\":\"\"}", "attest-popular-1 is read");
    popular_refuses(__LINE__, POPULAR("3"), "\"models\", entry 1: it must be an object");
    popular_refuses(__LINE__, POPULAR(MODEL("A", "dqk=0x", "1")), "dqk=0x is not accepted");
    popular_refuses(__LINE__, POPULAR(MODEL("A", "dqk=8", "0")), "\"weight\" must be 1..1000");
    popular_refuses(__LINE__,
                    "{\"schema\":\"attest-popular-1\",\"doc\":\"\",\"features\":[{\"name\":\"f\","
                    "\"points\":[{\"when\":\"dqk\",\"percent\":1}]}],\"models\":[]}",
                    "\"features\", entry 1: column 1: ");
}

static void test_newest(void)
{
    static const char *const versions[] = {"q-1.9", "q-1.10", "q-1.10rc1", "q-x", "qq-2.0"};
    at_error err = {""};
    at_selector *s = NULL;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        char file[64], text[300];
        (void)snprintf(file, sizeof file, "selectors/%s.json", versions[i]);
        (void)snprintf(
            text, sizeof text,
            "{\"schema\":\"attest-rules-1\",\"name\":\"%s\",\"doc\":\"d\",\"source\":\"s\","
            "\"env\":{},\"backends\":[{\"name\":\"x\",\"doc\":\"\"}],\"rules\":[]}",
            versions[i]);
        at_tool_write(file, text);
    }
    CHECK_OK(at_selector_open(&s, at_test_folder(), "q-newest", NULL, &err), &err);
    CHECK_TEXT(at_selector_name(s), "q-1.10");
    at_selector_close(s);
    CHECK_INT(at_selector_open(&s, at_test_folder(), "z-newest", NULL, &err), AT_INVALID);
    CHECK_HAS(err.text, "no rule set is called \"z-newest\"");
    CHECK_INT(at_selector_open(&s, at_test_folder(), "-newest", NULL, &err), AT_INVALID);
}

/* Spaces of the corpus open, and what they hold is no case only where keys contradict. */
static void test_corpus_spaces(void)
{
    static const struct {
        const char *name;
        uint64_t least;
    } spaces[] = {{"training", 1000000},
                  {"inference", 2000000},
                  {"decode", 1000000},
                  {"varlen", 500000},
                  {"fp8", 500000}};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        at_error err = {""};
        at_region *r = NULL;
        CHECK_OK(at_region_open(&r, AT_TEST_CORPUS, spaces[i].name, &err), &err);
        if (r == NULL) {
            continue;
        }
        uint64_t cases = 0;
        for (uint64_t cell = 0; cell < r->cells; cell += 7) {
            at_region_place place;
            at_case c = r->base;
            at_region_locate(&place, r, cell);
            at_region_case(&c, r, &place, 0);
            cases += at_case_check(&c, NULL) == AT_OK;
        }
        CHECK(7 * cases >= spaces[i].least);
        CHECK(r->left >= 0 && r->right >= 0);
        at_region_close(r);
    }
}

const at_test at_tests[] = {{"unit", "sweep", test_sweep},
                            {"unit", "sweep-is-the-sum", test_sweep_is_the_sum},
                            {"unit", "env-list", test_env_list},
                            {"unit", "refusals", test_refusals},
                            {"unit", "suite-is-a-space", test_suite_is_a_space},
                            {"unit", "popular", test_popular},
                            {"unit", "popular-refusals", test_popular_refusals},
                            {"unit", "newest", test_newest},
                            {"unit", "corpus-spaces", test_corpus_spaces},
                            {NULL, NULL, NULL}};
