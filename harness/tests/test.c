#include "harness/tests/test.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SKIPPED = 77 };

static int failures;
static char folder[256];

void at_test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fprintf(stderr, "%s:%d: ", file, line);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    failures++;
}

void at_test_skip(const char *reason)
{
    (void)printf("skipped: %s\n", reason);
    exit(SKIPPED);
}

void at_test_int(const char *file, int line, const char *what, long long got, long long want)
{
    if (got != want) {
        at_test_fail(file, line, "%s is %lld, want %lld", what, got, want);
    }
}

void at_test_text(const char *file, int line, const char *what, const char *got, const char *want)
{
    if (got == NULL || strcmp(got, want) != 0) {
        at_test_fail(file, line, "%s is \"%s\", want \"%s\"", what, got ? got : "(null)", want);
    }
}

void at_test_has(const char *file, int line, const char *what, const char *text, const char *part)
{
    if (text == NULL || strstr(text, part) == NULL) {
        at_test_fail(file, line, "%s is \"%s\", want it to hold \"%s\"", what,
                     text ? text : "(null)", part);
    }
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static void remove_folder(void)
{
    (void)nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *at_test_folder(void)
{
    if (folder[0] == '\0') {
        const char *base = getenv("TMPDIR");
        (void)snprintf(folder, sizeof folder, "%s/attest-test-XXXXXX", base ? base : "/tmp");
        if (mkdtemp(folder) == NULL) {
            perror(folder);
            exit(1);
        }
        (void)atexit(remove_folder);
    }
    return folder;
}

void at_test_put_json(const char *kind, const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", at_test_folder(), kind);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof path, "%s/%s/%s.json", at_test_folder(), kind, name);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int run_one(const at_test *test)
{
    int before = failures;
    test->run();
    return failures > before;
}

/* `PROGRAM --list` prints "label name" lines; `PROGRAM NAME` runs one; `PROGRAM` runs all. */
int main(int argc, char **argv)
{
    int failed = 0, ran = 0;
    for (const at_test *test = at_tests; test->name != NULL; test++) {
        if (argc == 2 && strcmp(argv[1], "--list") == 0) {
            (void)printf("%s %s\n", test->label, test->name);
            ran++;
        } else if (argc == 1 || strcmp(argv[1], test->name) == 0) {
            if (run_one(test)) {
                (void)fprintf(stderr, "FAILED %s\n", test->name);
                failed++;
            }
            ran++;
        }
    }
    if (ran == 0) {
        (void)fprintf(stderr, "no test is called %s\n", argc > 1 ? argv[1] : "anything");
        return 1;
    }
    return failed != 0;
}
