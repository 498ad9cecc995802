#include "harness/tests/test.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu_tile.h"

enum { LANES = 48, STRIDE = 64, ROWS = 40 };

static _Alignas(64) float a[ROWS * STRIDE], b[ROWS * STRIDE], c[ROWS * STRIDE];

/* A reproducible number in [-1, 1). */
static float noise(void)
{
    static uint32_t state = 12345;
    state = state * 1664525U + 1013904223U;
    return (float)(int32_t)state * 0x1p-31F;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static bool same(float x, float y)
{
    return (isnan(x) && isnan(y)) || memcmp(&x, &y, sizeof x) == 0;
}

static void every_16_bit_value_loads(void)
{
    for (uint32_t n = 0; n < 65536; n += 16) {
        uint16_t bits[16];
        float f16[16], bf16[16];
        for (uint32_t i = 0; i < 16; i++) {
            bits[i] = (uint16_t)(n + i);
        }
        at_tile_load(AT_F16, f16, bits, 16);
        at_tile_load(AT_BF16, bf16, bits, 16);
        for (int i = 0; i < 16; i++) {
            CHECK(same(f16[i], at_f16_to_float(bits[i])));
            CHECK(same(bf16[i], at_bf16_to_float(bits[i])));
        }
    }
}

/* Upper halves of all floats, with lower halves on, beside and between the ties. */
static void rounding_agrees_with_the_storage_types(void)
{
    static const uint32_t low[] = {0,      1,      0xfff,  0x1000, 0x1001, 0x2fff,
                                   0x3000, 0x7fff, 0x8000, 0x8001, 0xffff};
    enum { COUNT = sizeof low / sizeof *low };
    for (uint32_t high = 0; high < 65536; high++) {
        float x[16] = {0}, f16[16], bf16[16];
        uint16_t stored_f16[16], stored_bf16[16];
        for (int i = 0; i < COUNT; i++) {
            x[i] = float_of(high << 16 | low[i]);
        }
        memcpy(f16, x, sizeof x);
        memcpy(bf16, x, sizeof x);
        at_tile_round(AT_TILE_F16, f16, 16);
        at_tile_round(AT_TILE_BF16, bf16, 16);
        at_tile_store(AT_F16, stored_f16, x, 16);
        at_tile_store(AT_BF16, stored_bf16, x, 16);
        for (int i = 0; i < COUNT; i++) {
            float want_f16 = at_f16_to_float(at_f16_from_double((double)x[i]));
            float want_bf16 = at_bf16_to_float(at_bf16_from_double((double)x[i]));
            if (!same(f16[i], want_f16) || !same(bf16[i], want_bf16) ||
                !same(at_f16_to_float(stored_f16[i]), want_f16) ||
                !same(at_bf16_to_float(stored_bf16[i]), want_bf16)) {
                at_test_fail(__FILE__, __LINE__, "%a rounds to f16 %a, bf16 %a", (double)x[i],
                             (double)f16[i], (double)bf16[i]);
            }
        }
    }
}

/* Toward zero: the value itself, or the neighbour of the nearest one on zero's side. */
static void rounding_toward_zero_never_grows(void)
{
    for (uint32_t high = 0; high < 65536; high++) {
        float x = float_of(high << 16 | 0x9abc), f16 = x, bf16 = x;
        if (!(fabsf(x) <= 65504)) {
            continue;
        }
        at_tile_round(AT_TILE_F16_ZERO, &f16, 1);
        at_tile_round(AT_TILE_BF16_ZERO, &bf16, 1);
        CHECK(fabsf(f16) <= fabsf(x) && fabsf(bf16) <= fabsf(x));
        CHECK(fabsf(x) - fabsf(bf16) <= fabsf(x) * 0x1p-7F + 0x1p-133F);
        CHECK(fabsf(x) - fabsf(f16) <= fabsf(x) * 0x1p-10F + 0x1p-24F);
        CHECK(same(f16, at_f16_to_float(at_f16_from_double((double)f16))));
    }
}

static void check_product(at_tile_product t, bool transposed)
{
    memset(c, 0, sizeof c);
    c[0] = 3;
    at_tile_multiply(&t);
    for (int i = 0; i < t.m; i++) {
        for (int j = 0; j < t.n; j++) {
            double want = i == 0 && j == 0 ? 3 : 0;
            for (int e = 0; e < t.k; e++) {
                float x = transposed ? a[e * STRIDE + i] : a[i * STRIDE + e];
                want += (double)x * (double)b[e * STRIDE + j];
            }
            CHECK(fabs((double)c[i * STRIDE + j] - want) <= 1e-5);
        }
    }
    for (int i = t.m > 0 ? t.m : 1; i < ROWS; i++) {
        CHECK(c[i * STRIDE] == 0);
    }
}

static void products_of_all_small_shapes(void)
{
    for (int i = 0; i < ROWS * STRIDE; i++) {
        a[i] = noise();
        b[i] = noise();
    }
    for (int m = 0; m <= 20; m++) {
        for (int k = 0; k <= ROWS; k += k < 18 ? 1 : 11) {
            int n = 16 * (1 + (m + k) % 3);
            at_tile_product t = {.m = m,
                                 .n = n,
                                 .k = k,
                                 .a = a,
                                 .a_m = STRIDE,
                                 .a_k = 1,
                                 .b = b,
                                 .b_k = STRIDE,
                                 .c = c,
                                 .c_m = STRIDE};
            check_product(t, false);
            t.a_m = 1;
            t.a_k = STRIDE;
            check_product(t, true);
        }
    }
}

/* Scores of two tiles through the online softmax, against the formula. */
static void check_softmax(const at_tile_softmax *how)
{
    float max[LANES], sum[LANES], first[LANES], correction[LANES];
    static _Alignas(64) float dots[2 * ROWS * STRIDE], slope[ROWS * STRIDE];
    double unit = how->base2 ? log(2) : 1;
    for (int i = 0; i < LANES; i++) {
        max[i] = -HUGE_VALF;
        sum[i] = 0;
    }
    for (int i = 0; i < 2 * ROWS * STRIDE; i++) {
        dots[i] = 40 * noise();
    }
    for (int tile = 0; tile < 2; tile++) {
        at_tile s = {ROWS, LANES, STRIDE, a};
        memcpy(a, dots + tile * ROWS * STRIDE, sizeof a);
        at_tile_score(how, s, slope);
        at_tile_softmax_step(how, s, max, sum, correction);
        memcpy(first, tile == 0 ? max : first, sizeof first);
    }
    for (int i = 0; i < LANES; i++) {
        double want = 0;
        for (int r = 0; r < 2 * ROWS; r++) {
            double x = (double)how->scale * (double)dots[r * STRIDE + i], cap = (double)how->cap;
            want += exp(cap > 0 ? cap * tanh(x / cap) : x);
        }
        double lse = (double)max[i] * unit + log((double)sum[i]);
        CHECK(fabs(lse - log(want)) <= 4e-6);
        CHECK(fabs((double)correction[i] - exp((double)(first[i] - max[i]) * unit)) <= 1e-6);
    }
}

static void softmax_is_that_of_the_formula(void)
{
    check_softmax(&(at_tile_softmax){.scale = 0.5F});
    check_softmax(&(at_tile_softmax){.scale = 0.5F, .base2 = true});
    check_softmax(&(at_tile_softmax){.scale = 0.5F, .cap = 7});
    check_softmax(&(at_tile_softmax){.scale = 0.5F, .cap = 7, .base2 = true});
}

/* P and dS with lse and d by lane and by row, and the cap's slope. */
static void gradient_is_that_of_the_formula(void)
{
    at_tile_softmax how = {.scale = 0.25F, .cap = 3};
    float lse[LANES], d[LANES];
    static _Alignas(64) float dots[ROWS * STRIDE], dp[ROWS * STRIDE], slope[ROWS * STRIDE];
    for (int by_row = 0; by_row < 2; by_row++) {
        for (int i = 0; i < ROWS * STRIDE; i++) {
            dots[i] = a[i] = 20 * noise();
            dp[i] = b[i] = 5 * noise();
        }
        for (int i = 0; i < LANES; i++) {
            lse[i] = i == 5 ? HUGE_VALF : 1 + noise();
            d[i] = noise();
        }
        at_tile s = {ROWS, LANES, STRIDE, a};
        at_tile_score(&how, s, slope);
        at_tile_gradient(&how, s, b, slope, lse, d, by_row == 1);
        for (int n = 0; n < ROWS * LANES; n++) {
            int r = n / LANES, i = n % LANES, at = r * STRIDE + i, owner = by_row ? r : i;
            double t = tanh(0.25 * (double)dots[at] / 3);
            double p = exp(3 * t - (double)lse[owner]);
            double ds = p * ((double)dp[at] - (double)d[owner]) * (1 - t * t);
            CHECK(fabs((double)a[at] - p) <= 2e-6 * p);
            CHECK(fabs((double)b[at] - ds) <= 1e-5 * p);
        }
    }
}

static void exponentials_are_accurate_and_clamped(void)
{
    at_tile_softmax how = {.scale = 1};
    float zero[16] = {0}, dp[16];
    static _Alignas(64) float x[16];
    for (float at = -103; at <= 88.5F; at += 0.0371F) {
        for (int i = 0; i < 16; i++) {
            x[i] = at + (float)i * 0.001F;
            dp[i] = 1;
        }
        float in[16];
        memcpy(in, x, sizeof in);
        at_tile_gradient(&how, (at_tile){1, 16, 16, x}, dp, NULL, zero, zero, false);
        for (int i = 0; i < 16; i++) {
            double want = exp((double)in[i]);
            CHECK(fabs((double)x[i] - want) <= 1.5 * 0x1p-24 * want + 0x1p-149);
        }
    }
    const float special[16] = {-HUGE_VALF, -104.5F, HUGE_VALF, 89, NAN, 0};
    memcpy(x, special, sizeof special);
    for (int i = 0; i < 16; i++) {
        dp[i] = 1;
    }
    at_tile_gradient(&how, (at_tile){1, 16, 16, x}, dp, NULL, zero, zero, false);
    CHECK(x[0] == 0 && x[1] == 0 && x[2] == HUGE_VALF && x[3] == HUGE_VALF && isnan(x[4]) &&
          x[5] == 1);
    CHECK(dp[0] == 0 && dp[5] == 1);
}

static void masks_cut_both_ends(void)
{
    int first[LANES], last[LANES];
    for (int i = 0; i < LANES; i++) {
        first[i] = 100 + i % 7;
        last[i] = 100 + i % 11 + 3;
    }
    for (int by_row = 0; by_row < 2; by_row++) {
        at_tile s = {ROWS, LANES, STRIDE, a};
        for (int i = 0; i < ROWS * STRIDE; i++) {
            a[i] = 1;
        }
        (by_row ? at_tile_mask_rows : at_tile_mask)(s, 98, first, last);
        for (int n = 0; n < ROWS * LANES; n++) {
            int r = n / LANES, i = n % LANES, key = 98 + (by_row ? i : r), owner = by_row ? r : i;
            bool seen = first[owner] <= key && key <= last[owner];
            CHECK(a[r * STRIDE + i] == (seen ? 1 : -HUGE_VALF));
        }
    }
}

const at_test at_tests[] = {
    {"unit", "every_16_bit_value_loads", every_16_bit_value_loads},
    {"unit", "rounding_agrees_with_the_storage_types", rounding_agrees_with_the_storage_types},
    {"unit", "rounding_toward_zero_never_grows", rounding_toward_zero_never_grows},
    {"unit", "products_of_all_small_shapes", products_of_all_small_shapes},
    {"unit", "softmax_is_that_of_the_formula", softmax_is_that_of_the_formula},
    {"unit", "gradient_is_that_of_the_formula", gradient_is_that_of_the_formula},
    {"unit", "exponentials_are_accurate_and_clamped", exponentials_are_accurate_and_clamped},
    {"unit", "masks_cut_both_ends", masks_cut_both_ends},
    {NULL, NULL, NULL},
};
