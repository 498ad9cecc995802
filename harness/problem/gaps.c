#include "harness/problem/gaps.h"

int64_t at_problem_rows(const at_problem *p, at_tensor_id id, int64_t b)
{
    const at_tensor *t = &p->t[id];
    return t->start == NULL ? t->shape[2] : at_tensor_has_keys(id) ? p->len_kv[b] : p->len_q[b];
}

/* Elements in memory; those that share it count once. */
static int64_t count_covered(const at_problem *p, at_tensor_id id)
{
    const at_tensor *t = &p->t[id];
    int64_t rows = 0, batch = t->stride[0] == 0 && t->start == NULL ? 1 : t->shape[0];
    for (int64_t b = 0; b < batch && b < t->shape[0]; b++) {
        rows += at_problem_rows(p, id, b);
    }
    int64_t heads = t->stride[1] == 0 && t->shape[1] > 0 ? 1 : t->shape[1];
    return rows * heads * t->shape[3];
}

bool at_problem_has_gaps(const at_problem *p, at_tensor_id home)
{
    int64_t covered = 0;
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        if (p->t[id].data != NULL && p->home[id] == home) {
            covered += count_covered(p, (at_tensor_id)id);
        }
    }
    size_t element = at_dtype_size(p->t[home].dtype);
    return (size_t)covered != p->size[home] / element;
}

static void mark_tensor(const at_problem *p, at_tensor_id id, uint64_t *cover)
{
    const at_tensor *t = &p->t[id];
    const unsigned char *base = p->base[p->home[id]], *data = t->data;
    int64_t offset = (data - base) / (int64_t)at_dtype_size(t->dtype);
    for (int64_t b = 0; b < t->shape[0]; b++) {
        for (int64_t h = 0; h < t->shape[1]; h++) {
            for (int64_t s = 0; s < at_problem_rows(p, id, b); s++) {
                int64_t first = offset + at_tensor_offset(t, b, h, s, 0);
                for (int64_t e = first; e < first + t->shape[3]; e++) {
                    cover[e / 64] |= UINT64_C(1) << (e % 64);
                }
            }
        }
    }
}

at_status at_problem_find_gaps(at_problem *p, at_error *err)
{
    for (int home = 0; home < AT_TENSOR_COUNT; home++) {
        bool output = !at_tensor_is_input((at_tensor_id)home);
        if (!output || p->base[home] == NULL || !at_problem_has_gaps(p, (at_tensor_id)home)) {
            continue;
        }
        void *cover = NULL;
        size_t elements = p->size[home] / at_dtype_size(p->t[home].dtype);
        AT_TRY(at_arena_scratch(&cover, p->arena, (elements / 64 + 1) * sizeof(uint64_t), err));
        p->cover[home] = cover;
        for (int id = 0; id < AT_TENSOR_COUNT; id++) {
            if (p->t[id].data != NULL && (int)p->home[id] == home) {
                mark_tensor(p, (at_tensor_id)id, p->cover[home]);
            }
        }
    }
    return AT_OK;
}
