/* Any text compiles to an expression or gets one sentence with a column; folding changes no value.
 */
#include <stdlib.h>
#include <string.h>

#include "harness/fuzz/fuzz.h"
#include "harness/select/expr.h"

static const char *const kinds[] = {"plain", "fast", NULL};
static const char *const backends[] = {"a", "b", NULL};

/* The same names as constants, or (without the release) read from slots. */
static at_expr *compiled(const char *text, bool slots, at_error *err)
{
    static const char version[] = "9.14.0";
    at_expr_name name[] = {
        {.name = "yes", .type = AT_EXPR_BOOL, .slot = slots ? 0 : -1, .value = 1},
        {.name = "no", .type = AT_EXPR_BOOL, .slot = slots ? 1 : -1, .value = 0},
        {.name = "seven", .type = AT_EXPR_INT, .slot = slots ? 2 : -1, .value = 7},
        {.name = "kind", .type = AT_EXPR_NAME, .slot = slots ? 3 : -1, .value = 1, .names = kinds},
        {.name = "cudnn", .type = AT_EXPR_RELEASE, .slot = -1},
        {.name = "gone", .type = AT_EXPR_RELEASE, .slot = -1}};
    const at_expr_scope scope = {.name = name,
                                 .name_count = sizeof name / sizeof *name,
                                 .backend = backends,
                                 .backend_count = 2};
    at_expr *e = NULL;
    AT_ASSERT(at_release_parse(&name[4].release, version, strlen(version), err) == AT_OK);
    if (at_expr_compile(&e, text, &scope, AT_EXPR_ANY, err) != AT_OK) {
        AT_ASSERT(e == NULL && strncmp(err->text, "column ", 7) == 0);
    }
    return e;
}

static at_status value_of(int64_t *out, const at_expr *e, const at_case *c)
{
    static const int64_t slot[] = {1, 0, 7, 1};
    const at_expr_frame frame = {.c = c, .arch = c->arch, .on = 2, .slot = slot};
    at_error err = {""};
    at_status status = at_expr_eval(out, e, &frame, &err);
    AT_ASSERT(status == AT_OK || (status == AT_INVALID && strncmp(err.text, "column ", 7) == 0));
    return status;
}

/* `when` the folded form has a value, so has the other one, and the same; a folded part may have
 * spared an error. */
static void check_value(const at_expr *folded, const at_expr *e, const at_case *c)
{
    int64_t x = 0, y = 0;
    at_status first = value_of(&x, folded, c), second = value_of(&y, e, c);
    AT_ASSERT(first == AT_OK || second != AT_OK);
    AT_ASSERT(second != AT_OK || x == y);
    if (first == AT_OK && at_expr_kind(folded, NULL) == AT_EXPR_BOOL) {
        AT_ASSERT(x == 0 || x == 1);
    }
}

static void check_negation(const char *text, const at_expr *e, const at_case *c)
{
    size_t length = strlen(text);
    char *wrapped = malloc(length + 32);
    at_error err = {""};
    int64_t x = 0, y = 0;
    AT_ASSERT(wrapped != NULL);
    (void)strcpy(wrapped, "!(");
    (void)strcpy(wrapped + 2, text);
    (void)strcpy(wrapped + 2 + length, ") && !no");
    at_expr *opposite = compiled(wrapped, true, &err);
    if (opposite != NULL && value_of(&x, e, c) == AT_OK) {
        AT_ASSERT(value_of(&y, opposite, c) == AT_OK && y == !x);
    }
    at_expr_close(opposite);
    free(wrapped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { CASE = 48 };
    size_t head = size < CASE ? size : CASE, length = size - head;
    at_case c;
    at_error err = {""};
    char *text = malloc(length + 1);
    AT_ASSERT(text != NULL);
    at_case_from_bytes(&c, data, head);
    if (length > 0) {
        memcpy(text, data + head, length);
    }
    text[length] = '\0';
    at_expr *folded = compiled(text, false, &err), *e = compiled(text, true, &err);
    AT_ASSERT(folded != NULL || e == NULL);
    if (e != NULL) {
        check_value(folded, e, &c);
        if (at_expr_kind(e, NULL) == AT_EXPR_BOOL) {
            check_negation(text, e, &c);
        }
    }
    at_expr_close(folded);
    at_expr_close(e);
    free(text);
    return 0;
}
