#include "harness/select/audit_core.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 4096, ENTRY_BITS = 9, SIGNS_MAX = 256 };

uint32_t at_audit_sign(int entry, int rule)
{
    return (uint32_t)(entry + 1) | (uint32_t)(rule + 1) << ENTRY_BITS;
}

int at_audit_entry(uint32_t sign)
{
    return (int)(sign & ((1U << ENTRY_BITS) - 1)) - 1;
}

int at_audit_rule(uint32_t sign)
{
    return (int)(sign >> ENTRY_BITS) - 1;
}

/* The steps that the case asks for, in order. */
static int last_step(const at_case *c)
{
    return c->pass == AT_PASS_TRAIN ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
}

static at_status find(int *entry, const at_audit *a, size_t i, const at_case *c, at_step step,
                      at_error *err)
{
    int64_t arch = at_selector_arch(a->selector, c);
    return at_capability_find_fast(entry, a->set[i], c, step, arch, err);
}

/* An admitted backend: the first step that its build refuses or gets wrong. */
static at_status mark_admitted(uint32_t *out, const at_audit *a, size_t i, const at_case *c,
                               at_error *err)
{
    for (int step = AT_STEP_FORWARD; step <= last_step(c); step++) {
        int entry = -1;
        AT_TRY(find(&entry, a, i, c, (at_step)step, err));
        at_outcome outcome = at_capability_at(a->set[i], entry).outcome;
        if (outcome == AT_OUTCOME_REFUSES || outcome == AT_OUTCOME_WRONG) {
            *out = at_audit_sign(entry, -1);
            return AT_OK;
        }
    }
    return AT_OK;
}

/* A refused backend whose build runs all the steps. */
static at_status mark_refused(uint32_t *out, const at_audit *a, size_t i, int rule,
                              const at_case *c, at_error *err)
{
    int entry = -1;
    if (at_selector_rule_is_callers(a->selector, (size_t)rule)) {
        return AT_OK;
    }
    for (int step = AT_STEP_FORWARD; step <= last_step(c); step++) {
        AT_TRY(find(&entry, a, i, c, (at_step)step, err));
        if (at_capability_at(a->set[i], entry).outcome != AT_OUTCOME_RUNS) {
            return AT_OK;
        }
    }
    *out = at_audit_sign(entry, rule);
    return AT_OK;
}

typedef struct tally {
    uint64_t cases, contradictions;
    uint64_t fired[AT_SELECTION_MAX][AT_SELECTOR_RULES_MAX / 64];
} tally;

/* Marks of one case by backend; AT_MARK_INVALID when its keys contradict. */
static at_status mark_case(uint32_t out[AT_SELECTION_MAX], const at_audit *a, const at_case *c,
                           tally *t, at_error *err)
{
    at_decision d;
    size_t n = at_selector_backends(a->selector);
    if (at_case_check(c, NULL) != AT_OK) {
        for (size_t i = 0; i < n; i++) {
            out[i] = AT_MARK_INVALID;
        }
        return AT_OK;
    }
    AT_TRY(at_selector_decide_fast(&d, a->selector, c, err));
    for (size_t i = 0; i < n; i++) {
        out[i] = AT_MARK_NONE;
        if (a->set[i] == NULL) {
            continue;
        }
        if (d.rule[i] >= 0) {
            t->fired[i][d.rule[i] / 64] |= (uint64_t)1 << d.rule[i] % 64;
        }
        AT_TRY(d.rule[i] < 0 ? mark_admitted(&out[i], a, i, c, err)
                             : mark_refused(&out[i], a, i, d.rule[i], c, err));
        out[i] |= out[i] != AT_MARK_NONE && d.winner == (int)i ? AT_MARK_WINS : 0;
    }
    return AT_OK;
}

/* Cells begin .. end; *bad is the cell that could not be decided. */
static at_status mark_block(at_audit *a, uint64_t begin, uint64_t end, tally *t, uint64_t *bad,
                            at_error *err)
{
    at_region_place place;
    at_case c = a->region->base;
    size_t moved = 0, n = at_selector_backends(a->selector);
    at_region_locate(&place, a->region, begin);
    for (uint64_t cell = begin; cell < end; cell++) {
        uint32_t mark[AT_SELECTION_MAX] = {0}, any = 0;
        at_region_case(&c, a->region, &place, moved);
        at_status status = mark_case(mark, a, &c, t, err);
        if (status != AT_OK) {
            *bad = cell;
            return status;
        }
        for (size_t i = 0; i < n; i++) {
            any |= mark[i];
            if (a->mark[i] != NULL) {
                a->mark[i][cell] = mark[i];
            }
        }
        t->cases += mark[0] != AT_MARK_INVALID;
        t->contradictions += any != AT_MARK_NONE && mark[0] != AT_MARK_INVALID;
        moved = at_region_step(&place, a->region);
    }
    return AT_OK;
}

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

static void merge_fired(at_audit *a, const tally *t)
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
    uint64_t cases = 0, contradictions = 0, first_bad = UINT64_MAX;
#pragma omp parallel for schedule(dynamic) reduction(+ : cases, contradictions)                    \
    reduction(min : first_bad)
    for (int64_t b = 0; b < blocks; b++) {
        uint64_t begin = (uint64_t)b * BLOCK, end = begin + BLOCK, bad = UINT64_MAX;
        tally t = {0};
        if (mark_block(a, begin, end < a->region->cells ? end : a->region->cells, &t, &bad, NULL) !=
            AT_OK) {
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
        tally t = {0};
        at_status status = mark_block(a, first_bad, first_bad + 1, &t, &first_bad, err);
        return name_case(a, first_bad, status, err);
    }
    return AT_OK;
}

/* The signs that occur, in order of appearance; -1 when there are too many. */
static int collect_signs(uint32_t signs[SIGNS_MAX], const uint32_t *mark, uint64_t cells)
{
    int n = 0;
    for (uint64_t cell = 0; cell < cells; cell++) {
        if (mark[cell] == AT_MARK_NONE || mark[cell] == AT_MARK_INVALID) {
            continue;
        }
        uint32_t sign = mark[cell] & ~AT_MARK_WINS;
        int i = 0;
        while (i < n && signs[i] != sign) {
            i++;
        }
        if (i == n && n == SIGNS_MAX) {
            return -1;
        }
        signs[i] = sign;
        n += i == n;
    }
    return n;
}

static int compare_boxes(const void *a, const void *b)
{
    const at_box *x = a, *y = b;
    if (x->wins != y->wins) {
        return x->wins > y->wins ? -1 : 1;
    }
    if (x->cases != y->cases) {
        return x->cases > y->cases ? -1 : 1;
    }
    return x->example < y->example ? -1 : x->example > y->example;
}

static at_status find_boxes(at_audit *a, at_error *err)
{
    for (size_t i = 0; i < at_selector_backends(a->selector); i++) {
        uint32_t signs[SIGNS_MAX];
        int n = a->mark[i] != NULL ? collect_signs(signs, a->mark[i], a->region->cells) : 0;
        if (n < 0) {
            return at_fail(err, AT_INVALID, "more than %d kinds of contradictions for %s",
                           SIGNS_MAX, at_selector_backend(a->selector, i));
        }
        for (int k = 0; k < n; k++) {
            AT_TRY(at_boxes_cover(&a->boxes, a->region, a->mark[i], signs[k], i, err));
        }
    }
    if (a->boxes.count > 0) {
        qsort(a->boxes.box, a->boxes.count, sizeof *a->boxes.box, compare_boxes);
    }
    return AT_OK;
}

static at_status open_sets(at_audit *a, const char *corpus, at_error *err)
{
    for (size_t i = 0; i < at_selector_backends(a->selector); i++) {
        const char *name = at_selector_capabilities(a->selector, i);
        if (name != NULL && at_capabilities_exist(corpus, name, NULL) != AT_OK) {
            a->missing[i] = name;
        } else if (name != NULL) {
            AT_TRY(at_capabilities_open(&a->set[i], corpus, name, err));
        }
    }
    return AT_OK;
}

static at_status prepare(at_audit *a, const at_audit_request *request, at_error *err)
{
    AT_TRY(at_selector_open(&a->selector, request->corpus, request->selector, request->env, err));
    AT_TRY(at_region_open(&a->region, request->corpus, request->space, err));
    AT_TRY(open_sets(a, request->corpus, err));
    a->arch = at_selector_arch(a->selector, &a->region->base);
    return a->arch != AT_ARCH_ANY
               ? AT_OK
               : at_fail(err, AT_INVALID,
                         "an audit of %s asks for the arch: give it as --arch sm90",
                         request->selector);
}

static at_status run(at_audit *a, const at_audit_request *request, at_error *err)
{
    AT_TRY(prepare(a, request, err));
    for (size_t i = 0; i < at_selector_backends(a->selector); i++) {
        if (a->set[i] != NULL &&
            (a->mark[i] = calloc(a->region->cells, sizeof **a->mark)) == NULL) {
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
    for (size_t i = 0; i < AT_SELECTION_MAX; i++) {
        at_capabilities_close(audit->set[i]);
        free(audit->mark[i]);
    }
    free(audit->boxes.box);
    at_region_close(audit->region);
    at_selector_close(audit->selector);
    free(audit);
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

at_status at_audit_measure(const at_audit_request *request, uint64_t *cases, double *seconds,
                           at_error *err)
{
    struct timespec from, to;
    at_audit a = {0};
    tally t = {0};
    uint64_t bad = 0;
    at_status status = prepare(&a, request, err);
    if (status == AT_OK) {
        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        status = mark_block(&a, 0, a.region->cells, &t, &bad, err);
        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        *cases = t.cases;
        *seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    }
    for (size_t i = 0; i < AT_SELECTION_MAX; i++) {
        at_capabilities_close(a.set[i]);
    }
    at_region_close(a.region);
    at_selector_close(a.selector);
    return status;
}
