#include "kernels/cpu_flash_run.h"

#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

static const at_flash_engine engines[] = {
    {.name = "tile64", .tile = 64},
    {.name = "tile32", .tile = 32},
    {.name = "tile128", .tile = 128},
    {.name = "reversed", .tile = 64, .reversed = true},
    {.name = "split", .tile = 64, .splits = 4},
    {.name = "p32", .tile = 64, .p_f32 = true},
    {.name = "exp2", .tile = 64, .base2 = true},
    {.name = "lazy", .tile = 32, .lazy = true},
};
enum { ENGINE_COUNT = sizeof engines / sizeof *engines };

at_status at_flash_supports(const at_backend *self, const at_case *c, at_reason *why)
{
    (void)self;
    return at_cpu_supports(c, why);
}

at_status at_flash_open(const at_backend *self, void **state, at_error *err)
{
    (void)self, (void)err;
    *state = NULL;
    return AT_OK;
}

void at_flash_close(const at_backend *self, void *state)
{
    (void)self, (void)state;
}

/* Engines that would repeat another one bit for bit by construction are left out, and exp2 where
 * the lowest finite number, which masks hold, has no multiple by log2(e). */
at_status at_flash_claim(const at_backend *self, void *state, const at_case *c, at_engines *list,
                         at_reason *why)
{
    (void)state;
    AT_TRY(at_flash_supports(self, c, why));
    list->n = 0;
    for (int i = 0; i < ENGINE_COUNT; i++) {
        bool p_f32 = c->dtype == AT_F32 || self->numeric.p == AT_P_F32;
        bool same = (engines[i].p_f32 && p_f32) || (engines[i].splits > 0 && c->splits > 0);
        bool lowest = c->amask >= AT_AMASK_MIN_11 && c->dtype != AT_F16;
        if (!same && !(engines[i].base2 && lowest)) {
            (void)strcpy(list->name[list->n++], engines[i].name);
        }
    }
    return AT_OK;
}

static at_tile_rounding rounding_of(int64_t dtype, bool toward_zero)
{
    if (dtype == AT_F8E4M3 || dtype == AT_F8E5M2) {
        return dtype == AT_F8E4M3 ? AT_TILE_F8E4M3 : AT_TILE_F8E5M2;
    }
    if (dtype == AT_BF16) {
        return toward_zero ? AT_TILE_BF16_ZERO : AT_TILE_BF16;
    }
    if (dtype == AT_F16) {
        return toward_zero ? AT_TILE_F16_ZERO : AT_TILE_F16;
    }
    return AT_TILE_KEEP;
}

/* n dims without the last 16, or without their second half where there are fewer than 32. */
static int shortened(int n)
{
    return n - (n < 32 ? n / 2 : 16);
}

static double faulty_scale(const at_problem *p, uint8_t fault)
{
    switch (fault) {
    case AT_FLASH_SCALE_TWICE:
        return p->scale * p->scale;
    case AT_FLASH_SCALE_FROM_V:
        return 1 / sqrt((double)p->c.dim_v);
    case AT_FLASH_SCALE_UP:
        return 1.02 * p->scale;
    default:
        return p->scale;
    }
}

/* Every other launch of a pass in this process runs other tiles in the opposite order. */
static void vary(at_flash_engine *engine, int pass)
{
    static atomic_uint launches[2];
    if (atomic_fetch_add(&launches[pass == AT_FLASH_BACKWARD], 1) % 2 == 1) {
        engine->tile = engine->tile == 32 ? 64 : 32;
        engine->reversed = !engine->reversed;
    }
}

static bool is_fp8(const at_case *c)
{
    return c->dtype == AT_F8E4M3 || c->dtype == AT_F8E5M2;
}

static float unit_of(const at_problem *p, float unit)
{
    return is_fp8(&p->c) && unit > 0 ? unit : 1;
}

/* What stands beside dot products, and the class. */
static void configure_features(at_flash_run *run, const at_problem *p)
{
    const at_case *c = &p->c;
    run->biased = c->bias != AT_BIAS_NONE;
    run->masked = c->amask != AT_AMASK_NONE;
    run->drop = c->dropout > 0 ? 1 / (1 - (float)c->dropout) : 0;
    run->p_unit = unit_of(p, run->numeric.p_unit);
    run->ds_unit = unit_of(p, run->numeric.ds_unit);
}

static void configure(at_flash_run *run, const at_problem *p, int pass)
{
    const at_flash_fault *fault = &run->fault;
    bool p_f32 = run->engine.p_f32 || run->numeric.p == AT_P_F32;
    int dim_qk = (int)p->c.dim_qk, dim_v = (int)p->c.dim_v;
    if (fault->nondeterministic) {
        vary(&run->engine, pass);
    }
    if (run->engine.splits == 0) {
        run->engine.splits = p->c.splits > 1 ? (int)p->c.splits : 1;
    }
    run->softmax.scale = (float)faulty_scale(p, fault->scale);
    run->softmax.cap = fault->softcap_lost ? 0 : (float)p->c.softcap;
    run->softmax.base2 = run->engine.base2;
    run->softmax.slack = !run->engine.lazy ? 0 : run->engine.base2 ? 8 : 8 * 0.69314718F;
    run->rounding = p_f32 ? AT_TILE_KEEP : rounding_of(p->c.dtype, fault->toward_zero);
    run->sums = fault->low_accumulators ? rounding_of(p->c.dtype, false) : AT_TILE_KEEP;
    run->score_dims = dim_qk;
    if (fault->dims_tail > 0 && dim_qk > fault->dims_tail) {
        run->score_dims -= dim_qk % fault->dims_tail;
    }
    run->dp_dims = fault->dp_short ? shortened(dim_v) : dim_v;
    run->d_dims = fault->d == AT_FLASH_D_TRUNCATED ? shortened(dim_v) : dim_v;
    run->qk_stride = at_tile_stride(dim_qk);
    run->v_stride = at_tile_stride(dim_v);
}

/* Key range under the mask faults, not yet clipped to the keys there are. */
static void faulty_band(const at_flash_run *run, int64_t b, int64_t i, int64_t *first,
                        int64_t *last)
{
    const at_problem *p = run->p;
    const at_case *c = &p->c;
    const at_flash_fault *fault = &run->fault;
    int64_t right = c->mask == AT_MASK_CAUSAL ? 0 : c->window_right, diagonal = p->diag[b];
    if (fault->corner_swapped && c->align == AT_ALIGN_TL) {
        diagonal = p->len_kv[b] - p->len_q[b];
    } else if (fault->corner_swapped && c->align == AT_ALIGN_BR) {
        diagonal = 0;
    }
    diagonal += fault->diagonal;
    *first = 0;
    *last = p->len_kv[b] - 1;
    if (c->mask != AT_MASK_NONE && c->window_left >= 0) {
        *first = i + diagonal - c->window_left - fault->edge_left;
    }
    if (c->mask != AT_MASK_NONE && right >= 0) {
        *last = i + diagonal + right + fault->edge_right;
    }
}

static void row_keys(const at_flash_run *run, int64_t b, int64_t i, int *low, int *high)
{
    const at_flash_fault *fault = &run->fault;
    int64_t first = 0, last = -1, keys = run->p->len_kv[b];
    if (fault->edge_left || fault->edge_right || fault->diagonal || fault->corner_swapped) {
        faulty_band(run, b, i, &first, &last);
        first = first < 0 ? 0 : first;
        last = last >= keys ? keys - 1 : last;
    } else {
        at_problem_keys(run->p, b, i, &first, &last);
    }
    if (fault->last_key_lost && last == keys - 1) {
        last--;
    }
    if (fault->pad_scored && last == keys - 1 && first <= last) {
        last += (run->engine.tile - keys % run->engine.tile) % run->engine.tile;
    }
    *low = first <= last ? (int)first : 1;
    *high = first <= last ? (int)last : 0;
}

static void find_keys(at_flash_run *run)
{
    const at_problem *p = run->p;
    for (int64_t b = 0; b < p->c.batch; b++) {
        for (int64_t i = 0; i < p->len_q[b]; i++) {
            int64_t at = b * p->c.len_q + i;
            row_keys(run, b, i, &run->first[at], &run->last[at]);
        }
    }
}

/* Small launches stay on one thread: starting a team costs more than they do. */
static int thread_count(const at_problem *p, int64_t items)
{
    double work = (double)p->c.batch * (double)p->c.heads_q * (double)p->c.len_q *
                  (double)p->c.len_kv * (double)(p->c.dim_qk + p->c.dim_v);
    int most = omp_get_max_threads();
    if (work < 1e8 || items < 2) {
        return 1;
    }
    return items < most ? (int)items : most;
}

at_status at_flash_start(at_flash_run *run, const at_backend *self, const at_problem *p,
                         const char *engine, int pass, int64_t items, size_t floats, at_error *err)
{
    const at_flash_fault *fault = self->data;
    *run = (at_flash_run){.p = p, .numeric = self->numeric, .scratch_floats = floats};
    AT_ASSERT(!run->numeric.scores_stored);
    for (int i = 0; i < ENGINE_COUNT; i++) {
        if (strcmp(engines[i].name, engine) == 0) {
            run->engine = engines[i];
        }
    }
    if (run->engine.name == NULL) {
        return at_fail(err, AT_INVALID, "%s has no engine called \"%s\"", self->name, engine);
    }
    if (fault != NULL && (fault->passes == 0 || (fault->passes & pass) != 0)) {
        run->fault = *fault;
    }
    configure(run, p, pass);
    configure_features(run, p);
    run->threads = thread_count(p, items);
    size_t rows = (size_t)(p->c.batch * p->c.len_q), threads = (size_t)run->threads;
    run->first = malloc((rows + 1) * sizeof *run->first);
    run->last = malloc((rows + 1) * sizeof *run->last);
    run->scratch = aligned_alloc(64, (threads * floats + AT_TILE_LANES) * sizeof *run->scratch);
    if (run->first == NULL || run->last == NULL || run->scratch == NULL) {
        return at_fail(err, AT_NO_MEMORY, "%s: no memory for %zu threads of %zu floats", self->name,
                       threads, floats);
    }
    find_keys(run);
    return AT_OK;
}

void at_flash_finish(at_flash_run *run)
{
    free(run->first);
    free(run->last);
    free(run->d);
    free(run->scratch);
}

float *at_flash_scratch(const at_flash_run *run)
{
    return run->scratch + (size_t)omp_get_thread_num() * run->scratch_floats;
}

int64_t at_flash_k_head(const at_flash_run *run, int64_t h)
{
    const at_case *c = &run->p->c;
    return run->fault.head_modulo ? h % c->heads_kv : h / (c->heads_q / c->heads_kv);
}

int64_t at_flash_v_head(const at_flash_run *run, int64_t h)
{
    const at_case *c = &run->p->c;
    return run->fault.head_modulo ? h % c->heads_v : h / (c->heads_q / c->heads_v);
}

at_flash_span at_flash_span_of(const at_flash_run *run, int64_t b, int64_t i, int rows)
{
    at_flash_span span = {INT_MAX, -1, 0, INT_MAX};
    const int *first = run->first + b * run->p->c.len_q + i;
    const int *last = run->last + b * run->p->c.len_q + i;
    for (int r = 0; r < rows; r++) {
        if (first[r] <= last[r]) {
            span.low = first[r] < span.low ? first[r] : span.low;
            span.high = last[r] > span.high ? last[r] : span.high;
        }
        span.full_low = first[r] > span.full_low ? first[r] : span.full_low;
        span.full_high = last[r] < span.full_high ? last[r] : span.full_high;
    }
    return span;
}

/* The tensor as the fault reads it; `b` changes with the table's row. */
static at_tensor view_of(const at_flash_run *run, const at_flash_rows *what, int64_t *b)
{
    const at_problem *p = run->p;
    at_tensor t = p->t[what->tensor];
    bool keys = what->tensor == AT_K || what->tensor == AT_V;
    switch (run->fault.read) {
    case AT_FLASH_READ_DENSE:
        if (keys && t.stride[1] > 0) {
            bool by_head = t.stride[1] > t.stride[2];
            t.stride[1] = by_head ? t.shape[2] * t.shape[3] : t.shape[3];
            t.stride[2] = by_head ? t.shape[3] : t.shape[1] * t.shape[3];
        }
        break;
    case AT_FLASH_READ_V_AS_K:
        t = what->tensor == AT_V && p->home[AT_V] != AT_V ? p->t[AT_K] : t;
        break;
    case AT_FLASH_READ_DO_AS_O:
        if (what->tensor == AT_DO) {
            memcpy(t.stride, p->t[AT_O].stride, sizeof t.stride);
        }
        break;
    case AT_FLASH_READ_PAGE_ROW:
        *b = t.pages != NULL ? 0 : *b;
        break;
    case AT_FLASH_READ_PAGE_NONE:
        t.stride[0] *= t.pages != NULL ? t.pages_wide : 1;
        t.pages = NULL;
        break;
    default:
        break;
    }
    return t;
}

static const char *row_address(const at_flash_run *run, const at_flash_rows *what, int64_t s)
{
    const at_tensor *t = &run->p->t[what->tensor];
    bool early = run->fault.start_off && (what->tensor == AT_K || what->tensor == AT_V) &&
                 t->start != NULL && t->start[what->b] > 0;
    if (run->fault.read != AT_FLASH_READ_RIGHT) {
        int64_t b = what->b;
        at_tensor view = view_of(run, what, &b);
        return at_tensor_at(&view, b, what->h, s, 0);
    }
    const char *row = at_tensor_at(t, what->b, what->h, s, 0);
    return early ? row - t->stride[2] * (int64_t)at_dtype_size(t->dtype) : row;
}

static float unit_of_tensor(const at_flash_run *run, at_tensor_id id)
{
    uint8_t read = run->fault.read;
    bool lost = (read == AT_FLASH_READ_UNIT_K && id == AT_K) ||
                (read == AT_FLASH_READ_UNIT_V && id == AT_V);
    return lost ? 1 : run->p->unit[id];
}

/* n stored elements from element `from` of row s, as the values they stand for. */
static void load_line(const at_flash_run *run, const at_flash_rows *what, int64_t s, int from,
                      float *out, int n)
{
    at_dtype dtype = run->p->t[what->tensor].dtype;
    float unit = unit_of_tensor(run, what->tensor);
    const char *row = row_address(run, what, s);
    at_tile_load(dtype, out, row + (size_t)from * at_dtype_size(dtype), n);
    for (int d = 0; unit != 1 && d < n; d++) {
        out[d] *= unit;
    }
}

void at_flash_load(const at_flash_run *run, const at_flash_rows *what, float *out)
{
    const at_tensor *t = &run->p->t[what->tensor];
    int dim = (int)t->shape[3], lanes = what->by_lane ? what->stride : at_tile_lanes(dim);
    AT_ASSERT(t->stride[3] == 1 || dim == 1);
    if (what->by_lane) {
        memset(out, 0, (size_t)dim * (size_t)lanes * sizeof *out);
    }
    for (int r = 0; r < what->rows; r++) {
        float *row = out + (ptrdiff_t)r * what->stride, line[1024];
        bool live = what->s + r < what->live;
        if (!what->by_lane) {
            int filled = live ? dim : 0;
            if (live) {
                load_line(run, what, what->s + r, 0, row, dim);
            }
            memset(row + filled, 0, (size_t)(lanes - filled) * sizeof *row);
            continue;
        }
        for (int d0 = 0; live && d0 < dim; d0 += 1024) {
            int n = dim - d0 < 1024 ? dim - d0 : 1024;
            load_line(run, what, what->s + r, d0, line, n);
            for (int d = 0; d < n; d++) {
                out[(ptrdiff_t)(d0 + d) * what->stride + r] = line[d];
            }
        }
    }
}

void at_flash_store(const at_flash_run *run, at_tensor_id id, int64_t b, int64_t h, int64_t s,
                    float *row)
{
    const at_tensor *t = &run->p->t[id];
    at_cpu_to_units(t->dtype, run->p->unit[id], row, t->shape[3]);
    at_tile_store(t->dtype, at_tensor_at(t, b, h, s, 0), row, (int)t->shape[3]);
}

double at_flash_log_sum(double a, double b)
{
    double low = fmin(a, b), high = fmax(a, b);
    return high > -HUGE_VAL ? high + log1p(exp(low - high)) : high;
}

void at_flash_round(const at_flash_run *run, float unit, float *x, size_t n)
{
    for (size_t i = 0; unit != 1 && i < n; i++) {
        x[i] /= unit;
    }
    at_tile_round(run->rounding, x, n);
    for (size_t i = 0; unit != 1 && i < n; i++) {
        x[i] *= unit;
    }
}

void at_flash_clear(const at_tensor *t, int64_t b, int64_t h, int64_t from)
{
    size_t bytes = (size_t)t->shape[3] * at_dtype_size(t->dtype);
    for (int64_t s = from; t->start == NULL && s < t->shape[2]; s++) {
        memset(at_tensor_at(t, b, h, s, 0), 0, bytes);
    }
}

int at_flash_keys_in_tile(const at_flash_run *run, int64_t b, int tile)
{
    int64_t left = run->p->len_kv[b] - (int64_t)tile * run->engine.tile;
    return left < run->engine.tile && !run->fault.pad_scored ? (int)left : run->engine.tile;
}
