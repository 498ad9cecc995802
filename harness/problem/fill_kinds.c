#include "harness/problem/fill.h"

#include "harness/clones.h"

/* Sum of six bytes and a 16-bit fraction, each uniform: sigma 1.0024, at most 4.578, symmetric and
 * never 0. 19 bits times 21 fit the 24 bits of a float: exact. 21 * 2^-21 is nearest to
 * 1 / (2 sigma) with so few bits. */
static inline float normal(uint32_t low, uint32_t high)
{
    uint32_t pairs = (low & 0xff00ffU) + ((low >> 8) & 0xff00ffU);
    uint32_t bytes = (pairs & 0xffffU) + (pairs >> 16) + (high >> 24) + ((high >> 16) & 0xffU);
    int32_t sum = (int32_t)(bytes * 256U + (high & 0xffffU));
    return (float)((2 * sum - 457215) * 21) * 0x1p-21F;
}

AT_CLONES static void fill_normal(float *restrict out, size_t n, const uint32_t *restrict low,
                                  const uint32_t *restrict high, float amp)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = normal(low[i], high[i]) * amp;
    }
}

void at_fill_plan_init(at_fill_plan *out, const at_case *c, at_tensor_id tensor)
{
    AT_ASSERT(tensor <= AT_DO);
    bool is_query = tensor == AT_Q || tensor == AT_DO;
    *out = (at_fill_plan){
        .fill = (at_fill)c->fill,
        .tensor = tensor,
        .seed = c->seed,
        .heads = is_query         ? c->heads_q
                 : tensor == AT_K ? c->heads_kv
                                  : c->heads_v,
        .len = is_query ? c->len_q : c->len_kv,
        .dim = tensor == AT_Q || tensor == AT_K ? c->dim_qk : c->dim_v,
        .amp = 1,
    };
    AT_ASSERT(out->dim <= AT_FILL_DIM_MAX);
    out->heads_group = out->heads / c->heads_v;
}

void at_fill_shape(float *out, const at_fill_plan *plan, const at_fill_block *block,
                   const uint32_t *low, const uint32_t *high)
{
    fill_normal(out, (size_t)(block->rows * plan->dim), low, high, plan->amp);
}
