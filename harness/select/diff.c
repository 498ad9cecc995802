#include "harness/select/diff_core.h"

#include <stdlib.h>
#include <string.h>

#include "harness/select/audit_lines.h"

enum { BLOCK = 4096 };

static uint32_t hash_of(const at_change *c)
{
    const unsigned char *bytes = (const void *)c;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof *c; i++) {
        hash = (hash ^ bytes[i]) * 16777619u;
    }
    return hash;
}

/* Number of the kind, made when it is new. */
static size_t intern(at_diff *d, const at_change *c)
{
    const size_t room = sizeof d->bucket / sizeof *d->bucket;
    size_t at = hash_of(c) % room;
    while (d->bucket[at] != 0) {
        if (memcmp(&d->kind[d->bucket[at] - 1], c, sizeof *c) == 0) {
            return d->bucket[at] - 1U;
        }
        at = (at + 1) % room;
    }
    if (d->kinds == AT_DIFF_KINDS_MAX) {
        d->full = true;
        return 0;
    }
    d->kind[d->kinds] = *c;
    d->bucket[at] = (uint16_t)(++d->kinds);
    return d->kinds - 1;
}

/* What the two decisions say of a case; false where they agree. */
static bool compare(at_change *out, const at_diff *d, const at_decision decision[2],
                    const at_diff_env *env)
{
    memset(out, 0, sizeof *out);
    for (size_t k = 0; k < AT_DIFF_BACKENDS; k++) {
        out->rule[k][0] = out->rule[k][1] = AT_DIFF_UNKNOWN;
    }
    for (int side = 0; side < 2; side++) {
        out->winner[side] = -1;
        for (size_t i = 0; i < env->selector[side]->backend_count; i++) {
            int16_t rule = decision[side].rule[i];
            out->rule[d->index[side][i]][side] = rule < 0 ? AT_DIFF_ADMITTED : rule;
        }
        if (decision[side].winner >= 0) {
            out->winner[side] = d->index[side][decision[side].winner];
        }
    }
    bool changed = out->winner[0] != out->winner[1];
    for (size_t k = 0; k < AT_DIFF_BACKENDS; k++) {
        bool same = (out->rule[k][0] == AT_DIFF_ADMITTED) == (out->rule[k][1] == AT_DIFF_ADMITTED);
        if (same) {
            out->rule[k][0] = out->rule[k][1] = AT_DIFF_SAME;
        }
        changed = changed || !same;
    }
    return changed;
}

/* The kind that a thread met last: most neighbours are alike. */
typedef struct memory {
    bool any;
    at_change change;
    size_t kind;
} memory;

static uint32_t sign_of(at_diff *d, const at_change *c, memory *last)
{
    if (!last->any || memcmp(c, &last->change, sizeof *c) != 0) {
#pragma omp critical(at_diff_kinds)
        last->kind = intern(d, c);
        last->change = *c;
        last->any = true;
    }
    uint32_t sign = (uint32_t)last->kind + 1;
    return sign | (c->winner[0] != c->winner[1] ? AT_MARK_WINS : 0);
}

typedef struct tally {
    uint64_t cases, changed;
} tally;

static at_status mark_block(at_diff *d, uint64_t begin, uint64_t end, tally *t, uint64_t *bad,
                            at_error *err)
{
    at_region_place place;
    at_case c = d->region->base;
    memory last = {.any = false};
    size_t moved = 0;
    at_region_locate(&place, d->region, begin);
    for (uint64_t cell = begin; cell < end; cell++) {
        const at_diff_env *env = &d->env[at_region_env_of(d->region, cell)];
        at_decision decision[2];
        at_change change;
        at_region_case(&c, d->region, &place, moved);
        moved = at_region_step(&place, d->region);
        if (at_case_check(&c, NULL) != AT_OK) {
            d->mark[cell] = AT_MARK_INVALID;
            continue;
        }
        *bad = cell;
        AT_TRY(at_selector_decide_fast(&decision[0], env->selector[0], &c, err));
        AT_TRY(at_selector_decide_fast(&decision[1], env->selector[1], &c, err));
        bool changed = compare(&change, d, decision, env);
        d->mark[cell] = changed ? sign_of(d, &change, &last) : AT_MARK_NONE;
        t->cases++;
        t->changed += changed;
    }
    return AT_OK;
}

static at_status mark_all(at_diff *d, at_error *err)
{
    int64_t blocks = (int64_t)((d->region->cells + BLOCK - 1) / BLOCK);
    uint64_t cases = 0, changed = 0, first_bad = UINT64_MAX;
#pragma omp parallel for schedule(dynamic) reduction(+ : cases, changed) reduction(min : first_bad)
    for (int64_t b = 0; b < blocks; b++) {
        uint64_t begin = (uint64_t)b * BLOCK, end = begin + BLOCK, bad = UINT64_MAX;
        tally t = {0};
        end = end < d->region->cells ? end : d->region->cells;
        if (mark_block(d, begin, end, &t, &bad, NULL) != AT_OK) {
            first_bad = bad < first_bad ? bad : first_bad;
        }
        cases += t.cases;
        changed += t.changed;
    }
    d->cases = cases;
    d->changed = changed;
    if (first_bad != UINT64_MAX) { /* once more, for the sentence */
        tally t = {0};
        at_case c;
        char text[AT_CASE_TEXT_MAX];
        at_status status = mark_block(d, first_bad, first_bad + 1, &t, &first_bad, err);
        at_diff_case(&c, d, first_bad);
        (void)at_case_print(&c, text);
        return at_fail_in(err, status, "%.200s", text);
    }
    return d->full ? at_fail(err, AT_INVALID, "more than %d kinds of changes: take a smaller space",
                             AT_DIFF_KINDS_MAX)
                   : AT_OK;
}

static at_status run(at_diff *d, const at_diff_request *request, at_error *err)
{
    AT_TRY(at_diff_prepare(d, request, err));
    AT_TRY(at_popular_open(&d->popular, request->corpus, d->region, err));
    d->mark = calloc(d->region->cells, sizeof *d->mark);
    if (d->mark == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a space of %llu cases",
                       (unsigned long long)d->region->cells);
    }
    AT_TRY(mark_all(d, err));
    AT_TRY(at_boxes_cover_all(&d->boxes, d->region, d->mark, 0, err));
    for (size_t i = 0; d->popular != NULL && i < d->boxes.count; i++) {
        at_popular_score(d->popular, d->mark, &d->boxes.box[i]);
    }
    at_boxes_sort(&d->boxes);
    d->findings = at_boxes_number(&d->finding, &d->boxes);
    return AT_OK;
}

at_status at_diff_open(at_diff **out, const at_diff_request *request, at_error *err)
{
    at_diff *d = calloc(1, sizeof *d);
    *out = NULL;
    if (d == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a comparison");
    }
    at_status status = run(d, request, err);
    if (status != AT_OK) {
        at_diff_close(d);
        return status;
    }
    *out = d;
    return AT_OK;
}

void at_diff_close(at_diff *diff)
{
    if (diff == NULL) {
        return;
    }
    at_popular_close(diff->popular);
    for (size_t i = 0; i < diff->envs; i++) {
        for (int side = 0; side < 2; side++) {
            at_selector_close(diff->env[i].selector[side]);
            at_env_close(diff->env[i].given[side]);
        }
    }
    free(diff->env);
    free(diff->mark);
    free(diff->boxes.box);
    free(diff->finding);
    at_region_close(diff->region);
    free(diff);
}

uint64_t at_diff_cases(const at_diff *diff)
{
    return diff->cases;
}

uint64_t at_diff_changed(const at_diff *diff)
{
    return diff->changed;
}

size_t at_diff_boxes(const at_diff *diff)
{
    return diff->boxes.count;
}

size_t at_diff_shown(const at_diff *diff, size_t limit, size_t *box)
{
    return at_boxes_shown(box, &diff->boxes, diff->finding, limit);
}

const at_change *at_diff_kind(const at_diff *d, const at_box *b)
{
    return &d->kind[b->sign - 1];
}

at_refusal at_diff_refusal(const at_diff *d, int side, int rule)
{
    return rule >= 0 ? at_selector_rule(d->env[0].selector[side], (size_t)rule) : (at_refusal){0};
}

void at_diff_case(at_case *c, const at_diff *d, uint64_t cell)
{
    at_region_place place;
    *c = d->region->base;
    at_region_locate(&place, d->region, cell);
    at_region_case(c, d->region, &place, 0);
    c->arch = at_selector_arch(d->env[at_region_env_of(d->region, cell)].selector[1], c);
}

void at_diff_line(char *out, size_t room, const at_diff *d, const at_box *b, int side,
                  const char *tool)
{
    at_case c;
    char text[AT_CASE_TEXT_MAX], env[512];
    const at_diff_env *e = &d->env[at_region_env_of(d->region, b->example)];
    at_diff_case(&c, d, b->example);
    (void)at_case_print(&c, text);
    at_env_flag(env, sizeof env, e->given[side]);
    (void)snprintf(out, room, "%s select '%s' --selector %s%s", tool != NULL ? tool : "attest",
                   text, at_selector_name(e->selector[side]), env);
}
