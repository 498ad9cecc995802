/* results.jsonl: lines in and out, torn and bad ones, locks, full disks; several runs as one. */
#include "harness/tests/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/run/attempt.h"
#include "harness/run/results.h"
#include "harness/tests/tool.h"

static const char *folder(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", at_test_folder(), name);
    return path;
}

static void fail_tensor(at_verdict *v, at_step step, at_tensor_id t, at_kind kind)
{
    at_step_verdict *s = &v->step[step];
    s->ran = true;
    s->kind = kind;
    s->m[t].judged = true;
    s->m[t].kind = kind;
    s->m[t].max_ratio = 17.5;
    s->m[t].index[2] = 5;
    s->m[t].got = 1;
    s->m[t].want = 2;
    s->m[t].bound = 0.25;
    (void)snprintf(s->reason.code, sizeof s->reason.code, "bound");
    (void)snprintf(s->reason.text, sizeof s->reason.text, "dv is off");
    at_verdict_settle(v);
}

/* A line of case b=N. */
static at_json *line_of(int64_t batch, const char *engine, at_kind kind)
{
    static at_verdict v;
    at_case c;
    at_case_init(&c);
    c.batch = batch;
    at_verdict_init(&v);
    if (kind == AT_PASS) {
        v.step[AT_STEP_FORWARD].ran = true;
    } else {
        fail_tensor(&v, AT_STEP_BACKWARD, AT_DV, kind);
    }
    at_record_frame frame = {.c = &c,
                             .backend = "x.y",
                             .version = "1.0",
                             .engine = engine,
                             .engines = "a\nb",
                             .admitted_by = "te-2.10\nother",
                             .output = kind == AT_PASS ? NULL : "last words",
                             .measured = kind,
                             .runs = 3,
                             .hits = 2};
    return at_record_make(&frame, &v);
}

static at_status add(at_results *r, int64_t batch, const char *engine, at_kind kind, at_error *err)
{
    at_json *line = line_of(batch, engine, kind);
    at_status status = at_results_add(r, line, err);
    at_json_close(line);
    return status;
}

static void test_record(void)
{
    at_json *line = line_of(2, "a", AT_WRONG);
    at_record r;
    at_error err = {""};
    CHECK_OK(at_record_read(&r, line, &err), &err);
    CHECK_TEXT(r.case_text, "b=2");
    CHECK_TEXT(r.backend, "x.y");
    CHECK_TEXT(r.engines, "a\nb");
    CHECK_TEXT(r.admitted_by, "te-2.10\nother");
    CHECK_TEXT(r.output, "last words");
    CHECK_TEXT(r.signature, "x.y|WRONG|bound|backward.dv|bf16 mha dqk=dv mask=none");
    CHECK_INT(r.kind, AT_WRONG);
    CHECK_INT(r.measured, AT_WRONG);
    CHECK_INT(r.step, AT_STEP_BACKWARD);
    CHECK_INT(r.tensor, AT_DV);
    CHECK_INT(r.runs, 3);
    CHECK_INT(r.hits, 2);
    CHECK_INT(r.index[2], 5);
    CHECK(r.max_ratio == 17.5 && r.got == 1 && r.want == 2 && r.bound == 0.25);
    at_record_close(&r);
    at_json_put_text(line, "measured", "SOMEHOW");
    CHECK_INT(at_record_read(&r, line, &err), AT_INVALID);
    CHECK_HAS(err.text, "no status \"SOMEHOW\"");
    at_json_close(line);
}

static void refuses_line(const char *text, const char *part)
{
    at_json *line = NULL;
    at_record r;
    at_error err = {""};
    CHECK_OK(at_json_parse(&line, "t", text, strlen(text), &err), &err);
    CHECK_INT(at_record_read(&r, line, &err), AT_INVALID);
    CHECK_HAS(err.text, part);
    at_json_close(line);
}

static void test_bad_records(void)
{
    refuses_line("[]", "object");
    refuses_line("{\"status\":\"PASS\"}", "\"schema\" is missing");
    refuses_line("{\"status\":\"PASS\",\"schema\":\"attest-results-9\"}", "attest-results-9");
    refuses_line("{\"status\":\"PASS\",\"schema\":\"attest-results-1\",\"id\":\"xyz\"}",
                 "16 hex digits");
    refuses_line(
        "{\"status\":\"PASS\",\"schema\":\"attest-results-1\",\"id\":\"0123456789abcdef\"}",
        "\"case\" is missing");
    refuses_line("{\"schema\":\"attest-results-1\",\"status\":\"FINE\"}", "FINE");
}

static void test_append_and_resume(void)
{
    at_results *r = NULL;
    at_error err = {""};
    const char *path = folder("append/deep/er");
    CHECK_OK(at_results_open(&r, path, false, &err), &err);
    for (int i = 1; i <= 600; i++) {
        CHECK_OK(add(r, i, "a", AT_PASS, &err), &err);
    }
    CHECK_OK(add(r, 1, "b", AT_WRONG, &err), &err);
    CHECK_INT(add(r, 7, "a", AT_PASS, &err), AT_INVALID);
    CHECK_HAS(err.text, "stands twice");
    at_results_close(r);

    CHECK_OK(at_results_open(&r, path, true, &err), &err);
    CHECK_INT(at_results_size(r), 601);
    at_case c;
    char id[AT_ID_TEXT];
    at_case_init(&c);
    c.batch = 599;
    at_case_id(&c, id);
    const at_record *found = at_results_find(r, id, "x.y", "1.0", "a");
    CHECK(found != NULL && strcmp(found->case_text, "b=599") == 0);
    CHECK(at_results_find(r, id, "x.y", "1.0", "b") == NULL);
    CHECK(at_results_find(r, id, "x.y", "1.1", "a") == NULL);
    CHECK(at_results_find(r, id, "x.y", "1.0", NULL) == found);
    CHECK_OK(add(r, 601, "a", AT_PASS, &err), &err);
    at_results_close(r);

    CHECK_OK(at_results_open(&r, path, false, &err), &err); /* afresh; the old one is kept */
    CHECK_INT(at_results_size(r), 0);
    at_results_close(r);
    CHECK_OK(at_results_read(&r, folder("append/deep/er/results.old.jsonl"), &err), &err);
    CHECK_INT(at_results_size(r), 602);
    at_results_close(r);
    CHECK_INT(at_results_read(&r, folder("nowhere"), &err), AT_IO);
}

static void write_lines(const char *name, const char *tail)
{
    at_results *r = NULL;
    at_error err = {""};
    char path[600];
    CHECK_OK(at_results_open(&r, folder(name), false, &err), &err);
    CHECK_OK(add(r, 1, "a", AT_PASS, &err), &err);
    CHECK_OK(add(r, 2, "a", AT_PASS, &err), &err);
    at_results_close(r);
    (void)snprintf(path, sizeof path, "%s/results.jsonl", folder(name));
    FILE *file = fopen(path, "a");
    CHECK(file != NULL && fputs(tail, file) >= 0 && fclose(file) == 0);
}

static void test_torn_lines(void)
{
    at_results *r = NULL;
    at_error err = {""};
    write_lines("torn", "{\"schema\":\"attest-res");
    CHECK_OK(at_results_open(&r, folder("torn"), true, &err), &err);
    CHECK_INT(at_results_size(r), 2);
    CHECK_OK(add(r, 3, "a", AT_PASS, &err), &err);
    at_results_close(r);
    CHECK_OK(at_results_read(&r, folder("torn"), &err), &err);
    CHECK_INT(at_results_size(r), 3);
    at_results_close(r);

    write_lines("bad", "{\"schema\":\"attest-res\n");
    CHECK_INT(at_results_open(&r, folder("bad"), true, &err), AT_INVALID);
    CHECK_HAS(err.text, "line 3");
    CHECK(r == NULL);
    write_lines("binary", "\xff\xfe\n");
    CHECK_INT(at_results_open(&r, folder("binary"), true, &err), AT_INVALID);
    CHECK_HAS(err.text, "line 3: not UTF-8");
}

static void test_lock(void)
{
    at_results *r = NULL, *second = NULL;
    at_error err = {""};
    CHECK_OK(at_results_open(&r, folder("lock"), false, &err), &err);
    CHECK_INT(at_results_open(&second, folder("lock"), true, &err), AT_IO);
    CHECK_HAS(err.text, "another attest is writing it");
    CHECK_INT(at_results_open(&second, folder("lock"), false, &err), AT_IO);
    at_results_close(r);
    CHECK_OK(at_results_open(&second, folder("lock"), true, &err), &err);
    at_results_close(second);
}

static void test_bad_folders(void)
{
    at_results *r = NULL;
    at_error err = {""};
    at_tool_write("file", "x");
    CHECK_INT(at_results_open(&r, folder("file/below"), false, &err), AT_IO);
    CHECK_HAS(err.text, "file: not a folder");
    at_tool_write("taken/results.jsonl/x", "x");
    CHECK_INT(at_results_open(&r, folder("taken"), false, &err), AT_IO);
    CHECK_HAS(err.text, "results.jsonl: cannot be opened");
}

/* A file limit stands for a full disk. What was there before stays readable, whole. */
static void test_full_disk(void)
{
    const char *path = folder("full"); /* made here, not in the child */
    pid_t pid = fork();
    if (pid == 0) {
        at_results *r = NULL;
        at_error err = {""};
        struct rlimit limit = {5000, 5000};
        (void)signal(SIGXFSZ, SIG_IGN);
        at_status status = at_results_open(&r, path, false, &err);
        if (status != AT_OK || setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            _exit(100);
        }
        int written = 0;
        while (written < 90 && add(r, written + 1, "a", AT_WRONG, &err) == AT_OK) {
            written++;
        }
        bool told = strstr(err.text, "cannot be written") != NULL;
        _exit(told ? written : 101);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    int written = WEXITSTATUS(status);
    CHECK(written > 1 && written < 90);
    at_results *r = NULL;
    at_error err = {""};
    CHECK_OK(at_results_read(&r, folder("full"), &err), &err);
    CHECK_INT(at_results_size(r), written);
    at_results_close(r);
    char *text = at_tool_read("full/results.jsonl");
    CHECK_INT(at_tool_count(text, "\n"), written);
    CHECK(strlen(text) > 0 && text[strlen(text) - 1] == '\n');
    free(text);
}

static at_verdict *verdict(at_kind kind, const char *code)
{
    static at_verdict v;
    at_verdict_init(&v);
    v.kind = kind;
    (void)snprintf(v.reason.code, sizeof v.reason.code, "%s", code);
    return &v;
}

static void settles(const at_attempt *a, at_kind kind, int hits, int runs)
{
    static at_verdict v;
    int got_runs = 0, got_hits = 0;
    at_attempt_settle(a, &v, &got_runs, &got_hits);
    CHECK_TEXT(at_kind_names[v.kind], at_kind_names[kind]);
    CHECK_INT(got_runs, runs);
    CHECK_INT(got_hits, hits);
}

static void test_attempts(void)
{
    static at_attempt a;
    CHECK_INT(at_attempt_add(&a, verdict(AT_PASS, ""), 1, true), AT_NEXT_REPORT);
    settles(&a, AT_PASS, 1, 1);

    a = (at_attempt){0};
    CHECK_INT(at_attempt_add(&a, verdict(AT_WRONG, "bound"), 1, true), AT_NEXT_FRESH);
    CHECK_INT(at_attempt_add(&a, verdict(AT_WRONG, "bound"), 1, true), AT_NEXT_REPORT);
    settles(&a, AT_WRONG, 2, 2);

    a = (at_attempt){0};
    CHECK_INT(at_attempt_add(&a, verdict(AT_WRONG, "bound"), 1, true), AT_NEXT_FRESH);
    CHECK_INT(at_attempt_add(&a, verdict(AT_PASS, ""), 1, true), AT_NEXT_FRESH);
    CHECK_INT(at_attempt_add(&a, verdict(AT_PASS, ""), 1, true), AT_NEXT_REPORT);
    settles(&a, AT_FLAKY, 1, 3);

    a = (at_attempt){0};
    CHECK_INT(at_attempt_add(&a, verdict(AT_TIMEOUT, "deadline"), 1, true), AT_NEXT_ALONE);
    CHECK_INT(at_attempt_add(&a, verdict(AT_TIMEOUT, "deadline"), 1, true), AT_NEXT_REPORT);
    settles(&a, AT_TIMEOUT, 2, 2);

    a = (at_attempt){0};
    CHECK_INT(at_attempt_add(&a, verdict(AT_CRASH, "sigsegv"), 1, true), AT_NEXT_FRESH);
    CHECK_INT(at_attempt_add(&a, verdict(AT_CRASH, "sigabrt"), 1, true), AT_NEXT_FRESH);
    CHECK_INT(at_attempt_add(&a, verdict(AT_CRASH, "sigabrt"), 1, true), AT_NEXT_REPORT);
    settles(&a, AT_FLAKY, 2, 3);
}

static void test_excuses(void)
{
    static at_attempt a;
    CHECK_INT(at_attempt_add(&a, verdict(AT_OOM, "no_memory"), 1, true), AT_NEXT_ALONE);
    CHECK_INT(at_attempt_add(&a, verdict(AT_PASS, ""), 1, true), AT_NEXT_REPORT);
    settles(&a, AT_PASS, 1, 1);

    a = (at_attempt){0};
    CHECK_INT(at_attempt_add(&a, verdict(AT_OOM, "no_memory"), 1, true), AT_NEXT_ALONE);
    CHECK_INT(at_attempt_add(&a, verdict(AT_OOM, "no_memory"), 1, true), AT_NEXT_REPORT);
    settles(&a, AT_OOM, 2, 2);

    a = (at_attempt){0};
    for (int i = 0; i < 6; i++) { /* before the launch */
        CHECK_INT(at_attempt_add(&a, verdict(AT_CRASH, "sigkill"), 1, true), AT_NEXT_ALONE);
    }
    for (int i = 0; i < 4; i++) {
        at_verdict *v = verdict(AT_CRASH, "sigkill");
        v->step[AT_STEP_FORWARD].ran = true;
        CHECK_INT(at_attempt_add(&a, v, 1, true), i < 3 ? AT_NEXT_ALONE : AT_NEXT_REPORT);
    }
    settles(&a, AT_CRASH, 10, 10);

    a = (at_attempt){0};
    for (int i = 0; i < 3; i++) { /* the reference was killed */
        CHECK_INT(at_attempt_add(&a, verdict(AT_ERROR, "reference_sigkill"), 1, true),
                  AT_NEXT_ALONE);
    }
    CHECK_INT(at_attempt_add(&a, verdict(AT_PASS, ""), 1, true), AT_NEXT_REPORT);
    settles(&a, AT_PASS, 1, 1);

    a = (at_attempt){0};
    CHECK_INT(at_attempt_add(&a, verdict(AT_CRASH, "sigkill"), 1, true), AT_NEXT_ALONE);
    CHECK_INT(at_attempt_add(&a, verdict(AT_WRONG, "bound"), 1, true), AT_NEXT_FRESH);
    CHECK_INT(at_attempt_add(&a, verdict(AT_WRONG, "bound"), 1, true), AT_NEXT_REPORT);
    settles(&a, AT_WRONG, 2, 2);

    a = (at_attempt){0}; /* forced by --force-refused: a failure is no news */
    CHECK_INT(at_attempt_add(&a, verdict(AT_WRONG, "bound"), 1, false), AT_NEXT_REPORT);
    settles(&a, AT_WRONG, 1, 1);

    a = (at_attempt){0};
    CHECK_INT(at_attempt_add(&a, verdict(AT_PASS, ""), 3, true), AT_NEXT_AGAIN);
    CHECK_INT(at_attempt_add(&a, verdict(AT_PASS, ""), 3, true), AT_NEXT_AGAIN);
    CHECK_INT(at_attempt_add(&a, verdict(AT_PASS, ""), 3, true), AT_NEXT_REPORT);
    settles(&a, AT_PASS, 3, 3);

    a = (at_attempt){0};
    CHECK_INT(at_attempt_add(&a, verdict(AT_SKIP, "bias"), 3, true), AT_NEXT_REPORT);
    settles(&a, AT_SKIP, 1, 1);
}

const at_test at_tests[] = {
    {"unit", "record", test_record},
    {"unit", "bad_records", test_bad_records},
    {"unit", "append_and_resume", test_append_and_resume},
    {"unit", "torn_lines", test_torn_lines},
    {"unit", "lock", test_lock},
    {"unit", "bad_folders", test_bad_folders},
    {"unit", "full_disk", test_full_disk},
    {"unit", "attempts", test_attempts},
    {"unit", "excuses", test_excuses},
    {NULL, NULL, NULL},
};
