#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/fast.h"

#include <cblas.h>
#include <omp.h>

#include "reference/gold.h"
#include "reference/sample.h"

int at_fast_threads(const at_fast *f, int64_t n)
{
    return n < 1 ? 1 : n < f->threads ? (int)n : f->threads;
}

/* Keys of each row of sequence b, rows of each key. Both ends of the keys grow with the row, so
 * that a key's rows are contiguous. */
static void find_spans(at_fast *f, int64_t b)
{
    const at_problem *p = f->p;
    int64_t begun = 0, ended = 0, before = -1; /* keys whose first, last row is known; row before */
    at_fast_span *viewers = f->viewers + f->first_kv[b];
    for (int64_t j = 0; j < p->len_kv[b]; j++) {
        viewers[j] = (at_fast_span){0, -1};
    }
    for (int64_t i = 0; i < p->len_q[b]; i++) {
        at_fast_span *span = &f->span[f->first_q[b] + i];
        at_problem_keys(p, b, i, &span->first, &span->last);
        if (span->first > span->last) {
            continue;
        }
        AT_ASSERT(span->first >= ended && span->last + 1 >= begun);
        for (; ended < span->first; ended++) {
            viewers[ended].last = ended < begun ? before : -1;
        }
        begun = begun > span->first ? begun : span->first;
        for (; begun <= span->last; begun++) {
            viewers[begun].first = i;
        }
        before = i;
    }
    for (; ended < begun; ended++) {
        viewers[ended].last = before;
    }
    for (int64_t j = 0; j < p->len_kv[b]; j++) {
        f->seen[f->first_kv[b] + j] = (double)(viewers[j].last - viewers[j].first + 1);
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
    at_noise_init(&out->m, out->types, p, &options->numeric);
    at_score_init(&out->score, p, &options->numeric.variant);
    AT_TRY(at_gold_take(&out->first_q, arena, c->batch + 1, sizeof *out->first_q, err));
    AT_TRY(at_gold_take(&out->first_kv, arena, c->batch + 1, sizeof *out->first_kv, err));
    for (int64_t b = 0; b < c->batch; b++) {
        out->first_q[b + 1] = out->first_q[b] + p->len_q[b];
        out->first_kv[b + 1] = out->first_kv[b] + p->len_kv[b];
    }
    int64_t n_q = out->first_q[c->batch], n_kv = out->first_kv[c->batch];
    AT_TRY(at_gold_take(&out->span, arena, n_q, sizeof *out->span, err));
    AT_TRY(at_gold_take(&out->seen, arena, n_kv, sizeof *out->seen, err));
    AT_TRY(at_gold_take(&out->viewers, arena, n_kv, sizeof *out->viewers, err));
    int64_t heads = c->batch * c->heads_q;
    AT_TRY(at_gold_take(&out->first_row, arena, heads, sizeof *out->first_row, err));
    for (int64_t h = 0; h < heads; h++) {
        out->first_row[h] = -1;
    }
    for (int64_t b = 0; b < c->batch; b++) {
        find_spans(out, b);
    }
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

at_status at_fast_keep_rows(at_fast *f, at_arena *arena, at_error *err)
{
    int64_t n = 0;
    for (int64_t u = 0; u < f->n_units; u++) {
        int64_t b = f->units[u].b;
        for (int64_t h = f->units[u].head; h < f->units[u].head + f->unit_heads; h++) {
            f->first_row[b * f->p->c.heads_q + h] = n;
            n += f->p->len_q[b];
        }
    }
    return at_gold_take(&f->rows, arena, n, sizeof *f->rows, err);
}

/* What is left when the rows, dK and dV are done: dBias, dSink. */
static at_status run_rest(at_fast *f, at_arena *arena, at_error *err)
{
    at_fast_sink(f);
    return at_fast_bias(f, arena, err);
}

static at_status run_complete(at_fast *f, double limit, bool no_scale, at_arena *arena,
                              at_error *err)
{
    for (int id = AT_O; id < AT_TENSOR_COUNT; id++) {
        at_gold_tensor *t = &f->gold->t[id];
        if (id != AT_DBIAS && at_gold_makes(&f->p->c, (at_tensor_id)id)) {
            int64_t rows = at_gold_total(f->p, (at_tensor_id)id);
            AT_TRY(at_gold_open(t, f->p, (at_tensor_id)id, rows, no_scale, arena, err));
            at_gold_list(t, f->p, (at_tensor_id)id);
        }
    }
    AT_TRY(at_sample_bias(f, limit, no_scale, arena, err));
    f->gold->share = at_sample_share(f->gold);
    if (f->train) {
        AT_TRY(all_units(f, arena, err));
        AT_TRY(at_fast_keep_rows(f, arena, err));
    }
    if (at_fast_fuses(f)) {
        AT_TRY(at_fast_fused(f, arena, err));
        return run_rest(f, arena, err);
    }
    at_gold_tensor *o = &f->gold->t[AT_O];
    AT_TRY(at_fast_rows(f, o->row, o->rows, true, arena, err));
    if (f->train) {
        AT_TRY(at_fast_keys(f, arena, err));
        AT_TRY(run_rest(f, arena, err));
    }
    return AT_OK;
}

static at_status run_sampled(at_fast *f, double limit, bool no_scale, at_arena *arena,
                             at_error *err)
{
    at_sample sample;
    AT_TRY(at_sample_open(&sample, f, limit, no_scale, arena, err));
    AT_TRY(at_fast_keep_rows(f, arena, err));
    AT_TRY(at_fast_rows(f, sample.stream, sample.n_stream, false, arena, err));
    at_gold_tensor *o = &f->gold->t[AT_O];
    AT_TRY(at_fast_rows(f, o->row, o->rows, true, arena, err));
    if (f->train) {
        AT_TRY(at_fast_keys(f, arena, err));
        AT_TRY(run_rest(f, arena, err));
    }
    return AT_OK;
}

static at_status run(at_fast *f, const at_reference_options *options, at_arena *arena,
                     at_error *err)
{
    bool may_sample = options->path == AT_REFERENCE_AUTO, no_scale = options->no_scale;
    double limit = options->sample_above > 0 ? options->sample_above : 2e10;
    return may_sample && at_sample_work(f) > limit
               ? run_sampled(f, limit, no_scale, arena, err)
               : run_complete(f, may_sample ? limit : HUGE_VAL, no_scale, arena, err);
}

at_status at_fast_run(at_gold *out, const at_problem *p, const at_reference_options *options,
                      at_arena *arena, at_error *err)
{
    at_fast f;
    /* OpenBLAS must stay in the calling thread. A build of it for OpenMP takes the number of
     * threads that the caller's regions would get, others keep their own; the passes ask for theirs
     * by number. */
    int threads = omp_get_max_threads();
    openblas_set_num_threads(1);
    omp_set_num_threads(1);
    at_status status = at_fast_open(&f, out, p, options, arena, err);
    f.threads = threads;
    out->path = "fast";
    status = status == AT_OK ? run(&f, options, arena, err) : status;
    omp_set_num_threads(threads);
    return status;
}
