#include "harness/problem/problem.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEADER_UNIT = 64, PREFIX = 10 };

/* Magic, version 1.0, header length, a Python dict padded with blanks so that the data begins at a
 * multiple of 64. Source: numpy.lib.format. */
static void write_header(FILE *file, const char *descr, const int64_t *shape, int rank)
{
    char dict[256], dims[128] = "";
    size_t used = 0;
    for (int i = 0; i < rank; i++) {
        int n = snprintf(dims + used, sizeof dims - used, i > 0 ? ", %lld" : "%lld",
                         (long long)shape[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    (void)snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }",
                   descr, dims, rank == 1 ? "," : "");
    size_t length = strlen(dict) + 1;
    size_t padded = (PREFIX + length + HEADER_UNIT - 1) / HEADER_UNIT * HEADER_UNIT - PREFIX;
    const unsigned char prefix[PREFIX] = {0x93,
                                          'N',
                                          'U',
                                          'M',
                                          'P',
                                          'Y',
                                          1,
                                          0,
                                          (unsigned char)(padded & 0xff),
                                          (unsigned char)(padded >> 8)};
    (void)fwrite(prefix, 1, sizeof prefix, file);
    (void)fprintf(file, "%-*s\n", (int)padded - 1, dict);
}

static at_status open_file(FILE **out, const char *path, at_error *err)
{
    *out = fopen(path, "wb");
    return *out != NULL ? AT_OK
                        : at_fail(err, AT_IO, "%s: cannot be written (%s)", path, strerror(errno));
}

static at_status close_file(FILE *file, const char *path, at_error *err)
{
    bool failed = ferror(file) != 0;
    int reason = errno;
    if (fclose(file) != 0 && !failed) {
        failed = true;
        reason = errno;
    }
    return failed ? at_fail(err, AT_IO, "%s: cannot be written (%s)", path, strerror(reason))
                  : AT_OK;
}

static void write_row(FILE *file, const at_tensor *t, int64_t b, int64_t h, int64_t s)
{
    size_t size = at_dtype_size(t->dtype);
    for (int64_t d = 0; d < t->shape[3]; d++) {
        const void *bits = at_tensor_at(t, b, h, s, d);
        float x = 0;
        if (t->dtype != AT_BF16 && t->dtype != AT_F8E4M3 && t->dtype != AT_F8E5M2) {
            (void)fwrite(bits, size, 1, file);
        } else {
            at_dtype_load_float(t->dtype, &x, bits, 1);
            (void)fwrite(&x, sizeof x, 1, file);
        }
    }
}

/* A packed sequence ends before the array's len does: those rows are written as NaN. */
static void write_absent_row(FILE *file, const at_tensor *t)
{
    const unsigned char half[2] = {0x00, 0x7e};
    const float single = (float)NAN;
    for (int64_t d = 0; d < t->shape[3]; d++) {
        if (t->dtype == AT_F16) {
            (void)fwrite(half, sizeof half, 1, file);
        } else {
            (void)fwrite(&single, sizeof single, 1, file);
        }
    }
}

at_status at_npy_write_tensor(const char *path, const at_tensor *t, const int64_t *len,
                              at_error *err)
{
    FILE *file = NULL;
    AT_TRY(open_file(&file, path, err));
    const char *descr = t->dtype == AT_F16   ? "<f2"
                        : t->dtype == AT_U8  ? "|u1"
                        : t->dtype == AT_I32 ? "<i4"
                                             : "<f4";
    write_header(file, descr, t->shape, 4);
    for (int64_t row = 0; row < t->shape[0] * t->shape[1] * t->shape[2]; row++) {
        int64_t s = row % t->shape[2], h = row / t->shape[2] % t->shape[1];
        int64_t b = row / t->shape[2] / t->shape[1];
        if (t->start != NULL && len != NULL && s >= len[b]) {
            write_absent_row(file, t);
        } else {
            write_row(file, t, b, h, s);
        }
    }
    return close_file(file, path, err);
}

at_status at_npy_write_double(const char *path, const double *values, const int64_t *shape,
                              int rank, at_error *err)
{
    FILE *file = NULL;
    size_t n = 1;
    AT_TRY(open_file(&file, path, err));
    write_header(file, "<f8", shape, rank);
    for (int i = 0; i < rank; i++) {
        n *= (size_t)shape[i];
    }
    (void)fwrite(values, sizeof *values, n, file);
    return close_file(file, path, err);
}
