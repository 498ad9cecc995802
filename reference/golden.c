#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/golden.h"

#include <string.h>

#include "reference/gold.h"
#include "reference/gold_bias.h"
#include "reference/golden_row.h"

typedef struct golden {
    const at_problem *p;
    at_gold *gold;
    at_noise_type types[AT_TENSOR_COUNT];
    at_noise m;
    at_score score;
    at_golden_row row;
    double *k, *v;                   /* [len_kv dim] of the head at hand */
    double *seen;                    /* [len_kv] rows of the sequence that see the key by window */
    at_noise_sum *sum;               /* [dim] of dQ */
    double *mass;                    /* [dim] of sum p slope K */
    at_noise_sum *dk, *dv;           /* [heads len_kv dim] of the sequence */
    at_noise_sum *dk_head, *dv_head; /* [len_kv dim] of the query head at hand */
    at_noise_sum *sink;              /* [heads_q] */
    at_gold_bias bias;
    double rows; /* live rows of all sequences */
} golden;

static at_status open_buffers(golden *g, at_arena *arena, at_error *err)
{
    const at_case *c = &g->p->c;
    const size_t one = sizeof(double), sum = sizeof(at_noise_sum);
    int64_t n_k = c->len_kv * c->dim_qk, n_v = c->len_kv * c->dim_v;
    AT_TRY(at_golden_row_open(&g->row, g->p, &g->m, &g->score, arena, err));
    AT_TRY(at_gold_take(&g->mass, arena, c->dim_qk, one, err));
    AT_TRY(at_gold_take(&g->k, arena, n_k, one, err));
    AT_TRY(at_gold_take(&g->v, arena, n_v, one, err));
    AT_TRY(at_gold_take(&g->seen, arena, c->len_kv, one, err));
    AT_TRY(at_gold_take(&g->sum, arena, c->dim_qk, sum, err));
    AT_TRY(at_gold_take(&g->dk, arena, c->heads_kv * n_k, sum, err));
    AT_TRY(at_gold_take(&g->dv, arena, c->heads_v * n_v, sum, err));
    AT_TRY(at_gold_take(&g->dk_head, arena, n_k, sum, err));
    AT_TRY(at_gold_take(&g->dv_head, arena, n_v, sum, err));
    AT_TRY(at_gold_take(&g->sink, arena, c->heads_q, sum, err));
    g->row.k = g->k;
    g->row.v = g->v;
    return at_gold_bias_open(&g->bias, g->gold, g->p, &g->m, arena, err);
}

static void put(const golden *g, at_tensor_id id, int64_t e, const at_noise_sum *sum)
{
    at_gold_tensor *t = &g->gold->t[id];
    t->ref[e] = at_noise_stored(&g->m.out[id], sum->ref);
    if (t->bound != NULL) {
        at_noise_finish(sum, &g->m.out[id], &t->bound[e], &t->sigma[e]);
    }
}

static void lse_row(golden *g, int64_t index)
{
    at_gold_tensor *t = &g->gold->t[AT_LSE];
    t->ref[index] = g->row.row.lse_out * g->m.lse_factor;
    if (t->bound != NULL) {
        at_noise_lse(&g->m, &g->row.row, g->row.linear, &t->bound[index], &t->sigma[index]);
    }
}

/* Error scale of O = (P drop) V of one row. */
static void output_row(golden *g, int64_t index)
{
    const at_row *row = &g->row.row;
    int64_t dim = g->p->c.dim_v;
    for (int64_t d = 0; d < dim; d++) {
        at_noise_sum sum = {.ref = g->row.o[d], .flat = row->flat_p};
        for (int64_t j = g->row.first; j <= g->row.last; j++) {
            const at_pair *x = &g->row.pairs[j];
            if (!x->live) {
                continue;
            }
            double v = g->v[j * dim + d], away = x->keep * v - sum.ref;
            at_noise_p n = at_noise_of_p(&g->m, x->p, x->x, row->keys);
            sum.a += n.a * fabs(x->keep * v);
            sum.c += n.c * at_noise_square(x->keep * v) + n.w * away * away;
        }
        sum.c += at_noise_total_var(&g->m, row->keys, sum.ref, 0) +
                 (row->sum_var + row->flat_var) * sum.ref * sum.ref;
        put(g, AT_O, index * dim + d, &sum);
    }
}

/* dQ = scale dS K of one row. */
static void dq_row(golden *g, int64_t index)
{
    const at_row *row = &g->row.row;
    int64_t dim = g->p->c.dim_qk;
    double scale = g->p->scale;
    memset(g->sum, 0, (size_t)dim * sizeof g->sum[0]);
    memset(g->mass, 0, (size_t)dim * sizeof g->mass[0]);
    for (int64_t j = g->row.first; j <= g->row.last; j++) {
        const at_pair *x = &g->row.pairs[j];
        if (!x->live) {
            continue;
        }
        at_noise_ds n = at_golden_ds(&g->row, x, row->keys);
        double slope = at_noise_slope_most(&g->m, x->capped, x->x);
        for (int64_t d = 0; d < dim; d++) {
            double y = scale * g->k[j * dim + d];
            g->sum[d].ref += n.ds * y;
            g->sum[d].a += n.a * fabs(y);
            g->sum[d].c += n.c * y * y;
            g->mass[d] += x->p * slope * y;
        }
    }
    for (int64_t d = 0; d < dim; d++) {
        at_noise_sum *sum = &g->sum[d];
        sum->c += row->d_var * g->mass[d] * g->mass[d] + row->common_var * sum->ref * sum->ref +
                  at_noise_total_var(&g->m, row->keys, sum->ref, scale);
        put(g, AT_DQ, index * dim + d, sum);
    }
}

/* What one key of the row adds to dV = (P drop)^T dO of its query head. */
static void dv_pair(golden *g, int64_t j, double n_rows)
{
    const at_case *c = &g->p->c;
    const at_pair *x = &g->row.pairs[j];
    double p = x->p * x->keep, p_error = at_noise_p_error(&g->m, x->p) * x->keep;
    at_noise_p n = at_noise_of_p(&g->m, x->p, x->x, n_rows);
    for (int64_t d = 0; d < c->dim_v; d++) {
        at_noise_sum *sum = &g->dv_head[j * c->dim_v + d];
        double y = g->row.dout[d], kept = x->keep * y;
        sum->ref += p * y;
        sum->known += p_error * y;
        sum->a += n.a * fabs(kept);
        sum->c += (n.c + n.w + x->p * x->p * g->row.row.p_var) * kept * kept;
    }
}

/* What one key of the row adds to dK = scale dS^T Q of its query head. */
static void dk_pair(golden *g, int64_t j, double n_rows)
{
    const at_case *c = &g->p->c;
    const at_pair *x = &g->row.pairs[j];
    const at_row *row = &g->row.row;
    double slope = at_noise_slope_most(&g->m, x->capped, x->x),
           p_error = at_noise_p_error(&g->m, x->p);
    at_noise_ds s = at_golden_ds(&g->row, x, n_rows);
    double ds_error = at_noise_ds_error(&g->m, row, x->p, p_error, slope, x->dp);
    double common = at_noise_of_row(row, x->p, slope, s.ds);
    for (int64_t d = 0; d < c->dim_qk; d++) {
        at_noise_sum *sum = &g->dk_head[j * c->dim_qk + d];
        double y = g->p->scale * g->row.q[d];
        sum->ref += s.ds * y;
        sum->known += ds_error * y;
        sum->a += s.a * fabs(y);
        sum->c += (s.c + common) * y * y;
    }
}

static void backward_row(golden *g, int64_t index)
{
    const at_case *c = &g->p->c;
    double group_k = (double)(c->heads_q / c->heads_kv);
    double group_v = (double)(c->heads_q / c->heads_v);
    at_golden_backward(&g->row);
    dq_row(g, index);
    for (int64_t j = g->row.first; j <= g->row.last; j++) {
        if (g->row.pairs[j].live) {
            dv_pair(g, j, group_v * g->seen[j]);
            dk_pair(g, j, group_k * g->seen[j]);
        }
    }
    if (g->score.sink) {
        at_noise_add_sink(&g->m, &g->sink[g->row.h], &g->row.row, g->rows);
    }
    if (g->bias.sums != NULL) {
        at_gold_bias_add(&g->bias, &g->row);
    }
}

static void dead_row(golden *g, int64_t index)
{
    static const at_tensor_id side[] = {AT_O, AT_LSE, AT_DQ};
    for (int i = 0; i < 3; i++) {
        at_gold_tensor *t = &g->gold->t[side[i]];
        if (t->rows > 0 && side[i] == AT_LSE) {
            lse_row(g, index);
            t->dead[index] = t->ref[index] == -HUGE_VAL;
            if (t->dead[index] && t->bound != NULL) {
                t->bound[index] = t->sigma[index] = 0;
            }
        } else if (t->rows > 0) {
            t->dead[index] = true;
        }
    }
}

static void run_row(golden *g, int64_t b, int64_t h, int64_t i, int64_t index)
{
    if (!at_golden_forward(&g->row, b, h, i)) {
        dead_row(g, index);
        return;
    }
    if (at_gold_makes(&g->p->c, AT_LSE)) {
        lse_row(g, index);
    }
    output_row(g, index);
    if (g->p->c.pass == AT_PASS_TRAIN) {
        backward_row(g, index);
    }
}

/* Adds a query head's gradients to its group's, each rounded before the sum where the class says.
 */
static void add_head(const golden *g, at_tensor_id id, at_noise_sum *group, at_noise_sum *head,
                     int64_t n)
{
    const at_noise_type *type = &g->m.out[id];
    for (int64_t e = 0; e < n; e++) {
        double rounding = g->m.head_rounded ? at_noise_rho(type, head[e].ref) : 0;
        group[e].ref += head[e].ref;
        group[e].squares += head[e].ref * head[e].ref;
        group[e].known += head[e].known;
        group[e].a += head[e].a + rounding;
        group[e].c += head[e].c + AT_NOISE_TERM * rounding * rounding;
    }
    memset(head, 0, (size_t)n * sizeof head[0]);
}

static void put_columns(golden *g, at_tensor_id id, int64_t b, at_noise_sum *sums, double unit)
{
    int64_t heads = at_gold_heads(&g->p->c, id), len = g->p->len_kv[b], dim = g->gold->t[id].dim;
    double group = (double)(g->p->c.heads_q / heads);
    int64_t first = at_gold_first(g->p, id, b, 0);
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t j = 0; j < len; j++) {
            for (int64_t d = 0; d < dim; d++) {
                at_noise_sum *sum = &sums[(h * len + j) * dim + d];
                sum->c += at_noise_total_var(&g->m, group * g->seen[j], sum->ref, unit) +
                          at_noise_heads_var(group * g->seen[j], sum->squares, sum->ref, group);
                put(g, id, (first + h * len + j) * dim + d, sum);
            }
        }
    }
}

static void put_sinks(golden *g)
{
    for (int64_t h = 0; h < g->gold->t[AT_DSINK].rows; h++) {
        at_noise_sum *sum = &g->sink[h];
        sum->c += at_noise_total_var(&g->m, g->rows, sum->ref, 0);
        put(g, AT_DSINK, h, sum);
    }
}

static void count_seen(golden *g, int64_t b)
{
    memset(g->seen, 0, (size_t)g->p->c.len_kv * sizeof g->seen[0]);
    for (int64_t i = 0; i < g->p->len_q[b]; i++) {
        int64_t first = 0, last = -1;
        at_problem_keys(g->p, b, i, &first, &last);
        for (int64_t j = first; j <= last; j++) {
            g->seen[j] += 1;
        }
    }
}

static void run_sequence(golden *g, int64_t b)
{
    const at_problem *p = g->p;
    const at_case *c = &p->c;
    int64_t len_q = p->len_q[b], len = p->len_kv[b];
    bool train = c->pass == AT_PASS_TRAIN;
    count_seen(g, b);
    memset(g->dk, 0, (size_t)(c->heads_kv * len * c->dim_qk) * sizeof g->dk[0]);
    memset(g->dv, 0, (size_t)(c->heads_v * len * c->dim_v) * sizeof g->dv[0]);
    for (int64_t h = 0; h < c->heads_q; h++) {
        int64_t h_k = h / (c->heads_q / c->heads_kv), h_v = h / (c->heads_q / c->heads_v);
        at_golden_load(g->k, g->v, p, b, h);
        int64_t index = at_gold_first(p, AT_O, b, h);
        for (int64_t i = 0; i < len_q; i++) {
            run_row(g, b, h, i, index + i);
        }
        if (train) {
            add_head(g, AT_DK, g->dk + h_k * len * c->dim_qk, g->dk_head, len * c->dim_qk);
            add_head(g, AT_DV, g->dv + h_v * len * c->dim_v, g->dv_head, len * c->dim_v);
        }
    }
    if (train) {
        put_columns(g, AT_DK, b, g->dk, p->scale);
        put_columns(g, AT_DV, b, g->dv, 0);
    }
}

at_status at_golden_run(at_gold *out, const at_problem *p, const at_reference_options *options,
                        at_arena *arena, at_error *err)
{
    golden g = {.p = p, .gold = out};
    at_noise_init(&g.m, g.types, p, &options->numeric);
    at_score_init(&g.score, p, &options->numeric.variant);
    AT_TRY(at_gold_open_all(out, p, options->no_scale, arena, err));
    AT_TRY(open_buffers(&g, arena, err));
    for (int64_t b = 0; b < p->c.batch; b++) {
        g.rows += (double)p->len_q[b];
    }
    for (int64_t b = 0; b < p->c.batch; b++) {
        run_sequence(&g, b);
    }
    put_sinks(&g);
    at_gold_bias_put(&g.bias);
    out->path = "golden";
    return AT_OK;
}
