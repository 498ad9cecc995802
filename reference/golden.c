#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/golden.h"

#include <string.h>

#include "reference/gold.h"
#include "reference/noise.h"

/* What one score row holds of key j. */
typedef struct pair {
    double raw, s, squares; /* scale q.k; after the cap; scale^2 sum (q k)^2 */
    double p, x0, x;        /* probability; score noise; the same as a relative one of p */
    double dp, dp_squares;  /* dO.v; sum (dO v)^2 */
} pair;

typedef struct golden {
    const at_problem *p;
    at_gold *gold;
    at_noise m;
    double *q, *dout, *o;            /* [dim] of the row at hand */
    double *k, *v;                   /* [len_kv dim] of the head at hand */
    pair *pairs;                     /* [len_kv] */
    double *seen;                    /* [len_kv] rows of the sequence that see the key */
    at_noise_sum *sum;               /* [dim] of O, then of dQ */
    double *mass;                    /* [dim] of sum p slope K */
    at_noise_sum *dk, *dv;           /* [heads len_kv dim] of the sequence */
    at_noise_sum *dk_head, *dv_head; /* [len_kv dim] of the query head at hand */
} golden;

static at_status open_buffers(golden *g, at_arena *arena, at_error *err)
{
    const at_case *c = &g->p->c;
    const size_t one = sizeof(double), sum = sizeof(at_noise_sum);
    int64_t dim = c->dim_qk > c->dim_v ? c->dim_qk : c->dim_v;
    int64_t n_k = c->len_kv * c->dim_qk, n_v = c->len_kv * c->dim_v;
    AT_TRY(at_gold_take(&g->pairs, arena, c->len_kv, sizeof(pair), err));
    AT_TRY(at_gold_take(&g->q, arena, dim, one, err));
    AT_TRY(at_gold_take(&g->dout, arena, dim, one, err));
    AT_TRY(at_gold_take(&g->o, arena, dim, one, err));
    AT_TRY(at_gold_take(&g->mass, arena, dim, one, err));
    AT_TRY(at_gold_take(&g->k, arena, n_k, one, err));
    AT_TRY(at_gold_take(&g->v, arena, n_v, one, err));
    AT_TRY(at_gold_take(&g->seen, arena, c->len_kv, one, err));
    AT_TRY(at_gold_take(&g->sum, arena, dim, sum, err));
    AT_TRY(at_gold_take(&g->dk, arena, c->heads_kv * n_k, sum, err));
    AT_TRY(at_gold_take(&g->dv, arena, c->heads_v * n_v, sum, err));
    AT_TRY(at_gold_take(&g->dk_head, arena, n_k, sum, err));
    return at_gold_take(&g->dv_head, arena, n_v, sum, err);
}

static void put(at_gold_tensor *t, int64_t row, int64_t d, const at_noise_sum *sum,
                const at_noise_type *type)
{
    int64_t e = row * t->dim + d;
    t->ref[e] = sum->ref;
    if (t->bound != NULL) {
        at_noise_finish(sum, type, &t->bound[e], &t->sigma[e]);
    }
}

/* S of one row: raw, capped, and the sums of squares behind its noise. */
static void score_row(golden *g, int64_t first, int64_t last)
{
    int64_t dim = g->p->c.dim_qk;
    for (int64_t j = first; j <= last; j++) {
        double dot = 0, squares = 0;
        for (int64_t d = 0; d < dim; d++) {
            double x = g->q[d] * g->k[j * dim + d];
            dot += x;
            squares += x * x;
        }
        double raw = g->p->scale * dot;
        g->pairs[j] = (pair){.raw = raw,
                             .s = at_noise_cap(&g->m, raw),
                             .squares = g->p->scale * g->p->scale * squares};
    }
}

/* P and LSE of one row; *linear is what the bound of LSE needs. */
static at_row softmax_row(golden *g, int64_t first, int64_t last, double *linear)
{
    at_row row = {.max = g->pairs[first].s, .keys = (double)(last - first + 1)};
    for (int64_t j = first; j <= last; j++) {
        row.max = fmax(row.max, g->pairs[j].s);
    }
    double sum = 0;
    at_noise_p_sums sums = {0};
    for (int64_t j = first; j <= last; j++) {
        sum += exp(g->pairs[j].s - row.max);
    }
    row.inv_sum = 1 / sum;
    row.lse = row.max + log(sum);
    for (int64_t j = first; j <= last; j++) {
        pair *x = &g->pairs[j];
        x->p = exp(x->s - row.max) * row.inv_sum;
        x->x0 = at_noise_score(&g->m, x->raw, x->s, x->squares, row.lse);
        x->x = at_noise_exp(x->x0);
        double t = x->s - row.max;
        sums.linear += x->p * x->x0;
        sums.squares += at_noise_square(x->p * x->x0);
        sums.pp += x->p * x->p;
        sums.t += x->p * t;
        sums.tt += x->p * t * t;
    }
    at_noise_row(&g->m, &row, &sums);
    *linear = sums.linear;
    return row;
}

static void lse_row(golden *g, int64_t index, double linear, const at_row *row)
{
    at_gold_tensor *t = &g->gold->t[AT_LSE];
    t->ref[index] = row->lse;
    if (t->bound != NULL) {
        at_noise_lse(&g->m, row, linear, &t->bound[index], &t->sigma[index]);
    }
}

/* O = P V of one row. */
static void output_row(golden *g, int64_t index, int64_t first, int64_t last, const at_row *row)
{
    int64_t dim = g->p->c.dim_v;
    for (int64_t d = 0; d < dim; d++) {
        at_noise_sum sum = {.flat = row->flat_p};
        for (int64_t j = first; j <= last; j++) {
            sum.ref += g->pairs[j].p * g->v[j * dim + d];
        }
        g->o[d] = sum.ref;
        for (int64_t j = first; j <= last; j++) {
            double v = g->v[j * dim + d], away = v - sum.ref;
            at_noise_p n = at_noise_of_p(&g->m, g->pairs[j].p, g->pairs[j].x, row->keys);
            sum.a += n.a * fabs(v);
            sum.c += n.c * v * v + n.w * away * away;
        }
        sum.c += at_noise_total_var(&g->m, row->keys, sum.ref, 0) +
                 (row->sum_var + row->flat_var) * sum.ref * sum.ref;
        put(&g->gold->t[AT_O], index, d, &sum, &g->m.o);
    }
}

/* dP and D of one row. */
static void dp_row(golden *g, int64_t first, int64_t last, at_row *row)
{
    int64_t dim = g->p->c.dim_v;
    at_noise_d sums = {0};
    for (int64_t d = 0; d < dim; d++) {
        row->d += g->dout[d] * g->o[d];
        row->d_round += g->dout[d] * (at_noise_round(&g->m.o, g->o[d]) - g->o[d]);
        at_noise_add_output(&g->m, &sums, g->dout[d], g->o[d], row->keys);
    }
    for (int64_t j = first; j <= last; j++) {
        pair *x = &g->pairs[j];
        for (int64_t d = 0; d < dim; d++) {
            double y = g->dout[d] * g->v[j * dim + d];
            x->dp += y;
            x->dp_squares += y * y;
        }
        double own = at_noise_dp(&g->m, x->dp, x->dp_squares, row->d);
        double chain = g->m.d_from_p ? x->dp * x->dp : x->dp_squares;
        sums.rounded += at_noise_square(at_noise_rho(&g->m, x->p) * x->dp);
        sums.score += at_noise_square(x->p * (x->dp - row->d) * x->x);
        sums.chain += x->p * x->p * chain;
        sums.stored += at_noise_square(x->p * g->m.u_s * x->dp);
        sums.own += at_noise_square(x->p * own);
    }
    row->d_round = g->m.d_from_p ? 0 : row->d_round;
    row->d_var = at_noise_d_var(&g->m, row, &sums);
}

static at_noise_ds ds_of(const golden *g, const pair *x, const at_row *row, double n)
{
    double own = at_noise_dp(&g->m, x->dp, x->dp_squares, row->d);
    return at_noise_of_ds(&g->m, row, x->p, x->s, x->x, x->dp, own, n);
}

/* dQ = scale dS K of one row. */
static void dq_row(golden *g, int64_t index, int64_t first, int64_t last, const at_row *row)
{
    int64_t dim = g->p->c.dim_qk;
    double scale = g->p->scale;
    memset(g->sum, 0, (size_t)dim * sizeof g->sum[0]);
    memset(g->mass, 0, (size_t)dim * sizeof g->mass[0]);
    for (int64_t j = first; j <= last; j++) {
        const pair *x = &g->pairs[j];
        at_noise_ds n = ds_of(g, x, row, row->keys);
        double slope = at_noise_slope_most(&g->m, x->s, x->x);
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
        put(&g->gold->t[AT_DQ], index, d, sum, &g->m.in);
    }
}

/* What one row adds to dV = P^T dO and dK = scale dS^T Q of its query head. */
static void dkv_row(golden *g, int64_t first, int64_t last, const at_row *row)
{
    const at_case *c = &g->p->c;
    double group_k = (double)(c->heads_q / c->heads_kv),
           group_v = (double)(c->heads_q / c->heads_v);
    for (int64_t j = first; j <= last; j++) {
        const pair *x = &g->pairs[j];
        at_noise_p n = at_noise_of_p(&g->m, x->p, x->x, group_v * g->seen[j]);
        double p_error = at_noise_p_error(&g->m, x->p);
        for (int64_t d = 0; d < c->dim_v; d++) {
            at_noise_sum *sum = &g->dv_head[j * c->dim_v + d];
            double y = g->dout[d];
            sum->ref += x->p * y;
            sum->known += p_error * y;
            sum->a += n.a * fabs(y);
            sum->c += (n.c + n.w + x->p * x->p * row->lse_var) * y * y;
        }
        double slope = at_noise_slope_most(&g->m, x->s, x->x), n_k = group_k * g->seen[j];
        at_noise_ds s = ds_of(g, x, row, n_k);
        double ds_error = at_noise_ds_error(&g->m, row, x->p, p_error, slope, x->dp);
        double common = at_noise_of_row(row, x->p, slope, s.ds);
        for (int64_t d = 0; d < c->dim_qk; d++) {
            at_noise_sum *sum = &g->dk_head[j * c->dim_qk + d];
            double y = g->p->scale * g->q[d];
            sum->ref += s.ds * y;
            sum->known += ds_error * y;
            sum->a += s.a * fabs(y);
            sum->c += (s.c + common) * y * y;
        }
    }
}

static void dead_row(golden *g, int64_t index)
{
    static const at_tensor_id side[] = {AT_O, AT_LSE, AT_DQ};
    for (int i = 0; i < 3; i++) {
        at_gold_tensor *t = &g->gold->t[side[i]];
        if (t->rows > 0) {
            t->dead[index] = true;
            t->ref[index * t->dim] = side[i] == AT_LSE ? -HUGE_VAL : t->ref[index * t->dim];
        }
    }
}

static void run_row(golden *g, int64_t b, int64_t h, int64_t i, int64_t index)
{
    const at_case *c = &g->p->c;
    int64_t first = 0, last = -1;
    at_problem_keys(g->p, b, i, &first, &last);
    if (first > last) {
        dead_row(g, index);
        return;
    }
    at_tensor_load_row(&g->p->t[AT_Q], b, h, i, g->q);
    score_row(g, first, last);
    double linear = 0;
    at_row row = softmax_row(g, first, last, &linear);
    if (at_gold_makes(c, AT_LSE)) {
        lse_row(g, index, linear, &row);
    }
    output_row(g, index, first, last, &row);
    if (c->pass == AT_PASS_TRAIN) {
        at_tensor_load_row(&g->p->t[AT_DO], b, h, i, g->dout);
        dp_row(g, first, last, &row);
        dq_row(g, index, first, last, &row);
        dkv_row(g, first, last, &row);
    }
}

/* Adds a query head's gradients to its group's, each rounded before the sum where the class says.
 */
static void add_head(const golden *g, at_noise_sum *group, at_noise_sum *head, int64_t n)
{
    double u = g->m.head_rounded ? g->m.in.u : 0, half = g->m.head_rounded ? g->m.in.half : 0;
    for (int64_t e = 0; e < n; e++) {
        double rounding = fmax(u * fabs(head[e].ref), half);
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
    at_gold_tensor *t = &g->gold->t[id];
    int64_t heads = at_gold_heads(&g->p->c, id), len = g->p->len_kv[b], dim = t->dim;
    double group = (double)(g->p->c.heads_q / heads);
    int64_t first = at_gold_first(g->p, id, b, 0);
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t j = 0; j < len; j++) {
            for (int64_t d = 0; d < dim; d++) {
                at_noise_sum *sum = &sums[(h * len + j) * dim + d];
                sum->c += at_noise_total_var(&g->m, group * g->seen[j], sum->ref, unit) +
                          at_noise_heads_var(group * g->seen[j], sum->squares, sum->ref, group);
                put(t, first + h * len + j, d, sum, &g->m.in);
            }
        }
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
        for (int64_t j = 0; j < len; j++) {
            at_tensor_load_row(&p->t[AT_K], b, h_k, j, g->k + j * c->dim_qk);
            at_tensor_load_row(&p->t[AT_V], b, h_v, j, g->v + j * c->dim_v);
        }
        int64_t index = at_gold_first(p, AT_O, b, h);
        for (int64_t i = 0; i < len_q; i++) {
            run_row(g, b, h, i, index + i);
        }
        if (train) {
            add_head(g, g->dk + h_k * len * c->dim_qk, g->dk_head, len * c->dim_qk);
            add_head(g, g->dv + h_v * len * c->dim_v, g->dv_head, len * c->dim_v);
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
    at_noise_init(&g.m, p, &options->numeric);
    AT_TRY(at_gold_open_all(out, p, options->no_scale, arena, err));
    AT_TRY(open_buffers(&g, arena, err));
    for (int64_t b = 0; b < p->c.batch; b++) {
        run_sequence(&g, b);
    }
    out->path = "golden";
    return AT_OK;
}
