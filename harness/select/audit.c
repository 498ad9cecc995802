#include "harness/select/audit_core.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 4096 };

/* The case text stands before the sentence. */
static at_status name_case(const at_audit *a, uint64_t cell, at_status status, at_error *err)
{
    at_region_place place;
    at_case c = a->region->base;
    char text[AT_CASE_TEXT_MAX];
    at_region_locate(&place, a->region, cell);
    at_region_case(&c, a->region, &place, 0);
    (void)at_case_print(&c, text);
    return at_fail_in(err, status, "%.200s", text);
}

static void merge_fired(at_audit *a, const at_audit_tally *t)
{
    for (size_t i = 0; i < AT_SELECTION_MAX; i++) {
        for (size_t k = 0; k < AT_SELECTOR_RULES_MAX / 64; k++) {
            a->fired[i][k] |= t->fired[i][k];
        }
    }
}

static at_status mark_all(at_audit *a, at_error *err)
{
    int64_t blocks = (int64_t)((a->region->cells + BLOCK - 1) / BLOCK);
    const bool called = a->env[0].selector->called != NULL; /* it answers one at a time */
    uint64_t cases = 0, contradictions = 0, first_bad = UINT64_MAX;
#pragma omp parallel for schedule(dynamic) reduction(+ : cases, contradictions)                    \
    reduction(min : first_bad) if (!called)
    for (int64_t b = 0; b < blocks; b++) {
        uint64_t begin = (uint64_t)b * BLOCK, end = begin + BLOCK, bad = UINT64_MAX;
        at_audit_tally t = {0};
        end = end < a->region->cells ? end : a->region->cells;
        if (at_audit_mark(a, begin, end, &t, &bad, NULL) != AT_OK) {
            first_bad = bad < first_bad ? bad : first_bad;
        }
        cases += t.cases;
        contradictions += t.contradictions;
#pragma omp critical(at_audit_fired)
        merge_fired(a, &t);
    }
    a->cases = cases;
    a->contradictions = contradictions;
    if (first_bad != UINT64_MAX) { /* once more, for the sentence */
        at_audit_tally t = {0};
        at_status status = at_audit_mark(a, first_bad, first_bad + 1, &t, &first_bad, err);
        return name_case(a, first_bad, status, err);
    }
    return AT_OK;
}

static at_status find_boxes(at_audit *a, at_error *err)
{
    for (size_t i = 0; i < a->backends; i++) {
        size_t from = a->boxes.count;
        if (a->mark[i] == NULL) {
            continue;
        }
        AT_TRY(at_boxes_cover_all(&a->boxes, a->region, a->mark[i], i, err));
        for (size_t k = from; a->popular != NULL && k < a->boxes.count; k++) {
            at_popular_score(a->popular, a->mark[i], &a->boxes.box[k]);
        }
    }
    at_boxes_sort(&a->boxes);
    a->findings = at_boxes_number(&a->finding, &a->boxes);
    return AT_OK;
}

static bool audited(const at_audit *a, size_t backend)
{
    bool has = false;
    for (size_t e = 0; e < a->envs; e++) {
        has = has || a->env[e].set[backend] != NULL;
    }
    return has;
}

static at_status run(at_audit *a, const at_audit_request *request, at_error *err)
{
    AT_TRY(at_audit_prepare(a, request, err));
    AT_TRY(at_popular_open(&a->popular, request->corpus, a->region, err));
    for (size_t i = 0; i < a->backends; i++) {
        if (audited(a, i) && (a->mark[i] = calloc(a->region->cells, sizeof **a->mark)) == NULL) {
            return at_fail(err, AT_NO_MEMORY, "no memory for a space of %llu cases",
                           (unsigned long long)a->region->cells);
        }
    }
    AT_TRY(mark_all(a, err));
    return find_boxes(a, err);
}

at_status at_audit_open(at_audit **out, const at_audit_request *request, at_error *err)
{
    at_audit *a = calloc(1, sizeof *a);
    *out = NULL;
    if (a == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for an audit");
    }
    at_status status = run(a, request, err);
    if (status != AT_OK) {
        at_audit_close(a);
        return status;
    }
    *out = a;
    return AT_OK;
}

void at_audit_close(at_audit *audit)
{
    if (audit == NULL) {
        return;
    }
    at_popular_close(audit->popular);
    for (size_t i = 0; i < AT_SELECTION_MAX; i++) {
        free(audit->mark[i]);
    }
    for (size_t i = 0; i < audit->envs; i++) {
        at_selector_close(audit->env[i].selector);
        at_env_close(audit->env[i].given);
    }
    for (size_t i = 0; i < audit->sets; i++) {
        at_capabilities_close(audit->set[i].set);
        free(audit->set[i].kind);
    }
    at_measured_close(audit->measured);
    free(audit->env);
    free(audit->boxes.box);
    free(audit->finding);
    at_region_close(audit->region);
    free(audit);
}

at_status at_audit_check(const at_audit *audit, at_error *err)
{
    const at_called *called = audit->env[0].selector->called; /* one process serves all */
    return called != NULL ? at_host_check(called->host, err) : AT_OK;
}

uint64_t at_audit_cases(const at_audit *audit)
{
    return audit->cases;
}

uint64_t at_audit_contradictions(const at_audit *audit)
{
    return audit->contradictions;
}

size_t at_audit_boxes(const at_audit *audit)
{
    return audit->boxes.count;
}

size_t at_audit_findings(const at_audit *audit)
{
    return audit->findings;
}

static double clock_of(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Blocks of CHUNK cells, as far from each other as `most` asks for. */
static at_status measure(at_audit_speed *out, at_audit *a, uint64_t most, at_error *err)
{
    enum { CHUNK = 256 };
    const uint64_t cells = a->region->cells, wanted = most < cells ? most : cells;
    const uint64_t blocks = (wanted + CHUNK - 1) / CHUNK, step = cells / blocks;
    const double cpu = clock_of(CLOCK_THREAD_CPUTIME_ID), wall = clock_of(CLOCK_MONOTONIC);
    for (uint64_t b = 0; b < blocks; b++) {
        at_audit_tally t = {0};
        uint64_t begin = b * step, bad = 0;
        uint64_t end = wanted == cells && b + 1 == blocks ? cells : begin + CHUNK;
        end = wanted == cells && b + 1 < blocks ? begin + step : end;
        AT_TRY(at_audit_mark(a, begin, end < cells ? end : cells, &t, &bad, err));
        out->cases += t.cases;
    }
    out->seconds = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
    out->wall = clock_of(CLOCK_MONOTONIC) - wall;
    return AT_OK;
}

at_status at_audit_measure(at_audit_speed *out, const at_audit_request *request, uint64_t most,
                           at_error *err)
{
    at_audit *a = calloc(1, sizeof *a);
    AT_ASSERT(a != NULL && most > 0); /* only memory can run out */
    *out = (at_audit_speed){0};
    at_status status = at_audit_prepare(a, request, err);
    status = status == AT_OK ? measure(out, a, most, err) : status;
    for (size_t i = 0; status == AT_OK && i < a->envs; i++) {
        const at_called *called = a->env[i].selector->called;
        out->function += called != NULL ? called->seconds : 0;
    }
    at_audit_close(a);
    return status;
}
