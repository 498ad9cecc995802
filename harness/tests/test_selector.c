/* selector: rule files, patches, environments, decisions, and every sentence they can end in. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/selector.h"

#define HEAD(name)                                                                                 \
    "{\"schema\":\"attest-rules-1\",\"name\":\"" name "\",\"doc\":\"d\",\"source\":\"s\","
#define BACKENDS "\"backends\":[{\"name\":\"a\",\"doc\":\"A\"},{\"name\":\"b\",\"doc\":\"B\"}]"
#define RULE(id, off, when)                                                                        \
    "{\"id\":\"" id "\",\"off\":[" off "],\"when\":\"" when                                        \
    "\",\"why\":\"because\",\"source\":\"here\"}"

#define SETS(entry)                                                                                \
    HEAD("x") "\"backends\":[{\"name\":\"a\",\"doc\":\"\",\"capabilities\":[" entry "]}]}"

static void refused(int line, const char *text, const char *part)
{
    at_error err = {""};
    at_selector *s = NULL;
    at_test_put_json("selectors", "x", text);
    at_status status = at_selector_open(&s, at_test_folder(), "x", NULL, &err);
    if (status != AT_INVALID || s != NULL || strstr(err.text, part) == NULL ||
        strstr(err.text, "selectors/x.json") == NULL) {
        at_test_fail(__FILE__, line, "status %d, \"%s\", want \"%s\"", (int)status, err.text, part);
    }
    at_selector_close(s);
}
#define REFUSED(text, part) refused(__LINE__, text, part)

static void test_refused_heads(void)
{
    REFUSED("[]", "a rule set is an object");
    REFUSED("{\"schema\":1}", "the member \"schema\" must be a string");
    REFUSED("{\"schema\":\"attest-rules-2\"}",
            "the schema is \"attest-rules-2\", attest-rules-1 is");
    REFUSED("{\"schema\":\"attest-rules-1\",\"rule\":[]}",
            "unknown member \"rule\"; accepted: schema");
    REFUSED(HEAD("y") BACKENDS "}", "it calls itself \"y\" and must bear the file's name");
    REFUSED("{\"schema\":\"attest-rules-1\",\"name\":\"x\",\"doc\":\"d\"}",
            "\"source\" is missing");
    REFUSED("{\"schema\":\"attest-rules-1\",\"name\":\"x\",\"doc\":\"d\",\"source\":\"\"}",
            "\"source\" is empty");
    REFUSED(HEAD("x") "\"rules\":[]}", "\"backends\" is missing");
    REFUSED(HEAD("x") "\"backends\":[\"a\"]}", "a backend is an object with name and doc");
    REFUSED(HEAD("x") "\"backends\":[{\"name\":\"a b\",\"doc\":\"\"}]}",
            "the backend name \"a b\"");
    REFUSED(HEAD("x") "\"backends\":[{\"name\":\"a\",\"doc\":\"\"},{\"name\":\"a\",\"doc\":\"\"}]}",
            "the backend \"a\" stands twice");
    REFUSED(HEAD("x") "\"backends\":[{\"name\":\"a\",\"doc\":\"\",\"kind\":1}]}",
            "unknown member \"kind\"; accepted: name, doc, capabilities, measured");
    REFUSED(
        HEAD("x") "\"backends\":[{\"name\":\"a\",\"doc\":\"\",\"capabilities\":\"q-{nokey}\"}]}",
        "backend \"a\": \"capabilities\" names the unknown key \"nokey\"");
    REFUSED(SETS("1"), "backend \"a\": capabilities: an entry is an object with \"set\"");
    REFUSED(SETS("{\"when\":\"true\"}"),
            "backend \"a\": capabilities: the member \"set\" is missing");
    REFUSED(SETS("{\"set\":\"q\",\"if\":\"true\"}"), "unknown member \"if\"; accepted: when, set");
    REFUSED(SETS("{\"set\":\"q\",\"when\":\"dqk ==\"}"), "when: column 7: a value is missing");
    REFUSED(SETS("{\"set\":\"q\",\"when\":\"dqk > 1\"}"),
            "when: it must be decided by the environment alone");
    REFUSED(SETS("{\"set\":\"q-{nokey}\"}"), "names the unknown key \"nokey\"");
    REFUSED("{", "not valid JSON here");
}

static void test_refused_rules(void)
{
    REFUSED(HEAD("x") BACKENDS ",\"rules\":[1]}", "rule 1: it must be an object with an \"id\"");
    REFUSED(HEAD("x") BACKENDS
            ",\"rules\":[" RULE("r", "\"a\"", "true") "," RULE("r", "\"a\"", "true") "]}",
            "rule \"r\": the id stands twice");
    REFUSED(HEAD("x") BACKENDS
            ",\"rules\":[{\"id\":\"r\",\"off\":[\"a\"],\"when\":\"true\",\"why\":\"w\"}]}",
            "rule \"r\": \"source\" is missing");
    REFUSED(HEAD("x") BACKENDS
            ",\"rules\":[{\"id\":\"r\",\"off\":[\"a\"],\"when\":\"\",\"why\":\"w\","
            "\"source\":\"s\"}]}",
            "rule \"r\": \"when\" is empty");
    REFUSED(HEAD("x") BACKENDS
            ",\"rules\":[{\"id\":\"r\",\"when\":\"true\",\"why\":\"w\",\"source\":\"s\"}]}",
            "rule \"r\": \"off\" must list at least one backend");
    REFUSED(HEAD("x") BACKENDS ",\"rules\":[{\"id\":\"r\",\"of\":[]}]}",
            "rule \"r\": unknown member \"of\"; accepted: id, off, when");
    REFUSED(HEAD("x") BACKENDS ",\"rules\":[" RULE("r", "\"c\"", "true") "]}",
            "rule \"r\": \"off\" names \"c\", which is none of \"backends\"");
    REFUSED(HEAD("x") BACKENDS ",\"rules\":[" RULE("r", "1", "true") "]}",
            "\"off\" names \"something else than a text\"");
    REFUSED(HEAD("x") BACKENDS ",\"rules\":[" RULE("r", "\"a\"", "dqk >") "]}",
            "rule \"r\": when: column 6: a value is missing at the end");
    REFUSED(HEAD("x") BACKENDS ",\"rules\":[" RULE("r", "\"a\"", "dqk") "]}",
            "rule \"r\": when: column 1: a condition is needed here");
    REFUSED(HEAD("x") BACKENDS ",\"rules\":[" RULE("r", "\"a\"", "on.c") "]}",
            "rule \"r\": when: column 1: no backend is called \"c\"; known: a, b");
    REFUSED(HEAD("x") BACKENDS ",\"let\":{\"k\":\"on.a\"}}",
            "let \"k\": column 1: no backend is called");
    REFUSED(HEAD("x") BACKENDS ",\"let\":{\"k\":1}}", "let \"k\": it must be a text");
    REFUSED(HEAD("x") BACKENDS ",\"let\":{\"dqk\":\"1\"}}", "let \"dqk\": the name must be a word");
    REFUSED(HEAD("x") BACKENDS ",\"let\":{\"k\":\"j + 1\",\"j\":\"1\"}}",
            "let \"k\": column 1: an integer is needed here, not the unknown name \"j\"");
    REFUSED(HEAD("x") BACKENDS ",\"let\":{\"k\":\"softcap\"}}", "let \"k\": column 1: a let holds");
    REFUSED(HEAD("x") BACKENDS ",\"env\":{\"k\":{\"type\":\"bool\",\"default\":0,\"doc\":\"\"}},"
                               "\"let\":{\"k\":\"1\"}}",
            "let \"k\": the name is taken by an environment key");
    REFUSED(HEAD("x") BACKENDS ",\"prefer\":[{\"order\":[\"a\"]}]}",
            "prefer 1: \"order\" must name all 2 backends");
    REFUSED(HEAD("x") BACKENDS ",\"prefer\":[{\"order\":[\"a\",\"a\"]}]}",
            "\"order\" names \"a\" twice");
    REFUSED(HEAD("x") BACKENDS ",\"prefer\":[{\"when\":\"dqk == 1\",\"order\":[\"a\",\"b\"]}]}",
            "prefer 1: the last entry, and it alone, has no \"when\"");
    REFUSED(HEAD("x") BACKENDS ",\"prefer\":[{\"when\":\"dqk = 1\",\"order\":[\"a\",\"b\"]},"
                               "{\"order\":[\"a\",\"b\"]}]}",
            "prefer 1: when: column 5: '=' means nothing here");
    REFUSED(HEAD("x") BACKENDS ",\"prefer\":[7]}", "prefer 1: it must be an object with \"order\"");
}

static void test_refused_env(void)
{
#define ENV(text) HEAD("x") BACKENDS ",\"env\":{" text "}}"
    REFUSED(ENV("\"k\":1"), "env \"k\": it must be an object with type, default and doc");
    REFUSED(ENV("\"k\":{\"type\":\"bool\",\"doc\":\"\"}"),
            "env \"k\": the member \"default\" is missing");
    REFUSED(ENV("\"k\":{\"type\":\"real\",\"default\":1,\"doc\":\"\"}"),
            "env \"k\": the type \"real\" is unknown; accepted: version, bool, int, enum, arch");
    REFUSED(ENV("\"k\":{\"type\":\"bool\",\"default\":2,\"doc\":\"\"}"),
            "k=2 is not accepted: 0 or 1");
    REFUSED(ENV("\"k\":{\"type\":\"int\",\"default\":9,\"min\":1,\"max\":4,\"doc\":\"\"}"),
            "k=9 is not accepted: an integer 1..4");
    REFUSED(ENV("\"k\":{\"type\":\"enum\",\"default\":\"x\",\"doc\":\"\"}"),
            "\"values\" is missing");
    REFUSED(ENV("\"k\":{\"type\":\"enum\",\"default\":\"x\",\"values\":[],\"doc\":\"\"}"),
            "\"values\" must hold 1 to 32 texts");
    REFUSED(ENV("\"k\":{\"type\":\"enum\",\"default\":\"x\",\"values\":[1],\"doc\":\"\"}"),
            "\"values\" must hold texts");
    REFUSED(
        ENV("\"k\":{\"type\":\"enum\",\"default\":\"x\",\"values\":[\"y\",\"z\"],\"doc\":\"\"}"),
        "k=x is not accepted: one of y, z");
    REFUSED(ENV("\"k\":{\"type\":\"version\",\"default\":\"x\",\"doc\":\"\"}"),
            "k=x is not accepted: a version");
    REFUSED(ENV("\"k\":{\"type\":\"version\",\"default\":[],\"doc\":\"\"}"),
            "\"default\" must be a text, an integer, true or false");
    REFUSED(ENV("\"arch\":{\"type\":\"int\",\"default\":90,\"doc\":\"\"}"),
            "env \"arch\": the key arch, and it alone, has the type arch");
    REFUSED(ENV("\"arch\":{\"type\":\"arch\",\"default\":\"sm91\",\"doc\":\"\"}"),
            "arch=sm91 is not accepted: one of any, cpu, sm80");
    REFUSED(ENV("\"dqk\":{\"type\":\"int\",\"default\":1,\"doc\":\"\"}"),
            "env \"dqk\": a key is a word");
}

static void test_refused_extends(void)
{
    at_error err = {""};
    at_selector *s = NULL;
    at_test_put_json("selectors", "p", HEAD("p") "\"extends\":\"x\"," BACKENDS "}");
    REFUSED(HEAD("x") "\"extends\":\"p\"}", "\"extends\" leads back to x: a cycle");
    REFUSED(HEAD("x") "\"extends\":\"x\"}", "\"extends\" leads back to x: a cycle");
    at_test_put_json("selectors", "x", HEAD("x") "\"extends\":\"nosuch\"}");
    CHECK_INT(at_selector_open(&s, at_test_folder(), "x", NULL, &err), AT_INVALID);
    CHECK_HAS(err.text, "no rule set is called \"nosuch\"; ");
    CHECK_HAS(err.text, "/selectors has p, x");
    at_test_put_json("selectors", "p",
                     HEAD("p") BACKENDS ",\"rules\":[" RULE("one", "\"a\"", "true") "]}");
    REFUSED(HEAD("x") "\"extends\":\"p\",\"rules\":[{\"id\":\"two\",\"remove\":true}]}",
            "rule \"two\": \"remove\" names no rule of the file that is extended");
    REFUSED(HEAD("x") "\"extends\":\"p\",\"rules\":[{\"id\":\"two\",\"when\":\"true\"}]}",
            "rule \"two\": \"why\" is missing");
    REFUSED(HEAD("x") "\"extends\":\"p\",\"rules\":[{\"id\":\"one\",\"after\":\"zero\"}]}",
            "rule \"one\": \"after\" names \"zero\", which is no rule before it");
    REFUSED(HEAD("x") "\"extends\":\"p\",\"rules\":[{\"id\":\"one\",\"when\":\"dqk +\"}]}",
            "column 85: rule \"one\": when: column 6: a value is missing at the end");
}

static at_selector *opened(const char *name, const char *env_text)
{
    at_error err = {""};
    at_env *env = NULL;
    at_selector *s = NULL;
    if (env_text != NULL) {
        CHECK_OK(at_env_set(&env, env_text, &err), &err);
    }
    CHECK_OK(at_selector_open(&s, at_test_folder(), name, env, &err), &err);
    at_env_close(env);
    return s;
}

/* "winner|admitted..|backend:rule.." of a case. */
static void decision(char text[300], const at_selector *s, const char *case_text)
{
    at_error err = {""};
    at_case c;
    at_selection d = {0};
    CHECK_OK(at_case_parse(&c, case_text, &err), &err);
    CHECK_OK(at_selector_decide(&d, s, &c, &err), &err);
    size_t n = (size_t)snprintf(text, 300, "%s|", d.winner != NULL ? d.winner : "none");
    for (int i = 0; i < d.admitted_count; i++) {
        n += (size_t)snprintf(text + n, 300 - n, " %s", d.admitted[i]);
    }
    n += (size_t)snprintf(text + n, 300 - n, "|");
    for (int i = 0; i < d.refused_count; i++) {
        n += (size_t)snprintf(text + n, 300 - n, " %s:%s", d.refused[i].backend, d.refused[i].rule);
    }
}

static void decides(int line, const at_selector *s, const char *case_text, const char *want)
{
    char got[300] = "";
    decision(got, s, case_text);
    at_test_text(__FILE__, line, case_text, got, want);
}
#define DECIDES(s, case_text, want) decides(__LINE__, s, case_text, want)

static const char parent[] =
    HEAD("p") "\"env\":{\"level\":{\"type\":\"int\",\"default\":3,\"min\":0,\"max\":9,"
              "\"doc\":\"\"},\"fast\":{\"type\":\"bool\",\"default\":true,\"doc\":\"\"}},"
              "\"let\":{\"wide\":\"dqk > 64\",\"odd\":\"dqk % 8 != 0\",\"ratio\":\"skv / sq\"},"
              "\"backends\":[{\"name\":\"a\",\"doc\":\"\"},{\"name\":\"b\",\"doc\":\"\"},{\"name\":"
              "\"c\",\"doc\":\"\"}],"
              "\"rules\":[" RULE("slow", "\"a\",\"b\"", "!fast") "," RULE(
                  "odd", "\"a\"",
                  "odd") "," RULE("both", "\"b\",\"c\"",
                                  "!on.a && wide") "," RULE("level", "\"c\"",
                                                            "level > 5 && wide") "," RULE("ratio",
                                                                                          "\"c\"",
                                                                                          "sq > 0 "
                                                                                          "&& "
                                                                                          "ratio > "
                                                                                          "1") "],"
                                                                                               "\"p"
                                                                                               "ref"
                                                                                               "er"
                                                                                               "\":"
                                                                                               "[{"
                                                                                               "\"w"
                                                                                               "hen"
                                                                                               "\":"
                                                                                               "\"w"
                                                                                               "ide"
                                                                                               " &&"
                                                                                               " on"
                                                                                               ".b"
                                                                                               "\","
                                                                                               "\"o"
                                                                                               "rde"
                                                                                               "r\""
                                                                                               ":["
                                                                                               "\"b"
                                                                                               "\","
                                                                                               "\"a"
                                                                                               "\","
                                                                                               "\"c"
                                                                                               "\"]"
                                                                                               "},{"
                                                                                               "\"o"
                                                                                               "rde"
                                                                                               "r\""
                                                                                               ":["
                                                                                               "\"c"
                                                                                               "\","
                                                                                               "\"a"
                                                                                               "\","
                                                                                               "\"b"
                                                                                               "\"]"
                                                                                               "}]"
                                                                                               "}";

static void test_decisions(void)
{
    at_test_put_json("selectors", "p", parent);
    at_selector *s = opened("p", NULL);
    DECIDES(s, "dqk=64", "c| a b c|");
    DECIDES(s, "dqk=128", "b| a b c|");
    DECIDES(s, "dqk=100", "none|| a:odd b:both c:both");
    DECIDES(s, "dqk=60", "c| b c| a:odd");
    DECIDES(s, "dqk=64:sq=8:skv=64", "a| a b| c:ratio");
    DECIDES(s, "dqk=64:sq=0:skv=64", "c| a b c|");
    at_selector_close(s);
    s = opened("p", "level=6,fast=0");
    DECIDES(s, "dqk=64", "c| c| a:slow b:slow");
    DECIDES(s, "dqk=128", "none|| a:slow b:slow c:both");
    at_selector_close(s);
}

static void test_extends(void)
{
    at_test_put_json("selectors", "p", parent);
    at_test_put_json(
        "selectors", "q",
        HEAD("q") "\"extends\":\"p\",\"let\":{\"wide\":\"dqk > 128\"},\"rules\":["
                  "{\"id\":\"odd\",\"when\":\"dqk % 4 != 0\"},{\"id\":\"level\",\"remove\":true},"
                  "{\"id\":\"ratio\",\"off\":[\"a\"],\"after\":\"slow\"}," RULE("new", "\"c\"",
                                                                                "dqk == 8") "]}");
    at_test_put_json(
        "selectors", "x",
        HEAD("x") "\"extends\":\"q\",\"env\":{\"fast\":{\"type\":\"bool\","
                  "\"default\":false,\"doc\":\"\"}},\"prefer\":[{\"order\":[\"a\",\"b\",\"c\"]}]}");
    at_selector *s = opened("q", "level=6");
    DECIDES(s, "dqk=100", "c| a b c|");
    DECIDES(s, "dqk=102", "c| b c| a:odd");
    DECIDES(s, "dqk=136", "b| a b c|");
    DECIDES(s, "dqk=134", "none|| a:odd b:both c:both");
    DECIDES(s, "dqk=136:sq=8:skv=64", "none|| a:ratio b:both c:both");
    DECIDES(s, "dqk=8", "a| a b| c:new");
    at_selector_close(s);
    s = opened("x", NULL);
    DECIDES(s, "dqk=64", "c| c| a:slow b:slow");
    at_selector_close(s);
    s = opened("x", "fast=1");
    DECIDES(s, "dqk=136", "a| a b c|");
    at_selector_close(s);
}

static void test_evaluation_error(void)
{
    at_error err = {""};
    at_case c;
    at_selection d;
    at_test_put_json("selectors", "x",
                     HEAD("x") BACKENDS
                     ",\"let\":{\"part\":\"64 / skv\",\"twice\":\"part * 2\"},"
                     "\"rules\":[" RULE("fine", "\"a\"", "skv == 3 && twice > 1") "," RULE(
                         "bad", "\"b\"", "dqk > 1 && twice > 64") "]}");
    at_selector *s = opened("x", NULL);
    DECIDES(s, "skv=3", "b| b| a:fine");
    DECIDES(s, "skv=0:dqk=1", "a| a b|");
    CHECK_OK(at_case_parse(&c, "skv=0:dqk=64", &err), &err);
    CHECK_INT(at_selector_decide(&d, s, &c, &err), AT_INVALID);
    CHECK_HAS(err.text,
              "selectors/x.json: rule \"bad\": column 12: the let used here has no value");
    CHECK_HAS(err.text, "(let \"part\", column 4: division by zero)");
    at_selector_close(s);
}

static void test_environment(void)
{
    at_error err = {""};
    at_env *env = NULL;
    CHECK_OK(at_env_set(&env, "fa3=2025-02,fused=0", &err), &err);
    CHECK_OK(at_env_set(&env, "fused=1,b=2", &err), &err);
    CHECK_OK(at_env_set(&env, "", &err), &err);
    CHECK_TEXT(at_env_get(env, "fused"), "1");
    CHECK_TEXT(at_env_get(env, "fa3"), "2025-02");
    CHECK(at_env_get(env, "fa2") == NULL);
    CHECK_INT(at_env_size(env), 3);
    at_json *object = at_env_to_json(env);
    char *text = at_json_print(object, false);
    CHECK_TEXT(text, "{\"b\":\"2\",\"fa3\":\"2025-02\",\"fused\":\"1\"}");
    free(text);
    at_json_close(object);
    static const char *const bad[] = {"fused", "=1", "fused=", "a=1,,b=2", ","};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_INT(at_env_set(&env, bad[i], &err), AT_INVALID);
        CHECK_HAS(err.text, "is not key=value; pairs are joined by commas");
    }
    at_env_close(env);
    env = NULL;
    at_selector *s = NULL;
    static const char *const wrong[][2] = {
        {"fa5=1", "te-2.10: environment: unknown key \"fa5\"; accepted: arch, fa2, fa3, cudnn"},
        {"fused=2", "te-2.10: environment: fused=2 is not accepted: 0 or 1"},
        {"fa3=new", "te-2.10: environment: fa3=new is not accepted: a version such as 2.8.3"},
        {"arch=sm91", "te-2.10: environment: arch=sm91 is not accepted: one of any, cpu, sm80"},
        {"te.cp_comm=b2b", "te.cp_comm=b2b is not accepted: one of p2p, all_gather, a2a, a2a+p2p"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_OK(at_env_set(&env, wrong[i][0], &err), &err);
        CHECK_INT(at_selector_open(&s, AT_TEST_CORPUS, "te-2.10", env, &err), AT_INVALID);
        CHECK_HAS(err.text, wrong[i][1]);
        at_env_close(env);
        env = NULL;
    }
    static const char *const names[] = {"nosuch", "../selectors/te-2.10", "", ".", "a/b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_INT(at_selector_open(&s, AT_TEST_CORPUS, names[i], NULL, &err), AT_INVALID);
        CHECK_HAS(err.text, "no rule set is called");
        CHECK_HAS(err.text, "fa4-b11, fa4-b27");
    }
}

static void test_arch(void)
{
    at_error err = {""};
    at_case c;
    at_selection d;
    at_selector *s = NULL;
    at_env *env = NULL;
    CHECK_OK(at_selector_open(&s, AT_TEST_CORPUS, "te-2.10", NULL, &err), &err);
    CHECK_OK(at_case_parse(&c, "dqk=128", &err), &err);
    CHECK_INT(at_selector_decide(&d, s, &c, &err), AT_INVALID);
    CHECK_HAS(err.text, "te-2.10 asks for the arch: give it in the case or the environment");
    CHECK_OK(at_case_parse(&c, "dqk=128:arch=sm80", &err), &err);
    CHECK_OK(at_selector_decide(&d, s, &c, &err), &err);
    CHECK_TEXT(d.winner, "fa2");
    at_selector_close(s);
    CHECK_OK(at_env_set(&env, "arch=sm90", &err), &err);
    CHECK_OK(at_selector_open(&s, AT_TEST_CORPUS, "te-2.10", env, &err), &err);
    CHECK_OK(at_selector_decide(&d, s, &c, &err), &err);
    CHECK_TEXT(d.winner, "fa2"); /* the case's arch wins */
    at_json *object = at_selection_to_json(&d, s, &c);
    CHECK_TEXT(at_json_text(at_json_get(at_json_get(object, "env"), "arch")), "sm80");
    at_json_close(object);
    at_selector_close(s);
    at_env_close(env);
}

/* The first entry whose condition holds names the set; months name the builds of flash-attn-3. */
static void test_capability_sets(void)
{
    static const char *const builds[][2] = {
        {"2024-07", "fa3-2024-07"}, {"2025-01", "fa3-2024-07"}, {"2025-03", "fa3-2025-02"},
        {"2025-08", "fa3-2025-04"}, {"2025-12", "fa3-2025-09"}, {"2026-01", "fa3-2026-01"},
        {"3.0.0", "fa3-3.0.0"},     {"3.0.0b1", "fa3-3.0.0b1"}, {"none", NULL}};
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "fa3=%s", builds[i][0]);
        at_error err = {""};
        at_env *env = NULL;
        at_selector *s = NULL;
        CHECK_OK(at_env_set(&env, text, &err), &err);
        CHECK_OK(at_selector_open(&s, AT_TEST_CORPUS, "te-2.10", env, &err), &err);
        CHECK_TEXT(at_selector_backend(s, 1), "fa3");
        const char *set = at_selector_capabilities(s, 1);
        CHECK((set == NULL) == (builds[i][1] == NULL));
        if (set != NULL && builds[i][1] != NULL) {
            CHECK_TEXT(set, builds[i][1]);
        }
        CHECK_TEXT(at_selector_capabilities(s, 0), "fa2-2.8");
        CHECK(at_selector_capabilities(s, 3) == NULL);
        at_selector_close(s);
        at_env_close(env);
    }
}

static void test_json(void)
{
    at_error err = {""};
    at_case c;
    at_selection d;
    at_test_put_json("selectors", "p", parent);
    at_selector *s = opened("p", NULL);
    CHECK_OK(at_case_parse(&c, "dqk=60", &err), &err);
    CHECK_OK(at_selector_decide(&d, s, &c, &err), &err);
    at_json *object = at_selection_to_json(&d, s, &c);
    char *text = at_json_print(object, false);
    CHECK_TEXT(
        text, "{\"selector\":\"p\",\"case\":\"dqk=60\",\"winner\":\"c\",\"admitted\":[\"b\",\"c\"],"
              "\"refused\":[{\"backend\":\"a\",\"rule\":\"odd\",\"why\":\"because\",\"source\":"
              "\"here\"}],"
              "\"env\":{\"fast\":\"1\",\"level\":\"3\"}}");
    free(text);
    at_json_close(object);
    CHECK_OK(at_case_parse(&c, "dqk=100", &err), &err);
    CHECK_OK(at_selector_decide(&d, s, &c, &err), &err);
    object = at_selection_to_json(&d, s, &c);
    CHECK_INT(at_json_type(at_json_get(object, "winner")), AT_JSON_NULL);
    at_json_close(object);
    at_selector_close(s);
}

const at_test at_tests[] = {{"unit", "refused-heads", test_refused_heads},
                            {"unit", "refused-rules", test_refused_rules},
                            {"unit", "refused-env", test_refused_env},
                            {"unit", "refused-extends", test_refused_extends},
                            {"unit", "decisions", test_decisions},
                            {"unit", "extends", test_extends},
                            {"unit", "evaluation-error", test_evaluation_error},
                            {"unit", "environment", test_environment},
                            {"unit", "arch", test_arch},
                            {"unit", "capability-sets", test_capability_sets},
                            {"unit", "json", test_json},
                            {NULL, NULL, NULL}};
