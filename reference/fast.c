#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/fast.h"

#include <cblas.h>
#include <omp.h>

#include "reference/gold.h"

int at_fast_threads(int64_t n)
{
    int most = omp_get_max_threads();
    return n < 1 ? 1 : n < most ? (int)n : most;
}

void at_fast_single_blas(void)
{
    openblas_set_num_threads(1);
}

static void find_spans(at_fast *f)
{
    const at_problem *p = f->p;
    for (int64_t b = 0; b < p->c.batch; b++) {
        double *seen = f->seen + f->first_kv[b];
        for (int64_t i = 0; i < p->len_q[b]; i++) {
            at_fast_span *span = &f->span[f->first_q[b] + i];
            at_problem_keys(p, b, i, &span->first, &span->last);
            if (span->first <= span->last) {
                seen[span->first] += 1;
                seen[span->last + 1] -= 1;
            }
        }
        for (int64_t j = 1; j < p->len_kv[b]; j++) {
            seen[j] += seen[j - 1];
        }
    }
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

at_status at_fast_open(at_fast *out, at_gold *gold, const at_problem *p,
                       const at_reference_options *options, at_arena *arena, at_error *err)
{
    const at_case *c = &p->c;
    *out = (at_fast){
        .p = p,
        .gold = gold,
        .scale = !options->no_scale,
        .train = c->pass == AT_PASS_TRAIN,
        .group_k = c->heads_q / c->heads_kv,
        .group_v = c->heads_q / c->heads_v,
    };
    out->unit_heads = out->group_k / common_divisor(out->group_k, out->group_v) * out->group_v;
    at_noise_init(&out->m, p, &options->numeric);
    AT_TRY(at_gold_take(&out->first_q, arena, c->batch + 1, sizeof *out->first_q, err));
    AT_TRY(at_gold_take(&out->first_kv, arena, c->batch + 1, sizeof *out->first_kv, err));
    for (int64_t b = 0; b < c->batch; b++) {
        out->first_q[b + 1] = out->first_q[b] + p->len_q[b];
        /* One more, where the count of the last key's rows ends. */
        out->first_kv[b + 1] = out->first_kv[b] + p->len_kv[b] + 1;
    }
    int64_t n_q = out->first_q[c->batch], n_kv = out->first_kv[c->batch];
    AT_TRY(at_gold_take(&out->span, arena, n_q, sizeof *out->span, err));
    AT_TRY(at_gold_take(&out->seen, arena, n_kv, sizeof *out->seen, err));
    AT_TRY(at_gold_take(&out->rows, arena, n_q * c->heads_q, sizeof *out->rows, err));
    AT_TRY(at_gold_take(&out->flat, arena, c->batch * c->heads_q, sizeof *out->flat, err));
    find_spans(out);
    return AT_OK;
}

static at_status all_units(at_fast *f, at_arena *arena, at_error *err)
{
    const at_case *c = &f->p->c;
    int64_t a_sequence = c->heads_q / f->unit_heads;
    AT_TRY(at_gold_take(&f->units, arena, c->batch * a_sequence, sizeof *f->units, err));
    for (int64_t b = 0; b < c->batch; b++) {
        for (int64_t u = 0; u < a_sequence; u++) {
            int64_t head = u * f->unit_heads;
            f->units[f->n_units++] = (at_fast_unit){
                .b = b,
                .head = head,
                .n_keys = f->p->len_kv[b],
                .first_dk = at_gold_first(f->p, AT_DK, b, head / f->group_k),
                .first_dv = at_gold_first(f->p, AT_DV, b, head / f->group_v),
            };
        }
    }
    return AT_OK;
}

at_status at_fast_run(at_gold *out, const at_problem *p, const at_reference_options *options,
                      at_arena *arena, at_error *err)
{
    at_fast f;
    at_fast_single_blas();
    AT_TRY(at_gold_open_all(out, p, options->no_scale, arena, err));
    AT_TRY(at_fast_open(&f, out, p, options, arena, err));
    AT_TRY(at_fast_rows(&f, out->t[AT_O].row, out->t[AT_O].rows, true, arena, err));
    if (f.train) {
        AT_TRY(all_units(&f, arena, err));
        AT_TRY(at_fast_keys(&f, arena, err));
    }
    out->path = "fast";
    return AT_OK;
}
