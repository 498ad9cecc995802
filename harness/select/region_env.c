/* Axes of environments. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/region.h"
#include "harness/select/rules.h"

enum { CELLS_MAX = 1 << 26, VALUES_TEXT = 4096 };

static at_status add_point(at_region_axis *a, const char *text, at_error *err)
{
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->point[i].text, text) == 0) {
            return at_fail(err, AT_INVALID, "the environment \"%.80s\" stands twice", text);
        }
    }
    if (a->count == AT_REGION_POINTS) {
        return at_fail(err, AT_INVALID, "more than %d values", AT_REGION_POINTS);
    }
    char *copy = strdup(text);
    AT_ASSERT(copy != NULL); /* only memory can run out */
    a->point[a->count] = (at_region_point){.text = copy, .rank = (int)a->count};
    a->count++;
    return AT_OK;
}

static void drop_axis(at_region_axis *a)
{
    for (size_t i = 0; i < a->count; i++) {
        free(a->point[i].text);
    }
    free(a->point);
}

/* Puts the axis behind those of environments that are there. */
static at_status insert_axis(at_region *r, const at_region_axis *a, at_error *err)
{
    for (size_t i = 0; i < r->axes; i++) {
        if (strcmp(r->axis[i].name, a->name) == 0) {
            return at_fail(err, AT_INVALID, "the axis %s stands twice", a->name);
        }
    }
    if (r->axes == AT_REGION_AXES || r->cells * a->count > CELLS_MAX) {
        return at_fail(err, AT_INVALID, "more than %d axes or %d cases, with the environments",
                       AT_REGION_AXES, CELLS_MAX);
    }
    memmove(r->axis + r->env_axes + 1, r->axis + r->env_axes,
            (r->axes - r->env_axes) * sizeof *r->axis);
    r->axis[r->env_axes++] = *a;
    r->axes++;
    r->envs *= a->count;
    r->cells *= a->count;
    r->left += r->left >= 0;
    r->right += r->right >= 0;
    for (size_t i = 0; i < r->followers; i++) {
        r->follower[i].axis += r->follower[i].axis >= 0;
    }
    return AT_OK;
}

static bool given(const at_region_sweep_request *request, const char *key)
{
    return request->given != NULL && at_env_get(request->given, key) != NULL;
}

static const at_env_key *find_key(const at_region_sweep_request *request, const char *key,
                                  at_error *err)
{
    for (size_t i = 0; i < request->table_count; i++) {
        const at_env_key *k = at_env_table_find(request->table[i], key);
        if (k != NULL) {
            return k;
        }
    }
    (void)at_fail(err, AT_INVALID, "no environment key is called \"%.60s\"", key);
    return NULL;
}

static void put_value(char text[VALUES_TEXT], const char *value)
{
    size_t used = strlen(text);
    (void)snprintf(text + used, VALUES_TEXT - used, "%s%s", used > 0 ? "," : "", value);
}

static int is_json(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

static int by_release(const void *a, const void *b)
{
    at_release x, y;
    const char *s = *(char *const *)a, *t = *(char *const *)b;
    return at_release_parse(&x, s, strlen(s), NULL) == AT_OK && x.count > 0 &&
                   at_release_parse(&y, t, strlen(t), NULL) == AT_OK && y.count > 0
               ? at_release_compare(&x, &y)
               : strcmp(s, t);
}

/* The builds of the package that have a capability set: fa3-2025-02.json is one of fa3. */
static void list_builds(char text[VALUES_TEXT], const char *corpus, const char *key)
{
    char path[4096];
    struct dirent **entry = NULL;
    char *found[AT_REGION_POINTS];
    size_t n = strlen(key), count = 0;
    (void)snprintf(path, sizeof path, "%s/capabilities", corpus);
    int entries = scandir(path, &entry, is_json, alphasort);
    for (int i = 0; i < entries; i++) {
        char *name = entry[i]->d_name;
        name[strlen(name) - 5] = '\0';
        at_release release;
        if (strncmp(name, key, n) == 0 && name[n] == '-' && count < AT_REGION_POINTS &&
            at_release_parse(&release, name + n + 1, strlen(name + n + 1), NULL) == AT_OK) {
            found[count++] = name + n + 1;
        }
    }
    if (count > 0) {
        qsort(found, count, sizeof *found, by_release);
    }
    for (size_t i = 0; i < count; i++) {
        put_value(text, found[i]);
    }
    for (int i = 0; i < entries; i++) {
        free(entry[i]);
    }
    free(entry);
}

/* All values of a key, in place of "*". */
static at_status list_all(char text[VALUES_TEXT], const at_env_key *k, const char *corpus,
                          at_error *err)
{
    const char *const *arch = at_case_field("arch", 4)->names;
    char number[32];
    text[0] = '\0';
    for (char **v = k->values; v != NULL && *v != NULL; v++) {
        put_value(text, *v);
    }
    if (k->values != NULL) {
        return AT_OK;
    }
    switch (k->type) {
    case AT_ENV_RELEASE:
        list_builds(text, corpus, k->key);
        break;
    case AT_ENV_BOOL:
        put_value(text, "0,1");
        break;
    case AT_ENV_INT:
        for (int64_t i = k->min; i <= k->max && i - k->min < AT_REGION_POINTS; i++) {
            (void)snprintf(number, sizeof number, "%lld", (long long)i);
            put_value(text, number);
        }
        break;
    case AT_ENV_ENUM:
        break;
    case AT_ENV_ARCH:
        for (int64_t i = AT_ARCH_SM80; arch[i] != NULL; i++) {
            put_value(text, arch[i]);
        }
        break;
    }
    return text[0] != '\0'
               ? AT_OK
               : at_fail(err, AT_INVALID,
                         "%s=* is not accepted: the corpus has no capability set %s-VERSION",
                         k->key, k->key);
}

/* One value or, of an integer, a range "1..8/2". */
static at_status add_values(at_region_axis *a, const at_env_key *k, const char *value, size_t n,
                            at_error *err)
{
    char text[256];
    long long first = 0, last = 0, step = 1;
    int end = 0;
    (void)snprintf(text, sizeof text, "%.*s", (int)(n < 200 ? n : 200), value);
    bool range = k->type == AT_ENV_INT && sscanf(text, "%lld..%lld%n", &first, &last, &end) == 2;
    if (range && text[end] != '\0') {
        range = sscanf(text + end, "/%lld%n", &step, &end) == 1;
    }
    if (!range) {
        char pair[512];
        (void)snprintf(pair, sizeof pair, "%s=%s", k->key, text);
        return n > 0 ? add_point(a, pair, err)
                     : at_fail(err, AT_INVALID, "a value of %s is missing", k->key);
    }
    if (step < 1 || last < first || (last - first) / step >= AT_REGION_POINTS) {
        return at_fail(err, AT_INVALID, "%s=%s is not accepted: a range such as 1..8 or 0..64/8",
                       k->key, text);
    }
    for (long long i = first; i <= last; i += step) {
        char pair[512];
        (void)snprintf(pair, sizeof pair, "%s=%lld", k->key, i);
        AT_TRY(add_point(a, pair, err));
    }
    return AT_OK;
}

static at_status sweep_key(at_region *r, const at_region_sweep_request *request, const char *key,
                           const char *values, at_error *err)
{
    char all[VALUES_TEXT];
    at_region_axis a = {.single = true};
    const at_env_key *k = find_key(request, key, err);
    if (k == NULL) {
        return AT_INVALID;
    }
    if (given(request, key)) {
        return AT_OK;
    }
    if (strcmp(values, "*") == 0) {
        AT_TRY(list_all(all, k, request->corpus, err));
        values = all;
    }
    (void)snprintf(a.name, sizeof a.name, "%s", key);
    a.point = calloc(AT_REGION_POINTS, sizeof *a.point);
    AT_ASSERT(a.point != NULL);
    at_status status = AT_OK;
    for (const char *v = values; status == AT_OK;) {
        size_t n = strcspn(v, ",");
        status = add_values(&a, k, v, n, err);
        v += n;
        if (*v++ == '\0') {
            break;
        }
    }
    status = status == AT_OK ? insert_axis(r, &a, err) : status;
    if (status != AT_OK) {
        drop_axis(&a);
    }
    return status;
}

/* The text without the keys that are given. */
static at_status without_given(char out[1024], const at_region_sweep_request *request,
                               const char *text, at_error *err)
{
    at_env *env = NULL;
    at_status status = at_env_set(&env, text, err);
    out[0] = '\0';
    for (size_t i = 0; status == AT_OK && i < at_env_size(env); i++) {
        const char *key = at_env_key_at(env, i);
        size_t used = strlen(out);
        status = find_key(request, key, err) != NULL ? AT_OK : AT_INVALID;
        if (status == AT_OK && !given(request, key)) {
            (void)snprintf(out + used, 1024 - used, "%s%s=%s", used > 0 ? "," : "", key,
                           at_env_get(env, key));
        }
    }
    at_env_close(env);
    return status;
}

/* "env": a list of environments. Those that `given` makes equal are one. */
static at_status sweep_list(at_region *r, const at_region_sweep_request *request,
                            const at_json *list, at_error *err)
{
    char text[1024];
    at_region_axis a = {.name = "env"};
    a.point = calloc(AT_REGION_POINTS, sizeof *a.point);
    AT_ASSERT(a.point != NULL);
    at_status status = AT_OK;
    for (const at_json *m = at_json_first(list); m != NULL && status == AT_OK;
         m = at_json_next(m)) {
        status = at_json_text(m) != NULL ? without_given(text, request, at_json_text(m), err)
                                         : at_fail(err, AT_INVALID, "it must hold texts");
        bool again = false;
        for (size_t i = 0; i < a.count && status == AT_OK; i++) {
            again =
                again || (at_env_size(request->given) > 0 && strcmp(a.point[i].text, text) == 0);
        }
        status = status == AT_OK && !again ? add_point(&a, text, err) : status;
    }
    bool idle = a.count == 0 || (a.count == 1 && a.point[0].text[0] == '\0');
    status = status == AT_OK && !idle ? insert_axis(r, &a, err) : status;
    if (status != AT_OK || idle) {
        drop_axis(&a);
    }
    return status;
}

static at_status sweep_document(at_region *r, const at_region_sweep_request *request, at_error *err)
{
    const at_json *env = r->document != NULL ? at_json_get(r->document, "env") : NULL;
    if (env == NULL) {
        return AT_OK;
    }
    if (at_json_type(env) == AT_JSON_ARRAY) {
        return sweep_list(r, request, env, err);
    }
    if (at_json_type(env) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID,
                       "it must be a list of environments, or an object of keys and their values");
    }
    for (const at_json *m = at_json_first(env); m != NULL; m = at_json_next(m)) {
        AT_TRY(at_json_text(m) != NULL
                   ? sweep_key(r, request, at_json_key(m), at_json_text(m), err)
                   : at_fail(err, AT_INVALID, "the values of %s must be a text", at_json_key(m)));
    }
    return AT_OK;
}

at_status at_region_sweep(at_region *region, const at_region_sweep_request *request, at_error *err)
{
    at_status status = sweep_document(region, request, err);
    if (status != AT_OK) {
        return at_fail_in(err, status, "space %s: \"env\"", region->name);
    }
    for (size_t i = 0; i < request->sweep_count; i++) {
        const char *text = request->sweep[i], *equals = strchr(text, '=');
        char key[64];
        if (equals == NULL || equals == text || equals[1] == '\0' ||
            equals - text >= (ptrdiff_t)sizeof key) {
            return at_fail(err, AT_INVALID,
                           "--sweep %.80s is not KEY=VALUES, such as cudnn=9.10.0,9.18.0 or fa3=*",
                           text);
        }
        (void)snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
        if (given(request, key)) {
            return at_fail(err, AT_INVALID, "--sweep %s: the environment gives %s already", key,
                           key);
        }
        status = sweep_key(region, request, key, equals + 1, err);
        if (status != AT_OK) {
            return at_fail_in(err, status, "--sweep %s", key);
        }
    }
    return AT_OK;
}

uint64_t at_region_env_of(const at_region *region, uint64_t cell)
{
    return cell / (region->cells / region->envs);
}

bool at_region_sweeps(const at_region *region, const char *key)
{
    size_t n = strlen(key);
    for (size_t a = 0; a < region->env_axes; a++) {
        for (size_t i = 0; i < region->axis[a].count; i++) {
            for (const char *t = region->axis[a].point[i].text; t != NULL; t = strchr(t, ',')) {
                t += *t == ',';
                if (strncmp(t, key, n) == 0 && t[n] == '=') {
                    return true;
                }
            }
        }
    }
    return false;
}

at_status at_region_env(at_env **env, const at_region *region, uint64_t number, at_error *err)
{
    for (size_t a = region->env_axes; a-- > 0;) {
        const at_region_axis *axis = &region->axis[a];
        AT_TRY(at_env_set(env, axis->point[number % axis->count].text, err));
        number /= axis->count;
    }
    return AT_OK;
}
