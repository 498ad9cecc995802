/* What a walk through a condition says, as a sentence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/possible_core.h"

void at_possible_open(at_possible **out, const at_env_table *env)
{
    at_possible *p = calloc(1, sizeof *p);
    AT_ASSERT(p != NULL); /* only memory can run out */
    p->env = env;
    if (env != NULL) {
        p->name_count = at_env_table_names(env, p->name);
    }
    for (size_t i = 0; i < p->name_count; i++) {
        at_expr_name *n = &p->name[i];
        n->slot = (int)(at_env_table_find(env, n->name) - env->key);
        n->release = (at_release){0};
    }
    *out = p;
}

void at_possible_close(at_possible *p)
{
    for (size_t i = 0; p != NULL && i < p->let_count; i++) {
        at_expr_close(p->let[i]);
    }
    free(p);
}

at_status at_possible_let(at_possible *p, const char *name, const char *text, at_error *err)
{
    const at_expr_scope scope = {.name = p->name, .name_count = p->name_count};
    at_expr *e = NULL;
    if (p->let_count == AT_LETS_MAX) {
        return at_fail(err, AT_INVALID, "more than %d lets", AT_LETS_MAX);
    }
    AT_TRY(at_expr_compile(&e, text, &scope, AT_EXPR_ANY, err));
    at_expr_name *n = &p->name[p->name_count++];
    *n = (at_expr_name){.name = name, .slot = -1};
    n->type = at_expr_kind(e, &n->names);
    if (!at_expr_constant(e, &n->value, &n->release)) {
        n->slot = AT_SLOT_LETS + (int)p->let_count;
    }
    p->let[p->let_count++] = e;
    return AT_OK;
}

static int compare_releases(const void *a, const void *b)
{
    return at_release_compare(a, b);
}

/* The versions that the condition and the lets name, in order. */
static void gather(at_possible_search *s)
{
    const at_possible *p = s->p;
    size_t room = s->e->named_count, n = 0;
    for (size_t i = 0; i < p->let_count; i++) {
        room += p->let[i]->named_count;
    }
    s->release = calloc(room + 1, sizeof *s->release);
    AT_ASSERT(s->release != NULL); /* only memory can run out */
    for (size_t i = 0; i <= p->let_count; i++) {
        const at_expr *e = i < p->let_count ? p->let[i] : s->e;
        for (uint32_t k = 0; k < e->named_count; k++) {
            s->release[n] = e->named[k];
            n += e->named[k].count > 0; /* has() names none */
        }
    }
    if (n > 0) {
        qsort(s->release, n, sizeof *s->release, compare_releases);
    }
    for (size_t i = 0; i < n; i++) {
        bool again = s->release_count > 0 &&
                     at_release_compare(&s->release[i], &s->release[s->release_count - 1]) == 0;
        s->release[s->release_count] = s->release[i];
        s->release_count += !again;
    }
}

static const at_field *field_at(int64_t offset)
{
    for (size_t i = 0; i < at_case_field_count; i++) {
        if ((int64_t)at_case_fields[i].offset == offset) {
            return &at_case_fields[i];
        }
    }
    return NULL;
}

/* "mask is none, causal": what a key may still be; "" for what has no name. */
static void describe(char text[300], const at_possible_search *s, const at_node *k,
                     const at_domain *d)
{
    const at_field *f = k->code == AT_OP_FIELD ? field_at(k->value) : NULL;
    const at_env_key *env = k->code == AT_NODE_ENV ? &s->p->env->key[k->value] : NULL;
    const char *key = f != NULL ? f->key : env != NULL ? env->key : NULL;
    const char *const *names = f != NULL && f->kind == AT_FIELD_ENUM ? f->names
                               : env != NULL && env->type == AT_ENV_ENUM
                                   ? (const char *const *)env->values
                                   : NULL;
    if (k->code == AT_OP_SM || k->code == AT_OP_ARCH) {
        key = k->code == AT_OP_SM ? "sm" : "arch";
        names = k->code == AT_OP_ARCH ? at_case_field("arch", 4)->names : NULL;
    }
    text[0] = '\0';
    if (names != NULL && d->small) {
        size_t used = (size_t)snprintf(text, 300, "%s is", key);
        const char *gap = " ";
        for (uint64_t left = d->bits; left != 0 && used < 300; left &= left - 1) {
            used += (size_t)snprintf(text + used, 300 - used, "%s%s", gap,
                                     names[__builtin_ctzll(left)]);
            gap = " or ";
        }
    } else if ((f != NULL && f->kind == AT_FIELD_INT) || (env != NULL && env->type == AT_ENV_INT)) {
        (void)snprintf(text, 300, d->lo == d->hi ? "%s is %lld" : "%s is %lld..%lld", key,
                       (long long)d->lo, (long long)d->hi);
    }
}

static at_status verdict(const at_possible_search *s, at_error *err)
{
    char here[300] = "";
    uint32_t at = 0;
    while (at < s->e->count && s->seen[at] != 1) {
        at++;
    }
    if (s->gave_up || (s->possible && at == s->e->count)) {
        return AT_OK;
    }
    int column = 1;
    if (at < s->e->count) {
        describe(here, s, &s->nodes.node[s->node[at]], &s->domain[at]);
        column = s->e->op[at].column > 0 ? s->e->op[at].column : 1;
    }
    return at_fail(err, AT_INVALID, "column %d: %s%s%s", column,
                   s->possible ? "this part never holds where it stands"
                               : "the condition is impossible, it never holds",
                   here[0] != '\0' ? ": there " : "", here);
}

at_status at_possible_check(const at_possible *p, const char *text, const char *const *backend,
                            size_t backend_count, at_error *err)
{
    const at_expr_scope scope = {.name = p->name,
                                 .name_count = p->name_count,
                                 .backend = backend,
                                 .backend_count = backend_count};
    at_expr *e = NULL;
    AT_TRY(at_expr_compile(&e, text, &scope, AT_EXPR_BOOL, err));
    at_possible_search *s = calloc(1, sizeof *s);
    AT_ASSERT(s != NULL); /* only memory can run out */
    s->p = p;
    s->e = e;
    s->seen = calloc(e->count, sizeof *s->seen);
    s->node = calloc(e->count, sizeof *s->node);
    s->domain = calloc(e->count, sizeof *s->domain);
    AT_ASSERT(s->seen != NULL && s->node != NULL && s->domain != NULL);
    gather(s);
    at_possible_explore(s);
    at_status status = verdict(s, err);
    free(s->release);
    free(s->seen);
    free(s->node);
    free(s->domain);
    free(s);
    at_expr_close(e);
    return status;
}
