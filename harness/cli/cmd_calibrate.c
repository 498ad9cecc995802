/* attest calibrate: the limits of the statistical tier, measured on healthy runs. */
#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/options.h"
#include "harness/cli/seed.h"
#include "harness/selftest/calibrate.h"

enum { BACKENDS_MAX = 8, RUNS = 20000 };

/* One member a line, cells one a line: a file that people can compare. */
static bool print_limits(FILE *out, const at_json *root)
{
    (void)fputs("{\n", out);
    for (const at_json *m = at_json_first(root); m != NULL; m = at_json_next(m)) {
        bool cells = strcmp(at_json_key(m), "cells") == 0;
        (void)fprintf(out, "  \"%s\": %s", at_json_key(m), cells ? "[\n" : "");
        const at_json *first = cells ? at_json_first(m) : m;
        for (const at_json *item = first; item != NULL; item = cells ? at_json_next(item) : NULL) {
            char *text = at_json_print(item, false);
            (void)fprintf(out, "%s%s%s", cells ? "    " : "", text,
                          cells && at_json_next(item) != NULL ? ",\n" : "");
            free(text);
        }
        (void)fprintf(out, "%s%s\n", cells ? "\n  ]" : "", at_json_next(m) != NULL ? "," : "");
    }
    (void)fputs("}\n", out);
    return fflush(out) == 0 && !ferror(out);
}

static int write_limits(const char *path, const at_json *root)
{
    FILE *out = path != NULL ? fopen(path, "w") : stdout;
    if (out == NULL) {
        return at_usage_error("calibrate: %s cannot be written (%s)", path, strerror(errno));
    }
    bool good = print_limits(out, root);
    good = (path == NULL || fclose(out) == 0) && good;
    return good ? AT_EXIT_CLEAN
                : at_usage_error("calibrate: %s cannot be written", path != NULL ? path : "stdout");
}

static void on_progress(void *user, const char *class_name, const char *dtype, const char *group,
                        int64_t runs)
{
    (void)user;
    (void)fprintf(stderr, "%s %s %s: %lld runs\n", class_name, dtype, group, (long long)runs);
}

/* The backends named in "a,b", or those that come with limits. */
static int find_backends(const at_backend **out, size_t *n, const char *names)
{
    char list[512], *rest = NULL;
    (void)snprintf(list, sizeof list, "%s", names != NULL ? names : "cpu.flash,cpu.naive");
    *n = 0;
    for (char *name = strtok_r(list, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
        const at_backend *b = at_registry_find(name);
        if (b == NULL || *n == BACKENDS_MAX) {
            return at_usage_error("calibrate: no backend \"%s\" in this process; cpu.flash and "
                                  "cpu.naive are",
                                  name);
        }
        out[(*n)++] = b;
    }
    return AT_EXIT_CLEAN;
}

int cmd_calibrate(int argc, char **argv)
{
    at_options o;
    at_error err = {""};
    int exit_code = 0;
    const uint64_t flags = AT_FLAG(BACKEND) | AT_FLAG(DRAW) | AT_FLAG(RUNS) | AT_FLAG(FILE) |
                           AT_FLAG(THREADS) | AT_FLAG(QUIET);
    if (!at_options_parse(&o, flags, argc, argv, &exit_code)) {
        return exit_code;
    }
    const at_backend *backends[BACKENDS_MAX];
    at_calibration how = {.backends = backends, .runs = o.runs > 0 ? o.runs : RUNS};
    if (o.word_count > 0) {
        return at_usage_error("calibrate: \"%s\" is not expected; it takes flags alone",
                              o.words[0]);
    }
    if (how.runs < AT_LIMITS_RUNS_MIN) {
        return at_usage_error("calibrate: --runs %lld is too few to know a tail; at least %d",
                              (long long)how.runs, AT_LIMITS_RUNS_MIN);
    }
    exit_code = find_backends(backends, &how.backend_count, o.backend);
    if (exit_code == AT_EXIT_CLEAN && !at_seed_parse(&how.seed, o.seed)) {
        exit_code =
            at_usage_error("calibrate: --seed does not accept \"%s\"; it accepts an integer "
                           "from 0 to 2^64 - 1",
                           o.seed);
    }
    if (exit_code != AT_EXIT_CLEAN) {
        return exit_code;
    }
    if (o.threads > 0) {
        omp_set_num_threads((int)o.threads);
    }
    char words[768];
    (void)snprintf(words, sizeof words, "attest calibrate --backend %s --seed %llu --runs %lld",
                   o.backend != NULL ? o.backend : "cpu.flash,cpu.naive",
                   (unsigned long long)how.seed, (long long)how.runs);
    how.words = words;
    how.progress = o.quiet ? NULL : on_progress;
    at_json *root = NULL;
    if (at_calibrate(&root, &how, &err) != AT_OK) {
        return at_usage_error("calibrate: %s", err.text);
    }
    exit_code = write_limits(o.output, root);
    at_json_close(root);
    return exit_code;
}
