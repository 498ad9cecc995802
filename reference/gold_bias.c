#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/gold_bias.h"

#include "reference/gold.h"

at_status at_gold_bias_open(at_gold_bias *out, at_gold *gold, const at_problem *p,
                            const at_noise *m, at_arena *arena, at_error *err)
{
    const at_case *c = &p->c;
    at_gold_tensor *t = &gold->t[AT_DBIAS];
    double batch = (double)c->batch / (double)at_gold_batch(c, AT_DBIAS);
    double heads = (double)c->heads_q / (double)at_gold_heads(c, AT_DBIAS);
    *out = (at_gold_bias){.p = p, .m = m, .t = t, .shared = batch * heads};
    if (t->rows == 0) {
        return AT_OK;
    }
    return at_gold_take(&out->sums, arena, t->rows * t->dim, sizeof *out->sums, err);
}

/* Index of row [b h i], or -1. */
static int64_t find_row(const at_gold_tensor *t, int64_t b, int64_t h, int64_t i)
{
    const int64_t want[3] = {b, h, i};
    int64_t low = 0, high = t->rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const int64_t *row = t->row[middle];
        int64_t k = row[0] != want[0] ? 0 : row[1] != want[1] ? 1 : 2;
        if (row[k] < want[k]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < t->rows && t->row[low][0] == b && t->row[low][1] == h && t->row[low][2] == i;
    return found ? low : -1;
}

void at_gold_bias_add(at_gold_bias *x, const at_golden_row *w)
{
    const at_case *c = &x->p->c;
    int both = at_bias_broadcast((at_bias)c->bias);
    int64_t index = find_row(x->t, (both & 1) ? w->b : 0, (both & 2) ? w->h : 0, w->i);
    bool before = w->score->before;
    for (int64_t j = w->first; j <= w->last && index >= 0; j++) {
        const at_pair *pair = &w->pairs[j];
        if (!pair->live) {
            continue;
        }
        /* dS stops before the cap's slope where the bias is added after the cap. */
        double slope = before ? at_noise_slope(x->m, pair->capped) : 1;
        double capped = before ? pair->capped : 0, p_error = at_noise_p_error(x->m, pair->p);
        double own = at_noise_dp(x->m, pair->dp, pair->dp_squares, w->row.d);
        at_noise_ds s =
            at_noise_of_ds(x->m, &w->row, pair->p, capped, pair->x, pair->dp, own, x->shared);
        at_noise_sum *sum = &x->sums[index * x->t->dim + j];
        sum->ref += s.ds;
        sum->a += s.a;
        sum->c += s.c + at_noise_of_row(&w->row, pair->p, slope, s.ds);
        sum->known += at_noise_ds_error(x->m, &w->row, pair->p, p_error, slope, pair->dp);
    }
}

void at_gold_bias_put(at_gold_bias *x)
{
    const at_noise_type *type = &x->m->out[AT_DBIAS];
    for (int64_t r = 0; r < x->t->rows && x->sums != NULL; r++) {
        int64_t width = at_problem_live_columns(x->p, AT_DBIAS, x->t->row[r][0]);
        for (int64_t e = r * x->t->dim; e < r * x->t->dim + width; e++) {
            at_noise_sum *sum = &x->sums[e];
            x->t->ref[e] = sum->ref;
            if (x->t->bound != NULL && sum->c + sum->a > 0) {
                sum->c += at_noise_total_var(x->m, x->shared, sum->ref, 0);
                at_noise_finish(sum, type, &x->t->bound[e], &x->t->sigma[e]);
            }
        }
    }
}
