#include "harness/cli/cudnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cudnn_audit.h"
#include "kernels/cudnn_diff.h"
#include "kernels/cudnn_load.h"

bool at_cli_is_cudnn(const char *selector)
{
    return selector != NULL && strncmp(selector, "cudnn", 5) == 0 &&
           (selector[5] == '\0' || selector[5] == '@');
}

static at_cudnn_stage stage_of(const char *name)
{
    static const struct {
        const char *name;
        at_cudnn_stage stage;
    } rows[] = {{"validate", AT_CUDNN_S1_VALIDATE},
                {"graph", AT_CUDNN_S2_GRAPH},
                {"heuristics", AT_CUDNN_S3_HEURISTICS},
                {"support", AT_CUDNN_S4_SUPPORT},
                {"plans", AT_CUDNN_S5_PLANS}};
    for (size_t i = 0; name != NULL && i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return rows[i].stage;
        }
    }
    return AT_CUDNN_S4_SUPPORT;
}

static void print_line(at_json *object)
{
    char *line = at_json_print(object, false);
    (void)puts(line);
    free(line);
    at_json_close(object);
}

int at_cli_cudnn_audit(const at_options *o, const char *corpus, const at_env *env)
{
    at_error err = {""};
    at_cudnn_audit *audit = NULL;
    const at_cudnn_audit_request request = {.corpus = corpus,
                                            .space = o->space,
                                            .arch = o->arch,
                                            .stage = stage_of(o->stage),
                                            .against = o->against,
                                            .env = env,
                                            .jobs = (int)o->jobs,
                                            .progress = !o->quiet};
    at_status status = at_cudnn_choose(o->selector, o->cudnn, &err);
    status = status == AT_OK ? at_cudnn_audit_open(&audit, &request, &err) : status;
    if (status == AT_OK) {
        char number[32];
        at_cudnn_version_text(at_cudnn_audit_version(audit), number);
        status = at_cudnn_check_version(o->selector, number, &err);
    }
    if (status != AT_OK) {
        at_cudnn_audit_close(audit);
        return at_usage_error("audit: %s", err.text);
    }
    const size_t boxes = at_cudnn_audit_boxes(audit);
    const size_t limit = (size_t)o->limit, shown = limit > 0 && limit < boxes ? limit : boxes;
    for (size_t i = 0; o->jsonl && i < shown; i++) {
        print_line(at_cudnn_audit_box_json(audit, i));
    }
    if (!o->jsonl) {
        at_cudnn_audit_print(audit, stdout, o->colors, shown);
    }
    at_cudnn_audit_close(audit);
    return boxes > 0 ? AT_EXIT_FINDINGS : AT_EXIT_CLEAN;
}

static at_status open_version(at_cudnn_audit **out, const at_options *o, const char *selector,
                              const char *corpus, at_error *err)
{
    const at_cudnn_audit_request request = {.corpus = corpus,
                                            .space = o->space,
                                            .arch = o->arch,
                                            .stage = stage_of(o->stage),
                                            .jobs = (int)o->jobs,
                                            .progress = !o->quiet,
                                            .every = true};
    char number[32];
    AT_TRY(at_cudnn_choose(selector, o->cudnn, err));
    AT_TRY(at_cudnn_audit_open(out, &request, err));
    at_cudnn_version_text(at_cudnn_audit_version(*out), number);
    return at_cudnn_check_version(selector, number, err);
}

static void print_diff(const at_cudnn_diff *diff, const at_options *o)
{
    for (size_t i = 0; o->jsonl && i < at_cudnn_diff_boxes(diff); i++) {
        print_line(at_cudnn_diff_box_json(diff, i));
    }
    if (!o->jsonl) {
        at_cudnn_diff_print(diff, stdout, o->colors);
    }
}

int at_cli_cudnn_diff(const at_options *o, const char *corpus)
{
    at_error err = {""};
    at_cudnn_audit *before = NULL;
    bool changed = false;
    at_status status = AT_OK;
    for (int i = 0; i < o->word_count && status == AT_OK; i++) {
        at_cudnn_audit *after = NULL;
        at_cudnn_diff *diff = NULL;
        status = open_version(&after, o, o->words[i], corpus, &err);
        if (status == AT_OK && before != NULL) {
            status = at_cudnn_diff_open(&diff, before, after, &err);
        }
        if (status == AT_OK && diff != NULL) {
            (void)(!o->jsonl && i > 1 ? puts("") : 0);
            print_diff(diff, o);
            changed = changed || at_cudnn_diff_boxes(diff) > 0;
        }
        at_cudnn_diff_close(diff);
        at_cudnn_audit_close(before);
        before = after;
    }
    at_cudnn_audit_close(before);
    if (status != AT_OK) {
        return at_usage_error("audit: %s", err.text);
    }
    return fflush(stdout) != 0 || ferror(stdout) ? at_usage_error("audit: stdout cannot be written")
           : changed                             ? AT_EXIT_FINDINGS
                                                 : AT_EXIT_CLEAN;
}

static void print_step(const at_json *step)
{
    const char *death = at_json_text(at_json_get(step, "death"));
    bool passed = false;
    (void)printf("  %-9s ", at_json_text(at_json_get(step, "step")));
    if (death != NULL) {
        (void)printf("the process died: %s\n", death);
        return;
    }
    (void)at_json_bool(at_json_get(step, "passed"), &passed);
    (void)printf("%s at %s%s%s\n", passed ? "passes" : "refused",
                 at_json_text(at_json_get(step, "stage")), passed ? "" : ": ",
                 passed ? "" : at_json_text(at_json_get(step, "message")));
    for (const at_json *p = at_json_first(at_json_get(step, "plans")); p != NULL;
         p = at_json_next(p)) {
        const char *status = at_json_text(at_json_get(p, "status"));
        const char *message = at_json_text(at_json_get(p, "message"));
        (void)printf("            %-24s %s %s\n", at_json_text(at_json_get(p, "plan")),
                     status != NULL ? status : "listed", message != NULL ? message : "");
    }
}

static void print_selection(const at_json *o)
{
    const at_json *env = at_json_get(o, "env");
    (void)printf("%s\n  selector  %s, frontend %s, %s\n  winner    %s\n",
                 at_json_text(at_json_get(o, "case")), at_json_text(at_json_get(o, "selector")),
                 at_json_text(at_json_get(env, "frontend")), at_json_text(at_json_get(env, "arch")),
                 at_json_size(at_json_get(o, "admitted")) > 0 ? "cudnn" : "none");
    for (const at_json *s = at_json_first(at_json_get(o, "steps")); s != NULL;
         s = at_json_next(s)) {
        print_step(s);
    }
}

int at_cli_cudnn_select(const at_options *o, const char *corpus, const at_suite *suite)
{
    at_error err = {""};
    if (at_cudnn_choose(o->selector, o->cudnn, &err) != AT_OK) {
        return at_usage_error("select: %s", err.text);
    }
    for (size_t i = 0; i < at_suite_size(suite); i++) {
        const at_suite_plan *plan = NULL;
        at_json *answer = NULL;
        at_status status = at_cudnn_select(&answer, corpus, at_suite_case(suite, i, &plan),
                                           stage_of(o->stage), &err);
        if (status == AT_OK) {
            const at_json *env = at_json_get(answer, "env");
            status =
                at_cudnn_check_version(o->selector, at_json_text(at_json_get(env, "cudnn")), &err);
        }
        if (status != AT_OK) {
            at_json_close(answer);
            return at_usage_error("select: %s", err.text);
        }
        if (o->jsonl) {
            print_line(answer);
        } else {
            print_selection(answer);
            at_json_close(answer);
        }
    }
    return AT_EXIT_CLEAN;
}
