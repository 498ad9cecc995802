/* attest sweep from outside: results, exit codes, selection of cases, waivers, baselines. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/json.h"
#include "harness/tests/tool.h"

/* A number of summary.json: member `key` of `object` ("" is the root); -1 when it is missing. */
static int64_t summary(const char *folder, const char *object, const char *key)
{
    char name[256];
    (void)snprintf(name, sizeof name, "%s/summary.json", folder);
    char *text = at_tool_read(name);
    at_json *root = NULL;
    at_error err = {""};
    int64_t value = -1;
    CHECK_OK(at_json_parse(&root, name, text, strlen(text), &err), &err);
    const at_json *at = *object != '\0' && root != NULL ? at_json_get(root, object) : root;
    const at_json *member = at != NULL ? at_json_get(at, key) : NULL;
    if (member != NULL) {
        (void)at_json_integer(member, &value);
    }
    at_json_close(root);
    free(text);
    return value;
}

static void test_clean(void)
{
    const at_tool *t = at_tool_run("sweep sq=1..6:hq=1,2 --backend cpu.flash,cpu.naive -o clean");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "cpu.flash");
    CHECK_HAS(t->out, "findings: 0 new, 0 waived");
    CHECK_HAS(t->out, "exit 0: complete and clean");
    CHECK_INT(summary("clean", "totals", "PASS"), 24);
    char *lines = at_tool_read("clean/results.jsonl");
    CHECK_INT(at_tool_count(lines, "\n"), 24);
    CHECK_INT(
        at_tool_count(lines, "\"status\":\"PASS\",\"reason\":\"\",\"message\":\"\",\"steps\""), 24);
    free(lines);
}

/* 0 1 2 3 4, each from what the design says of it. */
static void test_exit_codes(void)
{
    CHECK_INT(at_tool_run("sweep sq=4 --backend cpu.naive -o codes")->code, 0);
    CHECK_INT(at_tool_run("sweep sq=4 --backend mutant.refuse -o codes")->code, 1);
    CHECK_INT(at_tool_run("sweep sq=4,5,6 --backend mutant.refuse,mutant.sleep_forward -j1 "
                          "--deadline 0.3s -o codes")
                  ->code,
              2);
    CHECK_INT(summary("codes", "", "exit_code"), 2);
    CHECK(summary("codes", "", "left") > 0);
    CHECK_INT(at_tool_run("sweep nosuch -o codes")->code, 3);
    CHECK_INT(at_tool_run("sweep sq=4:exec=replay --backend cpu.naive -o codes")->code, 4);
    CHECK_INT(at_tool_run("sweep sq=4 --filter sq=5 --backend cpu.naive -o codes")->code, 4);
}

/* One sentence on stderr, nothing on stdout, exit 3, and no output folder. */
static void refuses(const char *arguments, const char *part)
{
    const at_tool *t = at_tool_run("sweep %s", arguments);
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, part);
    CHECK_INT(at_tool_count(t->err, "\n"), 1);
    CHECK(strncmp(t->err, "attest: ", 8) == 0);
    CHECK_TEXT(t->out, "");
}

static void test_bad_input(void)
{
    at_tool_write("plain", "x");
    at_tool_write("dir.json/x", "x");
    at_tool_write("torn.json", "{\"name\":");
    refuses("nosuch", "nosuch");
    refuses("dir.json", "dir.json");
    refuses("torn.json", "torn.json");
    refuses("sq=0..", "sq");
    refuses("sq=4 --frobnicate", "unknown flag \"--frobnicate\"");
    refuses("sq=4 --jobs 0", "--jobs does not accept \"0\"");
    refuses("sq=4 --jobs", "--jobs needs a value");
    refuses("sq=4 --resume=yes", "--resume takes no value");
    refuses("sq=4 --shard 3/2", "--shard does not accept \"3/2\"");
    refuses("sq=4 --case-timeout never", "a time such as");
    refuses("sq=4 --pass sideways", "fwd|stats|train");
    refuses("sq=4 --filter '('", "regular expression");
    refuses("sq=4 --backend nosuch", "no backend \"nosuch\"; at hand are cpu.flash");
    refuses("sq=4 --backend cpu.flash -o plain/below", "plain: not a folder");
    refuses("sq=4 --backend cpu.flash -o /dev/null", "/dev/null: not a folder");
    refuses("sq=4 --baseline nowhere.json", "nowhere.json: cannot be read");
    refuses("sq=4 --baseline torn.json", "torn.json:1:");
    refuses("sq=4 --plugin nowhere.so", "nowhere.so");
    refuses("sq=4 --worker 'sh -c \"exit 3\"'", "no hello: the process left with exit "
                                                "code 3");
    refuses("sq=4 --worker 'echo what; sleep 9'", "not valid JSON");
    refuses("sq=4 --corpus nowhere", "nowhere");
}

static void test_bad_corpus(void)
{
    at_tool_write("corpus1/waivers.json", "{\"schema\":\"attest-waivers-1\",\"waivers\":[{}]}");
    at_tool_write("corpus1/suites/s.json", "{\"name\":\"s\",\"groups\":[{\"name\":\"g\",\"case\":"
                                           "{\"sq\":4}}]}");
    refuses("s --corpus corpus1", "waivers.json: waiver 1: the member \"backend\" is missing");
    at_tool_write("corpus2/suites/s.json",
                  "{\"name\":\"s\",\"selector\":\"broken\",\"serves\":{\"a\":\"cpu.naive\"},"
                  "\"groups\":[{\"name\":\"g\",\"case\":{\"sq\":4}}]}");
    at_tool_write("corpus2/selectors/broken.json", "{\"schema\":\"attest-rules-1\",");
    refuses("s --corpus corpus2", "broken.json");
}

static void test_full_disk(void)
{
    const at_tool *t = NULL;
    char script[512];
    (void)snprintf(
        script, sizeof script,
        "#!/bin/sh\nulimit -f 24\nexec '%s' sweep sq=1..64 --backend cpu.naive -o fulldisk "
        "-j1 2>&1\n",
        AT_TEST_TOOL);
    at_tool_write("small.sh", script);
    char command[600];
    (void)snprintf(command, sizeof command,
                   "cd '%s' && ATTEST_CORPUS='%s' sh small.sh > small.txt; echo $? > small.code",
                   at_test_folder(), AT_TEST_CORPUS);
    CHECK_INT(system(command), 0);
    char *code = at_tool_read("small.code"), *said = at_tool_read("small.txt");
    CHECK_TEXT(code, "3\n");
    CHECK_HAS(said, "a result cannot be written");
    free(code);
    free(said);
    char *before = at_tool_read("fulldisk/results.jsonl");
    int kept = at_tool_count(before, "\n");
    CHECK(kept > 0 && kept < 64);
    t = at_tool_run("sweep sq=1..64 --backend cpu.naive -o fulldisk -j1 --resume");
    CHECK_INT(t->code, 0);
    char *after = at_tool_read("fulldisk/results.jsonl");
    CHECK_INT(at_tool_count(after, "\n"), 64);
    CHECK(strncmp(after, before, strlen(before)) == 0);
    free(before);
    free(after);
}

static void test_torn_results(void)
{
    CHECK_INT(at_tool_run("sweep sq=1..8 --backend cpu.naive -o tear")->code, 0);
    char *text = at_tool_read("tear/results.jsonl");
    text[strlen(text) - 40] = '\0';
    at_tool_write("tear/results.jsonl", text);
    const at_tool *t = at_tool_run("sweep sq=1..8 --backend cpu.naive -o tear --resume");
    CHECK_INT(t->code, 0);
    free(text);
    text = at_tool_read("tear/results.jsonl");
    CHECK_INT(at_tool_count(text, "\n"), 8);
    text[100] = '\n';
    at_tool_write("tear/results.jsonl", text);
    refuses("sq=1..8 --backend cpu.naive -o tear --resume", "tear/results.jsonl: line ");
    free(text);
}

/* Sorted "id backend engine status" lines of a results file. */
static char *verdicts(const char *folder)
{
    char command[1024], name[128];
    (void)snprintf(command, sizeof command,
                   "cd '%s' && sed -E 's/.*\"id\":\"([0-9a-f]+)\".*\"backend\":\"([^\"]*)\".*"
                   "\"engine\":\"([^\"]*)\",\"status\":\"([A-Z_]+)\".*/\\1 \\2 \\3 \\4/' "
                   "%s/results.jsonl | sort > %s.verdicts",
                   at_test_folder(), folder, folder);
    CHECK_INT(system(command), 0);
    (void)snprintf(name, sizeof name, "%s.verdicts", folder);
    return at_tool_read(name);
}

static void test_shards(void)
{
    CHECK_INT(at_tool_run("sweep sq=1..24:hq=1,2 --backend cpu.naive -o whole -j2")->code, 0);
    CHECK_INT(at_tool_run("sweep sq=1..24:hq=1,2 --backend cpu.naive -o single -j1")->code, 0);
    char *whole = verdicts("whole"), *single = verdicts("single");
    CHECK_TEXT(single, whole);
    char *joined = calloc(1, strlen(whole) + 2);
    for (int i = 1; i <= 3; i++) {
        char folder[16];
        (void)snprintf(folder, sizeof folder, "shard%d", i);
        const at_tool *t =
            at_tool_run("sweep sq=1..24:hq=1,2 --backend cpu.naive -o %s --shard %d/3", folder, i);
        CHECK_INT(t->code, 0);
        char *part = verdicts(folder);
        int n = at_tool_count(part, "\n");
        CHECK(n > 4 && n < 30);
        CHECK(strlen(joined) + strlen(part) <= strlen(whole));
        (void)snprintf(joined + strlen(joined), strlen(whole) + 2 - strlen(joined), "%s", part);
        free(part);
    }
    CHECK_INT(strlen(joined), strlen(whole));
    for (char *line = strtok(joined, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        CHECK_HAS(whole, line);
    }
    free(joined);
    free(single);
    free(whole);
}

static void test_choice(void)
{
    const at_tool *t = at_tool_run("sweep sq=1..9 --backend cpu.naive --max-cases 4 -o choice");
    CHECK_INT(t->code, 0);
    CHECK_INT(summary("choice", "totals", "PASS"), 4);
    CHECK_INT(at_tool_run("sweep sq=1..9 --backend cpu.naive --filter 'sq=[34]' -o choice")->code,
              0);
    CHECK_INT(summary("choice", "totals", "PASS"), 2);
    CHECK_INT(
        at_tool_run("sweep sq=1..9 --backend cpu.naive --filter 'sq=[345]' -o choice --resume")
            ->code,
        0);
    CHECK_INT(summary("choice", "totals", "PASS"), 3);
    t = at_tool_run("sweep sq=4 --backend cpu.naive --pass fwd --seed 7 -o choice");
    CHECK_INT(t->code, 0);
    char *lines = at_tool_read("choice/results.jsonl");
    CHECK_HAS(lines, "\"case\":\"sq=4:pass=fwd:seed=7\"");
    free(lines);
    t = at_tool_run("sweep sq=4,5 --backend cpu.naive,cpu.flash --dry-run -o undone");
    CHECK_INT(t->code, 0);
    CHECK_INT(at_tool_count(t->out, "\n"), 4);
    CHECK_HAS(t->out, "cpu.flash@1.0.0 sq=5\n");
    lines = at_tool_read("undone/results.jsonl");
    CHECK_TEXT(lines, "");
    free(lines);
}

static void test_engines(void)
{
    const at_tool *t = at_tool_run("sweep sq=16 --backend cpu.flash --engine tile32 -o engines");
    CHECK_INT(t->code, 0);
    CHECK_INT(at_tool_run("sweep sq=16 --backend cpu.flash --engine all -o engines --resume")->code,
              0);
    char *all = verdicts("engines");
    int n = at_tool_count(all, "\n");
    CHECK(n >= 3);
    CHECK_INT(at_tool_count(all, " tile32 "), 1);
    CHECK_INT(at_tool_count(all, " tile64 "), 1);
    CHECK_INT(at_tool_count(all, " PASS\n"), n);
    free(all);
    CHECK_INT(at_tool_run("sweep sq=16 --backend cpu.flash --engine all -o engines --resume")->code,
              0);
    all = verdicts("engines");
    CHECK_INT(at_tool_count(all, "\n"), n); /* nothing is doubled */
    free(all);
    t = at_tool_run("sweep sq=16 --backend cpu.flash --engine nosuch -o engines");
    CHECK_INT(t->code, 4);
    CHECK_INT(summary("engines", "totals", "UNSUPPORTED"), 1);
}

static void test_repeat(void)
{
    CHECK_INT(at_tool_run("sweep sq=16 --backend cpu.naive --repeat 3 -o repeat")->code, 0);
    char *lines = at_tool_read("repeat/results.jsonl");
    CHECK_HAS(lines, "\"runs\":3,\"hits\":3");
    free(lines);
    CHECK_INT(at_tool_run("sweep sq=16 --backend mutant.refuse -o repeat")->code, 1);
    lines = at_tool_read("repeat/results.jsonl");
    CHECK_HAS(lines, "\"runs\":2,\"hits\":2");
    free(lines);
}

#define WAIVER(when, end)                                                                          \
    "{\"schema\":\"attest-waivers-1\",\"waivers\":[{\"backend\":\"mutant.refuse\",\"when\":"       \
    "\"" when "\",\"status\":\"REFUSED\",\"issue\":\"https://example.org/7\"," end "}]}"

static void test_waivers(void)
{
    at_tool_write("wc/suites/x", "");
    at_tool_write("wc/waivers.json", WAIVER("sq == 4", "\"until\":\"2999-01-01\""));
    const at_tool *t = at_tool_run("sweep sq=4 --backend mutant.refuse --corpus wc -o w");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "findings: 0 new, 1 waived");
    CHECK_HAS(t->out, "waived: https://example.org/7");
    CHECK_INT(summary("w", "totals", "WAIVED"), 1);
    char *lines = at_tool_read("w/results.jsonl");
    CHECK_HAS(lines, "\"status\":\"WAIVED\"");
    CHECK_HAS(lines, "\"measured\":\"REFUSED\"");
    CHECK_HAS(lines, "\"waiver\":\"https://example.org/7\"");
    free(lines);

    at_tool_write("wc/waivers.json", WAIVER("sq == 5", "\"until\":\"2999-01-01\""));
    t = at_tool_run("sweep sq=4 --backend mutant.refuse --corpus wc -o w --resume");
    CHECK_INT(t->code, 1); /* removed: what was waived counts, without running it again */
    CHECK_INT(summary("w", "totals", "REFUSED"), 1);

    at_tool_write("wc/waivers.json", WAIVER("sq == 4", "\"until\":\"2020-01-01\""));
    t = at_tool_run("sweep sq=4 --backend mutant.refuse --corpus wc -o w");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "its waiver has expired: https://example.org/7");

    at_tool_write("wc/waivers.json", WAIVER("sq == 4", "\"fixed_in\":\"1.0.0\""));
    CHECK_INT(at_tool_run("sweep sq=4 --backend mutant.refuse --corpus wc -o w")->code, 1);

    at_tool_write("wc/waivers.json", WAIVER("sq < 9", "\"fixed_in\":\"99\""));
    t = at_tool_run("sweep sq=4:pass=fwd --backend mutant.refuse --corpus wc -o w");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "XPASS");
    CHECK_INT(summary("w", "totals", "XPASS"), 1);
}

/* A waiver that a whole run never meets is told; one that was filtered away is not. */
static void test_unmatched_waiver(void)
{
    at_tool_write("uc/suites/s.json", "{\"name\":\"s\",\"backends\":[\"mutant.refuse\"],\"groups\":"
                                      "[{\"name\":\"g\",\"cases\":[\"sq=4:pass=fwd\"]}]}");
    at_tool_write("uc/waivers.json", WAIVER("sq == 5", "\"fixed_in\":\"99\""));
    const at_tool *t = at_tool_run("sweep s --corpus uc --limits none -q -o u");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->err,
              "warning: the waiver of https://example.org/7 for mutant.refuse matched no case");
    t = at_tool_run("sweep s --corpus uc --limits none --filter sq=4 -q -o u");
    CHECK_TEXT(t->err, "");
    CHECK_INT(at_tool_run("sweep sq=4 --backend cpu.naive --corpus uc --limits none -q -o u")->code,
              0);
}

static void test_baseline(void)
{
    CHECK_INT(at_tool_run("sweep sq=4 --backend mutant.refuse -o base")->code, 1);
    const at_tool *t =
        at_tool_run("sweep sq=4,5 --backend mutant.refuse -o next --baseline base/summary.json");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "findings: 0 new, 1 in the baseline, 0 waived");
    t = at_tool_run("sweep sq=4 --backend mutant.refuse,mutant.segv -o next "
                    "--baseline base/summary.json");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "findings: 1 new, 1 in the baseline");
}

static void test_deterministic_summary(void)
{
    char *text[2];
    for (int i = 0; i < 2; i++) {
        const at_tool *t = at_tool_run("sweep sq=1..8 --backend cpu.flash,cpu.naive,mutant.refuse "
                                       "-o same%d -j%d",
                                       i, i + 1);
        CHECK_INT(t->code, 1);
        char name[64];
        (void)snprintf(name, sizeof name, "same%d/summary.json", i);
        text[i] = at_tool_read(name);
        char *run = strstr(text[i], "\"run\":"), *end = run ? strchr(run, '}') : NULL;
        CHECK(end != NULL);
        if (end != NULL) {
            memmove(run, end, strlen(end) + 1); /* the one member that is declared volatile */
        }
        CHECK(strstr(text[i], at_test_folder()) == NULL);
    }
    CHECK_TEXT(text[1], text[0]);
    free(text[0]);
    free(text[1]);
}

static void test_output_forms(void)
{
    const at_tool *t =
        at_tool_run("sweep sq=4,5 --backend cpu.naive --format jsonl -o forms -q --color never");
    CHECK_INT(t->code, 0);
    char *lines = at_tool_read("forms/results.jsonl");
    CHECK_INT(at_tool_count(t->out, "\n"), 2);
    CHECK_INT(strlen(t->out), strlen(lines));
    CHECK_TEXT(t->err, "");
    free(lines);
    t = at_tool_run("sweep sq=4 --backend cpu.naive -v -o forms");
    CHECK_HAS(t->out, "run   cpu.naive sq=4\nPASS cpu.naive sq=4\n");
    t = at_tool_run("sweep sq=4 --backend mutant.refuse --color always -o forms");
    CHECK_HAS(t->out, "\033[31mREFUSED\033[0m");
    CHECK_HAS(t->err, "REFUSED mutant.refuse backward sq=4");
    t = at_tool_run("sweep --help");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "usage: attest sweep [flags] [SUITE|CASE...]");
    CHECK_HAS(t->out, "--case-timeout TIME");
    CHECK(strstr(t->out, "--dump") == NULL);
}

/* The line that a finding prints runs the same case to the same end. */
static void test_repro_line(void)
{
    const at_tool *t = at_tool_run("sweep hq=4:hkv=2:sq=9:mask=causal --backend mutant.segv -o rl");
    char line[1024] = "";
    const char *at = strstr(t->out, " repro ");
    if (at != NULL) {
        (void)snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    }
    CHECK_HAS(line, " repro hq=4:hkv=2:sq=9:mask=causal --backend mutant.segv");
    t = at_tool_run("%s", line);
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "verdict   CRASH");
    char *page = at_tool_read("rl/junit.xml");
    CHECK_HAS(page, "attest repro hq=4:hkv=2:sq=9:mask=causal --backend mutant.segv");
    free(page);
}

/* A rule set that refuses short queries and never asks for more. */
static void write_selecting_corpus(void)
{
    at_tool_write(
        "sc/selectors/picky.json",
        "{\"schema\":\"attest-rules-1\",\"name\":\"picky\",\"doc\":\"d\",\"source\":\"s\","
        "\"env\":{\"old\":{\"type\":\"bool\",\"default\":false,\"doc\":\"d\"}},"
        "\"backends\":[{\"name\":\"n\",\"doc\":\"d\"},{\"name\":\"r\",\"doc\":\"d\"}],"
        "\"rules\":[{\"id\":\"short\",\"off\":[\"n\",\"r\"],\"when\":\"sq < 6 && !old\","
        "\"why\":\"too short\",\"source\":\"s\"}],\"prefer\":[{\"order\":[\"n\",\"r\"]}]}");
    at_tool_write(
        "sc/suites/s.json",
        "{\"name\":\"s\",\"selector\":\"picky\",\"serves\":{\"n\":\"cpu.naive\",\"r\":"
        "\"mutant.refuse\"},\"groups\":[{\"name\":\"g\",\"cases\":[\"sq=5\",\"sq=7\"]}]}");
}

static void test_selected(void)
{
    write_selecting_corpus();
    const at_tool *t = at_tool_run("sweep s --corpus sc -o sel");
    CHECK_INT(t->code, 1); /* admitted, and its backward refuses */
    char *lines = at_tool_read("sel/results.jsonl");
    CHECK_INT(at_tool_count(lines, "\n"), 4);
    CHECK_INT(at_tool_count(lines, "\"status\":\"UNSUPPORTED\",\"reason\":\"selector\",\"message\":"
                                   "\"picky refuses n, rule short: too short\",\"steps\""),
              1);
    CHECK_INT(at_tool_count(lines, "\"admitted_by\":[\"picky\"]"), 2);
    CHECK_INT(at_tool_count(lines, "\"admitted_by\":[]"), 2);
    free(lines);
    CHECK_INT(at_tool_run("sweep s --corpus sc --backend cpu.naive -o sel")->code, 0);
    CHECK_INT(summary("sel", "totals", "UNSUPPORTED"), 1);

    t = at_tool_run("sweep s --corpus sc --force-refused --backend cpu.naive -o sel");
    CHECK_INT(t->code, 0);
    CHECK_INT(summary("sel", "totals", "OVER_REFUSED"), 1);
    CHECK_HAS(t->out, "rule short: too short; forced, it is right");
    t = at_tool_run("sweep s --corpus sc --force-refused --strict --backend cpu.naive -o sel");
    CHECK_INT(t->code, 1);
    t = at_tool_run("sweep s --corpus sc --force-refused --backend mutant.refuse -o sel");
    CHECK_INT(t->code, 1);
    CHECK_INT(summary("sel", "totals", "UNSUPPORTED"), 1); /* refused with good reason */
    CHECK_INT(summary("sel", "totals", "REFUSED"), 1);
}

static void test_forced(void)
{
    const at_tool *t =
        at_tool_run("sweep sq=4:exec=replay --backend cpu.naive --force-refused -o f");
    CHECK_INT(t->code, 4); /* the claim says no too */
    CHECK_INT(at_tool_run("sweep sq=4 --backend cpu.naive --force-refused --strict -o f")->code, 0);
}

const at_test at_tests[] = {
    {"cli", "clean", test_clean},
    {"cli", "exit_codes", test_exit_codes},
    {"cli", "bad_input", test_bad_input},
    {"cli", "bad_corpus", test_bad_corpus},
    {"cli", "full_disk", test_full_disk},
    {"cli", "torn_results", test_torn_results},
    {"cli", "shards", test_shards},
    {"cli", "choice", test_choice},
    {"cli", "engines", test_engines},
    {"cli", "repeat", test_repeat},
    {"cli", "waivers", test_waivers},
    {"cli", "unmatched_waiver", test_unmatched_waiver},
    {"cli", "baseline", test_baseline},
    {"cli", "deterministic_summary", test_deterministic_summary},
    {"cli", "output_forms", test_output_forms},
    {"cli", "repro_line", test_repro_line},
    {"cli", "selected", test_selected},
    {"cli", "forced", test_forced},
    {NULL, NULL, NULL},
};
