/* dtype.c: every code of the 8- and 16-bit types, every midpoint, both neighbours of every
 * midpoint. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness/problem/dtype.h"
#include "harness/problem/rng.h"

typedef struct format {
    at_dtype dtype;
    unsigned codes; /* without sign */
    int mantissa, bias;
    unsigned first_odd; /* first code that is not finite */
} format;

static const format formats[] = {
    {AT_F16, 0x8000, 10, 15, 0x7c00},
    {AT_BF16, 0x8000, 7, 127, 0x7f80},
    {AT_F8E4M3, 0x80, 3, 7, 0x7f},
    {AT_F8E5M2, 0x80, 2, 15, 0x7c},
};
enum { FORMATS = sizeof formats / sizeof *formats };

/* The value of a finite code, from the definition of the format. */
static double value_of(const format *f, unsigned code)
{
    int exponent = (int)(code >> f->mantissa);
    double fraction = (double)(code & ((1U << f->mantissa) - 1U));
    if (exponent == 0) {
        return ldexp(fraction, 1 - f->bias - f->mantissa);
    }
    return ldexp(fraction + ldexp(1, f->mantissa), exponent - f->bias - f->mantissa);
}

static double decode(at_dtype dtype, unsigned code)
{
    switch (dtype) {
    case AT_F16:
        return (double)at_f16_to_float((uint16_t)code);
    case AT_BF16:
        return (double)at_bf16_to_float((uint16_t)code);
    case AT_F8E4M3:
        return (double)at_f8e4m3_to_float((uint8_t)code);
    case AT_F8E5M2:
        return (double)at_f8e5m2_to_float((uint8_t)code);
    case AT_F32:
    case AT_U8:
    case AT_I32:
    case AT_DTYPE_COUNT:
        break;
    }
    abort();
}

static unsigned encode(at_dtype dtype, double x)
{
    switch (dtype) {
    case AT_F16:
        return at_f16_from_double(x);
    case AT_BF16:
        return at_bf16_from_double(x);
    case AT_F8E4M3:
        return at_f8e4m3_from_double(x);
    case AT_F8E5M2:
        return at_f8e5m2_from_double(x);
    case AT_F32:
    case AT_U8:
    case AT_I32:
    case AT_DTYPE_COUNT:
        break;
    }
    abort();
}

static void test_decode(void)
{
    for (int i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        unsigned wrong = 0;
        for (unsigned code = 0; code < f->first_odd; code++) {
            double want = value_of(f, code);
            wrong += decode(f->dtype, code) != want;
            wrong += decode(f->dtype, code | f->codes) != -want;
            wrong += signbit(decode(f->dtype, code | f->codes)) == 0;
        }
        CHECK_INT(wrong, 0);
        CHECK(decode(f->dtype, f->first_odd - 1) == at_dtype_max(f->dtype));
        CHECK(decode(f->dtype, 1) == at_dtype_tiny(f->dtype));
        CHECK(at_dtype_roundoff(f->dtype) == ldexp(1, -1 - f->mantissa));
    }
    CHECK(at_dtype_roundoff(AT_F32) == 0x1p-24);
}

static void test_decode_odd_codes(void)
{
    for (int i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        bool has_infinity = f->dtype != AT_F8E4M3;
        for (unsigned code = f->first_odd; code < f->codes; code++) {
            double x = decode(f->dtype, code), y = decode(f->dtype, code | f->codes);
            if (has_infinity && code == f->first_odd) {
                CHECK(x == HUGE_VAL && y == -HUGE_VAL);
            } else {
                CHECK(isnan(x) && isnan(y) && !signbit(x) && signbit(y));
            }
        }
    }
}

/* Every code, NaN payloads included, survives decode and encode. */
static void test_round_trip(void)
{
    for (int i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        unsigned wrong = 0;
        size_t size = at_dtype_size(f->dtype);
        for (unsigned code = 0; code < 2 * f->codes; code++) {
            uint32_t stored = code, back = 0;
            float x = 0;
            at_dtype_load_float(f->dtype, &x, &stored, 1);
            at_dtype_store_float(f->dtype, &back, &x, 1);
            wrong += back != code;
            wrong += (unsigned char)(back >> (8 * size)) != 0;
        }
        CHECK_INT(wrong, 0);
    }
}

/* Between neighbours a < b: the midpoint goes to the even code, its neighbours in double to the
 * nearer one. That fails for any conversion that rounds twice. */
static void test_midpoints(void)
{
    for (int i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        unsigned wrong = 0;
        for (unsigned code = 0; code + 1 < f->first_odd; code++) {
            double a = value_of(f, code), b = value_of(f, code + 1), middle = a + (b - a) / 2;
            unsigned even = code % 2 == 0 ? code : code + 1;
            wrong += encode(f->dtype, middle) != even;
            wrong += encode(f->dtype, nextafter(middle, 0)) != code;
            wrong += encode(f->dtype, nextafter(middle, HUGE_VAL)) != code + 1;
            wrong += encode(f->dtype, -middle) != (even | f->codes);
            wrong += encode(f->dtype, nextafter(-middle, 0)) != (code | f->codes);
            wrong += encode(f->dtype, nextafter(-middle, -HUGE_VAL)) != ((code + 1) | f->codes);
        }
        CHECK_INT(wrong, 0);
    }
}

static void test_overflow(void)
{
    for (int i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        double max = at_dtype_max(f->dtype);
        double half_step = (max - value_of(f, f->first_odd - 2)) / 2;
        unsigned top = f->first_odd - 1;
        /* The midpoint rounds to even: up to infinity, but down to 448, whose code is even. */
        unsigned tie = top % 2 == 0 ? top : f->first_odd;
        CHECK_INT(encode(f->dtype, max + half_step), tie);
        CHECK_INT(encode(f->dtype, nextafter(max + half_step, 0)), top);
        CHECK_INT(encode(f->dtype, nextafter(max + half_step, HUGE_VAL)), f->first_odd);
        CHECK_INT(encode(f->dtype, 1e300), f->first_odd);
        CHECK_INT(encode(f->dtype, -1e300), f->first_odd | f->codes);
        CHECK_INT(encode(f->dtype, HUGE_VAL), f->first_odd);
        CHECK_INT(encode(f->dtype, -HUGE_VAL), f->first_odd | f->codes);
        CHECK(isnan(decode(f->dtype, encode(f->dtype, (double)NAN))));
        CHECK_INT(encode(f->dtype, 1e-300), 0);
        CHECK_INT(encode(f->dtype, -1e-300), f->codes);
        CHECK_INT(encode(f->dtype, 0x1p-1074), 0);
        CHECK_INT(encode(f->dtype, at_dtype_tiny(f->dtype) / 2), 0);
        CHECK_INT(encode(f->dtype, nextafter(at_dtype_tiny(f->dtype) / 2, 1)), 1);
    }
}

/* A double of random sign and mantissa and an exponent in and around the type's range. */
static double random_double(const format *f, uint64_t i)
{
    uint64_t bits = at_rng_u64(7, (uint32_t)f->dtype, i);
    int low = 1 - f->bias - f->mantissa - 3, high = f->bias + 3;
    int exponent = low + (int)(at_rng_u64(8, (uint32_t)f->dtype, i) % (uint64_t)(high - low));
    double x = ldexp(1 + (double)(bits >> 12) * 0x1p-52, exponent);
    return (bits & 1) != 0 ? -x : x;
}

/* Nearest code by search over the table of values, ties to even. */
static unsigned nearest(const format *f, double x)
{
    double magnitude = fabs(x);
    unsigned low = 0, high = f->first_odd;
    double top = at_dtype_max(f->dtype), step = top - value_of(f, f->first_odd - 2);
    while (low + 1 < high) {
        unsigned middle = low + (high - low) / 2;
        *(value_of(f, middle) <= magnitude ? &low : &high) = middle;
    }
    double above = high == f->first_odd ? top + step : value_of(f, high);
    double down = magnitude - value_of(f, low), up = above - magnitude;
    unsigned code = down < up || (down == up && low % 2 == 0) ? low : high;
    return code | (signbit(x) ? f->codes : 0);
}

static void test_random(void)
{
    for (int i = 0; i < FORMATS; i++) {
        unsigned wrong = 0;
        for (uint64_t n = 0; n < 200000; n++) {
            double x = random_double(&formats[i], n);
            wrong += encode(formats[i].dtype, x) != nearest(&formats[i], x);
        }
        CHECK_INT(wrong, 0);
    }
}

static void test_monotone(void)
{
    for (int i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        unsigned last = 0, wrong = 0;
        double x = at_dtype_tiny(f->dtype) / 8, top = at_dtype_max(f->dtype);
        for (; x <= top; x *= 1.0009765625) {
            unsigned code = encode(f->dtype, x);
            wrong += code < last || code >= f->first_odd;
            last = code;
        }
        CHECK_INT(wrong, 0);
        CHECK(last + 1 == f->first_odd || last + 2 == f->first_odd);
    }
}

/* The compiler's own half precision, where it has one. */
static void test_compiler_half(void)
{
#if defined __FLT16_MANT_DIG__ && defined __GNUC__ && !defined __clang__
    __extension__ typedef _Float16 half;
    const format *f = &formats[0];
    unsigned wrong = 0;
    for (uint64_t n = 0; n < 200000; n++) {
        double x = random_double(f, n);
        half h = (half)x;
        uint16_t bits = 0;
        memcpy(&bits, &h, sizeof bits);
        wrong += at_f16_from_double(x) != bits;
        wrong += at_f16_to_float(bits) != (float)h;
    }
    CHECK_INT(wrong, 0);
#else
    at_test_skip("this compiler has no _Float16");
#endif
}

/* Arrays give what single values give, for every length around the vector and chunk widths. */
static void test_arrays(void)
{
    enum { N = 600 };
    static double in[N], out[N];
    static float single[N], back[N];
    static uint32_t bits[N], more[N];
    for (int i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        size_t size = at_dtype_size(f->dtype);
        for (size_t n = 0; n <= N; n += n < 70 ? 1 : 53) {
            for (size_t k = 0; k < n; k++) {
                in[k] = random_double(f, n * 1000 + k);
                single[k] = (float)in[k];
            }
            memset(bits, 0xa5, sizeof bits);
            memset(more, 0xa5, sizeof more);
            at_dtype_store_double(f->dtype, bits, in, n);
            at_dtype_store_float(f->dtype, more, single, n);
            at_dtype_load_double(f->dtype, out, bits, n);
            at_dtype_load_float(f->dtype, back, more, n);
            unsigned wrong = 0;
            for (size_t k = 0; k < n; k++) {
                unsigned code = encode(f->dtype, in[k]),
                         code2 = encode(f->dtype, (double)single[k]);
                wrong += memcmp((char *)bits + k * size, &code, size) != 0;
                wrong += memcmp((char *)more + k * size, &code2, size) != 0;
                wrong += out[k] != at_dtype_round(f->dtype, in[k]) && !isnan(out[k]);
                wrong += (double)back[k] != decode(f->dtype, code2) && !isnan(back[k]);
            }
            wrong += ((unsigned char *)bits)[n * size] != 0xa5 && n < N;
            CHECK_INT(wrong, 0);
        }
    }
}

static void test_f32(void)
{
    enum { N = 300 };
    double in[N], out[N];
    float stored[N];
    for (int i = 0; i < N; i++) {
        in[i] = ldexp((double)at_rng_u64(3, 0, (uint64_t)i) * 0x1p-64, i - 150);
    }
    in[0] = 1 + 0x1p-24;      /* ties to even: down */
    in[1] = 1 + 3 * 0x1p-24;  /* up */
    in[2] = 0x1p-150;         /* half the smallest: to 0 */
    in[3] = 0x1.000002p-150;  /* just above it: up */
    in[4] = 0x1.ffffffp127;   /* the midpoint past the largest: to infinity */
    in[5] = 0x1.fffffeffp127; /* below it: the largest */
    at_dtype_store_double(AT_F32, stored, in, N);
    CHECK(stored[0] == 1.0F);
    CHECK(stored[1] == 1.0F + 0x1p-22F);
    CHECK(stored[2] == 0.0F);
    CHECK(stored[3] == 0x1p-149F);
    CHECK(isinf(stored[4]));
    CHECK(stored[5] == 0x1.fffffep127F);
    at_dtype_load_double(AT_F32, out, stored, N);
    for (int i = 0; i < N; i++) {
        CHECK(out[i] == (double)stored[i]);
        CHECK(at_dtype_round(AT_F32, in[i]) == out[i]);
    }
}

static void test_words(void)
{
    CHECK_INT(at_dtype_size(AT_F32), 4);
    for (int i = 0; i < AT_DTYPE_COUNT; i++) {
        at_dtype dtype = (at_dtype)i;
        uint32_t poison = at_dtype_poison(dtype), guard = at_dtype_guard(dtype);
        float x = 0, y = 0;
        at_dtype_load_float(dtype, &x, &poison, 1);
        at_dtype_load_float(dtype, &y, &guard, 1);
        CHECK(isnan(x) && isnan(y) && poison != guard);
        CHECK(dtype == AT_F32 || poison >> (8 * at_dtype_size(dtype)) == 0);
    }
    CHECK_INT(at_dtype_poison(AT_F8E4M3), 0x7f);
    CHECK_INT(at_dtype_guard(AT_F8E4M3), 0xff);
    CHECK_TEXT(at_dtype_names[AT_F8E5M2], "f8e5m2");
    CHECK(at_dtype_names[AT_DTYPE_COUNT] == NULL);
    CHECK_TEXT(at_dtype_names[AT_U8], "u8");
    CHECK_TEXT(at_dtype_names[AT_I32], "i32");
}

const at_test at_tests[] = {
    {"unit", "decode", test_decode},         {"unit", "decode_odd_codes", test_decode_odd_codes},
    {"unit", "round_trip", test_round_trip}, {"unit", "midpoints", test_midpoints},
    {"unit", "overflow", test_overflow},     {"unit", "random", test_random},
    {"unit", "monotone", test_monotone},     {"unit", "compiler_half", test_compiler_half},
    {"unit", "arrays", test_arrays},         {"unit", "f32", test_f32},
    {"unit", "words", test_words},           {NULL, NULL, NULL},
};
