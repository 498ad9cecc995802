#include "kernels/cpu_tile.h"

#include <string.h>

#include "harness/clones.h"
#include "kernels/cpu_lane.h"

enum { BLOCK_ROWS = 6, CHUNK = 16 };

/* Rows are aligned to it by contract. */
typedef float vector __attribute__((vector_size(64), aligned(64), may_alias));

int at_tile_lanes(int n)
{
    return (n + AT_TILE_LANES - 1) / AT_TILE_LANES * AT_TILE_LANES;
}

int at_tile_stride(int n)
{
    return at_tile_lanes(n) + AT_TILE_LANES;
}

AT_CLONES static void round_bf16(float *x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        x[i] = at_lane_bf16(x[i]);
    }
}

AT_CLONES static void round_f16(float *x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        x[i] = at_lane_f16(x[i]);
    }
}

AT_CLONES static void round_f8e4m3(float *x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        x[i] = at_lane_f8e4m3(x[i]);
    }
}

AT_CLONES static void round_f8e5m2(float *x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        x[i] = at_lane_f8e5m2(x[i]);
    }
}

void at_tile_round(at_tile_rounding rounding, float *x, size_t n)
{
    switch (rounding) {
    case AT_TILE_KEEP:
        break;
    case AT_TILE_BF16:
        round_bf16(x, n);
        break;
    case AT_TILE_F16:
        round_f16(x, n);
        break;
    case AT_TILE_BF16_ZERO:
        for (size_t i = 0; i < n; i++) {
            x[i] = at_lane_float(at_lane_bits(x[i]) & 0xffff0000U);
        }
        break;
    case AT_TILE_F16_ZERO:
        for (size_t i = 0; i < n; i++) {
            x[i] = at_lane_f16_zero(x[i]);
        }
        break;
    case AT_TILE_F8E4M3:
        round_f8e4m3(x, n);
        break;
    case AT_TILE_F8E5M2:
        round_f8e5m2(x, n);
        break;
    default:
        AT_ASSERT(false);
    }
}

AT_CLONES static void load_bf16(float *out, const uint16_t *in, int n)
{
#pragma omp simd
    for (int i = 0; i < n; i++) {
        out[i] = at_lane_float((uint32_t)in[i] << 16);
    }
}

/* The exponent is rebased by a multiplication, which also makes subnormals right. */
AT_CLONES static void load_f16(float *out, const uint16_t *in, int n)
{
#pragma omp simd
    for (int i = 0; i < n; i++) {
        uint32_t size = in[i] & 0x7fffU, sign = (uint32_t)(in[i] & 0x8000U) << 16;
        float finite = at_lane_float(size << 13) * 0x1p112F;
        uint32_t special = 0x7f800000U | size << 13;
        out[i] = at_lane_float(sign | (size >= 0x7c00U ? special : at_lane_bits(finite)));
    }
}

void at_tile_load(at_dtype dtype, float *out, const void *in, int n)
{
    if (dtype == AT_BF16) {
        load_bf16(out, in, n);
    } else if (dtype == AT_F16) {
        load_f16(out, in, n);
    } else if (dtype == AT_F32) {
        memcpy(out, in, (size_t)n * sizeof *out);
    } else {
        at_dtype_load_float(dtype, out, in, (size_t)n);
    }
}

AT_CLONES static void store_bf16(uint16_t *out, const float *in, int n)
{
#pragma omp simd
    for (int i = 0; i < n; i++) {
        uint32_t quiet = in[i] != in[i] ? 0x400000U : 0;
        out[i] = (uint16_t)((at_lane_bits(at_lane_bf16(in[i])) | quiet) >> 16);
    }
}

AT_CLONES static void store_f16(uint16_t *out, const float *in, int n)
{
#pragma omp simd
    for (int i = 0; i < n; i++) {
        float rounded = at_lane_f16(in[i]);
        uint32_t bits = at_lane_bits(rounded), sign = bits >> 16 & 0x8000U,
                 size = bits & 0x7fffffffU;
        uint32_t finite = at_lane_bits(at_lane_float(size) * 0x1p-112F) >> 13;
        uint32_t special = 0x7c00U | (size > 0x7f800000U ? 0x200U : 0);
        out[i] = (uint16_t)(sign | (size >= 0x7f800000U ? special : finite));
    }
}

void at_tile_store(at_dtype dtype, void *out, const float *in, int n)
{
    if (dtype == AT_BF16) {
        store_bf16(out, in, n);
    } else if (dtype == AT_F16) {
        store_f16(out, in, n);
    } else if (dtype == AT_F32) {
        memcpy(out, in, (size_t)n * sizeof *in);
    } else {
        at_dtype_store_float(dtype, out, in, (size_t)n);
    }
}

/* `rows` rows by one vector of C, over the summands e.. of one chunk; rows is a constant at every
 * call, so that the sums stay in registers. */
AT_LANE void multiply_block(const at_tile_product *t, int rows, int i, int j, int e)
{
    const float *a = t->a + (ptrdiff_t)i * t->a_m + (ptrdiff_t)e * t->a_k;
    const float *b = t->b + (ptrdiff_t)e * t->b_k + j;
    float *c = t->c + (ptrdiff_t)i * t->c_m + j;
    int end = e + CHUNK < t->k ? e + CHUNK : t->k;
    vector sum[BLOCK_ROWS];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        sum[r] = (vector){0};
    }
    for (; e < end; e++) {
        vector row = *(const vector *)b;
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            sum[r] += a[(ptrdiff_t)r * t->a_m] * row;
        }
        a += t->a_k;
        b += t->b_k;
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        *(vector *)(c + (ptrdiff_t)r * t->c_m) += sum[r];
    }
}

AT_LANE void multiply_chunk(const at_tile_product *t, int j, int e)
{
    int i = 0;
    for (; i + BLOCK_ROWS <= t->m; i += BLOCK_ROWS) {
        multiply_block(t, BLOCK_ROWS, i, j, e);
    }
    switch (t->m - i) {
    case 5:
        multiply_block(t, 5, i, j, e);
        break;
    case 4:
        multiply_block(t, 4, i, j, e);
        break;
    case 3:
        multiply_block(t, 3, i, j, e);
        break;
    case 2:
        multiply_block(t, 2, i, j, e);
        break;
    case 1:
        multiply_block(t, 1, i, j, e);
        break;
    default:
        break;
    }
}

AT_CLONES static void multiply(const at_tile_product *t)
{
    for (int e = 0; e < t->k; e += CHUNK) {
        for (int j = 0; j < t->n; j += AT_TILE_LANES) {
            multiply_chunk(t, j, e);
        }
    }
}

AT_CLONES static float dot(const float *a, const float *b, int n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

float at_tile_dot(const float *a, const float *b, int n)
{
    return dot(a, b, n);
}

AT_CLONES static void scale_rows(at_tile x, const float *factor)
{
    for (int r = 0; r < x.rows; r++) {
        float *row = x.x + (ptrdiff_t)r * x.stride;
#pragma omp simd
        for (int i = 0; i < x.lanes; i++) {
            row[i] *= factor[r];
        }
    }
}

void at_tile_scale_rows(at_tile x, const float *factor)
{
    scale_rows(x, factor);
}

void at_tile_multiply(const at_tile_product *product)
{
    multiply(product);
}
