#include "harness/select/possible.h"
#include "harness/select/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static at_status compile_lets(at_selector *s, const at_rule_file *f, at_error *err)
{
    at_expr_name fixed[AT_ENV_KEYS_MAX];
    at_lets_open(&s->lets, fixed, at_env_table_names(&s->env, fixed));
    for (size_t i = 0; i < f->let_count; i++) {
        at_status status = at_lets_add(&s->lets, f->let[i][0], f->let[i][1], err);
        if (status != AT_OK) {
            return at_fail_in(err, status, "%s: let \"%.60s\"", f->let_file[i], f->let[i][0]);
        }
    }
    return AT_OK;
}

/* A condition over everything but, without `on`, the backends; *out stays NULL for one that always
 * holds, and *never is set for one that never does. */
static at_status compile(at_selector *s, at_expr **out, bool *never, uint64_t *keys,
                         const char *text, bool on, at_error *err)
{
    const at_expr_scope scope = {.name = s->lets.name,
                                 .name_count = s->lets.count,
                                 .backend = s->backend_name,
                                 .backend_count = on ? s->backend_count : 0};
    at_expr *e = NULL;
    int64_t value = 0;
    AT_TRY(at_expr_compile(&e, text, &scope, AT_EXPR_BOOL, err));
    *keys = at_expr_keys(e);
    uint64_t arch = (uint64_t)1 << (at_case_field("arch", 4) - at_case_fields);
    s->reads_arch = s->reads_arch || (*keys & arch) != 0;
    *never = at_expr_constant(e, &value, NULL) && value == 0;
    if (at_expr_constant(e, NULL, NULL)) {
        at_expr_close(e);
        return AT_OK;
    }
    *out = e;
    return AT_OK;
}

static int find_backend(const at_selector *s, const char *name)
{
    for (size_t i = 0; name != NULL && i < s->backend_count; i++) {
        if (strcmp(s->backend_name[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static at_status unknown_backend(const at_json *value, const char *where, at_error *err)
{
    return at_fail(err, AT_INVALID, "\"%s\" names \"%.60s\", which is none of \"backends\"", where,
                   at_json_text(value) != NULL ? at_json_text(value)
                                               : "something else than a text");
}

/* Constants may rule it out; `gone`: backends that a rule before it always takes off. */
static at_status compile_rule(at_selector *s, at_rule *r, const at_rule_text *t, uint32_t *gone,
                              at_error *err)
{
    *r = (at_rule){
        .id = t->id, .why = t->why, .source = t->source, .file = t->file, .caller = t->caller};
    for (const at_json *m = at_json_first(t->off); m != NULL; m = at_json_next(m)) {
        int at = find_backend(s, at_json_text(m));
        if (at < 0) {
            return unknown_backend(m, "off", err);
        }
        r->off |= (uint32_t)1 << at;
    }
    at_status status = compile(s, &r->when, &r->never, &r->keys, t->when, true, err);
    if (status != AT_OK) {
        return at_fail_in(err, status, "when");
    }
    r->never = r->never || (r->off & ~*gone) == 0;
    if (!r->never && r->when != NULL) {
        r->slots = at_lets_reach(&s->lets, at_expr_slots(r->when));
    } else if (!r->never) {
        *gone |= r->off;
    }
    return AT_OK;
}

static at_status fail_in_rule(at_error *err, at_status status, const at_rule_text *t)
{
    char place[64];
    return at_fail_in(err, status, "%s: %srule \"%.60s\"", t->file,
                      at_rule_place(place, t->file, "rules", t->id), t->id);
}

static at_status compile_rules(at_selector *s, const at_rule_file *f, at_error *err)
{
    s->rule = calloc(f->rule_count + 1, sizeof *s->rule);
    AT_ASSERT(s->rule != NULL); /* only memory can run out */
    uint32_t gone = 0;
    for (size_t i = 0; i < f->rule_count; i++) {
        const at_rule_text *t = &f->rule[i];
        s->rule_count++;
        at_status status = compile_rule(s, &s->rule[i], t, &gone, err);
        if (status != AT_OK) {
            return fail_in_rule(err, status, t);
        }
    }
    return AT_OK;
}

static at_status read_order(at_selector *s, at_prefer *p, const at_json *list, at_error *err)
{
    uint32_t seen = 0;
    int n = 0;
    for (const at_json *m = at_json_first(list); m != NULL; m = at_json_next(m)) {
        int at = find_backend(s, at_json_text(m));
        if (at < 0) {
            return unknown_backend(m, "order", err);
        }
        if ((seen >> at & 1) != 0) {
            return at_fail(err, AT_INVALID, "\"order\" names \"%s\" twice", s->backend_name[at]);
        }
        seen |= (uint32_t)1 << at;
        p->order[n++] = at;
    }
    return (size_t)n == s->backend_count
               ? AT_OK
               : at_fail(err, AT_INVALID, "\"order\" must name all %zu backends", s->backend_count);
}

static at_status read_prefer(at_selector *s, const at_json *o, bool last, at_error *err)
{
    static const char *const members[] = {"when", "order", NULL};
    at_prefer *p = &s->prefer[s->prefer_count++];
    const at_json *order = NULL;
    const char *when = NULL;
    uint64_t keys = 0;
    bool never = false;
    *p = (at_prefer){0};
    if (at_json_type(o) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "it must be an object with \"order\"");
    }
    AT_TRY(at_json_only_keys(o, members, err));
    AT_TRY(at_json_want_array(o, "order", true, &order, err));
    AT_TRY(at_json_want_text(o, "when", false, &when, err));
    AT_TRY(read_order(s, p, order, err));
    if ((when == NULL) != last) {
        return at_fail(err, AT_INVALID, "the last entry, and it alone, has no \"when\"");
    }
    if (when != NULL) {
        at_status status = compile(s, &p->when, &never, &keys, when, true, err);
        if (status != AT_OK) {
            return at_fail_in(err, status, "when");
        }
        s->prefer_count -= never;
        p->slots = p->when != NULL ? at_lets_reach(&s->lets, at_expr_slots(p->when)) : 0;
    }
    return AT_OK;
}

static at_status compile_prefer(at_selector *s, const at_rule_file *f, at_error *err)
{
    int number = 0;
    for (const at_json *m = at_json_first(f->prefer); m != NULL; m = at_json_next(m)) {
        number++;
        if (s->prefer_count == AT_PREFER_MAX) {
            return at_fail(err, AT_INVALID, "%s: \"prefer\" has more than %d entries",
                           f->prefer_file, AT_PREFER_MAX);
        }
        at_status status = read_prefer(s, m, at_json_next(m) == NULL, err);
        if (status != AT_OK) {
            return at_fail_in(err, status, "%s: prefer %d", f->prefer_file, number);
        }
    }
    if (s->prefer_count == 0) { /* declaration order */
        for (size_t i = 0; i < s->backend_count; i++) {
            s->prefer[0].order[i] = (int)i;
        }
        s->prefer_count = 1;
    }
    return AT_OK;
}

/* Whether an entry of "capabilities" holds in this environment. */
static at_status choice_holds(bool *out, at_selector *s, const char *when, at_error *err)
{
    at_expr *e = NULL;
    uint64_t keys = 0;
    bool never = false;
    at_status status = compile(s, &e, &never, &keys, when, false, err);
    if (status == AT_OK && e != NULL) {
        at_expr_close(e);
        status = at_fail(err, AT_INVALID, "it must be decided by the environment alone");
    }
    *out = !never;
    return status == AT_OK ? AT_OK : at_fail_in(err, status, "when");
}

/* Takes the first entry of the list that holds; "" when none does. */
static at_status choose_capabilities(at_selector *s, at_backend_entry *b, at_error *err)
{
    static const char *const members[] = {"when", "set", NULL};
    bool found = false;
    for (const at_json *m = at_json_first(b->choices); m != NULL; m = at_json_next(m)) {
        const char *when = NULL, *set = NULL;
        bool holds = true;
        if (at_json_type(m) != AT_JSON_OBJECT) {
            return at_fail(err, AT_INVALID, "an entry is an object with \"set\" and \"when\"");
        }
        AT_TRY(at_json_only_keys(m, members, err));
        AT_TRY(at_json_want_text(m, "set", true, &set, err));
        AT_TRY(at_json_want_text(m, "when", false, &when, err));
        if (strlen(set) >= sizeof b->capabilities) {
            return at_fail(err, AT_INVALID, "the set's name is too long");
        }
        if (when != NULL) {
            AT_TRY(choice_holds(&holds, s, when, err));
        }
        if (holds && !found) {
            (void)strcpy(b->capabilities, set);
            found = true;
        }
    }
    return AT_OK;
}

/* "fa3-{fa3}" with the environment's values; "" when one of them is not installed. */
static at_status fill_capabilities(const at_selector *s, at_backend_entry *b, at_error *err)
{
    char made[sizeof b->capabilities] = "";
    size_t used = 0;
    for (const char *c = b->capabilities; *c != '\0'; c++) {
        char key[64] = "";
        size_t n = *c == '{' ? strcspn(c, "}") : 0;
        const char *text = c;
        size_t length = 1;
        if (n > 0) {
            (void)snprintf(key, sizeof key, "%.*s", (int)(n - 1 < 63 ? n - 1 : 63), c + 1);
            const at_env_key *k = at_env_table_find(&s->env, key);
            if (c[n] != '}' || k == NULL) {
                return at_fail(err, AT_INVALID,
                               "%s: backend \"%s\": \"capabilities\" names the unknown key \"%s\"",
                               s->path[0], b->name, key);
            }
            if (k->type == AT_ENV_RELEASE && k->release.count == 0) {
                b->capabilities[0] = '\0';
                return AT_OK;
            }
            text = k->text;
            length = strlen(text);
            c += n;
        }
        if (used + length >= sizeof made) {
            return at_fail(err, AT_INVALID, "%s: backend \"%s\": \"capabilities\" is too long",
                           s->path[0], b->name);
        }
        memcpy(made + used, text, length);
        made[used += length] = '\0';
    }
    memcpy(b->capabilities, made, used + 1);
    return AT_OK;
}

static at_status check_prefer(const at_selector *s, const at_possible *p, const at_rule_file *f,
                              at_error *err)
{
    int number = 1;
    for (const at_json *m = at_json_first(f->prefer); m != NULL; m = at_json_next(m), number++) {
        const char *when = at_json_text(at_json_get(m, "when"));
        at_status status = when != NULL
                               ? at_possible_check(p, when, s->backend_name, s->backend_count, err)
                               : AT_OK;
        if (status != AT_OK) {
            return at_fail_in(err, status, "%s: prefer %d: when", f->prefer_file, number);
        }
    }
    return AT_OK;
}

/* FNV-1a, 64 bits. */
static uint64_t hash(uint64_t h, const char *text)
{
    for (const char *c = text != NULL ? text : ""; *c != '\0'; c++) {
        h = (h ^ (uint8_t)*c) * UINT64_C(1099511628211);
    }
    return (h ^ 0xff) * UINT64_C(1099511628211); /* texts do not run together */
}

/* Everything that decides whether conditions are possible: texts, and the ranges of keys. */
static uint64_t hash_of(const at_selector *s, const at_rule_file *f)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < s->env.count; i++) {
        const at_env_key *k = &s->env.key[i];
        char range[64];
        (void)snprintf(range, sizeof range, "%d %lld %lld", (int)k->type, (long long)k->min,
                       (long long)k->max);
        h = hash(hash(h, k->key), range);
        for (char **v = k->values; v != NULL && *v != NULL; v++) {
            h = hash(h, *v);
        }
    }
    for (size_t i = 0; i < f->let_count; i++) {
        h = hash(hash(h, f->let[i][0]), f->let[i][1]);
    }
    for (size_t i = 0; i < f->rule_count; i++) {
        h = hash(h, f->rule[i].when);
    }
    for (size_t i = 0; i < s->backend_count; i++) {
        h = hash(h, s->backend_name[i]);
    }
    for (const at_json *m = at_json_first(f->prefer); m != NULL; m = at_json_next(m)) {
        h = hash(h, at_json_text(at_json_get(m, "when")));
    }
    return h;
}

static at_status check_all(const at_selector *s, const at_rule_file *f, at_error *err);

/* The same rules in another environment need no second look: audits open them by the thousand. */
static at_status check_possible(const at_selector *s, const at_rule_file *f, at_error *err)
{
    enum { KNOWN = 64 };
    static uint64_t known[KNOWN];
    static size_t count;
    const uint64_t h = hash_of(s, f);
    bool seen = false;
#pragma omp critical(at_selector_possible)
    for (size_t i = 0; i < count && i < KNOWN; i++) {
        seen = seen || known[i] == h;
    }
    if (seen) {
        return AT_OK;
    }
    AT_TRY(check_all(s, f, err));
#pragma omp critical(at_selector_possible)
    known[count++ % KNOWN] = h;
    return AT_OK;
}

/* Refuses conditions that no case and environment meets. The file compiles. */
static at_status check_all(const at_selector *s, const at_rule_file *f, at_error *err)
{
    at_possible *p = NULL;
    at_status status = AT_OK;
    at_possible_open(&p, &s->env);
    for (size_t i = 0; status == AT_OK && i < f->let_count; i++) {
        status = at_possible_let(p, f->let[i][0], f->let[i][1], err);
        status = status == AT_OK
                     ? AT_OK
                     : at_fail_in(err, status, "%s: let \"%.60s\"", f->let_file[i], f->let[i][0]);
    }
    for (size_t i = 0; status == AT_OK && i < f->rule_count; i++) {
        const at_rule_text *t = &f->rule[i];
        status = at_possible_check(p, t->when, s->backend_name, s->backend_count, err);
        if (status != AT_OK) {
            status = fail_in_rule(err, at_fail_in(err, status, "when"), t);
        }
    }
    status = status == AT_OK ? check_prefer(s, p, f, err) : status;
    at_possible_close(p);
    return status;
}

static at_status open_files(at_selector *s, const char *corpus, const char *name, const at_env *env,
                            at_error *err)
{
    at_rule_file f = {0};
    at_status status = at_rules_read(s, &f, corpus, name, err);
    if (status == AT_OK && (status = at_env_table_resolve(&s->env, env, err)) != AT_OK) {
        status = at_fail_in(err, status, "%s", s->name);
    }
    status = status == AT_OK ? compile_lets(s, &f, err) : status;
    status = status == AT_OK ? compile_rules(s, &f, err) : status;
    status = status == AT_OK ? compile_prefer(s, &f, err) : status;
    status = status == AT_OK ? check_possible(s, &f, err) : status;
    for (size_t i = 0; status == AT_OK && i < s->backend_count; i++) {
        at_backend_entry *b = &s->backend[i];
        if (b->choices != NULL && (status = choose_capabilities(s, b, err)) != AT_OK) {
            status =
                at_fail_in(err, status, "%s: backend \"%s\": capabilities", s->path[0], b->name);
            break;
        }
        status = fill_capabilities(s, b, err);
    }
    free(f.rule);
    return status;
}

void at_selector_rules_of(char out[64], const char *corpus, const char *name)
{
    char rules[64];
    const char *version = at_called_version(name);
    if (version != NULL && strcmp(version, "installed") == 0) {
        (void)snprintf(rules, sizeof rules, "te-newest");
    } else if (version != NULL) {
        (void)snprintf(rules, sizeof rules, "te-%.48s", version);
    }
    at_corpus_newest(out, corpus, "selectors", version != NULL ? rules : name);
}

at_status at_selector_open(at_selector **out, const char *corpus, const char *name,
                           const at_env *env, at_error *err)
{
    char rules[64] = "";
    at_selector *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for the rule set %s", name);
    }
    const char *version = at_called_version(name);
    at_selector_rules_of(s->name, corpus, name);
    bool fits = version != NULL || strlen(name) < sizeof s->name;
    (void)snprintf(rules, sizeof rules, "%s", s->name);
    if (version != NULL) {
        (void)snprintf(s->name, sizeof s->name, "%s", name);
    }
    at_status status = open_files(s, corpus, fits ? rules : name, env, err);
    if (status == AT_OK) {
        const at_env_key *arch = at_env_table_find(&s->env, "arch");
        s->arch = arch != NULL ? arch->value : AT_ARCH_ANY;
        status = version != NULL ? at_called_open(&s->called, s, corpus, err) : AT_OK;
    }
    if (status != AT_OK) {
        at_selector_close(s);
        return status;
    }
    s->doc = version != NULL ? s->called->doc : s->doc;
    *out = s;
    return AT_OK;
}

at_status at_selector_open_known(at_selector **out, const char *corpus, const char *name,
                                 const at_env *env, uint64_t *known, at_error *err)
{
    at_selector *fresh = NULL;
    at_env *own = NULL;
    *out = NULL;
    *known = 0;
    AT_TRY(at_selector_open(&fresh, corpus, name, NULL, err));
    at_status status = AT_OK;
    for (size_t i = 0; i < at_env_size(env) && status == AT_OK; i++) {
        char pair[512];
        const char *key = at_env_key_at(env, i);
        if (at_env_table_find(&fresh->env, key) != NULL) {
            *known |= i < 64 ? (uint64_t)1 << i : 0;
            (void)snprintf(pair, sizeof pair, "%s=%s", key, at_env_get(env, key));
            status = at_env_set(&own, pair, err);
        }
    }
    status = status == AT_OK ? at_selector_open(out, corpus, name, own, err) : status;
    at_env_close(own);
    at_selector_close(fresh);
    return status;
}

void at_selector_close(at_selector *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < s->rule_count; i++) {
        at_expr_close(s->rule[i].when);
    }
    for (size_t i = 0; i < s->prefer_count; i++) {
        at_expr_close(s->prefer[i].when);
    }
    free(s->rule);
    at_called_close(s->called);
    at_lets_close(&s->lets);
    at_env_table_clear(&s->env);
    for (int i = 0; i < s->documents; i++) {
        at_json_close(s->document[i]);
        free(s->path[i]);
    }
    free(s);
}
