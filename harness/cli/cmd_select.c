#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/suite.h"
#include "harness/cli/cudnn.h"
#include "harness/cli/environment.h"
#include "harness/cli/options.h"
#include "harness/cli/select.h"

void at_cli_print_line(at_json *object)
{
    char *printed = at_json_print(object, false);
    (void)puts(printed);
    free(printed);
    at_json_close(object);
}

int at_cli_select_end(void)
{
    return fflush(stdout) == 0 && !ferror(stdout)
               ? AT_EXIT_CLEAN
               : at_usage_error("select: stdout cannot be written");
}

static void print_env(const at_selector *s, const at_case *c)
{
    at_json *env = at_selector_env(s, at_selector_arch(s, c));
    (void)fputs("  env      ", stdout);
    for (const at_json *m = at_json_first(env); m != NULL; m = at_json_next(m)) {
        (void)printf(" %s=%s", at_json_key(m), at_json_text(m));
    }
    (void)putchar('\n');
    at_json_close(env);
}

static void print_text(const at_selection *d, const at_selector *s, const at_case *c,
                       const at_options *o)
{
    const char *bold = o->colors ? "\033[1m" : "", *plain = o->colors ? "\033[0m" : "";
    char text[AT_CASE_TEXT_MAX];
    (void)at_case_print(c, text);
    (void)printf("%s\n  winner    %s%s%s\n  admitted ", text, bold,
                 d->winner != NULL ? d->winner : "none", plain);
    for (int i = 0; i < d->admitted_count; i++) {
        (void)printf(" %s", d->admitted[i]);
    }
    (void)printf("%s\n", d->admitted_count == 0 ? " none" : "");
    for (int i = 0; i < d->refused_count; i++) {
        const at_refusal *r = &d->refused[i];
        (void)printf("  refused   %s%s%s by %s: %s\n            %s\n", bold, r->backend, plain,
                     r->rule, r->why, r->source);
    }
    print_env(s, c);
}

static int decide(const at_selector *s, const at_suite *suite, const at_options *o)
{
    at_error err = {""};
    for (size_t i = 0; i < at_suite_size(suite); i++) {
        const at_suite_plan *plan = NULL;
        const at_case *c = at_suite_case(suite, i, &plan);
        at_selection d;
        if (at_selector_decide(&d, s, c, &err) != AT_OK) {
            return at_usage_error("select: %s", err.text);
        }
        if (!o->jsonl) {
            print_text(&d, s, c, o);
            continue;
        }
        at_cli_print_line(at_selection_to_json(&d, s, c));
    }
    return at_cli_select_end();
}

int cmd_select(int argc, char **argv)
{
    at_options o;
    int exit_code = 0;
    at_error err = {""};
    char corpus[4096];
    at_selector *s = NULL;
    at_suite *suite = NULL;
    const uint64_t flags = AT_FLAG(SELECTOR) | AT_FLAG(ENV) | AT_FLAG(ARCH) | AT_FLAG(CORPUS) |
                           AT_FLAG(SEED) | AT_FLAG(PASS) | AT_FLAG(FORMAT) | AT_FLAG(COLOR) |
                           AT_FLAG(STAGE) | AT_FLAG(CUDNN) | AT_FLAG(WHY_NOT);
    if (!at_options_parse(&o, flags, argc, argv, &exit_code)) {
        return exit_code;
    }
    const bool called = at_cli_is_cudnn(o.selector);
    if (o.word_count == 0) {
        return at_usage_error("select: give a case, such as `attest select "
                              "dqk=192:dv=128:arch=sm90 --selector te-2.10`");
    }
    if (o.why_not != NULL && o.selector == NULL) {
        o.selector = "te-newest";
    }
    bool rules = o.selector != NULL && !called && strchr(o.selector, '@') == NULL;
    if (o.why_not != NULL && !rules) {
        return at_usage_error("select: --why-not asks a rule set, such as te-2.10; %s is not one",
                              o.selector);
    }
    const at_suite_rewrite rewrite = {.seed = o.seed, .pass = o.pass};
    at_env *env = NULL;
    at_status status = at_corpus_find(corpus, o.corpus, AT_BUILD_CORPUS, &err);
    status = status == AT_OK ? at_options_env(&env, &o, &err) : status;
    status = status == AT_OK ? at_suite_open(&suite, corpus, (const char *const *)o.words,
                                             (size_t)o.word_count, &rewrite, &err)
                             : status;
    if (status == AT_OK && !called && o.selector != NULL) {
        status = at_selector_open(&s, corpus, o.selector, env, &err);
    }
    exit_code = status != AT_OK      ? at_usage_error("select: %s", err.text)
                : called             ? at_cli_cudnn_select(&o, corpus, suite)
                : o.selector == NULL ? at_cli_select_all(&o, corpus, env, suite)
                : o.why_not != NULL  ? at_cli_why_not(&o, corpus, env, s, suite)
                                     : decide(s, suite, &o);
    at_suite_close(suite);
    at_selector_close(s);
    at_env_close(env);
    return exit_code;
}
