/* capability: what a file may say, and what the two sets of the corpus say. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/capability.h"

static void bad_capabilities(int line, const char *text, const char *part)
{
    at_error err = {""};
    at_capabilities *set = NULL;
    at_test_put_json("capabilities", "k", text);
    at_status status = at_capabilities_open(&set, at_test_folder(), "k", &err);
    if (status != AT_INVALID || set != NULL || strstr(err.text, part) == NULL ||
        strstr(err.text, "capabilities/k.json") == NULL) {
        at_test_fail(__FILE__, line, "status %d, \"%s\", want \"%s\"", (int)status, err.text, part);
    }
    at_capabilities_close(set);
}
#define BAD(text, part) bad_capabilities(__LINE__, text, part)
#define CAPS "{\"schema\":\"attest-capabilities-1\",\"name\":\"k\",\"package\":\"p\",\"doc\":\"d\","
#define ENTRY(rest) CAPS "\"arch\":\"sm90\",\"rules\":[{\"id\":\"e\",\"source\":\"s\"," rest "}]}"

static void test_refused_capabilities(void)
{
    BAD("[]", "a capability set is an object");
    BAD("{\"schema\":\"x\"}", "the schema is \"x\", attest-capabilities-1 is read");
    BAD(CAPS "\"arch\":\"sm91\",\"rules\":[]}", "the arch \"sm91\" is none of the case language's");
    BAD(CAPS "\"arch\":\"any\",\"rules\":[]}", "the arch \"any\" is none of the case language's");
    BAD(CAPS "\"arch\":\"sm90\"}", "\"rules\" is missing");
    BAD(CAPS "\"arch\":\"sm90\",\"rules\":[],\"x\":1}", "unknown member \"x\"");
    BAD(CAPS "\"arch\":\"sm90\",\"covers\":\"sm\",\"rules\":[]}", "covers: column 1: a condition");
    BAD(CAPS "\"arch\":\"sm90\",\"let\":{\"a\":\"(\"},\"rules\":[]}",
        "let \"a\": column 2: a value is");
    BAD(CAPS "\"arch\":\"sm90\",\"rules\":[{}]}", "rule 1: it must be an object with an \"id\"");
    BAD(ENTRY("\"step\":\"claim\",\"outcome\":\"runs\",\"evidence\":\"read\""),
        "rule \"e\": the step is \"claim\"; accepted: forward, backward");
    BAD(ENTRY("\"step\":\"forward\",\"outcome\":\"works\",\"evidence\":\"read\""),
        "rule \"e\": the outcome is \"works\"; accepted: runs, refuses, wrong");
    BAD(ENTRY("\"step\":\"forward\",\"outcome\":\"unknown\",\"evidence\":\"read\""),
        "the outcome is");
    BAD(ENTRY("\"step\":\"forward\",\"outcome\":\"runs\",\"evidence\":\"guessed\""),
        "rule \"e\": the evidence is \"guessed\"; accepted: read, reported, measured");
    BAD(ENTRY("\"step\":\"forward\",\"outcome\":\"refuses\",\"evidence\":\"read\""),
        "rule \"e\": \"message\" is what refuses or goes wrong");
    BAD(ENTRY("\"step\":\"forward\",\"outcome\":\"wrong\",\"message\":\"m\",\"evidence\":\"read\""),
        "rule \"e\": \"tensor\" stands with the outcome wrong");
    BAD(ENTRY("\"step\":\"forward\",\"outcome\":\"wrong\",\"message\":\"m\",\"tensor\":\"dv\","
              "\"evidence\":\"read\""),
        "the tensor \"dv\" is not made by that step; accepted: o, lse");
    BAD(ENTRY(
            "\"step\":\"forward\",\"outcome\":\"runs\",\"evidence\":\"read\",\"when\":\"dqk ==\""),
        "rule \"e\": when: column 7: a value is missing at the end");
    BAD(ENTRY("\"step\":\"forward\",\"outcome\":\"runs\",\"evidence\":\"read\",\"why\":\"\""),
        "rule \"e\": unknown member \"why\"");
}

static void outcome(int line, const char *set_name, const char *text, at_step step,
                    const char *want)
{
    at_error err = {""};
    at_capabilities *set = NULL;
    at_capability found = {0};
    at_case c;
    char got[100];
    CHECK_OK(at_capabilities_open(&set, AT_TEST_CORPUS, set_name, &err), &err);
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    if (set == NULL) {
        return;
    }
    CHECK_OK(at_capability_find(&found, set, &c, step, &err), &err);
    (void)snprintf(got, sizeof got, "%s %s", at_outcome_names[found.outcome],
                   found.id != NULL ? found.id : "-");
    if (strcmp(got, want) != 0) {
        at_test_fail(__FILE__, line, "%s of %s is %s, want %s", text, set_name, got, want);
    }
    at_capabilities_close(set);
}
#define OUTCOME(set, text, step, want) outcome(__LINE__, set, text, step, want)

static void test_fa3_capabilities(void)
{
    static const char *const set = "fa3-2025-02";
    static const char *const crash[] = {"dqk=192:dv=128", "dqk=160:dv=128", "dqk=64:dv=128",
                                        "dqk=64:dv=512"};
    for (size_t i = 0; i < sizeof crash / sizeof *crash; i++) {
        char text[200];
        (void)snprintf(text, sizeof text, "hq=16:hkv=1:sq=4096:%s:layout=sbhd:mask=causal",
                       crash[i]);
        OUTCOME(set, text, AT_STEP_FORWARD, "runs fwd.pair");
        OUTCOME(set, text, AT_STEP_BACKWARD, "refuses bwd.hdim_pair");
    }
    OUTCOME(set, "dqk=128:dv=64", AT_STEP_FORWARD, "refuses fwd.hdim_pair");
    OUTCOME(set, "dqk=128", AT_STEP_FORWARD, "runs fwd.runs");
    OUTCOME(set, "dqk=128", AT_STEP_BACKWARD, "runs bwd.runs");
    OUTCOME(set, "dqk=128:arch=sm100", AT_STEP_BACKWARD, "unknown -");
    OUTCOME(set, "dqk=128:arch=sm90", AT_STEP_BACKWARD, "runs bwd.runs");
    OUTCOME(set, "dqk=100", AT_STEP_FORWARD, "refuses fwd.align_qk");
    OUTCOME(set, "dqk=64:dv=100", AT_STEP_FORWARD, "refuses fwd.align_v");
    OUTCOME(set, "dqk=264", AT_STEP_FORWARD, "refuses fwd.hdim");
    OUTCOME(set, "dqk=64:dtype=f32", AT_STEP_FORWARD, "refuses fwd.dtype");
    OUTCOME(set, "dqk=64:dropout=0.5", AT_STEP_FORWARD, "refuses fwd.arguments");
    OUTCOME(set, "dqk=224:det=1", AT_STEP_BACKWARD, "unknown -");
    OUTCOME(set, "sq=64:skv=128:mask=causal", AT_STEP_FORWARD, "wrong fwd.corner");
    OUTCOME(set, "sq=64:skv=128:mask=causal:align=br", AT_STEP_FORWARD, "runs fwd.runs");
    OUTCOME(set, "dqk=192:dv=128:layout=thd:lens=random", AT_STEP_BACKWARD,
            "refuses bwd.hdim_pair");
}

static void test_fa4_capabilities(void)
{
    static const char *const set = "fa4-b11";
    static const int wrong[] = {8, 16, 24, 32, 40, 48, 72, 80, 88, 96, 104, 112};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "dqk=128:dv=%d:arch=sm100", wrong[i]);
        OUTCOME(set, text, AT_STEP_BACKWARD, "wrong bwd.dv_stride");
    }
    OUTCOME(set, "dqk=128:dv=96:arch=sm103", AT_STEP_BACKWARD, "wrong bwd.dv_stride");
    OUTCOME(set, "dqk=128:dv=96:arch=sm100", AT_STEP_FORWARD, "runs fwd.runs_sm100");
    OUTCOME(set, "dqk=128:dv=120:arch=sm100", AT_STEP_BACKWARD, "refuses bwd.preprocess");
    OUTCOME(set, "dqk=128:dv=64:arch=sm100", AT_STEP_BACKWARD, "runs bwd.runs_sm100");
    OUTCOME(set, "dqk=128:arch=sm100", AT_STEP_BACKWARD, "runs bwd.runs_sm100");
    OUTCOME(set, "dqk=192:dv=128:arch=sm100", AT_STEP_BACKWARD, "runs bwd.runs_sm100");
    OUTCOME(set, "dqk=256:arch=sm100", AT_STEP_BACKWARD, "unknown -");
    OUTCOME(set, "dqk=72:arch=sm100", AT_STEP_BACKWARD, "refuses bwd.preprocess");
    OUTCOME(set, "dqk=72:dv=64:arch=sm100", AT_STEP_BACKWARD, "refuses bwd.one_cta");
    OUTCOME(set, "dqk=64:dv=96:arch=sm100", AT_STEP_BACKWARD, "unknown -");
    OUTCOME(set, "dqk=64:dv=512:arch=sm100", AT_STEP_FORWARD, "refuses fwd.absorbed");
    OUTCOME(set, "dqk=136:arch=sm100", AT_STEP_FORWARD, "refuses fwd.hdim_sm100");
    OUTCOME(set, "hq=8:hkv=2:dqk=192:dv=128:arch=sm90", AT_STEP_BACKWARD, "refuses bwd.sm90_gqa");
    OUTCOME(set, "dqk=128:arch=sm80", AT_STEP_BACKWARD, "refuses bwd.sm80");
    OUTCOME(set, "dqk=128:arch=sm120", AT_STEP_BACKWARD, "unknown -");
}

const at_test at_tests[] = {{"unit", "refused", test_refused_capabilities},
                            {"unit", "fa3-2025-02", test_fa3_capabilities},
                            {"unit", "fa4-b11", test_fa4_capabilities},
                            {NULL, NULL, NULL}};
