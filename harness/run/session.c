#include "harness/run/session.h"

#include <stdlib.h>
#include <string.h>

enum { CLASSES = 8 }; /* numeric classes of one case at a time; more make the oldest go */

typedef struct kept_gold {
    at_numeric_class numeric;
    at_arena *arena;
    at_gold gold;
} kept_gold;

struct at_session {
    at_case c;
    bool has_problem;
    at_arena *arena;
    at_problem problem;
    int golds;
    kept_gold *gold[CLASSES];
};

at_status at_session_open(at_session **out, const at_case *c, at_error *err)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a case");
    }
    (*out)->c = *c;
    return AT_OK;
}

static void drop_gold(kept_gold *g)
{
    at_arena_close(g->arena);
    free(g);
}

static void forget_golds(at_session *s)
{
    while (s->golds > 0) {
        drop_gold(s->gold[--s->golds]);
    }
}

void at_session_close(at_session *s)
{
    if (s == NULL) {
        return;
    }
    forget_golds(s);
    at_arena_close(s->arena);
    free(s);
}

const at_case *at_session_case(const at_session *s)
{
    return &s->c;
}

at_status at_session_problem(at_session *s, const at_problem **out, at_error *err)
{
    if (!s->has_problem) {
        if (s->arena == NULL) {
            AT_TRY(at_arena_open(&s->arena, err));
        }
        at_status status = at_problem_open(&s->problem, &s->c, s->arena, err);
        if (status != AT_OK) {
            at_arena_reset(s->arena);
            return status;
        }
        s->has_problem = true;
    } else {
        at_problem_poison(&s->problem, AT_O, AT_DV);
    }
    *out = &s->problem;
    return AT_OK;
}

static bool same_variant(const at_variant *a, const at_variant *b)
{
    return a->bias_before_cap == b->bias_before_cap && a->alibi_signed == b->alibi_signed &&
           a->alibi_paper == b->alibi_paper && a->lse_log2 == b->lse_log2 &&
           a->lse_without_sink == b->lse_without_sink;
}

static bool same_class(const at_numeric_class *a, const at_numeric_class *b)
{
    return a->p == b->p && a->scores_stored == b->scores_stored && a->d_from_p == b->d_from_p &&
           a->head_rounded == b->head_rounded && !(a->p_unit < b->p_unit) &&
           a->inputs_scaled == b->inputs_scaled && !(a->p_unit > b->p_unit) &&
           !(a->ds_unit < b->ds_unit) && !(a->ds_unit > b->ds_unit) &&
           same_variant(&a->variant, &b->variant);
}

static kept_gold *find_gold(const at_session *s, const at_numeric_class *numeric)
{
    for (int i = 0; i < s->golds; i++) {
        if (same_class(&s->gold[i]->numeric, numeric)) {
            return s->gold[i];
        }
    }
    return NULL;
}

bool at_session_has_gold(const at_session *s, const at_numeric_class *numeric)
{
    return find_gold(s, numeric) != NULL;
}

at_status at_session_gold(at_session *s, const at_gold **out, const at_numeric_class *numeric,
                          at_error *err)
{
    if (s->c.dropout > 0) {
        forget_golds(s);
    }
    kept_gold *found = find_gold(s, numeric);
    if (found != NULL) {
        *out = &found->gold;
        return AT_OK;
    }
    AT_ASSERT(s->has_problem);
    found = calloc(1, sizeof *found);
    if (found == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a reference");
    }
    found->numeric = *numeric;
    at_reference_options options = {.path = AT_REFERENCE_AUTO, .numeric = *numeric};
    at_status status = at_arena_open(&found->arena, err);
    if (status == AT_OK) {
        status = at_reference_run(&found->gold, &s->problem, &options, found->arena, err);
    }
    if (status != AT_OK) {
        drop_gold(found);
        return status;
    }
    if (s->golds == CLASSES) {
        drop_gold(s->gold[0]);
        memmove(&s->gold[0], &s->gold[1], (CLASSES - 1) * sizeof s->gold[0]);
        s->golds--;
    }
    s->gold[s->golds++] = found;
    *out = &found->gold;
    return AT_OK;
}

void at_session_spoil(at_session *s)
{
    if (s->has_problem) {
        at_arena_reset(s->arena);
        s->has_problem = false;
    }
}
