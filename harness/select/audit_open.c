/* What an audit asks: the selector and the sets of each environment. */
#include "harness/select/audit_core.h"
#include "harness/select/graph_rules.h"

#include <stdlib.h>
#include <string.h>

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static at_status find_kind(uint32_t *out, at_audit *a, const at_audit_kind *k, at_error *err)
{
    size_t i = 0;
    while (i < a->kinds && !(a->kind[i].step == k->step && a->kind[i].outcome == k->outcome &&
                             same_text(a->kind[i].tensor, k->tensor) &&
                             same_text(a->kind[i].message, k->message))) {
        i++;
    }
    if (i == AT_AUDIT_KINDS_MAX) {
        return at_fail(err, AT_INVALID, "more than %d kinds of answers of builds",
                       AT_AUDIT_KINDS_MAX);
    }
    a->kind[i] = *k;
    a->kinds += i == a->kinds;
    *out = (uint32_t)i;
    return AT_OK;
}

static at_status find_kinds(at_audit *a, at_audit_set *s, at_error *err)
{
    size_t n = at_capabilities_size(s->set);
    s->kind = calloc(n + 1, sizeof *s->kind);
    AT_ASSERT(s->kind != NULL); /* only memory can run out */
    for (size_t i = 0; i < n; i++) {
        at_capability c = at_capability_at(s->set, (int)i);
        const at_audit_kind k = {.step = at_capability_step(s->set, (int)i),
                                 .outcome = c.outcome,
                                 .tensor = c.tensor,
                                 .message = c.message};
        AT_TRY(find_kind(&s->kind[i], a, &k, err));
    }
    return AT_OK;
}

/* Environments share the sets that they name. */
static at_status open_set(const at_audit_set **out, at_audit *a, const char *corpus,
                          const char *name, at_error *err)
{
    for (size_t i = 0; i < a->sets; i++) {
        if (strcmp(at_capabilities_name(a->set[i].set), name) == 0) {
            *out = &a->set[i];
            return AT_OK;
        }
    }
    if (a->sets == AT_AUDIT_SETS_MAX) {
        return at_fail(err, AT_INVALID, "more than %d capability sets", AT_AUDIT_SETS_MAX);
    }
    at_audit_set *s = &a->set[a->sets];
    AT_TRY(at_capabilities_open(&s->set, corpus, name, err));
    a->sets++;
    *out = s;
    return find_kinds(a, s, err);
}

/* The same of a backend's measured verdicts. */
static at_status open_measured(const at_audit_set **out, at_audit *a, const at_selector *s,
                               size_t backend, at_error *err)
{
    const char *name[AT_MEASURED_NAMES];
    char model[AT_MEASURED_TEXT];
    at_capabilities *set = NULL;
    at_selector_measured(s, backend, name, model);
    at_status status = at_measured_set_open(&set, a->measured, name, err);
    if (status != AT_OK || set == NULL) {
        return status == AT_OK ? AT_OK
                               : at_fail_in(err, status, "%s", at_selector_backend(s, backend));
    }
    for (size_t i = 0; i < a->sets; i++) {
        if (strcmp(at_capabilities_name(a->set[i].set), at_capabilities_name(set)) == 0) {
            at_capabilities_close(set);
            *out = &a->set[i];
            return AT_OK;
        }
    }
    if (a->sets == AT_AUDIT_SETS_MAX) {
        at_capabilities_close(set);
        return at_fail(err, AT_INVALID, "more than %d backends in the results", AT_AUDIT_SETS_MAX);
    }
    at_audit_set *made = &a->set[a->sets++];
    made->set = set;
    *out = made;
    return find_kinds(a, made, err);
}

/* How a package makes graphs of cases is the rule set's key `caller`. */
static const char *caller_of(const char *selector)
{
    static const char *const rows[][2] = {{"te-", "caller=te"},
                                          {"te@", "caller=te"},
                                          {"nvte-", "caller=te"},
                                          {"torch-", "caller=torch"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strncmp(selector, rows[i][0], strlen(rows[i][0])) == 0) {
            return rows[i][1];
        }
    }
    return "caller=plain";
}

/* What the selector reads, the graphs read too: the same cuDNN, given or by default. */
static at_status shared_env(at_env **out, const at_selector *s, at_error *err)
{
    AT_TRY(at_env_set(out, caller_of(at_selector_name(s)), err));
    at_json *env = at_selector_env(s, AT_ARCH_ANY);
    at_status status = AT_OK;
    for (const at_json *m = at_json_first(env); m != NULL && status == AT_OK; m = at_json_next(m)) {
        char pair[512];
        (void)snprintf(pair, sizeof pair, "%s=%s", at_json_key(m), at_json_text(m));
        status = strcmp(at_json_key(m), "arch") == 0 ? AT_OK : at_env_set(out, pair, err);
    }
    at_json_close(env);
    return status;
}

/* An environment's set from a rule set of graphs; those of one name are one. */
static at_status open_graphs(const at_audit_set **out, at_audit *a, const at_audit_request *request,
                             const at_selector *s, at_error *err)
{
    at_capabilities *set = NULL;
    at_env *env = NULL;
    at_status status = shared_env(&env, s, err);
    status = status == AT_OK
                 ? at_graph_rules_open(&set, request->corpus, request->against, env, err)
                 : status;
    at_env_close(env);
    AT_TRY(status);
    for (size_t i = 0; i < a->sets; i++) {
        if (strcmp(at_capabilities_name(a->set[i].set), at_capabilities_name(set)) == 0) {
            at_capabilities_close(set);
            *out = &a->set[i];
            return AT_OK;
        }
    }
    if (a->sets == AT_AUDIT_SETS_MAX) {
        at_capabilities_close(set);
        return at_fail(err, AT_INVALID, "more than %d environments of %s", AT_AUDIT_SETS_MAX,
                       request->against);
    }
    at_audit_set *made = &a->set[a->sets++];
    made->set = set;
    *out = made;
    return find_kinds(a, made, err);
}

static at_status open_against(at_audit *a, at_audit_env *e, const at_audit_request *request,
                              at_error *err)
{
    for (size_t i = 0; i < a->backends; i++) {
        const char *name = at_selector_backend(e->selector, i);
        if (strcmp(name, "fused") == 0 || strcmp(name, "cudnn") == 0) {
            return open_graphs(&e->set[i], a, request, e->selector, err);
        }
    }
    return at_fail(err, AT_INVALID, "%s has no backend called fused or cudnn to hold against %s",
                   request->selector, request->against);
}

static at_status copy_env(at_env **out, const at_env *env, at_error *err)
{
    for (size_t i = 0; i < at_env_size(env); i++) {
        char pair[512];
        const char *key = at_env_key_at(env, i);
        (void)snprintf(pair, sizeof pair, "%s=%s", key, at_env_get(env, key));
        AT_TRY(at_env_set(out, pair, err));
    }
    return AT_OK;
}

static at_status open_env(at_audit *a, at_audit_env *e, uint64_t number,
                          const at_audit_request *request, at_error *err)
{
    AT_TRY(copy_env(&e->given, request->env, err));
    AT_TRY(at_region_env(&e->given, a->region, number, err));
    AT_TRY(at_selector_open(&e->selector, request->corpus, request->selector, e->given, err));
    a->backends = at_selector_backends(e->selector);
    if (request->against != NULL) {
        AT_TRY(open_against(a, e, request, err));
    }
    for (size_t i = 0; i < a->backends && request->against == NULL; i++) {
        const char *name = at_selector_capabilities(e->selector, i);
        if (a->measured != NULL) {
            AT_TRY(open_measured(&e->set[i], a, e->selector, i, err));
        } else if (name != NULL && at_capabilities_exist(request->corpus, name, NULL) != AT_OK) {
            e->missing[i] = name;
        } else if (name != NULL) {
            AT_TRY(open_set(&e->set[i], a, request->corpus, name, err));
        }
    }
    at_case c = a->region->base;
    return (a->region->list != NULL && a->measured == NULL) ||
                   at_selector_arch(e->selector, &c) != AT_ARCH_ANY
               ? AT_OK
               : at_fail(err, AT_INVALID,
                         "an audit of %s asks for the arch: give it as --arch sm90",
                         request->selector);
}

/* The space, and axes of environments by the keys that the selector declares. */
static at_status open_space(at_audit *a, const at_selector *s, const at_audit_request *request,
                            at_error *err)
{
    at_status status = AT_OK;
    if (request->results != NULL) {
        size_t n = 0;
        AT_TRY(
            at_measured_open(&a->measured, request->results, request->only, request->waivers, err));
        const at_case *list = at_measured_cases(a->measured, &n);
        at_region_of_cases(&a->region, "results", list, n);
    } else {
        status = at_region_open(&a->region, request->corpus, request->space, err);
    }
    const at_env_table *table[] = {&s->env};
    const at_region_sweep_request what = {.table = table,
                                          .table_count = 1,
                                          .corpus = request->corpus,
                                          .given = request->env,
                                          .sweep = request->sweep,
                                          .sweep_count = request->sweep_count};
    status = status == AT_OK ? at_region_sweep(a->region, &what, err) : status;
    return status;
}

at_status at_audit_prepare(at_audit *a, const at_audit_request *request, at_error *err)
{
    /* Stays open until the others are: they share the process of a called one. */
    at_selector *s = NULL;
    AT_TRY(at_selector_open(&s, request->corpus, request->selector, request->env, err));
    at_status status = open_space(a, s, request, err);
    if (status == AT_OK) {
        a->env = calloc(a->region->envs, sizeof *a->env);
        AT_ASSERT(a->env != NULL); /* only memory can run out */
        a->envs = a->region->envs;
    }
    for (size_t i = 0; status == AT_OK && i < a->envs; i++) {
        status = open_env(a, &a->env[i], i, request, err);
    }
    at_selector_close(s);
    return status;
}
