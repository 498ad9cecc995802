/* `cpu.naive`: unfused attention, three loops. S, P, dP and dS pass through the inputs' type, as
 * they do in a framework that keeps each as a tensor. Dot products are summed in f32, everything
 * else in f64: an f32 sum of many equal terms drifts, and no matrix library sums one by one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/clones.h"
#include "kernels/kernels.h"

/* One (batch, head) at a time. */
typedef struct naive_work {
    double *o, *dq, *dk, *dv;  /* sums: rows [dim_v] [dim_qk], heads [len_kv dim] */
    float *q, *d_o, *line;     /* rows: [dim_qk] [dim_v] [dim_qk + dim_v] */
    float *k, *v;              /* [len_kv dim] of the head at hand */
    float *s, *p, *dp, *slope; /* rows: [len_kv] */
    float *typed;              /* [len_kv], holds values of the inputs' type */
    void *memory;              /* what all of the above is cut from */
} naive_work;

typedef struct naive_heads {
    int64_t batch, first, count; /* query heads that share K and V heads with nobody else */
} naive_heads;

AT_CLONES static float dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

AT_CLONES static void add_scaled(double *out, float factor, const float *in, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        out[i] += (double)factor * (double)in[i];
    }
}

static void work_close(naive_work *w)
{
    free(w->memory);
}

static at_status work_open(naive_work *w, const at_case *c, at_error *err)
{
    size_t dim_qk = (size_t)c->dim_qk, dim_v = (size_t)c->dim_v, keys = (size_t)c->len_kv;
    struct {
        double **part;
        size_t n;
    } sums[] = {{&w->o, dim_v}, {&w->dq, dim_qk}, {&w->dk, keys * dim_qk}, {&w->dv, keys * dim_v}};
    struct {
        float **part;
        size_t n;
    } parts[] = {{&w->q, dim_qk},        {&w->d_o, dim_v},      {&w->line, dim_qk + dim_v},
                 {&w->k, keys * dim_qk}, {&w->v, keys * dim_v}, {&w->s, keys},
                 {&w->p, keys},          {&w->dp, keys},        {&w->slope, keys},
                 {&w->typed, keys}};
    size_t floats = 0, doubles = 0;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        doubles += sums[i].n;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        floats += parts[i].n;
    }
    size_t bytes = doubles * sizeof(double) + floats * sizeof(float);
    double *next = w->memory = calloc(bytes + 1, 1);
    if (next == NULL) {
        return at_fail(err, AT_NO_MEMORY, "cpu.naive: no memory for %zu bytes", bytes);
    }
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        *sums[i].part = next;
        next += sums[i].n;
    }
    float *next_float = (float *)(void *)next;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].part = next_float;
        next_float += parts[i].n;
    }
    return AT_OK;
}

/* Rounds a row of sums to the tensor's type. */
static void store_sums(const at_tensor *t, const naive_work *w, int64_t b, int64_t h, int64_t s,
                       const double *sums)
{
    for (int64_t d = 0; d < t->shape[3]; d++) {
        w->line[d] = (float)sums[d];
    }
    at_tensor_store_row_float(t, b, h, s, w->line);
}

/* Stores a row in the inputs' type and reads it back. */
static void pass_through(const naive_work *w, at_dtype dtype, float *row, int64_t n)
{
    at_dtype_store_float(dtype, w->typed, row, (size_t)n);
    at_dtype_load_float(dtype, row, w->typed, (size_t)n);
}

static void load_heads(const at_tensor *t, int64_t b, int64_t h, int64_t rows, float *out)
{
    for (int64_t s = 0; s < rows; s++) {
        at_tensor_load_row_float(t, b, h, s, out + s * t->shape[3]);
    }
}

/* S and P of one row over keys first..last; `slope` gets dS/d(scale q.k), the softcap's derivative.
 * Returns LSE, -Inf for a row without keys. */
static double softmax_row(const at_problem *p, const naive_work *w, int64_t first, int64_t last)
{
    const at_case *c = &p->c;
    at_dtype dtype = (at_dtype)c->dtype;
    int64_t n = last - first + 1;
    float scale = (float)p->scale, cap = (float)c->softcap, max = -HUGE_VALF;
    if (n <= 0) {
        return -HUGE_VAL;
    }
    for (int64_t j = 0; j < n; j++) {
        w->s[j] = scale * dot(w->q, w->k + (first + j) * c->dim_qk, c->dim_qk);
        w->slope[j] = 1;
        if (cap > 0) {
            float grow = coshf(w->s[j] / cap);
            w->slope[j] = 1 / (grow * grow);
            w->s[j] = cap * tanhf(w->s[j] / cap);
        }
    }
    pass_through(w, dtype, w->s, n);
    for (int64_t j = 0; j < n; j++) {
        max = fmaxf(max, w->s[j]);
    }
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        w->p[j] = expf(w->s[j] - max);
        sum += (double)w->p[j];
    }
    for (int64_t j = 0; j < n; j++) {
        w->p[j] /= (float)sum;
    }
    pass_through(w, dtype, w->p, n);
    return (double)max + log(sum);
}

static void forward_row(const at_problem *p, const naive_work *w, int64_t b, int64_t h, int64_t i)
{
    const at_case *c = &p->c;
    int64_t first = 0, last = -1;
    at_problem_keys(p, b, i, &first, &last);
    at_tensor_load_row_float(&p->t[AT_Q], b, h, i, w->q);
    double lse = softmax_row(p, w, first, last);
    for (int64_t d = 0; d < c->dim_v; d++) {
        w->o[d] = 0;
    }
    for (int64_t j = first; j <= last; j++) {
        add_scaled(w->o, w->p[j - first], w->v + j * c->dim_v, c->dim_v);
    }
    store_sums(&p->t[AT_O], w, b, h, i, w->o);
    if (p->t[AT_LSE].data != NULL) {
        at_tensor_set(&p->t[AT_LSE], b, h, i, 0, lse);
    }
}

/* Rows past the length of a sequence hold 0; packed sequences have no such rows. */
static void clear_rows(const at_tensor *t, int64_t b, int64_t h, int64_t from)
{
    for (int64_t s = from; t->start == NULL && s < t->shape[2]; s++) {
        for (int64_t d = 0; d < t->shape[3]; d++) {
            at_tensor_set(t, b, h, s, d, 0);
        }
    }
}

static void forward_head(const at_problem *p, const naive_work *w, int64_t b, int64_t h)
{
    const at_case *c = &p->c;
    load_heads(&p->t[AT_K], b, h / (c->heads_q / c->heads_kv), p->len_kv[b], w->k);
    load_heads(&p->t[AT_V], b, h / (c->heads_q / c->heads_v), p->len_kv[b], w->v);
    for (int64_t i = 0; i < p->len_q[b]; i++) {
        forward_row(p, w, b, h, i);
    }
    clear_rows(&p->t[AT_O], b, h, p->len_q[b]);
    for (int64_t i = p->len_q[b]; p->t[AT_LSE].data != NULL && i < c->len_q; i++) {
        at_tensor_set(&p->t[AT_LSE], b, h, i, 0, -HUGE_VAL);
    }
}

/* Adds the row's share to dk and dv of the heads at hand and stores dq. D = sum P dP. */
static void backward_row(const at_problem *p, const naive_work *w, int64_t b, int64_t h, int64_t i)
{
    const at_case *c = &p->c;
    int64_t first = 0, last = -1;
    at_problem_keys(p, b, i, &first, &last);
    int64_t n = last - first + 1;
    at_tensor_load_row_float(&p->t[AT_Q], b, h, i, w->q);
    at_tensor_load_row_float(&p->t[AT_DO], b, h, i, w->d_o);
    (void)softmax_row(p, w, first, last);
    for (int64_t j = 0; j < n; j++) {
        w->dp[j] = dot(w->d_o, w->v + (first + j) * c->dim_v, c->dim_v);
    }
    pass_through(w, (at_dtype)c->dtype, w->dp, n > 0 ? n : 0);
    double d = 0;
    for (int64_t j = 0; j < n; j++) {
        d += (double)w->p[j] * (double)w->dp[j];
        add_scaled(w->dv + (first + j) * c->dim_v, w->p[j], w->d_o, c->dim_v);
    }
    for (int64_t j = 0; j < n; j++) {
        w->s[j] = w->p[j] * (w->dp[j] - (float)d) * w->slope[j];
    }
    pass_through(w, (at_dtype)c->dtype, w->s, n > 0 ? n : 0);
    for (int64_t e = 0; e < c->dim_qk; e++) {
        w->dq[e] = 0;
    }
    for (int64_t j = 0; j < n; j++) {
        float ds = w->s[j] * (float)p->scale;
        add_scaled(w->dq, ds, w->k + (first + j) * c->dim_qk, c->dim_qk);
        add_scaled(w->dk + (first + j) * c->dim_qk, ds, w->q, c->dim_qk);
    }
    store_sums(&p->t[AT_DQ], w, b, h, i, w->dq);
}

/* Stores the summed gradient of a K or V head and starts the next one at 0. */
static void finish_head(const at_tensor *t, const naive_work *w, int64_t b, int64_t h, int64_t rows,
                        double *sum)
{
    for (int64_t s = 0; s < rows; s++) {
        store_sums(t, w, b, h, s, sum + s * t->shape[3]);
    }
    for (int64_t i = 0; i < rows * t->shape[3]; i++) {
        sum[i] = 0;
    }
    clear_rows(t, b, h, rows);
}

static void backward_heads(const at_problem *p, const naive_work *w, naive_heads heads)
{
    const at_case *c = &p->c;
    int64_t b = heads.batch, group_k = c->heads_q / c->heads_kv, group_v = c->heads_q / c->heads_v;
    for (int64_t h = heads.first; h < heads.first + heads.count; h++) {
        load_heads(&p->t[AT_K], b, h / group_k, p->len_kv[b], w->k);
        load_heads(&p->t[AT_V], b, h / group_v, p->len_kv[b], w->v);
        for (int64_t i = 0; i < p->len_q[b]; i++) {
            backward_row(p, w, b, h, i);
        }
        clear_rows(&p->t[AT_DQ], b, h, p->len_q[b]);
        if ((h + 1) % group_k == 0) {
            finish_head(&p->t[AT_DK], w, b, h / group_k, p->len_kv[b], w->dk);
        }
        if ((h + 1) % group_v == 0) {
            finish_head(&p->t[AT_DV], w, b, h / group_v, p->len_kv[b], w->dv);
        }
    }
}

/* One thread's share: every items-th of the (batch, heads) items. */
static at_status run_items(const at_problem *p, bool backward, int64_t count, int64_t items,
                           at_error *err)
{
    at_status status = AT_OK;
    int64_t heads = p->c.heads_q / items;
    bool large = p->c.len_q * p->c.len_kv * p->c.dim_qk > 1000000;
#pragma omp parallel if (large && count > 1)
    {
        naive_work w = {0};
        at_error mine;
        at_status opened = work_open(&w, &p->c, &mine);
        if (opened != AT_OK) {
#pragma omp critical(cpu_naive)
            {
                status = at_fail(err, opened, "%s", mine.text);
            }
        }
#pragma omp for schedule(dynamic)
        for (int64_t n = 0; n < count; n++) {
            if (opened == AT_OK && backward) {
                backward_heads(p, &w, (naive_heads){n / items, n % items * heads, heads});
            } else if (opened == AT_OK) {
                forward_head(p, &w, n / items, n % items);
            }
        }
        work_close(&w);
    }
    return status;
}

static at_status supports(const at_backend *self, const at_case *c, at_reason *why)
{
    (void)self;
    AT_TRY(at_cpu_supports(c, why));
    if (c->splits > 1) {
        (void)snprintf(why->code, sizeof why->code, "splits");
        (void)snprintf(why->text, sizeof why->text,
                       "splits=%lld is not computed by this backend: it never splits the keys",
                       (long long)c->splits);
        return AT_UNSUPPORTED;
    }
    return AT_OK;
}

static at_status open_state(const at_backend *self, void **state, at_error *err)
{
    (void)self, (void)err;
    *state = NULL;
    return AT_OK;
}

static at_status claim(const at_backend *self, void *state, const at_case *c, at_engines *engines,
                       at_reason *why)
{
    (void)state;
    AT_TRY(supports(self, c, why));
    *engines = (at_engines){1, {"loops"}};
    return AT_OK;
}

static at_status forward(const at_backend *self, void *state, const at_problem *p,
                         const char *engine, at_error *err)
{
    (void)self, (void)state, (void)engine;
    return run_items(p, false, p->c.batch * p->c.heads_q, p->c.heads_q, err);
}

static at_status backward(const at_backend *self, void *state, const at_problem *p,
                          const char *engine, at_error *err)
{
    (void)self, (void)state, (void)engine;
    int64_t shared = at_common_divisor(p->c.heads_kv, p->c.heads_v);
    return run_items(p, true, p->c.batch * shared, shared, err);
}

static void close_state(const at_backend *self, void *state)
{
    (void)self, (void)state;
}

const at_backend at_backend_cpu_naive = {
    .name = "cpu.naive",
    .version = "1.0.0",
    .promises = AT_PROMISES_BACKWARD | AT_PROMISES_STATS | AT_PROMISES_DETERMINISM,
    .arch = AT_ARCH_CPU,
    .numeric = {.p = AT_P_STORED, .scores_stored = true, .d_from_p = true},
    .contract = {.pad = AT_PAD_ZERO},
    .doc = "unfused attention, three loops; S, P and dP stored in the inputs' type",
    .supports = supports,
    .open = open_state,
    .claim = claim,
    .forward = forward,
    .backward = backward,
    .close = close_state,
};
