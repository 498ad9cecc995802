#include "reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reference/fast.h"
#include "reference/golden.h"

/* "key=value" as the case's text says it; the text holds every key that is not at its default. */
static void find_pair(const at_case *c, const char *key, char *pair, size_t size)
{
    char text[AT_CASE_TEXT_MAX];
    (void)at_case_print(c, text);
    size_t length = strlen(key);
    const char *at = text;
    while (at != NULL && !(strncmp(at, key, length) == 0 && at[length] == '=')) {
        at = strchr(at, ':');
        at = at != NULL ? at + 1 : NULL;
    }
    const char *found = at != NULL ? at : key;
    (void)snprintf(pair, size, "%.*s", (int)strcspn(found, ":"), found);
}

at_status at_reference_supports(const at_case *c, char code[48], at_error *err)
{
    code[0] = '\0';
    if (c->invalid != 0) {
        char pair[160];
        find_pair(c, "invalid", pair, sizeof pair);
        (void)snprintf(code, 48, "reference_invalid");
        return at_fail(err, AT_UNSUPPORTED, "the reference does not compute %s, only invalid=0",
                       pair);
    }
    return AT_OK;
}

/* Every element of `drop` that a row sees is 0 or 1. */
static at_status check_row(const at_problem *p, int64_t b, int64_t h, int64_t i, at_error *err)
{
    const at_tensor *t = &p->t[AT_DROP], *mask = &p->t[AT_AMASK];
    int64_t first = 0, last = -1;
    at_problem_keys(p, b, i, &first, &last);
    if (first > last) {
        return AT_OK;
    }
    const unsigned char *row = at_tensor_at(t, b, h, i, 0);
    for (int64_t j = first; j <= last; j++) {
        if (row[j] <= 1) {
            continue;
        }
        double seen = mask->data != NULL ? at_tensor_get(mask, b, h, i, j) : 1;
        if (mask->data == NULL || (mask->dtype == AT_U8 ? seen != 0 : seen > -HUGE_VAL)) {
            return at_fail(err, AT_INVALID, "drop[%lld %lld %lld %lld] is %d, a mask holds 0 and 1",
                           (long long)b, (long long)h, (long long)i, (long long)j, (int)row[j]);
        }
    }
    return AT_OK;
}

static at_status check_dropout(const at_problem *p, at_error *err)
{
    const at_case *c = &p->c;
    for (int64_t b = 0; b < c->batch && c->dropout > 0; b++) {
        for (int64_t r = 0; r < c->heads_q * p->len_q[b]; r++) {
            AT_TRY(check_row(p, b, r / p->len_q[b], r % p->len_q[b], err));
        }
    }
    return AT_OK;
}

at_status at_reference_run(at_gold *out, const at_problem *p, const at_reference_options *options,
                           at_arena *arena, at_error *err)
{
    char code[48];
    *out = (at_gold){0};
    AT_TRY(at_reference_supports(&p->c, code, err));
    AT_TRY(check_dropout(p, err));
    return options->path == AT_REFERENCE_GOLDEN ? at_golden_run(out, p, options, arena, err)
                                                : at_fast_run(out, p, options, arena, err);
}
