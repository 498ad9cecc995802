#include "harness/select/called.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/lines.h"
#include "harness/select/rules.h"

static const char no_reason[] =
    "the selector logs no reason, as for a package that is not installed";
static const char too_many[] = "another reason: too many differ to tell them apart";

const char *at_called_version(const char *name)
{
    return strncmp(name, "te@", 3) == 0 ? name + 3 : NULL;
}

at_status at_called_open(at_called **out, const at_selector *s, const char *corpus, at_error *err)
{
    at_called *c = calloc(1, sizeof *c);
    *out = NULL;
    AT_ASSERT(c != NULL); /* only memory can run out */
    at_status status = at_host_open(&c->host, corpus, s->name, at_called_version(s->name), err);
    if (status != AT_OK) {
        at_called_close(c);
        return status;
    }
    c->reasons = at_host_reasons(c->host);
    at_json *env = at_selector_env(s, s->arch);
    c->env = at_json_print(env, false);
    at_json_close(env);
    (void)snprintf(c->source, sizeof c->source, "Transformer Engine %s, called",
                   at_host_release(c->host));
    (void)snprintf(c->doc, sizeof c->doc,
                   "Transformer Engine %s, PyTorch: its own get_attention_backend, called",
                   at_host_release(c->host));
    *out = c;
    return AT_OK;
}

void at_called_close(at_called *called)
{
    if (called == NULL) {
        return;
    }
    at_host_close(called->host);
    free(called->env);
    free(called);
}

/* Whether a line of the selector's log takes the backend off: "Disabling FlashAttention 3 for ..",
 * of all versions without a number, "Disabling all backends .." */
static bool is_about(const char *reason, const char *backend)
{
    static const char disabling[] = "Disabling ", all[] = "all backends",
                      flash[] = "FlashAttention";
    if (strncmp(reason, disabling, sizeof disabling - 1) != 0) {
        return false;
    }
    const char *what = reason + sizeof disabling - 1;
    if (strncmp(what, all, sizeof all - 1) == 0) {
        return true;
    }
    if (strncmp(backend, "fa", 2) == 0) {
        const char *number = what + sizeof flash;
        return strncmp(what, flash, sizeof flash - 1) == 0 &&
               (number[-1] != ' ' || *number < '2' || *number > '9' || *number == backend[2]);
    }
    const char *family = strcmp(backend, "fused") == 0 ? "FusedAttention" : "UnfusedDotProduct";
    return strncmp(what, family, strlen(family)) == 0;
}

static size_t find(const at_reasons *r, const char *why, bool caller)
{
    size_t i = 0;
    while (i < r->count && (r->reason[i].caller != caller || strcmp(r->reason[i].why, why) != 0)) {
        i++;
    }
    return i;
}

/* The number of a reason, as a rule. */
static int16_t number(at_reasons *r, const at_selector *s, const char *why, bool caller)
{
    const size_t room = AT_SELECTOR_RULES_MAX - s->rule_count;
    size_t i = find(r, why, caller);
    if (i == r->count && i + 2 >= room) { /* the last two: too many of either kind */
        why = too_many;
        i = find(r, why, caller);
    }
    if (i < r->count) {
        return (int16_t)(s->rule_count + i);
    }
    r->reason[i].why = strdup(why);
    AT_ASSERT(r->reason[i].why != NULL); /* only memory can run out */
    r->reason[i].caller = caller;
    r->count++;
    return (int16_t)(s->rule_count + i);
}

typedef struct asking {
    const at_selector *s;
    at_decision *out; /* in: those of the rule set */
    size_t *bad;
    bool failed;
} asking;

static int find_backend(const at_selector *s, const char *name)
{
    for (size_t i = 0; name != NULL && i < s->backend_count; i++) {
        if (strcmp(s->backend_name[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static at_status read_admitted(at_decision *d, const at_selector *s, const at_json *o,
                               at_error *err)
{
    const at_json *list = NULL, *winner = at_json_get(o, "winner");
    AT_TRY(at_json_want_array(o, "admitted", true, &list, err));
    for (const at_json *m = at_json_first(list); m != NULL; m = at_json_next(m)) {
        int at = find_backend(s, at_json_text(m));
        if (at < 0) {
            return at_fail(err, AT_INVALID, "it admits a backend that %s does not have", s->name);
        }
        d->admitted |= (uint32_t)1 << at;
    }
    if (winner == NULL || at_json_type(winner) == AT_JSON_NULL) {
        return winner != NULL ? AT_OK : at_fail(err, AT_INVALID, "\"winner\" is missing");
    }
    d->winner = find_backend(s, at_json_text(winner));
    return d->winner >= 0 && (d->admitted >> d->winner & 1) != 0
               ? AT_OK
               : at_fail(err, AT_INVALID, "its winner is none of those that it admits");
}

static const char *find_reason(const at_json *o, const char *backend)
{
    const char *all = at_json_text(at_json_get(o, "refused_by"));
    if (all != NULL) {
        return all;
    }
    const at_json *list = at_json_get(o, "reasons");
    for (const at_json *m = at_json_first(list); m != NULL; m = at_json_next(m)) {
        if (at_json_text(m) != NULL && is_about(at_json_text(m), backend)) {
            return at_json_text(m);
        }
    }
    return no_reason;
}

static at_status read_answer(at_decision *out, const at_selector *s, const at_json *o,
                             at_error *err)
{
    at_decision d = {.winner = -1};
    const char *error = NULL;
    const at_json *reasons = NULL;
    if (at_json_type(o) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "the answer is no object");
    }
    AT_TRY(at_json_want_text(o, "error", false, &error, err));
    if (error != NULL) {
        return at_fail(err, AT_INVALID, "%.300s", error);
    }
    double seconds = 0;
    AT_TRY(at_json_want_number(o, "seconds", false, &seconds, err));
    s->called->seconds += seconds;
    AT_TRY(read_admitted(&d, s, o, err));
    AT_TRY(at_json_want_array(o, "reasons", true, &reasons, err));
    memset(d.rule, -1, sizeof d.rule);
    for (size_t i = 0; i < s->backend_count; i++) {
        if ((d.admitted >> i & 1) == 0) {
            int base = out->rule[i];
            d.rule[i] = number(s->called->reasons, s, find_reason(o, s->backend_name[i]),
                               base >= 0 && s->rule[base].caller);
        }
    }
    *out = d;
    return AT_OK;
}

static at_status take_answer(void *context, size_t i, char *line, size_t length, at_error *err)
{
    asking *a = context;
    at_json *o = NULL;
    at_status status = at_json_parse(&o, "the answer", line, length, err);
    status = status == AT_OK ? read_answer(&a->out[i], a->s, o, err) : status;
    at_json_close(o);
    if (status == AT_OK) {
        return AT_OK;
    }
    *a->bad = a->failed ? *a->bad : i;
    a->failed = true;
    status = at_error_flatten(err, AT_INVALID);
    return at_fail_in(err, status, "%s", a->s->name);
}

static at_status decide(at_decision *out, size_t *bad, const at_selector *s, const at_case *c,
                        size_t n, bool full, at_error *err)
{
    /* Case texts hold no character that JSON would escape. */
    const size_t room = strlen(s->called->env) + 64 + n * (AT_CASE_TEXT_MAX + 4);
    asking a = {.s = s, .out = out, .bad = bad};
    char *line = malloc(room), text[AT_CASE_TEXT_MAX];
    AT_ASSERT(line != NULL); /* only memory can run out */
    size_t used = (size_t)snprintf(
        line, room, "{\"full\":%s,\"env\":%s,\"cases\":", full ? "true" : "false", s->called->env);
    at_status status = AT_OK;
    *bad = 0;
    for (size_t i = 0; status == AT_OK && i < n; i++) {
        *bad = i;
        status = at_rules_decide(&out[i], s, &c[i], err);
        (void)at_case_print(&c[i], text);
        used += (size_t)snprintf(line + used, room - used, "%s\"%s\"", i == 0 ? "[" : ",", text);
    }
    (void)snprintf(line + used, room - used, "]}\n");
    if (status == AT_OK) {
        *bad = 0;
        status = at_host_ask(s->called->host, line, n, take_answer, &a, err);
    }
    free(line);
    return status;
}

at_status at_called_decide(at_decision *out, size_t *bad, const at_selector *s, const at_case *c,
                           size_t n, bool full, at_error *err)
{
    at_status status = AT_OK;
#pragma omp critical(at_called)
    status = decide(out, bad, s, c, n, full, err);
    return status;
}
