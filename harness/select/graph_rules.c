#include "harness/select/graph_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/capability_core.h"
#include "harness/select/rules.h"

enum { STEPS = 2 };

struct at_graph_rules {
    at_selector *selector;
    char name[256], package[160];
    int backend[STEPS];
    int entry[STEPS][AT_SELECTOR_RULES_MAX]; /* by rule; -1: it is the caller's */
};

static at_status find_backends(at_graph_rules *r, at_error *err)
{
    static const char *const names[STEPS] = {"forward", "backward"};
    for (int step = 0; step < STEPS; step++) {
        r->backend[step] = -1;
        for (size_t i = 0; i < at_selector_backends(r->selector); i++) {
            if (strcmp(at_selector_backend(r->selector, i), names[step]) == 0) {
                r->backend[step] = (int)i;
            }
        }
        if (r->backend[step] < 0) {
            return at_fail(err, AT_INVALID,
                           "%s has no backends forward and backward: it speaks of no graphs, and "
                           "nothing can be held against it",
                           at_selector_name(r->selector));
        }
    }
    return AT_OK;
}

/* Entries of one step: the rules that refuse its graph. */
static void add_entries(at_capabilities *set, int step)
{
    at_graph_rules *r = set->graphs;
    const at_selector *s = r->selector;
    for (size_t i = 0; i < s->rule_count; i++) {
        const at_rule *rule = &s->rule[i];
        r->entry[step][i] = -1;
        if ((rule->off >> r->backend[step] & 1) == 0 || rule->caller) {
            continue;
        }
        r->entry[step][i] = (int)set->count;
        set->entry[set->count++] = (at_capability_entry){.what = {.outcome = AT_OUTCOME_REFUSES,
                                                                  .id = rule->id,
                                                                  .message = rule->why,
                                                                  .evidence = "read",
                                                                  .source = rule->source},
                                                         .step = (at_step)(AT_STEP_FORWARD + step),
                                                         .keys = rule->keys};
    }
}

/* Keys that were given, but the arch: cases have their own. */
static void name_set(at_graph_rules *r, const at_env *env)
{
    size_t used = (size_t)snprintf(r->name, sizeof r->name, "%s", at_selector_name(r->selector));
    for (size_t i = 0; i < at_env_size(env) && used < sizeof r->name; i++) {
        const char *key = at_env_key_at(env, i);
        if (strcmp(key, "arch") != 0 && at_env_table_find(&r->selector->env, key) != NULL) {
            used += (size_t)snprintf(r->name + used, sizeof r->name - used, ", %s %s", key,
                                     at_env_get(env, key));
        }
    }
    (void)snprintf(r->package, sizeof r->package, "%s", r->selector->source);
}

at_status at_graph_rules_open(at_capabilities **out, const char *corpus, const char *name,
                              const at_env *env, at_error *err)
{
    uint64_t known = 0;
    at_capabilities *set = calloc(1, sizeof *set);
    *out = NULL;
    AT_ASSERT(set != NULL); /* only memory can run out */
    set->graphs = calloc(1, sizeof *set->graphs);
    AT_ASSERT(set->graphs != NULL);
    at_status status =
        at_selector_open_known(&set->graphs->selector, corpus, name, env, &known, err);
    status = status == AT_OK ? find_backends(set->graphs, err) : status;
    if (status != AT_OK) {
        at_capabilities_close(set);
        return status;
    }
    at_graph_rules *r = set->graphs;
    name_set(r, env);
    set->name = r->name;
    set->package = r->package;
    set->doc = at_selector_doc(r->selector);
    set->arch_name = "any";
    set->entry = calloc(STEPS * r->selector->rule_count + 1, sizeof *set->entry);
    AT_ASSERT(set->entry != NULL);
    for (int step = 0; step < STEPS; step++) {
        add_entries(set, step);
    }
    *out = set;
    return AT_OK;
}

at_status at_graph_rules_find(int *entry, const at_graph_rules *rules, const at_case *c,
                              at_step step, int64_t arch, at_error *err)
{
    at_decision d;
    at_case placed = *c;
    const int k = step == AT_STEP_BACKWARD;
    placed.arch = arch;
    *entry = -1;
    AT_TRY(at_selector_decide_fast(&d, rules->selector, &placed, err));
    const int rule = d.rule[rules->backend[k]];
    *entry = rule >= 0 ? rules->entry[k][rule] : -1;
    return AT_OK;
}

void at_graph_rules_close(at_graph_rules *rules)
{
    if (rules != NULL) {
        at_selector_close(rules->selector);
        free(rules);
    }
}
