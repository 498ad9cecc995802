/* Spaces of audits: what a file may say, the cases that it makes, audits of rule sets made up here.
 */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/audit.h"
#include "harness/select/region.h"
#include "harness/tests/tool.h"

static void refused(int line, const char *text, const char *part)
{
    at_error err = {""};
    at_region *r = NULL;
    at_tool_write("spaces/t.json", text);
    at_status status = at_region_open(&r, at_test_folder(), "t", &err);
    if (status != AT_INVALID || r != NULL || strstr(err.text, part) == NULL ||
        strstr(err.text, "spaces/t.json") == NULL) {
        at_test_fail(__FILE__, line, "status %d, \"%s\", want \"%s\"", (int)status, err.text, part);
    }
    at_region_close(r);
}
#define REFUSED(text, part) refused(__LINE__, text, part)
#define HEAD "{\"schema\":\"attest-space-1\",\"name\":\"t\",\"doc\":\"d\","
#define AXES(text) HEAD "\"axes\":[" text "]}"

static void test_refused(void)
{
    at_error err = {""};
    at_region *r = NULL;
    REFUSED("1", "a space is an object");
    REFUSED("{\"schema\":\"x\",\"name\":\"t\",\"doc\":\"\",\"axes\":[]}",
            "the schema must be attest-space-1");
    REFUSED(HEAD "\"axis\":[]}", "unknown member \"axis\"; accepted: schema, name");
    REFUSED(AXES(""), "\"axes\" is empty");
    REFUSED(AXES("1"), "axis 1: an axis is an object with name and points");
    REFUSED(AXES("{\"name\":\"dqk\"}"), "axis 1: the member \"points\" is missing");
    REFUSED(AXES("{\"name\":\"dqk\",\"points\":[]}"), "axis 1: \"points\" is empty");
    REFUSED(AXES("{\"name\":\"dqk\",\"points\":[3]}"), "axis 1: \"points\" must hold texts");
    REFUSED(AXES("{\"name\":\"dqk\",\"points\":[\"dqk=x\"]}"), "axis 1: dqk=x is not accepted");
    REFUSED(AXES("{\"name\":\"dqk\",\"points\":[\"dqk=8\",\"dqk=8..9\"]}"),
            "the point \"dqk=8\" stands twice");
    REFUSED(AXES("{\"name\":\"dim\",\"points\":[\"dqk=8\"]}"),
            "an axis of one key bears its name, dqk");
    REFUSED(AXES("{\"name\":\"dqk\",\"points\":[\"dqk=1..300\"]}"), "axis 1: ");
    REFUSED(AXES("{\"name\":\"lenq\",\"points\":[\"lenq=3\"]}"),
            "the key lenq is a list, no axis takes it");
    REFUSED(
        AXES("{\"name\":\"dqk\",\"points\":[\"dqk=8\"]},{\"name\":\"b\",\"points\":[\"dqk=9\"]}"),
        "axis 2: the key dqk belongs to \"case\" or another axis");
    REFUSED(
        AXES("{\"name\":\"dqk\",\"points\":[\"dqk=8\"]},{\"name\":\"dqk\",\"points\":[\"dv=9\"]}"),
        "axis 2: the name stands twice");
    REFUSED(AXES("{\"name\":\"dqk\",\"points\":[\"dqk=8\"],\"typical\":[\"dqk=9\"]}"),
            "\"typical\" names \"dqk=9\", which is no point of it");
    REFUSED(HEAD "\"case\":\"dqk=8,9\",\"axes\":[]}", "\"case\" is one partial case");
    REFUSED(HEAD "\"case\":\"dqk=8\",\"axes\":[{\"name\":\"dqk\",\"points\":[\"dqk=8\"]}]}",
            "the key dqk belongs to \"case\" or another axis");
    REFUSED(HEAD "\"compare\":[\"dqk\"],\"axes\":[{\"name\":\"dqk\",\"points\":[\"dqk=8\"]}]}",
            "\"compare\" must name two axes of one integer key each");
    REFUSED(AXES("{\"name\":\"sq\",\"points\":[\"sq=1..200\"]},{\"name\":\"skv\",\"points\":[\"skv="
                 "1..200\"]},"
                 "{\"name\":\"dqk\",\"points\":[\"dqk=1..200\"]},{\"name\":\"dv\",\"points\":[\"dv="
                 "1..200\"]}"),
            "axis 4: with it there are more than 67108864 cases");
    CHECK_INT(at_region_open(&r, at_test_folder(), "nosuch", &err), AT_INVALID);
    CHECK_HAS(err.text, "no space is called \"nosuch\"; ");
    CHECK_HAS(err.text, "/spaces has t");
}

/* Walking and locating make the same cases, each as the parser makes it from the points' texts. */
static void test_cases(void)
{
    at_error err = {""};
    at_region *r = NULL;
    at_tool_write(
        "spaces/t.json",
        HEAD "\"case\":\"b=2:dtype=f16\",\"axes\":["
             "{\"name\":\"lengths\",\"points\":[\"sq=3\",\"sq=3:skv=7\",\"skv=9\"]},"
             "{\"name\":\"heads\",\"points\":[\"hq=4\",\"hq=4:hkv=2\",\"hq=4:hv=1\"]},"
             "{\"name\":\"dv\",\"points\":[\"dv=8,16\"]},"
             "{\"name\":\"mask\",\"points\":[\"mask=none\",\"mask=causal:wl=5:align=br\"]},"
             "{\"name\":\"softcap\",\"points\":[\"softcap=0,30.5\"]},"
             "{\"name\":\"dqk\",\"points\":[\"dqk=24..64/8\"]}],\"compare\":[\"dqk\",\"dv\"]}");
    CHECK_OK(at_region_open(&r, at_test_folder(), "t", &err), &err);
    if (r == NULL) {
        return;
    }
    CHECK_INT(r->cells, 3 * 3 * 2 * 2 * 2 * 6);
    at_region_place place = {.at = {0}};
    at_case walked = r->base, c;
    size_t moved = 0;
    for (uint64_t cell = 0; cell < r->cells; cell++) {
        at_region_place there;
        char text[500] = "b=2:dtype=f16";
        at_region_case(&walked, r, &place, moved);
        at_region_locate(&there, r, cell);
        for (size_t a = 0; a < r->axes; a++) {
            CHECK_INT(there.at[a], place.at[a]);
            size_t n = strlen(text);
            (void)snprintf(text + n, sizeof text - n, ":%s", r->axis[a].point[place.at[a]].text);
        }
        CHECK_OK(at_case_parse(&c, text, &err), &err);
        if (!at_case_equal(&c, &walked)) {
            at_test_fail(__FILE__, __LINE__, "cell %llu is not %s", (unsigned long long)cell, text);
        }
        int relation = at_region_relation(r, &place);
        CHECK_INT(relation, c.dim_qk < c.dim_v ? 0 : c.dim_qk == c.dim_v ? 1 : 2);
        moved = at_region_step(&place, r);
    }
    CHECK_INT(moved, 0);
    at_region_close(r);
}

static const char rules[] = "{\"schema\":\"attest-rules-1\",\"name\":\"r\",\"doc\":\"d\","
                            "\"source\":\"s\",\"env\":{\"k\":{\"type\":"
                            "\"version\",\"default\":\"1.0\",\"doc\":\"\"},\"arch\":{\"type\":"
                            "\"arch\",\"default\":\"sm90\",\"doc\":\"\"}},"
                            "\"backends\":[{\"name\":\"x\",\"doc\":\"\",\"capabilities\":\"x-{k}\"}"
                            ",{\"name\":\"y\",\"doc\":\"\"}],"
                            "\"rules\":[{\"id\":\"strict\",\"off\":[\"x\"],\"when\":\"dqk == 128 "
                            "|| dqk == 136\",\"why\":\"w\","
                            "\"source\":\"s\"},{\"id\":\"api\",\"off\":[\"x\"],\"when\":\"dqk == "
                            "64\",\"why\":\"w\",\"source\":\"s\","
                            "\"caller\":true},{\"id\":\"part\",\"off\":[\"y\"],\"when\":\"64 / "
                            "(skv - 3) > 0\",\"why\":\"w\","
                            "\"source\":\"s\"}],\"prefer\":[{\"when\":\"dqk == "
                            "8\",\"order\":[\"y\",\"x\"]},{\"order\":[\"x\",\"y\"]}]}";

static const char capabilities[] =
    "{\"schema\":\"attest-capabilities-1\",\"name\":\"x-1.0\",\"arch\":\"sm90\",\"package\":\"p\","
    "\"doc\":\"d\","
    "\"rules\":[{\"id\":\"small\",\"when\":\"dqk == "
    "8\",\"step\":\"forward\",\"outcome\":\"wrong\",\"tensor\":"
    "\"o\",\"message\":\"m\",\"evidence\":\"measured\",\"source\":\"s\"},{\"id\":\"runs\",\"when\":"
    "\"dqk < 136\","
    "\"step\":\"forward\",\"outcome\":\"runs\",\"evidence\":\"read\",\"source\":\"s\"},{\"id\":"
    "\"back\","
    "\"step\":\"backward\",\"outcome\":\"runs\",\"evidence\":\"read\",\"source\":\"s\"}]}";

static at_status audit(at_audit **out, const char *space, const char *env_text, at_error *err)
{
    at_env *env = NULL;
    at_tool_write("selectors/r.json", rules);
    at_tool_write("capabilities/x-1.0.json", capabilities);
    at_tool_write("spaces/t.json", space);
    AT_TRY(at_env_set(&env, env_text, err));
    const at_audit_request request = {
        .corpus = at_test_folder(), .selector = "r", .space = "t", .env = env};
    at_status status = at_audit_open(out, &request, err);
    at_env_close(env);
    return status;
}

/* Admitted and wrong at 8; refused for no reason at 128, not counted where the caller cannot ask
 * (64) or nothing is known (136). */
static void test_both_directions(void)
{
    at_error err = {""};
    at_audit *a = NULL;
    CHECK_OK(audit(&a,
                   AXES("{\"name\":\"dqk\",\"points\":[\"dqk=8,64,72,128,136\"]},"
                        "{\"name\":\"sq\",\"points\":[\"sq=1,2\"]}"),
                   "", &err),
             &err);
    if (a == NULL) {
        return;
    }
    CHECK_INT(at_audit_cases(a), 10);
    CHECK_INT(at_audit_contradictions(a), 4);
    CHECK_INT(at_audit_boxes(a), 2);
    static const char *const want[] = {
        "\"backend\":\"x\",\"direction\":\"refuses\",\"box\":{\"dqk\":\"128\",\"sq\":\"1,2\"},"
        "\"relation\":null,"
        "\"cases\":2,\"wins\":0,\"example\":\"sq=1:dqk=128:arch=sm90\",\"select\":\"attest "
        "select 'sq=1:dqk=128:arch=sm90' --selector r\",\"repro\":\"attest audit --selector r "
        "--space "
        "'sq=1:dqk=128:arch=sm90'\",\"admits\":null,"
        "\"refusing_rule\":\"strict\",\"should_refuse_rule\":null,\"step\":\"backward\","
        "\"outcome\":\"runs\","
        "\"tensor\":null,\"message\":null,\"evidence\":\"read\",\"source\":\"s\",\"capabilities\":"
        "\"x-1.0\"}",
        "\"backend\":\"x\",\"direction\":\"admits\",\"box\":{\"dqk\":\"8\",\"sq\":\"1,2\"},"
        "\"relation\":null,"
        "\"cases\":2,\"wins\":0,\"example\":\"sq=1:dqk=8:arch=sm90\",\"select\":\"attest "
        "select 'sq=1:dqk=8:arch=sm90' --selector r\",\"repro\":\"attest audit --selector r "
        "--space "
        "'sq=1:dqk=8:arch=sm90'\",\"admits\":\"x\",\"refusing_rule\":null,"
        "\"should_refuse_rule\":\"strict\",\"step\":\"forward\",\"outcome\":\"wrong\",\"tensor\":"
        "\"o\","
        "\"message\":\"m\",\"evidence\":\"measured\",\"source\":\"s\",\"capabilities\":\"x-1.0\"}"};
    for (size_t i = 0; i < at_audit_boxes(a); i++) {
        at_json *o = at_audit_box_json(a, i);
        char *text = at_json_print(o, false);
        bool admits = strstr(text, "\"direction\":\"admits\"") != NULL;
        CHECK_HAS(text, want[admits]);
        CHECK_HAS(text,
                  "{\"selector\":\"r\",\"arch\":\"sm90\",\"env\":{\"arch\":\"sm90\",\"k\":\"1.0\"},"
                  "\"space\":\"t\",\"finding\":");
        CHECK_HAS(text, "\"score\":0,\"models\":[],\"backend\":\"x\",");
        free(text);
        at_json_close(o);
    }
    at_audit_close(a);
}

static void test_none_and_errors(void)
{
    at_error err = {""};
    at_audit *a = NULL;
    CHECK_OK(audit(&a, AXES("{\"name\":\"dqk\",\"points\":[\"dqk=64,72\"]}"), "", &err), &err);
    CHECK_INT(at_audit_boxes(a), 0);
    CHECK_INT(at_audit_contradictions(a), 0);
    at_audit_close(a);
    /* no set of that name: nothing is known, so nothing contradicts */
    CHECK_OK(audit(&a, AXES("{\"name\":\"dqk\",\"points\":[\"dqk=8\"]}"), "k=2.0", &err), &err);
    CHECK_INT(at_audit_boxes(a), 0);
    at_audit_close(a);
    CHECK_OK(audit(&a, AXES("{\"name\":\"dqk\",\"points\":[\"dqk=8\"]}"), "k=none", &err), &err);
    CHECK_INT(at_audit_boxes(a), 0);
    at_audit_close(a);
    CHECK_INT(audit(&a, AXES("{\"name\":\"sq\",\"points\":[\"sq=2..9\"]}"), "", &err), AT_INVALID);
    CHECK(a == NULL);
    CHECK_HAS(err.text, "sq=3: ");
    CHECK_HAS(err.text, "selectors/r.json: rule \"part\": column 4: division by zero");
    CHECK_INT(audit(&a, AXES("{\"name\":\"sq\",\"points\":[\"sq=2\"]}"), "arch=any", &err),
              AT_INVALID);
    CHECK_HAS(err.text, "an audit of r asks for the arch: give it as --arch sm90");
    at_audit_speed speed, part;
    const at_audit_request request = {
        .corpus = AT_TEST_CORPUS, .selector = "fa4-b11", .space = "training", .env = NULL};
    CHECK_OK(at_audit_measure(&speed, &request, UINT64_MAX, &err), &err);
    CHECK(speed.cases > 1000000 && speed.seconds > 0 && speed.wall > 0);
    CHECK(!(speed.function > 0)); /* nobody was called */
    CHECK_OK(at_audit_measure(&part, &request, 10000, &err), &err);
    CHECK(part.cases > 9000 && part.cases < 11000);
}

const at_test at_tests[] = {{"unit", "refused", test_refused},
                            {"unit", "cases", test_cases},
                            {"unit", "both-directions", test_both_directions},
                            {"unit", "none-and-errors", test_none_and_errors},
                            {NULL, NULL, NULL}};
