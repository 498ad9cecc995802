/* Containment: whatever a backend does to its process, its own verdict is right and so is every
 * other one. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/json.h"
#include "harness/tests/tool.h"

/* A sanitizer turns signals into exits of its own. */
#if defined AT_SANITIZED
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

typedef struct fault {
    const char *backend, *status, *reason;
} fault;

static const fault faults[] = {
    {"cpu.flash", "PASS", ""},
    {"cpu.naive", "PASS", ""},
    {"mutant.segv", "CRASH", "sigsegv"},
    {"mutant.abort", "CRASH", "sigabrt"},
    {"mutant.exit0", "CRASH", "exit_0"},
    {"mutant.kill", "CRASH", "sigkill"},
    {"mutant.hang", "TIMEOUT", "deadline"},
    {"mutant.flood", "CRASH", "output_flood"},
    {"mutant.print", "PASS", ""},
    {"mutant.garbage", "PASS", ""},
    {"mutant.close_fds", "PASS", ""},
    {"mutant.oob_write", "OVERRUN", NULL},
    {"mutant.oob_write_far", "CRASH", "sigsegv"},
    {"mutant.oob_write_dv", "OVERRUN", NULL},
    {"mutant.oob_read", "NONFINITE", NULL},
    {"mutant.oob_read_far", "CRASH", "sigsegv"},
    {"mutant.input_written", "CLOBBERED", NULL},
    {"mutant.refuse", "REFUSED", "refused"},
    {"mutant.oom", "OOM", "no_memory"},
};
enum { FAULTS = sizeof faults / sizeof faults[0] };

static void check_line(const char *line, int seen[FAULTS])
{
    at_json *root = NULL;
    at_error err = {""};
    CHECK_OK(at_json_parse(&root, "line", line, strlen(line), &err), &err);
    const char *backend = at_json_text(at_json_get(root, "backend"));
    for (int i = 0; i < FAULTS; i++) {
        if (strcmp(faults[i].backend, backend) != 0) {
            continue;
        }
        seen[i]++;
        const char *status = at_json_text(at_json_get(root, "status"));
        const char *reason = at_json_text(at_json_get(root, "reason"));
        if (strcmp(status, faults[i].status) != 0) {
            at_test_fail(__FILE__, __LINE__, "%s is %s (%s), want %s", backend, status, reason,
                         faults[i].status);
        }
        bool by_signal = faults[i].reason != NULL && strncmp(faults[i].reason, "sig", 3) == 0;
        if (faults[i].reason != NULL && !(sanitized && by_signal)) {
            CHECK_TEXT(reason, faults[i].reason);
        }
    }
    at_json_close(root);
}

static void check_results(const char *name, int cases)
{
    int seen[FAULTS] = {0}, n = 0;
    char *text = at_tool_read(name);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        check_line(line, seen);
        n++;
    }
    CHECK_INT(n, FAULTS * cases);
    for (int i = 0; i < FAULTS; i++) {
        CHECK_INT(seen[i], cases);
    }
    free(text);
}

static const char *all_backends(void)
{
    static char list[1024];
    size_t used = 0;
    for (int i = 0; i < FAULTS; i++) {
        used +=
            (size_t)snprintf(list + used, sizeof list - used, i ? ",%s" : "%s", faults[i].backend);
    }
    return list;
}

static void test_every_fault(void)
{
    const at_tool *t =
        at_tool_run("sweep sq=8 --backend %s --case-timeout 2 -o one -j1", all_backends());
    CHECK_INT(t->code, 1);
    check_results("one/results.jsonl", 1);
    CHECK_HAS(t->out, "mutant.hang");
    char *page = at_tool_read("one/results.jsonl");
    CHECK_HAS(page, "in forward");
    free(page);
}

static void test_side_by_side(void)
{
    const at_tool *t =
        at_tool_run("sweep sq=8,12 --backend %s --case-timeout 2 -o four -j4", all_backends());
    CHECK_INT(t->code, 1);
    check_results("four/results.jsonl", 2);
}

static void test_flaky(void)
{
    const at_tool *t = at_tool_run("sweep sq=8 --backend mutant.flaky -o flaky -j1");
    CHECK_INT(t->code, 1);
    char *line = at_tool_read("flaky/results.jsonl");
    CHECK_HAS(line, "\"status\":\"FLAKY\",\"reason\":\"runs_disagree\"");
    CHECK_HAS(line, "\"runs\":3");
    free(line);
}

static void test_nondet(void)
{
    const at_tool *t = at_tool_run("sweep sq=96:hq=2 --backend mutant.nondet -o nondet");
    CHECK_INT(t->code, 1);
    CHECK_HAS(t->out, "NONDET");
}

static void test_silent_and_rude_workers(void)
{
#define HELLO                                                                                      \
    "echo "                                                                                        \
    "'{\"event\":\"hello\",\"protocol\":1,\"backends\":[{\"name\":\"w\",\"version\":\"1\"}]}'"
    static const struct {
        const char *then, *status, *reason;
    } workers[] = {
        {"read r; echo rubbish; sleep 99", "CRASH", "protocol"},
        {"read r; echo "
         "'{\\\"event\\\":\\\"verdict\\\",\\\"id\\\":77,\\\"status\\\":\\\"PASS\\\"}'; "
         "sleep 99",
         "CRASH", "protocol"},
        {"read r; exit 5", "CRASH", "exit_5"},
        {"exec >&-; read r; sleep 99", "CRASH", "protocol_closed"},
        {"sleep 99", "TIMEOUT", "deadline"},
        {"read r; head -c 3000000 /dev/zero; sleep 99", "CRASH", "protocol"},
    };
    for (size_t i = 0; i < sizeof workers / sizeof workers[0]; i++) {
        char script[1024];
        (void)snprintf(script, sizeof script, "#!/bin/sh\n%s\n%s\n", HELLO, workers[i].then);
        for (char *c; (c = strstr(script, "\\\"")) != NULL;) {
            memmove(c, c + 1, strlen(c));
        }
        at_tool_write("rude.sh", script);
        const at_tool *t = at_tool_run("sweep sq=8 --worker 'sh rude.sh' --backend w,cpu.naive "
                                       "--case-timeout 1 -o rude");
        CHECK_INT(t->code, 1);
        char want[128], *lines = at_tool_read("rude/results.jsonl");
        (void)snprintf(want, sizeof want, "\"status\":\"%s\",\"reason\":\"%s\"", workers[i].status,
                       workers[i].reason);
        CHECK_HAS(lines, want);
        CHECK_INT(at_tool_count(lines, "\n"), 2);
        CHECK_INT(
            at_tool_count(lines, "\"status\":\"PASS\",\"reason\":\"\",\"message\":\"\",\"steps\""),
            1);
        free(lines);
    }
}

/* A worker that stops saying hello after its first life ends the run with one sentence. */
static void test_worker_that_does_not_come_back(void)
{
    at_tool_write("once.sh",
                  "#!/bin/sh\n[ -e came ] && { echo gone >&2; exit 1; }\ntouch came\n" HELLO
                  "\nread r\nexit 9\n");
    const at_tool *t = at_tool_run("sweep sq=8 --worker 'sh once.sh' --backend w -o once");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "does not start any more; it said: gone");
    CHECK_INT(at_tool_count(t->err, "attest: "), 1);
}

const at_test at_tests[] = {
    {"cli", "every_fault", test_every_fault},
    {"cli", "side_by_side", test_side_by_side},
    {"cli", "flaky", test_flaky},
    {"cli", "nondet", test_nondet},
    {"cli", "silent_and_rude_workers", test_silent_and_rude_workers},
    {"cli", "worker_that_does_not_come_back", test_worker_that_does_not_come_back},
    {NULL, NULL, NULL},
};
