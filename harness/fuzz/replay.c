/* Runs the fuzz target on files and on the files of folders, without libFuzzer. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/fuzz/fuzz.h"

enum { SIZE_LIMIT = 1 << 20 };

static int fail(const char *path, const char *what)
{
    (void)fprintf(stderr, "replay: %s: %s\n", path, what);
    return 1;
}

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(SIZE_LIMIT);
    if (file == NULL || data == NULL) {
        free(data);
        return fail(path, "cannot be read");
    }
    size_t size = fread(data, 1, SIZE_LIMIT, file);
    int failed = ferror(file) ? fail(path, "cannot be read") : 0;
    failed |= fclose(file) != 0;
    if (size == SIZE_LIMIT) {
        failed = fail(path, "longer than a MiB");
    }
    if (!failed) {
        (void)printf("%s\n", path); /* before the run: a crash names its file */
        (void)fflush(stdout);
        uint8_t *exact = malloc(size > 0 ? size : 1); /* reads past the end are seen */
        if (exact != NULL) {
            memcpy(exact, data, size);
            (void)LLVMFuzzerTestOneInput(exact, size);
        }
        failed = exact == NULL;
        free(exact);
    }
    free(data);
    return failed;
}

static int run_folder(const char *folder)
{
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, NULL, alphasort), failed = 0, files = 0;
    for (int i = 0; i < n; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.') {
            failed |= run_file(path);
            files++;
        }
        free(entry[i]);
    }
    free(entry);
    return files == 0 ? fail(folder, "an empty folder, at least one input is needed") : failed;
}

int main(int argc, char **argv)
{
    int failed = argc < 2 ? fail("usage", "name files or folders") : 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) != 0) {
            failed |= fail(argv[i], "no such file or folder");
        } else {
            failed |= S_ISDIR(info.st_mode) ? run_folder(argv[i]) : run_file(argv[i]);
        }
    }
    return failed;
}
