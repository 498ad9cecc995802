#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/golden_row.h"

#include <string.h>

#include "reference/gold.h"

at_status at_golden_row_open(at_golden_row *out, const at_problem *p, const at_noise *m,
                             const at_score *score, at_arena *arena, at_error *err)
{
    const at_case *c = &p->c;
    const size_t one = sizeof(double);
    *out = (at_golden_row){.p = p, .m = m, .score = score};
    AT_TRY(at_gold_take(&out->q, arena, c->dim_qk, one, err));
    AT_TRY(at_gold_take(&out->dout, arena, c->dim_v, one, err));
    AT_TRY(at_gold_take(&out->o, arena, c->dim_v, one, err));
    AT_TRY(at_gold_take(&out->line, arena, c->len_kv, one, err));
    return at_gold_take(&out->pairs, arena, c->len_kv, sizeof *out->pairs, err);
}

static void load_row(double *out, const at_problem *p, at_tensor_id id, int64_t b, int64_t h,
                     int64_t s)
{
    at_tensor_load_row(&p->t[id], b, h, s, out);
    for (int64_t d = 0; d < p->t[id].shape[3]; d++) {
        out[d] *= (double)p->unit[id];
    }
}

void at_golden_load(double *k, double *v, const at_problem *p, int64_t b, int64_t h)
{
    const at_case *c = &p->c;
    int64_t h_k = h / (c->heads_q / c->heads_kv), h_v = h / (c->heads_q / c->heads_v);
    for (int64_t j = 0; j < p->len_kv[b]; j++) {
        load_row(k + j * c->dim_qk, p, AT_K, b, h_k, j);
        load_row(v + j * c->dim_v, p, AT_V, b, h_v, j);
    }
}

/* S of one row: raw, capped, what is added, and the sums of squares behind its noise. */
static void score_row(at_golden_row *w)
{
    int64_t dim = w->p->c.dim_qk;
    const at_score_keys keys = {.first = w->first, .n = w->last - w->first + 1};
    at_score_before(w->score, w->line, w->b, w->h, w->i, &keys);
    for (int64_t j = w->first; j <= w->last; j++) {
        double dot = 0, squares = 0;
        for (int64_t d = 0; d < dim; d++) {
            double x = w->q[d] * w->k[j * dim + d];
            dot += x;
            squares += x * x;
        }
        double raw = w->p->scale * dot + w->line[j - w->first];
        w->pairs[j] = (at_pair){.raw = raw,
                                .capped = at_noise_cap(w->m, raw),
                                .keep = 1,
                                .squares = w->p->scale * w->p->scale * squares};
    }
    memset(w->line, 0, (size_t)keys.n * sizeof w->line[0]);
    if (w->score->added) {
        at_score_after(w->score, w->line, w->b, w->h, w->i, &keys);
    }
    for (int64_t j = w->first; j <= w->last; j++) {
        at_pair *x = &w->pairs[j];
        x->live = w->line[j - w->first] > -HUGE_VAL;
        x->add = x->live ? w->line[j - w->first] : 0;
        x->s = x->capped + x->add;
        w->row.keys += x->live ? 1 : 0;
    }
    if (w->score->dropped) {
        at_score_dropout(w->score, w->line, w->b, w->h, w->i, &keys);
        for (int64_t j = w->first; j <= w->last; j++) {
            w->pairs[j].keep = w->line[j - w->first];
        }
    }
}

/* Largest score, sum and LSE; of the keys alone where that is asked for. */
static void sum_row(at_golden_row *w)
{
    at_row *row = &w->row;
    double most = -HUGE_VAL, keys = 0;
    for (int64_t j = w->first; j <= w->last; j++) {
        most = w->pairs[j].live ? fmax(most, w->pairs[j].s) : most;
    }
    for (int64_t j = w->first; j <= w->last; j++) {
        keys += w->pairs[j].live ? exp(w->pairs[j].s - most) : 0;
    }
    row->max = w->score->sink ? fmax(most, row->sink_s) : most;
    double sum = keys * exp(most - row->max);
    sum += w->score->sink ? exp(row->sink_s - row->max) : 0;
    row->inv_sum = 1 / sum;
    row->lse = row->max + log(sum);
    row->lse_out = w->m->lse_bare ? most + log(keys) : row->lse;
    row->sink_p = w->score->sink ? exp(row->sink_s - row->max) * row->inv_sum : 0;
}

/* P of one row, and the sums that its noise needs. */
static void softmax_row(at_golden_row *w)
{
    at_noise_p_sums sums = {0};
    sum_row(w);
    for (int64_t j = w->first; j <= w->last; j++) {
        at_pair *x = &w->pairs[j];
        if (!x->live) {
            continue;
        }
        x->p = exp(x->s - w->row.max) * w->row.inv_sum;
        x->x0 = at_noise_score(w->m, x->raw, x->capped, x->add, x->squares, w->row.lse);
        x->x = at_noise_exp(x->x0);
        double t = x->s - w->row.max;
        sums.p += x->p;
        sums.linear += x->p * x->x0;
        sums.squares += at_noise_square(x->p * x->x0);
        sums.pp += x->p * x->p;
        sums.t += x->p * t;
        sums.tt += x->p * t * t;
    }
    at_noise_row(w->m, &w->row, &sums);
    w->linear = sums.linear;
}

bool at_golden_forward(at_golden_row *w, int64_t b, int64_t h, int64_t i)
{
    int64_t dim = w->p->c.dim_v;
    w->b = b;
    w->h = h;
    w->i = i;
    w->row = (at_row){.lse_share = 1};
    memset(w->o, 0, (size_t)dim * sizeof w->o[0]);
    at_problem_keys(w->p, b, i, &w->first, &w->last);
    w->row.sink_s = w->score->sink ? at_score_sink(w->score, h) : 0;
    if (w->first <= w->last) {
        load_row(w->q, w->p, AT_Q, b, h, i);
        score_row(w);
    }
    if (w->row.keys == 0) {
        w->row.lse_out = w->score->sink && !w->m->lse_bare ? w->row.sink_s : -HUGE_VAL;
        return false;
    }
    softmax_row(w);
    for (int64_t j = w->first; j <= w->last; j++) {
        double p = w->pairs[j].live ? w->pairs[j].p * w->pairs[j].keep : 0;
        for (int64_t d = 0; d < dim; d++) {
            w->o[d] += p * w->v[j * dim + d];
        }
    }
    return true;
}

static void find_dp(at_golden_row *w, at_pair *x, const double *v)
{
    for (int64_t d = 0; d < w->p->c.dim_v; d++) {
        double y = x->keep * w->dout[d] * v[d];
        x->dp += y;
        x->dp_squares += y * y;
    }
}

void at_golden_backward(at_golden_row *w)
{
    const at_noise *m = w->m;
    at_row *row = &w->row;
    at_noise_d sums = {0};
    int64_t dim = w->p->c.dim_v;
    load_row(w->dout, w->p, AT_DO, w->b, w->h, w->i);
    for (int64_t d = 0; d < dim; d++) {
        row->d += w->dout[d] * w->o[d];
        row->d_round += w->dout[d] * (at_noise_round(&m->out[AT_O], w->o[d]) - w->o[d]);
        at_noise_add_output(m, &sums, w->dout[d], w->o[d], row->keys);
    }
    row->d_round = m->d_from_p ? 0 : row->d_round;
    for (int64_t j = w->first; j <= w->last; j++) {
        at_pair *x = &w->pairs[j];
        if (!x->live) {
            continue;
        }
        find_dp(w, x, w->v + j * dim);
        x->ds = at_noise_slope(m, x->capped) * x->p * (x->dp - row->d);
        double own = at_noise_dp(m, x->dp, x->dp_squares, row->d);
        double chain = m->d_from_p ? x->dp * x->dp : x->dp_squares;
        sums.rounded += at_noise_square(at_noise_rho(&m->p, x->p) * x->dp);
        sums.score += at_noise_square(x->p * (x->dp - row->d) * x->x);
        sums.chain += x->p * x->p * chain;
        sums.stored += at_noise_square(x->p * m->u_s * x->dp);
        sums.own += at_noise_square(x->p * own);
    }
    row->d_var = at_noise_d_var(m, row, &sums);
}

at_noise_ds at_golden_ds(const at_golden_row *w, const at_pair *x, double n)
{
    double own = at_noise_dp(w->m, x->dp, x->dp_squares, w->row.d);
    return at_noise_of_ds(w->m, &w->row, x->p, x->capped, x->x, x->dp, own, n);
}
