/* Expressions over a case and an environment: compiled once to flat code, evaluated without memory.
 */
#ifndef AT_EXPR_H
#define AT_EXPR_H

#include "harness/case/case.h"
#include "harness/select/release.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Grammar, loosest first; operands are checked for their type when compiled.
 *   a || b    a && b                          booleans; b is skipped when a decides
 *   a == b  a != b  a < b  a <= b  a > b  a >= b  a in {x, y, ...}
 *   a + b  a - b    a * b  a / b  a % b    -a  !a    (a)
 *   min(a, ..)  max(a, ..)  gcd(a, b)  ceil_to(a, step)  has(name)  names  literals
 * Integers have 64 bits; division by zero and overflow are errors of the evaluation. Case keys are
 * names (0/1 keys are booleans; enumerated keys compare with their spellings: mask == causal,
 * bias == 'rel.1h'; `'b' in grads`); `sm` is the number of the arch (90; 0 for any and cpu).
 * Releases are written 9.14.0 or v2.8 and compare by component; one that is not installed is
 * unequal to all, and neither below nor above any. has(x): release x is installed, or list x is
 * given. true false. */
typedef enum at_expr_type {
    AT_EXPR_BOOL,
    AT_EXPR_INT,
    AT_EXPR_REAL,
    AT_EXPR_NAME, /* index into a list of spellings */
    AT_EXPR_RELEASE,
    AT_EXPR_ANY /* only as `want` */
} at_expr_type;

/* A name beside the case keys. A RELEASE is a constant, but where nothing is evaluated
 * (possible.h). */
typedef struct at_expr_name {
    const char *name;
    at_expr_type type;        /* BOOL INT NAME RELEASE */
    int slot;                 /* >= 0: read from the frame at evaluation; -1: constant */
    int64_t value;            /* constant BOOL INT NAME */
    const char *const *names; /* NAME: spellings, NULL-terminated */
    at_release release;       /* RELEASE */
    uint64_t keys;            /* case keys that whoever reads it reads, as in at_expr_keys */
} at_expr_name;

/* Borrowed while compiling; spellings must outlive the expressions made with them. */
typedef struct at_expr_scope {
    const at_expr_name *name;
    size_t name_count;
    const char *const *backend; /* on.X is a name for each; at most 32 */
    size_t backend_count;
} at_expr_scope;

/* What an evaluation reads. */
typedef struct at_expr_frame {
    const at_case *c;
    int64_t arch;        /* at_arch in force, for `arch` and `sm` */
    uint32_t on;         /* bit i: backend i of the scope is still on */
    uint64_t bad;        /* bit i: slot i could not be evaluated; reading it is an error */
    const int64_t *slot; /* values by slot; at most 64 (possible.h numbers more) */
} at_expr_frame;

typedef struct at_expr at_expr;

/* Limits: 4096 bytes of text, 64 levels of nesting. `scope` NULL: case keys only. `want`: BOOL for
 * a condition, ANY otherwise. AT_INVALID: "column N: sentence". */
AT_API at_status at_expr_compile(at_expr **out, const char *text, const at_expr_scope *scope,
                                 at_expr_type want, at_error *err) AT_MUST_CHECK;
AT_API void at_expr_close(at_expr *e); /* NULL is legal */

/* Value (booleans 0 and 1; a NAME's index; a REAL's bits). AT_INVALID: "column N: sentence". */
AT_API at_status at_expr_eval(int64_t *out, const at_expr *e, const at_expr_frame *frame,
                              at_error *err) AT_MUST_CHECK;

/* Condition over a case alone; its arch is the case's. */
AT_API at_status at_expr_test(bool *out, const at_expr *e, const at_case *c,
                              at_error *err) AT_MUST_CHECK;

/* What it is made of. `type` and `spellings` (NULL unless a NAME) of the value; whether it is a
 * constant (*value is set if it is BOOL INT NAME; *release for RELEASE; both may be NULL); the case
 * keys that its text reads, bit i = row i of at_case_fields; the slots and backends that its code
 * reads. */
AT_API at_expr_type at_expr_kind(const at_expr *e, const char *const **spellings);
AT_API bool at_expr_constant(const at_expr *e, int64_t *value, at_release *release);
AT_API uint64_t at_expr_keys(const at_expr *e);
AT_API uint64_t at_expr_slots(const at_expr *e);

/* A word of letters, digits, '_' and inner '.', at most 60, that does not start with a digit. */
AT_API bool at_expr_is_word(const char *name);
/* A word that scopes may use as a name: no case key, no word of the language. */
AT_API bool at_expr_name_usable(const char *name);

/* Number of an arch: sm90 -> 90; 0 for any and cpu. */
AT_API int64_t at_arch_number(int64_t arch);

#ifdef __cplusplus
}
#endif
#endif
