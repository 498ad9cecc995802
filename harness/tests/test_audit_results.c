/* audit_results: selectors held against measured verdicts, in both directions. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/case.h"
#include "harness/tests/tool.h"

/* One verdict as a line of results.jsonl; the step that decides is the backward for train. */
typedef struct verdict {
    const char *text, *backend, *version, *engine, *status, *code, *message, *more;
} verdict;

static size_t put_line(char *out, size_t room, const verdict *v)
{
    at_case c;
    at_error err = {""};
    char canonical[AT_CASE_TEXT_MAX], id[AT_ID_TEXT];
    CHECK_OK(at_case_parse(&c, v->text, &err), &err);
    (void)at_case_print(&c, canonical);
    at_case_id(&c, id);
    bool train = c.pass == AT_PASS_TRAIN;
    return (size_t)snprintf(
        out, room,
        "{\"schema\":\"attest-results-1\",\"id\":\"%s\",\"case\":\"%s\",\"backend\":\"%s\","
        "\"version\":\"%s\",\"engine\":\"%s\",\"status\":\"%s\",\"reason\":\"%s\",\"message\":"
        "\"%s\",\"steps\":[{\"step\":\"claim\",\"status\":\"PASS\",\"reason\":\"\",\"message\":"
        "\"\","
        "\"ms\":0}%s,{\"step\":\"%s\",\"status\":\"%s\",\"reason\":\"%s\",\"message\":\"%s\","
        "\"ms\":1}"
        "]%s}\n",
        id, canonical, v->backend, v->version, v->engine, v->status, v->code, v->message,
        train ? ",{\"step\":\"forward\",\"status\":\"PASS\",\"reason\":\"\",\"message\":\"\","
                "\"ms\":1}"
              : "",
        train ? "backward" : "forward", v->status, v->code, v->message, v->more);
}

#define FA3 "fa3", "3.0.0b1", ""
static const verdict verdicts[] = {
    /* admitted by te-2.20, and fails */
    {"dqk=192:dv=128", FA3, "REFUSED", "refused", "out must have shape (1, 64, 1, 192)", ""},
    {"dqk=160:dv=128", FA3, "REFUSED", "refused", "out must have shape (1, 64, 1, 160)", ""},
    {"sq=128:dqk=64:dv=128", FA3, "WRONG", "beyond_bound", "dv is wrong", ""},
    {"sq=512:dqk=64:dv=128", FA3, "WAIVED", "refused", "out must have shape (1, 64, 1, 64)",
     ",\"measured\":\"REFUSED\",\"waiver\":\"https://example.org/1\""},
    {"dqk=64:pass=fwd", FA3, "CRASH", "signal", "killed by signal 11", ""},
    /* admitted, and right or mute */
    {"dqk=128", FA3, "PASS", "", "", ""},
    {"sq=32:dqk=128", FA3, "SKIP", "mask_hidden", "no mask", ""},
    {"sq=16:dqk=128", FA3, "UNSUPPORTED", "selector", "refused", ""},
    /* refused, and right: by a rule, by the caller's word, when forced */
    {"dqk=192:dv=64", FA3, "PASS", "", "", ""},
    {"dqk=64:layout=bhsd", FA3, "PASS", "", "", ""},
    {"dqk=176:dv=64", FA3, "OVER_REFUSED", "selector", "forced, it is right", ""},
    /* refused, and fails too */
    {"dqk=144:dv=64", FA3, "REFUSED", "refused", "no", ""},
    /* engines: one of two fails */
    {"dqk=64", "cudnn", "9.13.0", "engine1", "PASS", "", "", ""},
    {"dqk=64", "cudnn", "9.13.0", "engine2", "UNWRITTEN", "poison", "dk is not written", ""},
};

static void put_results(const char *name, const verdict *more)
{
    static char text[32768];
    size_t used = 0;
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
        used += put_line(text + used, sizeof text - used, &verdicts[i]);
    }
    used += more != NULL ? put_line(text + used, sizeof text - used, more) : 0;
    CHECK(used < sizeof text);
    at_tool_write(name, text);
}

#define AUDIT "audit --selector te-2.20 --arch sm90 --env fa3=2025-02 --results "

/* The line of the box whose example is that case. */
static const char *line_of(const char *jsonl, const char *text, char line[4096])
{
    char key[256];
    (void)snprintf(key, sizeof key, "\"example\":\"%s\"", text);
    const char *at = strstr(jsonl, key);
    line[0] = '\0';
    if (at != NULL) {
        const char *from = at;
        while (from > jsonl && from[-1] != '\n') {
            from--;
        }
        (void)snprintf(line, 4096, "%.*s", (int)strcspn(from, "\n"), from);
    }
    return line;
}

static void test_both_directions(void)
{
    char line[4096];
    put_results("out/results.jsonl", NULL);
    const at_tool *t = at_tool_run(AUDIT "out --format jsonl");
    CHECK_INT(t->code, 1);
    CHECK_INT(at_tool_count(t->out, "\n"), 8);
    (void)line_of(t->out, "dqk=192:dv=128:arch=sm90", line);
    CHECK_HAS(line, "\"backend\":\"fa3\",\"direction\":\"admits\"");
    CHECK_HAS(line, "\"step\":\"backward\",\"outcome\":\"refuses\",\"tensor\":null");
    CHECK_HAS(line, "\"message\":\"REFUSED, refused: out must have shape (#, #, #, #)\"");
    CHECK_HAS(line, "\"evidence\":\"measured\"");
    CHECK_HAS(line, "on fa3@3.0.0b1: REFUSED, out must have shape (1, 64, 1, 192)\"");
    CHECK_HAS(line, "\"repro\":\"attest repro 'dqk=192:dv=128' --backend fa3\"");
    CHECK_HAS(line, "\"capabilities\":\"fa3@3.0.0b1\"");
    (void)line_of(t->out, "sq=128:dv=128:arch=sm90", line);
    CHECK_HAS(line, "\"outcome\":\"wrong\"");
    CHECK_HAS(line_of(t->out, "sq=512:dv=128:arch=sm90", line), "\"direction\":\"admits\"");
    (void)line_of(t->out, "pass=fwd:arch=sm90", line);
    CHECK_HAS(line, "\"step\":\"forward\",\"outcome\":\"refuses\"");
    CHECK_HAS(line, "CRASH, signal: killed by signal #");
    (void)line_of(t->out, "dqk=192:dv=64:arch=sm90", line);
    CHECK_HAS(line, "\"direction\":\"refuses\"");
    CHECK_HAS(line, "\"refusing_rule\":\"fa3.hdim\"");
    CHECK_HAS(line, "\"message\":null");
    CHECK_HAS(line_of(t->out, "dqk=176:dv=64:arch=sm90", line), "\"direction\":\"refuses\"");
    (void)line_of(t->out, "arch=sm90", line);
    CHECK_HAS(line, "\"backend\":\"fused\",\"direction\":\"admits\"");
    CHECK_HAS(line, "engine engine2: UNWRITTEN");
}

static void test_text(void)
{
    put_results("out/results.jsonl", NULL);
    const at_tool *t = at_tool_run(AUDIT "out/results.jsonl");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "space results: 13 cases decided, 8 contradict what builds did, in 8 boxes");
    CHECK_HAS(t->out, "fa3 is audited against fa3@3.0.0b1\n");
    CHECK_HAS(t->out, "fused is audited against cudnn@9.13.0\n");
    CHECK_HAS(t->out, "fa2 is not audited: the results have no verdict of it\n");
    CHECK_HAS(t->out, "fa3 is admitted, and its backward fails: REFUSED, refused: out must have");
    CHECK_HAS(t->out, "fa3 is refused, and its build runs these cases");
    t = at_tool_run(AUDIT "out --format markdown");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "fa3 is admitted, and its backward fails\n\n> REFUSED, refused: out must");
    CHECK_HAS(t->out, "- Evidence, fa3@3.0.0b1 (fa3@3.0.0b1): measured, case ");
}

/* Waivers, one backend or version of several. */
static void test_choices(void)
{
    const verdict other = {"dqk=80", "fa3", "3.0.0", "", "REFUSED", "refused", "no", ""};
    char line[4096];
    put_results("out/results.jsonl", NULL);
    const at_tool *t = at_tool_run(AUDIT "out --format jsonl --waivers");
    CHECK_INT(at_tool_count(t->out, "\n"), 7);
    CHECK_TEXT(line_of(t->out, "sq=512:dv=128:arch=sm90", line), "");
    t = at_tool_run(AUDIT "out --format jsonl --backend cudnn");
    CHECK_INT(at_tool_count(t->out, "\n"), 1);
    put_results("two/results.jsonl", &other);
    t = at_tool_run(AUDIT "two");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "fa3: the results hold both fa3@3.0.0b1 and fa3@3.0.0: choose one with "
                      "--backend");
    t = at_tool_run(AUDIT "two --format jsonl --backend fa3@3.0.0");
    CHECK_INT(t->code, 1);
    CHECK_INT(at_tool_count(t->out, "\n"), 1);
    CHECK_HAS(t->out, "\"capabilities\":\"fa3@3.0.0\"");
    t = at_tool_run("audit --selector te-2.20 --arch sm90 --env fa3=2026-01 --results two "
                    "--backend cudnn@9.0");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "two holds no verdict of cudnn@9.0");
}

/* A selector and results that agree: exit 0. */
static void test_agreement(void)
{
    static char text[8192];
    const verdict right[] = {{"dqk=128", FA3, "PASS", "", "", ""},
                             {"dqk=512", FA3, "REFUSED", "refused", "head dim", ""}};
    size_t used = put_line(text, sizeof text, &right[0]);
    (void)put_line(text + used, sizeof text - used, &right[1]);
    at_tool_write("agree/results.jsonl", text);
    const at_tool *t = at_tool_run(AUDIT "agree");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "2 cases decided, 0 contradict what builds did, in 0 boxes");
}

static void test_usage(void)
{
    put_results("out/results.jsonl", NULL);
    const at_tool *t = at_tool_run(AUDIT "out --space training");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "audit: --results takes a rule set and no space");
    t = at_tool_run(AUDIT "nowhere");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "nowhere");
    t = at_tool_run("audit --selector te-2.20 --results out");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "asks for the arch: give it as --arch sm90");
    t = at_tool_run("audit --selector te-2.20 --arch sm90 --space training --backend fa3");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "audit: --backend goes with --results");
    at_tool_write("bad/results.jsonl", "{\"schema\":\"attest-results-1\"}\n{}\n");
    t = at_tool_run(AUDIT "bad");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "bad/results.jsonl");
}

/* A real sweep of a modelled build: what selection admits and what fails are one for one. */
static void test_sweep(void)
{
    const at_tool *t = at_tool_run(
        "sweep 'hq=2:sq=128:dqk=192,128:dv=128:layout=sbhd:mask=causal:arch=sm90' --backend "
        "modelled.fa3-2025-02 -q -o swept");
    CHECK_INT(t->code, 0); /* its findings are waived */
    t = at_tool_run(AUDIT "swept");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "2 cases decided, 1 contradict what builds did, in 1 box\n");
    CHECK_HAS(t->out, "fa3 is audited against modelled.fa3-2025-02@3.0.0b1");
    CHECK_HAS(t->out, "evidence modelled, modelled.fa3-2025-02@3.0.0b1: case ");
    CHECK_HAS(t->out, "--backend modelled.fa3-2025-02\n");
    t = at_tool_run("audit --selector te-2.20 --arch sm90 --env fa3=none --results swept");
    CHECK_INT(t->code, 0); /* what is not installed cannot be admitted */
}

const at_test at_tests[] = {{"cli", "both-directions", test_both_directions},
                            {"cli", "text", test_text},
                            {"cli", "choices", test_choices},
                            {"cli", "agreement", test_agreement},
                            {"cli", "usage", test_usage},
                            {"cli", "sweep", test_sweep},
                            {NULL, NULL, NULL}};
