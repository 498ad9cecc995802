#include "harness/run/runner.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/run/doubt.h"
#include "harness/run/wake.h"

enum { RECYCLE = 2000, FAILED_STARTS = 20, TICK_MS = 100 };
#define GRACE_SECONDS 5.0 /* for requests under way when the run is interrupted */

/* Items of one case on one host, served by one worker so that they share its reference. */
typedef struct unit {
    size_t first, end;
    int host;
    bool taken;
} unit;

/* Another engine of an item, found by its first run. */
typedef struct extra {
    const at_item *item;
    char engine[AT_ENGINE_NAME];
} extra;

typedef struct place {
    at_slot slot;
    at_doubt doubt;
    size_t next, end; /* items of the unit at hand */
    int extras, extra_room;
    extra *extra;  /* to be run before the next item; last first */
    bool is_alone; /* its request is to run with no other */
} place;

typedef struct runner {
    const at_plan *plan;
    at_hosts *hosts;
    at_results *results;
    const at_runner_options *options;
    at_runner_outcome *out;
    size_t units, cursor[AT_HOSTS_MAX + 1]; /* 0: any host; h + 1: host h */
    unit *unit;
    place *place;
    double start, stop_time; /* stop_time: when the run was interrupted */
    bool stopping;
    size_t finished, added; /* results; engines found on the way */
} runner;

static at_status make_units(runner *r, at_error *err)
{
    const at_plan *plan = r->plan;
    r->unit = calloc(plan->size + 1, sizeof *r->unit);
    r->place = calloc((size_t)r->options->jobs, sizeof *r->place);
    if (r->unit == NULL || r->place == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for %zu items", plan->size);
    }
    for (size_t i = 0, end = 0; i < plan->size; i = end) {
        const at_item *first = &plan->item[i];
        for (end = i + 1; end < plan->size && plan->item[end].host == first->host &&
                          strcmp(plan->item[end].id, first->id) == 0;
             end++) {
        }
        r->unit[r->units++] = (unit){i, end, first->host, false};
    }
    return AT_OK;
}

/* Takes the first free unit of the host, or of any host for -1. Each cursor only passes over units
 * that can never be its again. */
static bool take_unit_of(runner *r, place *p, int host)
{
    for (size_t *i = &r->cursor[host + 1]; *i < r->units; (*i)++) {
        unit *u = &r->unit[*i];
        if (!u->taken && (host < 0 || u->host == host)) {
            u->taken = true;
            p->next = u->first;
            p->end = u->end;
            return true;
        }
    }
    return false;
}

static bool take_unit(runner *r, place *p)
{
    return take_unit_of(r, p, p->slot.host) || take_unit_of(r, p, -1);
}

static at_kind apply_waivers(runner *r, const at_item *item, at_verdict *v, const char **issue)
{
    static const char *const notes[] = {[AT_WAIVING_XPASS] =
                                            "passed, although it is waived; remove the waiver of",
                                        [AT_WAIVING_OTHER] = "waived for another failure by",
                                        [AT_WAIVING_EXPIRED] = "its waiver has expired:"};
    at_kind measured = v->kind;
    at_waiving waiving =
        at_waivers_apply(r->options->waivers, item->c, item->backend->name, item->backend->version,
                         item->backend->arch, measured, issue);
    if (waiving == AT_WAIVING_WAIVED) {
        v->kind = AT_WAIVED;
    } else if (waiving == AT_WAIVING_XPASS) {
        v->kind = AT_XPASS;
        (void)snprintf(v->reason.code, sizeof v->reason.code, "waived_but_passed");
    }
    if (waiving > AT_WAIVING_WAIVED) {
        char text[sizeof v->reason.text];
        (void)snprintf(text, sizeof text, "%.300s%s[%s %.150s]", v->reason.text,
                       v->reason.text[0] != '\0' ? " " : "", notes[waiving], *issue);
        (void)snprintf(v->reason.text, sizeof v->reason.text, "%s", text);
    }
    return measured;
}

/* Writes one final result, unless it is there already. */
static at_status record(runner *r, const at_item *item, const char *engine, at_verdict *v, int runs,
                        int hits, const at_slot *slot, const char *limits, at_error *err)
{
    const char *issue = NULL;
    at_status status = AT_OK;
    at_kind measured = apply_waivers(r, item, v, &issue);
    at_record_frame frame = {.c = item->c,
                             .backend = item->backend->name,
                             .version = item->backend->version,
                             .engine = engine,
                             .engines = slot != NULL ? slot->engines : "",
                             .admitted_by = item->admitted_by,
                             .issue = issue,
                             .limits = limits,
                             .output = slot != NULL ? slot->output : "",
                             .measured = measured,
                             .modelled = item->modelled,
                             .runs = runs,
                             .hits = hits};
    if (r->results != NULL && at_results_find(r->results, item->id, item->backend->name,
                                              item->backend->version, engine) != NULL) {
        return AT_OK;
    }
    at_json *line = at_record_make(&frame, v);
    const at_record *made = NULL;
    if (r->results != NULL) {
        status = at_results_add(r->results, line, err);
        made = status == AT_OK ? at_results_at(r->results, at_results_size(r->results) - 1) : NULL;
    }
    if (status == AT_OK && r->options->recorded != NULL) {
        r->options->recorded(r->options->user, made, line);
    }
    at_json_close(line);
    return status;
}

/* Selection refused: without --force-refused that is the result. */
static at_status record_refusal(runner *r, const at_item *item, at_error *err)
{
    at_verdict *v = calloc(1, sizeof *v);
    if (v == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a verdict");
    }
    at_verdict_init(v);
    at_step_verdict *s = &v->step[AT_STEP_CLAIM];
    s->ran = true;
    s->kind = AT_UNSUPPORTED_CASE;
    (void)snprintf(s->reason.code, sizeof s->reason.code, "selector");
    (void)snprintf(s->reason.text, sizeof s->reason.text, "%s", item->refusal);
    at_verdict_settle(v);
    at_status status = record(r, item, "", v, 1, 1, NULL, NULL, err);
    free(v);
    r->finished++;
    return status;
}

static void add_extra(place *p, const at_item *item, const char *name, size_t n)
{
    if (p->extras == p->extra_room) {
        p->extra_room = p->extra_room ? 2 * p->extra_room : 8;
        extra *larger = realloc(p->extra, (size_t)p->extra_room * sizeof *larger);
        AT_ASSERT(larger != NULL);
        p->extra = larger;
    }
    extra *e = &p->extra[p->extras++];
    e->item = item;
    (void)snprintf(e->engine, sizeof e->engine, "%.*s", (int)n, name);
}

static void add_extras(runner *r, place *p)
{
    const at_slot *s = &p->slot;
    for (const char *list = s->engines; *list != '\0';) {
        size_t n = strcspn(list, "\n");
        if (strlen(s->claimed) != n || strncmp(s->claimed, list, n) != 0) {
            add_extra(p, s->item, list, n);
            r->added++;
        }
        list += n + (list[n] == '\n');
    }
}

/* What selection refused and was forced: right is a finding of its own, wrong is as expected. */
static void judge_forced(const at_item *item, at_verdict *v)
{
    if (item->refusal == NULL || v->kind == AT_UNSUPPORTED_CASE || v->kind == AT_SKIP) {
        return;
    }
    v->kind = v->kind == AT_PASS ? AT_OVER_REFUSED : AT_UNSUPPORTED_CASE;
    (void)snprintf(v->reason.code, sizeof v->reason.code, "selector");
    (void)snprintf(v->reason.text, sizeof v->reason.text, "%.400s%s", item->refusal,
                   v->kind == AT_OVER_REFUSED ? "; forced, it is right" : "");
}

/* The final verdict of the slot's item. */
static at_status conclude(runner *r, place *p, const at_item *item, at_verdict *v, int runs,
                          int hits, const char *limits, at_error *err)
{
    at_slot *s = &p->slot;
    judge_forced(item, v);
    const char *engine = s->claimed[0] != '\0' ? s->claimed : s->engine;
    at_status status = record(r, item, engine, v, runs, hits, s, limits, err);
    if (item->all_engines && s->engine[0] == '\0') {
        s->item = item;
        add_extras(r, p);
    }
    s->item = NULL;
    r->finished++;
    return status;
}

/* A fresh seed of the doubted item has run. */
static at_status resolve_doubt(runner *r, place *p, at_error *err)
{
    at_doubt *d = &p->doubt;
    if (at_doubt_add(d, &p->slot, r->options->limits)) {
        return AT_OK;
    }
    const at_item *item = d->item;
    d->item = NULL;
    return conclude(r, p, item, &d->verdict, 1 + d->suspect.runs, 1 + d->suspect.hits, "beyond",
                    err);
}

/* A final verdict: its statistics, then the record. */
static at_status settle_item(runner *r, place *p, at_verdict *v, int runs, int hits, at_error *err)
{
    const at_item *item = p->slot.item;
    at_exceeded exceeded = {0};
    const char *limits = NULL;
    if (v->kind == AT_PASS && r->options->limits != NULL && item->refusal == NULL) {
        bool any =
            at_limits_check(&exceeded, r->options->limits, &item->backend->numeric, item->c, v);
        limits = any ? "within" : "none";
    }
    if (exceeded.n > 0) {
        at_doubt_begin(&p->doubt, &p->slot, v, &exceeded);
        return AT_OK;
    }
    return conclude(r, p, item, v, runs, hits, limits, err);
}

/* A request has ended: again, or a result. */
static at_status finish(runner *r, place *p, at_error *err)
{
    at_slot *s = &p->slot;
    const at_item *item = s->item;
    p->is_alone = false;
    if (p->doubt.item != NULL) {
        return resolve_doubt(r, p, err);
    }
    s->next = at_attempt_add(&s->attempt, &s->verdict, r->options->repeat, item->refusal == NULL);
    if (at_kind_class(s->verdict.kind) == AT_CLASS_FAIL) {
        at_slot_kill(s); /* its memory is not to be trusted */
    }
    if (s->next != AT_NEXT_REPORT) {
        return AT_OK;
    }
    int runs = 1, hits = 1;
    at_verdict *v = malloc(sizeof *v);
    if (v == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a verdict");
    }
    at_attempt_settle(&s->attempt, v, &runs, &hits);
    at_status status = settle_item(r, p, v, runs, hits, err);
    free(v);
    return status;
}

/* Gives an idle place its next item; refusals are results at once. */
static at_status choose(runner *r, place *p, at_error *err)
{
    at_slot *s = &p->slot;
    while (s->item == NULL && !r->stopping) {
        if (p->extras > 0) {
            extra *e = &p->extra[--p->extras];
            s->item = e->item;
            (void)snprintf(s->engine, sizeof s->engine, "%s", e->engine);
        } else if (p->next < p->end) {
            const at_item *item = &r->plan->item[p->next++];
            if (item->done) {
                continue;
            }
            if (item->refusal != NULL && !r->options->force) {
                AT_TRY(record_refusal(r, item, err));
                continue;
            }
            s->item = item;
            (void)snprintf(s->engine, sizeof s->engine, "%s", item->engine);
        } else if (!take_unit(r, p)) {
            return AT_OK;
        }
    }
    if (s->item != NULL && s->attempt.runs + s->attempt.excused == 0) {
        s->next = AT_NEXT_AGAIN;
    }
    return AT_OK;
}

static bool others_busy(const runner *r, const place *p, bool alone_only)
{
    for (int i = 0; i < r->options->jobs; i++) {
        const place *other = &r->place[i];
        if (other != p && (alone_only ? other->is_alone : other->slot.state == AT_SLOT_BUSY)) {
            return true;
        }
    }
    return false;
}

/* Brings a place one step further, as far as it can go without waiting. */
static at_status advance(runner *r, place *p, at_error *err)
{
    at_slot *s = &p->slot;
    if (s->item == NULL) {
        memset(&s->attempt, 0, sizeof s->attempt);
        AT_TRY(choose(r, p, err));
    }
    if (s->item == NULL || s->state == AT_SLOT_BUSY || r->stopping) {
        return AT_OK;
    }
    bool wants_fresh = s->next != AT_NEXT_AGAIN && s->served > 0;
    if (s->state == AT_SLOT_READY &&
        (s->host != s->item->host || wants_fresh || s->served >= RECYCLE)) {
        at_slot_stop(s);
    }
    if (s->state == AT_SLOT_EMPTY) {
        if (s->failed_starts >= FAILED_STARTS) {
            return at_fail(err, AT_IO, "worker \"%s\" does not start any more; it said: %.200s",
                           r->hosts->host[s->item->host].name, s->output);
        }
        r->out->started += r->hosts->host[s->item->host].first.pid <= 0;
        AT_TRY(at_slot_start(s, r->hosts, s->item->host, err));
    }
    if (s->state != AT_SLOT_READY || others_busy(r, p, true)) {
        return AT_OK;
    }
    p->is_alone = s->next == AT_NEXT_ALONE;
    if (p->is_alone && others_busy(r, p, false)) {
        return AT_OK;
    }
    if (r->options->launched != NULL) {
        r->options->launched(r->options->user, s->item, s->engine);
    }
    bool doubted = p->doubt.item != NULL;
    at_slot_send(s, r->options->force, doubted ? NULL : r->options->dump,
                 doubted ? NULL : r->options->checks);
    return AT_OK;
}

/* Signals, deadline, grace. False: leave at once. */
static bool go_on(runner *r)
{
    double now = at_clock(), limit = r->options->deadline;
    bool late = limit > 0 && !(now - r->start < limit);
    if (at_wake_count() > 1) {
        r->out->signal = at_wake_signal();
        r->out->at_once = true;
        return false;
    }
    if (!r->stopping && (at_wake_signal() != 0 || late)) {
        r->stopping = true;
        r->stop_time = now;
        r->out->past_deadline = at_wake_signal() == 0;
    }
    r->out->signal = at_wake_signal();
    return !r->stopping || now - r->stop_time < GRACE_SECONDS;
}

static bool any_work(const runner *r)
{
    for (int i = 0; i < r->options->jobs; i++) {
        const at_slot *s = &r->place[i].slot;
        if (s->state == AT_SLOT_BUSY || (s->item != NULL && !r->stopping)) {
            return true;
        }
    }
    return false;
}

static void wait_for_news(runner *r)
{
    struct pollfd fd[2 * 1024 + 1];
    nfds_t n = 0;
    fd[n++] = (struct pollfd){at_wake_descriptor(), POLLIN, 0};
    for (int i = 0; i < r->options->jobs && n + 2 <= sizeof fd / sizeof fd[0]; i++) {
        const at_slot *s = &r->place[i].slot;
        if (s->state != AT_SLOT_EMPTY) {
            fd[n++] = (struct pollfd){s->process.from, POLLIN, 0};
            fd[n++] = (struct pollfd){s->process.noise, POLLIN, 0};
        }
    }
    (void)poll(fd, n, TICK_MS);
    at_wake_drain();
}

static at_status loop(runner *r, at_error *err)
{
    double last_tick = 0;
    for (;;) {
        if (!go_on(r)) {
            return AT_OK;
        }
        for (int i = 0; i < r->options->jobs; i++) {
            AT_TRY(advance(r, &r->place[i], err));
        }
        if (!any_work(r)) {
            return AT_OK;
        }
        wait_for_news(r);
        for (int i = 0; i < r->options->jobs; i++) {
            place *p = &r->place[i];
            if (at_slot_poll(&p->slot, r->options->case_timeout)) {
                AT_TRY(finish(r, p, err));
            }
        }
        if (r->options->tick != NULL && at_clock() - last_tick > 0.1) {
            last_tick = at_clock();
            r->options->tick(r->options->user);
        }
    }
}

/* All idle workers are told to leave before the first is waited for. */
static void stop_all(runner *r)
{
    for (int i = 0; r->place != NULL && i < r->options->jobs; i++) {
        at_slot *s = &r->place[i].slot;
        if (s->state == AT_SLOT_READY && s->process.to >= 0) {
            (void)close(s->process.to);
            s->process.to = -1;
        }
    }
    for (int i = 0; r->place != NULL && i < r->options->jobs; i++) {
        at_slot_stop(&r->place[i].slot);
        free(r->place[i].extra);
    }
}

at_status at_runner_run(at_runner_outcome *out, const at_plan *plan, at_hosts *hosts,
                        at_results *results, const at_runner_options *options, at_error *err)
{
    *out = (at_runner_outcome){0};
    runner r = {.plan = plan,
                .hosts = hosts,
                .results = results,
                .options = options,
                .out = out,
                .start = at_clock()};
    AT_TRY(at_wake_open(err));
    at_status status = make_units(&r, err);
    if (status == AT_OK) {
        status = loop(&r, err);
    }
    stop_all(&r);
    at_wake_close();
    out->left = plan->size - plan->done + r.added - r.finished;
    free(r.unit);
    free(r.place);
    return status;
}
