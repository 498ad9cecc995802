/* attest select, attest audit: what they print, what they refuse and with which exit code. */
#include "harness/tests/test.h"

#include <stdlib.h>
#include <string.h>

#include "harness/json.h"
#include "harness/tests/tool.h"

#define REPORT "b=1:hq=16:hkv=1:sq=4096:skv=4096:dtype=bf16:layout=sbhd:mask=causal:arch=sm90:"
#define SEED "--selector te-2.10 --env fa3=2025-02,fused=0"

static at_json *one_object(const char *text)
{
    at_json *o = NULL;
    at_error err = {""};
    CHECK_OK(at_json_parse(&o, "stdout", text, strlen(text), &err), &err);
    if (o == NULL) {
        exit(1);
    }
    return o;
}

static void test_select_jsonl(void)
{
    static const char *const members[] = {"selector", "case",    "winner",
                                          "admitted", "refused", "env"};
    const at_tool *t =
        at_tool_run("select '" REPORT "dqk=192:dv=128:pass=train' " SEED " --format jsonl");
    CHECK_INT(t->code, 0);
    CHECK_INT(at_tool_count(t->out, "\n"), 1);
    at_json *o = one_object(t->out);
    CHECK_INT(at_json_size(o), 6);
    for (size_t i = 0; i < 6; i++) {
        CHECK(at_json_get(o, members[i]) != NULL);
    }
    CHECK_TEXT(at_json_text(at_json_get(o, "winner")), "fa3");
    CHECK_TEXT(at_json_text(at_json_first(at_json_get(o, "admitted"))), "fa3");
    const at_json *first = at_json_first(at_json_get(o, "refused"));
    CHECK_INT(at_json_size(first), 4);
    CHECK_TEXT(at_json_text(at_json_get(first, "backend")), "fa2");
    CHECK_TEXT(at_json_text(at_json_get(first, "rule")), "mla.fa2");
    CHECK(at_json_get(first, "why") != NULL && at_json_get(first, "source") != NULL);
    const at_json *env = at_json_get(o, "env");
    CHECK_TEXT(at_json_text(at_json_get(env, "arch")), "sm90");
    CHECK_TEXT(at_json_text(at_json_get(env, "fa3")), "2025-02");
    CHECK_TEXT(at_json_text(at_json_get(env, "fused")), "0");
    at_json_close(o);
    o = one_object(
        at_tool_run("select '" REPORT "dqk=192:dv=128:pass=fwd' " SEED " --format jsonl")->out);
    CHECK_TEXT(at_json_text(at_json_get(o, "winner")), "fa3");
    at_json_close(o);
    t = at_tool_run("select '" REPORT "dqk=128:dv=64:pass=train' " SEED " --format jsonl");
    CHECK_HAS(t->out,
              "{\"backend\":\"fa3\",\"rule\":\"fa3.hdim\",\"why\":\"FlashAttention 3 takes dqk");
    CHECK_HAS(t->out, "\"winner\":\"unfused\"");
}

static void test_select_text(void)
{
    const at_tool *t =
        at_tool_run("select hq=8:dqk=192:dv=128 --selector te-2.10 --arch sm90 --env "
                    "fa3=2025-02 --env fused=0");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "hq=8:dqk=192:dv=128\n  winner    fa3\n  admitted  fa3 unfused\n");
    CHECK_HAS(t->out,
              "  refused   fa2 by mla.fa2: FlashAttention 2 has one head dim for q, k and v\n");
    CHECK_HAS(t->out, "            https://github.com/NVIDIA/TransformerEngine/blob/v2.10/");
    CHECK_HAS(t->out, "  env       arch=sm90 cudnn=9.13.0 fa2=2.8.3 fa3=2025-02 flash=1 fused=0 ");
    t = at_tool_run("select dqk=64,128 --selector te-2.10 --arch sm80 --pass fwd --env "
                    "flash=0,fused=0,unfused=0");
    CHECK_INT(t->code, 0);
    CHECK_INT(at_tool_count(t->out, "  winner    none\n  admitted  none\n"), 2);
    CHECK_INT(at_tool_count(t->out, "pass=fwd\n"), 2);
    t = at_tool_run("select te-3481 --selector te-2.10 --env fa3=2025-02,fused=0");
    CHECK_INT(t->code, 0);
    CHECK_INT(at_tool_count(t->out, "  winner    fa3\n"), 16);
    CHECK_INT(at_tool_count(t->out, "  winner    unfused\n"), 8);
}

/* Exit code 3, nothing on stdout, one sentence that holds `part`. */
static void refuses(const char *arguments, const char *part)
{
    const at_tool *t = at_tool_run("%s", arguments);
    CHECK_INT(t->code, 3);
    CHECK_TEXT(t->out, "");
    CHECK_HAS(t->err, part);
    CHECK_INT(at_tool_count(t->err, "\n"), 1);
}

static void test_refusals(void)
{
    refuses("select", "select: give a case, such as `attest select dqk=192");
    refuses("select b=1 --selector nosuch", "no rule set is called \"nosuch\"; ");
    refuses("select b=1 --selector nosuch", "/selectors has cudnn-frontend-1.23, cudnn-frontend-1.32, fa2-2.8, ");
    refuses("select b=1 --selector te-2.10", "te-2.10 asks for the arch: give it in the case or");
    refuses("select b=1 --selector te-2.10 --arch sm91",
            "arch=sm91 is not accepted: one of any, cpu");
    refuses("select b=1 --selector te-2.10 --env fa3", "\"fa3\" is not key=value");
    refuses("select b=1 --selector te-2.10 --env x=1",
            "unknown key \"x\"; accepted: arch, fa2, fa3");
    refuses("select dqk=x --selector te-2.10 --arch sm90", "dqk=x is not accepted");
    refuses("audit", "audit: give a rule set and a space, such as");
    refuses("audit --selector te-2.10 --arch sm90", "audit: give a rule set and a space");
    refuses("audit --selector te-2.10 --space nosuch --arch sm90",
            "no space is called \"nosuch\"; ");
    refuses("audit --selector te-2.10 --space training", "an audit of te-2.10 asks for the arch");
    refuses("audit --selector nosuch --space training", "no rule set is called \"nosuch\"");
    refuses("audit --selector te-2.10 --space training --arch sm90 --env fused=no",
            "fused=no is not accepted: 0 or 1");
    at_tool_write("bad/selectors/x.json", "{\"schema\":\"attest-rules-1\",");
    at_tool_write("bad/spaces/training.json", "{}");
    refuses("select b=1 --selector x --corpus bad", "bad/selectors/x.json:1:");
    refuses("audit --selector x --space training --corpus bad", "bad/selectors/x.json:1:");
}

static void test_audit(void)
{
    const at_tool *t = at_tool_run("audit --arch sm90 --space training " SEED);
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "audit of te-2.10 on sm90, space training: ");
    CHECK_HAS(t->out, "fa3 is audited against fa3-2025-02\n");
    CHECK_HAS(t->out, "fa3 is admitted, and its backward refuses: out must have shape (batch_size, "
                      "seqlen_q, num_heads, head_size)\n");
    CHECK_HAS(t->out, "   dqk      136..192/8\n   dv       104..128/8\n");
    CHECK_HAS(t->out, "   dqk      8..64/8\n   where    dqk != dv\n");
    CHECK_HAS(t->out, "   rule     fa3.hdim ought to refuse: ");
    CHECK_HAS(t->out, "   evidence reported, fa3-2025-02: "
                      "https://github.com/NVIDIA/TransformerEngine/issues/3481\n");
    CHECK_HAS(t->out, "   met by   DeepSeek-V3 and Kimi K2; score ");
    CHECK_HAS(t->out, "select 'hq=16:sq=4096:dqk=192:dv=128:layout=sbhd:mask=causal:arch=sm90' "
                      "--selector te-2.10 --env fa3=2025-02,fused=0\n");
    CHECK_HAS(t->out, "repro 'hq=16:dqk=192:dv=128:layout=sbhd:mask=causal:arch=sm90' --backend "
                      "modelled.fa3-2025-02\n");
    t = at_tool_run("audit --arch sm90 --space training --limit 1 --format markdown " SEED);
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "# te-2.10: 1 finding where selection and kernels part\n");
    CHECK_HAS(t->out, "\n## 1. fa3 is admitted, and its backward refuses\n\n> out must have shape");
    CHECK_HAS(t->out, "| dqk | dv | mask | lengths | dtype | where | cases | selected |\n");
    CHECK_HAS(t->out, "| 136..192/8 | 104..128/8 | ");
    CHECK_HAS(t->out, "```sh\nattest select 'hq=16:sq=4096:dqk=192:dv=128:");
    CHECK_HAS(t->out, "- Evidence, fa3-2025-02 (flash-attn-3 3.0.0b1, ");
    CHECK_INT(at_tool_count(t->out, "\n## "), 1);
    t = at_tool_run("audit --arch sm90 --space te-3481-short --limit 1 " SEED);
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, ", space te-3481-short: 24 cases decided, 8 contradict");
    CHECK_HAS(t->out, "   - and 5 more boxes\n");
    t = at_tool_run("audit --arch sm90 --space training --format jsonl " SEED);
    CHECK_INT(t->code, 1);
    int lines = at_tool_count(t->out, "\n");
    CHECK(lines >= 2 && lines <= 8);
    CHECK_INT(at_tool_count(t->out, "\"admits\":\"fa3\",\"refusing_rule\":null,"
                                    "\"should_refuse_rule\":\"fa3.hdim\",\"step\":\"backward\""),
              lines);
    t = at_tool_run("audit --arch sm90 --space training --selector te-2.10 --env fa3=2026-05");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, ", 0 contradict what builds can do, in 0 boxes\n");
    CHECK_HAS(t->out, "fa3 is not audited: there is no capability set fa3-2026-05\n");
    t = at_tool_run("audit --arch sm100 --space training --selector fa4-b11 --format jsonl");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "\"outcome\":\"wrong\",\"tensor\":\"dv\"");
    CHECK_HAS(t->out, "\"dqk\":\"128\",\"dv\":\"8..48/8,72..112/8\"");
}

const at_test at_tests[] = {{"cli", "select-jsonl", test_select_jsonl},
                            {"cli", "select-text", test_select_text},
                            {"cli", "refusals", test_refusals},
                            {"cli", "audit", test_audit},
                            {NULL, NULL, NULL}};
