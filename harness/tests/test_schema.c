/* What is written fits the schemas in reports/schema, and they refuse what is not so; the worker of
 * reports/ in Python is judged like any other. */
#include "harness/tests/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "harness/tests/tool.h"

enum { NO_VALIDATOR = 77 };

/* Exit code of a shell line in the test's folder; its output goes to shell.txt. */
static int shell(const char *line)
{
    char command[4096];
    (void)snprintf(command, sizeof command, "cd '%s' && { %s; } > shell.txt 2>&1", at_test_folder(),
                   line);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static int validate(const char *schema, const char *file)
{
    char line[2048];
    (void)snprintf(line, sizeof line,
                   "python3 '%s/harness/tests/validate.py' '%s/reports/schema/%s.schema.json' '%s'",
                   AT_TEST_SOURCE, AT_TEST_SOURCE, schema, file);
    int code = shell(line);
    if (code == NO_VALIDATOR || code == 127) {
        at_test_skip("python3 with jsonschema is not at hand");
    }
    return code;
}

static void fits(const char *schema, const char *file)
{
    if (validate(schema, file) != 0) {
        char *why = at_tool_read("shell.txt");
        at_test_fail(__FILE__, __LINE__, "%s does not fit %s: %.600s", file, schema, why);
        free(why);
    }
}

static void test_reports(void)
{
    const at_tool *t =
        at_tool_run("sweep sq=4,5:exec=once,side --backend cpu.flash,cpu.naive,mutant.refuse,"
                    "mutant.segv,mutant.flaky,mutant.oob_read -o out");
    CHECK_INT(t->code, 1);
    fits("results", "out/results.jsonl");
    fits("summary", "out/summary.json");
    CHECK_INT(at_tool_run("sweep fa-2552 --filter dv=96 -o modelled")->code, 0);
    fits("results", "modelled/results.jsonl");
    fits("summary", "modelled/summary.json");
    CHECK_INT(shell("xmllint --noout out/junit.xml modelled/junit.xml || [ $? = 127 ]"), 0);
    CHECK_INT(shell("python3 -c 'import sys, xml.etree.ElementTree as e; "
                    "[e.parse(f) for f in sys.argv[1:]]' out/junit.xml modelled/junit.xml"),
              0);
}

static void test_selection(void)
{
    char line[1024];
    (void)snprintf(line, sizeof line,
                   "'%s' select te-3481 --selector te-2.10 --env fa3=2025-02 --format jsonl "
                   "--corpus '%s' > selection.jsonl",
                   AT_TEST_TOOL, AT_TEST_CORPUS);
    CHECK_INT(shell(line), 0);
    fits("selection", "selection.jsonl");
    (void)snprintf(line, sizeof line,
                   "'%s' audit --selector fa4-b11 --space inference --arch sm100 --format jsonl "
                   "--corpus '%s' > audit.jsonl",
                   AT_TEST_TOOL, AT_TEST_CORPUS);
    CHECK_INT(shell(line), 1);
    fits("audit", "audit.jsonl");
    (void)snprintf(line, sizeof line,
                   "'%s' audit --diff te-2.17 te-2.18 --space models --arch sm100 --sweep fa4='*' "
                   "--sweep fused=0,1 --format jsonl --corpus '%s' > diff.jsonl",
                   AT_TEST_TOOL, AT_TEST_CORPUS);
    CHECK_INT(shell(line), 1);
    fits("diff", "diff.jsonl");
    (void)snprintf(line, sizeof line,
                   "'%s' select te-3481 smoke --selector te-2.20 --arch sm90 --why-not fa3 --env "
                   "fa3=2025-02 --format jsonl --corpus '%s' > why-not.jsonl",
                   AT_TEST_TOOL, AT_TEST_CORPUS);
    CHECK_INT(shell(line), 0);
    fits("why-not", "why-not.jsonl");
}

/* Every .json file of a corpus folder. */
static void all_fit(const char *schema, const char *name)
{
    char folder[512], path[1024];
    int n = 0;
    (void)snprintf(folder, sizeof folder, "%s/%s", AT_TEST_CORPUS, name);
    DIR *files = opendir(folder);
    for (struct dirent *e; files != NULL && (e = readdir(files)) != NULL;) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot != NULL && strcmp(dot, ".json") == 0) {
            (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            fits(schema, path);
            n++;
        }
    }
    CHECK(n > 0);
    if (files != NULL) {
        (void)closedir(files);
    }
}

static void test_corpus(void)
{
    fits("waivers", AT_TEST_CORPUS "/waivers.json");
    fits("popular", AT_TEST_CORPUS "/popular.json");
    all_fit("suite", "suites");
    all_fit("known-bugs", "known-bugs");
    all_fit("rules", "selectors");
    all_fit("capabilities", "capabilities");
    all_fit("space", "spaces");
    all_fit("limits", "limits");
}

static void test_audit(void)
{
    const at_tool *t = at_tool_run("audit --selector fa4-b11 --arch sm100 --space training "
                                   "--format jsonl");
    CHECK_INT(t->code, 1);
    at_tool_write("audit.jsonl", t->out);
    fits("audit", "audit.jsonl");
}

static void test_protocol(void)
{
    char line[1024];
    at_tool_write("requests.jsonl",
                  "{\"id\":1,\"case\":\"sq=4\",\"backend\":\"cpu.flash\",\"repeat\":2}\n"
                  "{\"id\":2,\"case\":\"sq=4:exec=replay\",\"backend\":\"cpu.naive\"}\n"
                  "{\"id\":3,\"case\":\"sq=4\",\"backend\":\"nosuch\"}\n");
    fits("protocol", "requests.jsonl");
    (void)snprintf(line, sizeof line, "'%s' worker < requests.jsonl > events.jsonl", AT_TEST_TOOL);
    CHECK_INT(shell(line), 0);
    fits("protocol", "events.jsonl");
    char *events = at_tool_read("events.jsonl");
    CHECK_INT(at_tool_count(events, "\"event\":\"verdict\""), 2);
    CHECK_INT(at_tool_count(events, "\"event\":\"error\""), 1);
    CHECK_INT(at_tool_count(events, "\"event\":\"bye\""), 1);
    free(events);
}

/* A schema that takes anything would check nothing. */
static void test_schemas_bite(void)
{
    at_tool_write("bad.jsonl", "{\"schema\":\"attest-results-1\"}\n");
    CHECK_INT(validate("results", "bad.jsonl"), 1);
    at_tool_write("bad.json", "{\"schema\":\"attest-summary-1\",\"findings\":[]}");
    CHECK_INT(validate("summary", "bad.json"), 1);
    at_tool_write("bad.json", "{\"schema\":\"attest-waivers-1\",\"waivers\":[{\"backend\":\"x\","
                              "\"status\":\"WRONG\",\"issue\":\"https://a.b\"}]}");
    CHECK_INT(validate("waivers", "bad.json"), 1);
    at_tool_write("bad.jsonl", "{\"event\":\"begin\",\"id\":1,\"step\":\"sleep\"}\n");
    CHECK_INT(validate("protocol", "bad.jsonl"), 1);
    at_tool_write("bad.jsonl", "{\"selector\":\"x\",\"case\":\"b=1\",\"winner\":null}\n");
    CHECK_INT(validate("selection", "bad.jsonl"), 1);
    at_tool_write("bad.jsonl", "{\"selector\":\"x\",\"direction\":\"admits\"}\n");
    CHECK_INT(validate("audit", "bad.jsonl"), 1);
    at_tool_write("bad.jsonl", "{\"before\":\"x\",\"after\":\"y\"}\n");
    CHECK_INT(validate("diff", "bad.jsonl"), 1);
    at_tool_write("bad.jsonl", "{\"kill_forward\":1.5}\n");
    CHECK_INT(validate("selftest", "bad.jsonl"), 1);
    at_tool_write("bad.json", "{\"schema\":\"attest-known-bugs-1\",\"library\":\"l\",\"bugs\":"
                              "[{\"id\":\"a\"}]}");
    CHECK(validate("known-bugs", "bad.json") != 0);
    at_tool_write("bad.json", "{\"schema\":\"attest-limits-1\",\"cells\":[]}");
    CHECK_INT(validate("limits", "bad.json"), 1);
    at_tool_write("empty.jsonl", "");
    CHECK_INT(validate("protocol", "empty.jsonl"), 1);
}

/* Python cannot load a library that was built with a sanitizer. */
static void need_python(void)
{
#if defined AT_SANITIZED
    at_test_skip("libattest is sanitized, python3 is not");
#endif
    if (shell("python3 -c 'import ctypes'") != 0) {
        at_test_skip("python3 is not at hand");
    }
}

static void test_python_worker(void)
{
    char folder[512];
    (void)snprintf(folder, sizeof folder, "%s", AT_TEST_TOOL);
    char *slash = strrchr(folder, '/');
    *(slash != NULL ? slash : folder) = '\0';
    need_python();
    const at_tool *t = at_tool_run(
        "sweep sq=1..4:dqk=8:dv=4,8:hq=2:hkv=1:dtype=f32,bf16:pass=fwd:mask=none,causal "
        "--worker 'LIBATTEST=%s/libattest.so.1 exec python3 %s/reports/example_worker.py' "
        "--backend example.python,cpu.naive -o python",
        folder, AT_TEST_SOURCE);
    CHECK_INT(t->code, 0);
    char *lines = at_tool_read("python/results.jsonl");
    CHECK_INT(at_tool_count(lines, "\"backend\":\"example.python\""), 32);
    CHECK_INT(at_tool_count(lines, "\"engine\":\"loops\",\"status\":\"PASS\""), 16 + 32);
    CHECK_INT(at_tool_count(lines, "\"status\":\"UNSUPPORTED\",\"reason\":\"case\",\"message\":"
                                   "\"dtype=bf16 is not served\",\"steps\""),
              16);
    free(lines);
    fits("results", "python/results.jsonl");
}

/* The same worker with one operation wrong, and one that skips the judge, are found out. */
static void test_wrong_python_worker(void)
{
    static const struct {
        const char *edit, *status;
    } edits[] = {{"s/sum(x [*] v/1.05 * &/", "WRONG"},
                 {"s/^        forward(run)$/        pass/", "UNWRITTEN"},
                 {"/at_foreign_judge(run/d", "ERROR"}};
    char line[1024];
    need_python();
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        (void)snprintf(line, sizeof line, "sed '%s' '%s/reports/example_worker.py' > wrong.py",
                       edits[i].edit, AT_TEST_SOURCE);
        CHECK_INT(shell(line), 0);
        const at_tool *t =
            at_tool_run("sweep sq=4:dqk=8:dtype=f32:pass=fwd --backend example.python "
                        "--worker 'LIBATTEST=%.*s/libattest.so.1 exec python3 wrong.py' "
                        "-o wrong",
                        (int)(strrchr(AT_TEST_TOOL, '/') - AT_TEST_TOOL), AT_TEST_TOOL);
        CHECK_INT(t->code, strcmp(edits[i].status, "ERROR") == 0 ? 3 : 1);
        char want[64], *lines = at_tool_read("wrong/results.jsonl");
        (void)snprintf(want, sizeof want, "\"status\":\"%s\"", edits[i].status);
        CHECK_HAS(lines, want);
        free(lines);
    }
}

const at_test at_tests[] = {
    {"cli", "reports", test_reports},
    {"cli", "selection", test_selection},
    {"cli", "corpus", test_corpus},
    {"cli", "audit", test_audit},
    {"cli", "protocol", test_protocol},
    {"cli", "schemas_bite", test_schemas_bite},
    {"cli", "python_worker", test_python_worker},
    {"cli", "wrong_python_worker", test_wrong_python_worker},
    {NULL, NULL, NULL},
};
