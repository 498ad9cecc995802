#include "harness/run/report.h"

#include <stdlib.h>
#include <string.h>

#include "harness/run/feature.h"

enum { EVIDENCE = 3 };

/* One feature on one backend. */
typedef struct cell {
    char feature[AT_FEATURE_TEXT];
    const at_backend_totals *backend;
    size_t claimed, verified, contradicted, untested;
    int against_count, for_count;
    const char *against[EVIDENCE], *in_favour[EVIDENCE]; /* ids */
} cell;

typedef struct table {
    size_t size, room;
    cell *cell;
} table;

static cell *cell_of(table *t, const at_backend_totals *backend, const char *feature)
{
    for (size_t i = 0; i < t->size; i++) {
        if (t->cell[i].backend == backend && strcmp(t->cell[i].feature, feature) == 0) {
            return &t->cell[i];
        }
    }
    if (t->size == t->room) {
        t->room = t->room ? 2 * t->room : 64;
        cell *larger = realloc(t->cell, t->room * sizeof *larger);
        AT_ASSERT(larger != NULL);
        t->cell = larger;
    }
    cell *made = &t->cell[t->size++];
    memset(made, 0, sizeof *made);
    made->backend = backend;
    memcpy(made->feature, feature, sizeof made->feature);
    return made;
}

static void add(cell *k, const at_record *r)
{
    bool failed = at_kind_class(r->kind) == AT_CLASS_FAIL || r->kind == AT_WAIVED;
    k->claimed += r->kind != AT_UNSUPPORTED_CASE && r->kind != AT_OVER_REFUSED;
    k->verified += r->kind == AT_PASS;
    k->contradicted += failed;
    k->untested += !failed && r->kind != AT_PASS;
    if (failed && k->against_count < EVIDENCE) {
        k->against[k->against_count++] = r->id;
    }
    if (r->kind == AT_PASS && k->for_count < EVIDENCE) {
        k->in_favour[k->for_count++] = r->id;
    }
}

static int compare_cells(const void *a, const void *b)
{
    const cell *x = a, *y = b;
    return x->backend != y->backend ? (x->backend < y->backend ? -1 : 1)
                                    : strcmp(x->feature, y->feature);
}

static at_json *to_json(const cell *k)
{
    at_json *object = at_json_object(), *ids = at_json_array();
    at_json_put_text(object, "backend", k->backend->backend);
    at_json_put_text(object, "version", k->backend->version);
    at_json_put_bool(object, "modelled", k->backend->modelled);
    at_json_put_text(object, "feature", k->feature);
    at_json_put_text(object, "state",
                     k->contradicted > 0 ? "contradicted"
                     : k->verified > 0   ? "verified"
                     : k->claimed > 0    ? "claimed"
                                         : "untested");
    at_json_put_integer(object, "claimed", (int64_t)k->claimed);
    at_json_put_integer(object, "verified", (int64_t)k->verified);
    at_json_put_integer(object, "contradicted", (int64_t)k->contradicted);
    at_json_put_integer(object, "untested", (int64_t)k->untested);
    bool against = k->against_count > 0;
    for (int i = 0; i < (against ? k->against_count : k->for_count); i++) {
        at_json_add_text(ids, against ? k->against[i] : k->in_favour[i]);
    }
    at_json_put(object, "evidence", ids);
    return object;
}

static const at_backend_totals *backend_of(const at_report *report, const at_record *r)
{
    const at_backend_totals *b = report->backend;
    while (strcmp(b->backend, r->backend) != 0 || strcmp(b->version, r->version) != 0 ||
           b->modelled != r->modelled) {
        b++;
    }
    return b;
}

at_json *at_cells_make(const at_report *report)
{
    table t = {0};
    at_json *list = at_json_array();
    for (size_t i = 0; i < at_results_size(report->results); i++) {
        const at_record *r = report->by_id[i];
        at_features features;
        at_case c;
        if (at_case_parse(&c, r->case_text, NULL) != AT_OK) {
            continue;
        }
        at_case_features(&features, &c);
        for (int k = 0; k < features.n; k++) {
            add(cell_of(&t, backend_of(report, r), features.name[k]), r);
        }
    }
    if (t.size > 0) {
        qsort(t.cell, t.size, sizeof *t.cell, compare_cells);
    }
    for (size_t i = 0; i < t.size; i++) {
        at_json_add(list, to_json(&t.cell[i]));
    }
    free(t.cell);
    return list;
}
