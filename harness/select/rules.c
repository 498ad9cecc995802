/* Reading a rule file and what it extends; nothing is compiled here. */
#include "harness/select/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char schema[] = "attest-rules-1";

static at_status load(at_selector *s, const char *corpus, const char *name, at_error *err)
{
    char path[4096];
    AT_TRY(at_corpus_file(path, corpus, "selectors", "rule set", name, err));
    for (int i = 0; i < s->documents; i++) {
        if (strcmp(s->path[i], path) == 0) {
            const char *last = s->path[s->documents - 1];
            char place[64];
            return at_fail(err, AT_INVALID, "%s: %s\"extends\" leads back to %s: a cycle from %s",
                           last, at_rule_place(place, last, "extends", NULL), name, s->path[0]);
        }
    }
    if (s->documents == AT_EXTENDS_MAX) {
        return at_fail(err, AT_INVALID, "%s: \"extends\" goes over more than %d files", s->path[0],
                       AT_EXTENDS_MAX);
    }
    s->path[s->documents] = strdup(path);
    AT_ASSERT(s->path[s->documents] != NULL); /* only memory can run out */
    s->documents++;                           /* the document stays NULL when it cannot be read */
    return at_json_load(&s->document[s->documents - 1], path, err);
}

static at_status check_head(const at_json *d, const char *name, at_error *err)
{
    static const char *const members[] = {"schema", "name",     "doc",   "source", "extends", "env",
                                          "let",    "backends", "rules", "prefer", NULL};
    const char *text = NULL;
    if (at_json_type(d) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "a rule set is an object");
    }
    AT_TRY(at_json_only_keys(d, members, err));
    AT_TRY(at_json_want_text(d, "schema", true, &text, err));
    if (strcmp(text, schema) != 0) {
        return at_fail(err, AT_INVALID, "the schema is \"%.60s\", %s is read", text, schema);
    }
    AT_TRY(at_json_want_text(d, "name", true, &text, err));
    if (strcmp(text, name) != 0) {
        return at_fail(err, AT_INVALID, "it calls itself \"%.60s\" and must bear the file's name",
                       text);
    }
    AT_TRY(at_json_want_text(d, "doc", true, &text, err));
    AT_TRY(at_json_want_text(d, "source", true, &text, err));
    return text[0] != '\0' ? AT_OK : at_fail(err, AT_INVALID, "\"source\" is empty");
}

static at_status read_backend(at_selector *s, const at_json *b, at_error *err)
{
    static const char *const members[] = {"name", "doc", "capabilities", "measured", NULL};
    at_backend_entry *e = &s->backend[s->backend_count];
    const at_json *sets = NULL;
    const char *capabilities = "";
    *e = (at_backend_entry){0};
    if (at_json_type(b) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "a backend is an object with name and doc");
    }
    AT_TRY(at_json_only_keys(b, members, err));
    AT_TRY(at_json_want_text(b, "name", true, &e->name, err));
    AT_TRY(at_json_want_text(b, "doc", true, &e->doc, err));
    AT_TRY(at_json_want_array(b, "measured", false, &e->measured, err));
    for (const at_json *m = at_json_first(e->measured); m != NULL; m = at_json_next(m)) {
        if (at_json_text(m) == NULL) {
            return at_fail(err, AT_INVALID, "backend \"%.60s\": \"measured\" must hold texts",
                           e->name);
        }
    }
    sets = at_json_get(b, "capabilities");
    if (sets != NULL && at_json_type(sets) == AT_JSON_ARRAY) {
        e->choices = sets;
    } else {
        AT_TRY(at_json_want_text(b, "capabilities", false, &capabilities, err));
    }
    if (!at_expr_is_word(e->name)) {
        return at_fail(
            err, AT_INVALID,
            "the backend name \"%.60s\" must be a word of letters, digits, _ and inner dots",
            e->name);
    }
    for (size_t i = 0; i < s->backend_count; i++) {
        if (strcmp(s->backend[i].name, e->name) == 0) {
            return at_fail(err, AT_INVALID, "the backend \"%.60s\" stands twice", e->name);
        }
    }
    if (strlen(capabilities) >= sizeof e->capabilities) {
        return at_fail(err, AT_INVALID, "backend \"%.60s\": \"capabilities\" is too long", e->name);
    }
    (void)snprintf(e->capabilities, sizeof e->capabilities, "%s", capabilities);
    s->backend_name[s->backend_count++] = e->name;
    return AT_OK;
}

static at_status read_backends(at_selector *s, const at_json *d, at_error *err)
{
    const at_json *list = NULL;
    AT_TRY(at_json_want_array(d, "backends", false, &list, err));
    if (list == NULL) {
        return AT_OK;
    }
    s->backend_count = 0;
    for (const at_json *b = at_json_first(list); b != NULL; b = at_json_next(b)) {
        if (s->backend_count == AT_SELECTION_MAX) {
            return at_fail(err, AT_INVALID, "more than %d backends", AT_SELECTION_MAX);
        }
        AT_TRY(read_backend(s, b, err));
    }
    return AT_OK;
}

static at_status read_lets(at_rule_file *f, const at_json *d, const char *file, at_error *err)
{
    const at_json *object = NULL;
    AT_TRY(at_json_want_object(d, "let", false, &object, err));
    for (const at_json *m = at_json_first(object); m != NULL; m = at_json_next(m)) {
        size_t i = 0;
        while (i < f->let_count && strcmp(f->let[i][0], at_json_key(m)) != 0) {
            i++;
        }
        if (at_json_text(m) == NULL || i == AT_LETS_MAX) {
            return at_fail(err, AT_INVALID, "let \"%.60s\": %s", at_json_key(m),
                           i == AT_LETS_MAX ? "there are too many lets" : "it must be a text");
        }
        f->let[i][0] = at_json_key(m);
        f->let[i][1] = at_json_text(m);
        f->let_file[i] = file;
        f->let_count += i == f->let_count;
    }
    return AT_OK;
}

static size_t find_rule(const at_rule_file *f, const char *id)
{
    size_t i = 0;
    while (i < f->rule_count && strcmp(f->rule[i].id, id) != 0) {
        i++;
    }
    return i;
}

static void insert_rule(at_rule_file *f, size_t at, const at_rule_text *r)
{
    memmove(f->rule + at + 1, f->rule + at, (f->rule_count - at) * sizeof *f->rule);
    f->rule[at] = *r;
    f->rule_count++;
}

static void remove_rule(at_rule_file *f, size_t at)
{
    f->rule_count--;
    memmove(f->rule + at, f->rule + at + 1, (f->rule_count - at) * sizeof *f->rule);
}

/* Takes the members that the object gives; those of `r` stay otherwise. */
static at_status patch_rule(at_rule_text *r, const at_json *o, at_error *err)
{
    AT_TRY(at_json_want_text(o, "when", false, &r->when, err));
    AT_TRY(at_json_want_text(o, "why", false, &r->why, err));
    AT_TRY(at_json_want_text(o, "source", false, &r->source, err));
    AT_TRY(at_json_want_array(o, "off", false, &r->off, err));
    AT_TRY(at_json_want_bool(o, "caller", false, &r->caller, err));
    const char *const texts[][2] = {{"when", r->when}, {"why", r->why}, {"source", r->source}};
    for (size_t i = 0; i < 3; i++) {
        if (texts[i][1] == NULL || texts[i][1][0] == '\0') {
            return at_fail(err, AT_INVALID, "\"%s\" is %s", texts[i][0],
                           texts[i][1] == NULL ? "missing" : "empty");
        }
    }
    return r->off != NULL && at_json_size(r->off) > 0
               ? AT_OK
               : at_fail(err, AT_INVALID, "\"off\" must list at least one backend");
}

/* Where a new rule goes: behind "after", else at the end. */
static at_status new_place(const at_rule_file *f, const at_json *o, size_t *at, at_error *err)
{
    const char *after = NULL;
    AT_TRY(at_json_want_text(o, "after", false, &after, err));
    *at = after != NULL ? find_rule(f, after) + 1 : f->rule_count;
    return *at <= f->rule_count
               ? AT_OK
               : at_fail(err, AT_INVALID, "\"after\" names \"%.60s\", which is no rule before it",
                         after);
}

static at_status read_rule(at_rule_file *f, const at_json *o, const char *id, const char *file,
                           at_error *err)
{
    static const char *const members[] = {"id",     "off",   "when",   "why", "source",
                                          "caller", "after", "remove", NULL};
    size_t at = find_rule(f, id), place = 0;
    bool known = at < f->rule_count, gone = false;
    AT_TRY(at_json_only_keys(o, members, err));
    AT_TRY(at_json_want_bool(o, "remove", false, &gone, err));
    if (known && f->rule[at].file == file) {
        return at_fail(err, AT_INVALID, "the id stands twice");
    }
    if (gone && !known) {
        return at_fail(err, AT_INVALID, "\"remove\" names no rule of the file that is extended");
    }
    if (gone) {
        remove_rule(f, at);
        return AT_OK;
    }
    at_rule_text r = known ? f->rule[at] : (at_rule_text){.id = id};
    r.file = file;
    AT_TRY(patch_rule(&r, o, err));
    if (!known && f->rule_count == AT_SELECTOR_RULES_MAX) {
        return at_fail(err, AT_INVALID, "there are more than %d rules", AT_SELECTOR_RULES_MAX);
    }
    AT_TRY(new_place(f, o, &place, err));
    if (known && at_json_get(o, "after") != NULL) {
        remove_rule(f, at);
        AT_TRY(new_place(f, o, &place, err));
        insert_rule(f, place, &r);
    } else if (known) {
        f->rule[at] = r;
    } else {
        insert_rule(f, place, &r);
    }
    return AT_OK;
}

static at_status read_rules(at_rule_file *f, const at_json *d, const char *file, at_error *err)
{
    const at_json *list = NULL;
    AT_TRY(at_json_want_array(d, "rules", false, &list, err));
    int number = 0;
    for (const at_json *o = at_json_first(list); o != NULL; o = at_json_next(o)) {
        const char *id =
            at_json_type(o) == AT_JSON_OBJECT ? at_json_text(at_json_get(o, "id")) : NULL;
        number++;
        if (id == NULL || id[0] == '\0') {
            return at_fail(err, AT_INVALID, "rule %d: it must be an object with an \"id\"", number);
        }
        at_status status = read_rule(f, o, id, file, err);
        if (status != AT_OK) {
            char place[64];
            return at_fail_in(err, status, "%srule \"%.60s\"",
                              at_rule_place(place, file, "rules", id), id);
        }
    }
    return AT_OK;
}

static at_status merge(at_selector *s, at_rule_file *f, const at_json *d, const char *file,
                       at_error *err)
{
    const at_json *env = NULL, *prefer = NULL;
    AT_TRY(at_json_want_object(d, "env", false, &env, err));
    AT_TRY(at_env_table_declare(&s->env, env, err));
    AT_TRY(read_backends(s, d, err));
    AT_TRY(read_lets(f, d, file, err));
    AT_TRY(read_rules(f, d, file, err));
    AT_TRY(at_json_want_array(d, "prefer", false, &prefer, err));
    if (prefer != NULL) {
        f->prefer = prefer;
        f->prefer_file = file;
    }
    return AT_OK;
}

at_status at_rules_read(at_selector *s, at_rule_file *out, const char *corpus, const char *name,
                        at_error *err)
{
    *out = (at_rule_file){.rule = calloc(AT_SELECTOR_RULES_MAX + 1, sizeof *out->rule)};
    AT_ASSERT(out->rule != NULL);
    for (const char *next = name; next != NULL;) {
        const char *parent = NULL;
        AT_TRY(load(s, corpus, next, err));
        int at = s->documents - 1;
        at_status status = check_head(s->document[at], next, err);
        status = status == AT_OK
                     ? at_json_want_text(s->document[at], "extends", false, &parent, err)
                     : status;
        if (status != AT_OK) {
            return at_fail_in(err, status, "%s", s->path[at]);
        }
        next = parent;
    }
    for (int i = s->documents - 1; i >= 0; i--) {
        at_status status = merge(s, out, s->document[i], s->path[i], err);
        if (status != AT_OK) {
            return at_fail_in(err, status, "%s", s->path[i]);
        }
    }
    AT_TRY(at_json_want_text(s->document[0], "doc", true, &s->doc, err));
    AT_TRY(at_json_want_text(s->document[0], "source", true, &s->source, err));
    return s->backend_count > 0
               ? AT_OK
               : at_fail(err, AT_INVALID, "%s: \"backends\" is missing", s->path[0]);
}
