/* A backend in a shared object of its own: forward attention in fp64, one element at a time. Build
 * it against libattest and load it with `--plugin example_plugin.so`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/backend.h"

AT_API const at_backend *const *attest_plugin(int abi);

static at_status supports(const at_backend *self, const at_case *c, at_reason *why)
{
    (void)self;
    bool plain = c->amask == AT_AMASK_NONE && c->bias == AT_BIAS_NONE && c->sink == AT_SINK_NONE &&
                 c->softcap == 0 && c->dropout == 0 && c->page == 0 && c->splits == 0 &&
                 c->exec == AT_EXEC_ONCE && c->invalid == 0;
    if (plain) {
        return AT_OK;
    }
    (void)snprintf(why->code, sizeof why->code, "feature");
    (void)snprintf(why->text, sizeof why->text,
                   "the example takes no dense mask, bias, sink, softcap, dropout, pages, splits");
    return AT_UNSUPPORTED;
}

static at_status open_state(const at_backend *self, void **state, at_error *err)
{
    (void)self, (void)err;
    *state = NULL;
    return AT_OK;
}

static at_status claim(const at_backend *self, void *state, const at_case *c, at_engines *engines,
                       at_reason *why)
{
    (void)state;
    *engines = (at_engines){1, {"loops"}};
    return supports(self, c, why);
}

static double score(const at_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int64_t head = h / (p->c.heads_q / p->c.heads_kv);
    double sum = 0;
    for (int64_t d = 0; d < p->c.dim_qk; d++) {
        sum += at_tensor_get(&p->t[AT_Q], b, h, i, d) * at_tensor_get(&p->t[AT_K], b, head, j, d);
    }
    return p->scale * sum;
}

/* Keys first..last of one row; `s` has room for their scores. */
static void forward_row(const at_problem *p, double *s, int64_t b, int64_t h, int64_t i)
{
    int64_t first = 0, last = -1, head = h / (p->c.heads_q / p->c.heads_v);
    at_problem_keys(p, b, i, &first, &last);
    double max = -HUGE_VAL, sum = 0;
    for (int64_t j = first; j <= last; j++) {
        s[j] = score(p, b, h, i, j);
        max = fmax(max, s[j]);
    }
    for (int64_t j = first; j <= last; j++) {
        s[j] = exp(s[j] - max);
        sum += s[j];
    }
    for (int64_t d = 0; d < p->c.dim_v; d++) {
        double o = 0;
        for (int64_t j = first; j <= last; j++) {
            o += s[j] / sum * at_tensor_get(&p->t[AT_V], b, head, j, d);
        }
        at_tensor_set(&p->t[AT_O], b, h, i, d, o);
    }
    if (p->t[AT_LSE].data != NULL) {
        at_tensor_set(&p->t[AT_LSE], b, h, i, 0, sum > 0 ? max + log(sum) : -HUGE_VAL);
    }
}

static at_status forward(const at_backend *self, void *state, const at_problem *p,
                         const char *engine, at_error *err)
{
    (void)state, (void)engine;
    double *s = malloc(((size_t)p->c.len_kv + 1) * sizeof *s);
    if (s == NULL) {
        return at_fail(err, AT_NO_MEMORY, "%s: no memory for a row of scores", self->name);
    }
    for (int64_t b = 0; b < p->c.batch; b++) {
        for (int64_t h = 0; h < p->c.heads_q; h++) {
            for (int64_t i = 0; i < p->len_q[b]; i++) {
                forward_row(p, s, b, h, i);
            }
        }
    }
    free(s);
    return AT_OK;
}

/* Never called: the promises say forward only. */
static at_status backward(const at_backend *self, void *state, const at_problem *p,
                          const char *engine, at_error *err)
{
    (void)state, (void)p, (void)engine;
    return at_fail(err, AT_REFUSED, "%s has no backward", self->name);
}

static void close_state(const at_backend *self, void *state)
{
    (void)self, (void)state;
}

static const at_backend example = {
    .name = "example.loops",
    .version = "1.0.0",
    .promises = AT_PROMISES_STATS | AT_PROMISES_DETERMINISM,
    .arch = AT_ARCH_CPU,
    .numeric = {.p = AT_P_F32},
    .doc = "the plugin that shows how to write one: forward in fp64",
    .supports = supports,
    .open = open_state,
    .claim = claim,
    .forward = forward,
    .backward = backward,
    .close = close_state,
};

const at_backend *const *attest_plugin(int abi)
{
    static const at_backend *const list[] = {&example, NULL};
    return abi == AT_ABI ? list : NULL;
}
