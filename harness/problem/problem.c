#include "harness/problem/problem.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "harness/problem/fill.h"
#include "harness/problem/gaps.h"
#include "harness/problem/lens.h"
#include "harness/problem/strides.h"

const char *const at_tensor_names[] = {"q",     "k",    "v",     "do",    "o",     "lse",
                                       "dq",    "dk",   "dv",    "bias",  "amask", "sink",
                                       "pages", "drop", "dbias", "dsink", NULL};

bool at_tensor_is_input(at_tensor_id id)
{
    return id <= AT_DO || (id >= AT_BIAS && id <= AT_PAGES);
}

bool at_tensor_is_gradient(at_tensor_id id)
{
    return (id >= AT_DQ && id <= AT_DV) || id == AT_DBIAS || id == AT_DSINK;
}

bool at_tensor_has_keys(at_tensor_id id)
{
    return id == AT_K || id == AT_V || id == AT_DK || id == AT_DV;
}

double at_alibi_slope(const at_case *c, int64_t h)
{
    return exp2(-8.0 * (double)(h + 1) / (double)c->heads_q);
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

/* The buffer that tensor `id` owns. */
static at_status take_buffer(at_problem *p, at_tensor_id id, const at_strides *place, at_error *err)
{
    size_t bytes = at_dtype_size(place->dtype);
    if (place->elements < 0 || (uint64_t)place->elements > PTRDIFF_MAX / bytes) {
        return at_fail(err, AT_NO_MEMORY, "%s has more than 2^63 bytes", at_tensor_names[id]);
    }
    p->size[id] = (size_t)place->elements * bytes;
    at_status status = at_arena_take(&p->base[id], p->arena, p->size[id],
                                     at_dtype_guard(place->dtype), bytes, err);
    if (status == AT_OK && at_tensor_is_input(id)) {
        status = at_arena_scratch(&p->shadow[id], p->arena, p->size[id], err);
    }
    return status == AT_OK ? AT_OK : at_fail_in(err, status, "%s", at_tensor_names[id]);
}

static at_status take_tensor(at_problem *p, at_tensor_id id, at_error *err)
{
    at_tensor *t = &p->t[id];
    at_strides place;
    at_case_strides(&place, &p->c, id);
    t->dtype = place.dtype;
    memcpy(t->shape, place.shape, sizeof place.shape);
    memcpy(t->stride, place.stride, sizeof place.stride);
    p->home[id] = place.home;
    p->unit[id] = 1;
    bool in_layout = id <= AT_O || (id >= AT_DQ && id <= AT_DV);
    bool paged = p->c.page != 0 && (id == AT_K || id == AT_V);
    if (in_layout && !paged) {
        t->start = at_tensor_has_keys(id) ? p->start_kv : p->start_q;
    }
    if (!place.exists) {
        return AT_OK;
    }
    if (place.home == id) {
        AT_TRY(take_buffer(p, id, &place, err));
    }
    unsigned char *bytes = p->base[place.home];
    t->data = bytes + (size_t)place.offset * at_dtype_size(t->dtype);
    return AT_OK;
}

/* The table is filled before the tensors that it places. */
static at_status take_pages(at_problem *p, at_error *err)
{
    if (p->c.page == 0) {
        return AT_OK;
    }
    AT_TRY(at_fill_pages(&p->t[AT_PAGES], &p->c, p->arena, err));
    for (int id = AT_K; id <= AT_V; id++) {
        p->t[id].pages = p->t[AT_PAGES].data;
        p->t[id].page = p->c.page;
        p->t[id].pages_wide = at_case_pages_wide(&p->c);
    }
    return AT_OK;
}

static at_status fill_inputs(at_problem *p, at_error *err)
{
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        at_tensor_id home = p->home[id];
        const at_tensor *t = &p->t[id];
        if (t->data == NULL || !at_tensor_is_input((at_tensor_id)id) || id == AT_PAGES) {
            continue;
        }
        if ((int)home == id && at_problem_has_gaps(p, home)) {
            at_fill_gaps(p->base[id], (int64_t)(p->size[id] / at_dtype_size(t->dtype)), t->dtype,
                         p->c.seed, home);
        }
        if (id == AT_AMASK) {
            AT_TRY(at_fill_mask(t, &p->c, p->arena, err));
        } else if (id > AT_DO) {
            at_fill_flat(t, &p->c, (at_tensor_id)id);
        } else {
            at_fill_tensor(t, &p->c, (at_tensor_id)id);
        }
    }
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        if (p->shadow[id] != NULL) {
            memcpy(p->shadow[id], p->base[id], p->size[id]);
        }
    }
    return AT_OK;
}

at_status at_problem_open(at_problem *out, const at_case *c, at_arena *arena, at_error *err)
{
    memset(out, 0, sizeof *out);
    out->c = *c;
    out->arena = arena;
    out->scale = c->scale == AT_SCALE_AUTO ? 1 / sqrt((double)c->dim_qk) : c->scale;
    AT_TRY(set_lengths(out, err));
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        AT_TRY(take_tensor(out, (at_tensor_id)id, err));
    }
    AT_TRY(take_pages(out, err));
    AT_TRY(at_problem_find_gaps(out, err));
    AT_TRY(fill_inputs(out, err));
    at_fill_units(out);
    at_problem_poison(out, AT_O, AT_DV);
    return AT_OK;
}

void at_problem_keys(const at_problem *p, int64_t b, int64_t i, int64_t *first, int64_t *last)
{
    at_extent x = {.len_q = p->len_q[b], .len_kv = p->len_kv[b], .diag = p->diag[b]};
    at_extent_keys(&p->c, &x, i, first, last);
}

bool at_problem_is_dead(const at_problem *p, int64_t b, int64_t h, int64_t i)
{
    const at_tensor *t = &p->t[AT_AMASK];
    int64_t first = 0, last = -1;
    at_problem_keys(p, b, i, &first, &last);
    if (first > last || t->data == NULL || p->c.dead_rows == 0 || p->c.amask >= AT_AMASK_MIN_11) {
        return first > last; /* other dense masks keep a key of every row */
    }
    for (int64_t j = first; j <= last; j++) {
        double x = at_tensor_get(t, b, h, i, j);
        if (t->dtype == AT_U8 ? x != 0 : x > -HUGE_VAL) {
            return false;
        }
    }
    return true;
}

static bool is_square(at_tensor_id id)
{
    return id == AT_BIAS || id == AT_DBIAS || id == AT_AMASK || id == AT_DROP;
}

/* The length of sequence b, or the longest where the tensor serves all. */
static int64_t length_of(const at_problem *p, const int64_t *len, at_tensor_id id, int64_t b)
{
    int64_t most = 0;
    if (!is_square(id) || p->t[id].stride[0] != 0) {
        return len[b];
    }
    for (int64_t i = 0; i < p->c.batch; i++) {
        most = len[i] > most ? len[i] : most;
    }
    return most;
}

int64_t at_problem_live_rows(const at_problem *p, at_tensor_id id, int64_t b)
{
    bool single = id == AT_SINK || id == AT_DSINK || id == AT_PAGES;
    return single ? 1 : length_of(p, at_tensor_has_keys(id) ? p->len_kv : p->len_q, id, b);
}

int64_t at_problem_live_columns(const at_problem *p, at_tensor_id id, int64_t b)
{
    return is_square(id) ? length_of(p, p->len_kv, id, b) : p->t[id].shape[3];
}
