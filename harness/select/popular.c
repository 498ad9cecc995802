#include "harness/select/popular.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/case/field.h"
#include "harness/select/expr.h"

enum { FEATURES_MAX = 16, POINTS_MAX = 24, WINS_NOT = 10, OTHER_GROUPING = 50 };

/* A cell of one environment that the model meets, and how common it is: 1 = 100 %. */
typedef struct meeting {
    uint64_t cell;
    double share;
} meeting;

typedef struct model {
    const char *name;
    at_case c;
    uint64_t given;
    int64_t weight;
    size_t count, room;
    meeting *met; /* the most common first */
} model;

/* The first point that holds counts; none: 1 %. */
typedef struct feature {
    size_t count;
    at_expr *when[POINTS_MAX];
    int64_t percent[POINTS_MAX];
} feature;

struct at_popular {
    const at_region *region;
    at_json *document;
    size_t count, features;
    model model[AT_POPULAR_MAX];
    feature feature[FEATURES_MAX];
    double weight; /* of all models */
};

enum { MASK_NONE, MASK_CAUSAL, MASK_WINDOW, MASK_BAND };

static int mask_kind(const at_case *c)
{
    if (c->mask == AT_MASK_NONE) {
        return c->len_q == 1 ? MASK_CAUSAL : MASK_NONE;
    }
    if (c->mask == AT_MASK_CAUSAL || c->window_right == 0) {
        return c->window_left < 0 ? MASK_CAUSAL : MASK_WINDOW;
    }
    return MASK_BAND;
}

/* Keys that a model is not compared by, or not by equality. */
static bool is_shape(const at_field *f)
{
    static const char *const keys[] = {"hq", "hkv",  "hv",    "sq", "skv", "dqk",
                                       "dv", "mask", "align", "wl", "wr",  NULL};
    size_t i = 0;
    while (keys[i] != NULL && strcmp(keys[i], f->key) != 0) {
        i++;
    }
    return keys[i] != NULL;
}

/* Share of the model's users, by its heads; 0: it does not meet the case. */
static double share_of_model(const model *m, const at_case *c)
{
    int kind = m->c.mask == AT_MASK_NONE ? MASK_NONE : mask_kind(&m->c);
    if (c->dim_qk != m->c.dim_qk || c->dim_v != m->c.dim_v || c->heads_kv == 0 ||
        mask_kind(c) != kind || (c->heads_q == c->heads_kv) != (m->c.heads_q == m->c.heads_kv)) {
        return 0;
    }
    for (size_t row = 0; row < at_case_field_count; row++) {
        const at_field *f = &at_case_fields[row];
        if ((m->given >> row & 1) != 0 && !is_shape(f) && !at_case_same(c, &m->c, f)) {
            return 0;
        }
    }
    bool same = c->heads_q * m->c.heads_kv == c->heads_kv * m->c.heads_q;
    return same ? 1 : OTHER_GROUPING / 100.0;
}

static at_status share_of_features(double *share, const at_popular *p, const at_case *c,
                                   at_error *err)
{
    for (size_t i = 0; i < p->features; i++) {
        const feature *f = &p->feature[i];
        bool holds = false;
        int64_t percent = 1;
        for (size_t k = 0; k < f->count && !holds; k++) {
            AT_TRY(at_expr_test(&holds, f->when[k], c, err));
            percent = holds ? f->percent[k] : percent;
        }
        *share *= (double)percent / 100;
    }
    return AT_OK;
}

/* The axis names the head dim, and not the model's. */
static bool excluded(const at_region_axis *a, size_t point, const model *m)
{
    bool other = false;
    for (size_t k = 0; k < a->key_count; k++) {
        const at_field *f = a->key[k];
        bool dim = strcmp(f->key, "dqk") == 0 || strcmp(f->key, "dv") == 0;
        other = other || (dim && a->point[point].value[k] != at_case_get(&m->c, f));
    }
    return other;
}

static at_status meet(const at_popular *p, model *m, const at_case *c, uint64_t cell, at_error *err)
{
    double share = share_of_model(m, c);
    if (!(share > 0) || at_case_check(c, NULL) != AT_OK) {
        return AT_OK;
    }
    AT_TRY(share_of_features(&share, p, c, err));
    if (m->count == m->room) {
        m->room = m->room == 0 ? 256 : 2 * m->room;
        m->met = realloc(m->met, m->room * sizeof *m->met);
        AT_ASSERT(m->met != NULL); /* only memory can run out */
    }
    m->met[m->count++] = (meeting){cell, share};
    return AT_OK;
}

/* All cells of one environment from an axis on. */
static at_status walk(const at_popular *p, model *m, size_t axis, at_region_place *place,
                      uint64_t cell, at_error *err)
{
    const at_region *r = p->region;
    at_case c = r->base;
    if (axis == r->axes) {
        at_region_case(&c, r, place, 0);
        return meet(p, m, &c, cell, err);
    }
    const at_region_axis *a = &r->axis[axis];
    for (size_t i = 0; i < a->count; i++) {
        place->at[axis] = (uint32_t)i;
        if (a->point == NULL || !excluded(a, i, m)) {
            AT_TRY(walk(p, m, axis + 1, place, cell * a->count + i, err));
        }
    }
    return AT_OK;
}

static int compare_meetings(const void *a, const void *b)
{
    const meeting *x = a, *y = b;
    if (x->share > y->share || x->share < y->share) {
        return x->share > y->share ? -1 : 1;
    }
    return x->cell < y->cell ? -1 : x->cell > y->cell;
}

static at_status read_model(at_popular *p, const at_json *o, at_error *err)
{
    static const char *const members[] = {"name", "case", "weight", "source", NULL};
    const char *text = NULL, *source = NULL;
    model *m = &p->model[p->count++];
    AT_TRY(at_json_only_keys(o, members, err));
    AT_TRY(at_json_want_text(o, "name", true, &m->name, err));
    AT_TRY(at_json_want_text(o, "case", true, &text, err));
    AT_TRY(at_json_want_text(o, "source", true, &source, err));
    AT_TRY(at_json_want_integer(o, "weight", true, &m->weight, err));
    if (m->weight < 1 || m->weight > 1000) {
        return at_fail(err, AT_INVALID, "\"weight\" must be 1..1000");
    }
    AT_TRY(at_case_parse(&m->c, text, err));
    for (const char *at = text; *at != '\0';) {
        size_t n = strcspn(at, ":");
        const at_field *f = at_case_field(at, strcspn(at, "="));
        AT_ASSERT(f != NULL);
        m->given |= (uint64_t)1 << (f - at_case_fields);
        at += n + (at[n] == ':');
    }
    p->weight += (double)m->weight;
    return AT_OK;
}

static at_status read_point(feature *f, const at_json *o, at_error *err)
{
    static const char *const members[] = {"when", "percent", NULL};
    const char *when = NULL;
    size_t k = f->count;
    if (at_json_type(o) != AT_JSON_OBJECT || k == POINTS_MAX) {
        return at_fail(err, AT_INVALID, "its points are at most %d objects with when and percent",
                       POINTS_MAX);
    }
    AT_TRY(at_json_only_keys(o, members, err));
    AT_TRY(at_json_want_text(o, "when", true, &when, err));
    AT_TRY(at_json_want_integer(o, "percent", true, &f->percent[k], err));
    if (f->percent[k] < 1 || f->percent[k] > 100) {
        return at_fail(err, AT_INVALID, "\"percent\" must be 1..100");
    }
    f->count++;
    return at_expr_compile(&f->when[k], when, NULL, AT_EXPR_BOOL, err);
}

static at_status read_feature(at_popular *p, const at_json *o, at_error *err)
{
    static const char *const members[] = {"name", "points", NULL};
    const at_json *points = NULL;
    const char *name = NULL;
    feature *f = &p->feature[p->features++];
    AT_TRY(at_json_only_keys(o, members, err));
    AT_TRY(at_json_want_text(o, "name", true, &name, err));
    AT_TRY(at_json_want_array(o, "points", true, &points, err));
    for (const at_json *m = at_json_first(points); m != NULL; m = at_json_next(m)) {
        AT_TRY(read_point(f, m, err));
    }
    return AT_OK;
}

static at_status read_list(at_popular *p, const char *key, size_t most,
                           at_status (*read)(at_popular *p, const at_json *o, at_error *err),
                           at_error *err)
{
    const at_json *list = NULL;
    size_t n = 0;
    AT_TRY(at_json_want_array(p->document, key, true, &list, err));
    for (const at_json *m = at_json_first(list); m != NULL; m = at_json_next(m)) {
        at_status status = n++ == most ? at_fail(err, AT_INVALID, "more than %zu entries", most)
                           : at_json_type(m) == AT_JSON_OBJECT
                               ? read(p, m, err)
                               : at_fail(err, AT_INVALID, "it must be an object");
        if (status != AT_OK) {
            return at_fail_in(err, status, "\"%s\", entry %zu", key, n);
        }
    }
    return AT_OK;
}

static at_status read_document(at_popular *p, at_error *err)
{
    static const char *const members[] = {"schema", "doc", "models", "features", NULL};
    const char *schema = NULL, *doc = NULL;
    if (at_json_type(p->document) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "it must be an object");
    }
    AT_TRY(at_json_only_keys(p->document, members, err));
    AT_TRY(at_json_want_text(p->document, "schema", true, &schema, err));
    AT_TRY(at_json_want_text(p->document, "doc", true, &doc, err));
    if (strcmp(schema, "attest-popular-1") != 0) {
        return at_fail(err, AT_INVALID, "the schema is \"%.60s\", attest-popular-1 is read",
                       schema);
    }
    AT_TRY(read_list(p, "features", FEATURES_MAX, read_feature, err));
    return read_list(p, "models", AT_POPULAR_MAX, read_model, err);
}

static at_status find_meetings(at_popular *p, at_error *err)
{
    for (size_t i = 0; i < p->count; i++) {
        model *m = &p->model[i];
        at_region_place place = {.at = {0}};
        AT_TRY(walk(p, m, p->region->env_axes, &place, 0, err));
        if (m->count > 0) {
            qsort(m->met, m->count, sizeof *m->met, compare_meetings);
        }
    }
    return AT_OK;
}

at_status at_popular_open(at_popular **out, const char *corpus, const at_region *region,
                          at_error *err)
{
    char path[4096];
    *out = NULL;
    int n = snprintf(path, sizeof path, "%s/popular.json", corpus);
    if (n < 0 || (size_t)n >= sizeof path || access(path, F_OK) != 0) {
        return AT_OK;
    }
    at_popular *p = calloc(1, sizeof *p);
    AT_ASSERT(p != NULL);
    p->region = region;
    at_status status = at_json_load(&p->document, path, err);
    if (status == AT_OK && (status = read_document(p, err)) != AT_OK) {
        status = at_fail_in(err, status, "%s", path);
    }
    status = status == AT_OK ? find_meetings(p, err) : status;
    if (status != AT_OK) {
        at_popular_close(p);
        return status;
    }
    *out = p;
    return AT_OK;
}

void at_popular_close(at_popular *popular)
{
    if (popular == NULL) {
        return;
    }
    for (size_t i = 0; i < popular->count; i++) {
        free(popular->model[i].met);
    }
    for (size_t i = 0; i < popular->features; i++) {
        for (size_t k = 0; k < popular->feature[i].count; k++) {
            at_expr_close(popular->feature[i].when[k]);
        }
    }
    at_json_close(popular->document);
    free(popular);
}

/* The likeliest cell of the box that the model meets; 0: none. */
static double likeliest(const at_popular *p, const model *m, const uint32_t *mark, const at_box *b,
                        uint64_t *cell)
{
    const at_region *r = p->region;
    uint64_t each = r->cells / r->envs;
    double best = 0;
    for (size_t i = 0; i < m->count && m->met[i].share > best; i++) {
        for (uint64_t e = 0; e < r->envs; e++) {
            uint64_t at = e * each + m->met[i].cell;
            at_region_place place;
            at_region_locate(&place, r, at);
            if (mark[at] == AT_MARK_INVALID || !at_box_holds(r, b, &place)) {
                continue;
            }
            double share = m->met[i].share / ((mark[at] & AT_MARK_WINS) != 0 ? 1 : WINS_NOT);
            if (share > best) {
                best = share;
                *cell = at;
            }
        }
    }
    return best;
}

void at_popular_score(const at_popular *popular, const uint32_t *mark, at_box *b)
{
    double most = 0, sum = 0;
    b->score = 0;
    b->models = 0;
    for (size_t i = 0; i < popular->count; i++) {
        uint64_t cell = 0;
        const model *m = &popular->model[i];
        double part = (double)m->weight * likeliest(popular, m, mark, b, &cell);
        if (part > 0) {
            b->models |= (uint64_t)1 << i;
            sum += part;
        }
        if (part > most) {
            most = part;
            b->example = cell;
        }
    }
    b->score = popular->weight > 0 ? 100 * sum / popular->weight : 0;
}

const char *at_popular_model(const at_popular *popular, size_t i)
{
    AT_ASSERT(i < popular->count);
    return popular->model[i].name;
}
