#include "harness/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* at_json is cJSON under another name, so that no other file sees the library. */
enum { SIZE_LIMIT = 64 << 20, DEPTH_LIMIT = 200 };
#define EXACT_INTEGER 9007199254740992.0 /* 2^53 */

static cJSON *node(at_json *value)
{
    return (cJSON *)(void *)value;
}

static const cJSON *node_const(const at_json *value)
{
    return (const cJSON *)(const void *)value;
}

static at_json *wrap(cJSON *value)
{
    AT_ASSERT(value != NULL); /* only memory can run out */
    return (at_json *)(void *)value;
}

static const at_json *wrap_const(const cJSON *value)
{
    return (const at_json *)(const void *)value;
}

static at_status fail_at(at_error *err, const char *name, const char *text, size_t offset,
                         const char *what)
{
    int line = 1, column = 1;
    for (size_t i = 0; i < offset && text[i] != '\0'; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    return at_fail(err, AT_INVALID, "%s:%d:%d: %s", name, line, column, what);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static at_status check_keys(const cJSON *object, const char *name, at_error *err)
{
    size_t n = (size_t)cJSON_GetArraySize(object), i = 0;
    const char **keys = calloc(n + 1, sizeof *keys);
    if (keys == NULL) {
        return at_fail(err, AT_NO_MEMORY, "%s: no memory for %zu keys", name, n);
    }
    for (const cJSON *m = object->child; m != NULL; m = m->next) {
        keys[i++] = m->string;
    }
    qsort(keys, n, sizeof *keys, compare_keys);
    at_status status = AT_OK;
    for (i = 1; i < n && status == AT_OK; i++) {
        if (strcmp(keys[i - 1], keys[i]) == 0) {
            status = at_fail(err, AT_INVALID, "%s: the key \"%.100s\" stands twice in one object",
                             name, keys[i]);
        }
    }
    free(keys);
    return status;
}

static at_status check_tree(const cJSON *value, const char *name, int depth, at_error *err)
{
    if (depth > DEPTH_LIMIT) {
        return at_fail(err, AT_INVALID, "%s: nested deeper than %d", name, DEPTH_LIMIT);
    }
    if (cJSON_IsObject(value)) {
        AT_TRY(check_keys(value, name, err));
    }
    for (const cJSON *m = value->child; m != NULL; m = m->next) {
        AT_TRY(check_tree(m, name, depth + 1, err));
    }
    return AT_OK;
}

/* The document must end where cJSON stopped, apart from blanks. */
static at_status parse_text(cJSON **out, const char *name, const char *text, size_t length,
                            at_error *err)
{
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, length + 1, &end, 0);
    if (root == NULL) {
        size_t offset = end != NULL ? (size_t)(end - text) : 0;
        return fail_at(err, name, text, offset,
                       length == 0 ? "the file is empty, a JSON document was expected"
                                   : "not valid JSON here");
    }
    size_t rest = (size_t)(end - text);
    rest += strspn(text + rest, " \t\r\n");
    at_status status = rest < length
                           ? fail_at(err, name, text, rest, "text after the end of the document")
                           : check_tree(root, name, 0, err);
    if (status != AT_OK) {
        cJSON_Delete(root);
        return status;
    }
    *out = root;
    return AT_OK;
}

at_status at_json_parse(at_json **out, const char *name, const char *text, size_t length,
                        at_error *err)
{
    *out = NULL;
    if (length > SIZE_LIMIT) {
        return at_fail(err, AT_INVALID, "%s: %zu bytes, at most %d are read", name, length,
                       SIZE_LIMIT);
    }
    const char *nul = memchr(text, '\0', length);
    if (nul != NULL) {
        return fail_at(err, name, text, (size_t)(nul - text), "a NUL byte, JSON is text");
    }
    char *copy = malloc(length + 1);
    if (copy == NULL) {
        return at_fail(err, AT_NO_MEMORY, "%s: no memory for %zu bytes", name, length);
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    cJSON *root = NULL;
    at_status status = parse_text(&root, name, copy, length, err);
    free(copy);
    *out = root != NULL ? wrap(root) : NULL;
    return status;
}

at_status at_json_load(at_json **out, const char *path, at_error *err)
{
    *out = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return at_fail(err, AT_IO, "%s: cannot be read (%s)", path, strerror(errno));
    }
    at_status status = AT_OK;
    size_t used = 0, room = 1 << 16;
    char *text = malloc(room);
    while (text != NULL) {
        size_t got = fread(text + used, 1, room - used, file);
        used += got;
        if (used < room || room > SIZE_LIMIT) {
            break;
        }
        char *larger = realloc(text, room *= 2);
        if (larger == NULL) {
            free(text);
        }
        text = larger;
    }
    if (text == NULL) {
        status = at_fail(err, AT_NO_MEMORY, "%s: no memory to read it", path);
    } else if (ferror(file)) {
        status = at_fail(err, AT_IO, "%s: cannot be read (%s)", path, strerror(errno));
    } else {
        status = at_json_parse(out, path, text, used, err);
    }
    free(text);
    (void)fclose(file);
    return status;
}

void at_json_close(at_json *root)
{
    cJSON_Delete(node(root));
}

at_json_kind at_json_type(const at_json *value)
{
    const cJSON *v = node_const(value);
    return cJSON_IsObject(v)   ? AT_JSON_OBJECT
           : cJSON_IsArray(v)  ? AT_JSON_ARRAY
           : cJSON_IsString(v) ? AT_JSON_STRING
           : cJSON_IsNumber(v) ? AT_JSON_NUMBER
           : cJSON_IsBool(v)   ? AT_JSON_BOOL
                               : AT_JSON_NULL;
}

const char *at_json_kind_name(at_json_kind kind)
{
    static const char *const names[] = {"null",     "true or false", "a number",
                                        "a string", "an array",      "an object"};
    return names[kind];
}

const at_json *at_json_get(const at_json *object, const char *key)
{
    return wrap_const(cJSON_GetObjectItemCaseSensitive(node_const(object), key));
}

size_t at_json_size(const at_json *array_or_object)
{
    return (size_t)cJSON_GetArraySize(node_const(array_or_object));
}

const at_json *at_json_first(const at_json *array_or_object)
{
    return array_or_object != NULL ? wrap_const(node_const(array_or_object)->child) : NULL;
}

const at_json *at_json_next(const at_json *value)
{
    return wrap_const(node_const(value)->next);
}

const char *at_json_key(const at_json *member)
{
    return node_const(member)->string;
}

const char *at_json_text(const at_json *value)
{
    return cJSON_IsString(node_const(value)) ? node_const(value)->valuestring : NULL;
}

bool at_json_number(const at_json *value, double *out)
{
    if (!cJSON_IsNumber(node_const(value))) {
        return false;
    }
    *out = node_const(value)->valuedouble;
    return true;
}

bool at_json_integer(const at_json *value, int64_t *out)
{
    double x = 0;
    if (!at_json_number(value, &x) || !(fabs(x) <= EXACT_INTEGER) || x != floor(x)) {
        return false;
    }
    *out = (int64_t)x;
    return true;
}

bool at_json_bool(const at_json *value, bool *out)
{
    if (!cJSON_IsBool(node_const(value))) {
        return false;
    }
    *out = cJSON_IsTrue(node_const(value)) != 0;
    return true;
}

/* Finds a member; *found stays NULL for an absent optional one. */
static at_status find(const at_json *object, const char *key, bool required, at_json_kind kind,
                      const at_json **found, at_error *err)
{
    const at_json *value = at_json_get(object, key);
    *found = NULL;
    if (value == NULL) {
        return required ? at_fail(err, AT_INVALID, "the member \"%s\" is missing, it must be %s",
                                  key, at_json_kind_name(kind))
                        : AT_OK;
    }
    if (at_json_type(value) != kind) {
        return at_fail(err, AT_INVALID, "the member \"%s\" must be %s, it is %s", key,
                       at_json_kind_name(kind), at_json_kind_name(at_json_type(value)));
    }
    *found = value;
    return AT_OK;
}

at_status at_json_want_text(const at_json *object, const char *key, bool required, const char **out,
                            at_error *err)
{
    const at_json *value = NULL;
    AT_TRY(find(object, key, required, AT_JSON_STRING, &value, err));
    *out = value != NULL ? at_json_text(value) : *out;
    return AT_OK;
}

at_status at_json_want_integer(const at_json *object, const char *key, bool required, int64_t *out,
                               at_error *err)
{
    const at_json *value = NULL;
    AT_TRY(find(object, key, required, AT_JSON_NUMBER, &value, err));
    if (value != NULL && !at_json_integer(value, out)) {
        return at_fail(err, AT_INVALID, "the member \"%s\" must be an integer", key);
    }
    return AT_OK;
}

at_status at_json_want_number(const at_json *object, const char *key, bool required, double *out,
                              at_error *err)
{
    const at_json *value = NULL;
    AT_TRY(find(object, key, required, AT_JSON_NUMBER, &value, err));
    if (value != NULL) {
        (void)at_json_number(value, out);
    }
    return AT_OK;
}

at_status at_json_want_bool(const at_json *object, const char *key, bool required, bool *out,
                            at_error *err)
{
    const at_json *value = NULL;
    AT_TRY(find(object, key, required, AT_JSON_BOOL, &value, err));
    if (value != NULL) {
        (void)at_json_bool(value, out);
    }
    return AT_OK;
}

at_status at_json_want_array(const at_json *object, const char *key, bool required,
                             const at_json **out, at_error *err)
{
    const at_json *value = NULL;
    AT_TRY(find(object, key, required, AT_JSON_ARRAY, &value, err));
    *out = value != NULL ? value : *out;
    return AT_OK;
}

at_status at_json_want_object(const at_json *object, const char *key, bool required,
                              const at_json **out, at_error *err)
{
    const at_json *value = NULL;
    AT_TRY(find(object, key, required, AT_JSON_OBJECT, &value, err));
    *out = value != NULL ? value : *out;
    return AT_OK;
}

static bool is_listed(const char *key, const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        if (strcmp(key, *keys) == 0) {
            return true;
        }
    }
    return false;
}

at_status at_json_only_keys(const at_json *object, const char *const *keys, at_error *err)
{
    for (const at_json *m = at_json_first(object); m != NULL; m = at_json_next(m)) {
        if (is_listed(at_json_key(m), keys)) {
            continue;
        }
        char accepted[256] = "";
        for (size_t i = 0, used = 0; keys[i] != NULL && used < sizeof accepted; i++) {
            int n = snprintf(accepted + used, sizeof accepted - used, i ? ", %s" : "%s", keys[i]);
            used += n > 0 ? (size_t)n : 0;
        }
        return at_fail(err, AT_INVALID, "unknown member \"%.100s\"; accepted: %s", at_json_key(m),
                       accepted);
    }
    return AT_OK;
}

at_json *at_json_object(void)
{
    return wrap(cJSON_CreateObject());
}

at_json *at_json_array(void)
{
    return wrap(cJSON_CreateArray());
}

static cJSON *make_number(double value)
{
    char text[AT_REAL_TEXT];
    if (isfinite(value)) {
        return cJSON_CreateNumber(value);
    }
    (void)at_real_print(value, text);
    return cJSON_CreateString(text);
}

static cJSON *make_integer(int64_t value)
{
    char text[AT_REAL_TEXT];
    if (fabs((double)value) <= EXACT_INTEGER) {
        return cJSON_CreateNumber((double)value);
    }
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    return cJSON_CreateRaw(text);
}

void at_json_put(at_json *object, const char *key, at_json *value)
{
    AT_ASSERT(cJSON_AddItemToObject(node(object), key, node(value)));
}

void at_json_put_text(at_json *object, const char *key, const char *text)
{
    at_json_put(object, key, wrap(cJSON_CreateString(text)));
}

void at_json_put_number(at_json *object, const char *key, double value)
{
    at_json_put(object, key, wrap(make_number(value)));
}

void at_json_put_integer(at_json *object, const char *key, int64_t value)
{
    at_json_put(object, key, wrap(make_integer(value)));
}

void at_json_put_bool(at_json *object, const char *key, bool value)
{
    at_json_put(object, key, wrap(cJSON_CreateBool(value)));
}

void at_json_put_null(at_json *object, const char *key)
{
    at_json_put(object, key, wrap(cJSON_CreateNull()));
}

void at_json_add(at_json *array, at_json *value)
{
    AT_ASSERT(cJSON_AddItemToArray(node(array), node(value)));
}

void at_json_add_text(at_json *array, const char *text)
{
    at_json_add(array, wrap(cJSON_CreateString(text)));
}

void at_json_add_number(at_json *array, double value)
{
    at_json_add(array, wrap(make_number(value)));
}

void at_json_add_integer(at_json *array, int64_t value)
{
    at_json_add(array, wrap(make_integer(value)));
}

at_json *at_json_copy(const at_json *value)
{
    return wrap(cJSON_Duplicate(node_const(value), 1));
}

/* cJSON takes 15 digits for enough when they are near; ours read back as the same double. */
static void write_numbers(cJSON *value)
{
    for (cJSON *m = value->child; m != NULL; m = m->next) {
        write_numbers(m);
    }
    if (cJSON_IsNumber(value) && value->valuestring == NULL) {
        char text[AT_REAL_TEXT], quoted[AT_REAL_TEXT + 2];
        (void)at_real_print(value->valuedouble, text);
        (void)snprintf(quoted, sizeof quoted, isfinite(value->valuedouble) ? "%s" : "\"%s\"", text);
        value->valuestring = cJSON_malloc(sizeof quoted);
        AT_ASSERT(value->valuestring != NULL);
        memcpy(value->valuestring, quoted, sizeof quoted);
        value->type = cJSON_Raw | (value->type & ~0xff);
    }
}

char *at_json_print(const at_json *value, bool indented)
{
    cJSON *copy = cJSON_Duplicate(node_const(value), 1);
    AT_ASSERT(copy != NULL);
    write_numbers(copy);
    char *text = indented ? cJSON_Print(copy) : cJSON_PrintUnformatted(copy);
    AT_ASSERT(text != NULL);
    cJSON_Delete(copy);
    return text;
}
