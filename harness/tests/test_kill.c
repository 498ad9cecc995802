/* Deaths at any moment: of workers, of the runner, by signals. After --resume nothing is lost,
 * nothing is doubled, and every verdict is that of an undisturbed run. */
#include "harness/tests/test.h"

#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/run/process.h"
#include "harness/tests/tool.h"

enum { KILLS = 110, CHILDREN = 64 };
#define SUITE "'sq=1..30:hq=1,2' --backend cpu.flash,cpu.naive,mutant.refuse -j2 --case-timeout 30"

static uint32_t random_below(uint32_t n)
{
    static uint64_t state = 20260615;
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(state >> 33) % n;
}

/* Direct children of a process. */
static int children_of(pid_t parent, pid_t out[CHILDREN])
{
    int n = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        char path[300];
        int pid = 0, ppid = 0;
        char state = 0;
        if (!isdigit((unsigned char)e->d_name[0])) {
            continue;
        }
        (void)snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            if (fscanf(file, "%d (%*[^)]) %c %d", &pid, &state, &ppid) == 3 && ppid == parent &&
                state != 'Z' && n < CHILDREN) {
                out[n++] = pid;
            }
            (void)fclose(file);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return n;
}

static bool is_gone(pid_t pid)
{
    char path[64], state = 'Z';
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return true;
    }
    bool read = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    (void)fclose(file);
    return !read || state == 'Z';
}

static void expect_gone(const pid_t *pids, int n)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 1000 && !is_gone(pids[i]); k++) {
            (void)poll(NULL, 0, 10);
        }
        CHECK(is_gone(pids[i]));
    }
}

/* Sorted "id backend engine status reason runs" lines: what must not depend on deaths. */
static char *verdicts(const char *folder)
{
    char command[1024], name[128];
    (void)snprintf(command, sizeof command,
                   "cd '%s' && sed -E 's/.*\"id\":\"([0-9a-f]+)\".*\"backend\":\"([^\"]*)\".*"
                   "\"engine\":\"([^\"]*)\",\"status\":\"([A-Z_]+)\",\"reason\":\"([a-z_0-9]*)\".*/"
                   "\\1 \\2 \\3 \\4 \\5/' %s/results.jsonl | sort > %s.verdicts",
                   at_test_folder(), folder, folder);
    CHECK_INT(system(command), 0);
    (void)snprintf(name, sizeof name, "%s.verdicts", folder);
    return at_tool_read(name);
}

/* Tells the first difference only: the texts are long. */
static void expect_same(const char *got, const char *want)
{
    size_t n = 0;
    while (got[n] != '\0' && got[n] == want[n]) {
        n++;
    }
    if (got[n] != want[n]) {
        for (; n > 0 && want[n - 1] != '\n'; n--) {
        }
        at_test_fail(__FILE__, __LINE__, "got \"%.80s\", want \"%.80s\"", got + n, want + n);
    }
}

static char *undisturbed(void)
{
    CHECK_INT(at_tool_run("sweep " SUITE " -q -o calm")->code, 1);
    char *calm = verdicts("calm");
    CHECK_INT(at_tool_count(calm, "\n"), 30 * 2 * 3);
    CHECK_INT(at_tool_count(calm, " PASS "), 30 * 2 * 2);
    CHECK_INT(at_tool_count(calm, " REFUSED refused"), 30 * 2);
    return calm;
}

/* How long a tool lives that runs one case: start-up is slow under sanitizers and on busy machines.
 */
static double life(void)
{
    double start = at_clock();
    CHECK_INT(at_tool_run("sweep sq=1 --backend cpu.naive -q -o one")->code, 0);
    double seconds = at_clock() - start;
    return seconds > 0.02 ? seconds : 0.02;
}

/* One run from start to end, with a death after every one to four `pace`; returns the number of
 * kills.
 */
static int disturbed_run(const char *folder, int runner_share, double pace)
{
    int kills = 0, code = -1;
    for (int lives = 0; code < 0 && lives < 400; lives++) {
        pid_t runner = at_tool_start("disturbed", "sweep " SUITE " -q --resume -o %s", folder);
        while (code < 0) {
            pid_t workers[CHILDREN];
            int status = 0;
            (void)poll(NULL, 0, (int)(1e3 * pace * (0.7 + 0.03 * random_below(100))));
            if (waitpid(runner, &status, WNOHANG) == runner) {
                code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
                break;
            }
            int n = children_of(runner, workers);
            if ((int)random_below(100) < runner_share) {
                (void)kill(runner, SIGKILL);
                int end = at_tool_wait(runner);
                code = end != 128 + SIGKILL ? end : code; /* it was faster */
                kills += end == 128 + SIGKILL;
                expect_gone(workers, n);
                break;
            }
            kills += n > 0 && kill(workers[random_below((uint32_t)n)], SIGKILL) == 0;
        }
    }
    CHECK_INT(code, 1);
    return kills;
}

static void test_random_kills(void)
{
    char *calm = undisturbed();
    int kills = 0;
    for (int round = 0; kills < KILLS && round < 60; round++) {
        char folder[32];
        (void)snprintf(folder, sizeof folder, "round%d", round);
        kills += disturbed_run(folder, 20 + 20 * (round % 3), life());
        char *after = verdicts(folder);
        expect_same(after, calm);
        free(after);
    }
    CHECK(kills >= KILLS);
    (void)printf("%d kills\n", kills);
    free(calm);
}

static void test_interrupt(int number, const char *folder)
{
    char *calm = undisturbed();
    pid_t runner = at_tool_start("interrupted", "sweep " SUITE " -o %s", folder);
    char name[64];
    (void)snprintf(name, sizeof name, "%s/results.jsonl", folder);
    for (int lines = 0; lines < 12;) { /* until it is under way */
        (void)poll(NULL, 0, 5);
        char *text = at_tool_read(name);
        lines = at_tool_count(text, "\n");
        free(text);
    }
    CHECK_INT(kill(runner, number), 0);
    CHECK_INT(at_tool_wait(runner), 2);
    (void)snprintf(name, sizeof name, "%s/summary.json", folder);
    char *summary = at_tool_read(name), *said = at_tool_read("interrupted.out");
    CHECK_HAS(summary, "\"complete\":\tfalse");
    CHECK_HAS(summary, "\"exit_code\":\t2");
    CHECK_HAS(said, "(interrupted)");
    CHECK_HAS(said, "findings so far: ");
    free(summary);
    free(said);
    CHECK_INT(at_tool_run("sweep " SUITE " -o %s --resume", folder)->code, 1);
    char *after = verdicts(folder);
    expect_same(after, calm);
    free(after);
    free(calm);
}

static void test_sigint(void)
{
    test_interrupt(SIGINT, "int");
}

static void test_sigterm(void)
{
    test_interrupt(SIGTERM, "term");
}

/* A case that hangs cannot hold an interrupted run: the first signal waits a little, the second
 * not. */
static void test_second_signal(void)
{
    pid_t runner = at_tool_start("hung", "sweep sq=4 --backend mutant.hang -o hung");
    pid_t workers[CHILDREN];
    int n = 0;
    for (int i = 0; i < 2000 && n == 0; i++) {
        (void)poll(NULL, 0, 5);
        n = children_of(runner, workers);
    }
    (void)poll(NULL, 0, 300);
    n = children_of(runner, workers);
    double start = at_clock();
    CHECK_INT(kill(runner, SIGINT), 0);
    (void)poll(NULL, 0, 200);
    CHECK_INT(kill(runner, SIGINT), 0);
    CHECK_INT(at_tool_wait(runner), 2);
    CHECK(at_clock() - start < 4);
    expect_gone(workers, n);
}

const at_test at_tests[] = {
    {"slow", "random_kills", test_random_kills},
    {"cli", "sigint", test_sigint},
    {"cli", "sigterm", test_sigterm},
    {"cli", "second_signal", test_second_signal},
    {NULL, NULL, NULL},
};
