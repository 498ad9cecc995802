#include "harness/selftest/specimen.h"

#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"

/* Multiply-adds below which the plain loops are the reference. */
#define GOLDEN_BELOW 5e6

static at_status refer(at_specimen *s, const at_numeric_class *numeric, at_error *err)
{
    const at_case *c = &s->p.c;
    double work = (double)(c->batch * c->heads_q * c->len_q) * (double)c->len_kv *
                  (double)(c->dim_qk + c->dim_v);
    at_reference_options options = {
        .numeric = *numeric, .path = work < GOLDEN_BELOW ? AT_REFERENCE_GOLDEN : AT_REFERENCE_AUTO};
    at_arena_reset(s->answers);
    return at_reference_run(&s->gold, &s->p, &options, s->answers, err);
}

at_status at_specimen_make(at_specimen *s, const at_case *c, const at_numeric_class *numeric,
                           at_error *err)
{
    if (s->memory == NULL) {
        AT_TRY(at_arena_open(&s->memory, err));
        AT_TRY(at_arena_open(&s->answers, err));
    }
    at_arena_reset(s->memory);
    AT_TRY(at_problem_open(&s->p, c, s->memory, err));
    at_cpu_hand_out_dropout(&s->p);
    return refer(s, numeric, err);
}

at_status at_specimen_refer(at_specimen *s, const at_numeric_class *numeric, at_error *err)
{
    return refer(s, numeric, err);
}

void at_specimen_close(at_specimen *s)
{
    at_arena_close(s->answers);
    at_arena_close(s->memory);
    memset(s, 0, sizeof *s);
}

at_status at_specimen_launch(const at_specimen *s, const at_backend *b, const char *engine,
                             at_step step, at_error *err)
{
    if (step == AT_STEP_FORWARD) {
        at_problem_poison(&s->p, AT_O, AT_LSE);
        return b->forward(b, NULL, &s->p, engine, err);
    }
    at_problem_poison(&s->p, AT_DQ, AT_DV);
    return b->backward(b, NULL, &s->p, engine, err);
}

void at_specimen_judge(at_step_verdict *out, const at_specimen *s, const at_backend *b,
                       const char *engine, at_step step)
{
    at_error err = {""};
    if (at_specimen_launch(s, b, engine, step, &err) == AT_OK) {
        at_judge_step(out, step, &s->p, &s->gold, &b->contract);
    } else {
        memset(out, 0, sizeof *out);
        out->kind = AT_KIND_REFUSED;
        (void)snprintf(out->reason.code, sizeof out->reason.code, "refused");
        (void)snprintf(out->reason.text, sizeof out->reason.text, "%s", err.text);
    }
    out->ran = true;
}

/* Element size of guards around a buffer, and the word that they hold: see at_arena_take. */
static void restore_guards(const at_problem *p, int id)
{
    unsigned char *base = p->base[id];
    uint32_t guard = at_dtype_guard(p->t[id].dtype);
    for (size_t i = 0; i < at_dtype_size(p->t[id].dtype); i++) {
        base[p->size[id] + i] = (unsigned char)(guard >> (8 * i));
        *(base - at_dtype_size(p->t[id].dtype) + i) = (unsigned char)(guard >> (8 * i));
    }
}

void at_specimen_restore(const at_specimen *s)
{
    const at_problem *p = &s->p;
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        if (p->base[id] != NULL && p->shadow[id] != NULL) {
            memcpy(p->base[id], p->shadow[id], p->size[id]);
        }
        if (p->base[id] != NULL) {
            restore_guards(p, id);
        }
    }
}

at_step at_specimen_last(const at_specimen *s)
{
    return s->p.c.pass == AT_PASS_TRAIN ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
}
