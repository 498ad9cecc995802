#include "harness/judge/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const at_kind_names[] = {
    "PASS",   "UNSUPPORTED",  "SKIP",        "OOM",       "WAIVED",      "VACUOUS", "SUSPECT",
    "BUILT",  "OVER_REFUSED", "WRONG",       "NONFINITE", "UNWRITTEN",   "OVERRUN", "CLOBBERED",
    "NONDET", "REFUSED",      "UNBUILDABLE", "CRASH",     "DEVICE_LOST", "TIMEOUT", "FLAKY",
    "XPASS",  "FALLBACK",     "ERROR",       NULL,
};
_Static_assert(sizeof at_kind_names / sizeof at_kind_names[0] == AT_KIND_COUNT + 1,
               "one name a kind");

static const char *const kind_docs[AT_KIND_COUNT] = {
    [AT_PASS] = "Every judged element lies within the bound of the reference, and the case would "
                "have exposed a broken kernel.",
    [AT_UNSUPPORTED_CASE] = "Selection or the backend declined the case before anything was "
                            "launched.",
    [AT_SKIP] = "The case was not run here; the reason code says what stands in the way.",
    [AT_OOM] = "Memory ran out, again after a retry with nothing else running.",
    [AT_WAIVED] = "The case failed as a waiver in corpus/waivers.json expects it to.",
    [AT_VACUOUS] = "The outputs lie within the bound, but so would those of a plainly broken "
                   "kernel, so nothing was shown.",
    [AT_SUSPECT] = "The outputs lie within the bound, but their statistics are unlike those of "
                   "healthy kernels.",
    [AT_BUILT] = "A plan was built where nothing can be executed.",
    [AT_OVER_REFUSED] = "Selection refused the case, yet the backend is right when forced.",
    [AT_WRONG] = "At least one element is further from the reference than rounding explains.",
    [AT_NONFINITE] = "An output is NaN or infinite where the reference is finite.",
    [AT_UNWRITTEN] = "An output still holds the poison pattern that it had before the launch.",
    [AT_OVERRUN] = "Memory outside the outputs was written: a guard band, a stride gap or a gap "
                   "between sequences.",
    [AT_CLOBBERED] = "An input was changed by the launch.",
    [AT_NONDET] = "Equal launches gave different bits although determinism was promised.",
    [AT_KIND_REFUSED] = "The case was admitted, then the backend reported an error at run time.",
    [AT_UNBUILDABLE] = "The case was admitted, but no plan can be built for it.",
    [AT_CRASH] = "The worker process died while it ran the case.",
    [AT_DEVICE_LOST] = "The device was lost while it ran the case.",
    [AT_TIMEOUT] = "The case did not end within its deadline.",
    [AT_FLAKY] = "Runs of the same case disagree with one another.",
    [AT_XPASS] = "The case passed although a waiver expects it to fail.",
    [AT_FALLBACK] = "Another kernel served the case than the one that was named.",
    [AT_ERROR] = "attest itself failed; the verdict says nothing about the backend.",
};

at_class at_kind_class(at_kind kind)
{
    if (kind == AT_PASS) {
        return AT_CLASS_OK;
    }
    if (kind < AT_WRONG) {
        return AT_CLASS_NEUTRAL;
    }
    return kind < AT_ERROR ? AT_CLASS_FAIL : AT_CLASS_ERROR;
}

const char *at_class_name(at_class c)
{
    static const char *const names[] = {"ok", "neutral", "fail", "error"};
    return names[c];
}

const char *at_kind_doc(at_kind kind)
{
    AT_ASSERT(kind < AT_KIND_COUNT);
    return kind_docs[kind];
}

bool at_kind_parse(at_kind *out, const char *name)
{
    for (int i = 0; i < AT_KIND_COUNT; i++) {
        if (strcmp(name, at_kind_names[i]) == 0) {
            *out = (at_kind)i;
            return true;
        }
    }
    return false;
}

at_kind at_kind_worse(at_kind a, at_kind b)
{
    return a > b ? a : b;
}

const char *const at_stat_names[] = {"max_z",  "rms_z",    "row_rms_z", "tile_rms_z", "block_rms_z",
                                     "bias_z", "outliers", "max_error", NULL};
_Static_assert(sizeof at_stat_names / sizeof at_stat_names[0] == AT_STAT_COUNT + 1,
               "one name a statistic");

const char *const at_step_names[] = {"claim", "forward", "backward", NULL};

void at_verdict_init(at_verdict *v)
{
    memset(v, 0, sizeof *v);
    v->share = 1;
}

void at_verdict_settle(at_verdict *v)
{
    const at_step_verdict *worst = NULL;
    for (int i = 0; i < AT_STEP_COUNT; i++) {
        if (v->step[i].ran && (worst == NULL || v->step[i].kind > worst->kind)) {
            worst = &v->step[i];
        }
    }
    if (worst != NULL) {
        v->kind = worst->kind;
        v->reason = worst->reason;
    }
}

static void put_outcome(at_json *object, at_kind kind, const at_reason *reason)
{
    at_json_put_text(object, "status", at_kind_names[kind]);
    at_json_put_text(object, "reason", reason->code);
    at_json_put_text(object, "message", reason->text);
}

static at_json *measure_to_json(const at_measure *m)
{
    at_json *object = at_json_object();
    at_json_put_text(object, "status", at_kind_names[m->kind]);
    at_json_put_text(object, "reason", m->reason.code);
    if (m->reason.text[0] != '\0') {
        at_json_put_text(object, "message", m->reason.text);
    }
    at_json_put_number(object, "max_ratio", m->max_ratio);
    at_json_put_number(object, "max_z", m->max_z);
    at_json_put_number(object, "rms_z", m->rms_z);
    at_json_put_number(object, "row_rms_z", m->row_rms_z);
    at_json_put_number(object, "tile_rms_z", m->tile_rms_z);
    at_json_put_number(object, "block_rms_z", m->block_rms_z);
    at_json_put_number(object, "bias_z", m->bias_z);
    at_json_put_integer(object, "outliers", m->outliers);
    at_json_put_number(object, "max_error", m->max_error);
    at_json_put_integer(object, "compared", m->compared);
    at_json *score = at_json_object();
    for (int i = 0; i < AT_STAT_COUNT; i++) {
        at_json_put_number(score, at_stat_names[i], m->score[i]);
    }
    at_json_put(object, "score", score);
    at_json *index = at_json_array();
    for (int i = 0; i < 4; i++) {
        at_json_add_integer(index, m->index[i]);
    }
    at_json_put(object, "index", index);
    at_json_put_number(object, "got", m->got);
    at_json_put_number(object, "want", m->want);
    at_json_put_number(object, "bound", m->bound);
    at_json_put_integer(object, "wrong", m->wrong);
    at_json_put_integer(object, "total", m->total);
    at_json_put_number(object, "sensitivity", m->sensitivity);
    return object;
}

static at_json *step_to_json(const at_step_verdict *s, const char *name)
{
    at_json *object = at_json_object(), *tensors = NULL;
    at_json_put_text(object, "step", name);
    put_outcome(object, s->kind, &s->reason);
    at_json_put_number(object, "ms", s->ms);
    for (int t = 0; t < AT_TENSOR_COUNT; t++) {
        if (s->m[t].judged) {
            tensors = tensors != NULL ? tensors : at_json_object();
            at_json_put(tensors, at_tensor_names[t], measure_to_json(&s->m[t]));
        }
    }
    if (tensors != NULL) {
        at_json_put(object, "tensors", tensors);
    }
    return object;
}

void at_verdict_to_json(const at_verdict *v, at_json *object)
{
    put_outcome(object, v->kind, &v->reason);
    at_json *steps = at_json_array();
    for (int i = 0; i < AT_STEP_COUNT; i++) {
        if (v->step[i].ran) {
            at_json_add(steps, step_to_json(&v->step[i], at_step_names[i]));
        }
    }
    at_json_put(object, "steps", steps);
    at_json *teeth = at_json_object();
    at_json_put_integer(teeth, "caught", v->teeth_caught);
    at_json_put_integer(teeth, "total", v->teeth_total);
    at_json_put(object, "teeth", teeth);
    at_json_put_number(object, "share", v->share);
}

static at_status read_text(const at_json *object, const char *key, char *out, size_t size,
                           at_error *err)
{
    const char *text = "";
    AT_TRY(at_json_want_text(object, key, false, &text, err));
    (void)snprintf(out, size, "%s", text);
    return AT_OK;
}

static at_status read_outcome(const at_json *object, at_kind *kind, at_reason *reason,
                              at_error *err)
{
    const char *status = NULL;
    AT_TRY(at_json_want_text(object, "status", true, &status, err));
    if (!at_kind_parse(kind, status)) {
        return at_fail(err, AT_INVALID,
                       "unknown status \"%.40s\"; accepted: PASS, WRONG ... (see "
                       "attest explain)",
                       status);
    }
    AT_TRY(read_text(object, "reason", reason->code, sizeof reason->code, err));
    return read_text(object, "message", reason->text, sizeof reason->text, err);
}

/* A number, or "nan", "inf", "-inf" as at_json_put_number writes them. */
static at_status read_real(const at_json *object, const char *key, double *out, at_error *err)
{
    const at_json *value = at_json_get(object, key);
    const char *text = value != NULL ? at_json_text(value) : NULL;
    if (text == NULL) {
        return at_json_want_number(object, key, false, out, err);
    }
    static const char *const names[] = {"nan", "inf", "-inf"};
    static const double values[] = {(double)NAN, HUGE_VAL, -HUGE_VAL};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = values[i];
            return AT_OK;
        }
    }
    return at_fail(err, AT_INVALID,
                   "member \"%s\" must be a number, \"nan\", \"inf\" or \"-inf\", it is \"%.40s\"",
                   key, text);
}

static at_status read_index(const at_json *object, int64_t out[4], at_error *err)
{
    const at_json *array = NULL;
    AT_TRY(at_json_want_array(object, "index", false, &array, err));
    const at_json *item = array != NULL ? at_json_first(array) : NULL;
    if (array != NULL && at_json_size(array) != 4) {
        return at_fail(err, AT_INVALID,
                       "member \"index\" must hold 4 integers [b h s d], it holds "
                       "%zu values",
                       at_json_size(array));
    }
    for (int i = 0; item != NULL; i++, item = at_json_next(item)) {
        if (!at_json_integer(item, &out[i])) {
            return at_fail(err, AT_INVALID, "member \"index\" must hold 4 integers [b h s d]");
        }
    }
    return AT_OK;
}

static at_status measure_from_json(at_measure *m, const at_json *object, at_error *err)
{
    m->judged = true;
    AT_TRY(read_outcome(object, &m->kind, &m->reason, err));
    AT_TRY(read_real(object, "max_ratio", &m->max_ratio, err));
    AT_TRY(read_real(object, "max_z", &m->max_z, err));
    AT_TRY(read_real(object, "rms_z", &m->rms_z, err));
    AT_TRY(read_real(object, "row_rms_z", &m->row_rms_z, err));
    AT_TRY(read_real(object, "tile_rms_z", &m->tile_rms_z, err));
    AT_TRY(read_real(object, "block_rms_z", &m->block_rms_z, err));
    AT_TRY(read_real(object, "bias_z", &m->bias_z, err));
    AT_TRY(read_real(object, "max_error", &m->max_error, err));
    AT_TRY(at_json_want_integer(object, "outliers", false, &m->outliers, err));
    AT_TRY(at_json_want_integer(object, "compared", false, &m->compared, err));
    const at_json *score = NULL;
    AT_TRY(at_json_want_object(object, "score", false, &score, err));
    for (int i = 0; i < AT_STAT_COUNT && score != NULL; i++) {
        AT_TRY(read_real(score, at_stat_names[i], &m->score[i], err));
    }
    AT_TRY(read_index(object, m->index, err));
    AT_TRY(read_real(object, "got", &m->got, err));
    AT_TRY(read_real(object, "want", &m->want, err));
    AT_TRY(read_real(object, "bound", &m->bound, err));
    AT_TRY(at_json_want_integer(object, "wrong", false, &m->wrong, err));
    AT_TRY(at_json_want_integer(object, "total", false, &m->total, err));
    return read_real(object, "sensitivity", &m->sensitivity, err);
}

static int find_name(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static at_status step_from_json(at_verdict *v, const at_json *object, at_error *err)
{
    const char *name = NULL;
    AT_TRY(at_json_want_text(object, "step", true, &name, err));
    int i = find_name(at_step_names, AT_STEP_COUNT, name);
    if (i < 0) {
        return at_fail(err, AT_INVALID,
                       "unknown step \"%.40s\"; accepted: claim, forward, backward", name);
    }
    at_step_verdict *s = &v->step[i];
    if (s->ran) {
        return at_fail(err, AT_INVALID, "the step \"%s\" stands twice", name);
    }
    s->ran = true;
    AT_TRY(read_outcome(object, &s->kind, &s->reason, err));
    AT_TRY(read_real(object, "ms", &s->ms, err));
    const at_json *tensors = NULL;
    AT_TRY(at_json_want_object(object, "tensors", false, &tensors, err));
    const at_json *item = tensors != NULL ? at_json_first(tensors) : NULL;
    for (; item != NULL; item = at_json_next(item)) {
        int t = find_name(at_tensor_names, AT_TENSOR_COUNT, at_json_key(item));
        if (t < 0 || at_json_type(item) != AT_JSON_OBJECT) {
            return at_fail(err, AT_INVALID,
                           "tensor \"%.40s\" of step \"%s\" must be an object "
                           "named o, lse, dq, dk or dv",
                           at_json_key(item), name);
        }
        at_status status = measure_from_json(&s->m[t], item, err);
        if (status != AT_OK) {
            return at_fail_in(err, status, "tensor \"%s\"", at_tensor_names[t]);
        }
    }
    return AT_OK;
}

at_status at_verdict_from_json(at_verdict *out, const at_json *object, at_error *err)
{
    at_verdict_init(out);
    AT_TRY(read_outcome(object, &out->kind, &out->reason, err));
    const at_json *steps = NULL, *teeth = NULL;
    AT_TRY(at_json_want_array(object, "steps", false, &steps, err));
    const at_json *item = steps != NULL ? at_json_first(steps) : NULL;
    for (; item != NULL; item = at_json_next(item)) {
        AT_TRY(step_from_json(out, item, err));
    }
    AT_TRY(at_json_want_object(object, "teeth", false, &teeth, err));
    if (teeth != NULL) {
        int64_t caught = 0, total = 0;
        AT_TRY(at_json_want_integer(teeth, "caught", false, &caught, err));
        AT_TRY(at_json_want_integer(teeth, "total", false, &total, err));
        if (caught < 0 || caught > total || total > INT32_MAX) {
            return at_fail(err, AT_INVALID,
                           "member \"teeth\" must have 0 <= caught <= total, it "
                           "has %" PRId64 " and %" PRId64,
                           caught, total);
        }
        out->teeth_caught = (int)caught;
        out->teeth_total = (int)total;
    }
    return read_real(object, "share", &out->share, err);
}
