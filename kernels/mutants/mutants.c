#include "kernels/mutants/mutants.h"

#include <math.h>

size_t at_mutant_count(void)
{
    return at_mutants_forward_count + at_mutants_backward_count + at_mutants_feature_count +
           at_mutants_reported_count;
}

const at_backend *at_mutant_at(size_t i)
{
    AT_ASSERT(i < at_mutant_count());
    if (i < at_mutants_forward_count) {
        return &at_mutants_forward[i];
    }
    i -= at_mutants_forward_count;
    if (i < at_mutants_backward_count) {
        return &at_mutants_backward[i];
    }
    i -= at_mutants_backward_count;
    return i < at_mutants_reported_count ? &at_mutants_reported[i]
                                         : &at_mutants_feature[i - at_mutants_reported_count];
}

/* cpu.flash reads its own fault from `data`. */
static at_backend inner_of(const at_backend *self)
{
    const at_mutant *m = self->data;
    at_backend inner = *self;
    inner.data = &m->flash;
    return inner;
}

/* The problem as the faulty kernel takes it. */
static at_problem as_seen(const at_backend *self, const at_problem *p)
{
    const at_mutant *m = self->data;
    at_problem seen = *p;
    if (m->drop_coarse) {
        seen.c.dropout = round(16 * p->c.dropout) / 16;
    }
    return seen;
}

at_status at_mutant_supports(const at_backend *self, const at_case *c, at_reason *why)
{
    at_backend inner = inner_of(self);
    return at_flash_supports(&inner, c, why);
}

at_status at_mutant_open(const at_backend *self, void **state, at_error *err)
{
    at_backend inner = inner_of(self);
    return at_flash_open(&inner, state, err);
}

at_status at_mutant_claim(const at_backend *self, void *state, const at_case *c,
                          at_engines *engines, at_reason *why)
{
    at_backend inner = inner_of(self);
    return at_flash_claim(&inner, state, c, engines, why);
}

at_status at_mutant_forward(const at_backend *self, void *state, const at_problem *p,
                            const char *engine, at_error *err)
{
    const at_mutant *m = self->data;
    at_backend inner = inner_of(self);
    at_problem seen = as_seen(self, p);
    AT_TRY(at_flash_forward(&inner, state, &seen, engine, err));
    if (m->spoil != NULL && m->step == AT_STEP_FORWARD && p->t[m->target].data != NULL) {
        m->spoil(p, m->target);
    }
    return AT_OK;
}

at_status at_mutant_backward(const at_backend *self, void *state, const at_problem *p,
                             const char *engine, at_error *err)
{
    const at_mutant *m = self->data;
    at_backend inner = inner_of(self);
    at_problem seen = as_seen(self, p);
    AT_TRY(at_flash_backward(&inner, state, &seen, engine, err));
    if (m->spoil != NULL && m->step == AT_STEP_BACKWARD && p->t[m->target].data != NULL) {
        m->spoil(p, m->target);
    }
    return AT_OK;
}

void at_mutant_close(const at_backend *self, void *state)
{
    at_backend inner = inner_of(self);
    at_flash_close(&inner, state);
}
