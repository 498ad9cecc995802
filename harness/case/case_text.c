#include "harness/case/field.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static at_status refuse(const at_field *f, const char *value, size_t length, at_error *err)
{
    char shown[48];
    size_t n = length < sizeof shown - 4 ? length : sizeof shown - 4;
    for (size_t i = 0; i < n; i++) {
        shown[i] = value[i] >= ' ' && value[i] <= '~' ? value[i] : '?';
    }
    memcpy(shown + n, length > n ? "..." : "", length > n ? 4 : 1);
    return at_fail(err, AT_INVALID, "%s=%s is not accepted, the key %s takes %s", f->key, shown,
                   f->key, f->accepts);
}

/* Decimal digits without sign or leading zeros; false on anything else or beyond `max`. */
static bool read_digits(uint64_t *out, const char *text, size_t length, uint64_t max)
{
    uint64_t value = 0;
    if (length == 0 || (length > 1 && text[0] == '0')) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';
        if (digit > 9 || value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

static int find_name(const char *const *names, const char *text, size_t length)
{
    for (int i = 0; names != NULL && names[i] != NULL; i++) {
        if (strncmp(names[i], text, length) == 0 && names[i][length] == '\0') {
            return i;
        }
    }
    return -1;
}

static bool read_int(int64_t *out, const at_field *f, const char *text, size_t length)
{
    int name = find_name(f->names, text, length);
    if (name >= 0) {
        *out = -1 - name;
        return true;
    }
    bool negative = length > 0 && text[0] == '-';
    uint64_t value = 0;
    if (!read_digits(&value, text + negative, length - negative, INT64_MAX) ||
        (negative && value == 0)) {
        return false;
    }
    *out = negative ? -(int64_t)value : (int64_t)value;
    return *out >= f->min && *out <= f->max;
}

static bool read_set(int64_t *out, const at_field *f, const char *text, size_t length)
{
    int64_t set = 0;
    for (size_t i = 0; i < length; i++) {
        int bit = find_name(f->names, text + i, 1);
        if (bit < 0 || (set & (INT64_C(1) << bit)) != 0) {
            return false;
        }
        set |= INT64_C(1) << bit;
    }
    *out = set;
    return set != 0;
}

static bool real_in_range(double x, const at_field *f)
{
    return x >= f->real_min && (f->max_open ? x < f->real_max : x <= f->real_max);
}

static bool read_real(double *out, const at_field *f, const char *text, size_t length)
{
    char copy[64], *end = NULL;
    if (find_name(f->names, text, length) == 0) {
        *out = AT_SCALE_AUTO;
        return true;
    }
    if (length == 0 || length >= sizeof copy) {
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    /* strtod also reads blanks, hex, inf and nan. */
    if (strspn(copy, "0123456789.eE+-") != length || copy[0] == '+') {
        return false;
    }
    double x = strtod(copy, &end) + 0.0; /* -0 becomes 0 */
    *out = x;
    return *end == '\0' && real_in_range(x, f);
}

static bool read_list(at_len_list *out, const at_field *f, const char *text, size_t length)
{
    const char *end = text + length;
    out->n = 0;
    if (find_name((const char *const[]){"none", NULL}, text, length) == 0) {
        return true;
    }
    for (;;) {
        const char *plus = memchr(text, '+', (size_t)(end - text));
        const char *stop = plus != NULL ? plus : end;
        uint64_t value = 0;
        if (out->n == AT_LEN_LIST_MAX ||
            !read_digits(&value, text, (size_t)(stop - text), (uint64_t)f->max)) {
            return false;
        }
        out->len[out->n++] = (int32_t)value;
        if (plus == NULL) {
            return true;
        }
        text = plus + 1;
    }
}

at_status at_field_parse(at_case *c, const at_field *f, const char *value, size_t length,
                         at_error *err)
{
    int64_t number = 0;
    double real = 0;
    uint64_t bits = 0;
    at_len_list list = {0};
    bool good = false;
    switch (f->kind) {
    case AT_FIELD_INT:
        good = read_int(&number, f, value, length);
        break;
    case AT_FIELD_ENUM:
        number = find_name(f->names, value, length);
        good = number >= 0;
        break;
    case AT_FIELD_SET:
        good = read_set(&number, f, value, length);
        break;
    case AT_FIELD_U64:
        good = read_digits(&bits, value, length, UINT64_MAX);
        memcpy(&number, &bits, sizeof number);
        break;
    case AT_FIELD_REAL:
        if (!read_real(&real, f, value, length)) {
            return refuse(f, value, length, err);
        }
        *at_case_real(c, f) = real;
        return AT_OK;
    case AT_FIELD_LIST:
        if (!read_list(&list, f, value, length)) {
            return refuse(f, value, length, err);
        }
        *at_case_list(c, f) = list;
        return AT_OK;
    }
    if (!good) {
        return refuse(f, value, length, err);
    }
    at_case_set(c, f, number);
    return AT_OK;
}

static bool list_in_range(const at_len_list *list, const at_field *f)
{
    for (int32_t i = 0; i < list->n && list->n <= AT_LEN_LIST_MAX; i++) {
        if (list->len[i] < f->min || list->len[i] > f->max) {
            return false;
        }
    }
    return list->n >= 0 && list->n <= AT_LEN_LIST_MAX;
}

bool at_case_in_range(const at_case *c, const at_field *f)
{
    if (f->kind == AT_FIELD_REAL) {
        double x = at_case_get_real(c, f);
        return (f->names != NULL && x == AT_SCALE_AUTO) || real_in_range(x, f);
    }
    if (f->kind == AT_FIELD_LIST) {
        return list_in_range(at_case_get_list(c, f), f);
    }
    int64_t value = at_field_int(c, f->offset);
    int64_t least = f->kind == AT_FIELD_INT ? f->min - f->name_count : f->min;
    return f->kind == AT_FIELD_U64 || (value >= least && value <= f->max);
}

/* The row of a key; the search starts at `from`, since keys mostly come in table order. */
static size_t find_row(size_t from, const char *key, size_t length)
{
    for (size_t i = 0, row = from; i < at_case_field_count; i++, row++) {
        row = row < at_case_field_count ? row : 0;
        const at_field *f = &at_case_fields[row];
        if (f->key_length == length && memcmp(f->key, key, length) == 0) {
            return row;
        }
    }
    return at_case_field_count;
}

static at_status unknown_key(const char *key, size_t length, at_error *err)
{
    char keys[320] = "";
    size_t used = 0;
    for (size_t i = 0; i < at_case_field_count && used < sizeof keys; i++) {
        int n = snprintf(keys + used, sizeof keys - used, " %s", at_case_fields[i].key);
        used += (size_t)n;
    }
    return at_fail(err, AT_INVALID, "unknown key \"%.*s\", the keys are%s",
                   length < 40 ? (int)length : 40, key, keys);
}

at_status at_case_assign(at_case *c, uint64_t *given, const char *key, size_t key_length,
                         const char *value, size_t value_length, at_error *err)
{
    size_t row = key_length > 0 ? find_row(0, key, key_length) : at_case_field_count;
    if (row == at_case_field_count) {
        return unknown_key(key, key_length, err);
    }
    AT_TRY(at_field_parse(c, &at_case_fields[row], value, value_length, err));
    *given |= UINT64_C(1) << row;
    return AT_OK;
}

void at_case_resolve(at_case *c, uint64_t given)
{
    for (size_t row = 0; row < at_case_field_count; row++) {
        const at_field *f = &at_case_fields[row];
        if ((given & (UINT64_C(1) << row)) != 0) {
            continue;
        }
        if (f->kind == AT_FIELD_REAL) {
            *at_case_real(c, f) = f->real_init;
        } else if (f->kind == AT_FIELD_LIST) {
            at_case_list(c, f)->n = 0;
        } else {
            at_case_set(c, f, at_field_init(c, f));
        }
    }
}

void at_case_init(at_case *out)
{
    memset(out, 0, sizeof *out);
    at_case_resolve(out, 0);
}

/* One "key=value" of the text; *row is where the search for the key starts, then the key's row. */
static at_status parse_pair(at_case *c, uint64_t *given, size_t *row, const char *pair,
                            size_t length, at_error *err)
{
    const char *equals = memchr(pair, '=', length);
    int shown = length < 60 ? (int)length : 60;
    if (equals == NULL || equals == pair) {
        return at_fail(err, AT_INVALID,
                       length == 0 ? "an empty pair in the case text%.*s, pairs are key=value "
                                     "joined by one ':'"
                                   : "\"%.*s\" is not key=value",
                       shown, pair);
    }
    size_t key_length = (size_t)(equals - pair);
    size_t found = find_row(*row, pair, key_length);
    if (found == at_case_field_count) {
        return unknown_key(pair, key_length, err);
    }
    if ((*given & (UINT64_C(1) << found)) != 0) {
        return at_fail(err, AT_INVALID, "the key %s is given twice", at_case_fields[found].key);
    }
    AT_TRY(at_field_parse(c, &at_case_fields[found], equals + 1, length - key_length - 1, err));
    *given |= UINT64_C(1) << found;
    *row = found + 1;
    return AT_OK;
}

at_status at_case_parse(at_case *out, const char *text, at_error *err)
{
    at_case c;
    uint64_t given = 0;
    size_t row = 0;
    memset(&c, 0, sizeof c);
    if (text[0] == '\0') {
        return at_fail(err, AT_INVALID, "the case text is empty, the default case is \"b=1\"");
    }
    for (const char *pair = text; pair != NULL;) {
        const char *colon = strchr(pair, ':');
        size_t length = colon != NULL ? (size_t)(colon - pair) : strlen(pair);
        AT_TRY(parse_pair(&c, &given, &row, pair, length, err));
        pair = colon != NULL ? colon + 1 : NULL;
    }
    at_case_resolve(&c, given);
    AT_TRY(at_case_check(&c, err));
    *out = c;
    return AT_OK;
}

static char *put_text(char *end, const char *text)
{
    size_t n = strlen(text);
    memcpy(end, text, n);
    return end + n;
}

static char *put_digits(char *end, uint64_t value)
{
    char digits[24];
    size_t n = 0;
    do {
        digits[sizeof digits - ++n] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    memcpy(end, digits + sizeof digits - n, n);
    return end + n;
}

static char *put_list(char *end, const at_len_list *list)
{
    for (int32_t i = 0; i < list->n; i++) {
        end = i > 0 ? put_text(end, "+") : end;
        end = put_digits(end, (uint64_t)list->len[i]);
    }
    return list->n == 0 ? put_text(end, "none") : end;
}

static char *put_int(char *end, int64_t value, const at_field *f)
{
    if (value >= 0) {
        return put_digits(end, (uint64_t)value);
    }
    return f->names != NULL ? put_text(end, f->names[-1 - value])
                            : put_digits(put_text(end, "-"), (uint64_t)0 - (uint64_t)value);
}

static char *put_real(char *end, double value, const at_field *f)
{
    if (f->names != NULL && value == AT_SCALE_AUTO) {
        return put_text(end, f->names[0]);
    }
    char text[AT_REAL_TEXT];
    (void)at_real_print(value, text);
    return put_text(end, text);
}

char *at_field_print(const at_case *c, const at_field *f, char *end)
{
    switch (f->kind) {
    case AT_FIELD_INT:
        return put_int(end, at_field_int(c, f->offset), f);
    case AT_FIELD_ENUM:
        return put_text(end, f->names[at_field_int(c, f->offset)]);
    case AT_FIELD_SET:
        for (int i = 0; f->names[i] != NULL; i++) {
            end = (at_field_int(c, f->offset) >> i & 1) != 0 ? put_text(end, f->names[i]) : end;
        }
        return end;
    case AT_FIELD_U64:
        return put_digits(end, (uint64_t)at_case_get(c, f));
    case AT_FIELD_REAL:
        return put_real(end, at_case_get_real(c, f), f);
    case AT_FIELD_LIST:
        return put_list(end, at_case_get_list(c, f));
    }
    return end;
}

size_t at_case_value(const at_case *c, const at_field *f, char text[AT_CASE_TEXT_MAX])
{
    char *end = at_field_print(c, f, text);
    *end = '\0';
    return (size_t)(end - text);
}

size_t at_case_print(const at_case *c, char text[AT_CASE_TEXT_MAX])
{
    char *end = text;
    for (size_t row = 0; row < at_case_field_count; row++) {
        const at_field *f = &at_case_fields[row];
        if (at_case_is_default(c, f)) {
            continue;
        }
        end = end > text ? put_text(end, ":") : end;
        memcpy(end, f->key, f->key_length);
        end = put_text(end + f->key_length, "=");
        end = at_field_print(c, f, end);
    }
    end = end == text ? put_text(end, "b=1") : end;
    *end = '\0';
    return (size_t)(end - text);
}

bool at_case_equal(const at_case *a, const at_case *b)
{
    for (size_t row = 0; row < at_case_field_count; row++) {
        if (!at_case_same(a, b, &at_case_fields[row])) {
            return false;
        }
    }
    return true;
}
