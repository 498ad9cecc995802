/* Checks that run other shapes: halves of the keys, and integers under uniform attention. */
#include <stdlib.h>
#include <string.h>

#include "harness/checks/relation.h"

/* O and LSE of every row of a launch, [batch heads len_q dim_v + 1]. */
static double *keep(const at_relation *b, int i)
{
    const at_case *c = &b->p[i].c;
    int64_t width = c->dim_v + 1, rows = c->batch * c->heads_q * c->len_q;
    double *out = calloc((size_t)(rows * width) + 1, sizeof *out);
    for (int64_t r = 0; out != NULL && r < rows; r++) {
        int64_t bb = r / c->len_q / c->heads_q, h = r / c->len_q % c->heads_q, s = r % c->len_q;
        for (int64_t d = 0; s < b->p[i].len_q[bb] && d < c->dim_v; d++) {
            out[r * width + d] = at_relation_value(b, i, AT_O, bb, h, s, d);
        }
        if (s < b->p[i].len_q[bb]) {
            out[r * width + c->dim_v] = at_relation_value(b, i, AT_LSE, bb, h, s, 0);
        }
    }
    return out;
}

/* Keys from.. of p[0] as those of p[1], with the same queries. */
static void take_keys(const at_relation *b, int64_t from)
{
    static const at_tensor_id ids[] = {AT_Q, AT_K, AT_V};
    for (int i = 0; i < 3; i++) {
        const at_tensor *t = &b->p[1].t[ids[i]];
        int64_t shift = at_tensor_has_keys(ids[i]) ? from : 0;
        for (int64_t n = 0; n < t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]; n++) {
            int64_t d = n % t->shape[3], s = n / t->shape[3] % t->shape[2];
            int64_t h = n / t->shape[3] / t->shape[2] % t->shape[1];
            int64_t bb = n / t->shape[3] / t->shape[2] / t->shape[1];
            at_tensor_set(t, bb, h, s, d, at_tensor_get(&b->p[0].t[ids[i]], bb, h, s + shift, d));
        }
    }
}

/* Launches the keys from..from + n alone. */
static double *run_part(at_relation *b, int64_t from, int64_t n)
{
    at_case c = b->p[0].c;
    c.len_kv = n;
    if (!at_relation_open(b, 1, &c)) {
        return NULL;
    }
    take_keys(b, from);
    return at_relation_launch(b, 1) ? keep(b, 1) : NULL;
}

static double noise_of_row(const at_relation *b, const int64_t row[3], double lse)
{
    const at_problem *p = &b->p[0];
    int64_t head = row[1] * p->c.heads_kv / p->c.heads_q;
    double size = 0, top = 0;
    for (int64_t d = 0; d < p->c.dim_qk; d++) {
        size += fabs(at_relation_value(b, 0, AT_Q, row[0], row[1], row[2], d));
    }
    for (int64_t n = 0; n < p->c.len_kv * p->c.dim_qk; n++) {
        top = fmax(top, fabs(at_relation_value(b, 0, AT_K, row[0], head, n / p->c.dim_qk,
                                               n % p->c.dim_qk)));
    }
    return at_relation_noise(b, p->scale * size * top, lse);
}

static void compare_merged(at_relation *b, const double *whole, const double *low,
                           const double *high)
{
    const at_case *c = &b->p[0].c;
    int64_t width = c->dim_v + 1;
    double sub = c->dtype == AT_F16 ? 0x1p-25 * (double)c->len_kv : 0;
    for (int64_t r = 0; r < c->batch * c->heads_q * c->len_q && !b->broken; r++) {
        const int64_t row[3] = {r / c->len_q / c->heads_q, r / c->len_q % c->heads_q, r % c->len_q};
        const double *w = whole + r * width, *x = low + r * width, *y = high + r * width;
        double lse_x = x[c->dim_v], lse_y = y[c->dim_v], most = fmax(lse_x, lse_y);
        double lse = most + log(exp(lse_x - most) + exp(lse_y - most));
        double noise = noise_of_row(b, row, lse), top = at_relation_top_v(b, 0, row[0], row[1]);
        double slack = top * (3.1 * (at_relation_u(b) + at_relation_u_p(b)) + 4 * noise + 3 * sub);
        if (!at_relation_close(b, AT_LSE, row, 0, w[c->dim_v], lse, 4 * noise)) {
            return;
        }
        for (int64_t d = 0; d < c->dim_v; d++) {
            double merged = exp(lse_x - lse) * x[d] + exp(lse_y - lse) * y[d];
            if (!at_relation_close(b, AT_O, row, d, w[d], merged, slack)) {
                return;
            }
        }
    }
}

at_check_outcome at_check_split(at_relation *b)
{
    at_case c = b->c;
    c.pass = AT_PASS_STATS;
    bool allowed = (b->backend->promises & AT_PROMISES_STATS) != 0 && c.mask == AT_MASK_NONE &&
                   c.lens == AT_LENS_NONE && c.lens_q.n == 0 && c.lens_kv.n == 0 && c.len_kv > 1 &&
                   !b->backend->numeric.variant.lse_log2;
    if (!allowed || !at_relation_open(b, 0, &c)) {
        return AT_CHECK_IDLE;
    }
    int64_t half = c.len_kv / 2;
    double *whole = at_relation_launch(b, 0) ? keep(b, 0) : NULL;
    double *low = whole != NULL ? run_part(b, 0, half) : NULL;
    double *high = low != NULL ? run_part(b, half, c.len_kv - half) : NULL;
    if (high != NULL) {
        compare_merged(b, whole, low, high);
    }
    at_check_outcome outcome = high != NULL || b->broken ? AT_CHECK_HOLDS : AT_CHECK_IDLE;
    free(whole);
    free(low);
    free(high);
    return outcome;
}

/* -1, 0 or 1. */
static double small(int64_t b, int64_t h, int64_t s, int64_t d)
{
    return (double)((b * 5 + h * 7 + s * 11 + d * 13 + s * d) % 3 - 1);
}

static void set_small(at_relation *b, at_tensor_id id, bool zero)
{
    const at_tensor *t = &b->p[0].t[id];
    int64_t n = t->data != NULL ? t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3] : 0;
    for (int64_t e = 0; e < n; e++) {
        int64_t d = e % t->shape[3], s = e / t->shape[3] % t->shape[2];
        int64_t h = e / t->shape[3] / t->shape[2] % t->shape[1];
        int64_t bb = e / t->shape[3] / t->shape[2] / t->shape[1];
        at_tensor_set(t, bb, h, s, d, zero ? 0 : small(bb, h, s, d));
    }
}

static bool compare_means(at_relation *b)
{
    const at_case *c = &b->p[0].c;
    int64_t group = c->heads_q / c->heads_v;
    double slack = c->dtype == AT_F32 ? 4 * 0x1p-24 : 0, lse = log((double)c->len_kv);
    for (int64_t r = 0; r < c->batch * c->heads_q * c->len_q; r++) {
        const int64_t row[3] = {r / c->len_q / c->heads_q, r / c->len_q % c->heads_q, r % c->len_q};
        for (int64_t d = 0; d < c->dim_v; d++) {
            double sum = 0;
            for (int64_t j = 0; j < c->len_kv; j++) {
                sum += small(row[0], row[1] / group, j, d);
            }
            double got = at_relation_value(b, 0, AT_O, row[0], row[1], row[2], d);
            if (!at_relation_close(b, AT_O, row, d, got, sum / (double)c->len_kv, slack)) {
                return false;
            }
        }
        bool there = b->p[0].t[AT_LSE].data != NULL &&
                     (b->backend->promises & AT_PROMISES_STATS) != 0 &&
                     !b->backend->numeric.variant.lse_log2;
        if (there && !at_relation_close(b, AT_LSE, row, 0,
                                        at_relation_value(b, 0, AT_LSE, row[0], row[1], row[2], 0),
                                        lse, 0x1p-21 * (1 + lse))) {
            return false;
        }
    }
    return true;
}

/* dV of every key is the mean of dO over the keys' number. */
static void compare_dv(at_relation *b)
{
    const at_case *c = &b->p[0].c;
    int64_t group = c->heads_q / c->heads_v;
    for (int64_t n = 0; n < c->batch * c->heads_v * c->len_kv * c->dim_v && !b->broken; n++) {
        int64_t d = n % c->dim_v, j = n / c->dim_v % c->len_kv;
        const int64_t row[3] = {n / c->dim_v / c->len_kv / c->heads_v,
                                n / c->dim_v / c->len_kv % c->heads_v, j};
        double sum = 0;
        for (int64_t r = 0; r < group * c->len_q; r++) {
            sum += small(row[0], row[1] * group + r / c->len_q, r % c->len_q, d);
        }
        (void)at_relation_close(b, AT_DV, row, d,
                                at_relation_value(b, 0, AT_DV, row[0], row[1], j, d),
                                sum / (double)c->len_kv, 0);
    }
}

at_check_outcome at_check_exact(at_relation *b)
{
    at_case c = b->c;
    int64_t keys = 1, rows = 64 / (c.heads_q / c.heads_kv);
    while (2 * keys <= c.len_kv && 2 * keys <= 128) {
        keys *= 2;
    }
    c.len_kv = keys;
    c.len_q = c.len_q < rows ? c.len_q : rows > 0 ? rows : 1;
    c.mask = AT_MASK_NONE;
    c.align = AT_ALIGN_TL;
    c.window_left = c.window_right = AT_UNBOUNDED;
    c.lens = AT_LENS_NONE;
    c.lens_q.n = c.lens_kv.n = 0;
    c.gap = 0;
    c.layout = c.layout == AT_THD ? AT_BSHD : c.layout;
    if (c.heads_q / c.heads_kv > 64 || !at_relation_open(b, 0, &c)) {
        return AT_CHECK_IDLE;
    }
    set_small(b, AT_Q, true);
    set_small(b, AT_K, false);
    set_small(b, AT_V, false);
    set_small(b, AT_DO, false);
    bool exact_p = c.dtype != AT_F32 && b->backend->numeric.p == AT_P_STORED;
    if (at_relation_launch(b, 0) && compare_means(b) && b->has_backward && exact_p &&
        (c.grads & AT_GRAD_V) != 0) {
        compare_dv(b);
    }
    return AT_CHECK_HOLDS;
}
