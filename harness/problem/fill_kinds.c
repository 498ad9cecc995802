/* The distributions of the case language (key `fill`). N is a normal value of the element, g =
 * |scale| sqrt(dim_qk) (1 by default), sgn(d) the Thue-Morse sign of d. All values are finite in
 * the storage type; do is signed and dense in each. Factors of q and k that make up for g are
 * powers of two and stay where the type keeps its precision: fp8 cannot follow a scale far from
 * auto.
 *
 * normal      q k v do = N. Scores have standard deviation g.
 * small_int   q k v in {0 x10, +-1 x2, +-2} of 16, do in {+-1 x3, +-2} of 8. Products and sums of q
 * k and do v are exact in every type and order, so an error elsewhere stands alone; a row of one
 * key, or of 2^n equal ones, has exact answers. uniform01   q k v in (0, 1), do = N. One-signed
 * sums do not cancel: rules that rely on a flat tolerance lose their power. outlier     N, one in
 * 256 times 16. Source: FlashAttention-3 (Shah et al. 2024), section 4.3, which takes one in 1000
 * from N(0, 100). peaky       q = 2^n N with score deviation in (8, 16]: softmax near one-hot, dS
 * cancels. lowrank     mean + w1 dir1 + w2 dir2 / 2 + N / 8, weights by row, directions by head:
 * what real activations look like, rows that share a direction and rounding errors that add up.
 * deep_neg    q in base (1, 1.5), k in -base' (1, 1.5): every logit of a row <= -100, and LSE <
 *             -88.7, so that exp(-LSE) overflows in f32. Holds while softcap is off, scale is not 0
 *             and the type has the range. v do = N.
 * sink_heavy  key 0 = c sgn(d), q = N + c' sgn(d), other keys smaller: key 0 takes about 0.9 of
 *             the rows that see it, as first tokens do. Its v is N / 8, as in real models, so that
 *             the other keys show in o. do = N.
 * constant    k = sgn(d) C (1 + N/16), v likewise with the sign of d & 1, C = 1024 (256 in e4m3);
 *             q = 2^n N so that a row's logits share about 16 N and differ by about 1, do = N / 16.
 *             Softmax and dS must remove a common part that is 16 times the rest.
 * denormal    v is subnormal (deviation half the smallest normal number) and do = 64 N; the other
 *             way round where seed + head of v is odd. Scores stay ordinary, o (or dv), dq and dk
 *             come near or below the smallest normal number: flushing to zero shows. */
#include "harness/problem/fill.h"

#include <math.h>

#include "harness/clones.h"

/* Ones among 48 bits plus a 13-bit fraction: 49 uniforms, sigma 1.0048, kurtosis 2.96, at
 * most 7.08, symmetric and never 0. 19 bits times 37 fit the 24 bits of a float: exact. 37 * 2^-21
 * is nearest to 1 / (2 sigma) with so few bits. Bits 13 to 15 of `high` stay unused. */
static inline float normal(uint32_t low, uint32_t high)
{
    uint32_t more = high >> 16;
    low = low - ((low >> 1) & 0x55555555U);
    more = more - ((more >> 1) & 0x55555555U);
    uint32_t nibbles = (low & 0x33333333U) + ((low >> 2) & 0x33333333U) + (more & 0x33333333U) +
                       ((more >> 2) & 0x33333333U);
    uint32_t bytes = (nibbles & 0x0f0f0f0fU) + ((nibbles >> 4) & 0x0f0f0f0fU);
    uint32_t ones = (bytes * 0x01010101U) >> 24;
    int32_t sum = (int32_t)(ones * 8192U + (high & 0x1fffU));
    return (float)((2 * sum - 401407) * 37) * 0x1p-21F;
}

AT_CLONES static void scaled_normal(float *restrict out, size_t n, float amp,
                                    const uint32_t *restrict low, const uint32_t *restrict high)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        out[i] = normal(low[i], high[i]) * amp;
    }
}

static size_t count(const at_fill_plan *plan, const at_fill_block *block)
{
    return (size_t)(block->rows * plan->dim);
}

static void make_normal(float *out, const at_fill_plan *plan, const at_fill_block *block,
                        const uint32_t *low, const uint32_t *high)
{
    scaled_normal(out, count(plan, block), plan->amp, low, high);
}

static void make_shifted(float *out, const at_fill_plan *plan, const at_fill_block *block,
                         const uint32_t *low, const uint32_t *high)
{
    scaled_normal(out, count(plan, block), plan->amp, low, high);
    for (size_t i = 0; i < count(plan, block); i++) {
        out[i] = out[i] + plan->base;
    }
}

static void make_small_int(float *out, const at_fill_plan *plan, const at_fill_block *block,
                           const uint32_t *low, const uint32_t *high)
{
    static const float sparse[16] = {-2, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2};
    static const float dense[16] = {-2, -2, -1, -1, -1, -1, -1, -1, 1, 1, 1, 1, 1, 1, 2, 2};
    const float *values = plan->tensor == AT_DO ? dense : sparse;
    (void)low;
    for (size_t i = 0; i < count(plan, block); i++) {
        out[i] = values[high[i] >> 28];
    }
}

static void make_uniform01(float *out, const at_fill_plan *plan, const at_fill_block *block,
                           const uint32_t *low, const uint32_t *high)
{
    (void)low;
    for (size_t i = 0; i < count(plan, block); i++) {
        out[i] = (float)(2 * (int32_t)(high[i] >> 9) + 1) * 0x1p-24F;
    }
}

/* The unused bits and the last ones of the fraction decide, which hardly move the value itself. */
static void make_outlier(float *out, const at_fill_plan *plan, const at_fill_block *block,
                         const uint32_t *low, const uint32_t *high)
{
    for (size_t i = 0; i < count(plan, block); i++) {
        out[i] = normal(low[i], high[i]) * ((high[i] & 0xe01fU) == 0 ? 16.0F : 1.0F);
    }
}

enum { DIRECTIONS = 3 }; /* the mean and two more */

static void make_lowrank(float *out, const at_fill_plan *plan, const at_fill_block *block,
                         const uint32_t *low, const uint32_t *high)
{
    uint32_t low2[AT_FILL_DIM_MAX], high2[AT_FILL_DIM_MAX];
    float direction[DIRECTIONS][AT_FILL_DIM_MAX];
    int64_t dim = plan->dim;
    for (int r = 0; r < DIRECTIONS; r++) {
        at_fill_words(low2, high2, plan->seed, (uint32_t)plan->tensor + AT_STREAM_DIRECTION,
                      (block->h * DIRECTIONS + r) * dim, dim);
        scaled_normal(direction[r], (size_t)dim, r == 2 ? 0.5F : 1.0F, low2, high2);
    }
    scaled_normal(out, count(plan, block), 0.125F, low, high);
    for (int64_t row = 0; row < block->rows; row++) {
        float w[2], *x = out + row * dim;
        int64_t index = (block->b * plan->heads + block->h) * plan->len + block->s + row;
        at_fill_words(low2, high2, plan->seed, (uint32_t)plan->tensor + AT_STREAM_WEIGHT, 2 * index,
                      2);
        scaled_normal(w, 2, 1, low2, high2);
        for (int64_t d = 0; d < dim; d++) {
            x[d] = ((direction[0][d] + w[0] * direction[1][d]) + w[1] * direction[2][d]) + x[d];
        }
    }
}

/* base (1 + u/2), u a uniform of 19 bits: 21 bits times the three of the base are exact. */
static void make_one_sided(float *out, const at_fill_plan *plan, const at_fill_block *block,
                           const uint32_t *low, const uint32_t *high)
{
    (void)low;
    for (size_t i = 0; i < count(plan, block); i++) {
        out[i] = (float)((1 << 20) + (int32_t)(high[i] >> 13)) * 0x1p-20F * plan->base;
    }
}

static float sign_of(int64_t d)
{
    return __builtin_parityll((unsigned long long)d) ? -1.0F : 1.0F;
}

static void make_sink_query(float *out, const at_fill_plan *plan, const at_fill_block *block,
                            const uint32_t *low, const uint32_t *high)
{
    scaled_normal(out, count(plan, block), 1, low, high);
    for (int64_t i = 0; i < block->rows * plan->dim; i++) {
        out[i] = out[i] + plan->base * sign_of(i % plan->dim);
    }
}

static void make_sink_key(float *out, const at_fill_plan *plan, const at_fill_block *block,
                          const uint32_t *low, const uint32_t *high)
{
    scaled_normal(out, count(plan, block), plan->amp, low, high);
    for (int64_t d = 0; d < plan->dim && block->s == 0; d++) {
        out[d] = plan->base * sign_of(d);
    }
}

static void make_sink_value(float *out, const at_fill_plan *plan, const at_fill_block *block,
                            const uint32_t *low, const uint32_t *high)
{
    scaled_normal(out, count(plan, block), 1, low, high);
    for (int64_t d = 0; d < plan->dim && block->s == 0; d++) {
        out[d] *= 0.125F;
    }
}

static void make_constant(float *out, const at_fill_plan *plan, const at_fill_block *block,
                          const uint32_t *low, const uint32_t *high)
{
    scaled_normal(out, count(plan, block), plan->base / 16, low, high);
    for (int64_t i = 0; i < block->rows * plan->dim; i++) {
        int64_t d = i % plan->dim;
        float sign = plan->tensor == AT_K ? sign_of(d) : d % 2 != 0 ? -1.0F : 1.0F;
        out[i] = (out[i] + plan->base) * sign;
    }
}

static void make_denormal(float *out, const at_fill_plan *plan, const at_fill_block *block,
                          const uint32_t *low, const uint32_t *high)
{
    int64_t head = plan->heads_shared > 0 ? block->h / plan->heads_shared : block->h;
    bool even = ((plan->seed + (uint64_t)head) & 1) == 0;
    scaled_normal(out, count(plan, block), even == plan->tiny_first ? plan->amp : plan->rest, low,
                  high);
}

/* Exponents of powers of two that a normal value can take as a factor, and the smallest normal
 * number. */
static const struct {
    int low, high;
    float least;
} ranges[AT_DTYPE_COUNT] = {
    [AT_F32] = {-60, 60, 0x1p-126F},   [AT_F16] = {-10, 13, 0x1p-14F},
    [AT_BF16] = {-60, 60, 0x1p-126F},  [AT_F8E4M3] = {-4, 6, 0x1p-6F},
    [AT_F8E5M2] = {-10, 13, 0x1p-14F},
};

/* The largest power of two <= x (a last-bit error of x aside) within 2^low..2^high. */
static double clamped_power(double x, int low, int high)
{
    double power = 1, reach = x * (1 + 0x1p-30);
    for (int e = 0; e < high && power * 2 <= reach; e++) {
        power *= 2;
    }
    for (int e = 0; e > low && power > reach; e--) {
        power /= 2;
    }
    return power;
}

static double power_below(double x, at_dtype dtype)
{
    return clamped_power(x, ranges[dtype].low, ranges[dtype].high);
}

static int bit_length(int64_t n)
{
    int bits = 0;
    for (; n > 0; n >>= 1) {
        bits++;
    }
    return bits;
}

typedef struct scale_of {
    double scale, g; /* g > 0 */
} scale_of;

static scale_of scale_of_case(const at_case *c)
{
    double root = sqrt((double)c->dim_qk);
    scale_of s = {.scale = c->scale == AT_SCALE_AUTO ? 1 / root : c->scale};
    s.g = s.scale != 0 ? fabs(s.scale) * root : 1;
    return s;
}

/* The least q k of one element is `need`, met by q = 1, 1.25, 1.5 or 1.75 times a power of two and
 * k a power of two: all types hold them, so that rounding cannot go below. LSE is at most
 * ln(len_kv) above the largest logit: ln(2^16) < 11.1, and 1 for each bit more. */
static void plan_deep_neg(at_fill_plan *plan, const at_case *c)
{
    scale_of s = scale_of_case(c);
    at_dtype dtype = (at_dtype)c->dtype;
    int extra = bit_length(c->len_kv) - 16;
    double target = 101 + (extra > 0 ? extra : 0);
    double need = target / (s.g * sqrt((double)c->dim_qk));
    /* Values reach 3 times the power at most, where normal ones reach 7: one bit more of range. */
    int low = ranges[dtype].low, high = ranges[dtype].high + 1;
    double k = clamped_power(sqrt(need), low, high);
    double q = clamped_power(need / k, low, high), step = q / 4;
    for (int i = 0; i < 4 && q * k < need; i++) {
        q += step;
    }
    plan->make = plan->tensor == AT_Q || plan->tensor == AT_K ? make_one_sided : make_normal;
    plan->base = (float)(plan->tensor == AT_Q ? q : s.scale < 0 ? k : -k);
}

/* Key 0's mean logit is 2 plus ln 2 for each bit of len_kv (and a little), that of the others' sum
 * at most ln(len_kv) + 1/2. More, and nothing but key 0 would show in any result. */
static void plan_sink_heavy(at_fill_plan *plan, const at_case *c)
{
    scale_of s = scale_of_case(c);
    at_dtype dtype = (at_dtype)c->dtype;
    double alpha = power_below(1 / s.g, dtype);
    double logit = 2 + 0.7 * bit_length(c->len_kv);
    double shift = logit / (s.g * alpha * sqrt((double)c->dim_qk));
    double most = at_dtype_max(dtype) / 8;
    shift = shift <= most ? shift : most;
    if (plan->tensor == AT_Q) {
        plan->make = make_sink_query;
        plan->base = (float)shift;
    } else if (plan->tensor == AT_K) {
        plan->make = make_sink_key;
        plan->base = (float)(s.scale < 0 ? -alpha : alpha);
        plan->amp = (float)power_below(1 / (s.g * sqrt(1 + shift * shift)), dtype);
    } else if (plan->tensor == AT_V) {
        plan->make = make_sink_value;
    }
}

static void plan_constant(at_fill_plan *plan, const at_case *c)
{
    at_dtype dtype = (at_dtype)c->dtype;
    double base = dtype == AT_F8E4M3 ? 256 : 1024;
    if (plan->tensor == AT_K || plan->tensor == AT_V) {
        plan->make = make_constant;
        plan->base = (float)base;
    } else {
        plan->amp = plan->tensor == AT_DO
                        ? 0.0625F
                        : (float)power_below(16 / (base * scale_of_case(c).g), dtype);
    }
}

static void plan_denormal(at_fill_plan *plan, const at_case *c)
{
    if (plan->tensor == AT_V || plan->tensor == AT_DO) {
        plan->make = make_denormal;
        plan->amp = ranges[plan->tensor == AT_V ? c->dtype : c->odt].least / 2;
        plan->rest = 64;
        plan->tiny_first = plan->tensor == AT_V;
    }
}

static void plan_kind(at_fill_plan *plan, const at_case *c)
{
    switch ((at_fill)c->fill) {
    case AT_FILL_NORMAL:
        break;
    case AT_FILL_SMALL_INT:
        plan->make = make_small_int;
        break;
    case AT_FILL_UNIFORM01:
        plan->make = plan->tensor == AT_DO ? make_normal : make_uniform01;
        break;
    case AT_FILL_OUTLIER:
        plan->make = make_outlier;
        break;
    case AT_FILL_PEAKY:
        plan->amp = plan->tensor == AT_Q
                        ? (float)power_below(16 / scale_of_case(c).g, (at_dtype)c->dtype)
                        : 1.0F;
        break;
    case AT_FILL_LOWRANK:
        plan->make = make_lowrank;
        break;
    case AT_FILL_DEEP_NEG:
        plan_deep_neg(plan, c);
        break;
    case AT_FILL_SINK_HEAVY:
        plan_sink_heavy(plan, c);
        break;
    case AT_FILL_CONSTANT:
        plan_constant(plan, c);
        break;
    case AT_FILL_DENORMAL:
        plan_denormal(plan, c);
        break;
    }
}

void at_fill_plan_init(at_fill_plan *out, const at_case *c, at_tensor_id tensor)
{
    AT_ASSERT(tensor <= AT_DO);
    bool is_query = tensor == AT_Q || tensor == AT_DO;
    *out = (at_fill_plan){
        .tensor = tensor,
        .seed = c->seed,
        .heads = is_query         ? c->heads_q
                 : tensor == AT_K ? c->heads_kv
                                  : c->heads_v,
        .heads_shared = tensor != AT_DO                    ? 1
                        : c->stride == AT_STRIDE_EXPAND_KV ? c->heads_q
                                                           : c->heads_q / c->heads_v,
        .len = is_query ? c->len_q : c->len_kv,
        .dim = tensor == AT_Q || tensor == AT_K ? c->dim_qk : c->dim_v,
        .amp = 1,
        .make = make_normal,
    };
    bool expanded = c->stride == AT_STRIDE_EXPAND_KV && (tensor == AT_K || tensor == AT_V);
    out->one_batch = expanded && out->heads == 1 && c->layout != AT_THD && c->page == 0;
    out->one_head = expanded && !out->one_batch;
    AT_ASSERT(out->dim <= AT_FILL_DIM_MAX);
    plan_kind(out, c);
}

/* Mean logit of deep_neg, as plan_deep_neg makes it: (1.25 need)^2 over dim_qk elements. */
static float deep_logit(const at_case *c)
{
    int extra = bit_length(c->len_kv) - 16;
    return -1.5625F * (float)(101 + (extra > 0 ? extra : 0));
}

void at_fill_plan_flat(at_fill_plan *out, const at_case *c, at_tensor_id tensor, int64_t n)
{
    bool deep = c->fill == AT_FILL_DEEP_NEG, sink = tensor == AT_SINK;
    *out = (at_fill_plan){.tensor = tensor, .seed = c->seed, .dim = n, .make = make_shifted};
    out->amp = sink && c->fill == AT_FILL_PEAKY ? 16 : 1;
    out->base = sink ? 0.625F * (float)bit_length(c->len_kv) : 0;
    out->base += deep ? (sink ? deep_logit(c) : -8) : 0;
    if (c->fill == AT_FILL_SMALL_INT) {
        out->make = make_small_int;
    } else if (c->fill == AT_FILL_UNIFORM01 && !sink) {
        out->make = make_uniform01;
    } else if (c->fill == AT_FILL_OUTLIER && !sink) {
        out->make = make_outlier;
    }
}
