/* Which cases of a space contradict. */
#include "harness/select/audit_core.h"

#include <stdlib.h>
#include <string.h>

enum { KIND_BITS = 20 };

uint32_t at_audit_sign(uint32_t kind, int rule)
{
    return (kind + 1) | (uint32_t)(rule + 1) << KIND_BITS;
}

const at_audit_kind *at_audit_kind_of(const at_audit *a, uint32_t sign)
{
    return &a->kind[(sign & ((1U << KIND_BITS) - 1)) - 1];
}

int at_audit_rule(uint32_t sign)
{
    return (int)(sign >> KIND_BITS) - 1;
}

/* The steps that the case asks for, in order. */
static int last_step(const at_case *c)
{
    return c->pass == AT_PASS_TRAIN ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
}

static at_status find(int *entry, const at_audit_env *env, size_t i, const at_case *c, int step,
                      at_error *err)
{
    int64_t arch = at_selector_arch(env->selector, c);
    return at_capability_find_fast(entry, env->set[i]->set, c, (at_step)step, arch, err);
}

/* An admitted backend: the first step that its build refuses or gets wrong. */
static at_status ask_admitted(uint32_t *sign, int *entry, const at_audit_env *env, size_t i,
                              const at_case *c, at_error *err)
{
    for (int step = AT_STEP_FORWARD; step <= last_step(c); step++) {
        AT_TRY(find(entry, env, i, c, step, err));
        at_outcome outcome = at_capability_at(env->set[i]->set, *entry).outcome;
        if (outcome == AT_OUTCOME_REFUSES || outcome == AT_OUTCOME_WRONG) {
            *sign = at_audit_sign(env->set[i]->kind[*entry], -1);
            return AT_OK;
        }
    }
    return AT_OK;
}

/* A refused backend whose build runs all the steps. */
static at_status ask_refused(uint32_t *sign, int *entry, const at_audit_env *env, size_t i,
                             int rule, const at_case *c, at_error *err)
{
    if (at_selector_rule_is_callers(env->selector, (size_t)rule)) {
        return AT_OK;
    }
    for (int step = AT_STEP_FORWARD; step <= last_step(c); step++) {
        AT_TRY(find(entry, env, i, c, step, err));
        if (at_capability_at(env->set[i]->set, *entry).outcome != AT_OUTCOME_RUNS) {
            return AT_OK;
        }
    }
    *sign = at_audit_sign(env->set[i]->kind[*entry], rule);
    return AT_OK;
}

static at_status ask(uint32_t *sign, int *entry, const at_audit_env *env, size_t i,
                     const at_decision *d, const at_case *c, at_error *err)
{
    *sign = AT_MARK_NONE;
    AT_TRY(d->rule[i] < 0 ? ask_admitted(sign, entry, env, i, c, err)
                          : ask_refused(sign, entry, env, i, d->rule[i], c, err));
    *sign |= *sign != AT_MARK_NONE && d->winner == (int)i ? AT_MARK_WINS : 0;
    return AT_OK;
}

at_status at_audit_ask(uint32_t *sign, const at_audit_env *env, size_t i, const at_case *c,
                       at_error *err)
{
    at_decision d;
    int entry = -1;
    *sign = AT_MARK_NONE;
    if (env->set[i] == NULL || at_case_check(c, NULL) != AT_OK) {
        return AT_OK;
    }
    AT_TRY(at_selector_decide_fast(&d, env->selector, c, err));
    return ask(sign, &entry, env, i, &d, c, err);
}

/* Marks of one case by backend; AT_MARK_INVALID when its keys contradict. */
static at_status mark_case(uint32_t out[AT_SELECTION_MAX], const at_audit *a,
                           const at_audit_env *env, const at_case *c, const at_decision *known,
                           at_audit_tally *t, at_error *err)
{
    at_decision d;
    if (at_case_check(c, NULL) != AT_OK) {
        for (size_t i = 0; i < a->backends; i++) {
            out[i] = AT_MARK_INVALID;
        }
        return AT_OK;
    }
    if (known != NULL) {
        d = *known;
    } else {
        AT_TRY(at_selector_decide_fast(&d, env->selector, c, err));
    }
    for (size_t i = 0; i < a->backends; i++) {
        int entry = -1;
        out[i] = AT_MARK_NONE;
        if (env->set[i] == NULL) {
            continue;
        }
        if (d.rule[i] >= 0) {
            t->fired[i][d.rule[i] / 64] |= (uint64_t)1 << d.rule[i] % 64;
        }
        AT_TRY(ask(&out[i], &entry, env, i, &d, c, err));
    }
    return AT_OK;
}

static at_status mark_cell(at_audit *a, uint64_t cell, const at_audit_env *env, const at_case *c,
                           const at_decision *known, at_audit_tally *t, at_error *err)
{
    uint32_t mark[AT_SELECTION_MAX] = {0}, any = 0;
    AT_TRY(mark_case(mark, a, env, c, known, t, err));
    for (size_t i = 0; i < a->backends; i++) {
        any |= mark[i];
        if (a->mark[i] != NULL) {
            a->mark[i][cell] = mark[i];
        }
    }
    t->cases += mark[0] != AT_MARK_INVALID;
    t->contradictions += any != AT_MARK_NONE && mark[0] != AT_MARK_INVALID;
    return AT_OK;
}

/* Cases of one environment that a called selector is asked at once. */
enum { CHUNK = 256 };

typedef struct chunk {
    size_t n;
    at_case c[CHUNK];
    uint64_t cell[CHUNK];
    at_decision d[CHUNK];
} chunk;

static at_status mark_chunk(at_audit *a, const at_audit_env *env, chunk *k, at_audit_tally *t,
                            uint64_t *bad, at_error *err)
{
    size_t at = 0;
    at_status status =
        k->n > 0 ? at_called_decide(k->d, &at, env->selector, k->c, k->n, false, err) : AT_OK;
    *bad = status != AT_OK ? k->cell[at] : *bad;
    for (size_t i = 0; status == AT_OK && i < k->n; i++) {
        status = mark_cell(a, k->cell[i], env, &k->c[i], &k->d[i], t, err);
        *bad = status != AT_OK ? k->cell[i] : *bad;
    }
    k->n = 0;
    return status;
}

static at_status mark_called(at_audit *a, uint64_t begin, uint64_t end, at_audit_tally *t,
                             uint64_t *bad, at_error *err)
{
    chunk *k = calloc(1, sizeof *k);
    at_region_place place;
    at_case c = a->region->base;
    size_t moved = 0;
    const uint64_t each = a->region->cells / a->region->envs;
    at_status status = AT_OK;
    AT_ASSERT(k != NULL); /* only memory can run out */
    at_region_locate(&place, a->region, begin);
    for (uint64_t cell = begin; status == AT_OK && cell < end; cell++) {
        const at_audit_env *env = &a->env[cell / each];
        at_region_case(&c, a->region, &place, moved);
        if (at_case_check(&c, NULL) != AT_OK) {
            AT_ASSERT(mark_cell(a, cell, env, &c, NULL, t, NULL) == AT_OK); /* contradicts */
        } else {
            k->c[k->n] = c;
            k->cell[k->n++] = cell;
        }
        if (k->n == CHUNK || cell + 1 == end || (cell + 1) % each == 0) {
            status = mark_chunk(a, env, k, t, bad, err);
        }
        moved = at_region_step(&place, a->region);
    }
    free(k);
    return status;
}

at_status at_audit_mark(at_audit *a, uint64_t begin, uint64_t end, at_audit_tally *t, uint64_t *bad,
                        at_error *err)
{
    at_region_place place;
    at_case c = a->region->base;
    size_t moved = 0;
    const uint64_t each = a->region->cells / a->region->envs;
    const at_audit_env *env = &a->env[begin / each];
    if (env->selector->called != NULL) {
        return mark_called(a, begin, end, t, bad, err);
    }
    at_region_locate(&place, a->region, begin);
    for (uint64_t cell = begin; cell < end; cell++) {
        if (cell % each == 0) {
            env = &a->env[cell / each];
        }
        at_region_case(&c, a->region, &place, moved);
        at_status status = mark_cell(a, cell, env, &c, NULL, t, err);
        if (status != AT_OK) {
            *bad = cell;
            return status;
        }
        moved = at_region_step(&place, a->region);
    }
    return AT_OK;
}

void at_audit_case(at_case *c, const at_audit *a, uint64_t cell)
{
    at_region_place place;
    *c = a->region->base;
    at_region_locate(&place, a->region, cell);
    at_region_case(c, a->region, &place, 0);
    c->arch = at_selector_arch(a->env[at_region_env_of(a->region, cell)].selector, c);
}

at_audit_answer at_audit_answer_at(const at_audit *a, const at_box *b, uint64_t cell)
{
    at_case c;
    const at_audit_env *env = &a->env[at_region_env_of(a->region, cell)];
    uint32_t sign = AT_MARK_NONE;
    int entry = -1;
    /* The sign tells the decision: nobody is asked again, a called selector may have ended. */
    at_decision d = {.winner = -1};
    d.rule[b->backend] = (int16_t)at_audit_rule(b->sign);
    at_audit_case(&c, a, cell);
    AT_ASSERT(ask(&sign, &entry, env, b->backend, &d, &c, NULL) == AT_OK &&
              sign == (b->sign & ~AT_MARK_WINS));
    return (at_audit_answer){.env = env,
                             .set = env->set[b->backend]->set,
                             .entry = entry,
                             .capability = at_capability_at(env->set[b->backend]->set, entry)};
}

at_refusal at_audit_should_refuse(const at_audit *a, const at_box *b, const at_audit_answer *at)
{
    const at_selector *s = at->env->selector;
    uint64_t keys = at_capability_keys(at->set, at->entry);
    int rule = at_selector_rule_about(s, b->backend, a->fired[b->backend], keys);
    return rule >= 0 ? at_selector_rule(s, (size_t)rule) : (at_refusal){0};
}
