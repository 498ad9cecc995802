/* Corruptions of the table of reported faults. */
#include "kernels/mutants/mutants.h"

#include <string.h>

enum { OFFSETS = 1 << 16, LAUNCHES = 255 };

static void copy_row(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t from)
{
    for (int64_t d = 0; d < t->shape[3]; d++) {
        at_tensor_set(t, b, h, s, d, at_tensor_get(t, b, from, s, d));
    }
}

static void poison_columns(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t first,
                           int64_t end)
{
    uint32_t poison = at_dtype_poison(t->dtype);
    for (int64_t d = first; d < end; d++) {
        unsigned char *at = at_tensor_at(t, b, h, s, d);
        for (size_t i = 0; i < at_dtype_size(t->dtype); i++) {
            at[i] = (unsigned char)(poison >> (8 * i));
        }
    }
}

void at_spoil_repeat_head(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    for (int64_t b = 0; b < t->shape[0]; b++) {
        for (int64_t h = 1; h < t->shape[1]; h++) {
            for (int64_t s = 0; s < at_problem_live_rows(p, id, b); s++) {
                copy_row(t, b, h, s, 0);
            }
        }
    }
}

void at_spoil_columns_past_qk(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    for (int64_t n = 0; n < t->shape[0] * t->shape[1] * t->shape[2]; n++) {
        int64_t s = n % t->shape[2], h = n / t->shape[2] % t->shape[1];
        int64_t b = n / t->shape[2] / t->shape[1];
        if (s < at_problem_live_rows(p, id, b)) {
            poison_columns(t, b, h, s, p->c.dim_qk, t->shape[3]);
        }
    }
}

/* Elements whose offset has left the range are stored where the offset wraps to, in order, so that
 * their own places stay unwritten. */
void at_spoil_wrap(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    size_t size = at_dtype_size(t->dtype);
    unsigned char *base = p->base[p->home[id]];
    for (int64_t n = 0; n < t->shape[0] * t->shape[1] * t->shape[2]; n++) {
        int64_t s = n % t->shape[2], h = n / t->shape[2] % t->shape[1];
        int64_t b = n / t->shape[2] / t->shape[1];
        int64_t columns = at_problem_live_columns(p, id, b);
        for (int64_t d = 0; d < columns && s < at_problem_live_rows(p, id, b); d++) {
            unsigned char *at = at_tensor_at(t, b, h, s, d);
            size_t element = (size_t)(at - base) / size;
            if (element >= OFFSETS) {
                memcpy(base + element % OFFSETS * size, at, size);
                poison_columns(t, b, h, s, d, d + 1);
            }
        }
    }
}

void at_spoil_batch_limit(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    for (int64_t b = LAUNCHES; b < t->shape[0]; b++) {
        for (int64_t h = 0; h < t->shape[1]; h++) {
            for (int64_t s = 0; s < at_problem_live_rows(p, id, b); s++) {
                poison_columns(t, b, h, s, 0, t->shape[3]);
            }
        }
    }
}

void at_spoil_idle_unwritten(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    for (int64_t b = 0; b < t->shape[0]; b++) {
        for (int64_t h = 0; h < t->shape[1] && p->len_q[b] == 0; h++) {
            for (int64_t s = 0; s < at_problem_live_rows(p, id, b); s++) {
                poison_columns(t, b, h, s, 0, t->shape[3]);
            }
        }
    }
}

static void swap_rows(const at_tensor *t, int64_t b, int64_t h, int64_t s)
{
    for (int64_t d = 0; d < t->shape[3]; d++) {
        double x = at_tensor_get(t, b, h, s, d), y = at_tensor_get(t, b, s, h, d);
        at_tensor_set(t, b, h, s, d, y);
        at_tensor_set(t, b, s, h, d, x);
    }
}

void at_spoil_heads_as_rows(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    for (int64_t b = 0; b < t->shape[0] && t->shape[1] == at_problem_live_rows(p, id, b); b++) {
        for (int64_t h = 0; h < t->shape[1]; h++) {
            for (int64_t s = 0; s < h; s++) {
                swap_rows(t, b, h, s);
            }
        }
    }
}
