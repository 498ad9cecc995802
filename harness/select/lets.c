#include "harness/select/lets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void at_lets_open(at_lets *lets, const at_expr_name *fixed, size_t count)
{
    *lets = (at_lets){.fixed = count, .count = count};
    lets->name = calloc(count + AT_LETS_MAX, sizeof *lets->name);
    AT_ASSERT(lets->name != NULL); /* only memory can run out */
    if (count > 0) {
        memcpy(lets->name, fixed, count * sizeof *fixed);
    }
}

void at_lets_close(at_lets *lets)
{
    for (size_t i = 0; i < lets->slots; i++) {
        at_expr_close(lets->slot[i]);
    }
    free(lets->name);
    *lets = (at_lets){0};
}

static at_status check_name(const at_lets *lets, const char *name, at_error *err)
{
    if (!at_expr_name_usable(name)) {
        return at_fail(
            err, AT_INVALID,
            "the name must be a word of letters, digits, _ and inner dots that is neither "
            "a case key nor a word of the expressions");
    }
    for (size_t i = 0; i < lets->count; i++) {
        if (strcmp(lets->name[i].name, name) == 0) {
            return at_fail(err, AT_INVALID, "the name is taken by %s",
                           i < lets->fixed ? "an environment key" : "another let");
        }
    }
    return AT_OK;
}

at_status at_lets_add(at_lets *lets, const char *name, const char *text, at_error *err)
{
    const at_expr_scope scope = {.name = lets->name, .name_count = lets->count};
    at_expr *e = NULL;
    at_expr_name *n = &lets->name[lets->count];
    AT_TRY(check_name(lets, name, err));
    if (lets->count - lets->fixed == AT_LETS_MAX) {
        return at_fail(err, AT_INVALID, "more than %d lets", AT_LETS_MAX);
    }
    AT_TRY(at_expr_compile(&e, text, &scope, AT_EXPR_ANY, err));
    *n = (at_expr_name){.name = name, .slot = -1};
    n->type = at_expr_kind(e, &n->names);
    bool constant = at_expr_constant(e, &n->value, &n->release);
    at_status status = AT_OK;
    if (n->type == AT_EXPR_REAL) {
        status = at_fail(err, AT_INVALID,
                         "column 1: a let holds a condition, an integer, a name or "
                         "a version, not a real number");
    } else if (!constant && lets->slots == AT_LET_SLOTS) {
        status =
            at_fail(err, AT_INVALID, "more than %d lets that depend on the case", AT_LET_SLOTS);
    }
    if (status != AT_OK) {
        at_expr_close(e);
        return status;
    }
    n->keys = at_expr_keys(e);
    if (constant) {
        at_expr_close(e);
    } else {
        n->slot = (int)lets->slots;
        lets->slot_name[lets->slots] = name;
        lets->slot[lets->slots++] = e;
    }
    lets->count++;
    return AT_OK;
}

uint64_t at_lets_reach(const at_lets *lets, uint64_t slots)
{
    for (size_t i = lets->slots; i-- > 0;) { /* lets read only those before them */
        if ((slots >> i & 1) != 0) {
            slots |= at_expr_slots(lets->slot[i]);
        }
    }
    return slots;
}

void at_lets_fill(const at_lets *lets, at_expr_frame *frame, int64_t slot[AT_LET_SLOTS],
                  uint64_t *done, uint64_t wanted)
{
    for (uint64_t left = wanted & ~*done; left != 0; left &= left - 1) {
        int i = __builtin_ctzll(left);
        slot[i] = 0;
        if (at_expr_eval(&slot[i], lets->slot[i], frame, NULL) != AT_OK) {
            frame->bad |= (uint64_t)1 << i;
        }
    }
    *done |= wanted;
}

void at_lets_explain(const at_lets *lets, const at_expr_frame *frame, uint64_t slots, at_error *err)
{
    at_error inner = {""};
    int64_t value = 0;
    slots = at_lets_reach(lets, slots);
    for (size_t i = 0; err != NULL && i < lets->slots; i++) {
        if ((slots & frame->bad) >> i & 1 &&
            at_expr_eval(&value, lets->slot[i], frame, &inner) != AT_OK) {
            size_t used = strlen(err->text);
            (void)snprintf(err->text + used, sizeof err->text - used, " (let \"%s\", %s)",
                           lets->slot_name[i], inner.text);
            return;
        }
    }
}
