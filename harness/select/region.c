#include "harness/select/region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/field.h"
#include "harness/case/space.h"
#include "harness/case/suite.h"
#include "harness/select/rules.h"

enum { CELLS_MAX = 1 << 26 };

void at_region_close(at_region *region)
{
    if (region == NULL) {
        return;
    }
    for (size_t a = 0; a < region->axes; a++) {
        for (size_t i = 0; i < region->axis[a].count && region->axis[a].point != NULL; i++) {
            free(region->axis[a].point[i].text);
        }
        free(region->axis[a].point);
    }
    at_json_close(region->document);
    free(region->list);
    free(region);
}

static size_t row_of(const at_field *f)
{
    return (size_t)(f - at_case_fields);
}

/* Keys that the text names and no key of the axis is yet. */
static at_status add_keys(at_region *r, at_region_axis *a, uint64_t given, at_error *err)
{
    for (size_t row = 0; row < at_case_field_count; row++) {
        const at_field *f = &at_case_fields[row];
        bool known = (given >> row & 1) == 0;
        for (size_t k = 0; k < a->key_count; k++) {
            known = known || a->key[k] == f;
        }
        if (known) {
            continue;
        }
        if ((r->given >> row & 1) != 0) {
            return at_fail(err, AT_INVALID, "the key %s belongs to \"case\" or another axis",
                           f->key);
        }
        if (f->kind == AT_FIELD_LIST || a->key_count == AT_REGION_KEYS) {
            return at_fail(err, AT_INVALID,
                           f->kind == AT_FIELD_LIST ? "the key %s is a list, no axis takes it"
                                                    : "too many keys beside %s",
                           f->key);
        }
        a->key[a->key_count++] = f;
    }
    return AT_OK;
}

/* The case text of what `given` names. */
static char *point_text(const at_case *c, uint64_t given)
{
    char text[AT_CASE_TEXT_MAX], *at = text;
    for (size_t row = 0; row < at_case_field_count; row++) {
        const at_field *f = &at_case_fields[row];
        if ((given >> row & 1) != 0) {
            at += sprintf(at, "%s%s=", at > text ? ":" : "", f->key);
            at = at_field_print(c, f, at);
        }
    }
    *at = '\0';
    char *made = strdup(text);
    AT_ASSERT(made != NULL); /* only memory can run out */
    return made;
}

/* All points of one text with lists and ranges; their cases go to `made`. */
static at_status add_points(at_region *r, at_region_axis *a, at_case *made, const char *text,
                            at_error *err)
{
    at_space space = {.n = 0};
    uint64_t count = 0;
    at_status status = at_space_add_text(&space, text, err);
    status = status == AT_OK ? at_space_count(&count, &space, AT_REGION_POINTS, err) : status;
    if (status == AT_OK && count > AT_REGION_POINTS - a->count) {
        status = at_fail(err, AT_INVALID, "more than %d points", AT_REGION_POINTS);
    }
    for (uint64_t i = 0; status == AT_OK && i < count; i++) {
        at_region_point *p = &a->point[a->count];
        at_case *c = &made[a->count];
        at_case_init(c);
        at_space_at(c, &p->given, &space, i);
        at_case_resolve(c, p->given);
        status = add_keys(r, a, p->given, err);
        p->text = point_text(c, p->given);
        p->rank = AT_REGION_POINTS + (int)a->count;
        a->count++;
        for (size_t k = 0; k + 1 < a->count && status == AT_OK; k++) {
            if (strcmp(a->point[k].text, p->text) == 0) {
                status = at_fail(err, AT_INVALID, "the point \"%s\" stands twice", p->text);
            }
        }
    }
    at_space_close(&space);
    return status;
}

static void read_values(at_region_axis *a, const at_case *made)
{
    for (size_t i = 0; i < a->count; i++) {
        for (size_t k = 0; k < a->key_count; k++) {
            memcpy(&a->point[i].value[k], (const char *)&made[i] + a->key[k]->offset,
                   sizeof a->point[i].value[k]);
        }
    }
}

/* Points named by "typical" are preferred as examples, in its order. */
static at_status read_typical(at_region_axis *a, const at_json *o, at_error *err)
{
    const at_json *list = NULL;
    int rank = 0;
    AT_TRY(at_json_want_array(o, "typical", false, &list, err));
    for (const at_json *m = at_json_first(list); m != NULL; m = at_json_next(m)) {
        const char *text = at_json_text(m);
        size_t i = 0;
        while (text != NULL && i < a->count && strcmp(a->point[i].text, text) != 0) {
            i++;
        }
        if (text == NULL || i == a->count) {
            return at_fail(err, AT_INVALID, "\"typical\" names \"%.60s\", which is no point of it",
                           text != NULL ? text : "something else than a text");
        }
        a->point[i].rank = rank++;
    }
    return AT_OK;
}

static at_status read_points(at_region *r, at_region_axis *a, const at_json *o, at_error *err)
{
    const at_json *list = NULL;
    AT_TRY(at_json_want_array(o, "points", true, &list, err));
    at_case *made = calloc(AT_REGION_POINTS, sizeof *made);
    a->point = calloc(AT_REGION_POINTS, sizeof *a->point);
    AT_ASSERT(made != NULL && a->point != NULL);
    at_status status = AT_OK;
    for (const at_json *m = at_json_first(list); m != NULL && status == AT_OK;
         m = at_json_next(m)) {
        status = at_json_text(m) != NULL ? add_points(r, a, made, at_json_text(m), err)
                                         : at_fail(err, AT_INVALID, "\"points\" must hold texts");
    }
    if (status == AT_OK && a->count == 0) {
        status = at_fail(err, AT_INVALID, "\"points\" is empty");
    }
    read_values(a, made);
    free(made);
    return status == AT_OK ? read_typical(a, o, err) : status;
}

static at_status read_axis(at_region *r, const at_json *o, at_error *err)
{
    static const char *const members[] = {"name", "points", "typical", NULL};
    const char *name = NULL;
    at_region_axis *a = &r->axis[r->axes++];
    if (at_json_type(o) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "an axis is an object with name and points");
    }
    AT_TRY(at_json_only_keys(o, members, err));
    AT_TRY(at_json_want_text(o, "name", true, &name, err));
    (void)snprintf(a->name, sizeof a->name, "%s", name);
    for (size_t i = 0; i + 1 < r->axes; i++) {
        if (strcmp(r->axis[i].name, a->name) == 0) {
            return at_fail(err, AT_INVALID, "the name stands twice");
        }
    }
    AT_TRY(read_points(r, a, o, err));
    if (a->key_count == 1 && strcmp(a->name, a->key[0]->key) != 0) {
        return at_fail(err, AT_INVALID, "an axis of one key bears its name, %s", a->key[0]->key);
    }
    for (size_t k = 0; k < a->key_count; k++) {
        r->given |= (uint64_t)1 << row_of(a->key[k]);
    }
    a->single = a->key_count == 1;
    r->cells *= a->count;
    return r->cells <= CELLS_MAX
               ? AT_OK
               : at_fail(err, AT_INVALID, "with it there are more than %d cases", CELLS_MAX);
}

static const at_field *leader(const at_field *f)
{
    return f->same_as != NULL ? at_case_field(f->same_as, strlen(f->same_as)) : NULL;
}

/* In the order of the table, which is that of the copies: hv follows hkv, which follows hq. */
static void find_followers(at_region *r)
{
    for (size_t row = 0; row < at_case_field_count; row++) {
        const at_field *f = &at_case_fields[row], *from = leader(f);
        if (from == NULL || (r->base_given >> row & 1) != 0) {
            continue;
        }
        AT_ASSERT(r->followers < AT_REGION_KEYS);
        at_region_follower *to = &r->follower[r->followers++];
        *to = (at_region_follower){.row = row, .to = f->offset, .from = from->offset, .axis = -1};
        for (size_t a = 0; a < r->axes; a++) {
            for (size_t k = 0; k < r->axis[a].key_count; k++) {
                to->axis = r->axis[a].key[k] == f ? (int)a : to->axis;
            }
        }
    }
}

static int find_axis(const at_region *r, const char *name)
{
    for (size_t i = 0; name != NULL && i < r->axes; i++) {
        if (strcmp(r->axis[i].name, name) == 0 && r->axis[i].key_count == 1 &&
            r->axis[i].key[0]->kind == AT_FIELD_INT) {
            return (int)i;
        }
    }
    return -1;
}

static at_status read_compare(at_region *r, at_error *err)
{
    const at_json *list = NULL;
    r->left = r->right = -1;
    AT_TRY(at_json_want_array(r->document, "compare", false, &list, err));
    if (list == NULL) {
        return AT_OK;
    }
    if (at_json_size(list) == 2) {
        r->left = find_axis(r, at_json_text(at_json_first(list)));
        r->right = find_axis(r, at_json_text(at_json_next(at_json_first(list))));
    }
    return r->left >= 0 && r->right >= 0 && r->left != r->right
               ? AT_OK
               : at_fail(err, AT_INVALID, "\"compare\" must name two axes of one integer key each");
}

static at_status read_base(at_region *r, at_error *err)
{
    const char *text = NULL;
    at_space space = {.n = 0};
    uint64_t count = 0;
    at_case_init(&r->base);
    AT_TRY(at_json_want_text(r->document, "case", false, &text, err));
    if (text == NULL) {
        return AT_OK;
    }
    at_status status = at_space_add_text(&space, text, err);
    status = status == AT_OK ? at_space_count(&count, &space, AT_REGION_POINTS, err) : status;
    if (status == AT_OK && count != 1) {
        status = at_fail(err, AT_INVALID, "\"case\" is one partial case, lists belong to axes");
    }
    if (status == AT_OK) {
        at_space_at(&r->base, &r->base_given, &space, 0);
        at_case_resolve(&r->base, r->base_given);
        r->given = r->base_given;
    }
    at_space_close(&space);
    return status;
}

static at_status read_document(at_region *r, const char *name, at_error *err)
{
    static const char *const members[] = {"schema", "name", "doc",     "env",
                                          "case",   "axes", "compare", NULL};
    const at_json *d = r->document, *axes = NULL;
    const char *schema = NULL, *own = NULL;
    if (at_json_type(d) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "a space is an object");
    }
    AT_TRY(at_json_only_keys(d, members, err));
    AT_TRY(at_json_want_text(d, "schema", true, &schema, err));
    AT_TRY(at_json_want_text(d, "name", true, &own, err));
    AT_TRY(at_json_want_text(d, "doc", true, &r->doc, err));
    AT_TRY(at_json_want_array(d, "axes", true, &axes, err));
    if (strcmp(schema, "attest-space-1") != 0 || strcmp(own, name) != 0) {
        return at_fail(
            err, AT_INVALID,
            "the schema must be attest-space-1 and the name the file's, they are \"%.40s\" "
            "and \"%.40s\"",
            schema, own);
    }
    AT_TRY(read_base(r, err));
    for (const at_json *o = at_json_first(axes); o != NULL; o = at_json_next(o)) {
        at_status status = r->axes < AT_REGION_AXES
                               ? read_axis(r, o, err)
                               : at_fail(err, AT_INVALID, "more than %d axes", AT_REGION_AXES);
        if (status != AT_OK) {
            return at_fail_in(err, status, "axis %zu", r->axes);
        }
    }
    find_followers(r);
    AT_TRY(read_compare(r, err));
    return r->axes > 0 ? AT_OK : at_fail(err, AT_INVALID, "\"axes\" is empty");
}

static at_status read_space(at_region *r, const char *path, const char *name, at_error *err)
{
    AT_TRY(at_json_load(&r->document, path, err));
    at_status status = read_document(r, name, err);
    return status == AT_OK ? AT_OK : at_fail_in(err, status, "%s", path);
}

static void finish_list(at_region *r, size_t count, const char *doc)
{
    at_case_init(&r->base);
    r->left = r->right = -1;
    r->cells = count;
    r->axis[0] = (at_region_axis){.name = "case", .count = count};
    r->axes = 1;
    r->doc = doc;
}

/* The cases of a suite: one axis without points. */
static at_status read_suite(at_region *r, const char *corpus, const char *word, at_error *err)
{
    at_suite *suite = NULL;
    AT_TRY(at_suite_open(&suite, corpus, &word, 1, NULL, err));
    size_t n = at_suite_size(suite), count = 0;
    r->list = calloc(n + 1, sizeof *r->list);
    AT_ASSERT(r->list != NULL); /* only memory can run out */
    for (size_t i = 0; i < n; i++) {
        const at_suite_plan *plan = NULL;
        const at_case *c = at_suite_case(suite, i, &plan);
        bool again = count > 0 && at_case_equal(c, &r->list[count - 1]);
        r->list[count] = *c;
        count += !again;
    }
    at_suite_close(suite);
    finish_list(r, count, "cases of a suite");
    return count > 0 ? AT_OK : at_fail(err, AT_INVALID, "%s holds no case", word);
}

/* Neither a space nor a suite: the sentence names both folders' files. */
static at_status unknown_space(const char *corpus, const char *name, at_error *err)
{
    at_error suites = {""};
    (void)at_corpus_missing(corpus, "suites", "suite", name, &suites);
    at_status status = at_corpus_missing(corpus, "spaces", "space", name, err);
    size_t used = strlen(err->text);
    const char *has = strstr(suites.text, "/suites has ");
    if (has != NULL) {
        (void)snprintf(err->text + used, sizeof err->text - used, ", suites/ %s",
                       has + strlen("/suites has "));
    }
    return status;
}

static bool is_word(const char *name)
{
    return strpbrk(name, "=@/") == NULL;
}

at_status at_region_open(at_region **out, const char *corpus, const char *name, at_error *err)
{
    char path[4096];
    *out = NULL;
    at_region *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for the space %s", name);
    }
    r->cells = r->envs = 1;
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    at_status status = AT_OK;
    if (at_corpus_file(path, corpus, "spaces", "space", name, NULL) == AT_OK) {
        status = read_space(r, path, name, err);
    } else if (is_word(name) &&
               at_corpus_file(path, corpus, "suites", "suite", name, NULL) != AT_OK) {
        status = unknown_space(corpus, name, err);
    } else {
        status = read_suite(r, corpus, name, err);
    }
    if (status != AT_OK) {
        at_region_close(r);
        return status;
    }
    *out = r;
    return AT_OK;
}

void at_region_of_cases(at_region **out, const char *name, const at_case *list, size_t n)
{
    at_region *r = calloc(1, sizeof *r);
    AT_ASSERT(r != NULL && n > 0);
    r->envs = 1;
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    r->list = calloc(n, sizeof *r->list);
    AT_ASSERT(r->list != NULL); /* only memory can run out */
    memcpy(r->list, list, n * sizeof *list);
    finish_list(r, n, "cases of measured verdicts");
    *out = r;
}

void at_region_locate(at_region_place *out, const at_region *region, uint64_t cell)
{
    for (size_t a = region->axes; a-- > 0;) {
        out->at[a] = (uint32_t)(cell % region->axis[a].count);
        cell /= region->axis[a].count;
    }
}

size_t at_region_step(at_region_place *place, const at_region *region)
{
    for (size_t a = region->axes; a-- > 0;) {
        if (++place->at[a] < region->axis[a].count) {
            return a;
        }
        place->at[a] = 0;
    }
    return 0;
}

void at_region_case(at_case *c, const at_region *region, const at_region_place *place, size_t first)
{
    if (region->list != NULL) {
        *c = region->list[place->at[region->axes - 1]];
        return;
    }
    for (size_t a = first; a < region->axes; a++) {
        const at_region_axis *axis = &region->axis[a];
        const at_region_point *p = &axis->point[place->at[a]];
        for (size_t k = 0; k < axis->key_count; k++) {
            memcpy((char *)c + axis->key[k]->offset, &p->value[k], sizeof p->value[k]);
        }
    }
    for (size_t i = 0; i < region->followers; i++) {
        const at_region_follower *f = &region->follower[i];
        bool named = f->axis >= 0 &&
                     (region->axis[f->axis].point[place->at[f->axis]].given >> f->row & 1) != 0;
        if (!named) {
            memcpy((char *)c + f->to, (const char *)c + f->from, sizeof(int64_t));
        }
    }
}

int at_region_relation(const at_region *region, const at_region_place *place)
{
    int64_t x = region->axis[region->left].point[place->at[region->left]].value[0];
    int64_t y = region->axis[region->right].point[place->at[region->right]].value[0];
    return 1 + (x > y) - (x < y);
}
