#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error "verdicts need NaN and infinities"
#endif
#include "harness/judge/judge.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/judge/tally.h"

enum { CHUNKS_MAX = 64, SERIAL_BELOW = 1 << 15, DIM_MAX = 4096 };

enum { STEP_TENSORS = 5 }; /* at most; AT_TENSOR_COUNT stands for none */
static const at_tensor_id step_tensors[AT_STEP_COUNT][STEP_TENSORS] = {
    [AT_STEP_CLAIM] = {AT_TENSOR_COUNT, AT_TENSOR_COUNT, AT_TENSOR_COUNT, AT_TENSOR_COUNT,
                       AT_TENSOR_COUNT},
    [AT_STEP_FORWARD] = {AT_O, AT_LSE, AT_TENSOR_COUNT, AT_TENSOR_COUNT, AT_TENSOR_COUNT},
    [AT_STEP_BACKWARD] = {AT_DQ, AT_DK, AT_DV, AT_DBIAS, AT_DSINK},
};

/* The i-th output of the step, AT_TENSOR_COUNT where the problem has none. */
static at_tensor_id output_of(const at_problem *p, at_step step, int i)
{
    at_tensor_id id = step_tensors[step][i];
    return id == AT_TENSOR_COUNT || p->t[id].data == NULL ? AT_TENSOR_COUNT : id;
}

static bool is_wanted(const at_problem *p, at_tensor_id id)
{
    return (id != AT_DQ || (p->c.grads & AT_GRAD_Q) != 0) &&
           (id != AT_DK || (p->c.grads & AT_GRAD_K) != 0) &&
           (id != AT_DV || (p->c.grads & AT_GRAD_V) != 0);
}

/* Mean of the values of one head; b < 0: not found yet. */
typedef struct mean_row {
    int64_t b, h;
    double mean[DIM_MAX], bound[DIM_MAX];
} mean_row;

/* One tensor under judgement; `cursor` is the next row of gold. */
typedef struct walk {
    const at_problem *p;
    at_tensor_id id;
    const at_tensor *t;
    const at_gold_tensor *gold;
    const at_contract *contract;
    at_rule rule;
    int64_t cursor;
    mean_row *mean;
} walk;

/* Mean of the values that sequence b, head h could see, and what rounding P and O allows. */
static void find_mean(const walk *w, int64_t b, int64_t h)
{
    const at_tensor *v = &w->p->t[AT_V];
    int64_t n = w->p->len_kv[b], head = h * v->shape[1] / w->t->shape[1];
    double u = at_dtype_roundoff(v->dtype), u_out = at_dtype_roundoff(w->rule.dtype);
    double unit = (double)w->p->unit[AT_V] / (double)w->p->unit[w->id];
    AT_ASSERT(w->rule.dim <= DIM_MAX);
    for (int64_t d = 0; d < w->rule.dim; d++) {
        double sum = 0, size = 0;
        for (int64_t j = 0; j < n; j++) {
            double x = at_tensor_get(v, b, head, j, d) / (double)n * unit;
            sum += x;
            size += fabs(x);
        }
        w->mean->mean[d] = sum;
        w->mean->bound[d] = 1.05 * (1.01 * u_out * fabs(sum) + 2 * u * size);
    }
    w->mean->b = b;
    w->mean->h = h;
}

static void judge_dead(const walk *w, at_tally *t, const int64_t row[3], const void *stored,
                       bool listed)
{
    const at_contract *c = w->contract;
    double lse = c->dead_lse == AT_DEAD_LSE_PLUS_INF ? HUGE_VAL : -HUGE_VAL;
    const double *want = NULL, *bound = NULL;
    at_expect expect = AT_EXPECT_VALUE;
    /* Beside a sink LSE is its score or -inf, as the class says; only the reference knows. */
    bool unknown = w->id == AT_LSE && w->p->c.sink != AT_SINK_NONE && !listed;
    if (unknown || (w->id == AT_LSE && c->dead_lse == AT_DEAD_LSE_ANY) ||
        (w->id == AT_DQ && c->dead_grads == AT_DEAD_GRADS_ANY)) {
        return;
    }
    if (w->id == AT_LSE) {
        want = &lse;
    } else if (w->id == AT_O && c->dead_o == AT_DEAD_O_NAN) {
        expect = AT_EXPECT_NAN;
    } else if (w->id == AT_O && c->dead_o == AT_DEAD_O_MEAN) {
        if (w->mean->b != row[0] || w->mean->h != row[1]) {
            find_mean(w, row[0], row[1]);
        }
        want = w->mean->mean;
        bound = w->mean->bound;
    }
    at_tally_expect(t, &w->rule, row, stored, expect, want, bound, AT_ISSUE_DEAD_NAN,
                    AT_ISSUE_DEAD);
}

static void judge_padding(const walk *w, at_tally *t, const int64_t row[3], const void *stored)
{
    static const at_expect expects[] = {[AT_PAD_ANY] = AT_EXPECT_FINITE,
                                        [AT_PAD_ZERO] = AT_EXPECT_VALUE,
                                        [AT_PAD_UNTOUCHED] = AT_EXPECT_UNTOUCHED};
    if (w->id != AT_LSE) {
        at_tally_expect(t, &w->rule, row, stored, expects[w->contract->pad], NULL, NULL,
                        AT_ISSUE_PAD_NAN, AT_ISSUE_PAD);
    }
}

static int compare_rows(const int64_t a[3], const int64_t b[3])
{
    for (int i = 0; i < 3; i++) {
        if (a[i] != b[i]) {
            return a[i] < b[i] ? -1 : 1;
        }
    }
    return 0;
}

/* First row of gold that is not before `row`. */
static int64_t seek(const at_gold_tensor *gold, const int64_t row[3])
{
    int64_t low = 0, high = gold->rows;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (compare_rows(gold->row[mid], row) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static bool is_dead(const walk *w, const int64_t row[3], bool listed)
{
    if (listed && w->gold->dead != NULL) {
        return w->gold->dead[w->cursor];
    }
    bool rows = w->id == AT_O || w->id == AT_LSE || w->id == AT_DQ;
    return rows && at_problem_is_dead(w->p, row[0], row[1], row[2]);
}

static void judge_row(walk *w, at_tally *t, const int64_t row[3])
{
    const at_gold_tensor *g = w->gold;
    bool live = row[2] < at_problem_live_rows(w->p, w->id, row[0]);
    if (!live && w->t->start != NULL) {
        return; /* packed sequences have no rows beyond their lengths */
    }
    const void *stored = at_tensor_at(w->t, row[0], row[1], row[2], 0);
    if (!live) {
        judge_padding(w, t, row, stored);
        return;
    }
    bool listed = w->cursor < g->rows && compare_rows(g->row[w->cursor], row) == 0;
    at_rule rule = w->rule;
    rule.dim = at_problem_live_columns(w->p, w->id, row[0]);
    if (is_dead(w, row, listed)) {
        judge_dead(w, t, row, stored, listed);
        t->listed += listed;
    } else if (listed) {
        int64_t at = w->cursor * g->dim;
        at_tally_compare(t, &rule, row, stored, g->ref + at, g->bound + at, g->sigma + at);
    } else {
        at_tally_classes(t, &rule, row, stored);
    }
    w->cursor += listed;
}

static int64_t blocks_of_head(const walk *w)
{
    return (w->t->shape[2] + AT_BLOCK_ROWS - 1) / AT_BLOCK_ROWS;
}

/* Blocks of 64 rows of a head first..end, counted in [b h s] order. */
static void judge_range(const walk *proto, at_tally *t, int64_t first, int64_t end)
{
    mean_row mean;
    at_patch patch;
    mean.b = -1;
    walk w = *proto;
    w.mean = &mean;
    int64_t heads = w.t->shape[1], len = w.t->shape[2], blocks = blocks_of_head(&w);
    at_tally_begin(t, &patch);
    for (int64_t n = first; n < end; n++) {
        int64_t from = n % blocks * AT_BLOCK_ROWS;
        int64_t row[3] = {n / blocks / heads, n / blocks % heads, from};
        if (n == first) {
            w.cursor = seek(w.gold, row);
        }
        for (; row[2] < len && row[2] < from + AT_BLOCK_ROWS; row[2]++) {
            judge_row(&w, t, row);
        }
    }
    at_tally_end(t);
}

/* The chunks depend on the shape alone and are merged in order: threads change no bit. */
static void judge_rows(const walk *proto, at_tally *total)
{
    int64_t rows = proto->t->shape[0] * proto->t->shape[1] * proto->t->shape[2];
    int64_t blocks = proto->t->shape[0] * proto->t->shape[1] * blocks_of_head(proto);
    int64_t chunks = blocks < CHUNKS_MAX ? blocks : CHUNKS_MAX;
    at_tally part[CHUNKS_MAX];
    memset(part, 0, sizeof part);
#pragma omp parallel for schedule(dynamic) if (rows * proto->rule.dim > SERIAL_BELOW)
    for (int64_t i = 0; i < chunks; i++) {
        judge_range(proto, &part[i], blocks * i / chunks, blocks * (i + 1) / chunks);
    }
    for (int64_t i = 0; i < chunks; i++) {
        at_tally_merge(total, &part[i]);
    }
}

/* Whether the reference itself leaves the range of the stored type somewhere. */
static bool overflows(const walk *w)
{
    for (int64_t i = 0; i < w->gold->rows * w->gold->dim; i++) {
        if (isfinite(w->gold->ref[i]) &&
            !(fabs(w->gold->ref[i]) + w->gold->bound[i] <= w->rule.max)) {
            return true;
        }
    }
    return false;
}

static void fail_measure(at_measure *m, const char *tensor, const char *code, const char *text)
{
    m->kind = AT_ERROR;
    (void)snprintf(m->reason.code, sizeof m->reason.code, "%s", code);
    (void)snprintf(m->reason.text, sizeof m->reason.text, "%s: %s.", tensor, text);
}

static void judge_tensor(at_measure *m, const at_problem *p, at_tensor_id id, const at_gold *gold,
                         const at_contract *contract)
{
    walk w = {.p = p,
              .id = id,
              .t = &p->t[id],
              .gold = &gold->t[id],
              .contract = contract,
              .rule = at_rule_of(&p->t[id])};
    at_tally total;
    memset(&total, 0, sizeof total);
    AT_ASSERT(w.rule.dim == 1 || w.t->stride[3] == 1);
    AT_ASSERT(w.gold->rows == 0 || (w.gold->bound != NULL && w.gold->sigma != NULL));
    judge_rows(&w, &total);
    if (total.issue[AT_ISSUE_INF_UNSAMPLED].n > 0 && overflows(&w)) {
        memset(&total.issue[AT_ISSUE_INF_UNSAMPLED], 0, sizeof(at_example));
    }
    at_tally_conclude(m, &total, at_tensor_names[id], w.rule.dim);
    if (total.listed != w.gold->rows) {
        fail_measure(m, at_tensor_names[id], "reference_rows",
                     "the reference lists rows that are not live, or not in order");
    } else if (total.listed == 0 && total.checked > 0) {
        fail_measure(m, at_tensor_names[id], "reference_missing", "there is no reference for it");
    }
}

/* Where memory was touched, as a reason code. */
static const char *overrun_code(const at_problem *p, at_tensor_id id)
{
    ptrdiff_t offset = 0;
    if (p->base[id] == NULL || at_arena_check(p->arena, p->base[id], &offset) == 0) {
        return "gap_written";
    }
    return offset < 0 ? "guard_before" : "guard_after";
}

static void judge_memory(at_step_verdict *out, const at_problem *p)
{
    at_tensor_id id = AT_TENSOR_COUNT;
    at_error what = {""};
    at_memory_fault fault = at_problem_check_memory(p, &id, &what);
    if (fault == AT_MEMORY_OK) {
        return;
    }
    bool clobbered = fault == AT_MEMORY_CLOBBERED;
    at_kind kind = clobbered ? AT_CLOBBERED : AT_OVERRUN;
    at_reason reason = {"", ""};
    (void)snprintf(reason.code, sizeof reason.code, "%s",
                   clobbered ? "input_changed" : overrun_code(p, id));
    (void)snprintf(reason.text, sizeof reason.text, "%s.", what.text);
    if (id < AT_TENSOR_COUNT && out->m[id].judged && kind > out->m[id].kind) {
        out->m[id].kind = kind;
        out->m[id].reason = reason;
    }
    if (kind > out->kind) {
        out->kind = kind;
        out->reason = reason;
    }
}

void at_judge_step(at_step_verdict *out, at_step step, const at_problem *p, const at_gold *gold,
                   const at_contract *contract)
{
    out->kind = AT_PASS;
    out->reason = (at_reason){"", ""};
    memset(out->m, 0, sizeof out->m);
    for (int i = 0; i < STEP_TENSORS; i++) {
        at_tensor_id id = output_of(p, step, i);
        if (id == AT_TENSOR_COUNT || !is_wanted(p, id)) {
            continue;
        }
        judge_tensor(&out->m[id], p, id, gold, contract);
        if (out->m[id].kind > out->kind) {
            out->kind = out->m[id].kind;
            out->reason = out->m[id].reason;
        }
    }
    judge_memory(out, p);
}

/* Visits the live rows of the step's outputs in a fixed order; returns false when visit does. */
static bool each_live_row(const at_problem *p, at_step step, void *state,
                          bool (*visit)(void *state, at_tensor_id id, const int64_t row[3],
                                        const void *stored, size_t size))
{
    for (int i = 0; i < STEP_TENSORS; i++) {
        at_tensor_id id = output_of(p, step, i);
        const at_tensor *t = id == AT_TENSOR_COUNT ? NULL : &p->t[id];
        int64_t heads = t != NULL ? t->shape[0] * t->shape[1] : 0;
        for (int64_t bh = 0; bh < heads; bh++) {
            int64_t b = bh / t->shape[1], h = bh % t->shape[1];
            for (int64_t s = 0; s < at_problem_live_rows(p, id, b); s++) {
                int64_t row[3] = {b, h, s};
                size_t width = (size_t)at_problem_live_columns(p, id, b);
                if (!visit(state, id, row, at_tensor_at(t, b, h, s, 0),
                           width * at_dtype_size(t->dtype))) {
                    return false;
                }
            }
        }
    }
    return true;
}

static bool add_size(void *state, at_tensor_id id, const int64_t row[3], const void *stored,
                     size_t size)
{
    (void)id, (void)row, (void)stored;
    *(size_t *)state += size;
    return true;
}

size_t at_judge_keep_size(const at_problem *p, at_step step)
{
    size_t size = 0;
    (void)each_live_row(p, step, &size, add_size);
    return size;
}

static bool copy_row(void *state, at_tensor_id id, const int64_t row[3], const void *stored,
                     size_t size)
{
    (void)id, (void)row;
    unsigned char **to = state;
    memcpy(*to, stored, size);
    *to += size;
    return true;
}

void at_judge_keep(const at_problem *p, at_step step, void *copy)
{
    unsigned char *to = copy;
    (void)each_live_row(p, step, &to, copy_row);
}

typedef struct comparison {
    const unsigned char *copy;
    const at_problem *p;
    at_error *what;
} comparison;

static bool same_row(void *state, at_tensor_id id, const int64_t row[3], const void *stored,
                     size_t size)
{
    comparison *c = state;
    if (memcmp(c->copy, stored, size) == 0) {
        c->copy += size;
        return true;
    }
    const unsigned char *now = stored;
    size_t at = 0, one = at_dtype_size(c->p->t[id].dtype);
    while (now[at] == c->copy[at]) {
        at++;
    }
    double was, is;
    at_dtype_load_double(c->p->t[id].dtype, &was, c->copy + at / one * one, 1);
    at_dtype_load_double(c->p->t[id].dtype, &is, now + at / one * one, 1);
    (void)at_fail(c->what, AT_OK,
                  "%s[%" PRId64 " %" PRId64 " %" PRId64 " %zu] was %.9g in the first launch and is "
                  "%.9g in a later one",
                  at_tensor_names[id], row[0], row[1], row[2], at / one, was, is);
    return false;
}

bool at_judge_same(const at_problem *p, at_step step, const void *copy, at_error *what)
{
    comparison c = {copy, p, what};
    return each_live_row(p, step, &c, same_row);
}

/* Largest finite magnitude of n stored elements. */
static double top_of(at_dtype dtype, const unsigned char *bits, int64_t n)
{
    double top = 0;
    for (int64_t i = 0; i < n; i++) {
        double x;
        at_dtype_load_double(dtype, &x, bits + (size_t)i * at_dtype_size(dtype), 1);
        top = isfinite(x) && fabs(x) > top ? fabs(x) : top;
    }
    return top;
}

static bool near_row(void *state, at_tensor_id id, const int64_t row[3], const void *stored,
                     size_t size)
{
    (void)row;
    comparison *c = state;
    at_dtype dtype = c->p->t[id].dtype;
    size_t one = at_dtype_size(dtype);
    const unsigned char *now = stored, *then = c->copy;
    c->copy += size;
    if (memcmp(then, now, size) == 0) {
        return true;
    }
    double scale = top_of(dtype, then, (int64_t)(size / one));
    scale = id == AT_LSE && scale < 1 ? 1 : scale;
    double slack = at_dtype_roundoff(dtype) * scale;
    slack = slack > at_dtype_tiny(dtype) ? slack : at_dtype_tiny(dtype);
    for (size_t at = 0; at < size; at += one) {
        double was, is;
        at_dtype_load_double(dtype, &was, then + at, 1);
        at_dtype_load_double(dtype, &is, now + at, 1);
        if (memcmp(then + at, now + at, one) != 0 && !(fabs(is - was) <= slack)) {
            return false;
        }
    }
    return true;
}

bool at_judge_near(const at_problem *p, at_step step, const void *copy)
{
    comparison c = {copy, p, NULL};
    return each_live_row(p, step, &c, near_row);
}
