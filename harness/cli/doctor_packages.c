#include "harness/cli/doctor_packages.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

at_status at_doctor_packages(const char *corpus, bool jsonl, at_error *err)
{
    char script[4200], form[8];
    const char *given = getenv("ATTEST_PYTHON");
    char python[1024];
    (void)snprintf(script, sizeof script, "%s/../kernels/python/doctor.py", corpus);
    (void)snprintf(form, sizeof form, "%s", jsonl ? "jsonl" : "text");
    (void)snprintf(python, sizeof python, "%s", given != NULL ? given : "python3");
    if (access(script, R_OK) != 0) {
        return at_fail(err, AT_IO, "no adapters beside the corpus; a source tree has them");
    }
    char *argv[] = {python, script, form, NULL};
    pid_t child = 0;
    (void)fflush(stdout);
    const int error = posix_spawnp(&child, python, NULL, NULL, argv, environ);
    if (error != 0) {
        return at_fail(err, AT_IO, "%.200s: %s", python, strerror(error));
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? AT_OK
               : at_fail(err, AT_IO, "%.200s cannot run %.200s", python,
                         "kernels/python/doctor.py");
}
