#include "harness/tests/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness/backend.h"
#include "harness/judge/judge.h"

static const char *const text = "hq=2:sq=20:skv=90:dqk=16:dtype=bf16:mask=causal:align=br";

typedef struct bench {
    const at_backend *backend;
    at_arena *arena;
    at_problem p;
    at_gold gold;
} bench;

static void bench_open(bench *b, const char *name)
{
    at_error err = {""};
    at_case c;
    memset(b, 0, sizeof *b);
    b->backend = at_registry_find(name);
    at_reference_options options = {.numeric = b->backend->numeric};
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    CHECK_OK(at_arena_open(&b->arena, &err), &err);
    CHECK_OK(at_problem_open(&b->p, &c, b->arena, &err), &err);
    CHECK_OK(at_reference_run(&b->gold, &b->p, &options, b->arena, &err), &err);
}

static at_status launch(const bench *b, at_step step, at_error *err)
{
    const at_backend *backend = b->backend;
    return step == AT_STEP_FORWARD ? backend->forward(backend, NULL, &b->p, "tile64", err)
                                   : backend->backward(backend, NULL, &b->p, "tile64", err);
}

static at_kind judge(const bench *b, at_step step)
{
    at_error err = {""};
    at_step_verdict verdict;
    memset(&verdict, 0, sizeof verdict);
    CHECK_OK(launch(b, step, &err), &err);
    at_judge_step(&verdict, step, &b->p, &b->gold, &b->backend->contract);
    return verdict.kind;
}

/* Runs the forward in a child whose stdout and stderr go to `out`, waits up to `ms`, then kills it.
 * Returns its wait status, or -1 when it had to be killed. */
static int in_child(const char *name, int out, int ms)
{
    bench b;
    bench_open(&b, name);
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        at_error err = {""};
        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(out, STDERR_FILENO);
        _exit(launch(&b, AT_STEP_FORWARD, &err) == AT_OK ? 42 : 43);
    }
    int status = 0, waited = 0;
    const struct timespec step = {0, 5000000};
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (waited >= ms) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
            status = -1;
            break;
        }
        (void)nanosleep(&step, NULL);
        waited += 5;
    }
    at_arena_close(b.arena);
    return status;
}

static int nowhere(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

/* A death by the signal; sanitizers turn a bad access into a failing exit of their own. */
static void check_dies(const char *name, int signal)
{
    int out = nowhere(), status = in_child(name, out, 10000);
    (void)close(out);
#if defined AT_SANITIZED
    bool died = status != -1 && (WIFSIGNALED(status) || WEXITSTATUS(status) == 1);
#else
    bool died = status != -1 && WIFSIGNALED(status) && WTERMSIG(status) == signal;
#endif
    if (!died) {
        at_test_fail(__FILE__, __LINE__, "%s: wait status %d, want signal %d", name, status,
                     signal);
    }
}

static void deaths(void)
{
    check_dies("mutant.segv", SIGSEGV);
    check_dies("mutant.abort", SIGABRT);
    check_dies("mutant.kill", SIGKILL);
    check_dies("mutant.oob_write_far", SIGSEGV);
    check_dies("mutant.oob_read_far", SIGSEGV);
    int out = nowhere(), status = in_child("mutant.exit0", out, 10000);
    CHECK(status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    (void)close(out);
}

static void endless(void)
{
    int out = nowhere();
    CHECK_INT(in_child("mutant.hang", out, 150), -1);
    CHECK_INT(in_child("mutant.flood", out, 150), -1);
    CHECK_INT(in_child("mutant.sleep_forward", out, 150), -1);
    int status = in_child("mutant.sleep_forward", out, 20000);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    (void)close(out);
}

/* Output of a child that goes on to succeed. */
static void check_writes(const char *name, const char *words)
{
    int ends[2] = {-1, -1};
    char line[65536] = "";
    CHECK(pipe(ends) == 0);
    int status = in_child(name, ends[1], 10000);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    CHECK(read(ends[0], line, sizeof line - 1) > 0);
    CHECK_HAS(line, words);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void noise(void)
{
    check_writes("mutant.print", "library banner, by printf\nlibrary banner, by write\n");
    check_writes("mutant.garbage", "{\"event\":\"verdict\",\"status\":\"PASS\"}\n");
    int out = nowhere(), status = in_child("mutant.close_fds", out, 10000);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    (void)close(out);
}

static void check_kinds(const char *name, at_kind forward, at_kind backward)
{
    bench b;
    bench_open(&b, name);
    CHECK_TEXT(at_kind_names[judge(&b, AT_STEP_FORWARD)], at_kind_names[forward]);
    if (forward == AT_PASS) {
        CHECK_TEXT(at_kind_names[judge(&b, AT_STEP_BACKWARD)], at_kind_names[backward]);
    }
    at_arena_close(b.arena);
}

static void memory(void)
{
    check_kinds("mutant.oob_write", AT_OVERRUN, AT_PASS);
    check_kinds("mutant.oob_write_dv", AT_PASS, AT_OVERRUN);
    check_kinds("mutant.oob_read", AT_NONFINITE, AT_PASS);
    check_kinds("mutant.input_written", AT_CLOBBERED, AT_PASS);
    check_kinds("mutant.print", AT_PASS, AT_PASS);
}

static void answers(void)
{
    bench b;
    at_error err = {""};
    bench_open(&b, "mutant.refuse");
    CHECK_INT(judge(&b, AT_STEP_FORWARD), AT_PASS);
    CHECK_INT(launch(&b, AT_STEP_BACKWARD, &err), AT_REFUSED);
    CHECK_HAS(err.text, "no such head dimension");
    at_arena_close(b.arena);
    bench_open(&b, "mutant.oom");
    CHECK_INT(launch(&b, AT_STEP_FORWARD, &err), AT_NO_MEMORY);
    CHECK_HAS(err.text, "out of memory");
    at_arena_close(b.arena);
}

/* Wrong, right, wrong, right: the second launch under one parent heals the first. */
static void flaky(void)
{
    (void)setenv("TMPDIR", at_test_folder(), 1);
    check_kinds("mutant.flaky", AT_WRONG, AT_PASS);
    check_kinds("mutant.flaky", AT_PASS, AT_PASS);
    check_kinds("mutant.flaky", AT_WRONG, AT_PASS);
    check_kinds("mutant.flaky", AT_PASS, AT_PASS);
}

static void nondet(void)
{
    bench b;
    at_error err = {""};
    bench_open(&b, "mutant.nondet");
    CHECK_INT(judge(&b, AT_STEP_FORWARD), AT_PASS);
    void *copy = calloc(at_judge_keep_size(&b.p, AT_STEP_FORWARD), 1);
    at_judge_keep(&b.p, AT_STEP_FORWARD, copy);
    CHECK_INT(judge(&b, AT_STEP_FORWARD), AT_PASS);
    CHECK(!at_judge_same(&b.p, AT_STEP_FORWARD, copy, &err));
    CHECK_INT(judge(&b, AT_STEP_FORWARD), AT_PASS);
    CHECK(at_judge_same(&b.p, AT_STEP_FORWARD, copy, &err));
    free(copy);
    at_arena_close(b.arena);
}

const at_test at_tests[] = {
    {"mutant", "deaths", deaths},   {"mutant", "endless", endless},
    {"mutant", "noise", noise},     {"mutant", "memory", memory},
    {"mutant", "answers", answers}, {"mutant", "flaky", flaky},
    {"mutant", "nondet", nondet},   {NULL, NULL, NULL},
};
