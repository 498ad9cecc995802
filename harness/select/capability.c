#include "harness/select/capability.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/capability_core.h"
#include "harness/select/possible.h"
#include "harness/select/rules.h"

enum { ENTRIES_MAX = 256 };

const char *const at_outcome_names[] = {"unknown", "runs", "refuses", "wrong", NULL};

static int64_t index_of(const char *const *list, const char *text)
{
    for (int64_t i = 0; list[i] != NULL; i++) {
        if (strcmp(list[i], text) == 0) {
            return i;
        }
    }
    return -1;
}

static at_status read_head(at_capabilities *set, const char *name, at_error *err)
{
    static const char *const members[] = {"schema", "name", "arch",  "package", "doc",
                                          "covers", "let",  "rules", NULL};
    const at_json *d = set->document;
    const char *schema = NULL;
    if (at_json_type(d) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "a capability set is an object");
    }
    AT_TRY(at_json_only_keys(d, members, err));
    AT_TRY(at_json_want_text(d, "schema", true, &schema, err));
    if (strcmp(schema, "attest-capabilities-1") != 0) {
        return at_fail(err, AT_INVALID, "the schema is \"%.60s\", attest-capabilities-1 is read",
                       schema);
    }
    AT_TRY(at_json_want_text(d, "name", true, &set->name, err));
    if (strcmp(set->name, name) != 0) {
        return at_fail(err, AT_INVALID, "it calls itself \"%.60s\" and must bear the file's name",
                       set->name);
    }
    AT_TRY(at_json_want_text(d, "package", true, &set->package, err));
    AT_TRY(at_json_want_text(d, "doc", true, &set->doc, err));
    AT_TRY(at_json_want_text(d, "arch", true, &set->arch_name, err));
    set->arch = index_of(at_case_field("arch", 4)->names, set->arch_name);
    if (set->arch <= AT_ARCH_ANY) {
        return at_fail(err, AT_INVALID, "the arch \"%.40s\" is none of the case language's",
                       set->arch_name);
    }
    const char *covers = NULL;
    AT_TRY(at_json_want_text(d, "covers", false, &covers, err));
    if (covers == NULL) {
        return AT_OK;
    }
    at_status status = at_expr_compile(&set->covers, covers, NULL, AT_EXPR_BOOL, err);
    return status == AT_OK ? AT_OK : at_fail_in(err, status, "covers");
}

static at_status read_lets(at_capabilities *set, at_error *err)
{
    const at_json *object = NULL;
    at_lets_open(&set->lets, NULL, 0);
    AT_TRY(at_json_want_object(set->document, "let", false, &object, err));
    for (const at_json *m = at_json_first(object); m != NULL; m = at_json_next(m)) {
        const char *text = at_json_text(m);
        at_status status = text != NULL ? at_lets_add(&set->lets, at_json_key(m), text, err)
                                        : at_fail(err, AT_INVALID, "it must be a text");
        if (status != AT_OK) {
            return at_fail_in(err, status, "let \"%.60s\"", at_json_key(m));
        }
    }
    return AT_OK;
}

/* What each outcome needs: a message unless it runs, a tensor only if it is wrong. */
static at_status check_outcome(const at_capability *c, at_step step, at_error *err)
{
    static const char *const forward[] = {"o", "lse", NULL};
    static const char *const backward[] = {"dq", "dk", "dv", NULL};
    const char *const *tensors = step == AT_STEP_FORWARD ? forward : backward;
    if ((c->outcome == AT_OUTCOME_RUNS) != (c->message == NULL)) {
        return at_fail(err, AT_INVALID,
                       "\"message\" is what refuses or goes wrong, and only runs has none");
    }
    if ((c->outcome == AT_OUTCOME_WRONG) != (c->tensor != NULL)) {
        return at_fail(err, AT_INVALID, "\"tensor\" stands with the outcome wrong, and only there");
    }
    if (c->tensor != NULL && index_of(tensors, c->tensor) < 0) {
        return at_fail(err, AT_INVALID,
                       "the tensor \"%.40s\" is not made by that step; accepted: %s", c->tensor,
                       step == AT_STEP_FORWARD ? "o, lse" : "dq, dk, dv");
    }
    return AT_OK;
}

static at_status compile_when(at_capabilities *set, at_capability_entry *e, const char *text,
                              at_error *err)
{
    const at_expr_scope scope = {.name = set->lets.name, .name_count = set->lets.count};
    at_expr *when = NULL;
    int64_t value = 0;
    at_status status = at_expr_compile(&when, text, &scope, AT_EXPR_BOOL, err);
    if (status != AT_OK) {
        return at_fail_in(err, status, "when");
    }
    e->keys = at_expr_keys(when);
    e->never = at_expr_constant(when, &value, NULL) && value == 0;
    if (at_expr_constant(when, NULL, NULL)) {
        at_expr_close(when);
        return AT_OK;
    }
    e->slots = at_lets_reach(&set->lets, at_expr_slots(when));
    e->when = when;
    return AT_OK;
}

static at_status read_entry(at_capabilities *set, at_capability_entry *e, const at_json *o,
                            at_error *err)
{
    static const char *const members[] = {"id",      "when",     "step",   "outcome", "tensor",
                                          "message", "evidence", "source", NULL};
    static const char *const steps[] = {"forward", "backward", NULL};
    static const char *const evidence[] = {"read", "reported", "measured", NULL};
    const char *when = "true", *step = NULL, *outcome = NULL;
    at_capability *c = &e->what;
    AT_TRY(at_json_only_keys(o, members, err));
    AT_TRY(at_json_want_text(o, "when", false, &when, err));
    AT_TRY(at_json_want_text(o, "step", true, &step, err));
    AT_TRY(at_json_want_text(o, "outcome", true, &outcome, err));
    AT_TRY(at_json_want_text(o, "tensor", false, &c->tensor, err));
    AT_TRY(at_json_want_text(o, "message", false, &c->message, err));
    AT_TRY(at_json_want_text(o, "evidence", true, &c->evidence, err));
    AT_TRY(at_json_want_text(o, "source", true, &c->source, err));
    if (index_of(steps, step) < 0) {
        return at_fail(err, AT_INVALID, "the step is \"%.40s\"; accepted: forward, backward", step);
    }
    e->step = strcmp(step, "forward") == 0 ? AT_STEP_FORWARD : AT_STEP_BACKWARD;
    c->outcome = (at_outcome)(index_of(at_outcome_names + 1, outcome) + 1);
    if (c->outcome == AT_OUTCOME_UNKNOWN) {
        return at_fail(err, AT_INVALID, "the outcome is \"%.40s\"; accepted: runs, refuses, wrong",
                       outcome);
    }
    if (index_of(evidence, c->evidence) < 0) {
        return at_fail(err, AT_INVALID,
                       "the evidence is \"%.40s\"; accepted: read, reported, measured",
                       c->evidence);
    }
    if (c->source[0] == '\0') {
        return at_fail(err, AT_INVALID, "\"source\" is empty");
    }
    AT_TRY(check_outcome(c, e->step, err));
    return compile_when(set, e, when, err);
}

static at_status fail_in_rule(at_error *err, at_status status, const char *path, const char *id)
{
    char place[64];
    return at_fail_in(err, status, "%srule \"%.60s\"", at_rule_place(place, path, "rules", id), id);
}

/* Refuses conditions that no case meets. The file compiles. */
static at_status check_possible(const at_capabilities *set, at_error *err)
{
    const at_json *object = at_json_get(set->document, "let");
    const at_json *list = at_json_get(set->document, "rules");
    at_possible *p = NULL;
    at_status status = AT_OK;
    at_possible_open(&p, NULL);
    for (const at_json *m = at_json_first(object); status == AT_OK && m != NULL;
         m = at_json_next(m)) {
        status = at_possible_let(p, at_json_key(m), at_json_text(m), err);
    }
    for (const at_json *o = at_json_first(list); status == AT_OK && o != NULL;
         o = at_json_next(o)) {
        const char *when = at_json_text(at_json_get(o, "when"));
        status = when != NULL ? at_possible_check(p, when, NULL, 0, err) : AT_OK;
        if (status != AT_OK) {
            status = fail_in_rule(err, at_fail_in(err, status, "when"), set->path,
                                  at_json_text(at_json_get(o, "id")));
        }
    }
    at_possible_close(p);
    return status;
}

static at_status read_entries(at_capabilities *set, at_error *err)
{
    const at_json *list = NULL;
    AT_TRY(at_json_want_array(set->document, "rules", true, &list, err));
    set->entry = calloc(at_json_size(list) + 1, sizeof *set->entry);
    AT_ASSERT(set->entry != NULL); /* only memory can run out */
    for (const at_json *o = at_json_first(list); o != NULL; o = at_json_next(o)) {
        const char *id =
            at_json_type(o) == AT_JSON_OBJECT ? at_json_text(at_json_get(o, "id")) : NULL;
        if (id == NULL || id[0] == '\0') {
            return at_fail(err, AT_INVALID, "rule %zu: it must be an object with an \"id\"",
                           set->count + 1);
        }
        for (size_t i = 0; i < set->count; i++) {
            if (strcmp(set->entry[i].what.id, id) == 0) {
                return at_fail(err, AT_INVALID, "rule \"%.60s\": the id stands twice", id);
            }
        }
        at_capability_entry *e = &set->entry[set->count++];
        e->what.id = id;
        at_status status = set->count <= ENTRIES_MAX
                               ? read_entry(set, e, o, err)
                               : at_fail(err, AT_INVALID, "more than %d rules", ENTRIES_MAX);
        if (status != AT_OK) {
            return fail_in_rule(err, status, set->path, id);
        }
    }
    return AT_OK;
}

at_status at_capabilities_exist(const char *corpus, const char *name, at_error *err)
{
    char path[4096];
    return at_corpus_file(path, corpus, "capabilities", "capability set", name, err);
}

at_status at_capabilities_open(at_capabilities **out, const char *corpus, const char *name,
                               at_error *err)
{
    char path[4096];
    *out = NULL;
    AT_TRY(at_corpus_file(path, corpus, "capabilities", "capability set", name, err));
    at_capabilities *set = calloc(1, sizeof *set);
    if (set == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for the capability set %s", name);
    }
    memcpy(set->path, path, sizeof path);
    at_status status = at_json_load(&set->document, path, err);
    if (status == AT_OK) {
        status = read_head(set, name, err);
        status = status == AT_OK ? read_lets(set, err) : status;
        status = status == AT_OK ? read_entries(set, err) : status;
        status = status == AT_OK ? check_possible(set, err) : status;
        status = status == AT_OK ? AT_OK : at_fail_in(err, status, "%s", path);
    }
    if (status != AT_OK) {
        at_capabilities_close(set);
        return status;
    }
    *out = set;
    return AT_OK;
}

void at_capabilities_close(at_capabilities *set)
{
    if (set != NULL) {
        for (size_t i = 0; i < set->count; i++) {
            at_expr_close(set->entry[i].when);
        }
        free(set->entry);
        at_expr_close(set->covers);
        at_lets_close(&set->lets);
        at_json_close(set->document);
        at_measured_set_close(set->measured);
        at_graph_rules_close(set->graphs);
        free(set);
    }
}

const char *at_capabilities_name(const at_capabilities *set)
{
    return set->name;
}

const char *at_capabilities_arch(const at_capabilities *set)
{
    return set->arch_name;
}

const char *at_capabilities_package(const at_capabilities *set)
{
    return set->package;
}

const char *at_capabilities_doc(const at_capabilities *set)
{
    return set->doc;
}

at_status at_capability_find_fast(int *out, const at_capabilities *set, const at_case *c,
                                  at_step step, int64_t arch, at_error *err)
{
    int64_t slot[AT_LET_SLOTS];
    uint64_t done = 0;
    at_expr_frame frame = {.c = c, .arch = arch != AT_ARCH_ANY ? arch : set->arch, .slot = slot};
    int64_t covered = 1;
    *out = -1;
    if (set->measured != NULL) {
        *out = at_measured_find(set->measured, c, step);
        return AT_OK;
    }
    if (set->graphs != NULL) {
        return at_graph_rules_find(out, set->graphs, c, step, frame.arch, err);
    }
    if (set->covers != NULL && at_expr_eval(&covered, set->covers, &frame, err) != AT_OK) {
        return at_fail_in(err, AT_INVALID, "capability set %s: covers", set->name);
    }
    if (covered == 0) {
        return AT_OK;
    }
    for (size_t i = 0; i < set->count; i++) {
        const at_capability_entry *e = &set->entry[i];
        int64_t holds = 1;
        if (e->never || e->step != step) {
            continue;
        }
        at_lets_fill(&set->lets, &frame, slot, &done, e->slots);
        if (e->when != NULL && at_expr_eval(&holds, e->when, &frame, err) != AT_OK) {
            at_lets_explain(&set->lets, &frame, at_expr_slots(e->when), err);
            return at_fail_in(err, AT_INVALID, "capability set %s: rule \"%.60s\"", set->name,
                              e->what.id);
        }
        if (holds != 0) {
            *out = (int)i;
            return AT_OK;
        }
    }
    return AT_OK;
}

at_capability at_capability_at(const at_capabilities *set, int entry_index)
{
    AT_ASSERT(entry_index < (int)set->count);
    return entry_index >= 0 ? set->entry[entry_index].what : (at_capability){0};
}

size_t at_capabilities_size(const at_capabilities *set)
{
    return set->count;
}

at_step at_capability_step(const at_capabilities *set, int entry_index)
{
    AT_ASSERT(entry_index >= 0 && entry_index < (int)set->count);
    return set->entry[entry_index].step;
}

uint64_t at_capability_keys(const at_capabilities *set, int entry_index)
{
    AT_ASSERT(entry_index >= 0 && entry_index < (int)set->count);
    return set->entry[entry_index].keys;
}

at_status at_capability_find(at_capability *out, const at_capabilities *set, const at_case *c,
                             at_step step, at_error *err)
{
    int found = -1;
    AT_TRY(at_capability_find_fast(&found, set, c, step, c->arch, err));
    *out = at_capability_at(set, found);
    return AT_OK;
}
