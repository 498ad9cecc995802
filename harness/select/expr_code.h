/* Flat code of an expression: a stack machine over 64-bit words. Inside the folder. */
#ifndef AT_EXPR_CODE_H
#define AT_EXPR_CODE_H

#include "harness/select/expr.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum at_expr_code {
    AT_OP_PUSH,  /* value */
    AT_OP_FIELD, /* int64 member at offset */
    AT_OP_U64,   /* uint64 member at offset, which must fit */
    AT_OP_GIVEN, /* the list at offset is not empty */
    AT_OP_ARCH,
    AT_OP_SM,
    AT_OP_SLOT, /* value: slot */
    AT_OP_ON,   /* value: bit */
    AT_OP_TO_REAL,
    AT_OP_TO_REAL_BELOW, /* the word under the top */
    AT_OP_NEG,
    AT_OP_NOT,
    AT_OP_ADD,
    AT_OP_SUB,
    AT_OP_MUL,
    AT_OP_DIV,
    AT_OP_MOD,
    AT_OP_MIN,
    AT_OP_MAX,
    AT_OP_GCD,
    AT_OP_CEIL,
    AT_OP_COMPARE, /* value: AT_BELOW | .. */
    AT_OP_REAL_COMPARE,
    AT_OP_FIELD_RANGE, /* member at offset lies in value .. value + span; or not, with negate */
    AT_OP_RANGE,       /* the same of the top */
    AT_OP_IN,          /* `offset` words of the pool from `value` on; or not */
    AT_OP_FIELD_BITS,  /* value: bit set of accepted words 0..63 */
    AT_OP_OVERLAP,     /* the top and value share a bit; or not */
    AT_OP_IF_FALSE,    /* value: where to go with the top kept; else drop the top */
    AT_OP_IF_TRUE,
    AT_OP_RELEASE, /* version of the slot `offset` against release `span`; value: AT_BELOW | .., all
                      three: whether it is installed. This and the next are not for evaluation. */
    AT_OP_UNKNOWN  /* a truth that depends on more than that */
} at_expr_code;

/* Signs that a comparison accepts. */
enum { AT_BELOW = 1, AT_EQUAL = 2, AT_ABOVE = 4 };

/* An op that leaves a truth value may act as the IF that follows it. */
enum { AT_BRANCH_NONE, AT_BRANCH_FALSE, AT_BRANCH_TRUE };

typedef struct at_expr_op {
    uint8_t code; /* at_expr_code */
    uint8_t negate;
    uint8_t
        branch; /* on this value, keep it and go to target; else leave nothing and skip the IF */
    uint16_t column;
    uint32_t offset, target;
    int64_t value;
    uint64_t span;
} at_expr_op;

enum {
    AT_EXPR_TEXT = 4096, /* bytes */
    AT_EXPR_DEPTH = 64,  /* nesting of the text */
    AT_EXPR_STACK =
        160, /* words; an operand of each precedence can wait at each level of nesting */
    AT_EXPR_OPS = 8192,
    AT_EXPR_POOL = 2048 /* words of all sets */
};

struct at_expr {
    at_expr_op *op;
    int64_t *pool;
    uint32_t count;
    bool constant;
    at_expr_type type;
    const char *const *names;
    at_release release; /* of a RELEASE that is constant */
    at_release *named;  /* those that AT_OP_RELEASE names */
    uint32_t named_count;
    uint64_t keys, slots;
};

#ifdef __cplusplus
}
#endif
#endif
