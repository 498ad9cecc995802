#include "harness/select/expr_compile.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

at_status at_parser_fail(const at_parser *p, uint16_t column, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return at_fail(p->err, AT_INVALID, "column %d: %s", column, text);
}

at_status at_parser_advance(at_parser *p)
{
    return at_token_read(&p->token, p->text, p->next, &p->next, p->err);
}

bool at_parser_at(const at_parser *p, const char *sign)
{
    return p->token.kind == AT_TOKEN_SIGN && p->token.length == strlen(sign) &&
           strncmp(p->token.text, sign, p->token.length) == 0;
}

static at_status fail_here(const at_parser *p, const char *wanted)
{
    const at_token *t = &p->token;
    return t->kind == AT_TOKEN_END
               ? at_parser_fail(p, t->column, "%s is missing at the end", wanted)
               : at_parser_fail(p, t->column, "%s is missing before \"%.*s\"", wanted,
                                t->length > 60 ? 60 : t->length, t->text);
}

at_status at_parser_expect(at_parser *p, const char *sign)
{
    char wanted[8];
    (void)snprintf(wanted, sizeof wanted, "'%s'", sign);
    return at_parser_at(p, sign) ? at_parser_advance(p) : fail_here(p, wanted);
}

static int effect(uint8_t code)
{
    switch (code) {
    case AT_OP_TO_REAL:
    case AT_OP_TO_REAL_BELOW:
    case AT_OP_NEG:
    case AT_OP_NOT:
    case AT_OP_RANGE:
    case AT_OP_IN:
    case AT_OP_OVERLAP:
        return 0;
    case AT_OP_ADD:
    case AT_OP_SUB:
    case AT_OP_MUL:
    case AT_OP_DIV:
    case AT_OP_MOD:
    case AT_OP_MIN:
    case AT_OP_MAX:
    case AT_OP_GCD:
    case AT_OP_CEIL:
    case AT_OP_COMPARE:
    case AT_OP_REAL_COMPARE:
    case AT_OP_IF_FALSE:
    case AT_OP_IF_TRUE:
        return -1;
    default:
        return 1;
    }
}

void at_parser_emit(at_parser *p, at_expr_op op)
{
    p->e->op[p->e->count++] = op;
    p->stack += effect(op.code);
    p->stack_most = p->stack > p->stack_most ? p->stack : p->stack_most;
}

void at_parser_emit_release(at_parser *p, int64_t slot, const at_release *with, int accept,
                            uint16_t column)
{
    at_release *named = realloc(p->e->named, (p->e->named_count + 1) * sizeof *named);
    AT_ASSERT(named != NULL); /* only memory can run out */
    named[p->e->named_count] = *with;
    p->e->named = named;
    at_parser_emit(p, (at_expr_op){.code = AT_OP_RELEASE,
                                   .column = column,
                                   .offset = (uint32_t)slot,
                                   .value = accept,
                                   .span = p->e->named_count++});
}

void at_parser_drop(at_parser *p, const at_operand *o)
{
    p->e->count = o->start;
    p->stack = o->stack;
}

void at_parser_replace(at_parser *p, at_operand *o, int64_t value)
{
    at_parser_drop(p, o);
    at_parser_emit(p, (at_expr_op){.code = AT_OP_PUSH, .column = o->token.column, .value = value});
    o->constant = true;
    o->value = value;
}

void at_parser_fold(at_parser *p, at_operand *o)
{
    at_expr part = {.op = p->e->op + o->start, .pool = p->e->pool, .count = p->e->count - o->start};
    const at_expr_frame frame = {.c = NULL};
    int64_t value = 0;
    if (at_expr_eval(&value, &part, &frame, NULL) == AT_OK) {
        at_parser_replace(p, o, value);
    } else {
        o->constant = false;
    }
}

const char *at_operand_text(const at_operand *o, char text[96])
{
    static const char *const kinds[] = {"a condition",   "an integer",
                                        "a real number", "one of a list of names",
                                        "a version",     "anything"};
    int length = o->token.length > 40 ? 40 : o->token.length;
    if (o->kind == AT_KIND_WORD) {
        (void)snprintf(text, 96, "the unknown name \"%.*s\"", length, o->token.text);
    } else if (o->kind == AT_KIND_LETTERS) {
        (void)snprintf(text, 96, "the set of letters \"%.*s\"", length, o->token.text);
    } else if (o->kind == AT_KIND_LIST) {
        (void)snprintf(text, 96, "the list \"%.*s\"", length, o->token.text);
    } else {
        (void)snprintf(text, 96, "%s", kinds[o->kind]);
    }
    return text;
}

static at_status need(const at_parser *p, const at_operand *o, at_expr_type type)
{
    char is[96];
    if (o->kind == (int)type) {
        return AT_OK;
    }
    return at_parser_fail(p, o->token.column, "%s is needed here, not %s",
                          type == AT_EXPR_BOOL ? "a condition" : "an integer",
                          at_operand_text(o, is));
}

static at_status enter(at_parser *p)
{
    return ++p->depth > AT_EXPR_DEPTH
               ? at_parser_fail(p, p->token.column, "nested deeper than %d", AT_EXPR_DEPTH)
               : AT_OK;
}

static bool is_jump(const at_expr_op *op)
{
    return op->code == AT_OP_IF_FALSE || op->code == AT_OP_IF_TRUE;
}

/* Turns the truth that the operand ends with around in place; false: it needs an op of its own. */
static bool negate(at_parser *p, const at_operand *o)
{
    at_expr_op *last = &p->e->op[p->e->count - 1];
    for (const at_expr_op *op = p->e->op + o->start; op < last; op++) {
        if (is_jump(op) && op->value == p->e->count) { /* another truth arrives at the end */
            return false;
        }
    }
    switch (last->code) {
    case AT_OP_COMPARE:
        last->value ^= AT_BELOW | AT_EQUAL | AT_ABOVE;
        return true;
    case AT_OP_FIELD_RANGE:
    case AT_OP_RANGE:
    case AT_OP_FIELD_BITS:
    case AT_OP_IN:
    case AT_OP_OVERLAP:
    case AT_OP_SLOT:
        last->negate ^= 1;
        return true;
    default:
        return false;
    }
}

static at_status parse_unary(at_parser *p, at_operand *out)
{
    bool negative = at_parser_at(p, "-");
    if (!negative && !at_parser_at(p, "!")) {
        return at_parse_primary(p, out);
    }
    at_token sign = p->token;
    p->hint = NULL;
    AT_TRY(enter(p));
    AT_TRY(at_parser_advance(p));
    AT_TRY(parse_unary(p, out));
    AT_TRY(need(p, out, negative ? AT_EXPR_INT : AT_EXPR_BOOL));
    p->depth--;
    if (negative || !negate(p, out)) {
        at_parser_emit(
            p, (at_expr_op){.code = negative ? AT_OP_NEG : AT_OP_NOT, .column = sign.column});
    }
    out->names = NULL;
    out->token = sign;
    if (out->constant) {
        at_parser_fold(p, out);
    }
    return AT_OK;
}

/* + - (product false) or * / % (product true), left to right. */
static at_status parse_arithmetic(at_parser *p, at_operand *out, bool product)
{
    static const char *const signs[] = {"+", "-", "*", "/", "%"};
    int from = product ? 2 : 0, to = product ? 5 : 2;
    AT_TRY(product ? parse_unary(p, out) : parse_arithmetic(p, out, true));
    for (;;) {
        int i = from;
        while (i < to && !at_parser_at(p, signs[i])) {
            i++;
        }
        if (i == to) {
            return AT_OK;
        }
        uint16_t column = p->token.column;
        at_operand right = {0};
        AT_TRY(need(p, out, AT_EXPR_INT));
        AT_TRY(at_parser_advance(p));
        AT_TRY(product ? parse_unary(p, &right) : parse_arithmetic(p, &right, true));
        AT_TRY(need(p, &right, AT_EXPR_INT));
        at_parser_emit(p, (at_expr_op){.code = (uint8_t)(AT_OP_ADD + i), .column = column});
        out->names = NULL;
        out->token.kind = AT_TOKEN_SIGN; /* a sum is no literal */
        out->constant = out->constant && right.constant;
        if (out->constant) {
            at_parser_fold(p, out);
        }
    }
}

at_status at_parse_sum(at_parser *p, at_operand *out)
{
    return parse_arithmetic(p, out, false);
}

static int comparison(const at_parser *p)
{
    static const struct {
        const char *sign;
        int accept;
    } known[] = {{"==", AT_EQUAL}, {"!=", AT_BELOW | AT_ABOVE},
                 {"<", AT_BELOW},  {"<=", AT_BELOW | AT_EQUAL},
                 {">", AT_ABOVE},  {">=", AT_ABOVE | AT_EQUAL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (at_parser_at(p, known[i].sign)) {
            return known[i].accept;
        }
    }
    return 0;
}

static bool at_in(const at_parser *p)
{
    return p->token.kind == AT_TOKEN_WORD && p->token.length == 2 &&
           strncmp(p->token.text, "in", 2) == 0;
}

static at_status parse_comparison(at_parser *p, at_operand *out)
{
    AT_TRY(at_parse_sum(p, out));
    int accept = comparison(p);
    uint16_t column = p->token.column;
    if (at_in(p)) {
        AT_TRY(at_parser_advance(p));
        AT_TRY(at_parse_in(p, out, column));
    } else if (accept != 0) {
        at_operand right = {0};
        AT_TRY(at_parser_advance(p));
        p->hint = out->names;
        AT_TRY(at_parse_sum(p, &right));
        AT_TRY(at_parse_compare(p, out, &right, accept, column));
    } else {
        return AT_OK;
    }
    return comparison(p) != 0 || at_in(p)
               ? at_parser_fail(p, p->token.column, "comparisons do not chain; join them with &&")
               : AT_OK;
}

/* Joins *out and right after `jump`, the op that skips right when *out decides. */
static void join(at_parser *p, at_operand *out, const at_operand *right, uint32_t jump, bool is_or)
{
    if (!right->constant) {
        p->e->op[jump].value = p->e->count;
        return;
    }
    p->e->count = jump;
    p->stack = out->stack + 1;
    if ((right->value != 0) == is_or) {
        at_parser_replace(p, out, is_or);
    }
}

static at_status parse_logic(at_parser *p, at_operand *out, bool is_or)
{
    AT_TRY(is_or ? parse_logic(p, out, false) : parse_comparison(p, out));
    while (at_parser_at(p, is_or ? "||" : "&&")) {
        at_operand right = {0};
        AT_TRY(need(p, out, AT_EXPR_BOOL));
        uint32_t jump = p->e->count;
        if (out->constant) {
            at_parser_drop(p, out);
        } else {
            at_parser_emit(p, (at_expr_op){.code = is_or ? AT_OP_IF_TRUE : AT_OP_IF_FALSE,
                                           .column = p->token.column});
        }
        AT_TRY(at_parser_advance(p));
        AT_TRY(is_or ? parse_logic(p, &right, false) : parse_comparison(p, &right));
        AT_TRY(need(p, &right, AT_EXPR_BOOL));
        if (!out->constant) {
            join(p, out, &right, jump, is_or);
        } else if ((out->value != 0) == is_or) {
            at_parser_replace(p, out, is_or);
        } else {
            right.token = out->token;
            *out = right;
        }
    }
    return AT_OK;
}

at_status at_parse_any(at_parser *p, at_operand *out)
{
    p->hint = NULL;
    AT_TRY(enter(p));
    AT_TRY(parse_logic(p, out, true));
    p->depth--;
    return AT_OK;
}

/* Jumps that land on a jump of their kind go where it goes; truths take over the jump behind them.
 */
static void link_jumps(at_expr *e)
{
    for (uint32_t i = e->count; i-- > 0;) {
        at_expr_op *op = &e->op[i];
        while (is_jump(op) && op->value < e->count && e->op[op->value].code == op->code) {
            op->value = e->op[op->value].value;
        }
        bool truth = op->code == AT_OP_FIELD_RANGE || op->code == AT_OP_RANGE ||
                     op->code == AT_OP_FIELD_BITS || op->code == AT_OP_COMPARE ||
                     op->code == AT_OP_SLOT || op->code == AT_OP_NOT;
        if (truth && i + 1 < e->count && is_jump(op + 1)) {
            op->branch = op[1].code == AT_OP_IF_TRUE ? AT_BRANCH_TRUE : AT_BRANCH_FALSE;
            op->target = (uint32_t)op[1].value;
        }
    }
}

static at_status finish(at_parser *p, const at_operand *o, at_expr_type want)
{
    char is[96];
    if (p->token.kind != AT_TOKEN_END) {
        return at_parser_fail(p, p->token.column, "\"%.*s\" is not expected here",
                              p->token.length > 60 ? 60 : p->token.length, p->token.text);
    }
    if (want != AT_EXPR_ANY) {
        AT_TRY(need(p, o, want));
    } else if (o->kind > AT_EXPR_ANY) {
        return at_parser_fail(p, o->token.column, "a value is needed here, not %s",
                              at_operand_text(o, is));
    }
    if (p->stack_most > AT_EXPR_STACK) {
        return at_parser_fail(p, 1, "needs %d words at once, at most %d are there", p->stack_most,
                              AT_EXPR_STACK);
    }
    link_jumps(p->e);
    p->e->type = (at_expr_type)o->kind;
    p->e->names = o->kind == AT_EXPR_NAME ? o->names : NULL;
    p->e->constant = o->constant;
    p->e->release = o->release;
    for (uint32_t i = 0; i < p->e->count; i++) {
        const at_expr_op *op = &p->e->op[i];
        p->e->slots |= op->code == AT_OP_SLOT && op->value < 64 ? (uint64_t)1 << op->value : 0;
    }
    return AT_OK;
}

at_status at_expr_compile(at_expr **out, const char *text, const at_expr_scope *scope,
                          at_expr_type want, at_error *err)
{
    static const at_expr_scope none;
    size_t length = strlen(text);
    *out = NULL;
    if (length > AT_EXPR_TEXT) {
        return at_fail(err, AT_INVALID,
                       "column %d: the expression has %zu bytes, at most %d are read",
                       AT_EXPR_TEXT + 1, length, AT_EXPR_TEXT);
    }
    at_expr *e = calloc(1, sizeof *e);
    if (e != NULL) { /* a word of the text makes at most two operations and one word of a set */
        e->op = calloc(2 * length + 8, sizeof *e->op);
        e->pool = calloc(length + 1, sizeof *e->pool);
    }
    if (e == NULL || e->op == NULL || e->pool == NULL) {
        at_expr_close(e);
        return at_fail(err, AT_NO_MEMORY, "no memory for an expression of %zu bytes", length);
    }
    at_parser p = {.text = text, .scope = scope != NULL ? scope : &none, .e = e, .err = err};
    at_operand o = {0};
    at_status status = at_parser_advance(&p);
    status = status == AT_OK ? at_parse_any(&p, &o) : status;
    status = status == AT_OK ? finish(&p, &o, want) : status;
    if (status != AT_OK) {
        at_expr_close(e);
        return status;
    }
    *out = e;
    return AT_OK;
}
