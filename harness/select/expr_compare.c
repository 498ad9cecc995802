/* Comparisons and sets: which operands meet, and the code for them. */
#include "harness/select/expr_compile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool spells(const at_token *t, const char *name)
{
    return strlen(name) == t->length && strncmp(t->text, name, t->length) == 0;
}

static at_status unknown_spelling(const at_parser *p, const at_token *t, const at_operand *other)
{
    char list[256] = "";
    size_t used = 0;
    for (int i = 0; other->names[i] != NULL && used < sizeof list; i++) {
        int n = snprintf(list + used, sizeof list - used, i ? ", %s" : "%s", other->names[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return at_parser_fail(p, t->column, "\"%.*s\" is no value of \"%.*s\"; accepted: %s",
                          t->length > 60 ? 60 : t->length, t->text,
                          other->token.length > 60 ? 60 : other->token.length, other->token.text,
                          list);
}

/* The bits of a word of letters, such as qkv. */
static at_status letters_of(const at_parser *p, const at_token *word, const at_operand *set,
                            int64_t *bits)
{
    *bits = 0;
    for (uint16_t i = 0; i < word->length; i++) {
        int bit = 0;
        while (set->names[bit] != NULL && set->names[bit][0] != word->text[i]) {
            bit++;
        }
        if (set->names[bit] == NULL) {
            return unknown_spelling(p, word, set);
        }
        *bits |= (int64_t)1 << bit;
    }
    return AT_OK;
}

/* A word's code is one PUSH, which the other side's code may follow. */
static void put_constant(at_parser *p, at_operand *word, const at_operand *like, int64_t value)
{
    word->kind = like->kind;
    word->names = like->names;
    word->value = value;
    p->e->op[word->start].value = value;
}

/* Turns the word into the constant that it spells for the other operand. */
static at_status spell(at_parser *p, at_operand *word, const at_operand *other)
{
    char is[96];
    if (other->names == NULL || other->kind == AT_KIND_WORD) {
        return at_parser_fail(p, word->token.column, "%s means nothing here",
                              at_operand_text(word, is));
    }
    int64_t value = 0;
    if (other->kind == AT_KIND_LETTERS) {
        AT_TRY(letters_of(p, &word->token, other, &value));
        put_constant(p, word, other, value);
        return AT_OK;
    }
    for (int i = 0; other->names[i] != NULL; i++) {
        if (!spells(&word->token, other->names[i])) {
            continue;
        }
        value = other->kind == AT_EXPR_INT ? -1 - i : i;
        if (other->kind == AT_EXPR_REAL) {
            double infinite = HUGE_VAL;
            memcpy(&value, &infinite, sizeof value);
        }
        put_constant(p, word, other, value);
        return AT_OK;
    }
    return unknown_spelling(p, &word->token, other);
}

/* A number that stands beside a release is one: 9.14, 9. */
static at_status read_as_release(at_parser *p, at_operand *o)
{
    at_error inner = {""};
    if (at_release_parse(&o->release, o->token.text, o->token.length, &inner) != AT_OK) {
        return at_parser_fail(p, o->token.column, "%s", inner.text);
    }
    o->kind = AT_EXPR_RELEASE;
    return AT_OK;
}

static bool is_number(const at_operand *o)
{
    return o->constant && (o->token.kind == AT_TOKEN_INTEGER || o->token.kind == AT_TOKEN_REAL);
}

static bool same_names(const char *const *a, const char *const *b)
{
    int i = 0;
    while (a != b && a[i] != NULL && b[i] != NULL && strcmp(a[i], b[i]) == 0) {
        i++;
    }
    return a == b || (a[i] == NULL && b[i] == NULL);
}

/* Gives both operands one kind, in place. */
static at_status reconcile(at_parser *p, at_operand *a, at_operand *b, uint16_t column)
{
    char left[96], right[96];
    if (a->kind == AT_KIND_WORD) {
        AT_TRY(spell(p, a, b));
    } else if (b->kind == AT_KIND_WORD) {
        AT_TRY(spell(p, b, a));
    } else if (a->kind == AT_EXPR_RELEASE && is_number(b)) {
        AT_TRY(read_as_release(p, b));
    } else if (b->kind == AT_EXPR_RELEASE && is_number(a)) {
        AT_TRY(read_as_release(p, a));
    }
    bool bits = (a->kind == AT_EXPR_BOOL && b->kind == AT_EXPR_INT && b->constant &&
                 (uint64_t)b->value <= 1) ||
                (b->kind == AT_EXPR_BOOL && a->kind == AT_EXPR_INT && a->constant &&
                 (uint64_t)a->value <= 1);
    if (bits) {
        a->kind = b->kind = AT_EXPR_BOOL;
    }
    bool numbers = (a->kind == AT_EXPR_INT || a->kind == AT_EXPR_REAL) &&
                   (b->kind == AT_EXPR_INT || b->kind == AT_EXPR_REAL);
    bool names = a->kind == AT_EXPR_NAME && b->kind == AT_EXPR_NAME;
    if (a->kind == AT_KIND_LIST || (a->kind != b->kind && !numbers) ||
        (names && !same_names(a->names, b->names))) {
        return at_parser_fail(p, column, "%s and %s cannot be compared%s", at_operand_text(a, left),
                              at_operand_text(b, right), names ? ", their names differ" : "");
    }
    return AT_OK;
}

static void one_to_real(at_parser *p, at_operand *o, uint8_t code)
{
    if (!o->constant) {
        at_parser_emit(p, (at_expr_op){.code = code});
        return;
    }
    double x = (double)o->value;
    memcpy(&o->value, &x, sizeof x);
    p->e->op[o->start].value = o->value;
}

static void to_real(at_parser *p, at_operand *a, at_operand *b)
{
    if (a->kind == AT_EXPR_INT) {
        one_to_real(p, a, AT_OP_TO_REAL_BELOW);
    }
    if (b->kind == AT_EXPR_INT) {
        one_to_real(p, b, AT_OP_TO_REAL);
    }
}

/* The values v with `v accept value` as one interval or its complement. */
static at_expr_op range_of(int accept, int64_t value, uint16_t column)
{
    bool upward = (accept & AT_ABOVE) != 0 && (accept & AT_BELOW) == 0; /* not (v < or <= value) */
    bool closed = upward ? (accept & AT_EQUAL) == 0 : (accept & AT_EQUAL) != 0;
    at_expr_op op = {.code = AT_OP_RANGE, .column = column, .value = value};
    if (accept == AT_EQUAL || accept == (AT_BELOW | AT_ABOVE)) {
        op.negate = accept != AT_EQUAL;
        return op;
    }
    op.value = INT64_MIN;
    op.negate = upward;
    op.span = (uint64_t)value - (uint64_t)INT64_MIN - !closed;
    if (!closed && value == INT64_MIN) { /* nothing lies below it */
        op.span = UINT64_MAX;
        op.negate = !upward;
    }
    return op;
}

static bool is_field(const at_parser *p, const at_operand *a, uint32_t end)
{
    return end == a->start + 1 && p->e->op[a->start].code == AT_OP_FIELD;
}

/* Integers, names, letters and booleans, already of one kind. */
static void emit_compare(at_parser *p, at_operand *a, const at_operand *b, int accept,
                         uint16_t column)
{
    if (!b->constant) {
        at_parser_emit(p, (at_expr_op){.code = AT_OP_COMPARE, .column = column, .value = accept});
        return;
    }
    at_expr_op op = range_of(accept, b->value, column);
    at_parser_drop(p, b);
    if (is_field(p, a, b->start)) {
        op.code = AT_OP_FIELD_RANGE;
        op.offset = p->e->op[a->start].offset;
        at_parser_drop(p, a);
    }
    at_parser_emit(p, op);
}

/* Versions of which one or both are not known yet. */
static void compare_free(at_parser *p, at_operand *a, const at_operand *b, int accept,
                         uint16_t column)
{
    at_operand slot = a->constant ? *b : *a;
    at_operand with = a->constant ? *a : *b;
    int turned = (accept & AT_EQUAL) | ((accept & AT_BELOW) != 0 ? AT_ABOVE : 0) |
                 ((accept & AT_ABOVE) != 0 ? AT_BELOW : 0);
    int64_t number = p->e->op[slot.start].value;
    bool known = with.constant && with.release.count > 0;
    at_parser_drop(p, a);
    if (known) {
        at_parser_emit_release(p, number, &with.release, a->constant ? turned : accept, column);
    } else {
        at_parser_emit(p, (at_expr_op){.code = AT_OP_UNKNOWN, .column = column});
    }
    a->kind = AT_EXPR_BOOL;
    a->names = NULL;
    a->constant = false;
}

at_status at_parse_compare(at_parser *p, at_operand *a, at_operand *b, int accept, uint16_t column)
{
    AT_TRY(reconcile(p, a, b, column));
    bool ordered = a->kind == AT_EXPR_INT || a->kind == AT_EXPR_REAL || a->kind == AT_EXPR_RELEASE;
    if (!ordered && accept != AT_EQUAL && accept != (AT_BELOW | AT_ABOVE)) {
        char is[96];
        return at_parser_fail(p, column, "%s has no order; == and != are accepted",
                              at_operand_text(a, is));
    }
    if (a->kind == AT_EXPR_RELEASE && !(a->constant && b->constant)) {
        compare_free(p, a, b, accept, column);
        return AT_OK;
    }
    if (a->kind == AT_EXPR_RELEASE) {
        bool both = a->release.count > 0 && b->release.count > 0;
        int sign = both ? at_release_compare(&a->release, &b->release) : 0;
        a->kind = AT_EXPR_BOOL;
        at_parser_replace(p, a, both ? accept >> (1 + sign) & 1 : accept == (AT_BELOW | AT_ABOVE));
        return AT_OK;
    }
    if (a->kind == AT_EXPR_REAL || b->kind == AT_EXPR_REAL) {
        to_real(p, a, b);
        at_parser_emit(p,
                       (at_expr_op){.code = AT_OP_REAL_COMPARE, .column = column, .value = accept});
    } else {
        emit_compare(p, a, b, accept, column);
    }
    a->kind = AT_EXPR_BOOL;
    a->names = NULL;
    a->constant = a->constant && b->constant;
    if (a->constant) {
        at_parser_fold(p, a);
    }
    return AT_OK;
}

/* One element of a set, checked against *a; its code is dropped again. */
static at_status read_element(at_parser *p, at_operand *a, at_operand *element)
{
    char is[96];
    p->hint = a->names;
    AT_TRY(at_parse_sum(p, element));
    AT_TRY(reconcile(p, a, element, element->token.column));
    if (!element->constant || element->kind == AT_EXPR_REAL) {
        return at_parser_fail(p, element->token.column,
                              "a set holds constants: integers, names or versions, not %s",
                              element->constant ? "real numbers" : at_operand_text(element, is));
    }
    at_parser_drop(p, element);
    return AT_OK;
}

static void emit_in(at_parser *p, at_operand *a, uint32_t first, uint32_t count, uint64_t bits,
                    bool small, uint16_t column)
{
    at_expr_op op = {.code = AT_OP_IN, .column = column, .offset = count, .value = first};
    if (small && is_field(p, a, p->e->count)) {
        op = (at_expr_op){.code = AT_OP_FIELD_BITS,
                          .column = column,
                          .offset = p->e->op[a->start].offset,
                          .value = (int64_t)bits};
        at_parser_drop(p, a);
    }
    at_parser_emit(p, op);
    a->kind = AT_EXPR_BOOL;
    a->names = NULL;
    if (a->constant) {
        at_parser_fold(p, a);
    }
}

/* `'b' in grads` */
static at_status parse_letter_in(at_parser *p, at_operand *a)
{
    char is[96];
    at_token word = a->token;
    bool is_word = a->kind == AT_KIND_WORD;
    at_operand set = {0};
    at_parser_drop(p, a);
    AT_TRY(at_parse_primary(p, &set));
    if (set.kind != AT_KIND_LETTERS || !is_word) {
        return at_parser_fail(p, set.token.column,
                              "after `in` stands { with the accepted values, not %s",
                              at_operand_text(&set, is));
    }
    int64_t bits = 0;
    AT_TRY(letters_of(p, &word, &set, &bits));
    at_parser_emit(p, (at_expr_op){.code = AT_OP_OVERLAP, .column = word.column, .value = bits});
    *a = set;
    a->kind = AT_EXPR_BOOL;
    a->names = NULL;
    return AT_OK;
}

at_status at_parse_in(at_parser *p, at_operand *a, uint16_t column)
{
    if (!at_parser_at(p, "{")) {
        return parse_letter_in(p, a);
    }
    if (a->kind == AT_EXPR_REAL) {
        return at_parser_fail(p, column, "`in` is not for real numbers");
    }
    uint32_t first = p->pool_used, count = 0;
    uint64_t bits = 0;
    bool small = true, found = false, release = a->kind == AT_EXPR_RELEASE;
    do {
        at_operand element = {0};
        AT_TRY(at_parser_advance(p));
        AT_TRY(read_element(p, a, &element));
        small = small && (uint64_t)element.value < 64;
        bits |= small ? (uint64_t)1 << element.value : 0;
        p->e->pool[p->pool_used++] = element.value;
        count++;
        found = found || (release && a->release.count > 0 && element.release.count > 0 &&
                          at_release_compare(&a->release, &element.release) == 0);
    } while (at_parser_at(p, ","));
    AT_TRY(at_parser_expect(p, "}"));
    if (release && !a->constant) {
        at_parser_drop(p, a);
        at_parser_emit(p, (at_expr_op){.code = AT_OP_UNKNOWN, .column = column});
        a->kind = AT_EXPR_BOOL;
        return AT_OK;
    }
    if (release) {
        a->kind = AT_EXPR_BOOL;
        at_parser_replace(p, a, found);
        return AT_OK;
    }
    emit_in(p, a, first, count, bits, small, column);
    return AT_OK;
}
