#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/case/suite.h"

static char found[4096];

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool take(char path[4096], const char *folder, const char *rest)
{
    char tried[4096];
    int n = snprintf(tried, sizeof tried, "%s%s", folder, rest);
    if (n < 0 || (size_t)n >= sizeof tried || !is_folder(tried)) {
        return false;
    }
    memcpy(path, tried, (size_t)n + 1);
    memcpy(found, tried, (size_t)n + 1);
    return true;
}

/* The folder of the running program, "" where it cannot be told. */
static void program_folder(char folder[4096])
{
    ssize_t n = readlink("/proc/self/exe", folder, 4095);
    folder[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
}

at_status at_corpus_find(char path[4096], const char *given, const char *built, at_error *err)
{
    char folder[4096];
    const char *named = given != NULL ? given : getenv("ATTEST_CORPUS");
    if (named != NULL && named[0] != '\0') {
        return take(path, named, "")
                   ? AT_OK
                   : at_fail(err, AT_IO,
                             "%s \"%.200s\" is not a folder, it must be attest's corpus",
                             given != NULL ? "--corpus" : "ATTEST_CORPUS", named);
    }
    program_folder(folder);
    if (folder[0] != '\0' &&
        (take(path, folder, "/corpus") || take(path, folder, "/../share/attest/corpus"))) {
        return AT_OK;
    }
    if (built != NULL && take(path, built, "")) {
        return AT_OK;
    }
    return at_fail(err, AT_IO,
                   "the corpus is not found beside the program or at %.200s, name it with --corpus "
                   "or ATTEST_CORPUS",
                   built != NULL ? built : "the build's path");
}

const char *at_corpus(void)
{
    return found;
}
