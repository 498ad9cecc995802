#include "harness/case/field.h"

#include <stdio.h>
#include <string.h>

static at_json *list_to_json(const at_len_list *list)
{
    at_json *array = at_json_array();
    for (int32_t i = 0; i < list->n; i++) {
        at_json_add_integer(array, list->len[i]);
    }
    return array;
}

static void put_field(at_json *object, const at_case *c, const at_field *f)
{
    if (f->kind == AT_FIELD_LIST) {
        at_json_put(object, f->key, list_to_json(at_case_get_list(c, f)));
        return;
    }
    if (f->kind == AT_FIELD_REAL &&
        !(f->names != NULL && at_case_get_real(c, f) == AT_SCALE_AUTO)) {
        at_json_put_number(object, f->key, at_case_get_real(c, f));
        return;
    }
    if (f->kind == AT_FIELD_INT && (at_case_get(c, f) >= 0 || f->names == NULL)) {
        at_json_put_integer(object, f->key, at_case_get(c, f));
        return;
    }
    char text[AT_FIELD_TEXT_MAX];
    *at_field_print(c, f, text) = '\0';
    at_json_put_text(object, f->key, text);
}

at_json *at_case_to_json(const at_case *c)
{
    at_json *object = at_json_object();
    for (size_t row = 0; row < at_case_field_count; row++) {
        if (!at_case_is_default(c, &at_case_fields[row])) {
            put_field(object, c, &at_case_fields[row]);
        }
    }
    return object;
}

/* JSON numbers become the text that the case language has for them. */
static bool number_text(char text[AT_REAL_TEXT], const at_json *value)
{
    double real = 0;
    if (!at_json_number(value, &real)) {
        return false;
    }
    (void)at_real_print(real, text);
    return true;
}

static at_status list_text(char *text, size_t room, const at_field *f, const at_json *array,
                           at_error *err)
{
    size_t used = 0;
    for (const at_json *item = at_json_first(array); item != NULL; item = at_json_next(item)) {
        char number[AT_REAL_TEXT];
        if (!number_text(number, item) || used + sizeof number + 2 > room) {
            return at_fail(err, AT_INVALID,
                           "the member \"%s\" must be an array of at most %d lengths", f->key,
                           AT_LEN_LIST_MAX);
        }
        used += (size_t)snprintf(text + used, room - used, used > 0 ? "+%s" : "%s", number);
    }
    (void)snprintf(text + used, room - used, "%s", used == 0 ? "none" : "");
    return AT_OK;
}

/* Which JSON type a row takes: numbers for INT and REAL, except the names that they accept. */
static bool takes_text(const at_field *f, const char *text)
{
    if (f->kind != AT_FIELD_INT && f->kind != AT_FIELD_REAL) {
        return f->kind != AT_FIELD_LIST;
    }
    for (size_t i = 0; f->names != NULL && f->names[i] != NULL; i++) {
        if (strcmp(f->names[i], text) == 0) {
            return true;
        }
    }
    return false;
}

at_status at_case_assign_json(at_case *c, uint64_t *given, const at_json *member, at_error *err)
{
    const char *key = at_json_key(member), *text = at_json_text(member);
    const at_field *f = at_case_field(key, strlen(key));
    char room[AT_FIELD_TEXT_MAX];
    bool number = f != NULL && (f->kind == AT_FIELD_INT || f->kind == AT_FIELD_REAL);
    if (f != NULL && f->kind == AT_FIELD_LIST && at_json_type(member) == AT_JSON_ARRAY) {
        AT_TRY(list_text(room, sizeof room, f, member, err));
        text = room;
    } else if (number && text == NULL && number_text(room, member)) {
        text = room;
    } else if (f != NULL && (text == NULL || !takes_text(f, text))) {
        return at_fail(err, AT_INVALID, "the member \"%s\" must be %s, it is %s", key,
                       number                     ? "a number"
                       : f->kind == AT_FIELD_LIST ? "an array"
                                                  : "a string",
                       at_json_kind_name(at_json_type(member)));
    }
    text = text != NULL ? text : "";
    return at_case_assign(c, given, key, strlen(key), text, strlen(text), err);
}

at_status at_case_from_json(at_case *out, const at_json *object, at_error *err)
{
    at_case c;
    uint64_t given = 0;
    memset(&c, 0, sizeof c);
    if (at_json_type(object) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "a case must be an object, it is %s",
                       at_json_kind_name(at_json_type(object)));
    }
    for (const at_json *m = at_json_first(object); m != NULL; m = at_json_next(m)) {
        AT_TRY(at_case_assign_json(&c, &given, m, err));
    }
    at_case_resolve(&c, given);
    AT_TRY(at_case_check(&c, err));
    *out = c;
    return AT_OK;
}
