/* `modelled.*`: cpu.flash driven by a capability set. Where the real build computes it computes,
 * where that one refuses it refuses in the same words, where that one is silently wrong it spoils
 * the same tensor. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/case/suite.h"
#include "harness/select/capability.h"
#include "kernels/cpu_flash.h"
#include "kernels/kernels.h"

typedef struct build {
    const char *set;       /* CORPUS/capabilities/SET.json */
    bool plus_inf_no_keys; /* len_kv = 0 is answered on the host, with LSE = +Inf */
} build;

static at_backend plain_flash(const at_backend *self)
{
    at_backend flash = *self;
    flash.data = NULL;
    return flash;
}

static at_status open_set(const at_backend *self, void **state, at_error *err)
{
    const build *b = self->data;
    at_capabilities *set = NULL;
    if (at_corpus()[0] == '\0') {
        return at_fail(err, AT_IO, "%s needs the capability set %s, and no corpus was found",
                       self->name, b->set);
    }
    AT_TRY(at_capabilities_open(&set, at_corpus(), b->set, err));
    *state = set;
    return AT_OK;
}

static void close_set(const at_backend *self, void *state)
{
    (void)self;
    at_capabilities_close(state);
}

/* Unknown to the set: nothing can be modelled. */
static at_status check_known(const at_backend *self, const at_capabilities *set, const at_case *c,
                             at_step step, at_outcome *outcome, at_reason *why)
{
    at_capability found;
    at_error err = {""};
    at_status status = at_capability_find(&found, set, c, step, &err);
    if (status != AT_OK) {
        (void)snprintf(why->code, sizeof why->code, "capability_rule");
        (void)snprintf(why->text, sizeof why->text, "%s", err.text);
        return status;
    }
    *outcome = found.outcome;
    if (found.outcome == AT_OUTCOME_UNKNOWN) {
        const build *b = self->data;
        (void)snprintf(why->code, sizeof why->code, "capability_unknown");
        (void)snprintf(why->text, sizeof why->text,
                       "the capability set %s does not say what the %s of this case does", b->set,
                       at_step_names[step]);
        return AT_UNSUPPORTED;
    }
    return AT_OK;
}

static at_status claim(const at_backend *self, void *state, const at_case *c, at_engines *engines,
                       at_reason *why)
{
    at_outcome outcome = AT_OUTCOME_UNKNOWN;
    AT_TRY(at_flash_supports(self, c, why));
    AT_TRY(check_known(self, state, c, AT_STEP_FORWARD, &outcome, why));
    if (outcome != AT_OUTCOME_REFUSES && c->pass == AT_PASS_TRAIN) {
        AT_TRY(check_known(self, state, c, AT_STEP_BACKWARD, &outcome, why));
    }
    *engines = (at_engines){1, {"tile128"}};
    return AT_OK;
}

/* Columns by which a spoilt tensor is displaced. For dv that of flash-attention #2552: half of V's
 * columns (rounded up to 16), written in blocks whose width follows from the head size of Q and K;
 * what the last block holds too much lands in front. */
static int64_t displacement(const at_case *c, int64_t dim)
{
    int64_t half_v = (c->dim_v + 15) / 16 * 8, half_qk = (c->dim_qk + 15) / 16 * 8;
    int64_t rest = half_v % at_common_divisor(32, half_qk) % dim;
    return rest > 0 ? rest : 1;
}

static void displace_columns(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t by)
{
    int64_t dim = t->shape[3];
    double first[32];
    AT_ASSERT(by <= 32);
    for (int64_t d = 0; d < by; d++) {
        first[d] = at_tensor_get(t, b, h, s, d);
    }
    for (int64_t d = 0; d + by < dim; d++) {
        at_tensor_set(t, b, h, s, d, at_tensor_get(t, b, h, s, d + by));
    }
    for (int64_t d = 0; d < by; d++) {
        at_tensor_set(t, b, h, s, dim - by + d, first[d]);
    }
}

/* Displaces the columns of the tensor that the set names, in every live row. */
static void spoil(const at_problem *p, const char *name)
{
    for (int id = AT_O; id < AT_TENSOR_COUNT; id++) {
        const at_tensor *t = &p->t[id];
        if (strcmp(at_tensor_names[id], name) != 0 || t->data == NULL || t->shape[3] == 0) {
            continue;
        }
        bool keys = id == AT_DK || id == AT_DV;
        int64_t by = displacement(&p->c, t->shape[3]);
        for (int64_t b = 0; b < p->c.batch; b++) {
            int64_t rows = keys ? p->len_kv[b] : p->len_q[b];
            for (int64_t n = 0; n < rows * t->shape[1]; n++) {
                displace_columns(t, b, n / rows, n % rows, by);
            }
        }
    }
}

static at_status run_step(const at_backend *self, const at_capabilities *set, at_step step,
                          const at_problem *p, const char *engine, at_error *err)
{
    at_capability found;
    at_backend flash = plain_flash(self);
    AT_TRY(at_capability_find(&found, set, &p->c, step, err));
    if (found.outcome == AT_OUTCOME_REFUSES) {
        return at_fail(err, AT_REFUSED, "%s", found.message);
    }
    AT_TRY(step == AT_STEP_FORWARD ? at_flash_forward(&flash, NULL, p, engine, err)
                                   : at_flash_backward(&flash, NULL, p, engine, err));
    if (found.outcome == AT_OUTCOME_WRONG && found.tensor != NULL) {
        spoil(p, found.tensor);
    }
    return AT_OK;
}

static at_status forward(const at_backend *self, void *state, const at_problem *p,
                         const char *engine, at_error *err)
{
    const build *b = self->data;
    AT_TRY(run_step(self, state, AT_STEP_FORWARD, p, engine, err));
    const at_tensor *lse = &p->t[AT_LSE];
    for (int64_t n = 0; b->plus_inf_no_keys && p->c.len_kv == 0 && lse->data != NULL &&
                        n < p->c.batch * p->c.heads_q * p->c.len_q;
         n++) {
        ((float *)lse->data)[n] = HUGE_VALF;
    }
    return AT_OK;
}

static at_status backward(const at_backend *self, void *state, const at_problem *p,
                          const char *engine, at_error *err)
{
    return run_step(self, state, AT_STEP_BACKWARD, p, engine, err);
}

static const build fa3_2025_02 = {.set = "fa3-2025-02", .plus_inf_no_keys = true};
static const build fa4_b11 = {.set = "fa4-b11"};

/* Source of the LSE contract: hopper/flash_api.cpp fills +Inf on the host where there are no keys,
 * hopper/softmax.h writes -Inf for a masked row. */
static const at_backend modelled_fa3_2025_02 = {
    .name = "modelled.fa3-2025-02",
    .version = "3.0.0b1",
    .promises = AT_PROMISES_BACKWARD | AT_PROMISES_STATS | AT_PROMISES_DET_ON_REQUEST | AT_MODELLED,
    .arch = AT_ARCH_SM90,
    .numeric = {.p = AT_P_STORED},
    .contract = {.dead_lse = AT_DEAD_LSE_ANY, .pad = AT_PAD_ANY},
    .doc = "a model of FlashAttention 3 of February 2025, computed on the CPU",
    .data = &fa3_2025_02,
    .supports = at_flash_supports,
    .open = open_set,
    .claim = claim,
    .forward = forward,
    .backward = backward,
    .close = close_set,
};

static const at_backend modelled_fa4_b11 = {
    .name = "modelled.fa4-b11",
    .version = "4.0.0b11",
    .promises = AT_PROMISES_BACKWARD | AT_PROMISES_STATS | AT_PROMISES_DET_ON_REQUEST | AT_MODELLED,
    .arch = AT_ARCH_SM100,
    .numeric = {.p = AT_P_STORED},
    .contract = {.pad = AT_PAD_ANY},
    .doc = "a model of FlashAttention 4, 4.0.0b11, on sm100, computed on the CPU",
    .data = &fa4_b11,
    .supports = at_flash_supports,
    .open = open_set,
    .claim = claim,
    .forward = forward,
    .backward = backward,
    .close = close_set,
};

const at_backend *const at_backends_modelled[] = {&modelled_fa3_2025_02, &modelled_fa4_b11, NULL};
