#include "harness/select/expr_lex.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static at_status fail(at_error *err, const at_token *t, const char *what)
{
    return at_fail(err, AT_INVALID, "column %d: %s", t->column, what);
}

/* v2.8.3, v2025-02, 4.0.0b11: digits and letters, joined by '.' or by '-' before a digit. */
static uint16_t release_length(const char *text, bool months)
{
    uint16_t n = 0;
    for (;; n++) {
        bool joint = (text[n] == '.' || (months && text[n] == '-')) &&
                     (is_digit(text[n + 1]) || (text[n] == '.' && is_letter(text[n + 1])));
        if (!joint && !is_digit(text[n]) && !is_letter(text[n])) {
            return n;
        }
    }
}

static at_status read_number(at_token *t, at_error *err)
{
    uint16_t n = 0;
    int dots = 0;
    while (is_digit(t->text[n]) || (t->text[n] == '.' && is_digit(t->text[n + 1]))) {
        dots += t->text[n++] == '.';
    }
    bool letters = is_letter(t->text[n]) || t->text[n] == '.';
    t->length = n;
    if (letters && dots == 0) {
        return fail(err, t, "a number ends in letters");
    }
    if (letters || dots > 1) {
        t->kind = AT_TOKEN_RELEASE;
        t->length = release_length(t->text, false);
        return AT_OK;
    }
    t->kind = dots == 1 ? AT_TOKEN_REAL : AT_TOKEN_INTEGER;
    errno = 0;
    t->integer = dots == 1 ? 0 : strtoll(t->text, NULL, 10);
    if (errno == ERANGE) {
        return fail(err, t, "the number does not fit 64 bits");
    }
    t->real = strtod(t->text, NULL);
    return AT_OK;
}

static at_status read_quoted(at_token *t, at_error *err)
{
    const char *end = strchr(t->text + 1, t->text[0]);
    if (end == NULL) {
        return fail(err, t, "the quote is not closed");
    }
    t->kind = AT_TOKEN_QUOTED;
    t->text++;
    t->length = (uint16_t)(end - t->text);
    return AT_OK;
}

static at_status read_sign(at_token *t, at_error *err)
{
    static const char *const two[] = {"==", "!=", "<=", ">=", "&&", "||", NULL};
    t->kind = AT_TOKEN_SIGN;
    t->length = 1;
    for (int i = 0; two[i] != NULL; i++) {
        if (strncmp(t->text, two[i], 2) == 0) {
            t->length = 2;
            return AT_OK;
        }
    }
    if (strchr("<>!+-*/%(){},", t->text[0]) != NULL) {
        return AT_OK;
    }
    unsigned char c = (unsigned char)t->text[0];
    return isprint(c) ? at_fail(err, AT_INVALID, "column %d: '%c' means nothing here", t->column, c)
                      : at_fail(err, AT_INVALID, "column %d: the byte 0x%02x means nothing here",
                                t->column, c);
}

at_status at_token_read(at_token *out, const char *text, uint16_t at, uint16_t *next, at_error *err)
{
    while (text[at] == ' ' || text[at] == '\t' || text[at] == '\n') {
        at++;
    }
    at_token t = {.kind = AT_TOKEN_END, .column = (uint16_t)(at + 1), .text = text + at};
    at_status status = AT_OK;
    if (is_digit(text[at])) {
        status = read_number(&t, err);
    } else if (text[at] == 'v' && is_digit(text[at + 1])) {
        t.kind = AT_TOKEN_RELEASE;
        t.length = release_length(t.text, true);
    } else if (is_letter(text[at])) {
        t.kind = AT_TOKEN_WORD;
        t.length = release_length(t.text, false);
    } else if (text[at] == '\'' || text[at] == '"') {
        status = read_quoted(&t, err);
    } else if (text[at] != '\0') {
        status = read_sign(&t, err);
    }
    *next = (uint16_t)(t.text + t.length + (t.kind == AT_TOKEN_QUOTED) - text);
    *out = t;
    return status;
}
