#include "harness/run/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/checks/checks.h"
#include "harness/run/execute.h"

enum { HIGH_FD = 100, STATES = AT_HELLO_BACKENDS_MAX };

typedef struct worker {
    const at_backend *const *backends;
    int out;
    at_status gone; /* AT_IO once the runner does not read */
    at_error gone_err;
    bool opened[STATES];
    void *state[STATES];
    at_session *session; /* of the last case */
    int64_t id;          /* of the request at work */
} worker;

at_status at_worker_detach(int *in, int *out, at_error *err)
{
    *in = fcntl(0, F_DUPFD_CLOEXEC, HIGH_FD);
    *out = fcntl(1, F_DUPFD_CLOEXEC, HIGH_FD);
    int nothing = open("/dev/null", O_RDONLY);
    bool good = *in >= 0 && *out >= 0 && nothing >= 0 && dup2(nothing, 0) == 0 && dup2(2, 1) == 1;
    if (nothing > 2) {
        (void)close(nothing);
    }
    return good ? AT_OK
                : at_fail(err, AT_IO, "the worker cannot move its pipes (%s)", strerror(errno));
}

static void send_event(worker *w, at_json *event)
{
    if (w->gone == AT_OK) {
        w->gone = at_event_send(w->out, event, &w->gone_err);
    } else {
        at_json_close(event);
    }
}

static void send_error(worker *w, int64_t id, const char *message)
{
    at_json *event = at_event_make(AT_EVENT_ERROR, id);
    at_json_put_text(event, "message", message);
    send_event(w, event);
}

/* A step that follows others carries their verdicts, so that a death keeps what was already known.
 */
static void on_begin(void *user, at_begin_step step, const at_verdict *so_far)
{
    worker *w = user;
    at_json *event = at_event_make(AT_EVENT_BEGIN, w->id);
    at_json_put_text(event, "step", at_begin_steps[step]);
    if (step == AT_BEGIN_BACKWARD && !so_far->step[AT_STEP_BACKWARD].ran) {
        at_json *verdict = at_json_object();
        at_verdict_to_json(so_far, verdict);
        at_json_put(event, "verdict", verdict);
    }
    send_event(w, event);
}

static void on_claimed(void *user, const at_engines *engines, const char *engine)
{
    worker *w = user;
    at_json *event = at_event_make(AT_EVENT_CLAIM, w->id), *list = at_json_array();
    at_json_put_bool(event, "admitted", true);
    for (int i = 0; i < engines->n; i++) {
        at_json_add_text(list, engines->name[i]);
    }
    at_json_put(event, "engines", list);
    at_json_put_text(event, "engine", engine);
    send_event(w, event);
}

static void send_verdict(worker *w, const at_verdict *v, const char *engine)
{
    at_json *event = at_event_make(AT_EVENT_VERDICT, w->id);
    at_json_put_text(event, "engine", engine);
    at_verdict_to_json(v, event);
    send_event(w, event);
}

/* The backend's state, opened when first asked for. */
static at_status open_backend(worker *w, size_t i, at_error *err)
{
    if (w->opened[i]) {
        return AT_OK;
    }
    at_verdict none;
    at_verdict_init(&none);
    on_begin(w, AT_BEGIN_OPEN, &none);
    AT_TRY(w->backends[i]->open(w->backends[i], &w->state[i], err));
    w->opened[i] = true;
    return AT_OK;
}

static at_status open_session(worker *w, const char *text, at_error *err)
{
    at_case c;
    AT_TRY(at_case_parse(&c, text, err));
    if (w->session != NULL && at_case_equal(at_session_case(w->session), &c)) {
        return AT_OK;
    }
    at_session_close(w->session);
    w->session = NULL;
    return at_session_open(&w->session, &c, err);
}

static void cannot_open(worker *w, at_status status, const at_error *err)
{
    at_verdict v;
    at_verdict_init(&v);
    at_step_verdict *s = &v.step[AT_STEP_CLAIM];
    s->ran = true;
    s->kind = status == AT_UNSUPPORTED ? AT_UNSUPPORTED_CASE : AT_ERROR;
    (void)snprintf(s->reason.code, sizeof s->reason.code, "open");
    (void)snprintf(s->reason.text, sizeof s->reason.text, "%s", err->text);
    at_verdict_settle(&v);
    send_verdict(w, &v, "");
}

static void serve(worker *w, const char *line, size_t length)
{
    at_request request;
    at_error err = {""};
    if (at_request_parse(&request, line, length, &err) != AT_OK) {
        send_error(w, request.id, err.text);
        return;
    }
    w->id = request.id;
    uint32_t checks = 0;
    size_t i = 0;
    if (request.checks[0] != '\0' && at_checks_parse(&checks, request.checks, &err) != AT_OK) {
        send_error(w, request.id, err.text);
        return;
    }
    while (w->backends[i] != NULL && strcmp(w->backends[i]->name, request.backend) != 0) {
        i++;
    }
    if (w->backends[i] == NULL) {
        (void)at_fail(&err, AT_INVALID, "no backend \"%s\" in this worker", request.backend);
        send_error(w, request.id, err.text);
        return;
    }
    if (open_session(w, request.case_text, &err) != AT_OK) {
        send_error(w, request.id, err.text);
        return;
    }
    at_status status = open_backend(w, i, &err);
    if (status != AT_OK) {
        cannot_open(w, status, &err);
        return;
    }
    at_execution how = {.backend = w->backends[i],
                        .state = w->state[i],
                        .engine = request.engine,
                        .repeat = request.repeat,
                        .force = request.force,
                        .probe = request.probe,
                        .dump = request.dump,
                        .checks = checks,
                        .begin = on_begin,
                        .claimed = on_claimed,
                        .user = w};
    at_verdict v;
    char engine[AT_ENGINE_NAME];
    at_execute(&v, engine, w->session, &how);
    send_verdict(w, &v, engine);
}

at_status at_worker_serve(const at_backend *const *backends, int in, int out, at_error *err)
{
    worker *w = calloc(1, sizeof *w);
    at_lines lines = {0};
    if (w == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a worker");
    }
    size_t count = 0;
    while (backends[count] != NULL) {
        count++;
    }
    AT_ASSERT(count <= STATES);
    w->backends = backends;
    w->out = out;
    send_event(w, at_hello_make(backends));
    char bytes[4096], *line = NULL;
    size_t length = 0;
    at_status status = w->gone;
    while (status == AT_OK) {
        ssize_t got = read(in, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            send_event(w, at_event_make(AT_EVENT_BYE, 0));
            break;
        }
        status = at_lines_push(&lines, bytes, (size_t)got, err);
        while (status == AT_OK && at_lines_next(&lines, &line, &length)) {
            serve(w, line, length);
            status = w->gone;
        }
    }
    if (w->gone != AT_OK && err != NULL) {
        *err = w->gone_err;
    }
    for (size_t i = 0; backends[i] != NULL; i++) {
        if (w->opened[i]) {
            backends[i]->close(backends[i], w->state[i]);
        }
    }
    at_session_close(w->session);
    at_lines_close(&lines);
    free(w);
    return status;
}
