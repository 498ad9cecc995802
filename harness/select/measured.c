#include "harness/select/measured.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/field.h"
#include "harness/run/results.h"
#include "harness/select/capability_core.h"

struct at_measured {
    at_results *results;
    bool waivers;
    size_t count; /* cases */
    at_case *list;
    const at_record **record; /* of backends that count */
    size_t records;
};

/* What is known of one case: entry, in the order of `key`. */
typedef struct known {
    const char *key;
    int entry;
} known;

struct at_measured_set {
    size_t count;
    known *known;
    at_capabilities *set;
    char name[160];
    char **text; /* owned messages and sources */
    size_t texts;
};

static void *room(size_t n, size_t size)
{
    void *made = calloc(n + 1, size);
    AT_ASSERT(made != NULL); /* only memory can run out */
    return made;
}

/* Whether "a,b@1" names the record's backend. */
static bool named(const char *only, const at_record *r)
{
    char full[256];
    (void)snprintf(full, sizeof full, "%s@%s", r->backend, r->version);
    for (const char *c = only; c != NULL;) {
        size_t n = strcspn(c, ",");
        if ((strlen(r->backend) == n && strncmp(c, r->backend, n) == 0) ||
            (strlen(full) == n && strncmp(c, full, n) == 0)) {
            return true;
        }
        c = c[n] == ',' ? c + n + 1 : NULL;
    }
    return only == NULL;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp((*(const at_record *const *)a)->case_text,
                  (*(const at_record *const *)b)->case_text);
}

static at_status take_cases(at_measured *m, at_error *err)
{
    const at_record **sorted = room(m->records, sizeof *sorted);
    at_status status = AT_OK;
    if (m->records > 0) {
        memcpy(sorted, m->record, m->records * sizeof *sorted);
        qsort(sorted, m->records, sizeof *sorted, compare_texts);
    }
    m->list = room(m->records, sizeof *m->list);
    for (size_t i = 0; i < m->records && status == AT_OK; i++) {
        if (i == 0 || strcmp(sorted[i]->case_text, sorted[i - 1]->case_text) != 0) {
            status = at_case_parse(&m->list[m->count], sorted[i]->case_text, err);
            m->count += status == AT_OK;
        }
    }
    free(sorted);
    return status;
}

at_status at_measured_open(at_measured **out, const char *path, const char *only, bool waivers,
                           at_error *err)
{
    at_measured *m = room(1, sizeof *m);
    *out = NULL;
    m->waivers = waivers;
    at_status status = at_results_read(&m->results, path, err);
    size_t n = status == AT_OK ? at_results_size(m->results) : 0;
    m->record = room(n, sizeof *m->record);
    for (size_t i = 0; i < n; i++) {
        const at_record *r = at_results_at(m->results, i);
        if (named(only, r)) {
            m->record[m->records++] = r;
        }
    }
    if (status == AT_OK && m->records == 0) {
        status = at_fail(err, AT_INVALID, "%s holds no verdict%s%s", path,
                         only != NULL ? " of " : "", only != NULL ? only : "");
    }
    status = status == AT_OK ? take_cases(m, err) : status;
    if (status != AT_OK) {
        at_measured_close(m);
        return status;
    }
    *out = m;
    return AT_OK;
}

void at_measured_close(at_measured *m)
{
    if (m != NULL) {
        at_results_close(m->results);
        free(m->list);
        free(m->record);
        free(m);
    }
}

const at_case *at_measured_cases(const at_measured *m, size_t *count)
{
    *count = m->count;
    return m->list;
}

static at_outcome outcome_of(const at_measured *m, const at_record *r)
{
    if (m->waivers && r->kind == AT_WAIVED) {
        return AT_OUTCOME_UNKNOWN;
    }
    switch (r->measured) {
    case AT_PASS:
    case AT_OVER_REFUSED:
        return AT_OUTCOME_RUNS;
    case AT_KIND_REFUSED:
    case AT_UNBUILDABLE:
    case AT_CRASH:
    case AT_DEVICE_LOST:
    case AT_TIMEOUT:
        return AT_OUTCOME_REFUSES;
    case AT_WRONG:
    case AT_NONFINITE:
    case AT_UNWRITTEN:
    case AT_OVERRUN:
    case AT_CLOBBERED:
    case AT_NONDET:
    case AT_FLAKY:
        return AT_OUTCOME_WRONG;
    case AT_UNSUPPORTED_CASE:
    case AT_SKIP:
    case AT_OOM:
    case AT_WAIVED:
    case AT_VACUOUS:
    case AT_SUSPECT:
    case AT_BUILT:
    case AT_XPASS:
    case AT_FALLBACK:
    case AT_ERROR:
    case AT_KIND_COUNT:
        break;
    }
    return AT_OUTCOME_UNKNOWN;
}

static const char *keep(at_measured_set *s, const char *text)
{
    char *made = strdup(text);
    AT_ASSERT(made != NULL); /* only memory can run out */
    s->text[s->texts++] = made;
    return made;
}

/* "REFUSED: out must have shape (#, #)"; wrong numbers differ from element to element. */
static const char *message_of(at_measured_set *s, const at_record *r, at_outcome outcome)
{
    char text[400];
    size_t used = (size_t)snprintf(text, sizeof text, "%s%s%s", at_kind_names[r->measured],
                                   r->code[0] != '\0' ? ", " : "", r->code);
    if (outcome == AT_OUTCOME_REFUSES) {
        used += (size_t)snprintf(text + used, sizeof text - used, ": ");
        for (const char *c = r->message; *c != '\0' && used + 2 < sizeof text; c++) {
            bool digit = isdigit((unsigned char)*c) != 0;
            if (!digit || text[used - 1] != '#') {
                text[used++] = digit ? '#' : *c;
            }
        }
        text[used] = '\0';
    }
    return keep(s, text);
}

static const char *source_of(at_measured_set *s, const at_record *r)
{
    char text[700];
    (void)snprintf(text, sizeof text, "case %s on %s@%s%s%s%s%s: %s%s%.400s", r->id, r->backend,
                   r->version, r->engine[0] != '\0' ? " engine " : "", r->engine,
                   r->modelled ? " (a model of it)" : "", "", at_kind_names[r->measured],
                   r->message[0] != '\0' ? ", " : "", r->message);
    return keep(s, text);
}

static uint64_t keys_of(const at_case *c)
{
    uint64_t keys = 0;
    for (size_t i = 0; i < at_case_field_count; i++) {
        keys |= at_case_is_default(c, &at_case_fields[i]) ? 0 : (uint64_t)1 << i;
    }
    return keys;
}

static at_status add_entry(at_measured_set *s, const at_record *r, at_outcome outcome,
                           at_error *err)
{
    at_capability_entry *e = &s->set->entry[s->set->count++];
    at_case c;
    AT_TRY(at_case_parse(&c, r->case_text, err));
    e->step = outcome == AT_OUTCOME_RUNS
                  ? c.pass == AT_PASS_TRAIN ? AT_STEP_BACKWARD : AT_STEP_FORWARD
              : r->step == AT_STEP_BACKWARD ? AT_STEP_BACKWARD
                                            : AT_STEP_FORWARD;
    e->keys = keys_of(&c);
    e->what = (at_capability){.outcome = outcome,
                              .id = r->id,
                              .evidence = r->modelled ? "modelled" : "measured",
                              .source = source_of(s, r),
                              .backend = r->backend};
    if (outcome != AT_OUTCOME_RUNS) {
        e->what.message = message_of(s, r, outcome);
    }
    if (outcome == AT_OUTCOME_WRONG) {
        e->what.tensor = r->tensor >= 0 ? at_tensor_names[r->tensor] : "what it writes";
    }
    return AT_OK;
}

/* By case, failures first, then in order of appearance. */
typedef struct seen {
    const at_record *r;
    at_outcome outcome;
    size_t number;
} seen;

static int compare_seen(const void *a, const void *b)
{
    const seen *x = a, *y = b;
    int order = strcmp(x->r->case_text, y->r->case_text);
    int runs = (x->outcome == AT_OUTCOME_RUNS) - (y->outcome == AT_OUTCOME_RUNS);
    int later = (x->number > y->number) - (x->number < y->number);
    return order != 0 ? order : runs != 0 ? runs : later;
}

static bool is_one_of(const char *backend, const char *const *name)
{
    for (; *name != NULL; name++) {
        if (strcmp(backend, *name) == 0) {
            return true;
        }
    }
    return false;
}

/* The verdicts that say something; the set's name is "backend@version". */
static at_status gather(at_measured_set *s, seen *list, size_t *count, const at_measured *m,
                        const char *const *name, at_error *err)
{
    for (size_t i = 0; i < m->records; i++) {
        const at_record *r = m->record[i];
        char full[sizeof s->name];
        if (!is_one_of(r->backend, name)) {
            continue;
        }
        (void)snprintf(full, sizeof full, "%s@%s", r->backend, r->version);
        if (s->name[0] != '\0' && strcmp(s->name, full) != 0) {
            return at_fail(err, AT_INVALID,
                           "the results hold both %s and %s: choose one with --backend", s->name,
                           full);
        }
        memcpy(s->name, full, sizeof full);
        list[*count] = (seen){.r = r, .outcome = outcome_of(m, r), .number = i};
        *count += list[*count].outcome != AT_OUTCOME_UNKNOWN;
    }
    return AT_OK;
}

static at_status fill(at_measured_set *s, const at_measured *m, const char *const *name,
                      at_error *err)
{
    size_t count = 0;
    seen *list = room(m->records, sizeof *list);
    at_status status = gather(s, list, &count, m, name, err);
    s->known = room(count, sizeof *s->known);
    s->text = room(2 * count, sizeof *s->text);
    s->set->entry = room(count, sizeof *s->set->entry);
    if (count > 0) {
        qsort(list, count, sizeof *list, compare_seen);
    }
    for (size_t i = 0; i < count && status == AT_OK; i++) {
        const at_record *r = list[i].r;
        if (i == 0 || strcmp(r->case_text, list[i - 1].r->case_text) != 0) {
            s->known[s->count++] = (known){.key = r->case_text, .entry = (int)s->set->count};
            status = add_entry(s, r, list[i].outcome, err);
        }
    }
    free(list);
    return status;
}

at_status at_measured_set_open(at_capabilities **out, const at_measured *m, const char *const *name,
                               at_error *err)
{
    at_capabilities *set = room(1, sizeof *set);
    *out = NULL;
    set->measured = room(1, sizeof *set->measured);
    set->measured->set = set;
    set->arch = AT_ARCH_ANY;
    at_status status = fill(set->measured, m, name, err);
    set->name = set->package = set->measured->name;
    set->doc = "measured verdicts";
    set->arch_name = at_case_field("arch", 4)->names[AT_ARCH_ANY];
    if (status != AT_OK || set->name[0] == '\0') {
        at_capabilities_close(set);
        return status;
    }
    *out = set;
    return AT_OK;
}

static int compare_known(const void *a, const void *b)
{
    return strcmp(((const known *)a)->key, ((const known *)b)->key);
}

int at_measured_find(const at_measured_set *set, const at_case *c, at_step step)
{
    at_case plain = *c;
    char text[AT_CASE_TEXT_MAX];
    const known key = {.key = text}, *found = NULL;
    for (int i = 0; i < 2 && found == NULL && set->count > 0; i++) {
        (void)at_case_print(&plain, text);
        found = bsearch(&key, set->known, set->count, sizeof key, compare_known);
        plain.arch = AT_ARCH_ANY; /* most verdicts name none */
    }
    if (found == NULL) {
        return -1;
    }
    const at_capability_entry *e = &set->set->entry[found->entry];
    return e->what.outcome == AT_OUTCOME_RUNS || e->step == step ? found->entry : -1;
}

void at_measured_set_close(at_measured_set *set)
{
    if (set != NULL) {
        for (size_t i = 0; i < set->texts; i++) {
            free(set->text[i]);
        }
        free(set->text);
        free(set->known);
        free(set);
    }
}
