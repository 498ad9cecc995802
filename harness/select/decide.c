/* Decisions of an opened selector. */
#include "harness/select/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t at_selector_arch(const at_selector *s, const at_case *c)
{
    return c != NULL && c->arch != AT_ARCH_ANY ? c->arch : s->arch;
}

static at_status explain(const at_selector *s, const at_expr *e, const at_expr_frame *frame,
                         const char *file, const char *what, const char *id, at_error *err)
{
    at_lets_explain(&s->lets, frame, at_expr_slots(e), err);
    return at_fail_in(err, AT_INVALID, "%s: %s \"%.60s\"", file, what, id);
}

/* The values of a decision's lets, filled when a rule first asks. */
typedef struct values {
    uint64_t done;
    int64_t slot[AT_LET_SLOTS];
} values;

static at_status choose(at_decision *out, const at_selector *s, at_expr_frame *frame, values *v,
                        at_error *err)
{
    for (size_t i = 0; i < s->prefer_count; i++) {
        const at_prefer *p = &s->prefer[i];
        int64_t holds = 1;
        at_lets_fill(&s->lets, frame, v->slot, &v->done, p->slots);
        if (p->when != NULL && at_expr_eval(&holds, p->when, frame, err) != AT_OK) {
            return explain(s, p->when, frame, s->path[0], "prefer of", s->name, err);
        }
        for (size_t k = 0; holds != 0 && k < s->backend_count; k++) {
            if ((out->admitted >> p->order[k] & 1) != 0) {
                out->winner = p->order[k];
                return AT_OK;
            }
        }
        if (holds != 0) {
            return AT_OK;
        }
    }
    return AT_OK;
}

at_status at_rules_decide(at_decision *out, const at_selector *s, const at_case *c, at_error *err)
{
    values v;
    at_expr_frame frame = {.c = c, .arch = at_selector_arch(s, c), .slot = v.slot};
    v.done = 0;
    frame.on = ((uint32_t)1 << s->backend_count) - 1;
    *out = (at_decision){.winner = -1};
    memset(out->rule, -1, sizeof out->rule);
    if (frame.arch == AT_ARCH_ANY && s->reads_arch) {
        return at_fail(err, AT_INVALID,
                       "%s asks for the arch: give it in the case or the environment, as arch=sm90",
                       s->name);
    }
    for (size_t i = 0; i < s->rule_count && frame.on != 0; i++) {
        const at_rule *r = &s->rule[i];
        int64_t holds = 1;
        if (r->never || (r->off & frame.on) == 0) {
            continue;
        }
        at_lets_fill(&s->lets, &frame, v.slot, &v.done, r->slots);
        if (r->when != NULL && at_expr_eval(&holds, r->when, &frame, err) != AT_OK) {
            return explain(s, r->when, &frame, r->file, "rule", r->id, err);
        }
        for (uint32_t gone = holds != 0 ? r->off & frame.on : 0; gone != 0; gone &= gone - 1) {
            out->rule[__builtin_ctz(gone)] = (int16_t)i;
        }
        frame.on &= holds != 0 ? ~r->off : ~(uint32_t)0;
    }
    out->admitted = frame.on;
    return choose(out, s, &frame, &v, err);
}

at_status at_selector_decide_fast(at_decision *out, const at_selector *s, const at_case *c,
                                  at_error *err)
{
    size_t bad = 0;
    return s->called != NULL ? at_called_decide(out, &bad, s, c, 1, false, err)
                             : at_rules_decide(out, s, c, err);
}

at_refusal at_selector_rule(const at_selector *s, size_t rule)
{
    AT_ASSERT(rule < at_selector_rules(s));
    if (rule >= s->rule_count) {
        return (at_refusal){.rule = "called",
                            .why = s->called->reasons->reason[rule - s->rule_count].why,
                            .source = s->called->source};
    }
    const at_rule *r = &s->rule[rule];
    return (at_refusal){.rule = r->id, .why = r->why, .source = r->source};
}

at_status at_selector_decide(at_selection *out, const at_selector *s, const at_case *c,
                             at_error *err)
{
    at_decision d;
    size_t bad = 0;
    *out = (at_selection){0};
    AT_TRY(s->called != NULL ? at_called_decide(&d, &bad, s, c, 1, true, err)
                             : at_rules_decide(&d, s, c, err));
    for (size_t i = 0; i < s->backend_count; i++) {
        if (d.rule[i] < 0) {
            out->admitted[out->admitted_count++] = s->backend_name[i];
            continue;
        }
        at_refusal *r = &out->refused[out->refused_count++];
        *r = at_selector_rule(s, (size_t)d.rule[i]);
        r->backend = s->backend_name[i];
    }
    out->winner = d.winner >= 0 ? s->backend_name[d.winner] : NULL;
    return AT_OK;
}

at_json *at_selector_env(const at_selector *s, int64_t arch)
{
    at_env *env = NULL;
    for (size_t i = 0; i < s->env.count; i++) {
        const at_env_key *k = &s->env.key[i];
        const char *value =
            k->type == AT_ENV_ARCH ? at_case_field("arch", 4)->names[arch] : k->text;
        char pair[256];
        (void)snprintf(pair, sizeof pair, "%s=%s", k->key, value);
        AT_ASSERT(at_env_set(&env, pair, NULL) == AT_OK);
    }
    at_json *object = at_env_to_json(env);
    at_env_close(env);
    return object;
}

at_json *at_selection_to_json(const at_selection *selection, const at_selector *s, const at_case *c)
{
    char text[AT_CASE_TEXT_MAX];
    at_json *object = at_json_object(), *admitted = at_json_array(), *refused = at_json_array();
    (void)at_case_print(c, text);
    at_json_put_text(object, "selector", s->name);
    at_json_put_text(object, "case", text);
    if (selection->winner != NULL) {
        at_json_put_text(object, "winner", selection->winner);
    } else {
        at_json_put_null(object, "winner");
    }
    for (int i = 0; i < selection->admitted_count; i++) {
        at_json_add_text(admitted, selection->admitted[i]);
    }
    for (int i = 0; i < selection->refused_count; i++) {
        const at_refusal *r = &selection->refused[i];
        at_json *o = at_json_object();
        at_json_put_text(o, "backend", r->backend);
        at_json_put_text(o, "rule", r->rule);
        at_json_put_text(o, "why", r->why);
        at_json_put_text(o, "source", r->source);
        at_json_add(refused, o);
    }
    at_json_put(object, "admitted", admitted);
    at_json_put(object, "refused", refused);
    at_json_put(object, "env", at_selector_env(s, at_selector_arch(s, c)));
    return object;
}

const char *at_selector_name(const at_selector *s)
{
    return s->name;
}

const char *at_selector_doc(const at_selector *s)
{
    return s->doc;
}

size_t at_selector_backends(const at_selector *s)
{
    return s->backend_count;
}

const char *at_selector_backend(const at_selector *s, size_t i)
{
    AT_ASSERT(i < s->backend_count);
    return s->backend_name[i];
}

const char *at_selector_capabilities(const at_selector *s, size_t i)
{
    AT_ASSERT(i < s->backend_count);
    return s->backend[i].capabilities[0] != '\0' ? s->backend[i].capabilities : NULL;
}

bool at_selector_rule_is_callers(const at_selector *s, size_t rule)
{
    AT_ASSERT(rule < at_selector_rules(s));
    return rule < s->rule_count ? s->rule[rule].caller
                                : s->called->reasons->reason[rule - s->rule_count].caller;
}

void at_selector_measured(const at_selector *s, size_t i, const char *name[AT_MEASURED_NAMES],
                          char model[AT_MEASURED_TEXT])
{
    const char *set = at_selector_capabilities(s, i);
    size_t n = 0;
    for (const at_json *m = at_json_first(s->backend[i].measured);
         m != NULL && n < AT_MEASURED_NAMES - 2; m = at_json_next(m)) {
        name[n++] = at_json_text(m);
    }
    if (n == 0) {
        name[n++] = s->backend[i].name;
    }
    if (set != NULL) {
        (void)snprintf(model, AT_MEASURED_TEXT, "modelled.%s", set);
        name[n++] = model;
    }
    name[n] = NULL;
}

size_t at_selector_rules(const at_selector *s)
{
    return s->rule_count + (s->called != NULL ? s->called->reasons->count : 0);
}

int at_selector_rule_about(const at_selector *s, size_t i, const uint64_t *rules, uint64_t keys)
{
    uint64_t arch = (uint64_t)1 << (at_case_field("arch", 4) - at_case_fields);
    int best = -1, best_both = 0, best_either = 0;
    for (size_t k = 0; k < s->rule_count; k++) {
        const at_rule *r = &s->rule[k];
        int both = __builtin_popcountll(r->keys & keys & ~arch);
        int either = __builtin_popcountll((r->keys | keys) & ~arch);
        bool about = (r->off >> i & 1) != 0 && (rules[k / 64] >> k % 64 & 1) != 0 && !r->caller;
        if (about &&
            (both > best_both || (both == best_both && both > 0 && either < best_either))) {
            best = (int)k;
            best_both = both;
            best_either = either;
        }
    }
    return best;
}
