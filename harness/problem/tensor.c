#include "harness/problem/tensor.h"

int64_t at_tensor_offset(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t d)
{
    if (t->pages != NULL) {
        int64_t page = t->pages[b * t->pages_wide + s / t->page];
        return page * t->stride[0] + h * t->stride[1] + s % t->page * t->stride[2] +
               d * t->stride[3];
    }
    int64_t outer = t->start != NULL ? t->start[b] * t->stride[2] : b * t->stride[0];
    return outer + h * t->stride[1] + s * t->stride[2] + d * t->stride[3];
}

void *at_tensor_at(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t d)
{
    unsigned char *bytes = t->data;
    return bytes + at_tensor_offset(t, b, h, s, d) * (int64_t)at_dtype_size(t->dtype);
}

double at_tensor_get(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t d)
{
    double x = 0;
    at_dtype_load_double(t->dtype, &x, at_tensor_at(t, b, h, s, d), 1);
    return x;
}

void at_tensor_set(const at_tensor *t, int64_t b, int64_t h, int64_t s, int64_t d, double x)
{
    at_dtype_store_double(t->dtype, at_tensor_at(t, b, h, s, d), &x, 1);
}

void at_tensor_load_row(const at_tensor *t, int64_t b, int64_t h, int64_t s, double *out)
{
    if (t->stride[3] == 1) {
        at_dtype_load_double(t->dtype, out, at_tensor_at(t, b, h, s, 0), (size_t)t->shape[3]);
        return;
    }
    for (int64_t d = 0; d < t->shape[3]; d++) {
        at_dtype_load_double(t->dtype, out + d, at_tensor_at(t, b, h, s, d), 1);
    }
}

void at_tensor_load_row_float(const at_tensor *t, int64_t b, int64_t h, int64_t s, float *out)
{
    if (t->stride[3] == 1) {
        at_dtype_load_float(t->dtype, out, at_tensor_at(t, b, h, s, 0), (size_t)t->shape[3]);
        return;
    }
    for (int64_t d = 0; d < t->shape[3]; d++) {
        at_dtype_load_float(t->dtype, out + d, at_tensor_at(t, b, h, s, d), 1);
    }
}

void at_tensor_store_row_float(const at_tensor *t, int64_t b, int64_t h, int64_t s, const float *in)
{
    if (t->stride[3] == 1) {
        at_dtype_store_float(t->dtype, at_tensor_at(t, b, h, s, 0), in, (size_t)t->shape[3]);
        return;
    }
    for (int64_t d = 0; d < t->shape[3]; d++) {
        at_dtype_store_float(t->dtype, at_tensor_at(t, b, h, s, d), in + d, 1);
    }
}
