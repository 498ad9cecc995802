/* `cpu.naive`: unfused attention, three loops. S, P, dP and dS pass through the inputs' type, as
 * they do in a framework that keeps each as a tensor; with fp8 inputs they stay in f32, since no
 * framework keeps scores in 8 bits. Dot products are summed in f32, everything else in f64: an f32
 * sum of many equal terms drifts, and no matrix library sums one by one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cpu_naive_row.h"
#include "kernels/kernels.h"

typedef struct naive_heads {
    int64_t batch, first, count; /* query heads that share K and V heads with nobody else */
} naive_heads;

static void work_close(at_naive_work *w)
{
    free(w->memory);
}

static at_status work_open(at_naive_work *w, const at_case *c, at_error *err)
{
    size_t dim_qk = (size_t)c->dim_qk, dim_v = (size_t)c->dim_v, keys = (size_t)c->len_kv;
    struct {
        double **part;
        size_t n;
    } sums[] = {{&w->o, dim_v},
                {&w->dq, dim_qk},
                {&w->dk, keys * dim_qk},
                {&w->dv, keys * dim_v},
                {&w->group_dk, keys * dim_qk},
                {&w->group_dv, keys * dim_v}};
    struct {
        float **part;
        size_t n;
    } parts[] = {{&w->q, dim_qk},        {&w->d_o, dim_v},      {&w->line, dim_qk + dim_v},
                 {&w->k, keys * dim_qk}, {&w->v, keys * dim_v}, {&w->s, keys},
                 {&w->p, keys},          {&w->dp, keys},        {&w->slope, keys},
                 {&w->add, keys},        {&w->keep, keys},      {&w->typed, keys}};
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

/* Rows past the length of a sequence hold 0; packed sequences have no such rows. */
static void clear_rows(const at_tensor *t, int64_t b, int64_t h, int64_t from)
{
    for (int64_t s = from; t->start == NULL && s < t->shape[2]; s++) {
        for (int64_t d = 0; d < t->shape[3]; d++) {
            at_tensor_set(t, b, h, s, d, 0);
        }
    }
}

static double sink_of(const at_problem *p, int64_t h)
{
    return p->c.sink == AT_SINK_NONE   ? -HUGE_VAL
           : p->c.sink == AT_SINK_OFF1 ? 0
                                       : at_tensor_get(&p->t[AT_SINK], 0, h, 0, 0);
}

static void forward_head(at_naive_work *w, int64_t b, int64_t h)
{
    const at_problem *p = w->problem;
    const at_case *c = &p->c;
    at_naive_load_heads(w, AT_K, b, h / (c->heads_q / c->heads_kv), w->k);
    at_naive_load_heads(w, AT_V, b, h / (c->heads_q / c->heads_v), w->v);
    w->sink = sink_of(p, h);
    for (int64_t i = 0; i < p->len_q[b]; i++) {
        at_naive_forward_row(w, b, h, i);
    }
    clear_rows(&p->t[AT_O], b, h, p->len_q[b]);
    for (int64_t i = p->len_q[b]; p->t[AT_LSE].data != NULL && i < c->len_q; i++) {
        at_tensor_set(&p->t[AT_LSE], b, h, i, 0, -HUGE_VAL);
    }
}

/* Adds a query head's gradient to its group's, rounded before the sum where the class says so, and
 * starts the next head at 0. */
static void add_to_group(const at_naive_work *w, at_tensor_id id, int64_t b, double *head,
                         double *group)
{
    const at_tensor *t = &w->problem->t[id];
    double unit = (double)w->problem->unit[id];
    for (int64_t e = 0; e < w->problem->len_kv[b] * t->shape[3]; e++) {
        bool round = w->numeric.head_rounded;
        group[e] += round ? at_dtype_round(t->dtype, head[e] / unit) * unit : head[e];
        head[e] = 0;
    }
}

/* Stores the summed gradient of a K or V head and starts the next one at 0. */
static void finish_group(const at_naive_work *w, at_tensor_id id, int64_t b, int64_t h, double *sum)
{
    const at_tensor *t = &w->problem->t[id];
    int64_t rows = w->problem->len_kv[b];
    for (int64_t s = 0; s < rows; s++) {
        at_naive_store_sums(id, w, b, h, s, sum + s * t->shape[3]);
    }
    for (int64_t e = 0; e < rows * t->shape[3]; e++) {
        sum[e] = 0;
    }
    clear_rows(t, b, h, rows);
}

static void backward_heads(at_naive_work *w, naive_heads heads)
{
    const at_problem *p = w->problem;
    const at_case *c = &p->c;
    int64_t b = heads.batch, group_k = c->heads_q / c->heads_kv, group_v = c->heads_q / c->heads_v;
    for (int64_t h = heads.first; h < heads.first + heads.count; h++) {
        at_naive_load_heads(w, AT_K, b, h / group_k, w->k);
        at_naive_load_heads(w, AT_V, b, h / group_v, w->v);
        w->sink = sink_of(p, h);
        for (int64_t i = 0; i < p->len_q[b]; i++) {
            at_naive_backward_row(w, b, h, i);
        }
        clear_rows(&p->t[AT_DQ], b, h, p->len_q[b]);
        add_to_group(w, AT_DK, b, w->dk, w->group_dk);
        add_to_group(w, AT_DV, b, w->dv, w->group_dv);
        if ((h + 1) % group_k == 0) {
            finish_group(w, AT_DK, b, h / group_k, w->group_dk);
        }
        if ((h + 1) % group_v == 0) {
            finish_group(w, AT_DV, b, h / group_v, w->group_dv);
        }
    }
}

static int64_t elements_of(const at_tensor *t)
{
    return t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
}

/* Sums that rows of all sequences and heads add to. */
static at_status open_side_gradients(at_naive_work *shared, at_error *err)
{
    const at_tensor *t = shared->problem->t;
    if (t[AT_DBIAS].data != NULL) {
        shared->dbias = calloc((size_t)elements_of(&t[AT_DBIAS]) + 1, sizeof(double));
    }
    if (t[AT_DSINK].data != NULL) {
        shared->dsink = calloc((size_t)elements_of(&t[AT_DSINK]) + 1, sizeof(double));
    }
    bool made = (shared->dbias != NULL) == (t[AT_DBIAS].data != NULL) &&
                (shared->dsink != NULL) == (t[AT_DSINK].data != NULL);
    return made ? AT_OK : at_fail(err, AT_NO_MEMORY, "cpu.naive: no memory for dbias or dsink");
}

static void close_side_gradients(at_naive_work *shared)
{
    const double *sums[] = {shared->dbias, shared->dsink};
    const at_tensor_id ids[] = {AT_DBIAS, AT_DSINK};
    for (int i = 0; i < 2; i++) {
        const at_tensor *t = &shared->problem->t[ids[i]];
        for (int64_t e = 0; sums[i] != NULL && e < elements_of(t); e++) {
            float x = (float)sums[i][e];
            char *at = (char *)t->data + (size_t)e * at_dtype_size(t->dtype);
            at_dtype_store_float(t->dtype, at, &x, 1);
        }
    }
    free(shared->dbias);
    free(shared->dsink);
}

/* All of the (batch, heads) items, spread over threads where no two of them add to one sum. */
static at_status run_items(const at_naive_work *shared, bool backward, int64_t count, int64_t items,
                           at_error *err)
{
    const at_case *c = &shared->problem->c;
    at_status status = AT_OK;
    int64_t heads = c->heads_q / items;
    bool large = c->len_q * c->len_kv * c->dim_qk > 1000000;
    bool apart = shared->dbias == NULL && shared->dsink == NULL;
#pragma omp parallel if (large && count > 1 && apart)
    {
        at_naive_work w = *shared;
        at_error mine;
        at_status opened = work_open(&w, c, &mine);
        if (opened != AT_OK) {
#pragma omp critical(cpu_naive)
            {
                status = at_fail(err, opened, "%s", mine.text);
            }
        }
#pragma omp for schedule(dynamic)
        for (int64_t n = 0; n < count; n++) {
            if (opened == AT_OK && backward) {
                backward_heads(&w, (naive_heads){n / items, n % items * heads, heads});
            } else if (opened == AT_OK) {
                forward_head(&w, n / items, n % items);
            }
        }
        work_close(&w);
    }
    return status;
}

static at_naive_work start(const at_backend *self, const at_problem *p)
{
    bool fp8 = p->c.dtype == AT_F8E4M3 || p->c.dtype == AT_F8E5M2;
    return (at_naive_work){
        .problem = p, .numeric = self->numeric, .stored = self->numeric.scores_stored && !fp8};
}

at_status at_naive_supports(const at_backend *self, const at_case *c, at_reason *why)
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

at_status at_naive_open(const at_backend *self, void **state, at_error *err)
{
    (void)self, (void)err;
    *state = NULL;
    return AT_OK;
}

at_status at_naive_claim(const at_backend *self, void *state, const at_case *c, at_engines *engines,
                         at_reason *why)
{
    (void)state;
    AT_TRY(at_naive_supports(self, c, why));
    *engines = (at_engines){1, {"loops"}};
    return AT_OK;
}

at_status at_naive_forward(const at_backend *self, void *state, const at_problem *p,
                           const char *engine, at_error *err)
{
    (void)state, (void)engine;
    const at_naive_work shared = start(self, p);
    AT_TRY(run_items(&shared, false, p->c.batch * p->c.heads_q, p->c.heads_q, err));
    at_cpu_hand_out_dropout(p);
    return AT_OK;
}

at_status at_naive_backward(const at_backend *self, void *state, const at_problem *p,
                            const char *engine, at_error *err)
{
    (void)state, (void)engine;
    int64_t items = at_common_divisor(p->c.heads_kv, p->c.heads_v);
    at_naive_work shared = start(self, p);
    at_status status = open_side_gradients(&shared, err);
    if (status == AT_OK) {
        status = run_items(&shared, true, p->c.batch * items, items, err);
    }
    close_side_gradients(&shared);
    return status;
}

void at_naive_close(const at_backend *self, void *state)
{
    (void)self, (void)state;
}

const at_backend at_backend_cpu_naive = {
    .name = "cpu.naive",
    .version = "1.0.0",
    .promises =
        AT_PROMISES_BACKWARD | AT_PROMISES_STATS | AT_PROMISES_DETERMINISM | AT_PROMISES_MASK,
    .arch = AT_ARCH_CPU,
    .numeric = {.p = AT_P_STORED, .scores_stored = true, .d_from_p = true},
    .contract = {.pad = AT_PAD_ZERO},
    .doc = "unfused attention, three loops; S, P and dP stored in the inputs' type",
    .supports = at_naive_supports,
    .open = at_naive_open,
    .claim = at_naive_claim,
    .forward = at_naive_forward,
    .backward = at_naive_backward,
    .close = at_naive_close,
};
