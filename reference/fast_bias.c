/* dBias and dSink beside the row and key passes. */
#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include <omp.h>

#include "reference/fast.h"
#include "reference/gold.h"
#include "reference/gold_bias.h"

void at_fast_sink(at_fast *f)
{
    const at_problem *p = f->p;
    at_gold_tensor *t = &f->gold->t[AT_DSINK];
    double n = 0;
    for (int64_t b = 0; b < p->c.batch; b++) {
        n += (double)p->len_q[b];
    }
    for (int64_t r = 0; r < t->rows; r++) {
        at_noise_sum sum = {0};
        for (int64_t b = 0; b < p->c.batch; b++) {
            for (int64_t i = 0; i < p->len_q[b]; i++) {
                const at_row *row = at_fast_row(f, b, t->row[r][1], i);
                AT_ASSERT(row != NULL);
                if (row->keys > 0) {
                    at_noise_add_sink(&f->m, &sum, row, n);
                }
            }
        }
        sum.c += at_noise_total_var(&f->m, n, sum.ref, 0);
        t->ref[r] = sum.ref;
        if (f->scale) {
            at_noise_finish(&sum, &f->m.out[AT_DSINK], &t->bound[r], &t->sigma[r]);
        }
    }
}

/* Rows of one query head that are listed, or whose sum is. */
static void add_head(const at_fast *f, at_gold_bias *bias, at_golden_row *rows, int threads,
                     int64_t b, int64_t h)
{
    int both = at_bias_broadcast((at_bias)f->p->c.bias);
    const at_gold_tensor *t = &f->gold->t[AT_DBIAS];
    int64_t own_b = (both & 1) ? b : 0, own_h = (both & 2) ? h : 0;
#pragma omp parallel for schedule(dynamic, 4) num_threads(threads) if (threads > 1)
    for (int64_t r = 0; r < t->rows; r++) {
        at_golden_row *w = &rows[omp_get_thread_num()];
        bool here = t->row[r][0] == own_b && t->row[r][1] == own_h;
        if (here && t->row[r][2] < f->p->len_q[b] && at_golden_forward(w, b, h, t->row[r][2])) {
            at_golden_backward(w);
            at_gold_bias_add(bias, w);
        }
    }
}

at_status at_fast_bias(at_fast *f, at_arena *arena, at_error *err)
{
    const at_case *c = &f->p->c;
    double *k = NULL, *v = NULL;
    at_golden_row *rows = NULL;
    at_gold_bias bias;
    int threads = at_fast_threads(f, f->gold->t[AT_DBIAS].rows);
    if (f->gold->t[AT_DBIAS].rows == 0) {
        return AT_OK;
    }
    AT_TRY(at_gold_bias_open(&bias, f->gold, f->p, &f->m, arena, err));
    AT_TRY(at_gold_take(&k, arena, c->len_kv * c->dim_qk, sizeof *k, err));
    AT_TRY(at_gold_take(&v, arena, c->len_kv * c->dim_v, sizeof *v, err));
    AT_TRY(at_gold_take(&rows, arena, threads, sizeof *rows, err));
    for (int i = 0; i < threads; i++) {
        AT_TRY(at_golden_row_open(&rows[i], f->p, &f->m, &f->score, arena, err));
        rows[i].k = k;
        rows[i].v = v;
    }
    for (int64_t b = 0; b < c->batch; b++) {
        for (int64_t h = 0; h < c->heads_q; h++) {
            at_golden_load(k, v, f->p, b, h);
            add_head(f, &bias, rows, threads, b, h);
        }
    }
    at_gold_bias_put(&bias);
    return AT_OK;
}
