#include "harness/select/env_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 32 };

static const at_field *arch_field(void)
{
    return at_case_field("arch", 4);
}

static char *copy(const char *text)
{
    char *made = strdup(text);
    AT_ASSERT(made != NULL); /* only memory can run out */
    return made;
}

static void clear_key(at_env_key *k)
{
    for (char **v = k->values; v != NULL && *v != NULL; v++) {
        free(*v);
    }
    free(k->values);
    free(k->key);
    free(k->doc);
}

void at_env_table_clear(at_env_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        clear_key(&table->key[i]);
    }
    table->count = 0;
}

const at_env_key *at_env_table_find(const at_env_table *table, const char *key)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->key[i].key, key) == 0) {
            return &table->key[i];
        }
    }
    return NULL;
}

/* Index of text in the list, -1 when it is not there. */
static int64_t index_of(const char *const *list, const char *text)
{
    for (int64_t i = 0; list[i] != NULL; i++) {
        if (strcmp(list[i], text) == 0) {
            return i;
        }
    }
    return -1;
}

static void list_names(char *out, size_t room, const char *const *list)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; list[i] != NULL && used < room; i++) {
        int n = snprintf(out + used, room - used, i ? ", %s" : "%s", list[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

static at_status refuse(const at_env_key *k, const char *text, const char *accepted, at_error *err)
{
    return at_fail(err, AT_INVALID, "environment: %s=%.80s is not accepted: %s", k->key, text,
                   accepted);
}

static at_status set_named(at_env_key *k, const char *text, const char *const *names, at_error *err)
{
    char list[300], accepted[320];
    k->value = index_of(names, text);
    if (k->value >= 0) {
        return AT_OK;
    }
    list_names(list, sizeof list, names);
    (void)snprintf(accepted, sizeof accepted, "one of %s", list);
    return refuse(k, text, accepted, err);
}

static at_status set_integer(at_env_key *k, const char *text, at_error *err)
{
    char *end = NULL, accepted[96];
    int64_t value = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && value >= k->min && value <= k->max) {
        k->value = value;
        return AT_OK;
    }
    (void)snprintf(accepted, sizeof accepted, "an integer %lld..%lld", (long long)k->min,
                   (long long)k->max);
    return refuse(k, text, accepted, err);
}

static at_status set_value(at_env_key *k, const char *text, at_error *err)
{
    at_error inner = {""};
    if (strlen(text) >= sizeof k->text) {
        return refuse(k, text, "the value is too long", err);
    }
    switch (k->type) {
    case AT_ENV_RELEASE:
        if (at_release_parse(&k->release, text, strlen(text), &inner) != AT_OK) {
            return refuse(k, text, "a version such as 2.8.3, 4.0.0b11 or 2025-02, or none", err);
        }
        break;
    case AT_ENV_BOOL:
        if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0) {
            return refuse(k, text, "0 or 1", err);
        }
        k->value = text[0] == '1';
        break;
    case AT_ENV_INT:
        AT_TRY(set_integer(k, text, err));
        break;
    case AT_ENV_ENUM:
        AT_TRY(set_named(k, text, (const char *const *)k->values, err));
        break;
    case AT_ENV_ARCH:
        AT_TRY(set_named(k, text, arch_field()->names, err));
        break;
    }
    (void)snprintf(k->text, sizeof k->text, "%s", text);
    return AT_OK;
}

static at_status read_values(at_env_key *k, const at_json *declared, at_error *err)
{
    const at_json *list = NULL;
    AT_TRY(at_json_want_array(declared, "values", true, &list, err));
    size_t n = at_json_size(list), i = 0;
    if (n == 0 || n > VALUES_MAX) {
        return at_fail(err, AT_INVALID, "\"values\" must hold 1 to %d texts", VALUES_MAX);
    }
    k->values = calloc(n + 1, sizeof *k->values);
    AT_ASSERT(k->values != NULL);
    for (const at_json *v = at_json_first(list); v != NULL; v = at_json_next(v)) {
        if (at_json_text(v) == NULL) {
            return at_fail(err, AT_INVALID, "\"values\" must hold texts");
        }
        k->values[i++] = copy(at_json_text(v));
        if (k->type != AT_ENV_ENUM) { /* those that audits sweep */
            AT_TRY(set_value(k, at_json_text(v), err));
        }
    }
    return AT_OK;
}

/* The default may be a text, a number or a truth value. */
static at_status read_default(at_env_key *k, const at_json *declared, at_error *err)
{
    const at_json *value = at_json_get(declared, "default");
    char text[32];
    int64_t number = 0;
    bool truth = false;
    if (value == NULL) {
        return at_fail(err, AT_INVALID, "the member \"default\" is missing");
    }
    if (at_json_text(value) != NULL) {
        return set_value(k, at_json_text(value), err);
    }
    if (at_json_bool(value, &truth)) {
        number = truth;
    } else if (!at_json_integer(value, &number)) {
        return at_fail(err, AT_INVALID, "\"default\" must be a text, an integer, true or false");
    }
    (void)snprintf(text, sizeof text, "%lld", (long long)number);
    return set_value(k, text, err);
}

static at_status declare_key(at_env_key *k, const char *key, const at_json *declared, at_error *err)
{
    static const char *const members[] = {"type", "default", "doc", "values", "min", "max", NULL};
    static const char *const types[] = {"version", "bool", "int", "enum", "arch", NULL};
    const char *type = NULL, *doc = NULL;
    bool arch = strcmp(key, "arch") == 0;
    if (at_json_type(declared) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "it must be an object with type, default and doc");
    }
    AT_TRY(at_json_only_keys(declared, members, err));
    AT_TRY(at_json_want_text(declared, "type", true, &type, err));
    AT_TRY(at_json_want_text(declared, "doc", true, &doc, err));
    int64_t at = index_of(types, type);
    if (at < 0) {
        return at_fail(err, AT_INVALID,
                       "the type \"%.40s\" is unknown; accepted: version, bool, int, enum, arch",
                       type);
    }
    if (arch != (at == AT_ENV_ARCH)) {
        return at_fail(err, AT_INVALID, "the key arch, and it alone, has the type arch");
    }
    if (!arch && !at_expr_name_usable(key)) {
        return at_fail(
            err, AT_INVALID,
            "a key is a word of letters, digits, _ and inner dots that is neither a case "
            "key nor a word of the expressions");
    }
    *k =
        (at_env_key){.key = copy(key), .doc = copy(doc), .type = (at_env_type)at, .max = INT64_MAX};
    AT_TRY(at_json_want_integer(declared, "min", false, &k->min, err));
    AT_TRY(at_json_want_integer(declared, "max", false, &k->max, err));
    if (k->type == AT_ENV_ENUM || at_json_get(declared, "values") != NULL) {
        AT_TRY(read_values(k, declared, err));
    }
    return read_default(k, declared, err);
}

at_status at_env_table_declare(at_env_table *table, const at_json *object, at_error *err)
{
    for (const at_json *m = at_json_first(object); m != NULL; m = at_json_next(m)) {
        at_env_key made = {0};
        at_status status = declare_key(&made, at_json_key(m), m, err);
        size_t i = 0;
        while (i < table->count && strcmp(table->key[i].key, at_json_key(m)) != 0) {
            i++;
        }
        if (status == AT_OK && i == AT_ENV_KEYS_MAX) {
            status = at_fail(err, AT_INVALID, "more than %d keys", AT_ENV_KEYS_MAX);
        }
        if (status != AT_OK) {
            clear_key(&made);
            return at_fail_in(err, status, "env \"%.60s\"", at_json_key(m));
        }
        if (i < table->count) {
            clear_key(&table->key[i]);
        } else {
            table->count++;
        }
        table->key[i] = made;
    }
    return AT_OK;
}

at_status at_env_table_resolve(at_env_table *table, const at_env *env, at_error *err)
{
    for (size_t i = 0; i < at_env_size(env); i++) {
        const char *key = at_env_key_at(env, i);
        size_t at = 0;
        while (at < table->count && strcmp(table->key[at].key, key) != 0) {
            at++;
        }
        if (at < table->count) {
            AT_TRY(set_value(&table->key[at], at_env_get(env, key), err));
            continue;
        }
        const char *names[AT_ENV_KEYS_MAX + 1] = {NULL};
        char list[360];
        for (size_t k = 0; k < table->count; k++) {
            names[k] = table->key[k].key;
        }
        list_names(list, sizeof list, names);
        return at_fail(err, AT_INVALID, "environment: unknown key \"%.60s\"; accepted: %s", key,
                       table->count > 0 ? list : "none");
    }
    return AT_OK;
}

size_t at_env_table_names(const at_env_table *table, at_expr_name *out)
{
    static const at_expr_type types[] = {[AT_ENV_RELEASE] = AT_EXPR_RELEASE,
                                         [AT_ENV_BOOL] = AT_EXPR_BOOL,
                                         [AT_ENV_INT] = AT_EXPR_INT,
                                         [AT_ENV_ENUM] = AT_EXPR_NAME};
    size_t n = 0;
    for (size_t i = 0; i < table->count; i++) {
        const at_env_key *k = &table->key[i];
        if (k->type != AT_ENV_ARCH) {
            out[n++] = (at_expr_name){
                .name = k->key,
                .type = types[k->type],
                .slot = -1,
                .value = k->value,
                .names = k->type == AT_ENV_ENUM ? (const char *const *)k->values : NULL,
                .release = k->release};
        }
    }
    return n;
}
