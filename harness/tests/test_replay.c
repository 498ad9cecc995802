/* replay.c: runs what is there, fails on what is not, and a crash is a crash. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char out[4096];

/* Status of wait() of `replay_planted ARGUMENTS`. */
static int replay(const char *arguments)
{
    char command[2048];
    (void)snprintf(command, sizeof command, "exec '%s' %s 2>&1", AT_TEST_REPLAY, arguments);
    FILE *pipe = popen(command, "r");
    CHECK(pipe != NULL);
    out[fread(out, 1, sizeof out - 1, pipe)] = '\0';
    return pclose(pipe);
}

static const char *make(const char *name, const char *text)
{
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", at_test_folder(), name);
    if (text == NULL) {
        CHECK(mkdir(path, 0777) == 0);
        return path;
    }
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    return path;
}

static void test_runs(void)
{
    CHECK_INT(replay(make("one", "fine")), 0);
    CHECK_HAS(out, "/one\n");
    CHECK_INT(replay(make("nothing", "")), 0);
    (void)make("folder", NULL);
    (void)make("folder/a", "1");
    (void)make("folder/b", "2");
    char folder[512];
    (void)snprintf(folder, sizeof folder, "%s/folder", at_test_folder());
    CHECK_INT(replay(folder), 0);
    CHECK_HAS(out, "/folder/a\n");
    CHECK_HAS(out, "/folder/b\n");
}

static void test_fails(void)
{
    CHECK_INT(WEXITSTATUS(replay("")), 1);
    CHECK_HAS(out, "name files or folders");
    CHECK_INT(WEXITSTATUS(replay("/nonexistent")), 1);
    CHECK_HAS(out, "/nonexistent: no such file or folder");
    CHECK_INT(WEXITSTATUS(replay(make("empty", NULL))), 1);
    CHECK_HAS(out, "an empty folder");
    (void)make("nested", NULL);
    (void)make("nested/inner", NULL);
    char folder[512];
    (void)snprintf(folder, sizeof folder, "%s/nested", at_test_folder());
    CHECK_INT(WEXITSTATUS(replay(folder)), 1);
    CHECK_HAS(out, "inner: cannot be read");
    CHECK_INT(WEXITSTATUS(replay("/dev/zero")), 1);
    CHECK_HAS(out, "longer than a MiB");
}

static void test_crash(void)
{
    int status = replay(make("boom", "crash"));
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
    CHECK_HAS(out, "/boom\n");
}

const at_test at_tests[] = {
    {"replay", "runs", test_runs},
    {"replay", "fails", test_fails},
    {"replay", "crash", test_crash},
    {NULL, NULL, NULL},
};
