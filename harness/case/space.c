#include "harness/case/space.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/field.h"
#include "harness/problem/rng.h"

enum { SPAN_LIMIT = 4096 };

static void close_axis(at_axis *axis)
{
    for (size_t i = 0; i < axis->span_count; i++) {
        free(axis->span[i].text);
    }
    free(axis->span);
    *axis = (at_axis){0};
}

void at_space_close(at_space *space)
{
    for (size_t i = 0; i < space->n; i++) {
        close_axis(&space->axis[i]);
    }
    space->n = 0;
}

static at_axis *find_axis(at_space *space, size_t row)
{
    for (size_t i = 0; i < space->n; i++) {
        if (space->axis[i].row == row) {
            return &space->axis[i];
        }
    }
    return NULL;
}

/* Integer keys only: names such as tl have no order. */
static at_status range_end(int64_t *out, const at_field *f, const char *text, size_t length,
                           at_error *err)
{
    at_case c;
    AT_TRY(at_field_parse(&c, f, text, length, err));
    *out = at_case_get(&c, f);
    if ((text[0] < '0' || text[0] > '9') && text[0] != '-') {
        return at_fail(err, AT_INVALID, "%s=%.*s..: a range goes from one integer to another",
                       f->key, (int)length, text);
    }
    return AT_OK;
}

/* "first..last" or "first..last/step"; dots points at "..". */
static at_status read_range(at_span *span, const at_field *f, const char *text, size_t length,
                            const char *dots, at_error *err)
{
    const char *end = text + length, *last = dots + 2;
    const char *slash = memchr(last, '/', (size_t)(end - last));
    const char *stop = slash != NULL ? slash : end;
    int64_t to = 0;
    span->step = 1;
    if (f->kind != AT_FIELD_INT && f->kind != AT_FIELD_U64) {
        return at_fail(err, AT_INVALID, "%s=%.40s is a range, the key %s takes %s", f->key, text,
                       f->key, f->accepts);
    }
    AT_TRY(range_end(&span->first, f, text, (size_t)(dots - text), err));
    AT_TRY(range_end(&to, f, last, (size_t)(stop - last), err));
    if (slash != NULL) {
        char *after = NULL;
        span->step = strtoll(slash + 1, &after, 10);
        span->step = after == end && slash[1] >= '1' && slash[1] <= '9' ? span->step : 0;
    }
    if (span->step < 1 || to < span->first) {
        return at_fail(err, AT_INVALID,
                       "%s=%.*s is not a range, ranges are first..last or first..last/step with "
                       "first <= last and step >= 1",
                       f->key, length < 40 ? (int)length : 40, text);
    }
    span->count = (uint64_t)(to - span->first) / (uint64_t)span->step + 1;
    return AT_OK;
}

static const char *find_dots(const char *text, size_t length)
{
    for (size_t i = 0; i + 1 < length; i++) {
        if (text[i] == '.' && text[i + 1] == '.') {
            return text + i;
        }
    }
    return NULL;
}

static at_status add_span(at_axis *axis, const char *text, size_t length, at_error *err)
{
    const at_field *f = &at_case_fields[axis->row];
    at_span span = {.count = 1};
    char *copy = malloc(length + 1);
    at_span *larger = realloc(axis->span, (axis->span_count + 1) * sizeof *larger);
    axis->span = larger != NULL ? larger : axis->span;
    at_status status = AT_OK;
    if (copy == NULL || larger == NULL) {
        free(copy);
        return at_fail(err, AT_NO_MEMORY, "no memory for the values of %s", f->key);
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    const char *dots = find_dots(copy, length);
    at_case c;
    if (axis->span_count == SPAN_LIMIT) {
        status = at_fail(err, AT_INVALID, "%s lists more than %d values", f->key, SPAN_LIMIT);
    } else if (dots != NULL) {
        status = read_range(&span, f, copy, length, dots, err);
    } else {
        status = at_field_parse(&c, f, copy, length, err);
    }
    if (status == AT_OK && span.count > UINT64_MAX - axis->count) {
        status = at_fail(err, AT_INVALID, "%s lists more than 2^64 values", f->key);
    }
    if (status != AT_OK) {
        free(copy);
        return status;
    }
    span.text = copy;
    span.weight = span.count;
    axis->span[axis->span_count++] = span;
    axis->count += span.count;
    axis->weight += span.count;
    return AT_OK;
}

at_status at_space_add(at_space *space, const char *key, size_t key_length, const char *text,
                       size_t length, bool base, at_error *err)
{
    const at_field *f = at_case_field(key, key_length);
    if (f == NULL) {
        at_case c;
        uint64_t given = 0;
        return at_case_assign(&c, &given, key, key_length, "", 0, err); /* its sentence */
    }
    size_t row = (size_t)(f - at_case_fields);
    at_axis *axis = find_axis(space, row);
    if (axis != NULL && axis->base && !base) {
        close_axis(axis);
        axis->row = row;
    } else if (axis == NULL) {
        axis = &space->axis[space->n++];
        *axis = (at_axis){.row = row, .base = base};
    }
    for (const char *end = text + length;;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        AT_TRY(add_span(axis, text, (size_t)((comma != NULL ? comma : end) - text), err));
        if (comma == NULL) {
            return AT_OK;
        }
        text = comma + 1;
    }
}

at_status at_space_add_text(at_space *space, const char *text, at_error *err)
{
    uint64_t given = 0;
    for (const char *pair = text; pair != NULL;) {
        const char *colon = strchr(pair, ':');
        size_t length = colon != NULL ? (size_t)(colon - pair) : strlen(pair);
        const char *equals = memchr(pair, '=', length);
        if (equals == NULL || equals == pair) {
            return at_fail(err, AT_INVALID,
                           "\"%.*s\" is not key=value, pairs are joined by one ':'",
                           length < 60 ? (int)length : 60, pair);
        }
        size_t key_length = (size_t)(equals - pair);
        const at_field *f = at_case_field(pair, key_length);
        uint64_t bit = f != NULL ? UINT64_C(1) << (f - at_case_fields) : 0;
        if ((given & bit) != 0) {
            return at_fail(err, AT_INVALID, "the key %s is given twice", f->key);
        }
        given |= bit;
        AT_TRY(
            at_space_add(space, pair, key_length, equals + 1, length - key_length - 1, false, err));
        pair = colon != NULL ? colon + 1 : NULL;
    }
    return AT_OK;
}

at_status at_space_weigh(at_space *space, const char *key, const char *text, uint64_t weight,
                         at_error *err)
{
    const at_field *f = at_case_field(key, strlen(key));
    at_axis *axis = f != NULL ? find_axis(space, (size_t)(f - at_case_fields)) : NULL;
    bool found = false;
    if (axis == NULL) {
        return at_fail(err, AT_INVALID,
                       "weights for \"%s\", which is no key of the group's \"case\"", key);
    }
    AT_ASSERT(weight >= 1);
    for (size_t i = 0; i < axis->span_count && !axis->weighed; i++) {
        axis->weight += 1 - axis->span[i].weight;
        axis->span[i].weight = 1;
    }
    axis->weighed = true;
    for (size_t i = 0; i < axis->span_count; i++) {
        if (strcmp(axis->span[i].text, text) == 0) {
            axis->weight += weight - axis->span[i].weight;
            axis->span[i].weight = weight;
            found = true;
        }
    }
    return found ? AT_OK
                 : at_fail(err, AT_INVALID,
                           "a weight for %s=%.40s, which is none of the values as written", key,
                           text);
}

at_status at_space_count(uint64_t *out, const at_space *space, uint64_t limit, at_error *err)
{
    uint64_t total = 1;
    for (size_t i = 0; i < space->n; i++) {
        if (space->axis[i].count > limit / total) {
            return at_fail(
                err, AT_INVALID,
                "more than %" PRIu64 " combinations, list fewer values or \"sample\" them", limit);
        }
        total *= space->axis[i].count;
    }
    *out = total;
    return AT_OK;
}

/* Assigns value `index` of a span; its text was checked when it was added. */
static void assign_value(at_case *c, uint64_t *given, const at_axis *axis, const at_span *span,
                         uint64_t index)
{
    const at_field *f = &at_case_fields[axis->row];
    if (span->step != 0) {
        at_case_set(c, f, span->first + (int64_t)index * span->step);
        *given |= UINT64_C(1) << axis->row;
        return;
    }
    AT_ASSERT(at_field_parse(c, f, span->text, strlen(span->text), NULL) == AT_OK);
    *given |= UINT64_C(1) << axis->row;
}

uint32_t at_hash_name(const char *text, uint32_t hash)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT32_C(16777619);
    }
    return hash;
}

void at_space_at(at_case *out, uint64_t *given, const at_space *space, uint64_t index)
{
    memset(out, 0, sizeof *out);
    *given = 0;
    for (size_t i = space->n; i-- > 0;) {
        const at_axis *axis = &space->axis[i];
        const at_span *span = axis->span;
        uint64_t at = index % axis->count;
        for (; at >= span->count; span++) {
            at -= span->count;
        }
        assign_value(out, given, axis, span, at);
        index /= axis->count;
    }
}

void at_space_draw(at_case *out, uint64_t *given, const at_space *space, uint64_t seed,
                   uint32_t stream, uint64_t index)
{
    memset(out, 0, sizeof *out);
    *given = 0;
    for (size_t i = 0; i < space->n; i++) {
        const at_axis *axis = &space->axis[i];
        const at_span *span = axis->span;
        /* A stream a key: new keys and reordered ones do not change what the others draw. */
        uint32_t own = at_hash_name(at_case_fields[axis->row].key, stream);
        uint64_t at = at_rng_below(seed, own, 2 * index, axis->weight);
        for (; at >= span->weight; span++) {
            at -= span->weight;
        }
        assign_value(out, given, axis, span, at_rng_below(seed, own, 2 * index + 1, span->count));
    }
}
