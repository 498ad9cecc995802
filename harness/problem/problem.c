#include "harness/problem/problem.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "harness/problem/fill.h"
#include "harness/problem/lens.h"

const char *const at_tensor_names[] = {"q", "k", "v", "do", "o", "lse", "dq", "dk", "dv", NULL};

static at_status refuse(const at_case *c, const char *key, const char *reason, at_error *err)
{
    const at_field *f = at_case_field(key, strlen(key));
    AT_ASSERT(f != NULL);
    if (f->kind == AT_FIELD_REAL) {
        return at_fail(err, AT_UNSUPPORTED, "%s other than %g is not built yet: %s", key,
                       f->real_init, reason);
    }
    int64_t value = at_case_get(c, f);
    if (f->kind == AT_FIELD_ENUM) {
        return at_fail(err, AT_UNSUPPORTED, "%s=%s is not built yet: %s", key, f->names[value],
                       reason);
    }
    return at_fail(err, AT_UNSUPPORTED, "%s=%lld is not built yet: %s", key, (long long)value,
                   reason);
}

/* Features that the language has and problems cannot hold. */
static at_status check_supported(const at_case *c, at_error *err)
{
    if (c->pack != AT_PACK_NONE) {
        return refuse(c, "pack", "q, k and v have a buffer each", err);
    }
    if (c->stride != AT_STRIDE_PACKED) {
        return refuse(c, "stride", "tensors are contiguous in the layout's order", err);
    }
    if (c->amask != AT_AMASK_NONE) {
        return refuse(c, "amask", "problems hold no dense mask", err);
    }
    if (c->dead_rows != 0) {
        return refuse(c, "deadrows", "rows lose their keys through lengths and windows only", err);
    }
    if (c->bias != AT_BIAS_NONE) {
        return refuse(c, "bias", "problems hold no bias", err);
    }
    if (c->sink != AT_SINK_NONE) {
        return refuse(c, "sink", "problems hold no sink", err);
    }
    if (c->dropout != 0) {
        return refuse(c, "dropout", "problems hold no dropout mask", err);
    }
    if (c->page != 0) {
        return refuse(c, "page", "problems hold no page table", err);
    }
    return AT_OK;
}

static at_status take_numbers(int64_t **out, at_arena *arena, int64_t n, at_error *err)
{
    void *memory = NULL;
    AT_TRY(at_arena_scratch(&memory, arena, (size_t)n * sizeof **out, err));
    *out = memory;
    return AT_OK;
}

static at_status set_lengths(at_problem *p, at_error *err)
{
    int64_t batch = p->c.batch, *len_q = NULL, *len_kv = NULL, *diag = NULL;
    int64_t *start_q = NULL, *start_kv = NULL;
    AT_TRY(take_numbers(&len_q, p->arena, batch, err));
    AT_TRY(take_numbers(&len_kv, p->arena, batch, err));
    AT_TRY(take_numbers(&diag, p->arena, batch, err));
    if (p->c.layout == AT_THD) {
        AT_TRY(take_numbers(&start_q, p->arena, batch + 1, err));
        AT_TRY(take_numbers(&start_kv, p->arena, batch + 1, err));
    }
    for (int64_t b = 0; b < batch; b++) {
        at_extent x = at_extent_of(&p->c, b);
        int64_t gap = b + 1 < batch ? p->c.gap : 0;
        len_q[b] = x.len_q;
        len_kv[b] = x.len_kv;
        diag[b] = x.diag;
        if (start_q != NULL && start_kv != NULL) {
            start_q[b + 1] = start_q[b] + x.len_q + gap;
            start_kv[b + 1] = start_kv[b] + x.len_kv + gap;
        }
    }
    p->len_q = len_q;
    p->len_kv = len_kv;
    p->diag = diag;
    p->start_q = start_q;
    p->start_kv = start_kv;
    return AT_OK;
}

/* A shape in the layout's memory order; lse is dense in [b h s] whatever the layout. */
static void set_shape(at_problem *p, at_tensor_id id, at_dtype dtype, int64_t heads, int64_t dim)
{
    at_tensor *t = &p->t[id];
    bool is_key = id == AT_K || id == AT_V || id == AT_DK || id == AT_DV;
    int64_t batch = p->c.batch, len = is_key ? p->c.len_kv : p->c.len_q;
    const int64_t strides[][4] = {
        [AT_BSHD] = {len * heads * dim, dim, heads * dim, 1},
        [AT_SBHD] = {heads * dim, dim, batch * heads * dim, 1},
        [AT_BHSD] = {heads * len * dim, len * dim, dim, 1},
        [AT_THD] = {0, dim, heads * dim, 1},
    };
    const int64_t shape[4] = {batch, heads, len, dim};
    int64_t layout = id == AT_LSE ? AT_BHSD : p->c.layout;
    t->dtype = dtype;
    memcpy(t->shape, shape, sizeof shape);
    memcpy(t->stride, strides[layout], sizeof t->stride);
    t->start = layout != AT_THD ? NULL : is_key ? p->start_kv : p->start_q;
}

static void set_shapes(at_problem *p)
{
    const at_case *c = &p->c;
    at_dtype in = (at_dtype)c->dtype, out = (at_dtype)c->odt;
    set_shape(p, AT_Q, in, c->heads_q, c->dim_qk);
    set_shape(p, AT_K, in, c->heads_kv, c->dim_qk);
    set_shape(p, AT_V, in, c->heads_v, c->dim_v);
    set_shape(p, AT_DO, out, c->heads_q, c->dim_v);
    set_shape(p, AT_O, out, c->heads_q, c->dim_v);
    set_shape(p, AT_LSE, AT_F32, c->heads_q, 1);
    set_shape(p, AT_DQ, in, c->heads_q, c->dim_qk);
    set_shape(p, AT_DK, in, c->heads_kv, c->dim_qk);
    set_shape(p, AT_DV, in, c->heads_v, c->dim_v);
}

static bool has_tensor(const at_case *c, int id)
{
    bool train = c->pass == AT_PASS_TRAIN;
    return id == AT_DO || id >= AT_DQ ? train : id == AT_LSE ? c->pass != AT_PASS_FWD : true;
}

/* Elements in memory: tokens of all sequences and gaps, heads, dim. -1: beyond 2^63. */
static int64_t count_elements(const at_tensor *t, int64_t batch)
{
    int64_t n = t->start != NULL ? t->start[batch] : batch;
    const int64_t factors[] = {t->start != NULL ? 1 : t->shape[2], t->shape[1], t->shape[3]};
    for (int i = 0; i < 3; i++) {
        if (__builtin_mul_overflow(n, factors[i], &n)) {
            return -1;
        }
    }
    return n;
}

static at_status take_tensor(at_problem *p, at_tensor_id id, at_error *err)
{
    at_tensor *t = &p->t[id];
    size_t bytes = at_dtype_size(t->dtype);
    int64_t n = count_elements(t, p->c.batch);
    if (n < 0 || (uint64_t)n > PTRDIFF_MAX / bytes) {
        return at_fail(err, AT_NO_MEMORY, "%s has more than 2^63 bytes", at_tensor_names[id]);
    }
    p->size[id] = (size_t)n * bytes;
    at_status status =
        at_arena_take(&t->data, p->arena, p->size[id], at_dtype_guard(t->dtype), bytes, err);
    if (status == AT_OK && id <= AT_DO) {
        status = at_arena_scratch(&p->shadow[id], p->arena, p->size[id], err);
    }
    return status == AT_OK ? AT_OK : at_fail_in(err, status, "%s", at_tensor_names[id]);
}

at_status at_problem_open(at_problem *out, const at_case *c, at_arena *arena, at_error *err)
{
    memset(out, 0, sizeof *out);
    out->c = *c;
    out->arena = arena;
    out->scale = c->scale == AT_SCALE_AUTO ? 1 / sqrt((double)c->dim_qk) : c->scale;
    AT_TRY(check_supported(c, err));
    AT_TRY(set_lengths(out, err));
    set_shapes(out);
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        if (has_tensor(c, id)) {
            AT_TRY(take_tensor(out, (at_tensor_id)id, err));
        }
    }
    for (int id = AT_Q; id <= AT_DO; id++) {
        const at_tensor *t = &out->t[id];
        if (t->data != NULL) {
            at_fill_tensor(t, c, (at_tensor_id)id);
            memcpy(out->shadow[id], t->data, out->size[id]);
        }
    }
    at_problem_poison(out, AT_O, AT_DV);
    return AT_OK;
}

void at_problem_keys(const at_problem *p, int64_t b, int64_t i, int64_t *first, int64_t *last)
{
    at_extent x = {.len_q = p->len_q[b], .len_kv = p->len_kv[b], .diag = p->diag[b]};
    at_extent_keys(&p->c, &x, i, first, last);
}
