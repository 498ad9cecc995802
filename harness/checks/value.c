/* Checks of values: what attention of chosen inputs must give, whatever the reference says. */
#include <stdlib.h>
#include <string.h>

#include "harness/checks/relation.h"

/* Multiply-adds of one launch beyond which checks that compute P themselves stay idle. */
#define WORK_MAX 3e7

/* The largest rounding of a value in f16 that P or dS loses below its normal numbers. */
static double sub_of(const at_relation *b)
{
    bool stored = b->backend->numeric.p == AT_P_STORED;
    return b->c.dtype == AT_F16 && stored ? 0x1p-25 : 0;
}

static at_case forward_only(const at_relation *b)
{
    at_case c = b->c;
    c.pass = (b->backend->promises & AT_PROMISES_STATS) != 0 ? AT_PASS_STATS : AT_PASS_FWD;
    return c;
}

static bool is_small(const at_case *c)
{
    return (double)c->batch * (double)c->heads_q * (double)c->len_q * (double)c->len_kv *
               (double)(c->dim_qk + c->dim_v) <=
           WORK_MAX;
}

static void set_rows(at_relation *b, int i, at_tensor_id id, double x)
{
    const at_tensor *t = &b->p[i].t[id];
    for (int64_t n = 0; n < t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]; n++) {
        int64_t d = n % t->shape[3], s = n / t->shape[3] % t->shape[2];
        int64_t bb = n / t->shape[3] / t->shape[2] / t->shape[1];
        if (t->start == NULL || s < b->p[i].len_kv[bb]) {
            at_relation_set(b, i, id, bb, n / t->shape[3] / t->shape[2] % t->shape[1], s, d, x);
        }
    }
}

/* Live rows of the queries, dead ones left out. Returns false after the last. */
typedef struct row_walk {
    int64_t row[3];
} row_walk;

static bool next_row(const at_relation *b, row_walk *w)
{
    const at_case *c = &b->p[0].c;
    do {
        if (++w->row[2] >= b->p[0].len_q[w->row[0]]) {
            w->row[2] = 0;
            w->row[1]++;
        }
        if (w->row[1] >= c->heads_q) {
            w->row[1] = 0;
            w->row[0]++;
        }
    } while (w->row[0] < c->batch &&
             (w->row[2] >= b->p[0].len_q[w->row[0]] ||
              at_problem_is_dead(&b->p[0], w->row[0], w->row[1], w->row[2])));
    return w->row[0] < c->batch;
}
#define FIRST_ROW                                                                                  \
    {                                                                                              \
        {                                                                                          \
            0, 0, -1                                                                               \
        }                                                                                          \
    }

/* sum |q| scale max |k| over the sequence: what a score of the row can reach. */
static double reach(const at_relation *b, int i, const int64_t row[3])
{
    const at_problem *p = &b->p[i];
    int64_t head = row[1] * p->c.heads_kv / p->c.heads_q;
    double top = 0, size = 0;
    for (int64_t n = 0; n < p->len_kv[row[0]] * p->c.dim_qk; n++) {
        top = fmax(top, fabs(at_relation_value(b, i, AT_K, row[0], head, n / p->c.dim_qk,
                                               n % p->c.dim_qk)));
    }
    for (int64_t d = 0; d < p->c.dim_qk; d++) {
        size += fabs(at_relation_value(b, i, AT_Q, row[0], row[1], row[2], d));
    }
    return p->scale * size * top;
}

static double lse_of(const at_relation *b, int i, const int64_t row[3])
{
    return b->p[i].t[AT_LSE].data != NULL
               ? at_relation_value(b, i, AT_LSE, row[0], row[1], row[2], 0)
               : 0;
}

at_check_outcome at_check_v_power(at_relation *b)
{
    at_case c = forward_only(b);
    if (!at_relation_has_bits(b) || !at_relation_open(b, 0, &c) || !at_relation_open(b, 1, &c)) {
        return AT_CHECK_IDLE;
    }
    const at_tensor *v = &b->p[0].t[AT_V], *o = &b->p[0].t[AT_O];
    for (int64_t n = 0; n < v->shape[0] * v->shape[1] * v->shape[2] * v->shape[3]; n++) {
        int64_t d = n % v->shape[3], s = n / v->shape[3] % v->shape[2];
        int64_t bb = n / v->shape[3] / v->shape[2] / v->shape[1];
        int64_t h = n / v->shape[3] / v->shape[2] % v->shape[1];
        double x = s < b->p[0].len_kv[bb] ? at_tensor_get(v, bb, h, s, d) : 0;
        if (at_dtype_round(v->dtype, 2 * x) != 2 * x) {
            return AT_CHECK_IDLE; /* it would overflow */
        }
        if (s < b->p[0].len_kv[bb]) {
            at_tensor_set(&b->p[1].t[AT_V], bb, h, s, d, 2 * x);
        }
    }
    double least = at_dtype_tiny(o->dtype) / at_dtype_roundoff(o->dtype);
    row_walk w = FIRST_ROW;
    bool good = at_relation_launch(b, 0) && at_relation_launch(b, 1);
    while (good && next_row(b, &w)) {
        for (int64_t d = 0; d < o->shape[3] && good; d++) {
            double x = at_relation_value(b, 0, AT_O, w.row[0], w.row[1], w.row[2], d);
            double y = at_relation_value(b, 1, AT_O, w.row[0], w.row[1], w.row[2], d);
            bool normal = !(fabs(x) <= least) && !(2 * fabs(x) > at_dtype_max(o->dtype));
            good = !normal || at_relation_close(b, AT_O, w.row, d, y, 2 * x, 0);
        }
        good = good && (at_relation_close(b, AT_LSE, w.row, 0, lse_of(b, 1, w.row),
                                          lse_of(b, 0, w.row), 0));
    }
    return AT_CHECK_HOLDS;
}

at_check_outcome at_check_v_ones(at_relation *b)
{
    at_case c = forward_only(b);
    if (!at_relation_open(b, 0, &c)) {
        return AT_CHECK_IDLE;
    }
    set_rows(b, 0, AT_V, 1);
    row_walk w = FIRST_ROW;
    bool good = at_relation_launch(b, 0);
    double keys = (double)c.len_kv;
    double slack =
        1.05 * (1.01 * at_relation_u(b) + at_relation_u_p(b)) + keys * (4 * 0x1p-24 + sub_of(b));
    while (good && next_row(b, &w)) {
        for (int64_t d = 0; d < c.dim_v && good; d++) {
            good = at_relation_close(b, AT_O, w.row, d,
                                     at_relation_value(b, 0, AT_O, w.row[0], w.row[1], w.row[2], d),
                                     1, slack);
        }
    }
    return AT_CHECK_HOLDS;
}

/* P of one row in p [len_kv], its scores in s, by plain loops; returns LSE. */
static double probabilities(const at_relation *b, const int64_t row[3], double *p, double *s)
{
    const at_problem *x = &b->p[0];
    int64_t head = row[1] * x->c.heads_kv / x->c.heads_q, first, last;
    double top = -HUGE_VAL, sum = 0;
    at_problem_keys(x, row[0], row[2], &first, &last);
    for (int64_t j = 0; j < x->len_kv[row[0]]; j++) {
        p[j] = 0;
        s[j] = 0;
        for (int64_t d = 0; j >= first && j <= last && d < x->c.dim_qk; d++) {
            s[j] += at_relation_value(b, 0, AT_Q, row[0], row[1], row[2], d) *
                    at_relation_value(b, 0, AT_K, row[0], head, j, d);
        }
        s[j] *= x->scale;
        s[j] = x->c.softcap > 0 ? x->c.softcap * tanh(s[j] / x->c.softcap) : s[j];
        top = j >= first && j <= last && s[j] > top ? s[j] : top;
    }
    for (int64_t j = first; j <= last; j++) {
        p[j] = exp(s[j] - top);
        sum += p[j];
    }
    for (int64_t j = first; j <= last; j++) {
        p[j] /= sum;
    }
    return top + log(sum);
}

/* Columns of O against the probabilities of keys from.. of every row. */
static bool compare_read(at_relation *b, int64_t from, double *p, double *s)
{
    const at_problem *x = &b->p[0];
    double u = 1.05 * (1.01 * at_relation_u(b) + at_relation_u_p(b));
    double least = at_dtype_tiny(x->t[AT_O].dtype) + 0x1p-126 + sub_of(b);
    row_walk w = FIRST_ROW;
    while (next_row(b, &w)) {
        double lse = probabilities(b, w.row, p, s), size = reach(b, 0, w.row);
        int64_t first, last;
        at_problem_keys(x, w.row[0], w.row[2], &first, &last);
        for (int64_t d = 0; d < x->c.dim_v && from + d < x->len_kv[w.row[0]]; d++) {
            int64_t j = from + d;
            double slack = u * p[j] + 2 * p[j] * at_relation_noise(b, size, lse) + least;
            slack = j >= first && j <= last ? slack : 0;
            if (!at_relation_close(b, AT_O, w.row, d,
                                   at_relation_value(b, 0, AT_O, w.row[0], w.row[1], w.row[2], d),
                                   p[j], slack)) {
                return false;
            }
        }
    }
    return true;
}

at_check_outcome at_check_v_onehot(at_relation *b)
{
    enum { WINDOWS = 3 };
    at_case c = forward_only(b);
    double *p = calloc((size_t)c.len_kv, sizeof *p), *s = calloc((size_t)c.len_kv, sizeof *s);
    bool good = p != NULL && s != NULL && is_small(&c) && at_relation_open(b, 0, &c);
    at_check_outcome outcome = good ? AT_CHECK_HOLDS : AT_CHECK_IDLE;
    int64_t windows = (c.len_kv + c.dim_v - 1) / c.dim_v;
    for (int64_t n = 0; good && n < windows; n++) {
        bool taken = n < WINDOWS - 1 || n == windows - 1;
        set_rows(b, 0, AT_V, 0);
        for (int64_t k = 0; taken && k < c.batch * c.heads_v * c.dim_v; k++) {
            int64_t bb = k / c.dim_v / c.heads_v, j = n * c.dim_v + k % c.dim_v;
            if (j < b->p[0].len_kv[bb]) {
                at_relation_set(b, 0, AT_V, bb, k / c.dim_v % c.heads_v, j, k % c.dim_v, 1);
            }
        }
        good = !taken || (at_relation_launch(b, 0) && compare_read(b, n * c.dim_v, p, s));
    }
    free(p);
    free(s);
    return outcome;
}

/* K in steps of 1/4 within 2, so that adding 1 is exact. */
static void coarsen_keys(at_relation *b)
{
    const at_problem *p = &b->p[0];
    for (int64_t n = 0; n < p->c.batch * p->c.heads_kv * p->c.len_kv * p->c.dim_qk; n++) {
        int64_t d = n % p->c.dim_qk, j = n / p->c.dim_qk % p->c.len_kv;
        int64_t h = n / p->c.dim_qk / p->c.len_kv % p->c.heads_kv;
        int64_t bb = n / p->c.dim_qk / p->c.len_kv / p->c.heads_kv;
        if (j < p->len_kv[bb]) {
            double x = rint(4 * at_relation_value(b, 0, AT_K, bb, h, j, d)) / 4;
            x = fmin(fmax(x, -2), 2);
            at_relation_set(b, 0, AT_K, bb, h, j, d, x);
            at_relation_set(b, 1, AT_K, bb, h, j, d, x + 1);
        }
    }
}

at_check_outcome at_check_k_constant(at_relation *b)
{
    at_case c = forward_only(b);
    if (c.softcap > 0 || !at_relation_open(b, 0, &c) || !at_relation_open(b, 1, &c)) {
        return AT_CHECK_IDLE;
    }
    coarsen_keys(b);
    row_walk w = FIRST_ROW;
    bool good = at_relation_launch(b, 0) && at_relation_launch(b, 1);
    while (good && next_row(b, &w)) {
        double sum = 0, lse = lse_of(b, 0, w.row),
               top = at_relation_top_v(b, 0, w.row[0], w.row[1]);
        for (int64_t d = 0; d < c.dim_qk; d++) {
            sum += b->p[0].scale * at_relation_value(b, 0, AT_Q, w.row[0], w.row[1], w.row[2], d);
        }
        double noise = at_relation_noise(b, reach(b, 1, w.row), fabs(lse) + fabs(sum));
        double slack = top * (2.1 * (at_relation_u(b) + at_relation_u_p(b)) + 4 * noise +
                              2 * (double)c.len_kv * sub_of(b));
        for (int64_t d = 0; d < c.dim_v && good; d++) {
            good = at_relation_close(
                b, AT_O, w.row, d, at_relation_value(b, 1, AT_O, w.row[0], w.row[1], w.row[2], d),
                at_relation_value(b, 0, AT_O, w.row[0], w.row[1], w.row[2], d), slack);
        }
        bool lse_there = b->p[0].t[AT_LSE].data != NULL;
        good = good && (!lse_there || at_relation_close(b, AT_LSE, w.row, 0, lse_of(b, 1, w.row),
                                                        lse + sum, 2 * noise));
    }
    return AT_CHECK_HOLDS;
}

at_check_outcome at_check_sums(at_relation *b)
{
    if (!b->has_backward || (b->c.grads & AT_GRAD_V) == 0 || !at_relation_open(b, 0, &b->c)) {
        return AT_CHECK_IDLE;
    }
    const at_problem *p = &b->p[0];
    bool good = at_relation_launch(b, 0);
    int64_t group = b->c.heads_q / b->c.heads_kv;
    for (int64_t n = 0; good && n < b->c.batch * b->c.heads_kv * b->c.dim_v; n++) {
        int64_t d = n % b->c.dim_v, g = n / b->c.dim_v % b->c.heads_kv;
        int64_t bb = n / b->c.dim_v / b->c.heads_kv;
        double want = 0, got = 0, slack = (double)p->len_kv[bb] * at_dtype_tiny(p->t[AT_DV].dtype);
        for (int64_t r = 0; r < group * p->len_q[bb]; r++) {
            const int64_t row[3] = {bb, g * group + r / p->len_q[bb], r % p->len_q[bb]};
            if (!at_problem_is_dead(p, row[0], row[1], row[2])) {
                double x = at_relation_value(b, 0, AT_DO, row[0], row[1], row[2], d);
                double noise = at_relation_noise(b, reach(b, 0, row), lse_of(b, 0, row));
                want += x;
                slack += fabs(x) * (1.05 * at_relation_u_p(b) + 2 * noise +
                                    (double)p->len_kv[bb] * (4 * 0x1p-24 + sub_of(b)));
            }
        }
        for (int64_t j = 0; j < p->len_kv[bb]; j++) {
            double x = at_relation_value(b, 0, AT_DV, bb, g, j, d);
            got += x;
            slack += 1.05 * at_relation_u(b) * fabs(x);
        }
        const int64_t row[3] = {bb, g, 0};
        good = at_relation_close(b, AT_DV, row, d, got, want, slack);
    }
    return AT_CHECK_HOLDS;
}

/* What dQ may hold where rows of dS should sum to 0. */
static double ds_slack(const at_relation *b, const int64_t row[3], double *p, double *s)
{
    const at_problem *x = &b->p[0];
    int64_t head = row[1] * x->c.heads_v / x->c.heads_q;
    double lse = probabilities(b, row, p, s), d_sum = 0, d_size = 0, size = 0, largest = 0;
    double noise = at_relation_noise(b, reach(b, 0, row), lse);
    for (int64_t j = 0; j < x->len_kv[row[0]]; j++) {
        s[j] = 0; /* dP from here on */
        double products = 0;
        for (int64_t d = 0; d < x->c.dim_v; d++) {
            double term = at_relation_value(b, 0, AT_DO, row[0], row[1], row[2], d) *
                          at_relation_value(b, 0, AT_V, row[0], head, j, d);
            s[j] += term;
            products += fabs(term);
        }
        d_sum += p[j] * s[j];
        d_size += p[j] * products;
        largest = fmax(largest, products);
    }
    for (int64_t j = 0; j < x->len_kv[row[0]]; j++) {
        size += p[j] * fabs(s[j] - d_sum);
    }
    double u_p = at_relation_u_p(b), u = at_relation_u(b);
    return x->scale * (1.1 * (u_p + 2 * noise) * size + 1.1 * (u + u_p) * d_size +
                       0x1p-19 * largest + (double)x->len_kv[row[0]] * sub_of(b)) +
           at_dtype_tiny(x->t[AT_DQ].dtype);
}

at_check_outcome at_check_ds_rows(at_relation *b)
{
    const at_case *c = &b->c;
    if (!b->has_backward || (c->grads & AT_GRAD_Q) == 0 || c->softcap > 0 || !is_small(c) ||
        !at_relation_open(b, 0, c)) {
        return AT_CHECK_IDLE;
    }
    double *p = calloc((size_t)c->len_kv, sizeof *p), *s = calloc((size_t)c->len_kv, sizeof *s);
    for (int64_t n = 0; n < c->batch * c->heads_kv * c->len_kv; n++) {
        int64_t bb = n / c->len_kv / c->heads_kv, j = n % c->len_kv;
        if (j < b->p[0].len_kv[bb]) {
            at_relation_set(b, 0, AT_K, bb, n / c->len_kv % c->heads_kv, j, 0, 1);
        }
    }
    bool good = p != NULL && s != NULL && at_relation_launch(b, 0);
    row_walk w = FIRST_ROW;
    while (good && next_row(b, &w)) {
        double got = at_relation_value(b, 0, AT_DQ, w.row[0], w.row[1], w.row[2], 0);
        good = at_relation_close(b, AT_DQ, w.row, 0, got, 0, ds_slack(b, w.row, p, s));
    }
    free(p);
    free(s);
    return AT_CHECK_HOLDS;
}
