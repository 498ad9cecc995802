/* Files of the corpus by name, with a sentence that lists what is there. */
#include "harness/select/rules.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_json(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

at_status at_corpus_missing(const char *corpus, const char *folder, const char *what,
                            const char *name, at_error *err)
{
    char path[4096], list[320] = "";
    struct dirent **entry = NULL;
    size_t used = 0;
    (void)snprintf(path, sizeof path, "%s/%s", corpus, folder);
    int n = scandir(path, &entry, is_json, alphasort);
    for (int i = 0; i < n; i++) {
        int length = (int)strlen(entry[i]->d_name) - 5;
        int k = used < sizeof list ? snprintf(list + used, sizeof list - used, "%s%.*s",
                                              i ? ", " : "", length, entry[i]->d_name)
                                   : 0;
        used += k > 0 ? (size_t)k : 0;
        free(entry[i]);
    }
    free(entry);
    return at_fail(err, AT_INVALID, "no %s is called \"%.60s\"; %.60s/%s has %s", what, name,
                   corpus, folder, n > 0 ? list : "none");
}

at_status at_corpus_file(char path[4096], const char *corpus, const char *folder, const char *what,
                         const char *name, at_error *err)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    bool fine = name[0] != '\0' && name[0] != '.' && strspn(name, plain) == strlen(name) &&
                strlen(name) < 64;
    int n = fine ? snprintf(path, 4096, "%s/%s/%s.json", corpus, folder, name) : 0;
    if (n <= 0 || n >= 4096 || access(path, F_OK) != 0) {
        return at_corpus_missing(corpus, folder, what, name, err);
    }
    return AT_OK;
}

/* Length of "te-" in "te-newest"; 0 for other names. */
static size_t newest_prefix(const char *name)
{
    const char *dash = strrchr(name, '-');
    return dash != NULL && dash > name && strcmp(dash, "-newest") == 0 ? (size_t)(dash + 1 - name)
                                                                       : 0;
}

void at_corpus_newest(char out[64], const char *corpus, const char *folder, const char *name)
{
    char path[4096];
    struct dirent **entry = NULL;
    size_t prefix = newest_prefix(name);
    at_release best = {0};
    (void)snprintf(out, 64, "%s", name);
    (void)snprintf(path, sizeof path, "%s/%s", corpus, folder);
    int n = prefix > 0 ? scandir(path, &entry, is_json, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        char *file = entry[i]->d_name;
        size_t length = strlen(file) - strlen(".json");
        at_release release = {0};
        bool like = strncmp(file, name, prefix) == 0 && length > prefix && length < 64 &&
                    at_release_parse(&release, file + prefix, length - prefix, NULL) == AT_OK &&
                    release.count > 0;
        if (like && (best.count == 0 || at_release_compare(&release, &best) > 0)) {
            best = release;
            (void)snprintf(out, 64, "%.*s", (int)length, file);
        }
        free(entry[i]);
    }
    free(entry);
}

/* "te-2.9" before "te-2.10": by what stands before the first digit, then by version. */
static int compare_names(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    size_t n = strcspn(x, "0123456789"), m = strcspn(y, "0123456789");
    at_release u, v;
    if (n == m && strncmp(x, y, n) == 0 &&
        at_release_parse(&u, x + n, strlen(x + n), NULL) == AT_OK && u.count > 0 &&
        at_release_parse(&v, y + n, strlen(y + n), NULL) == AT_OK && v.count > 0) {
        return at_release_compare(&u, &v);
    }
    return strcmp(x, y);
}

at_status at_selector_names(char ***names, size_t *count, const char *corpus, at_error *err)
{
    char path[4096];
    struct dirent **entry = NULL;
    (void)snprintf(path, sizeof path, "%s/selectors", corpus);
    int n = scandir(path, &entry, is_json, alphasort);
    if (n <= 0) {
        free(entry);
        return at_fail(err, AT_IO, "%.200s holds no rule sets", path);
    }
    *names = calloc((size_t)n, sizeof **names);
    *count = (size_t)n;
    AT_ASSERT(*names != NULL); /* only memory can run out */
    for (int i = 0; i < n; i++) {
        size_t length = strlen(entry[i]->d_name) - strlen(".json");
        entry[i]->d_name[length] = '\0';
        (*names)[i] = strdup(entry[i]->d_name);
        AT_ASSERT((*names)[i] != NULL);
        free(entry[i]);
    }
    free(entry);
    qsort(*names, *count, sizeof **names, compare_names);
    return AT_OK;
}
