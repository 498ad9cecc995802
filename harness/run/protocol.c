#include "harness/run/protocol.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const event_names[] = {"hello", "claim", "begin", "verdict", "error", "bye"};

const char *const at_begin_steps[] = {"open",    "claim",    "problem", "reference",
                                      "forward", "backward", "judge",   NULL};

typedef struct promise {
    unsigned bit;
    const char *name;
} promise;

static const promise promises[] = {
    {AT_PROMISES_BACKWARD, "backward"},
    {AT_PROMISES_STATS, "stats"},
    {AT_PROMISES_DETERMINISM, "determinism"},
    {AT_PROMISES_DET_ON_REQUEST, "determinism_on_request"},
    {AT_PROMISES_MASK, "mask"},
};
enum { PROMISES = sizeof promises / sizeof promises[0] };

static int index_of(const char *const *names, int n, const char *word)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], word) == 0) {
            return i;
        }
    }
    return -1;
}

/* A line as an object: text in UTF-8, one JSON document. */
static at_status parse_line(at_json **out, const char *what, const char *line, size_t length,
                            at_error *err)
{
    *out = NULL;
    if (length > AT_LINE_LIMIT) {
        return at_fail(err, AT_INVALID, "%s: a line of more than %d bytes", what, AT_LINE_LIMIT);
    }
    if (!at_utf8_valid(line, length)) {
        return at_fail(err, AT_INVALID, "%s: the line is not UTF-8", what);
    }
    at_status status = at_json_parse(out, what, line, length, err);
    if (status != AT_OK) {
        return at_error_flatten(err, status);
    }
    if (at_json_type(*out) != AT_JSON_OBJECT) {
        at_json_close(*out);
        *out = NULL;
        return at_fail(err, AT_INVALID, "%s: a JSON object was expected", what);
    }
    return AT_OK;
}

/* Copies a text member; AT_INVALID when it does not fit. Absent and optional: "". */
static at_status copy_text(char *out, size_t room, const at_json *object, const char *key,
                           bool required, at_error *err)
{
    const char *text = "";
    AT_TRY(at_json_want_text(object, key, required, &text, err));
    if (strlen(text) >= room) {
        return at_fail(err, AT_INVALID, "the member \"%s\" has %zu bytes, at most %zu are accepted",
                       key, strlen(text), room - 1);
    }
    (void)snprintf(out, room, "%s", text);
    return AT_OK;
}

static at_status check_name(const char *text, const char *key, at_error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._+-";
    return *text != '\0' && text[strspn(text, letters)] == '\0'
               ? AT_OK
               : at_fail(err, AT_INVALID,
                         "the member \"%s\" accepts letters, digits and ._+-, it is \"%s\"", key,
                         text);
}

static at_status read_request(at_request *out, const at_json *object, at_error *err)
{
    static const char *const keys[] = {"id",    "case",  "backend", "engine", "repeat",
                                       "force", "probe", "dump",    "checks", NULL};
    AT_TRY(at_json_only_keys(object, keys, err));
    AT_TRY(at_json_want_integer(object, "id", true, &out->id, err));
    AT_TRY(copy_text(out->case_text, sizeof out->case_text, object, "case", true, err));
    AT_TRY(copy_text(out->backend, sizeof out->backend, object, "backend", true, err));
    AT_TRY(copy_text(out->engine, sizeof out->engine, object, "engine", false, err));
    AT_TRY(at_json_want_integer(object, "repeat", false, &out->repeat, err));
    AT_TRY(at_json_want_bool(object, "force", false, &out->force, err));
    AT_TRY(at_json_want_bool(object, "probe", false, &out->probe, err));
    AT_TRY(copy_text(out->dump, sizeof out->dump, object, "dump", false, err));
    AT_TRY(copy_text(out->checks, sizeof out->checks, object, "checks", false, err));
    if (out->id < 1 || out->repeat < 1 || out->repeat > 1000) {
        return at_fail(err, AT_INVALID, "\"id\" accepts 1 and up, \"repeat\" 1 to 1000");
    }
    return AT_OK;
}

at_status at_request_parse(at_request *out, const char *line, size_t length, at_error *err)
{
    at_json *object = NULL;
    *out = (at_request){.repeat = 2};
    AT_TRY(parse_line(&object, "request", line, length, err));
    at_status status = read_request(out, object, err);
    at_json_close(object);
    return status == AT_OK ? status : at_error_flatten(err, at_fail_in(err, status, "request"));
}

char *at_request_print(const at_request *request)
{
    at_json *object = at_json_object();
    at_json_put_integer(object, "id", request->id);
    at_json_put_text(object, "case", request->case_text);
    at_json_put_text(object, "backend", request->backend);
    if (request->engine[0] != '\0') {
        at_json_put_text(object, "engine", request->engine);
    }
    at_json_put_integer(object, "repeat", request->repeat);
    if (request->force) {
        at_json_put_bool(object, "force", true);
    }
    if (request->probe) {
        at_json_put_bool(object, "probe", true);
    }
    if (request->dump[0] != '\0') {
        at_json_put_text(object, "dump", request->dump);
    }
    if (request->checks[0] != '\0') {
        at_json_put_text(object, "checks", request->checks);
    }
    char *text = at_json_print(object, false);
    at_json_close(object);
    size_t n = strlen(text);
    char *line = realloc(text, n + 2);
    AT_ASSERT(line != NULL);
    line[n] = '\n';
    line[n + 1] = '\0';
    return line;
}

static at_status read_event(at_event *out, at_error *err)
{
    const at_json *body = out->body;
    const char *name = NULL;
    AT_TRY(at_json_want_text(body, "event", true, &name, err));
    int kind = index_of(event_names, AT_EVENT_BYE + 1, name);
    if (kind < 0) {
        return at_fail(err, AT_INVALID,
                       "no event \"%.40s\"; hello, claim, begin, verdict, error, bye are known",
                       name);
    }
    out->kind = (at_event_kind)kind;
    bool of_request = out->kind != AT_EVENT_HELLO && out->kind != AT_EVENT_BYE;
    AT_TRY(
        at_json_want_integer(body, "id", of_request && out->kind != AT_EVENT_ERROR, &out->id, err));
    const at_json *list = NULL;
    bool admitted = false;
    const char *text = NULL;
    switch (out->kind) {
    case AT_EVENT_HELLO:
        AT_TRY(at_json_want_array(body, "backends", true, &list, err));
        break;
    case AT_EVENT_CLAIM:
        AT_TRY(at_json_want_bool(body, "admitted", true, &admitted, err));
        AT_TRY(at_json_want_array(body, "engines", admitted, &list, err));
        AT_TRY(at_json_want_text(body, "engine", admitted, &text, err));
        break;
    case AT_EVENT_BEGIN:
        AT_TRY(at_json_want_text(body, "step", true, &out->step, err));
        if (index_of(at_begin_steps, AT_BEGIN_COUNT, out->step) < 0) {
            return at_fail(err, AT_INVALID, "no step \"%.40s\"", out->step);
        }
        break;
    case AT_EVENT_VERDICT:
        AT_TRY(at_json_want_text(body, "status", true, &text, err));
        AT_TRY(at_json_want_text(body, "engine", false, &text, err));
        break;
    case AT_EVENT_ERROR:
        AT_TRY(at_json_want_text(body, "message", true, &out->message, err));
        break;
    case AT_EVENT_BYE:
        break;
    }
    return AT_OK;
}

at_status at_event_parse(at_event *out, const char *line, size_t length, at_error *err)
{
    *out = (at_event){.kind = AT_EVENT_BYE};
    AT_TRY(parse_line(&out->body, "event", line, length, err));
    at_status status = read_event(out, err);
    if (status != AT_OK) {
        at_event_close(out);
        return at_error_flatten(err, at_fail_in(err, status, "event"));
    }
    return AT_OK;
}

void at_event_close(at_event *event)
{
    at_json_close(event->body);
    *event = (at_event){.kind = AT_EVENT_BYE};
}

static at_status read_unit(float *out, const at_json *object, const char *key, at_error *err)
{
    double value = (double)*out;
    AT_TRY(at_json_want_number(object, key, false, &value, err));
    if (!(value >= 0 && value <= (double)FLT_MAX)) {
        return at_fail(err, AT_INVALID, "\"%s\" accepts positive numbers, or 0 for none", key);
    }
    *out = (float)value;
    return AT_OK;
}

at_status at_numeric_from_json(at_numeric_class *out, const at_json *object, at_error *err)
{
    const char *p = "stored";
    AT_TRY(at_json_want_text(object, "p", false, &p, err));
    if (strcmp(p, "stored") != 0 && strcmp(p, "f32") != 0) {
        return at_fail(err, AT_INVALID, "\"p\" accepts \"stored\" and \"f32\", it is \"%.40s\"", p);
    }
    out->p = strcmp(p, "f32") == 0 ? AT_P_F32 : AT_P_STORED;
    AT_TRY(at_json_want_bool(object, "scores_stored", false, &out->scores_stored, err));
    AT_TRY(at_json_want_bool(object, "d_from_p", false, &out->d_from_p, err));
    AT_TRY(at_json_want_bool(object, "head_rounded", false, &out->head_rounded, err));
    AT_TRY(at_json_want_bool(object, "inputs_scaled", false, &out->inputs_scaled, err));
    AT_TRY(read_unit(&out->p_unit, object, "p_unit", err));
    AT_TRY(read_unit(&out->ds_unit, object, "ds_unit", err));
    at_variant *v = &out->variant;
    AT_TRY(at_json_want_bool(object, "bias_before_cap", false, &v->bias_before_cap, err));
    AT_TRY(at_json_want_bool(object, "alibi_signed", false, &v->alibi_signed, err));
    AT_TRY(at_json_want_bool(object, "alibi_paper", false, &v->alibi_paper, err));
    AT_TRY(at_json_want_bool(object, "lse_log2", false, &v->lse_log2, err));
    return at_json_want_bool(object, "lse_without_sink", false, &v->lse_without_sink, err);
}

static at_status read_promises(unsigned *out, const at_json *backend, at_error *err)
{
    const at_json *list = NULL;
    AT_TRY(at_json_want_array(backend, "promises", false, &list, err));
    for (const at_json *m = at_json_first(list); m != NULL; m = at_json_next(m)) {
        const char *text = at_json_text(m);
        int k = 0;
        while (k < PROMISES && (text == NULL || strcmp(text, promises[k].name) != 0)) {
            k++;
        }
        if (k == PROMISES) {
            return at_fail(err, AT_INVALID,
                           "\"promises\" accepts backward, stats, determinism, "
                           "determinism_on_request, mask");
        }
        *out |= promises[k].bit;
    }
    bool modelled = false, mutant = false;
    AT_TRY(at_json_want_bool(backend, "modelled", false, &modelled, err));
    AT_TRY(at_json_want_bool(backend, "mutant", false, &mutant, err));
    *out |= (modelled ? AT_MODELLED : 0U) | (mutant ? AT_MUTANT : 0U);
    return AT_OK;
}

static at_status read_backend(at_backend_info *out, const at_json *backend, at_error *err)
{
    *out = (at_backend_info){.promises = 0};
    if (at_json_type(backend) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "\"backends\" accepts objects");
    }
    AT_TRY(copy_text(out->name, sizeof out->name, backend, "name", true, err));
    AT_TRY(check_name(out->name, "name", err));
    AT_TRY(copy_text(out->version, sizeof out->version, backend, "version", true, err));
    AT_TRY(check_name(out->version, "version", err));
    AT_TRY(copy_text(out->doc, sizeof out->doc, backend, "doc", false, err));
    const char *arch = "any";
    AT_TRY(at_json_want_text(backend, "arch", false, &arch, err));
    const char *const *names = at_case_field("arch", 4)->names;
    int found = 0;
    while (names[found] != NULL && strcmp(names[found], arch) != 0) {
        found++;
    }
    if (names[found] == NULL) {
        return at_fail(err, AT_INVALID, "%s: no arch \"%.40s\"", out->name, arch);
    }
    out->arch = (at_arch)found;
    AT_TRY(read_promises(&out->promises, backend, err));
    const at_json *numeric = NULL;
    AT_TRY(at_json_want_object(backend, "numeric", false, &numeric, err));
    return numeric != NULL ? at_numeric_from_json(&out->numeric, numeric, err) : AT_OK;
}

at_status at_hello_read(const at_event *hello, at_backend_info *out, size_t room, size_t *n,
                        at_error *err)
{
    int64_t protocol = 0, abi = AT_ABI;
    AT_TRY(at_json_want_integer(hello->body, "protocol", true, &protocol, err));
    AT_TRY(at_json_want_integer(hello->body, "abi", false, &abi, err));
    if (protocol != AT_PROTOCOL || abi != AT_ABI) {
        return at_fail(err, AT_INVALID,
                       "the worker speaks protocol %lld with ABI %lld, this attest %d with %d",
                       (long long)protocol, (long long)abi, AT_PROTOCOL, AT_ABI);
    }
    *n = 0;
    const at_json *list = at_json_get(hello->body, "backends");
    for (const at_json *m = at_json_first(list); m != NULL; m = at_json_next(m)) {
        if (*n == room) {
            return at_fail(err, AT_INVALID, "more than %zu backends in one worker", room);
        }
        AT_TRY(read_backend(&out[(*n)++], m, err));
    }
    return AT_OK;
}

at_json *at_event_make(at_event_kind kind, int64_t id)
{
    at_json *event = at_json_object();
    at_json_put_text(event, "event", event_names[kind]);
    if (id != 0) {
        at_json_put_integer(event, "id", id);
    }
    return event;
}

at_json *at_numeric_to_json(const at_numeric_class *numeric)
{
    at_json *object = at_json_object();
    at_json_put_text(object, "p", numeric->p == AT_P_F32 ? "f32" : "stored");
    at_json_put_bool(object, "scores_stored", numeric->scores_stored);
    at_json_put_bool(object, "d_from_p", numeric->d_from_p);
    at_json_put_bool(object, "head_rounded", numeric->head_rounded);
    const at_variant *v = &numeric->variant;
    const struct {
        const char *key;
        bool value;
    } rare[] = {
        {"bias_before_cap", v->bias_before_cap},   {"alibi_signed", v->alibi_signed},
        {"alibi_paper", v->alibi_paper},           {"lse_log2", v->lse_log2},
        {"lse_without_sink", v->lse_without_sink}, {"inputs_scaled", numeric->inputs_scaled},
    };
    for (size_t i = 0; i < sizeof rare / sizeof rare[0]; i++) {
        if (rare[i].value) {
            at_json_put_bool(object, rare[i].key, true);
        }
    }
    if (numeric->p_unit > 0) {
        at_json_put_number(object, "p_unit", (double)numeric->p_unit);
    }
    if (numeric->ds_unit > 0) {
        at_json_put_number(object, "ds_unit", (double)numeric->ds_unit);
    }
    return object;
}

static at_json *introduce(const at_backend *b)
{
    at_json *object = at_json_object();
    at_json_put_text(object, "name", b->name);
    at_json_put_text(object, "version", b->version);
    at_json_put_text(object, "arch", at_case_field("arch", 4)->names[b->arch]);
    at_json_put(object, "numeric", at_numeric_to_json(&b->numeric));
    at_json *list = at_json_array();
    for (int i = 0; i < PROMISES; i++) {
        if (b->promises & promises[i].bit) {
            at_json_add_text(list, promises[i].name);
        }
    }
    at_json_put(object, "promises", list);
    if (b->promises & AT_MODELLED) {
        at_json_put_bool(object, "modelled", true);
    }
    if (b->promises & AT_MUTANT) {
        at_json_put_bool(object, "mutant", true);
    }
    at_json_put_text(object, "doc", b->doc != NULL ? b->doc : "");
    return object;
}

at_json *at_hello_make(const at_backend *const *backends)
{
    at_json *hello = at_event_make(AT_EVENT_HELLO, 0), *list = at_json_array();
    at_json_put_integer(hello, "protocol", AT_PROTOCOL);
    at_json_put_integer(hello, "abi", AT_ABI);
    at_json_put_text(hello, "tool", at_version());
    for (; *backends != NULL; backends++) {
        at_json_add(list, introduce(*backends));
    }
    at_json_put(hello, "backends", list);
    at_json *versions = at_json_object();
#if defined __VERSION__
    at_json_put_text(versions, "compiler", __VERSION__);
#endif
    at_json_put_text(versions, "libc", gnu_get_libc_version());
    at_json_put(hello, "versions", versions);
    return hello;
}

at_status at_event_send(int fd, at_json *event, at_error *err)
{
    char *text = at_json_print(event, false);
    at_json_close(event);
    at_text_clean(text);
    size_t n = strlen(text), sent = 0;
    text[n++] = '\n'; /* in the place of the NUL */
    at_status status = AT_OK;
    while (sent < n && status == AT_OK) {
        ssize_t got = write(fd, text + sent, n - sent);
        if (got >= 0) {
            sent += (size_t)got;
        } else if (errno != EINTR) {
            status = at_fail(err, AT_IO, "the runner cannot be reached (%s)", strerror(errno));
        }
    }
    free(text);
    return status;
}
