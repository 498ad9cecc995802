/* Metamorphic checks: they hold on healthy kernels, and each alone exposes a planted fault. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/checks/checks.h"
#include "harness/selftest/specimen.h"
#include "harness/tests/tool.h"
#include "kernels/kernels.h"

static at_check_outcome run(at_check check, const at_backend *b, const char *text, at_reason *why)
{
    at_case c;
    at_error err = {""};
    at_step step;
    at_engines engines = {0};
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    CHECK_INT(b->claim(b, NULL, &c, &engines, why), AT_OK);
    return at_check_run(check, b, NULL, engines.name[0], &c, &step, why);
}

/* A case in which the check applies, and a fault that acts in it. */
static const struct {
    at_check check;
    const char *text, *fault;
} plants[] = {
    {AT_CHECK_BATCH, "b=3:hq=2:sq=20:skv=30:dqk=16", "mutant.o_batch_repeated"},
    {AT_CHECK_HEADS, "hq=4:hkv=2:sq=20:skv=30:dqk=16", "mutant.head_modulo"},
    {AT_CHECK_V_POWER, "hq=2:sq=20:skv=30:dqk=16", "mutant.o_last_row_unwritten"},
    {AT_CHECK_V_ONES, "hq=2:sq=20:skv=72:dqk=16", "mutant.pad_scored"},
    {AT_CHECK_V_ONEHOT, "hq=2:sq=20:skv=30:dqk=16:mask=causal", "mutant.causal_future"},
    {AT_CHECK_K_CONSTANT, "hq=2:sq=20:skv=40:dqk=20", "mutant.dims_tail_8"},
    {AT_CHECK_GARBAGE, "hq=2:sq=20:skv=30:dqk=16:mask=causal", "mutant.causal_future"},
    {AT_CHECK_PREFIX, "hq=2:sq=20:skv=20:dqk=16:mask=causal", "mutant.causal_future"},
    {AT_CHECK_SUMS, "hq=4:hkv=2:sq=20:skv=30:dqk=16", "mutant.group_sum_lost"},
    {AT_CHECK_DS_ROWS, "hq=2:sq=20:skv=30:dqk=16", "mutant.d_missing"},
    {AT_CHECK_GROUPED, "hq=4:hkv=2:sq=20:skv=30:dqk=16", "mutant.head_modulo"},
    {AT_CHECK_SPLIT, "hq=2:sq=20:skv=150:dqk=16", "mutant.last_tile_lost"},
    {AT_CHECK_EXACT, "hq=2:sq=20:skv=64:dqk=16", "mutant.last_key_lost"},
};

static void test_faults(void)
{
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        const at_backend *fault = at_registry_find(plants[i].fault);
        at_reason why = {"", ""};
        char code[48];
        AT_ASSERT(fault != NULL);
        at_check_outcome healthy =
            run(plants[i].check, &at_backend_cpu_flash, plants[i].text, &why);
        if (healthy != AT_CHECK_HOLDS) {
            at_test_fail(__FILE__, __LINE__, "%s on %s: %d %s", at_check_names[plants[i].check],
                         plants[i].text, (int)healthy, why.text);
        }
        if (run(plants[i].check, fault, plants[i].text, &why) != AT_CHECK_BROKEN) {
            at_test_fail(__FILE__, __LINE__, "%s does not expose %s on %s",
                         at_check_names[plants[i].check], plants[i].fault, plants[i].text);
        }
        (void)snprintf(code, sizeof code, "check_%s", at_check_names[plants[i].check]);
        CHECK_TEXT(why.code, code);
        CHECK_HAS(why.text, at_check_doc(plants[i].check));
    }
}

/* Healthy kernels of both numeric classes on tiny cases of every kind. */
static void test_healthy(void)
{
    enum { CASES = 100 };
    const at_backend *const backends[] = {&at_backend_cpu_flash, &at_backend_cpu_naive};
    int held[AT_CHECK_COUNT] = {0};
    for (uint64_t n = 0; n < CASES; n++) {
        const at_backend *b = backends[n / 30 % 2];
        at_case c;
        at_engines engines = {0};
        at_reason why = {"", ""};
        at_tiny_case(&c, &at_backend_cpu_flash, 77, n);
        if (b->claim(b, NULL, &c, &engines, &why) != AT_OK) {
            continue;
        }
        for (int i = 0; i < AT_CHECK_COUNT; i++) {
            at_step step;
            const char *engine = engines.name[n % (uint64_t)engines.n];
            at_check_outcome outcome = at_check_run((at_check)i, b, NULL, engine, &c, &step, &why);
            held[i] += outcome == AT_CHECK_HOLDS;
            if (outcome == AT_CHECK_BROKEN) {
                char text[AT_CASE_TEXT_MAX];
                (void)at_case_print(&c, text);
                at_test_fail(__FILE__, __LINE__, "%s %s on %s: %s", b->name, engine, text,
                             why.text);
            }
        }
    }
    for (int i = 0; i < AT_CHECK_COUNT; i++) {
        (void)printf("%-10s %d\n", at_check_names[i], held[i]);
        if (i != AT_CHECK_TRUE_MASK) {
            CHECK(held[i] >= 5);
        }
    }
}

static void test_names(void)
{
    uint32_t set = 0;
    at_error err = {""};
    CHECK_OK(at_checks_parse(&set, "batch,exact", &err), &err);
    CHECK_INT(set, 1U << AT_CHECK_BATCH | 1U << AT_CHECK_EXACT);
    CHECK_OK(at_checks_parse(&set, "none", &err), &err);
    CHECK_INT(set, 0);
    CHECK_OK(at_checks_parse(&set, "all", &err), &err);
    CHECK_INT(set, (1U << AT_CHECK_COUNT) - 1);
    CHECK_INT(at_checks_parse(&set, "batch,", &err), AT_INVALID);
    CHECK_INT(at_checks_parse(&set, "v_pow", &err), AT_INVALID);
    CHECK_HAS(err.text, "no check \"v_pow\"; accepted: all, none, or a list of batch, heads");
    for (int i = 0; i < AT_CHECK_COUNT; i++) {
        CHECK_HAS(err.text, at_check_names[i]);
    }
}

/* As an option of sweep and repro. Among 1000 keys that are all alike a lost one is
 * within the bound of O. */
static void test_option(void)
{
    const at_tool *t = at_tool_run("sweep hq=2:sq=20:skv=30:dqk=16 --backend cpu.flash,cpu.naive "
                                   "--checks all -o out -q");
    CHECK_INT(t->code, 0);
    t = at_tool_run("repro sq=20:skv=1000:dqk=16:fill=constant:pass=fwd --backend "
                    "mutant.last_key_lost --checks split,k_constant,exact --limits none");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "(check_split)");
    t = at_tool_run("repro sq=20:skv=1000:dqk=16:fill=constant:pass=fwd --backend "
                    "mutant.last_key_lost --limits none");
    CHECK_INT(t->code, 0);
    t = at_tool_run("sweep sq=4 --backend cpu.flash --checks exakt");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "no check \"exakt\"");
    t = at_tool_run("explain checks");
    CHECK_INT(t->code, 0);
    CHECK_INT(at_tool_count(t->out, "\n"), AT_CHECK_COUNT);
}

const at_test at_tests[] = {
    {"mutant", "faults", test_faults},
    {"unit", "healthy", test_healthy},
    {"unit", "names", test_names},
    {"cli", "option", test_option},
    {NULL, NULL, NULL},
};
