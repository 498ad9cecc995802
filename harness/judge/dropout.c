#include "harness/judge/judge.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* Beside chance, a keep probability may be off by a step of 1/256 or so: kernels draw bytes. */
#define DROP_STEP (1.0 / 128)
#define DROP_SIGMAS 6.0

/* What the mask holds where rows see keys. */
typedef struct count {
    int64_t live, kept, unwritten, odd;
    int64_t at[4]; /* the first that is not 0 or 1 */
    int value;
} count;

static bool hides(const at_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const at_tensor *mask = &p->t[AT_AMASK];
    if (mask->data == NULL) {
        return false;
    }
    double x = at_tensor_get(mask, b, h, i, j);
    return mask->dtype == AT_U8 ? x == 0 : !(x > -HUGE_VAL);
}

static void count_row(count *n, const at_problem *p, int64_t b, int64_t h, int64_t i)
{
    int64_t first = 0, last = -1;
    at_problem_keys(p, b, i, &first, &last);
    const unsigned char *row = first <= last ? at_tensor_at(&p->t[AT_DROP], b, h, i, 0) : NULL;
    for (int64_t j = first; j <= last; j++) {
        if (hides(p, b, h, i, j)) {
            continue;
        }
        n->live++;
        n->kept += row[j] == 1;
        if (row[j] > 1) {
            const int64_t at[4] = {b, h, i, j};
            for (int k = 0; k < 4 && n->unwritten + n->odd == 0; k++) {
                n->at[k] = at[k];
                n->value = row[j];
            }
            n->unwritten += row[j] == (unsigned char)at_dtype_poison(AT_U8);
            n->odd += row[j] != (unsigned char)at_dtype_poison(AT_U8);
        }
    }
}

AT_PRINTF(3, 4)
static void say(at_reason *reason, const char *code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)snprintf(reason->code, sizeof reason->code, "%s", code);
    (void)vsnprintf(reason->text, sizeof reason->text, format, args);
    va_end(args);
}

at_kind at_judge_dropout(const at_problem *p, at_reason *reason)
{
    count n = {0};
    *reason = (at_reason){"", ""};
    for (int64_t b = 0; b < p->c.batch && p->c.dropout > 0; b++) {
        for (int64_t r = 0; r < p->c.heads_q * p->len_q[b]; r++) {
            count_row(&n, p, b, r / p->len_q[b], r % p->len_q[b]);
        }
    }
    if (n.live > 0 && n.unwritten == n.live) {
        say(reason, "mask_hidden",
            "the dropout mask was not handed out, so there is no answer to "
            "compare with.");
        return AT_SKIP;
    }
    if (n.unwritten + n.odd > 0) {
        say(reason, n.odd > 0 ? "drop_value" : "unwritten_part",
            "drop[%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "] is %d, the first of %" PRId64
            " elements that are neither 0 nor 1.",
            n.at[0], n.at[1], n.at[2], n.at[3], n.value, n.unwritten + n.odd);
        return n.odd > 0 ? AT_WRONG : AT_UNWRITTEN;
    }
    double want = 1 - p->c.dropout, live = (double)n.live, got = (double)n.kept / live;
    double slack = DROP_SIGMAS * sqrt(want * p->c.dropout / live) + DROP_STEP + 1 / live;
    if (n.live > 0 && !(fabs(got - want) <= slack)) {
        say(reason, "drop_rate",
            "drop keeps %" PRId64 " of %" PRId64 " elements, a share of %.4f; dropout=%.17g keeps "
            "%.4f within %.4f.",
            n.kept, n.live, got, p->c.dropout, want, slack);
        return AT_WRONG;
    }
    return AT_PASS;
}
