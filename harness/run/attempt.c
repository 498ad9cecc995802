#include "harness/run/attempt.h"

#include <stdio.h>
#include <string.h>

/* Runs that must end so before it is believed. */
enum { EXCUSES = 2, KILL_EXCUSES = 4, IDLE_EXCUSES = 30 };

static bool is_kill(const at_verdict *v)
{
    return strcmp(v->reason.code, "sigkill") == 0 ||
           strcmp(v->reason.code, "reference_sigkill") == 0;
}

/* A SIGKILL before the launch is never the backend's. */
static bool is_idle(const at_verdict *v)
{
    return is_kill(v) && !v->step[AT_STEP_FORWARD].ran;
}

/* Memory shortage, our own failures, and a SIGKILL that someone outside may have sent. */
static int excuses(const at_verdict *v)
{
    return is_idle(v)                                 ? IDLE_EXCUSES
           : is_kill(v)                               ? KILL_EXCUSES
           : v->kind == AT_OOM || v->kind == AT_ERROR ? EXCUSES
                                                      : 0;
}

static at_attempt_kind *note(at_attempt *a, const at_verdict *v)
{
    for (int i = 0; i < a->kinds; i++) {
        if (a->seen[i].kind == v->kind && strcmp(a->seen[i].code, v->reason.code) == 0) {
            a->seen[i].count++;
            return &a->seen[i];
        }
    }
    int at = a->kinds < AT_ATTEMPT_KINDS ? a->kinds++ : AT_ATTEMPT_KINDS - 1;
    a->seen[at].kind = v->kind;
    a->seen[at].count = 1;
    memcpy(a->seen[at].code, v->reason.code, sizeof a->seen[at].code);
    return &a->seen[at];
}

at_next at_attempt_add(at_attempt *a, const at_verdict *v, int64_t repeat, bool confirm)
{
    int limit = excuses(v);
    if (limit > 0) {
        a->excused++;
        a->idle += is_idle(v);
        bool last = (is_idle(v) ? a->idle : a->excused - a->idle) >= limit;
        a->worst = a->runs == 0 || last ? *v : a->worst;
        if (last) {
            a->kinds = 0; /* the earlier runs are not what decides */
            a->runs = a->excused;
            note(a, v)->count = a->excused;
        }
        return last || !confirm ? AT_NEXT_REPORT : AT_NEXT_ALONE;
    }
    (void)note(a, v);
    a->worst = a->runs == 0 || v->kind > a->worst.kind ? *v : a->worst;
    a->runs++;
    bool failed = at_kind_class(a->worst.kind) == AT_CLASS_FAIL && confirm;
    bool settled = v->kind == AT_UNSUPPORTED_CASE || v->kind == AT_SKIP;
    int64_t need = settled && a->kinds == 1 ? 1 : repeat;
    need = failed && need < 2 ? 2 : need;
    need = a->kinds > 1 && need < 3 ? 3 : need;
    if (a->runs >= need) {
        return AT_NEXT_REPORT;
    }
    return !failed ? AT_NEXT_AGAIN : v->kind == AT_TIMEOUT ? AT_NEXT_ALONE : AT_NEXT_FRESH;
}

void at_attempt_settle(const at_attempt *a, at_verdict *out, int *runs, int *hits)
{
    *out = a->worst;
    *runs = a->runs > 0 ? a->runs : 1;
    *hits = *runs;
    if (a->kinds < 2) {
        return;
    }
    size_t used = 0;
    out->kind = AT_FLAKY;
    (void)snprintf(out->reason.code, sizeof out->reason.code, "runs_disagree");
    for (int i = 0; i < a->kinds && used < sizeof out->reason.text; i++) {
        const at_attempt_kind *k = &a->seen[i];
        *hits = k->kind == a->worst.kind ? k->count : *hits;
        used += (size_t)snprintf(out->reason.text + used, sizeof out->reason.text - used,
                                 "%s%s%s%s in %d of %d runs", i ? ", " : "", at_kind_names[k->kind],
                                 *k->code ? " " : "", k->code, k->count, a->runs);
    }
    if (used < sizeof out->reason.text && a->worst.reason.text[0] != '\0') {
        (void)snprintf(out->reason.text + used, sizeof out->reason.text - used, ": %.300s",
                       a->worst.reason.text);
    }
}
