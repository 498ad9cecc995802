/* attest select --why-not BACKEND. */
#include "harness/cli/select.h"

#include <stdio.h>
#include <string.h>

#include "harness/select/nearest.h"

/* What is asked, and what came out. */
typedef struct question {
    const at_selector *s;
    const at_case *c;
    size_t backend;
    at_decision decision;
    at_refusal refusal; /* members NULL when it is admitted */
    at_nearest nearest;
} question;

static void put_text(at_json *object, const char *key, const char *text)
{
    if (text != NULL) {
        at_json_put_text(object, key, text);
    } else {
        at_json_put_null(object, key);
    }
}

static const char *winner_of(const at_selector *s, const at_case *c)
{
    at_decision d;
    return at_selector_decide_fast(&d, s, c, NULL) == AT_OK && d.winner >= 0
               ? at_selector_backend(s, (size_t)d.winner)
               : NULL;
}

/* Values of a key in both cases; the arch in force where the case names none. */
static void values_of(const question *q, const at_field *f, char from[AT_CASE_TEXT_MAX],
                      char to[AT_CASE_TEXT_MAX])
{
    at_case before = *q->c;
    before.arch = at_selector_arch(q->s, q->c);
    (void)at_case_value(&before, f, from);
    (void)at_case_value(&q->nearest.c, f, to);
}

static at_json *nearest_json(const question *q)
{
    char text[AT_CASE_TEXT_MAX], from[AT_CASE_TEXT_MAX], to[AT_CASE_TEXT_MAX];
    at_json *o = at_json_object(), *changes = at_json_array();
    (void)at_case_print(&q->nearest.c, text);
    at_json_put_text(o, "case", text);
    for (int i = 0; i < q->nearest.count; i++) {
        at_json *change = at_json_object();
        values_of(q, q->nearest.key[i], from, to);
        at_json_put_text(change, "key", q->nearest.key[i]->key);
        at_json_put_text(change, "from", from);
        at_json_put_text(change, "to", to);
        at_json_add(changes, change);
    }
    at_json_put(o, "changes", changes);
    put_text(o, "winner", winner_of(q->s, &q->nearest.c));
    return o;
}

static at_json *to_json(const question *q)
{
    char text[AT_CASE_TEXT_MAX];
    at_json *o = at_json_object();
    bool refused = q->refusal.rule != NULL;
    (void)at_case_print(q->c, text);
    at_json_put_text(o, "selector", at_selector_name(q->s));
    at_json_put_text(o, "case", text);
    at_json_put_text(o, "backend", at_selector_backend(q->s, q->backend));
    at_json_put_bool(o, "admitted", !refused);
    put_text(o, "winner", winner_of(q->s, q->c));
    put_text(o, "rule", q->refusal.rule);
    put_text(o, "why", q->refusal.why);
    put_text(o, "source", q->refusal.source);
    if (refused && q->nearest.count > 0) {
        at_json_put(o, "nearest", nearest_json(q));
    } else {
        at_json_put_null(o, "nearest");
    }
    put_text(o, "nearest_env", refused && q->nearest.env[0] != '\0' ? q->nearest.env : NULL);
    at_json_put(o, "env", at_selector_env(q->s, at_selector_arch(q->s, q->c)));
    return o;
}

static void print_nearest(const question *q, const at_options *o)
{
    char text[AT_CASE_TEXT_MAX], from[AT_CASE_TEXT_MAX], to[AT_CASE_TEXT_MAX];
    const char *winner = winner_of(q->s, &q->nearest.c);
    (void)at_case_print(&q->nearest.c, text);
    (void)printf("  nearest   %s\n            ", text);
    for (int i = 0; i < q->nearest.count; i++) {
        values_of(q, q->nearest.key[i], from, to);
        (void)printf("%s%s %s -> %s", i > 0 ? ", " : "", q->nearest.key[i]->key, from, to);
    }
    (void)printf("; the winner is %s%s%s there\n", o->colors ? "\033[1m" : "",
                 winner != NULL ? winner : "none", o->colors ? "\033[0m" : "");
}

static void print_text(const question *q, const at_options *o)
{
    const char *bold = o->colors ? "\033[1m" : "", *plain = o->colors ? "\033[0m" : "";
    const char *backend = at_selector_backend(q->s, q->backend), *winner = winner_of(q->s, q->c);
    char text[AT_CASE_TEXT_MAX];
    (void)at_case_print(q->c, text);
    (void)printf("%s\n", text);
    if (q->refusal.rule == NULL) {
        bool wins = winner != NULL && strcmp(winner, backend) == 0;
        (void)printf("  %s%s%s is admitted, and %s%s\n", bold, backend, plain,
                     wins ? "wins" : "loses to ", wins || winner == NULL ? "" : winner);
        return;
    }
    (void)printf("  refused   %s%s%s by %s: %s\n            %s\n", bold, backend, plain,
                 q->refusal.rule, q->refusal.why, q->refusal.source);
    if (q->nearest.count > 0) {
        print_nearest(q, o);
    } else {
        (void)puts("  nearest   no case within two keys is admitted");
    }
    if (q->nearest.env[0] != '\0') {
        (void)printf("  or with   --env %s\n", q->nearest.env);
    }
}

static at_status find_backend(question *q, const char *name, at_error *err)
{
    char names[300] = "";
    size_t used = 0;
    for (q->backend = 0; q->backend < at_selector_backends(q->s); q->backend++) {
        const char *backend = at_selector_backend(q->s, q->backend);
        if (strcmp(backend, name) == 0) {
            return AT_OK;
        }
        used += used < sizeof names ? (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                                       used > 0 ? ", " : "", backend)
                                    : 0;
    }
    return at_fail(err, AT_INVALID, "--why-not: %s has no backend \"%.60s\"; it has %s",
                   at_selector_name(q->s), name, names);
}

static at_status ask(question *q, const char *corpus, const at_env *env, at_error *err)
{
    q->refusal = (at_refusal){0};
    AT_TRY(at_selector_decide_fast(&q->decision, q->s, q->c, err));
    int rule = q->decision.rule[q->backend];
    if (rule < 0) {
        return AT_OK;
    }
    q->refusal = at_selector_rule(q->s, (size_t)rule);
    return at_nearest_find(&q->nearest, q->s, corpus, env, q->c, q->backend, err);
}

int at_cli_why_not(const at_options *o, const char *corpus, const at_env *env, const at_selector *s,
                   const at_suite *suite)
{
    at_error err = {""};
    question q = {.s = s};
    at_status status = find_backend(&q, o->why_not, &err);
    for (size_t i = 0; status == AT_OK && i < at_suite_size(suite); i++) {
        const at_suite_plan *plan = NULL;
        q.c = at_suite_case(suite, i, &plan);
        status = ask(&q, corpus, env, &err);
        if (status == AT_OK && o->jsonl) {
            at_cli_print_line(to_json(&q));
        } else if (status == AT_OK) {
            print_text(&q, o);
        }
    }
    return status == AT_OK ? at_cli_select_end() : at_usage_error("select: %s", err.text);
}
