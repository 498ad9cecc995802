#include <stdio.h>
#include <stdlib.h>

#include "harness/case/suite.h"
#include "harness/cli/cudnn.h"
#include "harness/cli/environment.h"
#include "harness/cli/options.h"
#include "harness/select/diff.h"

static void print_line(at_json *object)
{
    char *line = at_json_print(object, false);
    (void)puts(line);
    free(line);
    at_json_close(object);
}

/* The exit code when all is written. */
static int finish(bool found)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return at_usage_error("audit: stdout cannot be written");
    }
    return found ? AT_EXIT_FINDINGS : AT_EXIT_CLEAN;
}

static int print(const at_audit *audit, const at_options *o)
{
    const at_audit_style style = {
        .colors = o->colors, .limit = (size_t)o->limit, .tool = o->markdown ? NULL : at_program};
    if (o->jsonl) {
        size_t *box = calloc(at_audit_boxes(audit) + 1, sizeof *box);
        AT_ASSERT(box != NULL); /* only memory can run out */
        size_t n = at_audit_shown(audit, (size_t)o->limit, box);
        for (size_t i = 0; i < n; i++) {
            print_line(at_audit_box_json(audit, box[i]));
        }
        free(box);
    } else if (o->markdown) {
        at_audit_markdown(audit, stdout, &style);
    } else {
        at_audit_print(audit, stdout, &style);
    }
    at_error err = {""};
    if (at_audit_check(audit, &err) != AT_OK) {
        (void)fflush(stdout);
        return at_usage_error("audit: %s", err.text);
    }
    return finish(at_audit_boxes(audit) > 0);
}

static int print_diff(const at_diff *diff, const at_options *o)
{
    const at_audit_style style = {
        .colors = o->colors, .limit = (size_t)o->limit, .tool = o->markdown ? NULL : at_program};
    if (o->jsonl) {
        size_t *box = calloc(at_diff_boxes(diff) + 1, sizeof *box);
        AT_ASSERT(box != NULL); /* only memory can run out */
        size_t n = at_diff_shown(diff, (size_t)o->limit, box);
        for (size_t i = 0; i < n; i++) {
            print_line(at_diff_box_json(diff, box[i]));
        }
        free(box);
    } else if (o->markdown) {
        at_diff_markdown(diff, stdout, &style);
    } else {
        at_diff_print(diff, stdout, &style);
    }
    return finish(at_diff_boxes(diff) > 0);
}

static int compare(const at_options *o, const char *corpus, const at_env *env)
{
    at_error err = {""};
    at_diff *diff = NULL;
    const at_diff_request request = {.corpus = corpus,
                                     .before = o->words[0],
                                     .after = o->words[1],
                                     .space = o->space,
                                     .env = env,
                                     .sweep = o->sweep.item,
                                     .sweep_count = (size_t)o->sweep.n};
    at_status status = at_diff_open(&diff, &request, &err);
    int exit_code = status == AT_OK ? print_diff(diff, o) : at_usage_error("audit: %s", err.text);
    at_diff_close(diff);
    return exit_code;
}

static int audit(const at_options *o, const char *corpus, const at_env *env)
{
    at_error err = {""};
    at_audit *audit = NULL;
    const at_audit_request request = {.corpus = corpus,
                                      .selector = o->selector,
                                      .space = o->space,
                                      .env = env,
                                      .sweep = o->sweep.item,
                                      .sweep_count = (size_t)o->sweep.n,
                                      .results = o->results,
                                      .only = o->backend,
                                      .waivers = o->waivers,
                                      .against = o->against};
    at_status status = at_audit_open(&audit, &request, &err);
    int exit_code = status == AT_OK ? print(audit, o) : at_usage_error("audit: %s", err.text);
    at_audit_close(audit);
    return exit_code;
}

/* All words of --diff are versions of cuDNN: two or more are compared in a row. */
static bool is_cudnn_diff(const at_options *o)
{
    bool all = o->diff && o->word_count >= 2;
    for (int i = 0; i < o->word_count; i++) {
        all = all && at_cli_is_cudnn(o->words[i]);
    }
    return all;
}

static int check_words(const at_options *o)
{
    const bool enough = is_cudnn_diff(o) || o->word_count == 2;
    if (o->diff && (!enough || o->space == NULL || o->selector != NULL)) {
        return at_usage_error(
            "audit: --diff takes two rule sets and a space, such as `attest audit "
            "--diff te-2.14 te-2.18 --arch sm90 --space training`, or versions of cudnn");
    }
    if (o->against != NULL && (o->diff || o->results != NULL)) {
        return at_usage_error("audit: --against goes with --selector and --space");
    }
    if (o->results == NULL && (o->backend != NULL || o->waivers)) {
        return at_usage_error("audit: --%s goes with --results",
                              o->backend != NULL ? "backend" : "waivers");
    }
    if (o->results != NULL && (o->diff || o->space != NULL || o->selector == NULL ||
                               o->word_count != 0 || at_cli_is_cudnn(o->selector))) {
        return at_usage_error("audit: --results takes a rule set and no space, such as `attest "
                              "audit --results attest-out --selector te-2.20 --arch sm90 --env "
                              "fa3=2026-01`");
    }
    if (o->results != NULL) {
        return -1;
    }
    if (!o->diff && (o->selector == NULL || o->space == NULL || o->word_count != 0)) {
        return at_usage_error(
            "audit: give a rule set and a space, such as `attest audit --selector "
            "te-2.10 --arch sm90 --env fa3=2025-02,fused=0 --space training`");
    }
    return -1;
}

int cmd_audit(int argc, char **argv)
{
    at_options o;
    int exit_code = 0;
    at_error err = {""};
    char corpus[4096];
    at_env *env = NULL;
    const uint64_t flags = AT_FLAG(SELECTOR) | AT_FLAG(ENV) | AT_FLAG(ARCH) | AT_FLAG(SPACE) |
                           AT_FLAG(SWEEP) | AT_FLAG(LIMIT) | AT_FLAG(DIFF) | AT_FLAG(CORPUS) |
                           AT_FLAG(DOCUMENT) | AT_FLAG(COLOR) | AT_FLAG(STAGE) | AT_FLAG(AGAINST) |
                           AT_FLAG(CUDNN) | AT_FLAG(JOBS) | AT_FLAG(QUIET) | AT_FLAG(RESULTS) |
                           AT_FLAG(BACKEND) | AT_FLAG(WAIVERS);
    if (!at_options_parse(&o, flags, argc, argv, &exit_code)) {
        return exit_code;
    }
    if ((exit_code = check_words(&o)) >= 0) {
        return exit_code;
    }
    at_status status = at_corpus_find(corpus, o.corpus, AT_BUILD_CORPUS, &err);
    status = status == AT_OK ? at_options_env(&env, &o, &err) : status;
    exit_code = status != AT_OK               ? at_usage_error("audit: %s", err.text)
                : is_cudnn_diff(&o)           ? at_cli_cudnn_diff(&o, corpus)
                : o.diff                      ? compare(&o, corpus, env)
                : at_cli_is_cudnn(o.selector) ? at_cli_cudnn_audit(&o, corpus, env)
                                              : audit(&o, corpus, env);
    at_env_close(env);
    return exit_code;
}
