#include "harness/tests/world.h"

#include <math.h>
#include <string.h>

#include "harness/problem/rng.h"

const at_tensor_id at_world_outputs[] = {AT_O, AT_LSE, AT_DQ, AT_DK, AT_DV, AT_DBIAS, AT_DSINK};

static void draw_dropout(at_problem *p)
{
    at_tensor *t = &p->t[AT_DROP];
    unsigned char *bytes = t->data;
    for (size_t e = 0; t->data != NULL && e < p->size[AT_DROP]; e++) {
        uint64_t word = at_rng_u64(p->c.seed, 0x77, e) >> 11;
        bytes[e] = (double)word * 0x1p-53 >= p->c.dropout;
    }
}

bool at_world_open(at_world *w, const char *text)
{
    at_case c;
    at_error err = {""};
    memset(w, 0, sizeof *w);
    w->text = text;
    CHECK_OK(at_arena_open(&w->inputs, &err), &err);
    CHECK_OK(at_arena_open(&w->answers, &err), &err);
    at_status status = at_case_parse(&c, text, &err);
    status = status == AT_OK ? at_problem_open(&w->p, &c, w->inputs, &err) : status;
    if (status != AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
        return false;
    }
    draw_dropout(&w->p);
    return true;
}

bool at_world_run(at_world *w, at_reference_path path, const at_numeric_class *numeric)
{
    at_error err = {""};
    at_reference_options options = {.path = path};
    options.numeric = numeric != NULL ? *numeric : options.numeric;
    at_status status = at_reference_run(&w->gold, &w->p, &options, w->answers, &err);
    if (status != AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s: %s", w->text, err.text);
    }
    return status == AT_OK;
}

void at_world_close(at_world *w)
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

void at_world_agrees(const at_world *w, const at_direct *x, double tolerance)
{
    for (int i = 0; i < AT_WORLD_OUTPUTS; i++) {
        at_tensor_id id = at_world_outputs[i];
        const at_gold_tensor *t = &w->gold.t[id];
        double size = largest(x->t[id], x->n[id]), unit = (double)w->p.unit[id];
        for (int64_t e = 0; e < t->rows * t->dim; e++) {
            const int64_t *row = t->row[e / t->dim];
            if (e % t->dim >= at_problem_live_columns(&w->p, id, row[0])) {
                continue;
            }
            double want = at_direct_at(x, id, row[0], row[1], row[2])[e % t->dim];
            double got = t->ref[e] * unit, most = fmax(tolerance * size, 1e-7 * t->bound[e]);
            if (!(fabs(got - want) <= most) && got != want) {
                at_test_fail(__FILE__, __LINE__,
                             "%s: %s [%lld %lld %lld %lld] is %.17g, wanted %.17g", w->text,
                             at_tensor_names[id], (long long)row[0], (long long)row[1],
                             (long long)row[2], (long long)(e % t->dim), got, want);
                return;
            }
        }
    }
}

void at_world_same(const at_world *a, const at_world *b, at_tensor_id id, double factor,
                   double tolerance)
{
    const at_gold_tensor *x = &a->gold.t[id], *y = &b->gold.t[id];
    double size = largest(y->ref, y->rows * y->dim);
    CHECK_INT(x->rows, y->rows);
    for (int64_t e = 0; e < x->rows * x->dim && x->rows == y->rows; e++) {
        double want = x->ref[e] * factor;
        if (!(fabs(want - y->ref[e]) <= tolerance * size) && want != y->ref[e]) {
            at_test_fail(__FILE__, __LINE__, "%s and %s: %s element %lld is %.17g, not %.17g",
                         a->text, b->text, at_tensor_names[id], (long long)e, want, y->ref[e]);
            return;
        }
    }
}
