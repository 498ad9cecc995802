/* Runs the built tool as people do, for tests of the command line. */
#ifndef AT_TOOL_H
#define AT_TOOL_H

#include <stdbool.h>
#include <sys/types.h>

enum { AT_TOOL_OUT = 1 << 20 };

/* What a run left. */
typedef struct at_tool {
    int code; /* exit code; 128 + signal when it died of one */
    char out[AT_TOOL_OUT], err[AT_TOOL_OUT / 4];
} at_tool;

/* `attest ARGUMENTS` through /bin/sh, in the test's folder, with the corpus of the source tree. The
 * result is static: the next run replaces it. Records a failure when it ends by a signal. */
const at_tool *at_tool_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same without waiting; its output goes to the file NAME.out in the test's folder. */
pid_t at_tool_start(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Exit code of a started one, 128 + signal; waits. */
int at_tool_wait(pid_t pid);

/* Writes a file below the test's folder, making its folders. */
void at_tool_write(const char *name, const char *text);

/* The text of a file below the test's folder, "" when there is none; free with free(). */
char *at_tool_read(const char *name);

/* How often `part` occurs. */
int at_tool_count(const char *text, const char *part);

#endif
