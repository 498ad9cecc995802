/* Known bugs as a suite: each entry is a group of that name. */
#include <stdio.h>
#include <string.h>

#include "harness/case/known_bugs.h"
#include "harness/case/suite_build.h"

static at_status add_texts(at_suite_builder *b, const at_json *texts, const at_suite_plan *plan,
                           at_error *err)
{
    const at_json *item = texts != NULL ? at_json_first(texts) : NULL;
    for (; item != NULL; item = at_json_next(item)) {
        at_space space = {.n = 0};
        at_status status = at_space_add_text(&space, at_json_text(item), err);
        if (status == AT_OK) {
            status = at_suite_add_space(b, &space, NULL, plan, err);
        }
        at_space_close(&space);
        if (status != AT_OK) {
            return at_fail_in(err, status, "\"%.100s\"", at_json_text(item));
        }
    }
    return AT_OK;
}

static at_status add_bug(at_suite_builder *b, const at_known_bug *bug,
                         const at_suite_plan *inherited, at_error *err)
{
    at_suite_plan plan = *inherited;
    const at_suite_plan *kept = NULL;
    (void)snprintf(plan.group, sizeof plan.group, "%s", bug->id);
    plan.entry = true;
    if (!at_suite_takes(b, bug->id)) {
        return AT_OK;
    }
    if (bug->unsayable != NULL) {
        return at_suite_keep_unsaid(b->suite, plan.suite, bug->id, bug->unsayable, err);
    }
    AT_TRY(at_suite_keep_plan(&kept, b->suite, &plan, err));
    AT_TRY(add_texts(b, bug->cases, kept, err));
    return add_texts(b, bug->controls, kept, err);
}

at_status at_suite_add_known(at_suite_builder *b, const char *path, const at_suite_plan *inherited,
                             at_error *err)
{
    at_suite_plan plan = *inherited;
    at_known_bugs *bugs = NULL;
    if (plan.suite[0] == '\0') {
        (void)snprintf(plan.suite, sizeof plan.suite, "known-bugs");
    }
    at_status status = at_known_bugs_open(&bugs, path, err);
    b->placed = b->placed || status != AT_OK; /* it names the file */
    for (size_t i = 0; status == AT_OK && i < at_known_bugs_size(bugs); i++) {
        const at_known_bug *bug = at_known_bugs_at(bugs, i);
        status = add_bug(b, bug, &plan, err);
        if (status != AT_OK) {
            b->placed = true;
            status = at_fail_in(err, status, "%s: entry \"%s\"", bug->file, bug->id);
        }
    }
    at_known_bugs_close(bugs);
    return status;
}
