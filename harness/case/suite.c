#include "harness/case/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/suite_build.h"
#include "harness/select/expr.h"

typedef struct entry {
    at_case c;
    const at_suite_plan *plan;
} entry;

struct at_suite {
    entry *entry;
    size_t count, room;
    uint32_t *slot; /* open addressing over entries: index + 1, 0 empty */
    size_t slots;   /* a power of two, more than twice the entries */
    at_suite_plan **plan;
    size_t plan_count;
    at_suite_audit *audit;
    size_t audit_count;
    at_suite_unsaid *unsaid;
    size_t unsaid_count;
    size_t skipped;
};

void at_suite_close(at_suite *suite)
{
    if (suite == NULL) {
        return;
    }
    for (size_t i = 0; i < suite->plan_count; i++) {
        free(suite->plan[i]);
    }
    free(suite->plan);
    free(suite->audit);
    free(suite->unsaid);
    free(suite->entry);
    free(suite->slot);
    free(suite);
}

size_t at_suite_size(const at_suite *suite)
{
    return suite->count;
}

const at_case *at_suite_case(const at_suite *suite, size_t i, const at_suite_plan **plan)
{
    AT_ASSERT(i < suite->count);
    if (plan != NULL) {
        *plan = suite->entry[i].plan;
    }
    return &suite->entry[i].c;
}

size_t at_suite_audits(const at_suite *suite, const at_suite_audit **audits)
{
    *audits = suite->audit;
    return suite->audit_count;
}

size_t at_suite_unsaid_entries(const at_suite *suite, const at_suite_unsaid **list)
{
    *list = suite->unsaid;
    return suite->unsaid_count;
}

at_status at_suite_keep_unsaid(at_suite *suite, const char *name, const char *id,
                               const char *reason, at_error *err)
{
    at_suite_unsaid *larger = realloc(suite->unsaid, (suite->unsaid_count + 1) * sizeof *larger);
    if (larger == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for another entry");
    }
    suite->unsaid = larger;
    at_suite_unsaid *at = &suite->unsaid[suite->unsaid_count++];
    (void)snprintf(at->suite, sizeof at->suite, "%s", name);
    (void)snprintf(at->entry, sizeof at->entry, "%s", id);
    (void)snprintf(at->reason, sizeof at->reason, "%s", reason);
    return AT_OK;
}

bool at_suite_takes(at_suite_builder *b, const char *group)
{
    bool takes = b->only == NULL || strcmp(b->only, group) == 0;
    b->met = b->met || (takes && b->only != NULL);
    return takes;
}

size_t at_suite_skipped(const at_suite *suite)
{
    return suite->skipped;
}

at_status at_suite_keep_plan(const at_suite_plan **out, at_suite *suite, const at_suite_plan *plan,
                             at_error *err)
{
    at_suite_plan *copy = malloc(sizeof *copy);
    at_suite_plan **larger = realloc(suite->plan, (suite->plan_count + 1) * sizeof(void *));
    suite->plan = larger != NULL ? larger : suite->plan;
    if (copy == NULL || larger == NULL) {
        free(copy);
        return at_fail(err, AT_NO_MEMORY, "no memory for another group of cases");
    }
    *copy = *plan;
    suite->plan[suite->plan_count++] = copy;
    *out = copy;
    return AT_OK;
}

static bool same_audit(const at_suite_audit *a, const at_suite_audit *b)
{
    return strcmp(a->selector, b->selector) == 0 && strcmp(a->arch, b->arch) == 0 &&
           strcmp(a->env, b->env) == 0 && strcmp(a->space, b->space) == 0 && a->limit == b->limit;
}

at_status at_suite_keep_audit(at_suite *suite, const at_suite_audit *audit, at_error *err)
{
    for (size_t i = 0; i < suite->audit_count; i++) {
        if (same_audit(&suite->audit[i], audit)) {
            return AT_OK;
        }
    }
    at_suite_audit *larger = realloc(suite->audit, (suite->audit_count + 1) * sizeof *larger);
    if (larger == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for another audit");
    }
    suite->audit = larger;
    suite->audit[suite->audit_count++] = *audit;
    return AT_OK;
}

/* Whether two plans run the same thing; the names of suite and group do not matter. */
static bool same_run(const at_suite_plan *a, const at_suite_plan *b)
{
    bool same = a == b || (a->backend_count == b->backend_count && a->modelled == b->modelled &&
                           strcmp(a->selector, b->selector) == 0 && strcmp(a->env, b->env) == 0 &&
                           strcmp(a->serves, b->serves) == 0);
    for (int i = 0; same && i < a->backend_count; i++) {
        same = strcmp(a->backend[i], b->backend[i]) == 0;
    }
    return same;
}

static uint64_t hash_case(const at_case *c)
{
    char text[AT_CASE_TEXT_MAX];
    size_t n = at_case_print(c, text);
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    }
    return hash ^ hash >> 29;
}

/* The slot that holds the pair, or the empty one where it belongs. */
static size_t find_slot(const at_suite *s, const at_case *c, const at_suite_plan *plan)
{
    size_t at = (size_t)hash_case(c) & (s->slots - 1);
    for (; s->slot[at] != 0; at = (at + 1) & (s->slots - 1)) {
        const entry *e = &s->entry[s->slot[at] - 1];
        if (at_case_equal(&e->c, c) && same_run(e->plan, plan)) {
            break;
        }
    }
    return at;
}

static at_status grow(at_suite *s, at_error *err)
{
    size_t room = s->room > 0 ? 2 * s->room : 64, slots = 4 * room;
    entry *larger = realloc(s->entry, room * sizeof *larger);
    uint32_t *slot = calloc(slots, sizeof *slot);
    s->entry = larger != NULL ? larger : s->entry;
    if (larger == NULL || slot == NULL) {
        free(slot);
        return at_fail(err, AT_NO_MEMORY, "no memory for %zu cases", room);
    }
    free(s->slot);
    s->slot = slot, s->slots = slots, s->room = room;
    for (size_t i = 0; i < s->count; i++) {
        s->slot[find_slot(s, &s->entry[i].c, s->entry[i].plan)] = (uint32_t)i + 1;
    }
    return AT_OK;
}

/* *fresh: the pair was not there yet. */
static at_status keep(const at_suite_builder *b, const at_case *c, const at_suite_plan *plan,
                      bool *fresh, at_error *err)
{
    at_suite *s = b->suite;
    if (s->count == s->room) {
        AT_TRY(grow(s, err));
    }
    size_t at = find_slot(s, c, plan);
    *fresh = s->slot[at] == 0;
    if (!*fresh) {
        return AT_OK;
    }
    if (s->count == b->cases) {
        return at_fail(err, AT_INVALID,
                       "more than %llu cases, list fewer values or \"sample\" them",
                       (unsigned long long)b->cases);
    }
    s->entry[s->count] = (entry){*c, plan};
    s->slot[at] = (uint32_t)++s->count;
    return AT_OK;
}

/* Rewrites, resolves and checks. A case that only the rewriting made contradictory is left out. */
static at_status finish(const at_suite_builder *b, at_case *c, uint64_t given,
                        const at_suite_rules *rules, bool *good, at_error *err)
{
    at_case original = *c;
    uint64_t rewritten = given;
    const char *seed = b->rewrite != NULL ? b->rewrite->seed : NULL;
    const char *pass = b->rewrite != NULL ? b->rewrite->pass : NULL;
    if (seed != NULL) {
        AT_TRY(at_case_assign(c, &rewritten, "seed", 4, seed, strlen(seed), err));
    }
    if (pass != NULL) {
        AT_TRY(at_case_assign(c, &rewritten, "pass", 4, pass, strlen(pass), err));
    }
    at_case_resolve(c, rewritten);
    at_status status = at_case_check(c, err);
    if (status != AT_OK && pass != NULL) {
        at_case_resolve(&original, given);
        status = at_case_check(&original, err);
        *good = false;
        return rules != NULL && rules->skip_contradictions ? AT_OK : status;
    }
    *good = status == AT_OK;
    return rules != NULL && rules->skip_contradictions ? AT_OK : status;
}

/* Applies the skip rules; *good becomes false where one matches. */
static at_status filter(const at_suite_rules *rules, const at_case *c, bool *good, at_error *err)
{
    for (size_t i = 0; rules != NULL && *good && i < rules->skip_count; i++) {
        bool skip = false;
        if (at_expr_test(&skip, rules->skip[i], c, err) != AT_OK) {
            return at_fail_in(err, AT_INVALID, "item %zu of \"skip\"", i + 1);
        }
        *good = !skip;
    }
    return AT_OK;
}

static at_status fail_at_case(const at_case *c, at_status status, at_error *err)
{
    char text[AT_CASE_TEXT_MAX];
    (void)at_case_print(c, text);
    return at_fail_in(err, status, "the case %.160s", text);
}

static at_status add_product(at_suite_builder *b, const at_space *space,
                             const at_suite_rules *rules, const at_suite_plan *plan, at_error *err)
{
    uint64_t total = 0;
    AT_TRY(at_space_count(&total, space, b->combinations, err));
    for (uint64_t i = 0; i < total; i++) {
        at_case c;
        uint64_t given = 0;
        bool good = true, fresh = false;
        at_space_at(&c, &given, space, i);
        at_status status = finish(b, &c, given, rules, &good, err);
        if (status != AT_OK) {
            return total > 1 ? fail_at_case(&c, status, err) : status;
        }
        AT_TRY(filter(rules, &c, &good, err));
        b->suite->skipped += !good;
        if (good) {
            AT_TRY(keep(b, &c, plan, &fresh, err));
        }
    }
    return AT_OK;
}

enum { DRAWS_MAX = 1000 };

/* Draws until a case is accepted that is not there yet; *found is false when none comes. */
static at_status draw_one(at_suite_builder *b, const at_space *space, const at_suite_rules *rules,
                          const at_suite_plan *plan, uint64_t number, bool *found, at_error *err)
{
    const at_suite_sample *sample = &rules->sample;
    *found = false;
    for (uint64_t attempt = 0; attempt < DRAWS_MAX && !*found; attempt++) {
        at_case c;
        uint64_t given = 0;
        bool good = true;
        at_space_draw(&c, &given, space, sample->seed, sample->stream,
                      number * DRAWS_MAX + attempt);
        at_status status = finish(b, &c, given, rules, &good, err);
        if (status != AT_OK) {
            return fail_at_case(&c, status, err);
        }
        AT_TRY(filter(rules, &c, &good, err));
        if (good) {
            AT_TRY(keep(b, &c, plan, found, err));
        }
    }
    return AT_OK;
}

static at_status add_sample(at_suite_builder *b, const at_space *space, const at_suite_rules *rules,
                            const at_suite_plan *plan, at_error *err)
{
    const at_suite_rewrite *r = b->rewrite;
    bool found = true, rewritten = r != NULL && (r->seed != NULL || r->pass != NULL);
    for (uint64_t i = 0; i < rules->sample.n; i++) {
        AT_TRY(draw_one(b, space, rules, plan, i, &found, err));
        if (!found && rewritten && i > 0) {
            return AT_OK; /* rewriting made cases equal */
        }
        if (!found) {
            return at_fail(
                err, AT_INVALID,
                "%d draws gave no new case after %llu of %llu, the space is too small or "
                "\"skip\" leaves too little",
                DRAWS_MAX, (unsigned long long)i, (unsigned long long)rules->sample.n);
        }
    }
    return AT_OK;
}

at_status at_suite_add_space(at_suite_builder *b, const at_space *space,
                             const at_suite_rules *rules, const at_suite_plan *plan, at_error *err)
{
    return rules != NULL && rules->sample.n > 0 ? add_sample(b, space, rules, plan, err)
                                                : add_product(b, space, rules, plan, err);
}

at_status at_suite_open_within(at_suite **out, const char *corpus, const char *const *words,
                               size_t word_count, const at_suite_rewrite *rewrite,
                               uint64_t combinations, uint64_t cases, at_error *err)
{
    static const at_suite_plan plain;
    at_suite_builder b = {.suite = calloc(1, sizeof(at_suite)),
                          .corpus = corpus,
                          .rewrite = rewrite,
                          .combinations = combinations,
                          .cases = cases};
    at_status status = AT_OK;
    *out = NULL;
    if (b.suite == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a suite");
    }
    for (size_t i = 0; i < word_count && status == AT_OK; i++) {
        status = at_suite_add_word(&b, words[i], NULL, &plain, err);
    }
    if (status != AT_OK) {
        at_suite_close(b.suite);
        return status;
    }
    *out = b.suite;
    return AT_OK;
}

at_status at_suite_open(at_suite **out, const char *corpus, const char *const *words,
                        size_t word_count, const at_suite_rewrite *rewrite, at_error *err)
{
    return at_suite_open_within(out, corpus, words, word_count, rewrite, AT_SUITE_COMBINATIONS_MAX,
                                AT_SUITE_CASES_MAX, err);
}
