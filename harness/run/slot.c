#include "harness/run/slot.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELLO_SECONDS 120.0
#define BYE_SECONDS 1.0

at_status at_slot_start(at_slot *s, at_hosts *hosts, int host, at_error *err)
{
    at_host *h = &hosts->host[host];
    s->host = host;
    s->served = 0;
    s->since = at_clock();
    if (h->first.pid > 0) { /* its hello has been read */
        s->process = h->first;
        h->first = (at_process){.to = -1, .from = -1, .noise = -1};
        s->state = AT_SLOT_READY;
        return AT_OK;
    }
    at_spawn how = {.argv = h->argv, .threads = hosts->threads};
    AT_TRY(at_process_open(&s->process, &how, err));
    s->state = AT_SLOT_STARTING;
    return AT_OK;
}

void at_slot_stop(at_slot *s)
{
    if (s->state == AT_SLOT_READY) {
        at_process_close(&s->process, BYE_SECONDS);
        s->state = AT_SLOT_EMPTY;
    }
    at_slot_kill(s);
}

void at_slot_kill(at_slot *s)
{
    if (s->state != AT_SLOT_EMPTY) {
        (void)at_process_kill(&s->process);
    }
    s->state = AT_SLOT_EMPTY;
}

/* Did the runs so far fail in a launch, not in what was judged? */
static bool failed_in_launch(const at_attempt *a)
{
    at_kind kind = a->worst.kind;
    return a->runs > 0 && a->kinds == 1 &&
           (kind == AT_KIND_REFUSED || kind == AT_CRASH || kind == AT_TIMEOUT);
}

void at_slot_send(at_slot *s, bool force, const char *dump, const char *checks)
{
    at_request request = {.id = ++s->id, .repeat = 2, .force = force};
    (void)at_case_print(s->item->c, request.case_text);
    (void)snprintf(request.backend, sizeof request.backend, "%s", s->item->backend->name);
    (void)snprintf(request.engine, sizeof request.engine, "%s", s->engine);
    request.probe = failed_in_launch(&s->attempt) && dump == NULL;
    (void)snprintf(request.dump, sizeof request.dump, "%s", dump != NULL ? dump : "");
    (void)snprintf(request.checks, sizeof request.checks, "%s", checks != NULL ? checks : "");
    char *line = at_request_print(&request);
    at_process_hush(&s->process);
    at_verdict_init(&s->verdict);
    s->began = false;
    s->step = AT_BEGIN_CLAIM;
    s->claimed[0] = s->engines[0] = s->output[0] = '\0';
    s->since = at_clock();
    s->state = AT_SLOT_BUSY;
    if (at_process_send(&s->process, line, NULL) != AT_OK && s->process.pid > 0) {
        (void)kill(s->process.pid, SIGKILL); /* its death shows when it is polled */
    }
    free(line);
}

/* The judged step that a begin step belongs to. */
static at_step judged_step(const at_slot *s)
{
    switch (s->step) {
    case AT_BEGIN_FORWARD:
        return AT_STEP_FORWARD;
    case AT_BEGIN_BACKWARD:
        return AT_STEP_BACKWARD;
    case AT_BEGIN_JUDGE:
        return s->verdict.step[AT_STEP_FORWARD].ran ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
    case AT_BEGIN_OPEN:
    case AT_BEGIN_CLAIM:
    case AT_BEGIN_PROBLEM:
    case AT_BEGIN_REFERENCE:
    case AT_BEGIN_COUNT:
        break;
    }
    return AT_STEP_CLAIM;
}

/* Our own steps do more work than the backend's, and do not hang: they get more time. */
enum { OWN_PATIENCE = 10 };

static double limit_of(at_begin_step step, double case_timeout)
{
    bool ours = step == AT_BEGIN_PROBLEM || step == AT_BEGIN_REFERENCE || step == AT_BEGIN_JUDGE;
    return ours ? OWN_PATIENCE * case_timeout : case_timeout;
}

static bool is_ours(at_begin_step step)
{
    return step == AT_BEGIN_PROBLEM || step == AT_BEGIN_REFERENCE;
}

/* Ends the request without a word of the worker: the process is dead or to be killed. */
AT_PRINTF(4, 5)
static void fail(at_slot *s, at_kind kind, const char *code, const char *format, ...)
{
    at_step_verdict *step = &s->verdict.step[judged_step(s)];
    va_list args;
    va_start(args, format);
    *step = (at_step_verdict){.ran = true, .kind = is_ours(s->step) ? AT_ERROR : kind};
    (void)snprintf(step->reason.code, sizeof step->reason.code, "%s%s",
                   is_ours(s->step) ? "reference_" : "", code);
    int n = vsnprintf(step->reason.text, sizeof step->reason.text, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < sizeof step->reason.text) {
        (void)snprintf(step->reason.text + n, sizeof step->reason.text - (size_t)n, ", in %s",
                       at_begin_steps[s->step]);
    }
    at_verdict_settle(&s->verdict);
    at_process_tail(&s->process, s->output, sizeof s->output);
    (void)at_process_kill(&s->process);
    s->state = AT_SLOT_EMPTY;
}

static void take_claim(at_slot *s, const at_event *event)
{
    const char *engine = at_json_text(at_json_get(event->body, "engine"));
    size_t used = 0;
    (void)snprintf(s->claimed, sizeof s->claimed, "%s", engine != NULL ? engine : "");
    s->verdict.step[AT_STEP_CLAIM].ran = true;
    s->step = s->began ? s->step : AT_BEGIN_FORWARD; /* a worker that tells no steps */
    const at_json *list = at_json_get(event->body, "engines");
    for (const at_json *m = list ? at_json_first(list) : NULL; m != NULL; m = at_json_next(m)) {
        const char *name = at_json_text(m);
        size_t n = name != NULL ? strlen(name) : 0;
        if (n > 0 && n < AT_ENGINE_NAME && used + n + 2 < sizeof s->engines &&
            strchr(name, '\n') == NULL) {
            used += (size_t)snprintf(s->engines + used, sizeof s->engines - used,
                                     used ? "\n%s" : "%s", name);
        }
    }
}

static at_status take_begin(at_slot *s, const at_event *event, at_error *err)
{
    const at_json *so_far = NULL;
    for (int i = 0; i < AT_BEGIN_COUNT; i++) {
        s->step = strcmp(at_begin_steps[i], event->step) == 0 ? (at_begin_step)i : s->step;
    }
    s->began = true;
    s->since = at_clock();
    AT_TRY(at_json_want_object(event->body, "verdict", false, &so_far, err));
    return so_far != NULL ? at_verdict_from_json(&s->verdict, so_far, err) : AT_OK;
}

static at_status take_verdict(at_slot *s, const at_event *event, at_error *err)
{
    const char *engine = "";
    AT_TRY(at_verdict_from_json(&s->verdict, event->body, err));
    AT_TRY(at_json_want_text(event->body, "engine", false, &engine, err));
    if (strlen(engine) >= sizeof s->claimed || strchr(engine, '\n') != NULL) {
        return at_fail(err, AT_INVALID, "the engine's name is too long");
    }
    if (engine[0] != '\0') {
        (void)snprintf(s->claimed, sizeof s->claimed, "%s", engine);
    }
    return AT_OK;
}

/* One event of a busy worker; *ended once it answers. */
static at_status take_event(at_slot *s, const at_event *event, bool *ended, at_error *err)
{
    bool of_request = event->kind != AT_EVENT_BYE && event->kind != AT_EVENT_HELLO;
    if (of_request && event->id != s->id && !(event->kind == AT_EVENT_ERROR && event->id == 0)) {
        return at_fail(err, AT_INVALID, "it answers request %lld, request %lld was sent",
                       (long long)event->id, (long long)s->id);
    }
    switch (event->kind) {
    case AT_EVENT_CLAIM:
        take_claim(s, event);
        return AT_OK;
    case AT_EVENT_BEGIN:
        return take_begin(s, event, err);
    case AT_EVENT_VERDICT:
        *ended = true;
        return take_verdict(s, event, err);
    case AT_EVENT_ERROR: {
        at_step_verdict *step = &s->verdict.step[AT_STEP_CLAIM];
        *step = (at_step_verdict){.ran = true, .kind = AT_ERROR, .reason = {"worker", ""}};
        (void)snprintf(step->reason.text, sizeof step->reason.text, "%s", event->message);
        at_verdict_settle(&s->verdict);
        *ended = true;
        return AT_OK;
    }
    case AT_EVENT_BYE:
        return AT_OK; /* its end follows */
    case AT_EVENT_HELLO:
        break;
    }
    return at_fail(err, AT_INVALID, "a second hello");
}

/* Complete lines of the worker, until the request ends. */
static at_status take_lines(at_slot *s, bool *ended, at_error *err)
{
    char *line = NULL;
    size_t length = 0;
    while (!*ended && at_lines_next(&s->process.lines, &line, &length)) {
        at_event event;
        AT_TRY(at_event_parse(&event, line, length, err));
        at_status status = AT_OK;
        if (s->state == AT_SLOT_BUSY) {
            status = take_event(s, &event, ended, err);
        } else if (s->state == AT_SLOT_STARTING && event.kind == AT_EVENT_HELLO) {
            s->state = AT_SLOT_READY;
            s->failed_starts = 0;
        } else if (event.kind != AT_EVENT_BYE) {
            status = at_fail(err, AT_INVALID, "an event that nobody asked for");
        }
        at_event_close(&event);
        AT_TRY(status);
    }
    return AT_OK;
}

/* An idle or starting worker that died or misbehaves is replaced without a word. */
static void lose(at_slot *s)
{
    s->failed_starts += s->state == AT_SLOT_STARTING;
    at_process_tail(&s->process, s->output, sizeof s->output);
    (void)at_process_kill(&s->process);
    s->state = AT_SLOT_EMPTY;
}

/* What silence, noise or the clock say of a request that has not ended. True: it has now. */
static bool check_limits(at_slot *s, double case_timeout)
{
    double age = at_clock() - s->since;
    bool busy = s->state == AT_SLOT_BUSY;
    if (s->process.noise_bytes > AT_OUTPUT_LIMIT && busy) {
        fail(s, AT_CRASH, "output_flood", "the worker printed more than %u MiB",
             AT_OUTPUT_LIMIT >> 20);
        return true;
    }
    double limit = limit_of(s->step, case_timeout);
    if (busy && !(age < limit)) {
        fail(s, AT_TIMEOUT, "deadline", "no answer within %g seconds", limit);
        return true;
    }
    if (s->state == AT_SLOT_STARTING && !(age < HELLO_SECONDS)) {
        lose(s);
    }
    return false;
}

static bool check_death(at_slot *s)
{
    int wait_status = 0;
    char code[48], sentence[128];
    bool dead = at_process_ended(&s->process, &wait_status);
    if (!dead && s->process.from >= 0) {
        return false;
    }
    bool ended = false;
    at_error err = {""};
    at_status status = at_process_read(&s->process, &err); /* what it said before it died */
    status = status == AT_OK ? take_lines(s, &ended, &err) : status;
    if (s->state != AT_SLOT_BUSY) {
        lose(s);
        return false;
    }
    if (ended) {
        (void)at_process_kill(&s->process);
        s->state = AT_SLOT_EMPTY;
    } else if (status != AT_OK) {
        fail(s, AT_CRASH, "protocol", "the worker broke the protocol: %.300s", err.text);
    } else {
        /* an end of the stream without an end of the process: give it a moment to die of itself */
        for (double end = at_clock() + 0.2; !dead && at_clock() < end;) {
            dead = at_process_ended(&s->process, &wait_status);
        }
        at_death_text(wait_status, code, sentence);
        fail(s, AT_CRASH, dead ? code : "protocol_closed", "%s",
             dead ? sentence : "the worker closed the protocol");
    }
    return true;
}

bool at_slot_poll(at_slot *s, double case_timeout)
{
    bool ended = false;
    at_error err = {""};
    if (s->state == AT_SLOT_EMPTY) {
        return false;
    }
    at_status status = at_process_read(&s->process, &err);
    status = status == AT_OK ? take_lines(s, &ended, &err) : status;
    if (status != AT_OK && s->state == AT_SLOT_BUSY) {
        fail(s, AT_CRASH, "protocol", "the worker broke the protocol: %.300s", err.text);
        return true;
    }
    if (status != AT_OK) {
        lose(s);
        return false;
    }
    if (ended) {
        s->state = AT_SLOT_READY;
        s->served++;
        return true;
    }
    return check_limits(s, case_timeout) || check_death(s);
}
