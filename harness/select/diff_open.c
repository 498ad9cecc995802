/* The two rule sets of a comparison in equal environments. */
#include "harness/select/diff_core.h"

#include <stdlib.h>
#include <string.h>

/* Sets keys of `env` that the table declares, unless they are set already. */
static at_status take_known(at_env **out, const at_env_table *table, const at_env *env,
                            at_error *err)
{
    char pair[512];
    for (size_t i = 0; i < at_env_size(env); i++) {
        const char *key = at_env_key_at(env, i);
        (void)snprintf(pair, sizeof pair, "%s=%s", key, at_env_get(env, key));
        if (at_env_table_find(table, key) != NULL) {
            AT_TRY(at_env_set(out, pair, err));
        }
    }
    return AT_OK;
}

/* Keys with other defaults in the later rule set: its values for the earlier one. */
static at_status align_defaults(at_env **out, at_diff *d, at_selector *const fresh[2],
                                const at_env *given, const char *corpus, at_error *err)
{
    size_t used = 0;
    for (size_t i = 0; i < fresh[0]->env.count; i++) {
        const at_env_key *k = &fresh[0]->env.key[i];
        const at_env_key *later = at_env_table_find(&fresh[1]->env, k->key);
        char pair[512];
        at_env *one = NULL;
        at_selector *trial = NULL;
        if (later == NULL || strcmp(later->text, k->text) == 0 || k->type == AT_ENV_ARCH ||
            at_env_get(given, k->key) != NULL || at_region_sweeps(d->region, k->key)) {
            continue;
        }
        (void)snprintf(pair, sizeof pair, "%s=%s", k->key, later->text);
        AT_TRY(at_env_set(&one, pair, err));
        if (at_selector_open(&trial, corpus, fresh[0]->name, one, NULL) == AT_OK) {
            AT_TRY(at_env_set(out, pair, err));
            int n = snprintf(d->note + used, sizeof d->note - used, "%s%s=%s (%s alone: %s)",
                             used > 0 ? ", " : "", k->key, later->text, fresh[0]->name, k->text);
            used += n > 0 && used + (size_t)n < sizeof d->note ? (size_t)n : 0;
        }
        at_selector_close(trial);
        at_env_close(one);
    }
    return AT_OK;
}

static at_status open_env(at_diff *d, at_diff_env *e, uint64_t number, at_selector *const fresh[2],
                          const at_env *aligned, const at_diff_request *request, at_error *err)
{
    at_env *swept = NULL;
    at_status status = at_region_env(&swept, d->region, number, err);
    for (int side = 0; side < 2 && status == AT_OK; side++) {
        const at_env_table *table = &fresh[side]->env;
        status = side == 0 ? take_known(&e->given[0], table, aligned, err) : AT_OK;
        status = status == AT_OK ? take_known(&e->given[side], table, request->env, err) : status;
        status = status == AT_OK ? take_known(&e->given[side], table, swept, err) : status;
        status = status == AT_OK ? at_selector_open(&e->selector[side], request->corpus,
                                                    fresh[side]->name, e->given[side], err)
                                 : status;
        if (status == AT_OK && d->region->list == NULL && e->selector[side]->reads_arch &&
            at_selector_arch(e->selector[side], &d->region->base) == AT_ARCH_ANY) {
            status =
                at_fail(err, AT_INVALID, "a comparison asks for the arch: give it as --arch sm90");
        }
    }
    at_env_close(swept);
    return status;
}

static void name_backends(at_diff *d)
{
    for (int side = 1; side >= 0; side--) {
        const at_selector *s = d->env[0].selector[side];
        for (size_t i = 0; i < at_selector_backends(s); i++) {
            const char *name = at_selector_backend(s, i);
            size_t k = 0;
            while (k < d->backends && strcmp(d->backend[k], name) != 0) {
                k++;
            }
            d->backend[k] = name;
            d->backends += k == d->backends;
            d->index[side][i] = (int8_t)k;
        }
    }
}

static at_status open_all(at_diff *d, at_selector *const fresh[2], const at_diff_request *request,
                          at_error *err)
{
    const at_env_table *table[] = {&fresh[1]->env, &fresh[0]->env};
    const at_region_sweep_request what = {.table = table,
                                          .table_count = 2,
                                          .corpus = request->corpus,
                                          .given = request->env,
                                          .sweep = request->sweep,
                                          .sweep_count = request->sweep_count};
    at_env *aligned = NULL;
    for (size_t i = 0; i < at_env_size(request->env); i++) {
        const char *key = at_env_key_at(request->env, i);
        if (at_env_table_find(table[0], key) == NULL && at_env_table_find(table[1], key) == NULL) {
            return at_fail(err, AT_INVALID, "neither %s nor %s has the environment key \"%.60s\"",
                           request->before, request->after, key);
        }
    }
    AT_TRY(at_region_sweep(d->region, &what, err));
    d->envs = d->region->envs;
    d->env = calloc(d->envs, sizeof *d->env);
    AT_ASSERT(d->env != NULL); /* only memory can run out */
    at_status status = align_defaults(&aligned, d, fresh, request->env, request->corpus, err);
    for (size_t i = 0; i < d->envs && status == AT_OK; i++) {
        status = open_env(d, &d->env[i], i, fresh, aligned, request, err);
    }
    at_env_close(aligned);
    if (status == AT_OK) {
        name_backends(d);
    }
    return status;
}

at_status at_diff_prepare(at_diff *d, const at_diff_request *request, at_error *err)
{
    at_selector *fresh[2] = {NULL, NULL};
    at_status status = at_selector_open(&fresh[0], request->corpus, request->before, NULL, err);
    if (status == AT_OK) {
        status = at_selector_open(&fresh[1], request->corpus, request->after, NULL, err);
    }
    if (status == AT_OK) {
        status = at_region_open(&d->region, request->corpus, request->space, err);
    }
    status = status == AT_OK ? open_all(d, fresh, request, err) : status;
    at_selector_close(fresh[0]);
    at_selector_close(fresh[1]);
    return status;
}
