/* why-not: the nearest case is admitted and differs in as few keys as can be; all rule sets side by
 * side. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/field.h"
#include "harness/select/nearest.h"
#include "harness/tests/tool.h"

static at_selector *opened(const char *name, const char *env_text, at_env **env)
{
    at_error err = {""};
    at_selector *s = NULL;
    CHECK_OK(at_env_set(env, env_text, &err), &err);
    CHECK_OK(at_selector_open(&s, AT_TEST_CORPUS, name, *env, &err), &err);
    if (s == NULL) {
        exit(1);
    }
    return s;
}

static size_t index_of(const at_selector *s, const char *backend)
{
    size_t i = 0;
    while (strcmp(at_selector_backend(s, i), backend) != 0) {
        i++;
    }
    return i;
}

static bool admitted(const at_selector *s, const at_case *c, size_t backend)
{
    at_decision d;
    return at_case_check(c, NULL) == AT_OK && at_selector_decide_fast(&d, s, c, NULL) == AT_OK &&
           d.rule[backend] < 0;
}

/* Keys that differ; one that has another key's value by default in both cases goes with it. */
static int differing(const at_case *a, const at_case *b)
{
    int n = 0;
    for (size_t row = 0; row < at_case_field_count; row++) {
        const at_field *f = &at_case_fields[row];
        char one[AT_CASE_TEXT_MAX], two[AT_CASE_TEXT_MAX];
        bool goes_along =
            f->same_as != NULL && at_case_is_default(a, f) && at_case_is_default(b, f);
        (void)at_case_value(a, f, one);
        (void)at_case_value(b, f, two);
        n += strcmp(one, two) != 0 && !goes_along;
    }
    return n;
}

static void nearest(int line, const char *text, const char *env_text, const char *backend,
                    const char *want, const char *want_env)
{
    at_error err = {""};
    at_env *env = NULL;
    at_case c;
    at_nearest found;
    char got[AT_CASE_TEXT_MAX];
    at_selector *s = opened("te-2.20", env_text, &env);
    size_t i = index_of(s, backend);
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    CHECK(!admitted(s, &c, i));
    CHECK_OK(at_nearest_find(&found, s, AT_TEST_CORPUS, env, &c, i, &err), &err);
    (void)at_case_print(&found.c, got);
    if (strcmp(found.count > 0 ? got : "none", want) != 0 || strcmp(found.env, want_env) != 0) {
        at_test_fail(__FILE__, line, "%s: \"%s\" with \"%s\", want \"%s\" with \"%s\"", text,
                     found.count > 0 ? got : "none", found.env, want, want_env);
    }
    at_selector_close(s);
    at_env_close(env);
}
#define NEAREST(...) nearest(__LINE__, __VA_ARGS__)

static void test_table(void)
{
    NEAREST("dqk=264:pass=fwd:arch=sm90", "fa3=2025-02,fa2=none", "fa3",
            "dqk=256:pass=fwd:arch=sm90", "");
    NEAREST("dqk=192:dv=64:arch=sm90", "fa3=2025-02", "fa3", "dqk=192:dv=128:arch=sm90", "");
    NEAREST("dqk=64:dropout=0.1:arch=sm90", "fa3=2025-02", "fa3", "arch=sm90", "");
    NEAREST("arch=sm100", "fa3=2025-02", "fa3", "arch=sm90", "");
    NEAREST("arch=sm90", "fa3=none", "fa3", "none", "fa3=2025-02");
    NEAREST("arch=sm90", "fused=0", "fused", "none", "fused=1");
    NEAREST("dqk=64:dropout=0.1:bias=rel.11:arch=sm90", "fa3=2025-02", "fa3", "arch=sm90", "");
    NEAREST("dtype=f32:arch=sm90", "fa3=2025-02", "fa3", "dtype=f16:arch=sm90", "");
}

/* Another key has its value by default. */
static bool has_follower(const at_field *leader)
{
    bool found = leader->same_as != NULL;
    for (size_t row = 0; row < at_case_field_count; row++) {
        const char *same = at_case_fields[row].same_as;
        found = found || (same != NULL && strcmp(same, leader->key) == 0);
    }
    return found;
}

/* Random refused cases: what is found is admitted, and no single key would have done where two
 * were needed (of the defaults). */
static void test_property(void)
{
    at_error err = {""};
    at_env *env = NULL;
    at_selector *s = opened("te-2.20", "fa3=2025-02,fa4=4.0.0b11,arch=sm90", &env);
    static const char untouched[] = "ief"; /* invalid, exec, fill */
    int refused = 0, found_two = 0;
    for (uint32_t seed = 1; seed < 90; seed++) {
        uint8_t bytes[96];
        uint32_t state = seed * 2654435761u;
        at_case c;
        for (size_t i = 0; i < sizeof bytes; i++) {
            state = state * 1664525u + 1013904223u;
            bytes[i] = (uint8_t)(state >> 24);
        }
        at_case_from_bytes(&c, bytes, 8 + seed % 88);
        c.arch = AT_ARCH_SM90;
        size_t backend = seed % at_selector_backends(s);
        at_nearest found;
        if (admitted(s, &c, backend)) {
            continue;
        }
        refused++;
        CHECK_OK(at_nearest_find(&found, s, AT_TEST_CORPUS, env, &c, backend, &err), &err);
        if (found.count > 0) {
            CHECK(admitted(s, &found.c, backend));
            CHECK_INT(differing(&c, &found.c), found.count);
        }
        found_two += found.count == 2;
        for (size_t row = 0; found.count == 2 && row < at_case_field_count; row++) {
            const at_field *f = &at_case_fields[row];
            bool plain = f->kind == AT_FIELD_INT || f->kind == AT_FIELD_ENUM;
            at_case one = c;
            if (plain && !has_follower(f) && strchr(untouched, f->key[0]) == NULL) {
                at_case_set(&one, f, f->init);
                CHECK(!admitted(s, &one, backend));
            }
        }
    }
    CHECK(refused > 40 && found_two > 3);
    at_selector_close(s);
    at_env_close(env);
}

#define CASE "hq=16:hkv=1:sq=4096:dqk=192:dv=128:mask=causal:arch=sm90"

static void test_commands(void)
{
    const at_tool *t = at_tool_run("select " CASE " --env fa3=2025-02,fa4=4.0.0b11");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, CASE "\n  rule set             winner  admitted ");
    CHECK_HAS(t->out, "\n  te-2.10              fused   fa3 fused unfused       fa2 mla.fa2\n  te-2.12 ");
    CHECK_HAS(t->out, "\n  te-2.20              fused   fa2 fa3 fused unfused   fa4 fa4.yield_to_fa3\n");
    CHECK_HAS(t->out, "environment: fa3=2025-02 is not accepted: 0 or 1\n");
    t = at_tool_run("select " CASE " --env cudnn=9.19.0 --format jsonl");
    CHECK_INT(t->code, 0);
    CHECK(at_tool_count(t->out, "\n") >= 12);
    CHECK_HAS(t->out, "{\"selector\":\"te-2.10\",\"case\":\"" CASE "\",");
    t = at_tool_run("select " CASE " --env nosuch=1");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "select: no rule set has the environment key \"nosuch\"");
    t = at_tool_run("select sq=4 --selector te-2.20 --env fa3=2025-02,arch=sm100 --why-not fa3");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "sq=4\n  refused   fa3 by fa3.not_sm90: ");
    CHECK_HAS(t->out, "  nearest   sq=4:arch=sm90\n            arch sm100 -> sm90; the winner is ");
    t = at_tool_run("select sq=4 --selector te-2.20 --env fused=0,arch=sm100 --why-not fused");
    CHECK_HAS(t->out,
              "  nearest   no case within two keys is admitted\n  or with   --env fused=1\n");
    t = at_tool_run("select sq=4 --selector te-2.20 --arch sm90 --why-not fused");
    CHECK_HAS(t->out, "sq=4\n  fused is admitted, and wins\n");
    t = at_tool_run("select sq=4 --selector te-2.20 --arch sm90 --why-not fa2 --format jsonl");
    CHECK_HAS(t->out, "\"backend\":\"fa2\",\"admitted\":true,\"winner\":\"fused\",\"rule\":null,");
    t = at_tool_run("select sq=4 --selector te-2.20 --arch sm90 --why-not fa9");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "--why-not: te-2.20 has no backend \"fa9\"; it has fa2, fa3, fa4, fused");
    t = at_tool_run("select sq=4 --arch sm90 --env fa3=none --why-not fa3");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "sq=4\n  refused   fa3 by fa3.installed: ");
    t = at_tool_run("select sq=4 --selector te@installed --arch sm90 --why-not fa3");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "--why-not asks a rule set, such as te-2.10; te@installed is not one");
    t = at_tool_run("select");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "select: give a case, such as");
}

const at_test at_tests[] = {{"unit", "table", test_table},
                            {"unit", "property", test_property},
                            {"cli", "commands", test_commands},
                            {NULL, NULL, NULL}};
