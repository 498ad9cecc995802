/* shrink.c: what is left of a case while something stays true of it; cmd_reduce.c on a fault that a
 * modelled backend has. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <string.h>

#include "harness/case/shrink.h"
#include "harness/tests/tool.h"

typedef struct rule {
    bool (*holds)(const at_case *c);
    int asked, limit; /* 0: none */
} rule;

static at_shrink_answer ask(void *user, const at_case *c)
{
    rule *r = user;
    at_error err = {""};
    CHECK_OK(at_case_check(c, &err), &err); /* only cases that parse are asked */
    r->asked++;
    return r->limit > 0 && r->asked > r->limit ? AT_SHRINK_STOP
           : r->holds(c)                       ? AT_SHRINK_KEPT
                                               : AT_SHRINK_LOST;
}

static bool always(const at_case *c)
{
    (void)c;
    return true;
}

static bool wide_sink(const at_case *c)
{
    return c->dim_qk > 100 && c->sink == AT_SINK_LEARNED;
}

static bool windowed_train(const at_case *c)
{
    return c->pass == AT_PASS_TRAIN && c->window_left >= 3 && c->len_kv > c->len_q;
}

static bool grouped(const at_case *c)
{
    return c->heads_q > c->heads_kv;
}

static void check(const char *from, bool (*holds)(const at_case *), const char *to)
{
    at_case c;
    at_error err = {""};
    char text[AT_CASE_TEXT_MAX];
    rule r = {.holds = holds};
    CHECK_OK(at_case_parse(&c, from, &err), &err);
    CHECK(holds(&c));
    CHECK(at_shrink(&c, ask, &r));
    (void)at_case_print(&c, text);
    CHECK_TEXT(text, to);
    CHECK(holds(&c));
}

static void test_minimal(void)
{
    check("b=3:hq=8:hkv=2:sq=300:dqk=192:dv=128:mask=band:wl=5:seed=7:arch=sm90", always,
          "pass=fwd:arch=sm90");
    check("b=2:hq=8:dqk=256:sink=learned:layout=thd:lens=random:bias=rel.bh:grads=qkvbs", wide_sink,
          "dqk=128:sink=learned:pass=fwd");
    check("sq=100:skv=300:mask=band:wl=63:wr=7:dropout=0.1:fill=peaky", windowed_train,
          "skv=75:mask=causal:wl=3");
    check("hq=32:hkv=8:dtype=f8e5m2:stride=row_gap:pass=stats", grouped, "hq=2:hkv=1:pass=fwd");
}

/* No step from the answer keeps it: asked again, every neighbour is lost. */
static void test_fixed_point(void)
{
    at_case c, again;
    at_error err = {""};
    rule r = {.holds = windowed_train};
    CHECK_OK(at_case_parse(&c, "sq=17:skv=1025:mask=causal:wl=100:layout=thd:lens=full", &err),
             &err);
    CHECK(at_shrink(&c, ask, &r));
    again = c;
    const int asked = r.asked;
    CHECK(at_shrink(&again, ask, &r));
    CHECK(at_case_equal(&c, &again));
    CHECK(r.asked > asked);
}

static void test_stop(void)
{
    at_case c;
    at_error err = {""};
    rule r = {.holds = always, .limit = 2};
    CHECK_OK(at_case_parse(&c, "b=3:hq=8:sq=300:dqk=192", &err), &err);
    CHECK(!at_shrink(&c, ask, &r));
    CHECK_INT(r.asked, 3);
    CHECK_INT(c.batch, 1); /* what was found so far stays */
    CHECK_INT(c.dim_qk, 192);
}

static void test_reduce(void)
{
    const at_tool *run = at_tool_run(
        "reduce b=2:hq=8:hkv=2:dqk=192:dv=128:dtype=f16:layout=sbhd:mask=causal:arch=sm90 "
        "--backend modelled.fa3-2025-02 -q --format jsonl");
    CHECK_INT(run->code, 1);
    CHECK_HAS(run->out, "\"reduced\":\"dv=128:arch=sm90\"");
    CHECK_HAS(run->out, "\"status\":\"REFUSED\"");
    CHECK_HAS(run->out, "\"step\":\"backward\"");
    CHECK_HAS(run->out, "\"minimal\":true");
    CHECK_HAS(run->out, "repro dv=128:arch=sm90 --backend modelled.fa3-2025-02");
    run = at_tool_run("reduce sq=64 --backend cpu.naive");
    CHECK_INT(run->code, 0);
    CHECK_HAS(run->out, "ends as PASS");
    run = at_tool_run("reduce sq=64");
    CHECK_INT(run->code, 3);
    CHECK_HAS(run->err, "one case and --backend");
}

const at_test at_tests[] = {
    {"unit", "minimal", test_minimal},
    {"unit", "fixed_point", test_fixed_point},
    {"unit", "stop", test_stop},
    {"cli", "reduce", test_reduce},
    {NULL, NULL, NULL},
};
