#include "kernels/mutants/mutants.h"

#include <math.h>
#include <string.h>

static int64_t live(const at_problem *p, at_tensor_id id, int64_t b)
{
    return at_problem_live_rows(p, id, b);
}

/* Calls f on every live row of the tensor. */
static void each_row(const at_problem *p, at_tensor_id id,
                     void (*f)(const at_problem *p, at_tensor_id id, int64_t b, int64_t h,
                               int64_t s))
{
    const at_tensor *t = &p->t[id];
    for (int64_t b = 0; b < t->shape[0]; b++) {
        for (int64_t h = 0; h < t->shape[1]; h++) {
            for (int64_t s = 0; s < live(p, id, b); s++) {
                f(p, id, b, h, s);
            }
        }
    }
}

static void scale_row(const at_tensor *t, int64_t b, int64_t h, int64_t s, double factor)
{
    for (int64_t d = 0; d < t->shape[3]; d++) {
        at_tensor_set(t, b, h, s, d, factor * at_tensor_get(t, b, h, s, d));
    }
}

static void set_row(const at_tensor *t, int64_t b, int64_t h, int64_t s, double x)
{
    for (int64_t d = 0; d < t->shape[3]; d++) {
        at_tensor_set(t, b, h, s, d, x);
    }
}

static void copy_row(const at_tensor *t, const int64_t to[3], const int64_t from[3])
{
    for (int64_t d = 0; d < t->shape[3]; d++) {
        at_tensor_set(t, to[0], to[1], to[2], d, at_tensor_get(t, from[0], from[1], from[2], d));
    }
}

static void poison_element(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t d)
{
    uint32_t poison = at_dtype_poison(t->dtype);
    unsigned char *at = at_tensor_at(t, b, h, s, d);
    for (size_t i = 0; i < at_dtype_size(t->dtype); i++) {
        at[i] = (unsigned char)(poison >> (8 * i));
    }
}

static void zero_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    set_row(&p->t[id], b, h, s, 0);
}

void at_spoil_zero(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, zero_one);
}

static void negate_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    scale_row(&p->t[id], b, h, s, -1);
}

void at_spoil_negate(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, negate_one);
}

static void double_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    scale_row(&p->t[id], b, h, s, 2);
}

void at_spoil_double(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, double_one);
}

static void percent_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    scale_row(&p->t[id], b, h, s, 1.01);
}

void at_spoil_percent(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, percent_one);
}

static void unit_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    scale_row(&p->t[id], b, h, s, (double)p->unit[id]);
}

void at_spoil_unit(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, unit_one);
}

static void unscale_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    scale_row(&p->t[id], b, h, s, 1 / p->scale);
}

void at_spoil_unscale(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, unscale_one);
}

void at_spoil_shift(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    for (int64_t b = 0; b < t->shape[0]; b++) {
        for (int64_t h = 0; h < t->shape[1]; h++) {
            for (int64_t s = live(p, id, b) - 1; s > 0; s--) {
                copy_row(t, (int64_t[]){b, h, s}, (int64_t[]){b, h, s - 1});
            }
        }
    }
}

static void uniform_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    const at_tensor *t = &p->t[id], *v = &p->t[AT_V];
    int64_t first, last, head = h * v->shape[1] / t->shape[1];
    at_problem_keys(p, b, s, &first, &last);
    for (int64_t d = 0; d < t->shape[3] && first <= last; d++) {
        double sum = 0;
        for (int64_t j = first; j <= last; j++) {
            sum += at_tensor_get(v, b, head, j, d);
        }
        at_tensor_set(t, b, h, s, d, sum / (double)(last - first + 1));
    }
}

void at_spoil_uniform(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, uniform_one);
}

void at_spoil_neighbour(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    int64_t s = live(p, id, 0) / 2, d = t->shape[3] / 2 - 1;
    if (s < live(p, id, 0) && d >= 0) {
        at_tensor_set(t, 0, 0, s, d, at_tensor_get(t, 0, 0, s, d + 1));
    }
}

void at_spoil_fragment(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    int64_t row = live(p, id, 0) / 2 / 16 * 16, column = t->shape[3] / 2 / 8 * 8;
    for (int64_t s = row; s < row + 16 && s < live(p, id, 0); s++) {
        for (int64_t d = column; d < column + 8 && d < t->shape[3]; d++) {
            at_tensor_set(t, 0, 0, s, d, 0);
        }
    }
}

/* Columns first.. of the row, rotated by n. */
static void rotate(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t first, int64_t n)
{
    int64_t width = t->shape[3] - first;
    double row[4096];
    for (int64_t d = 0; d < width; d++) {
        row[d] = at_tensor_get(t, b, h, s, first + d);
    }
    for (int64_t d = 0; d < width; d++) {
        at_tensor_set(t, b, h, s, first + (d + n) % width, row[d]);
    }
}

static void columns_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    int64_t dim = p->t[id].shape[3];
    rotate(&p->t[id], b, h, s, dim > 16 ? dim - 16 : 0, dim > 16 ? 8 : dim / 2);
}

void at_spoil_columns(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, columns_one);
}

static void displace_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    int64_t dim = p->t[id].shape[3], first = dim > 64 ? 64 : dim / 2;
    rotate(&p->t[id], b, h, s, first, (dim - first) / 2);
}

void at_spoil_displace(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, displace_one);
}

static void swap_rows(const at_tensor *a, const at_tensor *b, const int64_t x[3],
                      const int64_t y[3])
{
    for (int64_t d = 0; d < a->shape[3]; d++) {
        double one = at_tensor_get(a, x[0], x[1], x[2], d);
        double other = at_tensor_get(b, y[0], y[1], y[2], d);
        at_tensor_set(a, x[0], x[1], x[2], d, other);
        at_tensor_set(b, y[0], y[1], y[2], d, one);
    }
}

void at_spoil_swap_heads(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    for (int64_t b = 0; b < t->shape[0] && t->shape[1] > 1; b++) {
        for (int64_t s = 0; s < live(p, id, b); s++) {
            swap_rows(t, t, (int64_t[]){b, 0, s}, (int64_t[]){b, 1, s});
        }
    }
}

static void repeat_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    if (s < live(p, id, 0)) {
        copy_row(&p->t[id], (int64_t[]){b, h, s}, (int64_t[]){0, h, s});
    }
}

void at_spoil_repeat_batch(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, repeat_one);
}

static void last_zero_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    if (s == live(p, id, b) - 1) {
        set_row(&p->t[id], b, h, s, 0);
    }
}

void at_spoil_last_row_zero(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, last_zero_one);
}

static void last_copy_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    if (s == live(p, id, b) - 1 && s > 0) {
        copy_row(&p->t[id], (int64_t[]){b, h, s}, (int64_t[]){b, h, s - 1});
    }
}

void at_spoil_last_row_copy(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, last_copy_one);
}

static void half_tile_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    int64_t n = live(p, id, b);
    if (n % 128 == 64 && s >= n - 64) {
        set_row(&p->t[id], b, h, s, 0);
    }
}

void at_spoil_half_tile(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, half_tile_one);
}

static void last_tile_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    int64_t from = (live(p, id, b) - 1) / 64 * 64;
    if (from > 0 && s >= from) {
        set_row(&p->t[id], b, h, s, 0);
    }
}

void at_spoil_last_tile_zero(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, last_tile_one);
}

/* Sets the last element of the last sequence that has rows, or the first of the first. */
static void set_end(const at_problem *p, at_tensor_id id, bool first, double x)
{
    const at_tensor *t = &p->t[id];
    for (int64_t i = 0; i < t->shape[0]; i++) {
        int64_t b = first ? i : t->shape[0] - 1 - i, n = live(p, id, b);
        if (n > 0) {
            at_tensor_set(t, b, first ? 0 : t->shape[1] - 1, first ? 0 : n - 1,
                          first ? 0 : t->shape[3] - 1, x);
            return;
        }
    }
}

void at_spoil_nan(const at_problem *p, at_tensor_id id)
{
    set_end(p, id, false, (double)NAN);
}

void at_spoil_infinity(const at_problem *p, at_tensor_id id)
{
    set_end(p, id, true, HUGE_VAL);
}

void at_spoil_swap_dk_dv(const at_problem *p, at_tensor_id id)
{
    const at_tensor *dk = &p->t[AT_DK], *dv = &p->t[AT_DV];
    (void)id;
    for (int64_t b = 0; b < dk->shape[0] && dk->shape[3] == dv->shape[3]; b++) {
        for (int64_t h = 0; h < dk->shape[1]; h++) {
            for (int64_t s = 0; s < live(p, AT_DK, b); s++) {
                int64_t row[3] = {b, h, s};
                swap_rows(dk, dv, row, row);
            }
        }
    }
}

static void unwritten_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    for (int64_t d = 0; d < p->t[id].shape[3]; d++) {
        poison_element(&p->t[id], b, h, s, d);
    }
}

void at_spoil_unwritten(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, unwritten_one);
}

static void last_unwritten_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h,
                               int64_t s)
{
    if (s == live(p, id, b) - 1) {
        unwritten_one(p, id, b, h, s);
    }
}

void at_spoil_last_row_unwritten(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, last_unwritten_one);
}

static void tail_unwritten_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h,
                               int64_t s)
{
    int64_t dim = p->t[id].shape[3];
    for (int64_t d = dim / 8 * 8; d < dim; d++) {
        poison_element(&p->t[id], b, h, s, d);
    }
}

void at_spoil_last_columns_unwritten(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, tail_unwritten_one);
}

static void other_heads_one(const at_problem *p, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    int64_t group = p->c.heads_kv > 0 ? p->c.heads_q / p->c.heads_kv : 1;
    if (h % group != 0) {
        unwritten_one(p, id, b, h, s);
    }
}

void at_spoil_other_heads_unwritten(const at_problem *p, at_tensor_id id)
{
    each_row(p, id, other_heads_one);
}
