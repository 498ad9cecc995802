#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/fast_block.h"

#include <cblas.h>
#include <math.h>

#include "harness/clones.h"
#include "reference/fast_math.h"

void at_fast_mul_nt(double *out, int64_t stride, const double *a, const double *b, int64_t m,
                    int64_t n, int64_t k, double alpha)
{
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, alpha, a, (int)k,
                b, (int)k, 0, out, (int)stride);
}

void at_fast_mul_nt_float(float *out, int64_t stride, const float *a, const float *b, int64_t m,
                          int64_t n, int64_t k)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, 1, a, (int)k, b,
                (int)k, 0, out, (int)stride);
}

void at_fast_add_nn(double *out, const double *a, const double *b, int64_t m, int64_t n, int64_t k)
{
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1, a, (int)k, b,
                (int)n, 1, out, (int)n);
}

void at_fast_add_tn(double *out, const double *a, const double *b, int64_t m, int64_t n, int64_t k)
{
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1, a, (int)m, b,
                (int)n, 1, out, (int)n);
}

void at_fast_set_nn_float(float *out, const float *a, const float *b, int64_t m, int64_t n,
                          int64_t k)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1, a, (int)k, b,
                (int)n, 0, out, (int)n);
}

void at_fast_set_tn_float(float *out, const float *a, const float *b, int64_t m, int64_t n,
                          int64_t k)
{
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1, a, (int)m, b,
                (int)n, 0, out, (int)n);
}

void at_fast_load(double *out, const at_problem *p, at_tensor_id id, int64_t b, int64_t h,
                  int64_t first, const int64_t *list, int64_t n)
{
    const at_tensor *t = &p->t[id];
    double unit = (double)p->unit[id];
    for (int64_t r = 0; r < n; r++) {
        at_tensor_load_row(t, b, h, list != NULL ? list[r] : first + r, out + r * t->shape[3]);
    }
    for (int64_t e = 0; unit != 1 && e < n * t->shape[3]; e++) {
        out[e] *= unit;
    }
}

AT_CLONES static double largest(const double *x, int64_t n)
{
    double lane[AT_FAST_LANES] = {0};
    int64_t i = 0;
    for (; i + AT_FAST_LANES <= n; i += AT_FAST_LANES) {
        for (int l = 0; l < AT_FAST_LANES; l++) {
            double size = fabs(x[i + l]);
            lane[l] = size > lane[l] ? size : lane[l];
        }
    }
    for (; i < n; i++) {
        lane[0] = fabs(x[i]) > lane[0] ? fabs(x[i]) : lane[0];
    }
    return at_fast_lanes_max(lane);
}

double at_fast_unit_of(const double *x, int64_t n)
{
    int exponent = 0;
    (void)frexp(largest(x, n), &exponent);
    return ldexp(1, -exponent);
}

AT_CLONES static void to_plain(float *restrict out, const double *restrict x, int64_t n,
                               double factor)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        out[i] = (float)(x[i] * factor);
    }
}

AT_CLONES static void to_absolute(float *restrict out, const double *restrict x, int64_t n,
                                  double factor)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        out[i] = (float)fabs(x[i] * factor);
    }
}

AT_CLONES static void to_square(float *restrict out, const double *restrict x, int64_t n,
                                double factor)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        out[i] = (float)(x[i] * factor * (x[i] * factor));
    }
}

void at_fast_floats(const at_fast_forms *out, const double *x, int64_t n, double factor)
{
    if (out->plain != NULL) {
        to_plain(out->plain, x, n, factor);
    }
    if (out->absolute != NULL) {
        to_absolute(out->absolute, x, n, factor);
    }
    if (out->square != NULL) {
        to_square(out->square, x, n, factor);
    }
}

AT_CLONES void at_fast_center(double *x, double *mean, int64_t n, int64_t dim)
{
    for (int64_t d = 0; d < dim; d++) {
        mean[d] = 0;
    }
    for (int64_t r = 0; r < n; r++) {
#pragma omp simd
        for (int64_t d = 0; d < dim; d++) {
            mean[d] += x[r * dim + d];
        }
    }
    for (int64_t d = 0; d < dim; d++) {
        mean[d] /= (double)n;
    }
    for (int64_t r = 0; r < n; r++) {
#pragma omp simd
        for (int64_t d = 0; d < dim; d++) {
            x[r * dim + d] -= mean[d];
        }
    }
}

AT_CLONES void at_fast_add_rows(double *sum, const float *x, const double *factor, int64_t m,
                                int64_t n)
{
    for (int64_t r = 0; r < m; r++) {
        double f = factor[r];
#pragma omp simd
        for (int64_t d = 0; d < n; d++) {
            sum[r * n + d] += f * (double)x[r * n + d];
        }
    }
}
