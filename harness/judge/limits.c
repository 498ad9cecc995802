#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error "verdicts need NaN and infinities"
#endif
#include "harness/judge/limits.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES_MAX = 8, GROUPS_MAX = 16, FILLS_MAX = 32, COLUMNS = 7 };

const at_fill_group at_fill_groups[AT_FILL_GROUPS] = {
    {"smooth", {"normal", "lowrank", NULL}},
    {"positive", {"uniform01", NULL}},
    {"peaked", {"outlier", "peaky", "sink_heavy", "deep_neg", NULL}},
    {"edge", {"constant", "denormal", NULL}},
};
const char *const at_fills_without_limits[] = {"small_int", NULL};

typedef struct cell {
    double limit[AT_STAT_COUNT][AT_LIMIT_BINS]; /* 0: none */
} cell;

struct at_limits {
    int classes, groups, tensors;
    char class_name[CLASSES_MAX][AT_CLASS_TEXT];
    char group_name[GROUPS_MAX][32];
    int group_of[FILLS_MAX]; /* -1: no limits */
    bool known[FILLS_MAX], has_dtype[AT_DTYPE_COUNT], has_tensor[AT_TENSOR_COUNT];
    cell cell[CLASSES_MAX][AT_DTYPE_COUNT][GROUPS_MAX][AT_TENSOR_COUNT];
};

void at_limits_class(const at_numeric_class *numeric, char text[AT_CLASS_TEXT])
{
    (void)snprintf(text, AT_CLASS_TEXT, "%s%s%s%s%s", numeric->p == AT_P_F32 ? "f32" : "stored",
                   numeric->scores_stored ? "+scores" : "", numeric->d_from_p ? "+d_from_p" : "",
                   numeric->head_rounded ? "+head_rounded" : "",
                   numeric->inputs_scaled ? "+inputs_scaled" : "");
}

double at_limits_score(const at_measure *m, at_stat stat, const at_case *c)
{
    double keys = (double)c->len_kv;
    return stat == AT_STAT_ERROR ? m->score[stat] / sqrt(1 + keys / 64) : m->score[stat];
}

int at_limits_bin(at_stat stat, int64_t compared)
{
    bool average = stat == AT_STAT_RMS || stat == AT_STAT_BIAS || stat == AT_STAT_ERROR;
    return average && compared >= AT_LIMIT_MANY ? 1 : 0;
}

bool at_limits_apply(at_tensor_id tensor, at_stat stat)
{
    return stat != AT_STAT_ERROR || tensor == AT_LSE;
}

static int find(const char *name, const char *const *names)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static int find_class(const at_limits *l, const char *name)
{
    int i = l->classes - 1;
    while (i >= 0 && strcmp(l->class_name[i], name) != 0) {
        i--;
    }
    return i;
}

static int find_group(const at_limits *l, const char *name)
{
    int i = l->groups - 1;
    while (i >= 0 && strcmp(l->group_name[i], name) != 0) {
        i--;
    }
    return i;
}

static at_status read_names(const at_json *root, const char *key, const char *const *names,
                            bool *has, int *n, at_error *err)
{
    const at_json *list = NULL;
    AT_TRY(at_json_want_array(root, key, true, &list, err));
    for (const at_json *item = at_json_first(list); item != NULL; item = at_json_next(item)) {
        const char *name = at_json_text(item);
        int i = name != NULL ? find(name, names) : -1;
        if (i < 0) {
            return at_fail(err, AT_INVALID, "\"%s\" lists \"%.40s\", which is no name of one", key,
                           name != NULL ? name : "something that is no text");
        }
        has[i] = true;
        *n += 1;
    }
    return *n > 0 ? AT_OK : at_fail(err, AT_INVALID, "\"%s\" is empty", key);
}

static at_status read_fills(at_limits *l, const at_json *list, int group, at_error *err)
{
    const at_field *fill = at_case_field("fill", 4);
    for (const at_json *item = at_json_first(list); item != NULL; item = at_json_next(item)) {
        const char *name = at_json_text(item);
        int i = name != NULL ? find(name, fill->names) : -1;
        if (i < 0 || l->known[i]) {
            return at_fail(err, AT_INVALID, "the distribution \"%.40s\" is %s",
                           name != NULL ? name : "?", i < 0 ? "unknown" : "listed twice");
        }
        l->known[i] = true;
        l->group_of[i] = group;
    }
    return AT_OK;
}

static at_status read_groups(at_limits *l, const at_json *root, at_error *err)
{
    const at_field *fill = at_case_field("fill", 4);
    const at_json *groups = NULL, *without = NULL;
    AT_TRY(at_json_want_object(root, "groups", true, &groups, err));
    AT_TRY(at_json_want_array(root, "without_limits", true, &without, err));
    for (const at_json *g = at_json_first(groups); g != NULL; g = at_json_next(g)) {
        if (l->groups == GROUPS_MAX || at_json_type(g) != AT_JSON_ARRAY) {
            return at_fail(err, AT_INVALID, "\"groups\" must hold at most %d lists of names",
                           GROUPS_MAX);
        }
        (void)snprintf(l->group_name[l->groups], sizeof l->group_name[0], "%s", at_json_key(g));
        AT_TRY(read_fills(l, g, l->groups++, err));
    }
    AT_TRY(read_fills(l, without, -1, err));
    for (int i = 0; fill->names[i] != NULL; i++) {
        if (!l->known[i]) {
            return at_fail(err, AT_INVALID,
                           "the distribution \"%s\" is in no group, nor under \"without_limits\"",
                           fill->names[i]);
        }
    }
    return AT_OK;
}

static at_status read_classes(at_limits *l, const at_json *root, at_error *err)
{
    const at_json *list = NULL;
    AT_TRY(at_json_want_array(root, "classes", true, &list, err));
    for (const at_json *item = at_json_first(list); item != NULL; item = at_json_next(item)) {
        const char *name = at_json_text(item);
        if (name == NULL || l->classes == CLASSES_MAX || strlen(name) >= AT_CLASS_TEXT) {
            return at_fail(err, AT_INVALID, "\"classes\" must hold at most %d names", CLASSES_MAX);
        }
        (void)snprintf(l->class_name[l->classes++], AT_CLASS_TEXT, "%s", name);
    }
    return l->classes > 0 ? AT_OK : at_fail(err, AT_INVALID, "\"classes\" is empty");
}

/* [runs, threshold, excesses, shape, scale, largest, limit] */
static at_status read_limit(double *out, const at_json *row, const char *stat, at_error *err)
{
    double x[COLUMNS] = {0};
    const at_json *item = at_json_type(row) == AT_JSON_ARRAY ? at_json_first(row) : NULL;
    if (item == NULL || at_json_size(row) != COLUMNS) {
        return at_fail(err, AT_INVALID, "a limit of %s must be an array of %d numbers", stat,
                       COLUMNS);
    }
    for (int i = 0; item != NULL; i++, item = at_json_next(item)) {
        if (!at_json_number(item, &x[i]) || !isfinite(x[i])) {
            return at_fail(err, AT_INVALID, "a limit of %s must be an array of %d numbers", stat,
                           COLUMNS);
        }
    }
    if (!(x[0] >= AT_LIMITS_RUNS_MIN)) {
        return at_fail(err, AT_INVALID,
                       "the limit of %s stands on %.0f runs; at least %d are needed", stat, x[0],
                       AT_LIMITS_RUNS_MIN);
    }
    if (!(x[6] > 0)) {
        return at_fail(err, AT_INVALID, "the limit of %s is %.17g; it must be positive", stat,
                       x[6]);
    }
    *out = x[6];
    return AT_OK;
}

static at_status read_stats(cell *out, const at_json *object, at_error *err)
{
    for (int s = 0; s < AT_STAT_COUNT; s++) {
        const at_json *bins = NULL;
        AT_TRY(at_json_want_array(object, at_stat_names[s], false, &bins, err));
        const at_json *bin = bins != NULL ? at_json_first(bins) : NULL;
        for (int i = 0; bin != NULL && i < AT_LIMIT_BINS; i++, bin = at_json_next(bin)) {
            AT_TRY(read_limit(&out->limit[s][i], bin, at_stat_names[s], err));
        }
    }
    return AT_OK;
}

static at_status read_cell(at_limits *l, const at_json *object, at_error *err)
{
    const char *word[4] = {NULL}, *const keys[] = {"class", "dtype", "group", "tensor"};
    for (int i = 0; i < 4; i++) {
        AT_TRY(at_json_want_text(object, keys[i], true, &word[i], err));
    }
    int at[4] = {find_class(l, word[0]), find(word[1], at_dtype_names), find_group(l, word[2]),
                 find(word[3], at_tensor_names)};
    for (int i = 0; i < 4; i++) {
        if (at[i] < 0) {
            return at_fail(err, AT_INVALID,
                           "a cell has the %s \"%.40s\", which the file does not "
                           "declare",
                           keys[i], word[i]);
        }
    }
    at_status status = read_stats(&l->cell[at[0]][at[1]][at[2]][at[3]], object, err);
    return status == AT_OK
               ? status
               : at_fail_in(err, status, "cell %s %s %s %s", word[0], word[1], word[2], word[3]);
}

/* Every combination that the file declares has every limit. */
static at_status check_complete(const at_limits *l, at_error *err)
{
    int sizes[] = {AT_DTYPE_COUNT, l->groups, AT_TENSOR_COUNT, AT_STAT_COUNT};
    for (int n = 0; n < l->classes * sizes[0] * sizes[1] * sizes[2] * sizes[3]; n++) {
        int s = n % sizes[3], t = n / sizes[3] % sizes[2], g = n / sizes[3] / sizes[2] % sizes[1];
        int d = n / sizes[3] / sizes[2] / sizes[1] % sizes[0];
        int k = n / sizes[3] / sizes[2] / sizes[1] / sizes[0];
        bool wanted =
            l->has_dtype[d] && l->has_tensor[t] && at_limits_apply((at_tensor_id)t, (at_stat)s);
        if (wanted && !(l->cell[k][d][g][t].limit[s][0] > 0)) {
            return at_fail(
                err, AT_INVALID,
                "no limit of %s for class %s, dtype %s, group %s, tensor %s, all of which "
                "the file declares",
                at_stat_names[s], l->class_name[k], at_dtype_names[d], l->group_name[g],
                at_tensor_names[t]);
        }
    }
    return AT_OK;
}

static at_status read_limits(at_limits *l, const at_json *root, at_error *err)
{
    const char *schema = NULL;
    const at_json *cells = NULL;
    double tail = 0;
    int dtypes = 0;
    AT_TRY(at_json_want_text(root, "schema", true, &schema, err));
    if (strcmp(schema, AT_LIMITS_SCHEMA) != 0) {
        return at_fail(err, AT_INVALID, "the schema is \"%.40s\"; this attest reads \"%s\"", schema,
                       AT_LIMITS_SCHEMA);
    }
    AT_TRY(at_json_want_number(root, "tail", true, &tail, err));
    if (!(tail > 0 && tail <= AT_LIMITS_TAIL)) {
        return at_fail(err, AT_INVALID, "the tail probability is %.17g; it must be at most %g",
                       tail, AT_LIMITS_TAIL);
    }
    AT_TRY(read_classes(l, root, err));
    AT_TRY(read_groups(l, root, err));
    AT_TRY(read_names(root, "dtypes", at_dtype_names, l->has_dtype, &dtypes, err));
    AT_TRY(read_names(root, "tensors", at_tensor_names, l->has_tensor, &l->tensors, err));
    AT_TRY(at_json_want_array(root, "cells", true, &cells, err));
    for (const at_json *item = at_json_first(cells); item != NULL; item = at_json_next(item)) {
        if (at_json_type(item) != AT_JSON_OBJECT) {
            return at_fail(err, AT_INVALID, "\"cells\" must hold objects");
        }
        AT_TRY(read_cell(l, item, err));
    }
    return check_complete(l, err);
}

at_status at_limits_open(at_limits **out, const char *path, at_error *err)
{
    at_json *root = NULL;
    AT_TRY(at_json_load(&root, path, err));
    at_limits *l = calloc(1, sizeof *l);
    at_status status = l == NULL ? at_fail(err, AT_NO_MEMORY, "no memory for limits")
                       : at_json_type(root) != AT_JSON_OBJECT
                           ? at_fail(err, AT_INVALID, "the file must hold an object")
                           : read_limits(l, root, err);
    at_json_close(root);
    if (status != AT_OK) {
        free(l);
        return at_fail_in(err, status, "limits %s", path);
    }
    *out = l;
    return AT_OK;
}

at_status at_limits_open_corpus(at_limits **out, const char *corpus, at_error *err)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/limits/cpu.json", corpus);
    return at_limits_open(out, path, err);
}

void at_limits_close(at_limits *limits)
{
    free(limits);
}

at_status at_limits_require(const at_limits *limits, const at_numeric_class *numeric, at_error *err)
{
    char name[AT_CLASS_TEXT], there[256] = "";
    at_limits_class(numeric, name);
    if (find_class(limits, name) >= 0) {
        return AT_OK;
    }
    for (int i = 0; i < limits->classes; i++) {
        size_t used = strlen(there);
        (void)snprintf(there + used, sizeof there - used, "%s%s", i > 0 ? ", " : "",
                       limits->class_name[i]);
    }
    return at_fail(err, AT_INVALID, "no limits for the numeric class %s; there are some for %s",
                   name, there);
}

static void check_tensor(at_exceeded *out, const cell *limits, const at_case *c,
                         const at_measure *m, at_step step, at_tensor_id tensor)
{
    for (int s = 0; s < AT_STAT_COUNT; s++) {
        int bin = at_limits_bin((at_stat)s, m->compared);
        double limit = limits->limit[s][bin] > 0 ? limits->limit[s][bin] : limits->limit[s][0];
        double score = at_limits_score(m, (at_stat)s, c);
        if (!at_limits_apply(tensor, (at_stat)s) || score <= limit) {
            continue;
        }
        out->at[tensor][s] = true;
        out->limits[tensor][s] = limit;
        if (out->n++ == 0) {
            out->step = step;
            out->tensor = tensor;
            out->stat = (at_stat)s;
            out->score = score;
            out->limit = limit;
        }
    }
}

bool at_limits_check(at_exceeded *out, const at_limits *limits, const at_numeric_class *numeric,
                     const at_case *c, const at_verdict *v)
{
    char name[AT_CLASS_TEXT];
    memset(out, 0, sizeof *out);
    at_limits_class(numeric, name);
    int k = find_class(limits, name), g = limits->group_of[c->fill], compared = 0;
    if (k < 0 || g < 0 || c->odt != c->dtype || !limits->has_dtype[c->dtype]) {
        return false;
    }
    for (int s = AT_STEP_FORWARD; s < AT_STEP_COUNT; s++) {
        for (int t = 0; t < AT_TENSOR_COUNT && v->step[s].ran; t++) {
            const at_measure *m = &v->step[s].m[t];
            if (m->judged && m->compared > 0 && limits->has_tensor[t]) {
                check_tensor(out, &limits->cell[k][c->dtype][g][t], c, m, (at_step)s,
                             (at_tensor_id)t);
                compared++;
            }
        }
    }
    return compared > 0;
}
