#include "harness/run/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/feature.h"

static char *copy_text(const char *text)
{
    char *copy = strdup(text != NULL ? text : "");
    AT_ASSERT(copy != NULL);
    return copy;
}

/* The step and the tensor that decided; tensor -1 when the step failed as a whole. */
static at_step decisive(const at_verdict *v, int *tensor)
{
    at_step step = AT_STEP_CLAIM;
    for (int i = 0; i < AT_STEP_COUNT; i++) {
        if (v->step[i].ran && v->step[i].kind >= v->step[step].kind) {
            step = (at_step)i;
        }
    }
    *tensor = -1;
    for (int t = 0; t < AT_TENSOR_COUNT; t++) {
        const at_measure *m = &v->step[step].m[t];
        const at_measure *best = *tensor >= 0 ? &v->step[step].m[*tensor] : NULL;
        bool failed = m->judged && at_kind_class(m->kind) == AT_CLASS_FAIL;
        if (failed && (best == NULL || m->kind > best->kind ||
                       (m->kind == best->kind && m->max_ratio > best->max_ratio))) {
            *tensor = t;
        }
    }
    return step;
}

char *at_signature(const at_case *c, const char *backend, at_kind kind, const at_verdict *v)
{
    char region[AT_REGION_TEXT], text[AT_REGION_TEXT + 256];
    int tensor = -1;
    at_step step = decisive(v, &tensor);
    at_case_region(c, region);
    (void)snprintf(text, sizeof text, "%s|%s|%s|%s%s%s|%s", backend, at_kind_names[kind],
                   v->reason.code, at_step_names[step], tensor >= 0 ? "." : "",
                   tensor >= 0 ? at_tensor_names[tensor] : "", region);
    return copy_text(text);
}

bool at_record_has_numbers(const at_record *r)
{
    return r->tensor >= 0 && r->measured != AT_OVERRUN && r->measured != AT_CLOBBERED;
}

static void put_list(at_json *object, const char *key, const char *joined)
{
    at_json *list = at_json_array();
    while (joined != NULL && *joined != '\0') {
        size_t n = strcspn(joined, "\n");
        char word[256];
        (void)snprintf(word, sizeof word, "%.*s", (int)n, joined);
        at_json_add_text(list, word);
        joined += n + (joined[n] == '\n');
    }
    at_json_put(object, key, list);
}

static void put_if_given(at_json *object, const char *key, const char *text)
{
    if (text != NULL && *text != '\0') {
        at_json_put_text(object, key, text);
    }
}

at_json *at_record_make(const at_record_frame *frame, const at_verdict *v)
{
    char text[AT_CASE_TEXT_MAX], id[AT_ID_TEXT];
    (void)at_case_print(frame->c, text);
    at_case_id(frame->c, id);
    at_json *line = at_json_object();
    at_json_put_text(line, "schema", AT_RESULTS_SCHEMA);
    at_json_put_text(line, "id", id);
    at_json_put_text(line, "case", text);
    at_json_put_text(line, "backend", frame->backend);
    at_json_put_text(line, "version", frame->version);
    at_json_put_text(line, "engine", frame->engine);
    at_verdict_to_json(v, line);
    if (frame->measured != v->kind) {
        at_json_put_text(line, "measured", at_kind_names[frame->measured]);
    }
    put_if_given(line, "limits", frame->limits);
    put_if_given(line, "waiver", frame->issue);
    put_list(line, "engines", frame->engines);
    put_list(line, "admitted_by", frame->admitted_by);
    at_json_put_integer(line, "runs", frame->runs);
    at_json_put_integer(line, "hits", frame->hits);
    at_json_put_bool(line, "modelled", frame->modelled);
    if (at_kind_class(frame->measured) != AT_CLASS_OK || v->kind == AT_XPASS) {
        at_kind kind = v->kind == AT_WAIVED ? frame->measured : v->kind;
        char *signature = at_signature(frame->c, frame->backend, kind, v);
        at_json_put_text(line, "signature", signature);
        free(signature);
    }
    put_if_given(line, "output", frame->output);
    return line;
}

static at_status take_text(char **out, const at_json *line, const char *key, bool required,
                           at_error *err)
{
    const char *text = "";
    AT_TRY(at_json_want_text(line, key, required, &text, err));
    *out = copy_text(text);
    return AT_OK;
}

static at_status take_list(char **out, const at_json *line, const char *key, bool required,
                           at_error *err)
{
    const at_json *list = NULL;
    AT_TRY(at_json_want_array(line, key, required, &list, err));
    size_t room = 1, used = 0;
    for (const at_json *m = at_json_first(list); m != NULL; m = at_json_next(m)) {
        if (at_json_text(m) == NULL) {
            return at_fail(err, AT_INVALID, "the member \"%s\" holds something but text", key);
        }
        room += strlen(at_json_text(m)) + 1;
    }
    *out = calloc(1, room);
    AT_ASSERT(*out != NULL);
    for (const at_json *m = at_json_first(list); m != NULL; m = at_json_next(m)) {
        used += (size_t)snprintf(*out + used, room - used, used ? "\n%s" : "%s", at_json_text(m));
    }
    return AT_OK;
}

static void take_measures(at_record *out, const at_verdict *v)
{
    out->step = decisive(v, &out->tensor);
    for (int i = 0; i < AT_STEP_COUNT; i++) {
        for (int t = 0; t < AT_TENSOR_COUNT; t++) {
            const at_measure *m = &v->step[i].m[t];
            bool worse = m->judged && (isnan(m->max_ratio) || m->max_ratio > out->max_ratio);
            out->max_ratio = worse ? m->max_ratio : out->max_ratio;
        }
    }
    if (out->tensor >= 0) {
        const at_measure *m = &v->step[out->step].m[out->tensor];
        memcpy(out->index, m->index, sizeof out->index);
        out->got = m->got;
        out->want = m->want;
        out->bound = m->bound;
    }
}

static at_status read_kinds(at_record *out, const at_json *line, const at_verdict *v, at_error *err)
{
    const char *schema = NULL, *measured = NULL;
    AT_TRY(at_json_want_text(line, "schema", true, &schema, err));
    if (strcmp(schema, AT_RESULTS_SCHEMA) != 0) {
        return at_fail(err, AT_INVALID, "the schema is \"%.60s\", this attest reads %s", schema,
                       AT_RESULTS_SCHEMA);
    }
    out->kind = out->measured = v->kind;
    AT_TRY(at_json_want_text(line, "measured", false, &measured, err));
    if (measured != NULL && !at_kind_parse(&out->measured, measured)) {
        return at_fail(err, AT_INVALID, "no status \"%.40s\"", measured);
    }
    return AT_OK;
}

static at_status read_line(at_record *out, const at_json *line, at_verdict *v, at_error *err)
{
    const char *id = NULL;
    int64_t runs = 1, hits = 1;
    AT_TRY(at_verdict_from_json(v, line, err));
    AT_TRY(read_kinds(out, line, v, err));
    AT_TRY(at_json_want_text(line, "id", true, &id, err));
    if (strlen(id) != AT_ID_TEXT - 1 || strspn(id, "0123456789abcdef") != AT_ID_TEXT - 1) {
        return at_fail(err, AT_INVALID, "the member \"id\" must be 16 hex digits");
    }
    (void)snprintf(out->id, sizeof out->id, "%s", id);
    AT_TRY(at_json_want_integer(line, "runs", false, &runs, err));
    AT_TRY(at_json_want_integer(line, "hits", false, &hits, err));
    AT_TRY(at_json_want_bool(line, "modelled", false, &out->modelled, err));
    out->runs = (int)runs;
    out->hits = (int)hits;
    (void)snprintf(out->code, sizeof out->code, "%s", v->reason.code);
    out->message = copy_text(v->reason.text);
    take_measures(out, v);
    AT_TRY(take_text(&out->case_text, line, "case", true, err));
    AT_TRY(take_text(&out->backend, line, "backend", true, err));
    AT_TRY(take_text(&out->version, line, "version", true, err));
    AT_TRY(take_text(&out->engine, line, "engine", true, err));
    AT_TRY(take_text(&out->issue, line, "waiver", false, err));
    AT_TRY(take_text(&out->output, line, "output", false, err));
    AT_TRY(take_text(&out->signature, line, "signature", false, err));
    AT_TRY(take_list(&out->engines, line, "engines", false, err));
    return take_list(&out->admitted_by, line, "admitted_by", false, err);
}

at_status at_record_read(at_record *out, const at_json *line, at_error *err)
{
    *out = (at_record){.tensor = -1};
    at_verdict *v = malloc(sizeof *v);
    if (v == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a result");
    }
    at_status status = at_json_type(line) == AT_JSON_OBJECT
                           ? read_line(out, line, v, err)
                           : at_fail(err, AT_INVALID, "a JSON object was expected");
    free(v);
    if (status != AT_OK) {
        at_record_close(out);
    }
    return status;
}

void at_record_close(at_record *r)
{
    char **const text[] = {&r->case_text, &r->backend, &r->version,     &r->engine, &r->message,
                           &r->engines,   &r->issue,   &r->admitted_by, &r->output, &r->signature};
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        free(*text[i]);
        *text[i] = NULL;
    }
}
