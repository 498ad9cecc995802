/* The golden reference against a second opinion, finite differences and identities. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/tests/direct.h"

static const at_tensor_id outputs[] = {AT_O, AT_LSE, AT_DQ, AT_DK, AT_DV};

typedef struct world {
    at_arena *inputs, *answers;
    at_problem p;
    at_gold gold;
} world;

static bool world_open(world *w, const char *text, at_reference_path path)
{
    at_case c;
    at_error err = {""};
    memset(w, 0, sizeof *w);
    CHECK_OK(at_arena_open(&w->inputs, &err), &err);
    CHECK_OK(at_arena_open(&w->answers, &err), &err);
    at_reference_options options = {.path = path};
    at_status status = at_case_parse(&c, text, &err);
    status = status == AT_OK ? at_problem_open(&w->p, &c, w->inputs, &err) : status;
    status =
        status == AT_OK ? at_reference_run(&w->gold, &w->p, &options, w->answers, &err) : status;
    if (status != AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
    }
    return status == AT_OK;
}

static void world_close(world *w)
{
    at_arena_close(w->inputs);
    at_arena_close(w->answers);
}

static double largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        most = isfinite(x[i]) && fabs(x[i]) > most ? fabs(x[i]) : most;
    }
    return most;
}

/* The gold tensor agrees with the direct one in every row to `tolerance` of its largest value. */
static void agrees(const char *text, const at_gold_tensor *t, const at_direct *x, at_tensor_id id,
                   double tolerance)
{
    double size = largest(x->t[id], x->n[id]);
    for (int64_t r = 0; r < t->rows; r++) {
        const double *want = at_direct_at(x, id, t->row[r][0], t->row[r][1], t->row[r][2]);
        for (int64_t d = 0; d < t->dim; d++) {
            double got = t->ref[r * t->dim + d];
            if (!(fabs(got - want[d]) <= tolerance * size) && got != want[d]) {
                at_test_fail(__FILE__, __LINE__, "%s: %s row %lld dim %lld is %.17g, wanted %.17g",
                             text, at_tensor_names[id], (long long)r, (long long)d, got, want[d]);
                return;
            }
        }
    }
}

static void check_case(const char *text)
{
    world w;
    at_direct x;
    if (world_open(&w, text, AT_REFERENCE_GOLDEN)) {
        at_direct_open(&x, &w.p);
        for (size_t i = 0; i < 5; i++) {
            agrees(text, &w.gold.t[outputs[i]], &x, outputs[i], 1e-13);
        }
        at_direct_close(&x);
    }
    world_close(&w);
}

static void test_second_opinion(void)
{
    check_case("sq=5:skv=7:dqk=4:dv=3");
    check_case("hq=4:hkv=2:sq=9:skv=6:dqk=8:mask=causal:align=br:softcap=2");
    check_case("b=3:hq=6:hkv=3:hv=2:sq=9:skv=12:dqk=8:dv=4:lens=random:mask=band:wl=2:wr=1");
}

const at_test at_tests[] = {
    {"ref", "second_opinion", test_second_opinion},
    {NULL, NULL, NULL},
};
