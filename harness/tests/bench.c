#include "harness/tests/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/tests/test.h"

const at_tensor_id at_bench_outputs[] = {AT_O, AT_LSE, AT_DQ, AT_DK, AT_DV};

/* A reference value that is exact in every type: a multiple of 1/16 in 1..2, either sign. */
static double made_up(int64_t r, int64_t d)
{
    int64_t k = (7 * r + 3 * d) % 16;
    return ((r + d) % 2 == 0 ? 1 : -1) * (1 + (double)k / 16);
}

/* Lists the live rows (every `step`-th of them and every dead one). */
static void list_rows(at_bench *t, at_tensor_id id, int64_t step)
{
    at_gold_tensor *g = &t->gold.t[id];
    const at_tensor *x = &t->p.t[id];
    int64_t all = x->shape[0] * x->shape[1] * x->shape[2];
    g->dim = x->shape[3];
    g->row = calloc((size_t)all + 1, sizeof *g->row);
    g->dead = calloc((size_t)all + 1, sizeof *g->dead);
    for (int64_t i = 0; i < all; i++) {
        int64_t b = i / x->shape[2] / x->shape[1], s = i % x->shape[2];
        int64_t first = 0, last = 0;
        if (s >= (at_tensor_has_keys(id) ? t->p.len_kv : t->p.len_q)[b]) {
            continue;
        }
        if (!at_tensor_has_keys(id)) {
            at_problem_keys(&t->p, b, s, &first, &last);
        }
        if (g->total_rows++ % step == 0 || first > last) {
            int64_t row[3] = {b, i / x->shape[2] % x->shape[1], s};
            memcpy(g->row[g->rows], row, sizeof row);
            g->dead[g->rows++] = first > last;
        }
    }
    size_t n = (size_t)(g->rows * g->dim + 1);
    g->ref = calloc(n, sizeof *g->ref);
    g->bound = calloc(n, sizeof *g->bound);
    g->sigma = calloc(n, sizeof *g->sigma);
}

/* Reference = made_up, bound = 1/64, sigma = 1/128, and outputs that hold the reference. */
void at_bench_fill(at_bench *t, at_tensor_id id)
{
    at_gold_tensor *g = &t->gold.t[id];
    for (int64_t r = 0; r < g->rows; r++) {
        for (int64_t d = 0; d < g->dim; d++) {
            int64_t at = r * g->dim + d;
            g->ref[at] = g->dead[r] ? (id == AT_LSE ? -HUGE_VAL : 0) : made_up(r, d);
            g->bound[at] = g->dead[r] ? 0 : 1.0 / 64;
            g->sigma[at] = g->dead[r] ? 0 : 1.0 / 128;
            at_tensor_set(&t->p.t[id], g->row[r][0], g->row[r][1], g->row[r][2], d, g->ref[at]);
        }
    }
}

void at_bench_open_sampled(at_bench *t, const char *text, int64_t step)
{
    at_error err = {""};
    at_case c;
    memset(t, 0, sizeof *t);
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    CHECK_OK(at_arena_open(&t->arena, &err), &err);
    CHECK_OK(at_problem_open(&t->p, &c, t->arena, &err), &err);
    t->gold.share = step == 1 ? 1 : 1.0 / (double)step;
    for (int i = 0; i < AT_BENCH_OUTPUTS; i++) {
        if (t->p.t[at_bench_outputs[i]].data != NULL) {
            list_rows(t, at_bench_outputs[i], step);
            at_bench_fill(t, at_bench_outputs[i]);
        }
    }
}

void at_bench_open(at_bench *t, const char *text)
{
    at_bench_open_sampled(t, text, 1);
}

void at_bench_close(at_bench *t)
{
    for (int i = 0; i < AT_BENCH_OUTPUTS; i++) {
        at_gold_tensor *g = &t->gold.t[at_bench_outputs[i]];
        free(g->row);
        free(g->dead);
        free(g->ref);
        free(g->bound);
        free(g->sigma);
    }
    at_arena_close(t->arena);
}

void at_bench_judge(at_bench *t)
{
    at_judge_step(&t->forward, AT_STEP_FORWARD, &t->p, &t->gold, &t->contract);
    at_judge_step(&t->backward, AT_STEP_BACKWARD, &t->p, &t->gold, &t->contract);
}

const at_measure *at_bench_measure(const at_bench *t, at_tensor_id id)
{
    return id == AT_O || id == AT_LSE ? &t->forward.m[id] : &t->backward.m[id];
}
