/* Primaries: names, literals, brackets and functions. */
#include "harness/select/expr_compile.h"

#include <stdio.h>
#include <string.h>

static const char *const words[] = {"true", "false", "in",      "sm",  "on", "min",
                                    "max",  "gcd",   "ceil_to", "has", NULL};

static bool is_word(const at_token *t, const char *word)
{
    return (t->kind == AT_TOKEN_WORD || t->kind == AT_TOKEN_QUOTED) && strlen(word) == t->length &&
           strncmp(t->text, word, t->length) == 0;
}

bool at_expr_is_word(const char *name)
{
    at_token t;
    uint16_t next = 0;
    size_t length = strlen(name);
    return length > 0 && length <= 60 && at_token_read(&t, name, 0, &next, NULL) == AT_OK &&
           t.kind == AT_TOKEN_WORD && t.length == length;
}

bool at_expr_name_usable(const char *name)
{
    if (!at_expr_is_word(name) || strncmp(name, "on.", 3) == 0) {
        return false;
    }
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], name) == 0) {
            return false;
        }
    }
    return at_case_field(name, strlen(name)) == NULL;
}

static void push(at_parser *p, at_operand *out, int kind, int64_t value)
{
    out->kind = kind;
    out->constant = true;
    out->value = value;
    at_parser_emit(p,
                   (at_expr_op){.code = AT_OP_PUSH, .column = out->token.column, .value = value});
}

static void load_field(at_parser *p, at_operand *out, const at_field *f)
{
    at_expr_op op = {
        .code = AT_OP_FIELD, .column = out->token.column, .offset = (uint32_t)f->offset};
    p->e->keys |= (uint64_t)1 << (f - at_case_fields);
    out->names = f->names;
    switch (f->kind) {
    case AT_FIELD_INT:
        out->kind = f->min == 0 && f->max == 1 ? AT_EXPR_BOOL : AT_EXPR_INT;
        break;
    case AT_FIELD_ENUM:
        out->kind = AT_EXPR_NAME;
        op.code = strcmp(f->key, "arch") == 0 ? AT_OP_ARCH : AT_OP_FIELD;
        break;
    case AT_FIELD_SET:
        out->kind = AT_KIND_LETTERS;
        break;
    case AT_FIELD_REAL:
        out->kind = AT_EXPR_REAL;
        break;
    case AT_FIELD_U64:
        out->kind = AT_EXPR_INT;
        op.code = AT_OP_U64;
        break;
    case AT_FIELD_LIST:
        out->kind = AT_KIND_LIST;
        op.code = AT_OP_GIVEN;
        break;
    }
    at_parser_emit(p, op);
}

static void load_name(at_parser *p, at_operand *out, const at_expr_name *n)
{
    out->names = n->type == AT_EXPR_NAME ? n->names : NULL;
    out->release = n->release;
    p->e->keys |= n->keys;
    if (n->slot < 0) {
        push(p, out, (int)n->type, n->type == AT_EXPR_RELEASE ? 0 : n->value);
        return;
    }
    out->kind = (int)n->type;
    at_parser_emit(p,
                   (at_expr_op){.code = AT_OP_SLOT, .column = out->token.column, .value = n->slot});
}

/* on.X, at the token */
static at_status load_on(at_parser *p, at_operand *out)
{
    at_token name = {.kind = AT_TOKEN_WORD,
                     .text = out->token.text + 3,
                     .length = (uint16_t)(out->token.length - 3)};
    for (size_t i = 0; i < p->scope->backend_count; i++) {
        if (is_word(&name, p->scope->backend[i])) {
            out->kind = AT_EXPR_BOOL;
            at_parser_emit(
                p,
                (at_expr_op){.code = AT_OP_ON, .column = out->token.column, .value = (int64_t)i});
            return AT_OK;
        }
    }
    char list[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < p->scope->backend_count && used < sizeof list; i++) {
        int n = snprintf(list + used, sizeof list - used, i ? ", %s" : "%s", p->scope->backend[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return at_parser_fail(p, out->token.column, "no backend is called \"%.*s\"; known: %s",
                          name.length > 60 ? 60 : name.length, name.text,
                          used > 0 ? list : "none here");
}

static const at_expr_name *find(const at_parser *p, const at_token *t)
{
    for (size_t i = 0; i < p->scope->name_count; i++) {
        if (is_word(t, p->scope->name[i].name)) {
            return &p->scope->name[i];
        }
    }
    return NULL;
}

static bool hinted(const at_token *t, const char *const *hint)
{
    for (; hint != NULL && *hint != NULL; hint++) {
        if (is_word(t, *hint)) {
            return true;
        }
    }
    return false;
}

static at_status load_word(at_parser *p, at_operand *out, const char *const *hint)
{
    const at_token *t = &out->token;
    const at_expr_name *name = find(p, t);
    const at_field *field = at_case_field(t->text, t->length);
    if (t->kind == AT_TOKEN_QUOTED || hinted(t, hint)) {
        push(p, out, AT_KIND_WORD, 0);
    } else if (is_word(t, "true") || is_word(t, "false")) {
        push(p, out, AT_EXPR_BOOL, is_word(t, "true"));
    } else if (t->length > 3 && strncmp(t->text, "on.", 3) == 0) {
        return load_on(p, out);
    } else if (is_word(t, "sm")) {
        p->e->keys |= (uint64_t)1 << (at_case_field("arch", 4) - at_case_fields);
        out->kind = AT_EXPR_INT;
        at_parser_emit(p, (at_expr_op){.code = AT_OP_SM, .column = t->column});
    } else if (name != NULL) {
        load_name(p, out, name);
    } else if (field != NULL) {
        load_field(p, out, field);
    } else {
        push(p, out, AT_KIND_WORD, 0);
    }
    return AT_OK;
}

/* has(name), after the bracket */
static at_status parse_has(at_parser *p, at_operand *out)
{
    char is[96];
    at_operand o = {.token = p->token, .start = p->e->count, .stack = p->stack};
    if (o.token.kind != AT_TOKEN_WORD) {
        return at_parser_fail(p, o.token.column, "has() asks for the name of a version or a list");
    }
    AT_TRY(at_parser_advance(p));
    AT_TRY(load_word(p, &o, NULL));
    out->kind = AT_EXPR_BOOL;
    if (o.kind == AT_EXPR_RELEASE && o.constant) {
        at_parser_replace(p, out, o.release.count > 0);
    } else if (o.kind == AT_EXPR_RELEASE) {
        int64_t slot = p->e->op[o.start].value;
        at_parser_drop(p, out);
        at_parser_emit_release(p, slot, &o.release, AT_BELOW | AT_EQUAL | AT_ABOVE, o.token.column);
        out->constant = false;
    } else if (o.kind != AT_KIND_LIST) {
        return at_parser_fail(p, o.token.column, "has() asks for a version or a list, not %s",
                              at_operand_text(&o, is));
    }
    return at_parser_expect(p, ")");
}

/* The arguments of min max gcd ceil_to, after the bracket. */
static at_status parse_arguments(at_parser *p, at_operand *out, at_expr_code code)
{
    bool many = code == AT_OP_MIN || code == AT_OP_MAX;
    char is[96];
    int count = 0;
    out->kind = AT_EXPR_INT;
    out->constant = true;
    for (;;) {
        at_operand o = {0};
        AT_TRY(at_parse_any(p, &o));
        if (o.kind != AT_EXPR_INT) {
            return at_parser_fail(p, o.token.column, "an integer is needed here, not %s",
                                  at_operand_text(&o, is));
        }
        out->constant = out->constant && o.constant;
        if (++count > 1) {
            at_parser_emit(p, (at_expr_op){.code = (uint8_t)code, .column = out->token.column});
        }
        if (!at_parser_at(p, ",") || (count == 2 && !many)) {
            break;
        }
        AT_TRY(at_parser_advance(p));
    }
    AT_TRY(at_parser_expect(p, ")"));
    if (count < 2) {
        return at_parser_fail(p, out->token.column, "%.*s takes %s", out->token.length,
                              out->token.text, many ? "two integers or more" : "two integers");
    }
    if (out->constant) {
        at_parser_fold(p, out);
    }
    return AT_OK;
}

static at_status parse_call(at_parser *p, at_operand *out)
{
    static const struct {
        const char *name;
        at_expr_code code;
    } known[] = {
        {"min", AT_OP_MIN}, {"max", AT_OP_MAX}, {"gcd", AT_OP_GCD}, {"ceil_to", AT_OP_CEIL}};
    AT_TRY(at_parser_expect(p, "("));
    if (is_word(&out->token, "has")) {
        return parse_has(p, out);
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (is_word(&out->token, known[i].name)) {
            at_token name = out->token;
            AT_TRY(parse_arguments(p, out, known[i].code));
            out->token = name;
            return AT_OK;
        }
    }
    return at_parser_fail(p, out->token.column,
                          "no function is called \"%.*s\"; known: min, max, gcd, ceil_to, has",
                          out->token.length > 60 ? 60 : out->token.length, out->token.text);
}

static at_status push_literal(at_parser *p, at_operand *out)
{
    const at_token *t = &out->token;
    at_error inner = {""};
    int64_t bits = 0;
    switch (t->kind) {
    case AT_TOKEN_INTEGER:
        push(p, out, AT_EXPR_INT, t->integer);
        return AT_OK;
    case AT_TOKEN_REAL:
        memcpy(&bits, &t->real, sizeof bits);
        push(p, out, AT_EXPR_REAL, bits);
        return AT_OK;
    case AT_TOKEN_RELEASE:
        push(p, out, AT_EXPR_RELEASE, 0);
        return at_release_parse(&out->release, t->text, t->length, &inner) == AT_OK
                   ? AT_OK
                   : at_parser_fail(p, t->column, "%s", inner.text);
    case AT_TOKEN_END:
    case AT_TOKEN_WORD:
    case AT_TOKEN_QUOTED:
    case AT_TOKEN_SIGN:
        break;
    }
    return t->kind == AT_TOKEN_END
               ? at_parser_fail(p, t->column, "a value is missing at the end")
               : at_parser_fail(p, t->column, "a value is missing before \"%.*s\"", t->length,
                                t->text);
}

at_status at_parse_primary(at_parser *p, at_operand *out)
{
    const char *const *hint = p->hint;
    *out = (at_operand){.token = p->token, .start = p->e->count, .stack = p->stack};
    p->hint = NULL;
    if (at_parser_at(p, "(")) {
        AT_TRY(at_parser_advance(p));
        AT_TRY(at_parse_any(p, out));
        return at_parser_expect(p, ")");
    }
    bool word = p->token.kind == AT_TOKEN_WORD || p->token.kind == AT_TOKEN_QUOTED;
    if (!word) {
        AT_TRY(push_literal(p, out));
        return at_parser_advance(p);
    }
    AT_TRY(at_parser_advance(p));
    return out->token.kind == AT_TOKEN_WORD && at_parser_at(p, "(") ? parse_call(p, out)
                                                                    : load_word(p, out, hint);
}
