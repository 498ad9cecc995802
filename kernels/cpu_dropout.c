/* The dropout mask of the CPU backends: a function of seed and place, so that the backward can make
 * it again, whatever the tiles. Source of the mixing function: splitmix64 (Steele et al. 2014). */
#include "kernels/kernels.h"

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

void at_cpu_dropout(float *keep, const at_case *c, int64_t b, int64_t h, int64_t i, int64_t key,
                    int64_t n)
{
    const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t row = (uint64_t)((b * c->heads_q + h) * (c->len_q + 1) + i);
    uint64_t state = mix(c->seed + step * (row + 1));
    uint64_t dropped = (uint64_t)(c->dropout * 0x1p32);
    for (int64_t j = 0; j < n; j++) {
        keep[j] = mix(state + step * (uint64_t)(key + j + 1)) >> 32 < dropped ? 0 : 1;
    }
}

void at_cpu_hand_out_dropout(const at_problem *p)
{
    enum { SOME = 256 };
    const at_tensor *t = &p->t[AT_DROP];
    float keep[SOME];
    for (int64_t n = 0; n < t->shape[0] * t->shape[1] * t->shape[2] && t->data != NULL; n++) {
        int64_t i = n % t->shape[2], h = n / t->shape[2] % t->shape[1];
        int64_t b = n / t->shape[2] / t->shape[1];
        for (int64_t j = 0; j < t->shape[3]; j += SOME) {
            int64_t some = t->shape[3] - j < SOME ? t->shape[3] - j : SOME;
            at_cpu_dropout(keep, &p->c, b, h, i, j, some);
            at_dtype_store_float(t->dtype, at_tensor_at(t, b, h, i, j), keep, (size_t)some);
        }
    }
}
