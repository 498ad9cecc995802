#define _GNU_SOURCE /* strverscmp */

#include "kernels/cudnn_find.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* "9.14.0.64" is one of "9.14", not of "9.1". */
static bool begins_with(const char *version, const char *wanted)
{
    const size_t n = strlen(wanted);
    return strncmp(version, wanted, n) == 0 && (version[n] == '\0' || version[n] == '.');
}

static bool is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

/* The highest version in the folder that `wanted` (NULL: any) begins; "" when none does. */
static void find_in(char path[AT_CUDNN_PATH], const char *folder, const char *wanted)
{
    char best[64] = "", file[AT_CUDNN_PATH];
    DIR *d = opendir(folder);
    path[0] = '\0';
    for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        const int n =
            snprintf(file, sizeof file, "%s/%s/nvidia/cudnn/lib/libcudnn.so.9", folder, e->d_name);
        const bool fits = n < AT_CUDNN_PATH && strlen(e->d_name) < sizeof best &&
                          (wanted == NULL || begins_with(e->d_name, wanted));
        if (fits && strverscmp(e->d_name, best) > 0 && is_file(file)) {
            (void)snprintf(best, sizeof best, "%s", e->d_name);
            memcpy(path, file, (size_t)n + 1);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
}

at_status at_cudnn_find(char path[AT_CUDNN_PATH], const char *selector, const char *given,
                        at_error *err)
{
    const char *at = selector != NULL ? strchr(selector, '@') : NULL;
    const char *wanted = at != NULL && at[1] != '\0' ? at + 1 : NULL;
    const char *folder = given != NULL ? given : AT_CUDNN_LIBRARIES;
    const bool newest = wanted != NULL && strcmp(wanted, "newest") == 0;
    struct stat s;
    path[0] = '\0';
    if (given != NULL && stat(given, &s) != 0) {
        return at_fail(err, AT_IO, "--cudnn %s: no such file or folder", given);
    }
    if (given != NULL && !S_ISDIR(s.st_mode)) {
        (void)snprintf(path, AT_CUDNN_PATH, "%s", given);
        return AT_OK;
    }
    if (wanted != NULL || given != NULL) {
        find_in(path, folder, newest ? NULL : wanted);
    }
    if (path[0] == '\0' && (newest || given != NULL)) {
        return at_fail(err, AT_IO,
                       "no libcudnn%s%s below %s; `make cudnn-library VERSION=%s` fetches one",
                       wanted != NULL ? " of version " : "", wanted != NULL ? wanted : "", folder,
                       wanted != NULL ? wanted : "newest");
    }
    return AT_OK;
}

void at_cudnn_find_list(char *text, size_t room)
{
    struct dirent **list = NULL;
    size_t used = 0;
    const int n = scandir(AT_CUDNN_LIBRARIES, &list, NULL, versionsort);
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        if (list[i]->d_name[0] != '.' && used + strlen(list[i]->d_name) + 2 < room) {
            used += (size_t)snprintf(text + used, room - used, "%s%s", used > 0 ? " " : "",
                                     list[i]->d_name);
        }
        free(list[i]);
    }
    free(list);
}
