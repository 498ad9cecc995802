#include "harness/select/nearest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/field.h"
#include "harness/select/rules.h"

enum { STEPS_MAX = 1024 };

/* One key of a case set to another value. */
typedef struct step {
    const at_field *key;
    int64_t value; /* of INT ENUM SET */
    double cost;
} step;

typedef struct search {
    const at_selector *s;
    const at_case *c;
    size_t backend, count;
    step step[STEPS_MAX];
} search;

/* What a step of a key weighs beside the ratio of its numbers; 0: it is never changed. */
static double weight_of(const at_field *f)
{
    static const struct {
        const char *key;
        double weight;
    } rows[] = {{"invalid", 0}, {"odt", 0},  {"fill", 0}, {"seed", 0},  {"stride", 0},
                {"exec", 0},    {"arch", 8}, {"pass", 3}, {"dtype", 3}, {"mask", 3},
                {"layout", 2},  {"b", 2},    {"hv", 4},   {"pack", 2},  {"bias", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].key, f->key) == 0) {
            return rows[i].weight;
        }
    }
    return 1;
}

static bool is_key(const at_field *f, const char *key)
{
    return strcmp(f->key, key) == 0;
}

static void add(search *w, const at_field *f, int64_t value)
{
    bool number = f->kind == AT_FIELD_INT, known = false;
    int64_t now = number || f->kind == AT_FIELD_ENUM || f->kind == AT_FIELD_SET
                      ? at_case_get(w->c, f)
                      : value + 1;
    for (size_t i = 0; i < w->count; i++) {
        known = known || (w->step[i].key == f && w->step[i].value == value);
    }
    if (known || now == value || w->count == STEPS_MAX) {
        return;
    }
    double cost = weight_of(f);
    if (number && value > 0 && now > 0) {
        cost += fabs(log2((double)value / (double)now));
    }
    w->step[w->count++] = (step){f, value, cost};
}

/* Multiples of `unit` on both sides of what the key has. */
static void add_multiples(search *w, const at_field *f, int64_t unit)
{
    int64_t below = at_case_get(w->c, f) / unit * unit;
    if (below > 0) {
        add(w, f, below);
    }
    add(w, f, below + unit);
}

static void add_dims(search *w, const at_field *f)
{
    static const int64_t usual[] = {32, 64, 80, 96, 128, 192, 256, 512};
    add(w, f, is_key(f, "dqk") ? w->c->dim_v : w->c->dim_qk);
    for (int64_t unit = 8; unit <= 64; unit *= 2) {
        add_multiples(w, f, unit);
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        add(w, f, usual[i]);
    }
}

static void add_lengths(search *w, const at_field *f)
{
    add(w, f, is_key(f, "sq") ? w->c->len_kv : w->c->len_q);
    add(w, f, 1);
    add_multiples(w, f, 64);
    add_multiples(w, f, 128);
}

static void add_heads(search *w, const at_field *f)
{
    add(w, f, is_key(f, "hv") || is_key(f, "hq") ? w->c->heads_kv : w->c->heads_q);
    for (int64_t k = 1; k <= w->c->heads_q && is_key(f, "hkv"); k *= 2) {
        if (w->c->heads_q % k == 0) {
            add(w, f, w->c->heads_q / k);
        }
    }
}

static void add_others(search *w, const at_field *f)
{
    static const int64_t pages[] = {16, 64, 128, 256};
    add(w, f, at_field_init(w->c, f));
    for (int64_t i = 0; f->names != NULL && f->names[i] != NULL; i++) {
        add(w, f, -1 - i);
    }
    for (size_t i = 0; i < sizeof pages / sizeof *pages && is_key(f, "page"); i++) {
        add(w, f, pages[i]);
    }
    if (is_key(f, "wr") || is_key(f, "wl") || is_key(f, "det") || is_key(f, "splits")) {
        add(w, f, is_key(f, "wl") ? AT_UNBOUNDED : 0);
        add(w, f, is_key(f, "wl") ? 127 : 1);
    }
}

static void add_steps(search *w, const at_field *f)
{
    if (!(weight_of(f) > 0)) {
        return;
    }
    switch (f->kind) {
    case AT_FIELD_INT:
        is_key(f, "dqk") || is_key(f, "dv")   ? add_dims(w, f)
        : is_key(f, "sq") || is_key(f, "skv") ? add_lengths(w, f)
        : f->key[0] == 'h'                    ? add_heads(w, f)
                                              : add_others(w, f);
        break;
    case AT_FIELD_ENUM:
        for (int64_t i = is_key(f, "arch") ? AT_ARCH_SM80 : 0; i < f->name_count; i++) {
            add(w, f, i);
        }
        break;
    case AT_FIELD_SET:
        add(w, f, f->init);
        break;
    case AT_FIELD_REAL:
    case AT_FIELD_LIST:
        if (!at_case_is_default(w->c, f)) {
            add(w, f, 0);
        }
        break;
    case AT_FIELD_U64:
        break;
    }
}

/* One key of the case's text: what has another key's value by default goes with it. */
static void apply(at_case *c, const step *s)
{
    const at_case before = *c;
    if (s->key->kind == AT_FIELD_REAL) {
        *at_case_real(c, s->key) = s->key->real_init;
    } else if (s->key->kind == AT_FIELD_LIST) {
        *at_case_list(c, s->key) = (at_len_list){0};
    } else {
        at_case_set(c, s->key, s->value);
    }
    for (size_t row = 0; row < at_case_field_count; row++) {
        const at_field *f = &at_case_fields[row];
        if (f->same_as != NULL && f != s->key && at_case_is_default(&before, f)) {
            at_case_set(c, f, at_field_init(c, f));
        }
    }
}

static bool admits(const at_selector *s, const at_case *c, size_t backend)
{
    at_decision d;
    return at_case_check(c, NULL) == AT_OK && at_selector_decide_fast(&d, s, c, NULL) == AT_OK &&
           (d.admitted >> backend & 1) != 0;
}

static void keep(at_nearest *out, const at_case *c, const step *one, const step *two)
{
    out->c = *c;
    out->count = two != NULL ? 2 : 1;
    out->key[0] = one->key;
    out->key[1] = two != NULL ? two->key : NULL;
}

static void find_one(at_nearest *out, const search *w)
{
    double best = HUGE_VAL;
    for (size_t i = 0; i < w->count; i++) {
        at_case c = *w->c;
        apply(&c, &w->step[i]);
        if (w->step[i].cost < best && admits(w->s, &c, w->backend)) {
            best = w->step[i].cost;
            keep(out, &c, &w->step[i], NULL);
        }
    }
}

static void find_two(at_nearest *out, const search *w)
{
    double best = HUGE_VAL;
    for (size_t i = 0; i < w->count; i++) {
        for (size_t k = i + 1; k < w->count; k++) {
            const step *one = &w->step[i], *two = &w->step[k];
            at_case c = *w->c;
            if (one->key == two->key || one->cost + two->cost >= best) {
                continue;
            }
            apply(&c, one);
            apply(&c, two);
            if (admits(w->s, &c, w->backend)) {
                best = one->cost + two->cost;
                keep(out, &c, one, two);
            }
        }
    }
}

/* The selector with one more key in its environment admits the backend. */
static bool env_admits(const search *w, const char *corpus, const at_env *env, const char *key,
                       const char *value)
{
    at_env *tried = NULL;
    at_selector *s = NULL;
    char pair[256];
    bool fine = true;
    for (size_t i = 0; i < at_env_size(env) && fine; i++) {
        const char *name = at_env_key_at(env, i);
        (void)snprintf(pair, sizeof pair, "%s=%s", name, at_env_get(env, name));
        fine = at_env_set(&tried, pair, NULL) == AT_OK;
    }
    (void)snprintf(pair, sizeof pair, "%s=%s", key, value);
    fine = fine && at_env_set(&tried, pair, NULL) == AT_OK &&
           at_selector_open(&s, corpus, w->s->name, tried, NULL) == AT_OK &&
           admits(s, w->c, w->backend);
    at_selector_close(s);
    at_env_close(tried);
    return fine;
}

static void find_env(at_nearest *out, const search *w, const char *corpus, const at_env *env)
{
    static const char *const truth[] = {"0", "1", NULL};
    for (size_t i = 0; i < w->s->env.count && out->env[0] == '\0'; i++) {
        const at_env_key *k = &w->s->env.key[i];
        const char *const *value =
            k->type == AT_ENV_BOOL ? truth : (const char *const *)(void *)k->values;
        for (; value != NULL && *value != NULL && out->env[0] == '\0'; value++) {
            if (strcmp(*value, k->text) != 0 && env_admits(w, corpus, env, k->key, *value)) {
                (void)snprintf(out->env, sizeof out->env, "%s=%s", k->key, *value);
            }
        }
    }
}

at_status at_nearest_find(at_nearest *out, const at_selector *s, const char *corpus,
                          const at_env *env, const at_case *c, size_t backend, at_error *err)
{
    at_decision d;
    *out = (at_nearest){.count = 0, .c = *c};
    AT_TRY(at_selector_decide_fast(&d, s, c, err));
    at_case whole = *c;
    whole.arch = at_selector_arch(s, c);
    search *w = calloc(1, sizeof *w);
    AT_ASSERT(w != NULL); /* only memory can run out */
    w->s = s;
    w->c = &whole;
    w->backend = backend;
    for (size_t row = 0; row < at_case_field_count; row++) {
        add_steps(w, &at_case_fields[row]);
    }
    find_one(out, w);
    if (out->count == 0) {
        find_two(out, w);
    }
    find_env(out, w, corpus, env);
    free(w);
    return AT_OK;
}
