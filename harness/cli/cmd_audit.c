#include <stdio.h>
#include <stdlib.h>

#include "harness/case/suite.h"
#include "harness/cli/cudnn.h"
#include "harness/cli/environment.h"
#include "harness/cli/options.h"
#include "harness/select/audit.h"

static void print_lines(const at_audit *audit, const at_options *o)
{
    size_t *box = calloc(at_audit_boxes(audit) + 1, sizeof *box);
    AT_ASSERT(box != NULL); /* only memory can run out */
    size_t n = at_audit_shown(audit, (size_t)o->limit, box);
    for (size_t i = 0; i < n; i++) {
        at_json *object = at_audit_box_json(audit, box[i]);
        char *line = at_json_print(object, false);
        (void)puts(line);
        free(line);
        at_json_close(object);
    }
    free(box);
}

static int print(const at_audit *audit, const at_options *o)
{
    const at_audit_style style = {
        .colors = o->colors, .limit = (size_t)o->limit, .tool = at_program};
    if (o->jsonl) {
        print_lines(audit, o);
    } else if (o->markdown) {
        const at_audit_style plain = {.limit = (size_t)o->limit};
        at_audit_markdown(audit, stdout, &plain);
    } else {
        at_audit_print(audit, stdout, &style);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return at_usage_error("audit: stdout cannot be written");
    }
    return at_audit_boxes(audit) > 0 ? AT_EXIT_FINDINGS : AT_EXIT_CLEAN;
}

int cmd_audit(int argc, char **argv)
{
    at_options o;
    int exit_code = 0;
    at_error err = {""};
    char corpus[4096];
    at_env *env = NULL;
    at_audit *audit = NULL;
    const uint64_t flags = AT_FLAG(SELECTOR) | AT_FLAG(ENV) | AT_FLAG(ARCH) | AT_FLAG(SPACE) |
                           AT_FLAG(SWEEP) | AT_FLAG(LIMIT) | AT_FLAG(CORPUS) | AT_FLAG(DOCUMENT) |
                           AT_FLAG(COLOR) | AT_FLAG(STAGE) | AT_FLAG(AGAINST) | AT_FLAG(CUDNN) |
                           AT_FLAG(JOBS) | AT_FLAG(QUIET);
    if (!at_options_parse(&o, flags, argc, argv, &exit_code)) {
        return exit_code;
    }
    if (o.selector == NULL || o.space == NULL || o.word_count != 0) {
        return at_usage_error(
            "audit: give a rule set and a space, such as `attest audit --selector "
            "te-2.10 --arch sm90 --env fa3=2025-02,fused=0 --space training`");
    }
    at_status status = at_corpus_find(corpus, o.corpus, AT_BUILD_CORPUS, &err);
    status = status == AT_OK ? at_options_env(&env, &o, &err) : status;
    const at_audit_request request = {.corpus = corpus,
                                      .selector = o.selector,
                                      .space = o.space,
                                      .env = env,
                                      .sweep = o.sweep.item,
                                      .sweep_count = (size_t)o.sweep.n};
    const bool called = at_cli_is_cudnn(o.selector);
    status = status == AT_OK && !called ? at_audit_open(&audit, &request, &err) : status;
    exit_code = status != AT_OK ? at_usage_error("audit: %s", err.text)
                : called        ? at_cli_cudnn_audit(&o, corpus, env)
                                : print(audit, &o);
    at_audit_close(audit);
    at_env_close(env);
    return exit_code;
}
