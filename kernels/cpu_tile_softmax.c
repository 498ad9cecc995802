#include "kernels/cpu_tile.h"

#include "harness/clones.h"
#include "kernels/cpu_lane.h"

static const float log2_e = 1.44269504F;

AT_LANE float power_lane(bool base2, float x)
{
    return base2 ? at_lane_exp2(x) : at_lane_exp(x);
}

AT_CLONES static void cap_row(float *s, float *slope, float in, float out, int n)
{
#pragma omp simd
    for (int i = 0; i < n; i++) {
        s[i] = out * at_lane_tanh(in * s[i], slope + i);
    }
}

AT_CLONES static void scale_row(float *s, float factor, int n)
{
#pragma omp simd
    for (int i = 0; i < n; i++) {
        s[i] *= factor;
    }
}

void at_tile_score(const at_tile_softmax *how, at_tile s, float *slope)
{
    float base = how->base2 ? log2_e : 1.0F;
    for (int r = 0; r < s.rows; r++) {
        float *row = s.x + (ptrdiff_t)r * s.stride;
        if (how->cap > 0) {
            cap_row(row, slope + (ptrdiff_t)r * s.stride, how->scale / how->cap, how->cap * base,
                    s.lanes);
        } else {
            scale_row(row, how->scale * base, s.lanes);
        }
    }
}

AT_CLONES static void mask_tile(at_tile s, int key, const int *first, const int *last)
{
    for (int r = 0; r < s.rows; r++, key++) {
        float *row = s.x + (ptrdiff_t)r * s.stride;
#pragma omp simd
        for (int i = 0; i < s.lanes; i++) {
            row[i] = (first[i] <= key && key <= last[i]) ? row[i] : -HUGE_VALF;
        }
    }
}

void at_tile_mask(at_tile s, int key, const int *first, const int *last)
{
    mask_tile(s, key, first, last);
}

AT_CLONES static void mask_tile_rows(at_tile s, int key, const int *first, const int *last)
{
    for (int r = 0; r < s.rows; r++) {
        float *row = s.x + (ptrdiff_t)r * s.stride;
        int low = first[r] - key, high = last[r] - key;
#pragma omp simd
        for (int i = 0; i < s.lanes; i++) {
            row[i] = (low <= i && i <= high) ? row[i] : -HUGE_VALF;
        }
    }
}

void at_tile_mask_rows(at_tile s, int key, const int *first, const int *last)
{
    mask_tile_rows(s, key, first, last);
}

enum { CHUNK = 16 };

/* P of rows r..end-1 in place, their sum added to `sum`. */
AT_LANE void power_rows(bool base2, at_tile s, int r, int end, const float *shift, float *sum)
{
    float own[AT_TILE_MAX];
    for (int i = 0; i < s.lanes; i++) {
        own[i] = 0;
    }
    for (; r < end; r++) {
        float *row = s.x + (ptrdiff_t)r * s.stride;
#pragma omp simd
        for (int i = 0; i < s.lanes; i++) {
            row[i] = power_lane(base2, row[i] - shift[i]);
            own[i] += row[i];
        }
    }
#pragma omp simd
    for (int i = 0; i < s.lanes; i++) {
        sum[i] += own[i];
    }
}

AT_LANE void softmax_step(bool base2, float slack, at_tile s, float *max, float *sum,
                          float *correction)
{
    float shift[AT_TILE_MAX];
    for (int i = 0; i < s.lanes; i++) {
        shift[i] = max[i];
    }
    for (int r = 0; r < s.rows; r++) {
        const float *row = s.x + (ptrdiff_t)r * s.stride;
#pragma omp simd
        for (int i = 0; i < s.lanes; i++) {
            shift[i] = row[i] > shift[i] ? row[i] : shift[i];
        }
    }
#pragma omp simd
    for (int i = 0; i < s.lanes; i++) {
        float old = max[i];
        shift[i] = shift[i] > old + slack ? shift[i] : old;
        max[i] = shift[i];
        shift[i] = shift[i] == -HUGE_VALF ? 0.0F : shift[i];
        correction[i] = power_lane(base2, old - shift[i]);
        sum[i] *= correction[i];
    }
    for (int r = 0; r < s.rows; r += CHUNK) {
        power_rows(base2, s, r, r + CHUNK < s.rows ? r + CHUNK : s.rows, shift, sum);
    }
}

AT_CLONES static void softmax_step_e(float slack, at_tile s, float *max, float *sum,
                                     float *correction)
{
    softmax_step(false, slack, s, max, sum, correction);
}

AT_CLONES static void softmax_step_2(float slack, at_tile s, float *max, float *sum,
                                     float *correction)
{
    softmax_step(true, slack, s, max, sum, correction);
}

void at_tile_softmax_step(const at_tile_softmax *how, at_tile s, float *max, float *sum,
                          float *correction)
{
    AT_ASSERT(s.lanes <= AT_TILE_MAX);
    if (how->base2) {
        softmax_step_2(how->slack, s, max, sum, correction);
    } else {
        softmax_step_e(how->slack, s, max, sum, correction);
    }
}

AT_LANE void gradient_row(bool base2, int n, float *s, float *dp, const float *lse, const float *d)
{
#pragma omp simd
    for (int i = 0; i < n; i++) {
        float p = power_lane(base2, s[i] - lse[i]);
        s[i] = p;
        dp[i] = p == 0.0F ? 0.0F : p * (dp[i] - d[i]);
    }
}

AT_CLONES static void gradient_row_e(int n, float *s, float *dp, const float *lse, const float *d)
{
    gradient_row(false, n, s, dp, lse, d);
}

AT_CLONES static void gradient_row_2(int n, float *s, float *dp, const float *lse, const float *d)
{
    gradient_row(true, n, s, dp, lse, d);
}

AT_CLONES static void multiply_row(float *out, const float *in, int n)
{
#pragma omp simd
    for (int i = 0; i < n; i++) {
        out[i] *= in[i];
    }
}

void at_tile_gradient(const at_tile_softmax *how, at_tile s, float *dp, const float *slope,
                      const float *lse, const float *d, bool by_row)
{
    AT_ASSERT(s.lanes <= AT_TILE_MAX);
    float lse_of_row[AT_TILE_MAX], d_of_row[AT_TILE_MAX];
    for (int r = 0; r < s.rows; r++) {
        ptrdiff_t at = (ptrdiff_t)r * s.stride;
        for (int i = 0; by_row && i < s.lanes; i++) {
            lse_of_row[i] = lse[r];
            d_of_row[i] = d[r];
        }
        (how->base2 ? gradient_row_2 : gradient_row_e)(
            s.lanes, s.x + at, dp + at, by_row ? lse_of_row : lse, by_row ? d_of_row : d);
        if (slope != NULL) {
            multiply_row(dp + at, slope + at, s.lanes);
        }
    }
}
