#include "reference/gold.h"

#include <string.h>

bool at_gold_makes(const at_case *c, at_tensor_id id)
{
    bool train = c->pass == AT_PASS_TRAIN;
    return id == AT_O || (id == AT_LSE && c->pass != AT_PASS_FWD) ||
           (train && (id == AT_DQ || id == AT_DK || id == AT_DV)) ||
           (train && id == AT_DBIAS && (c->grads & AT_GRAD_B) != 0) ||
           (train && id == AT_DSINK && (c->grads & AT_GRAD_S) != 0);
}

static bool on_q_side(at_tensor_id id)
{
    return id == AT_O || id == AT_LSE || id == AT_DQ;
}

int64_t at_gold_batch(const at_case *c, at_tensor_id id)
{
    bool shared = id == AT_DBIAS && (at_bias_broadcast((at_bias)c->bias) & 1) == 0;
    return id == AT_DSINK ? 1 : shared ? (c->batch > 0 ? 1 : 0) : c->batch;
}

int64_t at_gold_heads(const at_case *c, at_tensor_id id)
{
    bool shared = id == AT_DBIAS && (at_bias_broadcast((at_bias)c->bias) & 2) == 0;
    return id == AT_DK ? c->heads_kv : id == AT_DV ? c->heads_v : shared ? 1 : c->heads_q;
}

int64_t at_gold_dim(const at_case *c, at_tensor_id id)
{
    return id == AT_LSE || id == AT_DSINK ? 1
           : id == AT_DBIAS               ? c->len_kv
           : id == AT_O || id == AT_DV    ? c->dim_v
                                          : c->dim_qk;
}

int64_t at_gold_first(const at_problem *p, at_tensor_id id, int64_t b, int64_t h)
{
    int64_t first = 0, batch = at_gold_batch(&p->c, id);
    for (int64_t i = 0; i < b && i < batch; i++) {
        first += at_gold_heads(&p->c, id) * at_problem_live_rows(p, id, i);
    }
    return b < batch ? first + h * at_problem_live_rows(p, id, b) : first;
}

int64_t at_gold_total(const at_problem *p, at_tensor_id id)
{
    return at_gold_first(p, id, at_gold_batch(&p->c, id), 0);
}

at_status at_gold_take(void *pointer, at_arena *arena, int64_t count, size_t size, at_error *err)
{
    size_t bytes = 0;
    void *data = NULL;
    if (__builtin_mul_overflow((size_t)count, size, &bytes)) {
        return at_fail(err, AT_NO_MEMORY, "the reference needs %lld items of %zu bytes at once",
                       (long long)count, size);
    }
    AT_TRY(at_arena_scratch(&data, arena, bytes, err));
    memcpy(pointer, &data, sizeof data);
    return AT_OK;
}

at_status at_gold_open(at_gold_tensor *out, const at_problem *p, at_tensor_id id, int64_t rows,
                       bool no_scale, at_arena *arena, at_error *err)
{
    int64_t dim = at_gold_dim(&p->c, id), n = rows * dim;
    *out = (at_gold_tensor){.rows = rows, .dim = dim, .total_rows = at_gold_total(p, id)};
    AT_TRY(at_gold_take(&out->row, arena, rows, sizeof *out->row, err));
    AT_TRY(at_gold_take(&out->ref, arena, n, sizeof *out->ref, err));
    if (!no_scale) {
        AT_TRY(at_gold_take(&out->bound, arena, n, sizeof *out->bound, err));
        AT_TRY(at_gold_take(&out->sigma, arena, n, sizeof *out->sigma, err));
    }
    if (on_q_side(id)) {
        AT_TRY(at_gold_take(&out->dead, arena, rows, sizeof *out->dead, err));
    }
    return AT_OK;
}

void at_gold_list(at_gold_tensor *out, const at_problem *p, at_tensor_id id)
{
    int64_t n = 0;
    for (int64_t b = 0; b < at_gold_batch(&p->c, id); b++) {
        for (int64_t h = 0; h < at_gold_heads(&p->c, id); h++) {
            for (int64_t s = 0; s < at_problem_live_rows(p, id, b); s++, n++) {
                out->row[n][0] = b;
                out->row[n][1] = h;
                out->row[n][2] = s;
            }
        }
    }
}

at_status at_gold_open_all(at_gold *out, const at_problem *p, bool no_scale, at_arena *arena,
                           at_error *err)
{
    for (int id = AT_O; id < AT_TENSOR_COUNT; id++) {
        if (at_gold_makes(&p->c, (at_tensor_id)id)) {
            int64_t rows = at_gold_total(p, (at_tensor_id)id);
            at_gold_tensor *t = &out->t[id];
            AT_TRY(at_gold_open(t, p, (at_tensor_id)id, rows, no_scale, arena, err));
            at_gold_list(t, p, (at_tensor_id)id);
        }
    }
    out->share = 1;
    return AT_OK;
}
