/* The one-pass compiler of expressions, shared by its three files. Inside the folder. */
#ifndef AT_EXPR_COMPILE_H
#define AT_EXPR_COMPILE_H

#include "harness/select/expr_code.h"
#include "harness/select/expr_lex.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of an operand: the types, and three that only meet another operand. */
enum {
    AT_KIND_WORD = AT_EXPR_ANY + 1, /* no name of the scope: perhaps a spelling of the other side */
    AT_KIND_LETTERS,                /* a key that holds a set of letters */
    AT_KIND_LIST
};

/* What the code from op `start` on leaves on the stack. A constant is one PUSH (a RELEASE too, of
 * 0). */
typedef struct at_operand {
    int kind;
    bool constant;
    const char *const *names; /* spellings; of an INT those of -1, -2, ..; of a REAL that of +inf */
    at_token token;           /* its first word */
    uint32_t start;
    int stack; /* words below it */
    int64_t value;
    at_release release;
} at_operand;

typedef struct at_parser {
    const char *text;
    uint16_t next;
    at_token token; /* the word to be read now */
    const at_expr_scope *scope;
    const char *const *hint; /* spellings that win over names, for the next primary only */
    at_expr *e;
    uint32_t pool_used;
    int depth, stack, stack_most;
    at_error *err;
} at_parser;

/* "column N: sentence" */
at_status at_parser_fail(const at_parser *p, uint16_t column, const char *format, ...)
    AT_PRINTF(3, 4);
at_status at_parser_advance(at_parser *p) AT_MUST_CHECK;
bool at_parser_at(const at_parser *p, const char *sign);
at_status at_parser_expect(at_parser *p, const char *sign) AT_MUST_CHECK;
void at_parser_emit(at_parser *p, at_expr_op op);

/* Removes the operand's code. */
void at_parser_drop(at_parser *p, const at_operand *o);
/* Removes its code and pushes the constant in its place. */
void at_parser_replace(at_parser *p, at_operand *o, int64_t value);
/* Evaluates its code, made of constants alone; an error stays for the evaluation. */
void at_parser_fold(at_parser *p, at_operand *o);

/* AT_OP_RELEASE; `accept` is its value. */
void at_parser_emit_release(at_parser *p, int64_t slot, const at_release *with, int accept,
                            uint16_t column);

/* "an integer", "the unknown name "x"" */
const char *at_operand_text(const at_operand *o, char text[96]);

at_status at_parse_any(at_parser *p, at_operand *out) AT_MUST_CHECK;
at_status at_parse_sum(at_parser *p, at_operand *out) AT_MUST_CHECK;
at_status at_parse_primary(at_parser *p, at_operand *out) AT_MUST_CHECK;

/* a OP b, with the code of both in place; accept as in AT_OP_COMPARE. */
at_status at_parse_compare(at_parser *p, at_operand *a, at_operand *b, int accept,
                           uint16_t column) AT_MUST_CHECK;
/* What stands after `a in`. */
at_status at_parse_in(at_parser *p, at_operand *a, uint16_t column) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
