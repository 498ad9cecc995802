/* Checks that want equal bits: permutations, and changes that no output may see. */
#include <string.h>

#include "harness/checks/relation.h"

static const at_tensor_id inputs[] = {AT_Q, AT_K, AT_V, AT_DO};
enum { INPUTS = sizeof inputs / sizeof inputs[0] };

static void copy_element(const at_relation *b, at_tensor_id id, const int64_t to[3],
                         const int64_t from[3], int64_t d)
{
    at_tensor_set(&b->p[1].t[id], to[0], to[1], to[2], d,
                  at_tensor_get(&b->p[0].t[id], from[0], from[1], from[2], d));
}

/* Packed sequences have no rows beyond their lengths. */
static bool is_stored(const at_relation *b, at_tensor_id id, const int64_t row[3])
{
    return b->p[0].t[id].start == NULL || row[2] < at_problem_live_rows(&b->p[0], id, row[0]);
}

/* Inputs of p[1] become those of p[0] that `map` sends there. */
static void map_inputs(const at_relation *b, at_row_map map)
{
    for (int i = 0; i < INPUTS; i++) {
        const at_tensor *t = &b->p[0].t[inputs[i]];
        int64_t rows = t->data != NULL ? t->shape[0] * t->shape[1] * t->shape[2] : 0;
        for (int64_t r = 0; r < rows; r++) {
            const int64_t row[3] = {r / t->shape[2] / t->shape[1], r / t->shape[2] % t->shape[1],
                                    r % t->shape[2]};
            int64_t other[3] = {row[0], row[1], row[2]};
            (void)map(b, inputs[i], row, other);
            for (int64_t d = 0; is_stored(b, inputs[i], row) && d < t->shape[3]; d++) {
                copy_element(b, inputs[i], other, row, d);
            }
        }
    }
}

static bool here(const at_relation *b, at_tensor_id id, const int64_t row[3], int64_t other[3])
{
    (void)b, (void)id, (void)row, (void)other;
    return true;
}

static bool next_batch(const at_relation *b, at_tensor_id id, const int64_t row[3],
                       int64_t other[3])
{
    (void)id;
    other[0] = (row[0] + 1) % b->c.batch;
    return true;
}

/* The next head of K, with all query heads of its group. */
static bool next_group(const at_relation *b, at_tensor_id id, const int64_t row[3],
                       int64_t other[3])
{
    int64_t heads = b->p[0].t[id].shape[1], step = heads / b->c.heads_kv;
    other[1] = (row[1] + step) % heads;
    return true;
}

static at_check_outcome permute(at_relation *b, at_row_map map)
{
    if (!at_relation_open(b, 0, &b->c) || !at_relation_open(b, 1, &b->c)) {
        return AT_CHECK_IDLE;
    }
    map_inputs(b, map);
    (void)(at_relation_launch(b, 0) && at_relation_launch(b, 1) &&
           at_relation_same(b, AT_STEP_BACKWARD, map));
    return AT_CHECK_HOLDS;
}

at_check_outcome at_check_batch(at_relation *b)
{
    bool allowed = at_relation_has_bits(b) && b->c.batch > 1 && at_relation_is_whole(&b->c);
    return allowed ? permute(b, next_batch) : AT_CHECK_IDLE;
}

at_check_outcome at_check_heads(at_relation *b)
{
    return at_relation_has_bits(b) && b->c.heads_kv > 1 ? permute(b, next_group) : AT_CHECK_IDLE;
}

static void fill_row(const at_relation *b, at_tensor_id id, int64_t bb, int64_t s)
{
    const at_tensor *t = &b->p[1].t[id];
    for (int64_t h = 0; t->data != NULL && h < t->shape[1]; h++) {
        for (int64_t d = 0; d < t->shape[3]; d++) {
            at_tensor_set(t, bb, h, s, d, (s + d) % 2 == 0 ? -7.0 : 11.0);
        }
    }
}

static bool is_seen(const at_problem *p, int64_t bb, int64_t j)
{
    for (int64_t i = 0; i < p->len_q[bb]; i++) {
        int64_t first, last;
        at_problem_keys(p, bb, i, &first, &last);
        if (first <= j && j <= last) {
            return true;
        }
    }
    return false;
}

/* Returns how many rows got other garbage. */
static int64_t fill_unseen(const at_relation *b)
{
    const at_problem *p = &b->p[1];
    int64_t changed = 0;
    bool padded = p->start_q == NULL; /* packed sequences have nothing beyond their lengths */
    for (int64_t bb = 0; bb < b->c.batch; bb++) {
        for (int64_t j = 0; j < (padded ? b->c.len_kv : p->len_kv[bb]); j++) {
            if (j >= p->len_kv[bb] || !is_seen(p, bb, j)) {
                fill_row(b, AT_K, bb, j);
                fill_row(b, AT_V, bb, j);
                changed++;
            }
        }
        for (int64_t i = p->len_q[bb]; padded && i < b->c.len_q; i++) {
            fill_row(b, AT_Q, bb, i);
            fill_row(b, AT_DO, bb, i);
            changed++;
        }
    }
    return changed;
}

at_check_outcome at_check_garbage(at_relation *b)
{
    if (!at_relation_has_bits(b) || !at_relation_open(b, 0, &b->c) ||
        !at_relation_open(b, 1, &b->c) || fill_unseen(b) == 0) {
        return AT_CHECK_IDLE;
    }
    (void)(at_relation_launch(b, 0) && at_relation_launch(b, 1) &&
           at_relation_same(b, AT_STEP_BACKWARD, here));
    return AT_CHECK_HOLDS;
}

static bool before_half(const at_relation *b, at_tensor_id id, const int64_t row[3],
                        int64_t other[3])
{
    (void)id, (void)other;
    return row[2] < b->p[0].len_q[row[0]] / 2;
}

at_check_outcome at_check_prefix(at_relation *b)
{
    bool allowed = at_relation_has_bits(b) && b->c.mask == AT_MASK_CAUSAL &&
                   b->c.align == AT_ALIGN_TL && b->c.len_q > 1;
    if (!allowed || !at_relation_open(b, 0, &b->c) || !at_relation_open(b, 1, &b->c)) {
        return AT_CHECK_IDLE;
    }
    int64_t changed = 0;
    for (int64_t bb = 0; bb < b->c.batch; bb++) {
        for (int64_t j = b->p[1].len_q[bb] / 2; j < b->p[1].len_kv[bb]; j++) {
            fill_row(b, AT_K, bb, j);
            fill_row(b, AT_V, bb, j);
            changed++;
        }
    }
    if (changed == 0) {
        return AT_CHECK_IDLE;
    }
    (void)(at_relation_launch(b, 0) && at_relation_launch(b, 1) &&
           at_relation_same(b, AT_STEP_FORWARD, before_half));
    return AT_CHECK_HOLDS;
}

static at_check_outcome compare_cases(at_relation *b, const at_case *variant)
{
    if (!at_relation_has_bits(b) || !at_relation_open(b, 0, &b->c) ||
        !at_relation_open(b, 1, variant)) {
        return AT_CHECK_IDLE;
    }
    (void)(at_relation_launch(b, 0) && at_relation_launch(b, 1) &&
           at_relation_same(b, AT_STEP_BACKWARD, here));
    return AT_CHECK_HOLDS;
}

at_check_outcome at_check_full_lens(at_relation *b)
{
    at_case variant = b->c;
    variant.lens = AT_LENS_FULL;
    bool allowed = at_relation_is_whole(&b->c) && b->c.lens == AT_LENS_NONE;
    return allowed ? compare_cases(b, &variant) : AT_CHECK_IDLE;
}

at_check_outcome at_check_true_mask(at_relation *b)
{
    at_case variant = b->c;
    variant.amask = AT_AMASK_BOOL_11;
    if (!at_relation_has_bits(b) || !at_relation_open(b, 0, &b->c) ||
        !at_relation_open(b, 1, &variant)) {
        return AT_CHECK_IDLE;
    }
    for (int64_t n = 0; n < b->c.len_q * b->c.len_kv; n++) {
        at_tensor_set(&b->p[1].t[AT_AMASK], 0, 0, n / b->c.len_kv, n % b->c.len_kv, 1);
    }
    (void)(at_relation_launch(b, 0) && at_relation_launch(b, 1) &&
           at_relation_same(b, AT_STEP_BACKWARD, here));
    return AT_CHECK_HOLDS;
}

static bool not_keys(const at_relation *b, at_tensor_id id, const int64_t row[3], int64_t other[3])
{
    (void)b, (void)row, (void)other;
    return !at_tensor_has_keys(id);
}

/* Each row of the grouped dK or dV against the sum over the heads that share it. */
static void compare_sums(at_relation *b, at_tensor_id id)
{
    const at_tensor *t = &b->p[0].t[id];
    int64_t group = b->c.heads_q / b->c.heads_kv;
    double u = at_relation_u(b), tiny = at_dtype_tiny(t->dtype), top = 0;
    for (int64_t n = 0; t->data != NULL && n < b->c.batch * t->shape[1] * b->c.len_kv; n++) {
        int64_t bb = n / b->c.len_kv / t->shape[1], j = n % b->c.len_kv;
        for (int64_t d = 0; j < b->p[0].len_kv[bb] && d < t->shape[3]; d++) {
            top = fmax(top,
                       fabs(at_relation_value(b, 0, id, bb, n / b->c.len_kv % t->shape[1], j, d)));
        }
    }
    for (int64_t n = 0; t->data != NULL && n < b->c.batch * t->shape[1] * b->c.len_kv; n++) {
        int64_t row[3] = {n / b->c.len_kv / t->shape[1], n / b->c.len_kv % t->shape[1],
                          n % b->c.len_kv};
        for (int64_t d = 0; row[2] < b->p[0].len_kv[row[0]] && d < t->shape[3]; d++) {
            double sum = 0, size = 0;
            for (int64_t i = 0; i < group; i++) {
                double x = at_relation_value(b, 1, id, row[0], row[1] * group + i, row[2], d);
                sum += x;
                size += fabs(x);
            }
            double slack = 1.05 * (u * (size + fabs(sum)) + 0x1p-20 * (size + top)) +
                           (double)(group + 1) * tiny;
            if (!at_relation_close(b, id, row, d,
                                   at_relation_value(b, 0, id, row[0], row[1], row[2], d), sum,
                                   slack)) {
                return;
            }
        }
    }
}

at_check_outcome at_check_grouped(at_relation *b)
{
    at_case variant = b->c;
    int64_t group = b->c.heads_q / b->c.heads_kv;
    variant.heads_kv = variant.heads_v = variant.heads_q;
    if (group == 1 || !at_relation_has_bits(b) || !at_relation_open(b, 0, &b->c) ||
        !at_relation_open(b, 1, &variant)) {
        return AT_CHECK_IDLE;
    }
    for (int i = 0; i < INPUTS; i++) {
        const at_tensor *t = &b->p[1].t[inputs[i]];
        int64_t rows = t->data != NULL ? t->shape[0] * t->shape[1] * t->shape[2] : 0;
        for (int64_t r = 0; r < rows; r++) {
            const int64_t row[3] = {r / t->shape[2] / t->shape[1], r / t->shape[2] % t->shape[1],
                                    r % t->shape[2]};
            bool keys = at_tensor_has_keys(inputs[i]);
            const int64_t from[3] = {row[0], keys ? row[1] / group : row[1], row[2]};
            for (int64_t d = 0; is_stored(b, inputs[i], row) && d < t->shape[3]; d++) {
                copy_element(b, inputs[i], row, from, d);
            }
        }
    }
    if (at_relation_launch(b, 0) && at_relation_launch(b, 1) &&
        at_relation_same(b, AT_STEP_BACKWARD, not_keys) && b->has_backward) {
        compare_sums(b, AT_DK);
        compare_sums(b, AT_DV);
    }
    return AT_CHECK_HOLDS;
}
