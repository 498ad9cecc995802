#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/choice.h"

static void print_json(const at_case *c, const char *text, const at_suite_plan *plan)
{
    char id[AT_ID_TEXT];
    at_json *line = at_json_object(), *backends = at_json_array();
    at_case_id(c, id);
    at_json_put_text(line, "id", id);
    at_json_put_text(line, "case", text);
    at_json_put_text(line, "suite", plan->suite);
    at_json_put_text(line, "group", plan->group);
    for (int i = 0; i < plan->backend_count; i++) {
        at_json_add_text(backends, plan->backend[i]);
    }
    at_json_put(line, "backends", backends);
    if (plan->selector[0] != '\0') {
        at_json_put_text(line, "selector", plan->selector);
        at_json_put_text(line, "env", plan->env);
        at_json_put_text(line, "serves", plan->serves);
    }
    at_json_put_bool(line, "modelled", plan->modelled);
    char *printed = at_json_print(line, false);
    (void)puts(printed);
    free(printed);
    at_json_close(line);
}

/* Entries of known bugs without a case: comments, so that the output stays a list of cases. */
static void print_unsaid(const at_suite *suite, bool jsonl)
{
    const at_suite_unsaid *list = NULL;
    size_t n = at_suite_unsaid_entries(suite, &list);
    for (size_t i = 0; i < n; i++) {
        if (!jsonl) {
            (void)printf("# %s: no case: %s\n", list[i].entry, list[i].reason);
            continue;
        }
        at_json *line = at_json_object();
        at_json_put_text(line, "suite", list[i].suite);
        at_json_put_text(line, "group", list[i].entry);
        at_json_put_text(line, "skipped", list[i].reason);
        char *printed = at_json_print(line, false);
        (void)puts(printed);
        free(printed);
        at_json_close(line);
    }
}

int cmd_list(int argc, char **argv)
{
    at_options o;
    int exit_code = 0;
    at_error err = {""};
    at_choice choice;
    if (!at_options_parse(&o, AT_CHOICE_FLAGS | AT_FLAG(FORMAT), argc, argv, &exit_code)) {
        return exit_code;
    }
    if (o.word_count == 0) {
        return at_usage_error(
            "list: name a suite, a case or an @file, such as `attest list smoke`");
    }
    if (at_choice_open(&choice, &o, NULL, &err) != AT_OK) {
        return at_usage_error("list: %s", err.text);
    }
    for (size_t i = 0; i < choice.count; i++) {
        char text[AT_CASE_TEXT_MAX];
        const at_suite_plan *plan = NULL;
        const at_case *c = at_suite_case(choice.suite, choice.index[i], &plan);
        (void)at_case_print(c, text);
        if (o.jsonl) {
            print_json(c, text, plan);
        } else {
            (void)printf("%s%s%s\n", text, plan->entry ? "  # " : "",
                         plan->entry ? plan->group : "");
        }
    }
    print_unsaid(choice.suite, o.jsonl);
    at_choice_close(&choice);
    return fflush(stdout) == 0 && !ferror(stdout)
               ? AT_EXIT_CLEAN
               : at_usage_error("list: stdout cannot be written");
}
