#include "harness/selftest/calibrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 256, BATCHES_MAX = 20000, DTYPES = 3, TENSORS = 5 };

static const at_tensor_id tensors[TENSORS] = {AT_O, AT_LSE, AT_DQ, AT_DK, AT_DV};

typedef struct scores {
    size_t n, room;
    double *x;
} scores;

/* What is collected for one class, dtype and group. */
typedef struct pool {
    const at_calibration *how;
    const at_backend *backend;
    int dtype, group;
    scores of[TENSORS][AT_STAT_COUNT][AT_LIMIT_BINS];
    at_status status;
    at_error err;
} pool;

static void add(pool *p, int tensor, int stat, int bin, double x)
{
    scores *s = &p->of[tensor][stat][bin];
    if (s->n == s->room) {
        s->room = s->room > 0 ? 2 * s->room : 1024;
        double *larger = realloc(s->x, s->room * sizeof *larger);
        AT_ASSERT(larger != NULL);
        s->x = larger;
    }
    s->x[s->n++] = x;
}

static void note(pool *p, const at_case *c, const at_step_verdict *v)
{
    for (int t = 0; t < TENSORS; t++) {
        const at_measure *m = &v->m[tensors[t]];
        for (int s = 0; s < AT_STAT_COUNT && m->judged && m->compared > 0; s++) {
            if (at_limits_apply(tensors[t], (at_stat)s)) {
                add(p, t, s, at_limits_bin((at_stat)s, m->compared),
                    at_limits_score(m, (at_stat)s, c));
            }
        }
    }
}

/* Every engine of one case. */
static at_status run_case(pool *p, at_specimen *s, const at_case *c, at_error *err)
{
    at_engines engines = {0};
    at_reason why = {"", ""};
    AT_TRY(at_specimen_make(s, c, &p->backend->numeric, err));
    AT_TRY(p->backend->claim(p->backend, NULL, c, &engines, &why));
    for (int e = 0; e < engines.n; e++) {
        for (at_step step = AT_STEP_FORWARD; step <= at_specimen_last(s); step++) {
            at_step_verdict v;
            at_specimen_judge(&v, s, p->backend, engines.name[e], step);
            if (v.kind != AT_PASS) {
                char text[AT_CASE_TEXT_MAX];
                (void)at_case_print(c, text);
                return at_fail(err, AT_INVALID, "%s %s is not healthy on %.200s: %s",
                               p->backend->name, engines.name[e], text, v.reason.text);
            }
#pragma omp critical(at_calibrate_note)
            note(p, c, &v);
        }
    }
    return AT_OK;
}

/* Case i of the pool: its distributions take turns. */
static void pool_case(const pool *p, at_case *c, uint64_t i)
{
    const at_field *fill = at_case_field("fill", 4);
    const at_fill_group *group = &at_fill_groups[p->group];
    uint64_t fills = 0, f = 0;
    while (group->fills[fills] != NULL) {
        fills++;
    }
    while (strcmp(fill->names[f], group->fills[i % fills]) != 0) {
        f++;
    }
    uint64_t n = (i / fills * (uint64_t)fill->name_count + f) * DTYPES + (uint64_t)p->dtype;
    at_tiny_case(c, p->backend, p->how->seed, n);
}

static void run_batch(pool *p, uint64_t first)
{
#pragma omp parallel
    {
        at_specimen specimen = {0};
#pragma omp for schedule(dynamic)
        for (uint64_t i = first; i < first + BATCH; i++) {
            at_case c;
            at_error err = {""};
            pool_case(p, &c, i);
            at_status status = run_case(p, &specimen, &c, &err);
#pragma omp critical(at_calibrate_status)
            if (status != AT_OK && p->status == AT_OK) {
                p->status = status;
                p->err = err;
            }
        }
        at_specimen_close(&specimen);
    }
}

/* Are there enough of every statistic? LSE has few elements, its second bin fills slowly. */
static bool is_full(const pool *p)
{
    for (int t = 0; t < TENSORS; t++) {
        for (int s = 0; s < AT_STAT_COUNT; s++) {
            for (int bin = 0; bin < AT_LIMIT_BINS; bin++) {
                bool wanted = at_limits_apply(tensors[t], (at_stat)s) &&
                              (bin == 0 || (at_limits_bin((at_stat)s, AT_LIMIT_MANY) == bin &&
                                            tensors[t] != AT_LSE));
                if (wanted && p->of[t][s][bin].n < (size_t)p->how->runs) {
                    return false;
                }
            }
        }
    }
    return true;
}

static at_json *limit_to_json(const at_limit *l)
{
    at_json *row = at_json_array();
    const double x[] = {(double)l->runs, l->threshold, (double)l->excesses, l->shape, l->scale,
                        l->largest,      l->limit};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "%.6g", x[i]);
        at_json_add_number(row, strtod(text, NULL));
    }
    return row;
}

static at_status fit_stat(at_json *cell, pool *p, int t, at_stat stat)
{
    at_json *bins = at_json_array();
    at_json_put(cell, at_stat_names[stat], bins);
    for (int bin = 0; bin < AT_LIMIT_BINS; bin++) {
        scores *s = &p->of[t][stat][bin];
        at_limit limit;
        if (bin > 0 && s->n < AT_LIMITS_RUNS_MIN) {
            continue; /* the limit of fewer elements holds for more of them too */
        }
        AT_TRY(at_limit_fit(&limit, stat, s->x, s->n, &p->err));
        at_json_add(bins, limit_to_json(&limit));
    }
    return AT_OK;
}

static at_status fit_pool(at_json *cells, pool *p)
{
    char class_name[AT_CLASS_TEXT];
    at_limits_class(&p->backend->numeric, class_name);
    for (int t = 0; t < TENSORS; t++) {
        at_json *cell = at_json_object();
        at_json_add(cells, cell);
        at_json_put_text(cell, "class", class_name);
        at_json_put_text(cell, "dtype", at_dtype_names[p->dtype]);
        at_json_put_text(cell, "group", at_fill_groups[p->group].name);
        at_json_put_text(cell, "tensor", at_tensor_names[tensors[t]]);
        for (int s = 0; s < AT_STAT_COUNT; s++) {
            if (at_limits_apply(tensors[t], (at_stat)s)) {
                AT_TRY(fit_stat(cell, p, t, (at_stat)s));
            }
        }
    }
    return AT_OK;
}

static at_status measure(at_json *cells, pool *p)
{
    for (uint64_t batch = 0; p->status == AT_OK && !is_full(p); batch++) {
        if (batch == BATCHES_MAX) {
            return at_fail(&p->err, AT_INVALID, "%s gives too few runs of %s %s", p->backend->name,
                           at_dtype_names[p->dtype], at_fill_groups[p->group].name);
        }
        run_batch(p, batch * BATCH);
    }
    return p->status == AT_OK ? fit_pool(cells, p) : p->status;
}

static at_status measure_pool(at_json *cells, const at_calibration *how, size_t backend, int dtype,
                              int group, at_error *err)
{
    pool *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for scores");
    }
    p->how = how;
    p->backend = how->backends[backend];
    p->dtype = dtype;
    p->group = group;
    at_status status = measure(cells, p);
    *err = p->err;
    if (status == AT_OK && how->progress != NULL) {
        char class_name[AT_CLASS_TEXT];
        at_limits_class(&p->backend->numeric, class_name);
        how->progress(how->user, class_name, at_dtype_names[dtype], at_fill_groups[group].name,
                      (int64_t)p->of[0][AT_STAT_MAX][0].n);
    }
    scores *all = &p->of[0][0][0];
    for (size_t i = 0; i < sizeof p->of / sizeof *all; i++) {
        free(all[i].x);
    }
    free(p);
    return status;
}

static void put_names(at_json *root, const char *key, const char *const *names, int n)
{
    at_json *list = at_json_array();
    for (int i = 0; i < n && names[i] != NULL; i++) {
        at_json_add_text(list, names[i]);
    }
    at_json_put(root, key, list);
}

static at_json *header(const at_calibration *how)
{
    static const char *const columns[] = {"runs",  "threshold", "excesses", "shape",
                                          "scale", "largest",   "limit"};
    at_json *root = at_json_object(), *classes = at_json_array(), *backends = at_json_array();
    at_json *groups = at_json_object();
    char seed[32], version[32];
    (void)snprintf(seed, sizeof seed, "%" PRIu64, how->seed);
    at_json_put_text(root, "schema", AT_LIMITS_SCHEMA);
    (void)snprintf(version, sizeof version, "%.*s", (int)strcspn(at_version(), " "), at_version());
    at_json_put_text(root, "tool", version);
    at_json_put_text(root, "command", how->words);
    at_json_put_text(root, "seed", seed);
    for (size_t i = 0; i < how->backend_count; i++) {
        char name[AT_CLASS_TEXT], text[128];
        at_limits_class(&how->backends[i]->numeric, name);
        (void)snprintf(text, sizeof text, "%s@%s", how->backends[i]->name,
                       how->backends[i]->version);
        at_json_add_text(classes, name);
        at_json_add_text(backends, text);
    }
    at_json_put(root, "backends", backends);
    at_json_put_integer(root, "runs_at_least", how->runs);
    at_json_put_number(root, "tail", AT_LIMITS_TAIL);
    at_json_put(root, "classes", classes);
    put_names(root, "dtypes", at_dtype_names, DTYPES);
    for (int g = 0; g < AT_FILL_GROUPS; g++) {
        put_names(groups, at_fill_groups[g].name, at_fill_groups[g].fills, 8);
    }
    at_json_put(root, "groups", groups);
    put_names(root, "without_limits", at_fills_without_limits, 8);
    at_json *list = at_json_array();
    for (int t = 0; t < TENSORS; t++) {
        at_json_add_text(list, at_tensor_names[tensors[t]]);
    }
    at_json_put(root, "tensors", list);
    put_names(root, "columns", columns, 7);
    return root;
}

at_status at_calibrate(at_json **out, const at_calibration *how, at_error *err)
{
    at_json *root = header(how), *cells = at_json_array();
    at_status status = AT_OK;
    at_json_put(root, "cells", cells);
    for (size_t b = 0; b < how->backend_count; b++) {
        for (int i = 0; i < DTYPES * AT_FILL_GROUPS && status == AT_OK; i++) {
            status = measure_pool(cells, how, b, i / AT_FILL_GROUPS, i % AT_FILL_GROUPS, err);
        }
    }
    if (status != AT_OK) {
        at_json_close(root);
        return status;
    }
    *out = root;
    return AT_OK;
}
