#include "harness/select/expr_code.h"

#include <stdlib.h>
#include <string.h>

int64_t at_arch_number(int64_t arch)
{
    static const uint8_t number[] = {
        [AT_ARCH_SM80] = 80,   [AT_ARCH_SM86] = 86,   [AT_ARCH_SM87] = 87,   [AT_ARCH_SM89] = 89,
        [AT_ARCH_SM90] = 90,   [AT_ARCH_SM100] = 100, [AT_ARCH_SM103] = 103, [AT_ARCH_SM110] = 110,
        [AT_ARCH_SM120] = 120, [AT_ARCH_SM121] = 121};
    AT_ASSERT(arch >= 0 && arch < (int64_t)sizeof number);
    return number[arch];
}

static inline int64_t member(const at_case *c, uint32_t offset)
{
    int64_t value;
    memcpy(&value, (const char *)c + offset, sizeof value);
    return value;
}

static inline double real_of(int64_t word)
{
    double x;
    memcpy(&x, &word, sizeof x);
    return x;
}

static inline int64_t word_of(double x)
{
    int64_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

static inline int64_t in_range(const at_expr_op *op, int64_t value)
{
    return ((uint64_t)value - (uint64_t)op->value <= op->span) != op->negate;
}

static inline int64_t has_bit(const at_expr_op *op, int64_t value)
{
    uint64_t at = (uint64_t)value;
    return (at < 64 && ((uint64_t)op->value >> at & 1) != 0) != op->negate;
}

static at_status fail(at_error *err, const at_expr_op *op, const char *what)
{
    return at_fail(err, AT_INVALID, "column %d: %s", op->column, what);
}

static const char too_large[] = "the result does not fit 64 bits";

static at_status arithmetic(int64_t *out, const at_expr_op *op, int64_t a, int64_t b, at_error *err)
{
    bool overflow = false;
    if ((op->code == AT_OP_DIV || op->code == AT_OP_MOD) && b == 0) {
        return fail(err, op, "division by zero");
    }
    switch (op->code) {
    case AT_OP_ADD:
        overflow = __builtin_add_overflow(a, b, out);
        break;
    case AT_OP_SUB:
        overflow = __builtin_sub_overflow(a, b, out);
        break;
    case AT_OP_MUL:
        overflow = __builtin_mul_overflow(a, b, out);
        break;
    case AT_OP_DIV:
        overflow = a == INT64_MIN && b == -1;
        *out = overflow ? 0 : a / b;
        break;
    default: /* AT_OP_MOD */
        *out = b == -1 ? 0 : a % b;
        break;
    }
    return overflow ? fail(err, op, too_large) : AT_OK;
}

static at_status divisor(int64_t *out, const at_expr_op *op, int64_t a, int64_t b, at_error *err)
{
    if (a == INT64_MIN || b == INT64_MIN) {
        return fail(err, op, too_large);
    }
    a = a < 0 ? -a : a;
    b = b < 0 ? -b : b;
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    *out = a;
    return AT_OK;
}

/* The smallest multiple of step that is not below a. */
static at_status ceil_to(int64_t *out, const at_expr_op *op, int64_t a, int64_t step, at_error *err)
{
    if (step <= 0) {
        return fail(err, op, "the step of ceil_to must be positive");
    }
    int64_t rest = a % step;
    int64_t up = rest > 0 ? step - rest : -rest;
    return __builtin_add_overflow(a, up, out) ? fail(err, op, too_large) : AT_OK;
}

static bool listed(const int64_t *word, uint32_t count, int64_t value)
{
    for (uint32_t i = 0; i < count; i++) {
        if (word[i] == value) {
            return true;
        }
    }
    return false;
}

/* Operations that push a word and are rare. */
static at_status load(int64_t *out, const at_expr_op *op, const at_expr_frame *frame, at_error *err)
{
    int32_t n = 0;
    switch (op->code) {
    case AT_OP_ON:
        *out = frame->on >> op->value & 1;
        return AT_OK;
    case AT_OP_ARCH:
        *out = frame->arch;
        return AT_OK;
    case AT_OP_SM:
        *out = at_arch_number(frame->arch);
        return AT_OK;
    case AT_OP_GIVEN:
        memcpy(&n, (const char *)frame->c + op->offset, sizeof n);
        *out = n > 0;
        return AT_OK;
    default: /* AT_OP_U64 */
        *out = member(frame->c, op->offset);
        return *out < 0 ? fail(err, op, "the number does not fit a signed 64-bit integer") : AT_OK;
    }
}

/* Operations on the top word, s[-1]. */
static at_status unary(int64_t *s, const at_expr *e, const at_expr_op *op, at_error *err)
{
    switch (op->code) {
    case AT_OP_NEG:
        return __builtin_sub_overflow((int64_t)0, s[-1], &s[-1]) ? fail(err, op, too_large) : AT_OK;
    case AT_OP_IN:
        s[-1] = listed(e->pool + op->value, op->offset, s[-1]) != (op->negate != 0);
        return AT_OK;
    case AT_OP_OVERLAP:
        s[-1] = ((s[-1] & op->value) != 0) != (op->negate != 0);
        return AT_OK;
    case AT_OP_TO_REAL:
        s[-1] = word_of((double)s[-1]);
        return AT_OK;
    default: /* AT_OP_TO_REAL_BELOW */
        s[-2] = word_of((double)s[-2]);
        return AT_OK;
    }
}

/* Operations that leave one word of the two on top, in s[-2]. */
static at_status binary(int64_t *s, const at_expr_op *op, at_error *err)
{
    int64_t a = s[-2], b = s[-1];
    switch (op->code) {
    case AT_OP_MIN:
        s[-2] = a < b ? a : b;
        return AT_OK;
    case AT_OP_MAX:
        s[-2] = a > b ? a : b;
        return AT_OK;
    case AT_OP_GCD:
        return divisor(&s[-2], op, a, b, err);
    case AT_OP_CEIL:
        return ceil_to(&s[-2], op, a, b, err);
    case AT_OP_REAL_COMPARE: {
        double x = real_of(a), y = real_of(b);
        s[-2] = op->value >> (1 + (x > y) - (x < y)) & 1;
        return AT_OK;
    }
    default:
        return arithmetic(&s[-2], op, a, b, err);
    }
}

/* Operations that are rare, on the stack below *top; moves *top. */
static at_status rare(int64_t **top, const at_expr *e, const at_expr_op *op,
                      const at_expr_frame *frame, at_error *err)
{
    switch (op->code) {
    case AT_OP_ON:
    case AT_OP_ARCH:
    case AT_OP_SM:
    case AT_OP_GIVEN:
    case AT_OP_U64:
        return load((*top)++, op, frame, err);
    case AT_OP_NEG:
    case AT_OP_IN:
    case AT_OP_OVERLAP:
    case AT_OP_TO_REAL:
    case AT_OP_TO_REAL_BELOW:
        return unary(*top, e, op, err);
    default:
        return binary((*top)--, op, err);
    }
}

at_status at_expr_eval(int64_t *out, const at_expr *e, const at_expr_frame *frame, at_error *err)
{
    int64_t stack[AT_EXPR_STACK];
    int64_t *s = stack, truth = 0; /* s: one past the top */
    const at_expr_op *op = e->op, *end = e->op + e->count;
    while (op < end) {
        switch (op->code) {
        case AT_OP_FIELD_RANGE:
            truth = in_range(op, member(frame->c, op->offset));
            break;
        case AT_OP_RANGE:
            truth = in_range(op, *--s);
            break;
        case AT_OP_FIELD_BITS:
            truth = has_bit(op, member(frame->c, op->offset));
            break;
        case AT_OP_COMPARE:
            s -= 2;
            truth = op->value >> (1 + (s[0] > s[1]) - (s[0] < s[1])) & 1;
            break;
        case AT_OP_SLOT:
            if ((frame->bad >> op->value & 1) != 0) {
                return fail(err, op, "the let used here has no value");
            }
            truth = frame->slot[op->value] ^ op->negate;
            break;
        case AT_OP_NOT:
            truth = !*--s;
            break;
        case AT_OP_IF_FALSE:
        case AT_OP_IF_TRUE:
            if ((s[-1] != 0) == (op->code == AT_OP_IF_TRUE)) {
                op = e->op + op->value;
            } else {
                s--;
                op++;
            }
            continue;
        case AT_OP_PUSH:
            *s++ = (op++)->value;
            continue;
        case AT_OP_FIELD:
            *s++ = member(frame->c, (op++)->offset);
            continue;
        default:
            AT_TRY(rare(&s, e, op++, frame, err));
            continue;
        }
        if (op->branch == AT_BRANCH_NONE) {
            *s++ = truth;
            op++;
        } else if ((truth != 0) == (op->branch == AT_BRANCH_TRUE)) {
            *s++ = truth;
            op = e->op + op->target;
        } else {
            op += 2;
        }
    }
    *out = stack[0];
    return AT_OK;
}

at_status at_expr_test(bool *out, const at_expr *e, const at_case *c, at_error *err)
{
    const at_expr_frame frame = {.c = c, .arch = c->arch};
    int64_t value = 0;
    AT_TRY(at_expr_eval(&value, e, &frame, err));
    *out = value != 0;
    return AT_OK;
}

void at_expr_close(at_expr *e)
{
    if (e != NULL) {
        free(e->op);
        free(e->pool);
        free(e->named);
        free(e);
    }
}

at_expr_type at_expr_kind(const at_expr *e, const char *const **spellings)
{
    if (spellings != NULL) {
        *spellings = e->names;
    }
    return e->type;
}

bool at_expr_constant(const at_expr *e, int64_t *value, at_release *release)
{
    if (e->constant && value != NULL) {
        *value = e->op[0].value;
    }
    if (e->constant && release != NULL) {
        *release = e->release;
    }
    return e->constant;
}

uint64_t at_expr_keys(const at_expr *e)
{
    return e->keys;
}

uint64_t at_expr_slots(const at_expr *e)
{
    return e->slots;
}
