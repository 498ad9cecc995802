/* Transformer Engine's and PyTorch's rules for cuDNN held against the frontend's own: what they let
 * through and validate() refuses, found without cuDNN. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <string.h>

#include "harness/select/audit.h"
#include "harness/tests/tool.h"

/* `rule` of cudnn-frontend-1.32 refuses the graph of that step; NULL: nothing contradicts. */
typedef struct item {
    const char *name, *selector, *env, *text, *step, *rule;
} item;

#define SM90 "arch=sm90,cudnn=9.19.0"
#define SM100 "arch=sm100,cudnn=9.21.0"
/* clang-format off */
static const item items[] = {
    {"C1 dropout", "te-2.19", SM90, "sq=1024:skv=2048:mask=causal:align=br:dropout=0.1", "forward", "fwd.br_extras"},
    {"C1 bias", "te-2.19", SM90, "sq=1024:skv=2048:mask=causal:align=br:bias=rel.1h", "forward", "fwd.br_extras"},
    {"C1 alibi", "te-2.18", SM90, "sq=1024:skv=2048:mask=causal:align=br:bias=alibi", "forward", "fwd.br_extras"},
    {"C1 equal lengths", "te-2.19", SM90, "sq=1024:skv=1024:mask=causal:align=br:dropout=0.1", NULL, NULL},
    {"C2", "te-2.19", SM90, "sq=1:skv=1024:sink=learned:pass=fwd", "forward", "fwd.decode_sink"},
    {"C2 two queries", "te-2.19", SM90, "sq=2:skv=1024:sink=learned:pass=fwd", NULL, NULL},
    {"C3", "te-2.19", SM100, "dqk=160:dv=128:dtype=f8e4m3:pass=fwd", "forward", "fwd8.dim_qk"},
    {"C3 192/128", "te-2.19", SM100, "dqk=192:dv=128:dtype=f8e4m3:pass=fwd", NULL, NULL},
    {"C4", "te-2.19", SM100, "dqk=128:dtype=f8e4m3:dropout=0.1", "backward", "bwd8.det_dropout"},
    {"C5", "te-2.19", "arch=sm100,cudnn=9.14.0", "dqk=128:dtype=f8e4m3", "backward", "bwd8.det_version"},
    {"C6", "te-2.19", SM100, "sq=100:skv=200:dqk=128:dtype=f8e4m3:mask=causal:align=br", "backward", "bwd8.br_64"},
    {"C7", "te-2.19", SM90, "sq=1:skv=1:dqk=128", "backward", "bwd.one_one"},
    {"C7 inference", "te-2.19", SM90, "sq=1:skv=1:dqk=128:pass=fwd", NULL, NULL},
    {"C8 sm110", "te-2.19", "arch=sm110,cudnn=9.19.0", "dqk=192:dv=128", "backward", "bwd.dims"},
    {"C8 sm121", "te-2.19", "arch=sm121,cudnn=9.19.0", "dqk=192:dv=128", "backward", "bwd.dims"},
    {"C8 sm100", "te-2.19", "arch=sm100,cudnn=9.19.0", "dqk=192:dv=128", NULL, NULL},
    {"C9", "te-2.19", "arch=sm121,cudnn=9.19.0", "b=2:layout=thd:lens=random", "backward", "bwd.ragged_stats"},
    {"C9 sm120", "te-2.19", "arch=sm120,cudnn=9.19.0", "b=2:layout=thd:lens=random", NULL, NULL},
    {"C11", "nvte-2.19", SM90, "hq=6:hkv=4:invalid=1:pass=fwd", "forward", "fwd.heads"},
    {"C11 through Python", "te-2.19", SM90, "hq=6:hkv=4:invalid=1:pass=fwd", NULL, NULL},
    {"packed with a sink", "te-2.19", SM90, "b=2:layout=thd:lens=random:mask=causal:sink=learned", "backward", "bwd.ragged_sink"},
    {"packed with a sink", "te-2.19", "arch=sm90,cudnn=9.26.0", "b=2:layout=thd:lens=random:mask=causal:sink=learned", NULL, NULL},
    {"FP8 window", "nvte-2.19", SM90, "hq=8:hkv=2:sq=2048:skv=1024:dqk=128:dtype=f8e4m3:mask=causal:wl=127", "backward", "bwd8.window_lengths"},
};
/* clang-format on */

static at_audit *audit_of(const char *selector, const char *env_text, const char *space,
                          const char *against)
{
    at_error err = {""};
    at_env *env = NULL;
    at_audit *a = NULL;
    CHECK_OK(at_env_set(&env, env_text, &err), &err);
    const at_audit_request request = {.corpus = AT_TEST_CORPUS,
                                      .selector = selector,
                                      .space = space,
                                      .env = env,
                                      .against = against};
    CHECK_OK(at_audit_open(&a, &request, &err), &err);
    at_env_close(env);
    return a;
}

/* What the rule says, as the audit repeats it. */
static const char *why_of(const char *rule)
{
    static char why[512];
    at_error err = {""};
    at_selector *s = NULL;
    why[0] = '\0';
    CHECK_OK(at_selector_open(&s, AT_TEST_CORPUS, "cudnn-frontend-1.32", NULL, &err), &err);
    for (size_t i = 0; s != NULL && i < at_selector_rules(s); i++) {
        const at_refusal r = at_selector_rule(s, i);
        if (strcmp(r.rule, rule) == 0) {
            (void)snprintf(why, sizeof why, "%s", r.why);
        }
    }
    at_selector_close(s);
    CHECK(why[0] != '\0');
    return why;
}

static void check_item(const item *it)
{
    at_audit *a = audit_of(it->selector, it->env, it->text, "cudnn-frontend-1.32");
    const size_t boxes = a != NULL ? at_audit_boxes(a) : 0;
    if (boxes != (it->rule != NULL)) {
        at_test_fail(__FILE__, __LINE__, "%s: %zu boxes of %s --env %s '%s'", it->name, boxes,
                     it->selector, it->env, it->text);
    }
    if (boxes > 0 && it->rule != NULL) {
        at_json *o = at_audit_box_json(a, 0);
        CHECK_TEXT(at_json_text(at_json_get(o, "step")), it->step);
        CHECK_TEXT(at_json_text(at_json_get(o, "message")), why_of(it->rule));
        CHECK_TEXT(at_json_text(at_json_get(o, "outcome")), "refuses");
        CHECK_TEXT(at_json_text(at_json_get(o, "evidence")), "read");
        CHECK_HAS(at_json_text(at_json_get(o, "source")), "/cudnn-frontend/blob/v1.32.0/");
        CHECK_HAS(at_json_text(at_json_get(o, "capabilities")), "cudnn-frontend-1.32, ");
        at_json_close(o);
    }
    at_audit_close(a);
}

static void test_items(void)
{
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        check_item(&items[i]);
    }
}

/* Each finding of a whole space is one of these rules. */
static void check_space(const char *selector, const char *const *rules, size_t count)
{
    at_audit *a = audit_of(selector, SM90, "graphs", "cudnn-frontend-1.32");
    CHECK(a != NULL && at_audit_cases(a) > 100000);
    bool met[8] = {false};
    for (size_t i = 0; a != NULL && i < at_audit_boxes(a); i++) {
        at_json *o = at_audit_box_json(a, i);
        const char *message = at_json_text(at_json_get(o, "message"));
        size_t k = 0;
        while (k < count && strcmp(why_of(rules[k]), message) != 0) {
            k++;
        }
        if (k == count) {
            at_test_fail(__FILE__, __LINE__, "%s: another box: %s", selector, message);
        } else {
            met[k] = true;
        }
        at_json_close(o);
    }
    for (size_t k = 0; k < count; k++) {
        if (!met[k]) {
            at_test_fail(__FILE__, __LINE__, "%s: no box of %s", selector, rules[k]);
        }
    }
    at_audit_close(a);
}

static void test_te(void)
{
    static const char *const rules[] = {"fwd.br_extras", "fwd.decode_sink", "bwd.one_one",
                                        "bwd.ragged_sink"};
    check_space("te-2.18", rules, 4);
    check_space("te-2.19", rules, 4);
}

static void test_nvte(void)
{
    static const char *const rules[] = {"fwd.br_extras", "fwd.decode_sink",
                                        "bwd.one_one",   "bwd.ragged_sink",
                                        "fwd.heads",     "bwd8.window_lengths"};
    check_space("nvte-2.19", rules, 6);
}

/* An older frontend lets packed sequences with a sink through: the gradient is wrong. */
static void test_older(void)
{
    at_audit *a = audit_of("te-2.19", SM90, "b=2:layout=thd:lens=random:mask=causal:sink=learned",
                           "cudnn-frontend-1.23");
    CHECK(a != NULL && at_audit_cases(a) == 1 && at_audit_boxes(a) == 0);
    at_audit_close(a);
    a = audit_of("te-2.19", SM90, "sq=1:skv=1:dqk=128", "cudnn-frontend-1.23");
    CHECK(a != NULL && at_audit_boxes(a) == 1);
    at_audit_close(a);
}

static void test_torch(void)
{
    check_space("torch-2.11", NULL, 0);
}

static void test_command(void)
{
    const at_tool *t = at_tool_run("audit --selector te-2.19 --arch sm90 --env cudnn=9.19.0 "
                                   "--space graphs --against cudnn-frontend-1.32");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "fused is audited against cudnn-frontend-1.32, ");
    CHECK_HAS(t->out, "fused is admitted, and its backward refuses: no backward of one query");
    t = at_tool_run("audit --selector fa3 --arch sm90 --space graphs --against "
                    "cudnn-frontend-1.32");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "fa3 has no backend called fused or cudnn");
    t = at_tool_run("audit --selector te-2.19 --arch sm90 --space graphs --against fa3");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "fa3 has no backends forward and backward");
    t = at_tool_run("audit --diff te-2.18 te-2.19 --arch sm90 --space graphs --against fa3");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "--against goes with --selector and --space");
}

const at_test at_tests[] = {
    {"unit", "items", test_items},
    {"unit", "te", test_te},
    {"unit", "nvte", test_nvte},
    {"unit", "older", test_older},
    {"unit", "torch", test_torch},
    {"cli", "command", test_command},
    {0},
};
