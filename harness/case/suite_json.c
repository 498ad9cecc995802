#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/field.h"
#include "harness/case/suite_build.h"
#include "harness/json.h"
#include "harness/select/expr.h"

#define PLAN_MEMBERS "backends", "selector", "env", "serves", "modelled"
static const char *const file_members[] = {"name",    "doc",    PLAN_MEMBERS, "audits",
                                           "include", "groups", NULL};
static const char *const group_members[] = {
    "name", "doc", PLAN_MEMBERS, "case", "cases", "skip", "contradictions", "sample", NULL};
static const char *const audit_members[] = {"selector", "arch", "env", "space", "limit", NULL};
static const char *const sample_members[] = {"n", "seed", "weights", NULL};

/* Copies an optional text member where it fits. */
static at_status copy_text(char *out, size_t room, const at_json *object, const char *key,
                           at_error *err)
{
    const char *text = NULL;
    AT_TRY(at_json_want_text(object, key, false, &text, err));
    if (text != NULL && strlen(text) >= room) {
        return at_fail(err, AT_INVALID, "the member \"%s\" has more than %zu characters", key,
                       room - 1);
    }
    if (text != NULL) {
        memcpy(out, text, strlen(text) + 1);
    }
    return AT_OK;
}

static at_status read_backends(at_suite_plan *plan, const at_json *array, at_error *err)
{
    plan->backend_count = 0;
    for (const at_json *item = at_json_first(array); item != NULL; item = at_json_next(item)) {
        const char *name = at_json_text(item);
        if (name == NULL || name[0] == '\0' || strlen(name) >= AT_NAME_TEXT ||
            plan->backend_count == AT_SUITE_BACKENDS_MAX) {
            return at_fail(err, AT_INVALID,
                           "the member \"backends\" must be at most %d names of backends",
                           AT_SUITE_BACKENDS_MAX);
        }
        (void)snprintf(plan->backend[plan->backend_count++], AT_NAME_TEXT, "%s", name);
    }
    return AT_OK;
}

static at_status read_serves(at_suite_plan *plan, const at_json *object, at_error *err)
{
    size_t used = 0;
    plan->serves[0] = '\0';
    for (const at_json *m = at_json_first(object); m != NULL; m = at_json_next(m)) {
        const char *backend = at_json_text(m);
        int n = backend != NULL ? snprintf(plan->serves + used, sizeof plan->serves - used,
                                           "%s%s=%s", used > 0 ? "," : "", at_json_key(m), backend)
                                : -1;
        if (n < 0 || used + (size_t)n >= sizeof plan->serves) {
            return at_fail(err, AT_INVALID,
                           "the member \"serves\" must name one backend for each of the selector's "
                           "(at most %zu characters)",
                           sizeof plan->serves - 1);
        }
        used += (size_t)n;
    }
    return AT_OK;
}

/* Members that a group takes from its file, and a file from the file that names it. */
static at_status read_plan(at_suite_plan *plan, const at_json *object, at_error *err)
{
    const at_json *backends = NULL, *serves = NULL;
    AT_TRY(at_json_want_array(object, "backends", false, &backends, err));
    AT_TRY(at_json_want_object(object, "serves", false, &serves, err));
    if (backends != NULL) {
        AT_TRY(read_backends(plan, backends, err));
    }
    if (serves != NULL) {
        AT_TRY(read_serves(plan, serves, err));
    }
    AT_TRY(copy_text(plan->selector, sizeof plan->selector, object, "selector", err));
    AT_TRY(copy_text(plan->env, sizeof plan->env, object, "env", err));
    return at_json_want_bool(object, "modelled", false, &plan->modelled, err);
}

/* One value of a key: text with lists and ranges, or a number. */
static at_status add_value(at_space *space, const char *key, const at_json *value, at_error *err)
{
    char number[AT_REAL_TEXT];
    double real = 0;
    const char *text = at_json_text(value);
    if (text == NULL && at_json_number(value, &real)) {
        (void)at_real_print(real, number);
        text = number;
    }
    if (text == NULL) {
        return at_fail(err, AT_INVALID,
                       "%s must be a number or a text, or a list of those, it is %s", key,
                       at_json_kind_name(at_json_type(value)));
    }
    return at_space_add(space, key, strlen(key), text, strlen(text), true, err);
}

static at_status add_axis(at_space *space, const at_json *member, at_error *err)
{
    const char *key = at_json_key(member);
    if (at_json_type(member) != AT_JSON_ARRAY) {
        return add_value(space, key, member, err);
    }
    if (at_json_size(member) == 0) {
        return at_fail(err, AT_INVALID, "%s is an empty list, it needs at least one value", key);
    }
    for (const at_json *item = at_json_first(member); item != NULL; item = at_json_next(item)) {
        AT_TRY(add_value(space, key, item, err));
    }
    return AT_OK;
}

/* The group's "case", then the text if there is one. */
static at_status make_space(at_space *space, const at_json *group, const char *text, at_error *err)
{
    const at_json *axes = NULL;
    AT_TRY(at_json_want_object(group, "case", false, &axes, err));
    for (const at_json *m = axes != NULL ? at_json_first(axes) : NULL; m != NULL;
         m = at_json_next(m)) {
        if (add_axis(space, m, err) != AT_OK) {
            return at_fail_in(err, AT_INVALID, "\"case\"");
        }
    }
    return text != NULL ? at_space_add_text(space, text, err) : AT_OK;
}

static at_status weigh(at_space *space, const at_json *sample, at_error *err)
{
    const at_json *weights = NULL;
    AT_TRY(at_json_want_object(sample, "weights", false, &weights, err));
    for (const at_json *key = weights != NULL ? at_json_first(weights) : NULL; key != NULL;
         key = at_json_next(key)) {
        if (at_json_type(key) != AT_JSON_OBJECT) {
            return at_fail(err, AT_INVALID, "the weights of %s must be an object, it is %s",
                           at_json_key(key), at_json_kind_name(at_json_type(key)));
        }
        for (const at_json *v = at_json_first(key); v != NULL; v = at_json_next(v)) {
            int64_t weight = 0;
            if (!at_json_integer(v, &weight) || weight < 1 || weight > 1000000) {
                return at_fail(err, AT_INVALID, "the weight of %s=%s must be an integer 1..1000000",
                               at_json_key(key), at_json_key(v));
            }
            AT_TRY(at_space_weigh(space, at_json_key(key), at_json_key(v), (uint64_t)weight, err));
        }
    }
    return AT_OK;
}

static at_status read_sample(at_suite_sample *out, const at_json *sample, const char *group,
                             at_error *err)
{
    int64_t n = 0, seed = 0;
    AT_TRY(at_json_only_keys(sample, sample_members, err));
    AT_TRY(at_json_want_integer(sample, "n", true, &n, err));
    AT_TRY(at_json_want_integer(sample, "seed", false, &seed, err));
    if (n < 1 || n > AT_SUITE_CASES_MAX || seed < 0) {
        return at_fail(err, AT_INVALID, "n must be 1..%d and seed at least 0", AT_SUITE_CASES_MAX);
    }
    out->n = (uint64_t)n;
    out->seed = (uint64_t)seed;
    out->stream = at_hash_name(group, UINT32_C(2166136261));
    return AT_OK;
}

static void close_rules(at_suite_rules *rules)
{
    for (size_t i = 0; i < rules->skip_count; i++) {
        at_expr_close(rules->skip[i]);
    }
    free(rules->skip);
    *rules = (at_suite_rules){0};
}

static at_status read_skip(at_suite_rules *rules, const at_json *skip, at_error *err)
{
    rules->skip = calloc(at_json_size(skip) + 1, sizeof(void *));
    if (rules->skip == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for the member \"skip\"");
    }
    for (const at_json *item = at_json_first(skip); item != NULL; item = at_json_next(item)) {
        const char *text = at_json_text(item);
        if (text == NULL) {
            return at_fail(err, AT_INVALID,
                           "the member \"skip\" must be a list of conditions, such "
                           "as \"dqk < dv\"");
        }
        if (at_expr_compile(&rules->skip[rules->skip_count], text, NULL, AT_EXPR_BOOL, err) !=
            AT_OK) {
            return at_fail_in(err, AT_INVALID, "\"skip\": \"%.60s\"", text);
        }
        rules->skip_count++;
    }
    return AT_OK;
}

static at_status read_rules(at_suite_rules *rules, const at_json *group, const char *name,
                            at_error *err)
{
    const at_json *skip = NULL, *sample = NULL;
    const char *contradictions = "error";
    AT_TRY(at_json_want_array(group, "skip", false, &skip, err));
    AT_TRY(at_json_want_object(group, "sample", false, &sample, err));
    AT_TRY(at_json_want_text(group, "contradictions", false, &contradictions, err));
    rules->skip_contradictions = strcmp(contradictions, "skip") == 0;
    if (!rules->skip_contradictions && strcmp(contradictions, "error") != 0) {
        return at_fail(err, AT_INVALID, "the member \"contradictions\" must be error or skip");
    }
    if (sample != NULL && read_sample(&rules->sample, sample, name, err) != AT_OK) {
        return at_fail_in(err, AT_INVALID, "\"sample\"");
    }
    return skip != NULL ? read_skip(rules, skip, err) : AT_OK;
}

/* One product (or sample): the group's "case" with one of its "cases", or alone (text NULL). */
static at_status add_one(at_suite_builder *b, const at_json *group, const char *text,
                         const at_suite_rules *rules, const at_suite_plan *plan, at_error *err)
{
    at_space space = {.n = 0};
    const at_json *sample = at_json_get(group, "sample");
    at_status status = make_space(&space, group, text, err);
    if (status == AT_OK && sample != NULL) {
        status = weigh(&space, sample, err);
    }
    if (status == AT_OK) {
        status = at_suite_add_space(b, &space, rules, plan, err);
    }
    at_space_close(&space);
    return status;
}

static at_status add_cases(at_suite_builder *b, const at_json *group, const at_json *cases,
                           at_suite_rules *rules, const at_suite_plan *plan, at_error *err)
{
    for (const at_json *item = at_json_first(cases); item != NULL; item = at_json_next(item)) {
        const char *text = at_json_text(item);
        if (text == NULL) {
            return at_fail(err, AT_INVALID, "the member \"cases\" must be a list of case texts");
        }
        at_status status = add_one(b, group, text, rules, plan, err);
        if (status != AT_OK) {
            return at_fail_in(err, status, "\"cases\": \"%.80s\"", text);
        }
        rules->sample.stream++; /* another sample for each text */
    }
    return AT_OK;
}

static at_status add_group_cases(at_suite_builder *b, const at_json *group,
                                 const at_suite_plan *inherited, at_error *err)
{
    at_suite_plan plan = *inherited;
    const at_suite_plan *kept = NULL;
    const at_json *cases = NULL;
    at_suite_rules rules = {0};
    AT_TRY(at_json_only_keys(group, group_members, err));
    AT_TRY(copy_text(plan.group, sizeof plan.group, group, "name", err));
    AT_TRY(read_plan(&plan, group, err));
    if (!at_suite_takes(b, plan.group)) {
        return AT_OK;
    }
    AT_TRY(at_json_want_array(group, "cases", false, &cases, err));
    if (cases == NULL && at_json_get(group, "case") == NULL) {
        return at_fail(err, AT_INVALID, "a group needs \"case\", \"cases\" or both");
    }
    AT_TRY(at_suite_keep_plan(&kept, b->suite, &plan, err));
    at_status status = read_rules(&rules, group, plan.group, err);
    if (status == AT_OK) {
        status = cases != NULL ? add_cases(b, group, cases, &rules, kept, err)
                               : add_one(b, group, NULL, &rules, kept, err);
    }
    close_rules(&rules);
    return status;
}

static at_status add_groups(at_suite_builder *b, const at_json *groups, const at_suite_plan *plan,
                            at_error *err)
{
    int number = 1;
    for (const at_json *g = at_json_first(groups); g != NULL; g = at_json_next(g), number++) {
        if (at_json_type(g) != AT_JSON_OBJECT) {
            return at_fail(err, AT_INVALID, "the member \"groups\" must be a list of objects");
        }
        at_status status = add_group_cases(b, g, plan, err);
        if (status != AT_OK) {
            const char *name = at_json_text(at_json_get(g, "name"));
            return name != NULL ? at_fail_in(err, status, "group \"%.60s\"", name)
                                : at_fail_in(err, status, "group %d", number);
        }
    }
    return AT_OK;
}

static at_status add_audits(at_suite_builder *b, const at_json *audits, at_error *err)
{
    for (const at_json *item = at_json_first(audits); item != NULL; item = at_json_next(item)) {
        at_suite_audit audit = {.selector = ""};
        if (at_json_type(item) != AT_JSON_OBJECT) {
            return at_fail(err, AT_INVALID, "it must be a list of objects");
        }
        AT_TRY(at_json_only_keys(item, audit_members, err));
        AT_TRY(copy_text(audit.selector, sizeof audit.selector, item, "selector", err));
        AT_TRY(copy_text(audit.arch, sizeof audit.arch, item, "arch", err));
        AT_TRY(copy_text(audit.env, sizeof audit.env, item, "env", err));
        AT_TRY(copy_text(audit.space, sizeof audit.space, item, "space", err));
        AT_TRY(at_json_want_integer(item, "limit", false, &audit.limit, err));
        if (audit.limit < 0 || (audit.limit == 0 && at_json_get(item, "limit") != NULL)) {
            return at_fail(err, AT_INVALID, "the member \"limit\" must be an integer from 1 up");
        }
        if (audit.selector[0] == '\0') {
            return at_fail(err, AT_INVALID, "an audit needs the member \"selector\"");
        }
        AT_TRY(at_suite_keep_audit(b->suite, &audit, err));
    }
    return AT_OK;
}

static at_status add_includes(at_suite_builder *b, const at_json *include,
                              const at_suite_file *file, const at_suite_plan *plan, at_error *err)
{
    for (const at_json *item = at_json_first(include); item != NULL; item = at_json_next(item)) {
        const char *word = at_json_text(item);
        if (word == NULL) {
            return at_fail(err, AT_INVALID, "it must be a list of suites, cases or @files");
        }
        AT_TRY(at_suite_add_word(b, word, file, plan, err));
    }
    return AT_OK;
}

static at_status add_root(at_suite_builder *b, const at_json *root, const at_suite_file *file,
                          const at_suite_plan *inherited, at_error *err)
{
    at_suite_plan plan = *inherited;
    const at_json *include = NULL, *groups = NULL, *audits = NULL;
    const char *slash = strrchr(file->path, '/'), *stem = slash != NULL ? slash + 1 : file->path;
    if (at_json_type(root) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "a suite must be an object, it is %s",
                       at_json_kind_name(at_json_type(root)));
    }
    AT_TRY(at_json_only_keys(root, file_members, err));
    (void)snprintf(plan.suite, sizeof plan.suite, "%.*s",
                   (int)(strlen(stem) - strlen(".json")) < AT_NAME_TEXT
                       ? (int)(strlen(stem) - strlen(".json"))
                       : AT_NAME_TEXT - 1,
                   stem);
    plan.group[0] = '\0';
    AT_TRY(copy_text(plan.suite, sizeof plan.suite, root, "name", err));
    AT_TRY(read_plan(&plan, root, err));
    AT_TRY(at_json_want_array(root, "include", false, &include, err));
    AT_TRY(at_json_want_array(root, "groups", false, &groups, err));
    AT_TRY(at_json_want_array(root, "audits", false, &audits, err));
    at_status status = include != NULL ? add_includes(b, include, file, &plan, err) : AT_OK;
    if (status != AT_OK) {
        return b->placed ? status : at_fail_in(err, status, "\"include\"");
    }
    if (groups != NULL) {
        AT_TRY(add_groups(b, groups, &plan, err));
    }
    if (audits != NULL && add_audits(b, audits, err) != AT_OK) {
        return at_fail_in(err, AT_INVALID, "\"audits\"");
    }
    return AT_OK;
}

at_status at_suite_add_json(at_suite_builder *b, const at_suite_file *file,
                            const at_suite_plan *inherited, at_error *err)
{
    at_json *root = NULL;
    b->placed = true; /* at_json_load names the file itself */
    AT_TRY(at_json_load(&root, file->path, err));
    b->placed = false;
    const char *schema = at_json_text(at_json_get(root, "schema"));
    bool known = schema != NULL && strncmp(schema, "attest-known-bugs-", 18) == 0;
    at_status status = known ? at_suite_add_known(b, file->path, inherited, err)
                             : add_root(b, root, file, inherited, err);
    at_json_close(root);
    if (status != AT_OK && !b->placed) {
        b->placed = true;
        return at_fail_in(err, status, "%s", file->path);
    }
    return status;
}
