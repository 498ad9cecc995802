#include "harness/case/shrink.h"

#include <stdlib.h>
#include <string.h>

#include "harness/case/field.h"

enum { STEPS_MAX = 32 };

typedef char id_text[AT_ID_TEXT];

/* The walk: the case, who is asked, and the ids of what was lost. */
typedef struct walk {
    at_case *c;
    at_shrink_ask ask;
    void *user;
    id_text *lost;
    size_t lost_count, lost_room;
    bool stopped;
} walk;

static bool is_key(const at_field *f, const char *key)
{
    return strcmp(f->key, key) == 0;
}

/* Values of the row that are simpler than the case's, the simplest first. */
static size_t list_steps(int64_t step[STEPS_MAX], const at_case *c, const at_field *f)
{
    const int64_t value = at_field_int(c, f->offset), init = at_field_init(c, f);
    size_t n = 0;
    if (is_key(f, "arch") || (at_case_is_default(c, f) && !is_key(f, "pass"))) {
        return 0;
    }
    if (f->kind != AT_FIELD_INT && f->kind != AT_FIELD_ENUM) {
        step[n++] = init;
        return n;
    }
    if (!is_key(f, "pass")) {
        step[n++] = init;
    }
    if (f->kind == AT_FIELD_ENUM) {
        for (int64_t v = 0; v < value && n < STEPS_MAX; v++) {
            step[n++] = v;
        }
        return n;
    }
    int64_t below = 1;
    while (2 * below < value) {
        below *= 2;
    }
    const int64_t smaller[] = {1, value / 2, below};
    for (size_t i = 0; i < 3; i++) {
        if (smaller[i] >= f->min && smaller[i] >= 1 && smaller[i] < value) {
            step[n++] = smaller[i];
        }
    }
    return n;
}

static uint64_t given_keys(const at_case *c)
{
    uint64_t given = 0;
    for (size_t i = 0; i < at_case_field_count; i++) {
        given |= (uint64_t)!at_case_is_default(c, &at_case_fields[i]) << i;
    }
    return given;
}

/* The case with row `row` at `value` (REAL, LIST, SET, U64: at the default), and without the rows
 * of `drop`. False: it contradicts itself or is the same case. */
static bool make(at_case *out, const at_case *c, size_t row, int64_t value, uint64_t drop)
{
    const at_field *f = &at_case_fields[row];
    const bool counts = f->kind == AT_FIELD_INT || f->kind == AT_FIELD_ENUM;
    uint64_t given = given_keys(c) & ~drop & ~(UINT64_C(1) << row);
    *out = *c;
    if (counts && value != at_field_init(c, f)) {
        at_case_set(out, f, value);
        given |= UINT64_C(1) << row;
    }
    at_case_resolve(out, given);
    return at_case_check(out, NULL) == AT_OK && !at_case_equal(out, c);
}

static bool was_lost(const walk *w, const char *id)
{
    for (size_t i = 0; i < w->lost_count; i++) {
        if (strcmp(w->lost[i], id) == 0) {
            return true;
        }
    }
    return false;
}

static void remember(walk *w, const char *id)
{
    if (w->lost_count == w->lost_room) {
        const size_t room = 2 * w->lost_room + 64;
        id_text *more = realloc(w->lost, room * sizeof *more);
        if (more == NULL) {
            return; /* it is asked again */
        }
        w->lost = more;
        w->lost_room = room;
    }
    memcpy(w->lost[w->lost_count++], id, AT_ID_TEXT);
}

static bool keeps(walk *w, const at_case *smaller)
{
    id_text id;
    at_case_id(smaller, id);
    if (w->stopped || was_lost(w, id)) {
        return false;
    }
    const at_shrink_answer answer = w->ask(w->user, smaller);
    w->stopped = answer == AT_SHRINK_STOP;
    if (answer == AT_SHRINK_LOST) {
        remember(w, id);
    }
    return answer == AT_SHRINK_KEPT;
}

/* One step of one row, with another key where it needs that. */
static bool take(walk *w, size_t row, int64_t value)
{
    at_case smaller;
    if (make(&smaller, w->c, row, value, 0)) {
        if (!keeps(w, &smaller)) {
            return false;
        }
        *w->c = smaller;
        return true;
    }
    const uint64_t given = given_keys(w->c) & ~(UINT64_C(1) << row);
    for (size_t i = 0; i < at_case_field_count; i++) {
        const uint64_t bit = UINT64_C(1) << i;
        if ((given & bit) != 0 && !is_key(&at_case_fields[i], "arch") &&
            make(&smaller, w->c, row, value, bit) && keeps(w, &smaller)) {
            *w->c = smaller;
            return true;
        }
    }
    return false;
}

/* True when a step of the row was taken. */
static bool shrink_row(walk *w, size_t row)
{
    int64_t step[STEPS_MAX];
    const size_t n = list_steps(step, w->c, &at_case_fields[row]);
    for (size_t i = 0; i < n && !w->stopped; i++) {
        if (take(w, row, step[i])) {
            return true;
        }
    }
    return false;
}

bool at_shrink(at_case *c, at_shrink_ask ask, void *user)
{
    walk w = {.c = c, .ask = ask, .user = user};
    bool again = true;
    AT_ASSERT(at_case_field_count <= 64);
    while (again && !w.stopped) {
        again = false;
        for (size_t row = 0; row < at_case_field_count; row++) {
            while (!w.stopped && shrink_row(&w, row)) {
                again = true;
            }
        }
    }
    free(w.lost);
    return !w.stopped;
}
