#include "harness/case/suite_build.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* `name` as written on the command line, or relative to the folder of the file that names it. */
static at_status join(char path[AT_PATH_TEXT], const at_suite_file *outer, const char *name,
                      at_error *err)
{
    const char *slash = outer != NULL && name[0] != '/' ? strrchr(outer->path, '/') : NULL;
    int folder = slash != NULL ? (int)(slash - outer->path) + 1 : 0;
    int n = snprintf(path, AT_PATH_TEXT, "%.*s%s", folder, folder > 0 ? outer->path : "", name);
    return n < AT_PATH_TEXT ? AT_OK
                            : at_fail(err, AT_INVALID, "the path %.60s... is too long", name);
}

/* Two spellings of one path are one file. */
static bool same_file(const char *a, const char *b)
{
    char *x = realpath(a, NULL), *y = realpath(b, NULL);
    bool same = x != NULL && y != NULL && strcmp(x, y) == 0;
    free(x);
    free(y);
    return same;
}

static at_status check_nesting(const at_suite_file *file, at_error *err)
{
    int depth = 0;
    for (const at_suite_file *f = file->outer; f != NULL; f = f->outer, depth++) {
        if (same_file(f->path, file->path)) {
            return at_fail(err, AT_INVALID, "%s names itself, directly or through other files",
                           file->path);
        }
    }
    return depth < AT_SUITE_DEPTH_MAX
               ? AT_OK
               : at_fail(err, AT_INVALID, "%s is nested deeper than %d files", file->path,
                         AT_SUITE_DEPTH_MAX);
}

static void strip(char *line)
{
    line[strcspn(line, "#\r\n")] = '\0';
    size_t lead = strspn(line, " \t"), n = strlen(line);
    for (; n > lead && strchr(" \t", line[n - 1]) != NULL; n--) {
        line[n - 1] = '\0';
    }
    memmove(line, line + lead, n - lead + 1);
}

/* The next line without its end; *length is room - 1 when it is longer, SIZE_MAX after a NUL byte.
 */
static bool next_line(FILE *stream, char *line, size_t room, size_t *length)
{
    size_t n = 0;
    int c = getc(stream);
    if (c == EOF) {
        return false;
    }
    for (; c != EOF && c != '\n' && c != '\0' && n < room - 1; c = getc(stream)) {
        line[n++] = (char)c;
    }
    line[n] = '\0';
    *length = c == '\0' ? SIZE_MAX : n;
    return true;
}

static at_status add_line(at_suite_builder *b, char *line, const at_suite_file *file,
                          const at_suite_plan *plan, at_error *err)
{
    strip(line);
    if (line[0] == '\0') {
        return AT_OK;
    }
    return strpbrk(line, " \t") != NULL
               ? at_fail(err, AT_INVALID, "one word a line, \"%.60s\" is more", line)
               : at_suite_add_word(b, line, file, plan, err);
}

static at_status read_lines(at_suite_builder *b, FILE *stream, const at_suite_file *file,
                            const at_suite_plan *plan, at_error *err)
{
    char line[2 * AT_CASE_TEXT_MAX];
    size_t length = 0;
    for (int number = 1; next_line(stream, line, sizeof line, &length); number++) {
        at_status status =
            length == SIZE_MAX ? at_fail(err, AT_INVALID, "a NUL byte, lists are text")
            : length == sizeof line - 1
                ? at_fail(err, AT_INVALID, "longer than %zu characters", sizeof line - 2)
                : add_line(b, line, file, plan, err);
        if (status != AT_OK && !b->placed) {
            b->placed = true;
            return at_fail_in(err, status, "%s:%d", file->path, number);
        }
        AT_TRY(status);
    }
    return ferror(stream)
               ? at_fail(err, AT_IO, "%s: cannot be read (%s)", file->path, strerror(errno))
               : AT_OK;
}

static at_status add_list(at_suite_builder *b, const at_suite_file *file,
                          const at_suite_plan *inherited, at_error *err)
{
    const char *slash = strrchr(file->path, '/');
    at_suite_plan plan = *inherited;
    AT_TRY(check_nesting(file, err));
    (void)snprintf(plan.suite, sizeof plan.suite, "%.63s", slash != NULL ? slash + 1 : file->path);
    FILE *stream = fopen(file->path, "r");
    if (stream == NULL) {
        return at_fail(err, AT_IO, "%s: cannot be read (%s)", file->path, strerror(errno));
    }
    at_status status = read_lines(b, stream, file, &plan, err);
    (void)fclose(stream);
    return status;
}

static at_status add_case(at_suite_builder *b, const char *text, const at_suite_plan *inherited,
                          at_error *err)
{
    at_space space = {.n = 0};
    const at_suite_plan *plan = NULL;
    at_status status = at_space_add_text(&space, text, err);
    if (status == AT_OK) {
        status = at_suite_keep_plan(&plan, b->suite, inherited, err);
    }
    if (status == AT_OK) {
        status = at_suite_add_space(b, &space, NULL, plan, err);
    }
    at_space_close(&space);
    return status;
}

/* "no suite ..., there are: a b c". */
static at_status no_suite(const char *corpus, const char *word, at_error *err)
{
    char folder[AT_PATH_TEXT], names[320] = "";
    (void)snprintf(folder, sizeof folder, "%s/suites", corpus);
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        size_t used = strlen(names);
        if (ends_with(entry[i]->d_name, ".json") &&
            used + strlen(entry[i]->d_name) < sizeof names) {
            (void)snprintf(names + used, sizeof names - used, " %.*s",
                           (int)strlen(entry[i]->d_name) - 5, entry[i]->d_name);
        }
        free(entry[i]);
    }
    free(entry);
    return at_fail(err, AT_INVALID,
                   "\"%.60s\" is no suite, no case (key=value) and no .json or @file; "
                   "the suites are%s",
                   word, names[0] != '\0' ? names : " none");
}

static at_status add_named(at_suite_builder *b, const char *word, const at_suite_file *outer,
                           const at_suite_plan *inherited, at_error *err)
{
    char path[AT_PATH_TEXT];
    int name = (int)strcspn(word, "/");
    int n = snprintf(path, sizeof path, "%s/suites/%.*s.json", b->corpus, name, word);
    FILE *there = n < AT_PATH_TEXT ? fopen(path, "r") : NULL;
    if (there == NULL && (n >= AT_PATH_TEXT || errno == ENOENT)) {
        return no_suite(b->corpus, word, err);
    }
    if (there != NULL) {
        (void)fclose(there);
    }
    at_suite_file file = {path, outer};
    AT_TRY(check_nesting(&file, err));
    return at_suite_add_json(b, &file, inherited, err);
}

/* NAME, or NAME/GROUP. */
static at_status add_suite(at_suite_builder *b, const char *word, const at_suite_file *outer,
                           const at_suite_plan *inherited, at_error *err)
{
    const char *slash = strchr(word, '/'), *only = b->only;
    bool met = b->met;
    if (slash == NULL) {
        return add_named(b, word, outer, inherited, err);
    }
    b->only = slash + 1;
    b->met = false;
    AT_TRY(add_named(b, word, outer, inherited, err));
    bool found = b->met;
    b->only = only;
    b->met = met;
    return found ? AT_OK
                 : at_fail(err, AT_INVALID, "the suite %.*s has no group \"%.60s\"",
                           (int)(slash - word), word, slash + 1);
}

at_status at_suite_add_word(at_suite_builder *b, const char *word, const at_suite_file *outer,
                            const at_suite_plan *inherited, at_error *err)
{
    char path[AT_PATH_TEXT];
    at_suite_file file = {path, outer};
    if (word[0] == '@') {
        AT_TRY(join(path, outer, word + 1, err));
        return add_list(b, &file, inherited, err);
    }
    if (ends_with(word, "/") && strchr(word, '=') == NULL) {
        AT_TRY(join(path, outer, word, err));
        return at_suite_add_known(b, path, inherited, err);
    }
    if (ends_with(word, ".json")) {
        AT_TRY(join(path, outer, word, err));
        AT_TRY(check_nesting(&file, err));
        return at_suite_add_json(b, &file, inherited, err);
    }
    return strchr(word, '=') != NULL ? add_case(b, word, inherited, err)
                                     : add_suite(b, word, outer, inherited, err);
}
