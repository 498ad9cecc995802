/* Corruptions that touch statistics, rows without keys, padding and memory around the tensors. */
#include "kernels/mutants/mutants.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool sees_no_key(const at_problem *p, int64_t b, int64_t s)
{
    int64_t first, last;
    at_problem_keys(p, b, s, &first, &last);
    return first > last;
}

/* Writes x to every element of the query rows for which `chosen` holds. */
static void set_rows(const at_problem *p, at_tensor_id id, double x,
                     bool (*chosen)(const at_problem *p, int64_t b, int64_t s))
{
    const at_tensor *t = &p->t[id];
    for (int64_t i = 0; i < t->shape[0] * t->shape[1] * t->shape[2]; i++) {
        int64_t s = i % t->shape[2], b = i / t->shape[2] / t->shape[1];
        bool stored = t->start == NULL || s < p->len_q[b];
        for (int64_t d = 0; d < t->shape[3] && stored && chosen(p, b, s); d++) {
            at_tensor_set(t, b, i / t->shape[2] % t->shape[1], s, d, x);
        }
    }
}

static bool is_dead(const at_problem *p, int64_t b, int64_t s)
{
    return s < p->len_q[b] && sees_no_key(p, b, s);
}

void at_spoil_dead_infinity(const at_problem *p, at_tensor_id id)
{
    set_rows(p, id, HUGE_VAL, is_dead);
}

void at_spoil_dead_garbage(const at_problem *p, at_tensor_id id)
{
    set_rows(p, id, 1, is_dead);
}

static bool is_padding(const at_problem *p, int64_t b, int64_t s)
{
    return s >= p->len_q[b];
}

void at_spoil_pad_nan(const at_problem *p, at_tensor_id id)
{
    set_rows(p, id, (double)NAN, is_padding);
}

void at_spoil_transpose(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    int64_t heads = t->shape[1], n = t->shape[2];
    double *copy = malloc((size_t)(heads * n + 1) * sizeof *copy);
    AT_ASSERT(copy != NULL);
    for (int64_t b = 0; b < t->shape[0]; b++) {
        for (int64_t i = 0; i < heads * n; i++) {
            copy[i] = at_tensor_get(t, b, i / n, i % n, 0);
        }
        for (int64_t i = 0; i < heads * n; i++) {
            at_tensor_set(t, b, i / n, i % n, 0, copy[i % heads * n + i / heads]);
        }
    }
    free(copy);
}

/* 1 at this byte of the buffer that holds the tensor. */
static void store_at(const at_problem *p, at_tensor_id id, int64_t byte)
{
    double one = 1;
    unsigned char *base = p->base[p->home[id]];
    at_dtype_store_double(p->t[id].dtype, base + byte, &one, 1);
}

void at_spoil_write_after(const at_problem *p, at_tensor_id id)
{
    store_at(p, id, (int64_t)p->size[p->home[id]]);
}

void at_spoil_write_before(const at_problem *p, at_tensor_id id)
{
    store_at(p, id, -(int64_t)at_dtype_size(p->t[id].dtype));
}

void at_spoil_write_gap(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    for (int64_t b = 0; t->start != NULL && b + 1 < t->shape[0]; b++) {
        if (t->start[b] + p->len_q[b] < t->start[b + 1]) {
            const unsigned char *gap = at_tensor_at(t, b, 0, p->len_q[b], 0);
            store_at(p, id, gap - (const unsigned char *)p->base[p->home[id]]);
            return;
        }
    }
}

void at_spoil_write_row_gap(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    int64_t row = t->stride[2] > t->stride[1] ? t->stride[1] * t->shape[1] : t->shape[3];
    if (t->shape[2] > 1 && t->stride[2] > row) {
        store_at(p, id, (at_tensor_offset(t, 0, 0, 0, 0) + row) * (int64_t)at_dtype_size(t->dtype));
    }
}

void at_spoil_read_after(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id], *v = &p->t[AT_V];
    double beyond = 0;
    const unsigned char *base = p->base[p->home[AT_V]];
    at_dtype_load_double(v->dtype, &beyond, base + p->size[p->home[AT_V]], 1);
    if (p->len_q[0] > 0) {
        int64_t s = p->len_q[0] - 1;
        at_tensor_set(t, 0, 0, s, 0, at_tensor_get(t, 0, 0, s, 0) + 0 * beyond);
    }
}
