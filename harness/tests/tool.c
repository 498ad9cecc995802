#include "harness/tests/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/tests/test.h"

static int read_file(const char *path, char *out, size_t room)
{
    FILE *file = fopen(path, "r");
    size_t n = file != NULL ? fread(out, 1, room - 1, file) : 0;
    out[n] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
    return file != NULL;
}

static void become_tool(const char *command, const char *out, const char *err)
{
    int flags = O_WRONLY | O_CREAT | O_TRUNC;
    int in_fd = open("/dev/null", O_RDONLY), out_fd = open(out, flags, 0666),
        err_fd = open(err, flags, 0666);
    (void)setenv("ATTEST_CORPUS", AT_TEST_CORPUS, 0);
    if (dup2(in_fd, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(err_fd, 2) < 0 ||
        chdir(at_test_folder()) != 0) {
        _exit(126);
    }
    (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static pid_t __attribute__((format(printf, 2, 0)))
start(const char *name, const char *format, va_list args)
{
    static char command[1 << 16];
    char out[512], err[512];
    size_t used = (size_t)snprintf(command, sizeof command, "exec '%s' ", AT_TEST_TOOL);
    (void)vsnprintf(command + used, sizeof command - used, format, args);
    (void)snprintf(out, sizeof out, "%s/%s.out", at_test_folder(), name);
    (void)snprintf(err, sizeof err, "%s/%s.err", at_test_folder(), name);
    pid_t pid = fork();
    if (pid == 0) {
        become_tool(command, out, err);
    }
    return pid;
}

int at_tool_wait(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

pid_t at_tool_start(const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pid_t pid = start(name, format, args);
    va_end(args);
    return pid;
}

const at_tool *at_tool_run(const char *format, ...)
{
    static at_tool tool;
    char path[512];
    va_list args;
    va_start(args, format);
    pid_t pid = start("tool", format, args);
    va_end(args);
    tool.code = at_tool_wait(pid);
    CHECK(tool.code < 128);
    (void)snprintf(path, sizeof path, "%s/tool.out", at_test_folder());
    (void)read_file(path, tool.out, sizeof tool.out);
    (void)snprintf(path, sizeof path, "%s/tool.err", at_test_folder());
    (void)read_file(path, tool.err, sizeof tool.err);
    return &tool;
}

void at_tool_write(const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", at_test_folder(), name);
    for (char *c = strchr(path + 1, '/'); c != NULL; c = strchr(c + 1, '/')) {
        *c = '\0';
        (void)mkdir(path, 0777);
        *c = '/';
    }
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0);
    CHECK(file != NULL && fclose(file) == 0);
}

char *at_tool_read(const char *name)
{
    enum { ROOM = 64 << 20 };
    char path[512], *text = malloc(ROOM);
    (void)snprintf(path, sizeof path, "%s/%s", at_test_folder(), name);
    if (text == NULL) {
        abort();
    }
    (void)read_file(path, text, ROOM);
    return text;
}

int at_tool_count(const char *text, const char *part)
{
    int n = 0;
    for (const char *c = text; (c = strstr(c, part)) != NULL; c += strlen(part)) {
        n++;
    }
    return n;
}
