/* The golden reference against a second opinion, finite differences and identities. */
#include "harness/tests/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const at_tensor_id outputs[] = {AT_O, AT_LSE, AT_DQ, AT_DK, AT_DV};
enum { N_OUTPUTS = 5 };
static const at_variant standard = {0};

static bool solve(at_world *w, const char *text)
{
    return at_world_open(w, text) && at_world_run(w, AT_REFERENCE_GOLDEN, NULL);
}

static const double *row_of(const at_world *w, at_tensor_id id, int64_t b, int64_t h, int64_t s)
{
    const at_gold_tensor *t = &w->gold.t[id];
    for (int64_t r = 0; r < t->rows; r++) {
        if (t->row[r][0] == b && t->row[r][1] == h && t->row[r][2] == s) {
            return t->ref + r * t->dim;
        }
    }
    at_test_fail(__FILE__, __LINE__, "%s has no row %lld %lld %lld", at_tensor_names[id],
                 (long long)b, (long long)h, (long long)s);
    abort();
}

static void copy_row(at_tensor *t, int64_t b, int64_t h, int64_t to_h, int64_t from, int64_t to)
{
    for (int64_t d = 0; d < t->shape[3]; d++) {
        at_tensor_set(t, b, to_h, to, d, at_tensor_get(t, b, h, from, d));
    }
}

static double largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        most = isfinite(x[i]) && fabs(x[i]) > most ? fabs(x[i]) : most;
    }
    return most;
}

static void second_opinion(const char *text)
{
    at_world w;
    at_direct x;
    if (solve(&w, text)) {
        at_direct_open(&x, &w.p, &standard);
        at_world_agrees(&w, &x, 2e-14);
        at_direct_close(&x);
    }
    at_world_close(&w);
}

static void test_second_opinion(void)
{
    static const char *const shapes[] = {
        "sq=1",
        "sq=5:skv=7:dqk=4:dv=3",
        "hq=4:hkv=2:sq=9:skv=6:dqk=8",
        "b=2:hq=6:hkv=3:hv=2:sq=7:skv=12:dqk=8:dv=4:lens=random",
        "b=3:hq=2:hkv=1:sq=8:skv=8:dqk=5:dv=2:lens=zero_mid:layout=thd",
        "b=2:hq=2:hkv=1:hv=2:sq=6:skv=9:lenq=3+6:lenkv=9+1:layout=sbhd",
    };
    static const char *const masks[] = {
        "",
        ":mask=causal",
        ":mask=causal:align=br",
        ":mask=causal:align=3:wl=2",
        ":mask=band:wl=0:wr=0:align=br",
        ":mask=band:wr=1",
        ":mask=band:wl=3:wr=2:align=5",
    };
    static const char *const kinds[] = {
        ":fill=peaky",
        ":softcap=1.5",
        ":dtype=f32:fill=outlier:scale=-0.3",
        ":dtype=f16:fill=deep_neg:layout=bhsd",
        ":fill=constant:dtype=f32",
    };
    char text[512];
    int n = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (size_t m = 0; m < sizeof masks / sizeof masks[0]; m++, n++) {
            (void)snprintf(text, sizeof text, "%s%s%s:seed=%d", shapes[s], masks[m],
                           s == 4 || s == 5 ? ":softcap=0.7" : kinds[n % 5], n);
            second_opinion(text);
        }
    }
}

/* d loss / d input by central differences of the direct formula, every element. */
static void differences(const char *text, at_tensor_id input, at_tensor_id output)
{
    at_world w;
    at_direct x;
    if (!solve(&w, text)) {
        at_world_close(&w);
        return;
    }
    at_direct_open(&x, &w.p, &standard);
    const at_gold_tensor *t = &w.gold.t[output];
    double size = largest(t->ref, t->rows * t->dim);
    CHECK(size > 0);
    for (int64_t e = 0; e < t->rows * t->dim; e++) {
        const int64_t *row = t->row[e / t->dim];
        double *place = at_direct_at(&x, input, row[0], row[1], row[2]) + e % t->dim;
        double here = *place, h = 1e-5;
        *place = here + h;
        at_direct_run(&x);
        double up = at_direct_loss(&x);
        *place = here - h;
        at_direct_run(&x);
        double slope = (up - at_direct_loss(&x)) / (2 * h);
        *place = here;
        if (!(fabs(slope - t->ref[e]) <= 1e-7 * size)) {
            at_test_fail(__FILE__, __LINE__, "%s: %s element %lld is %.12g, differences say %.12g",
                         text, at_tensor_names[output], (long long)e, t->ref[e], slope);
            break;
        }
    }
    at_direct_close(&x);
    at_world_close(&w);
}

static void test_finite_differences(void)
{
    static const char *const cases[] = {
        "sq=3:skv=4:dqk=3:dv=2",
        "hq=4:hkv=2:sq=4:skv=5:dqk=2:dv=3:mask=causal:align=br:softcap=1",
        "b=2:hq=6:hkv=3:hv=2:sq=3:skv=4:dqk=2:dv=2:lens=random:mask=band:wl=1:wr=1:scale=0.7",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        differences(cases[i], AT_Q, AT_DQ);
        differences(cases[i], AT_K, AT_DK);
        differences(cases[i], AT_V, AT_DV);
    }
}

static void test_equal_keys(void)
{
    at_world w;
    if (at_world_open(&w, "sq=4:skv=9:dqk=8:dv=5:mask=causal:align=br")) {
        for (int64_t j = 1; j < 9; j++) {
            copy_row(&w.p.t[AT_K], 0, 0, 0, 0, j);
        }
        (void)at_world_run(&w, AT_REFERENCE_GOLDEN, NULL);
        for (int64_t i = 0; i < 4; i++) {
            double keys = (double)(i + 6), score = 0;
            for (int64_t d = 0; d < 8; d++) {
                score += w.p.scale * at_tensor_get(&w.p.t[AT_Q], 0, 0, i, d) *
                         at_tensor_get(&w.p.t[AT_K], 0, 0, 0, d);
                CHECK(fabs(row_of(&w, AT_DQ, 0, 0, i)[d]) <= 1e-14);
            }
            CHECK(fabs(*row_of(&w, AT_LSE, 0, 0, i) - score - log(keys)) <= 1e-13);
            for (int64_t d = 0; d < 5; d++) {
                double mean = 0;
                for (int64_t j = 0; j < i + 6; j++) {
                    mean += at_tensor_get(&w.p.t[AT_V], 0, 0, j, d) / keys;
                }
                CHECK(fabs(row_of(&w, AT_O, 0, 0, i)[d] - mean) <= 1e-14);
            }
        }
    }
    at_world_close(&w);
}

/* Adding one vector to every key moves a row's scores and LSE by scale q.c and nothing else. */
static void test_score_shift(void)
{
    static const char text[] = "hq=2:hkv=1:sq=5:skv=6:dqk=4:dv=3:dtype=f32:fill=small_int";
    at_world a, b;
    if (solve(&a, text) && at_world_open(&b, text)) {
        for (int64_t j = 0; j < 6; j++) {
            for (int64_t d = 0; d < 4; d++) {
                double k = at_tensor_get(&b.p.t[AT_K], 0, 0, j, d);
                at_tensor_set(&b.p.t[AT_K], 0, 0, j, d, k + (double)(d - 1));
            }
        }
        (void)at_world_run(&b, AT_REFERENCE_GOLDEN, NULL);
        for (int64_t h = 0; h < 2; h++) {
            for (int64_t i = 0; i < 5; i++) {
                double shift = 0;
                for (int64_t d = 0; d < 4; d++) {
                    shift += b.p.scale * at_tensor_get(&b.p.t[AT_Q], 0, h, i, d) * (double)(d - 1);
                }
                double moved = *row_of(&b, AT_LSE, 0, h, i) - *row_of(&a, AT_LSE, 0, h, i);
                CHECK(fabs(moved - shift) <= 1e-12);
                for (int64_t d = 0; d < 3; d++) {
                    double diff = row_of(&a, AT_O, 0, h, i)[d] - row_of(&b, AT_O, 0, h, i)[d];
                    CHECK(fabs(diff) <= 1e-13);
                }
            }
        }
        at_world_close(&b);
    }
    at_world_close(&a);
}

static void same_but(const at_world *a, const at_world *b, at_tensor_id id, double factor)
{
    const at_gold_tensor *x = &a->gold.t[id], *y = &b->gold.t[id];
    CHECK_INT(x->rows, y->rows);
    CHECK(x->rows > 0);
    for (int64_t e = 0; e < x->rows * x->dim && x->rows == y->rows; e++) {
        if (!(x->ref[e] * factor == y->ref[e])) {
            at_test_fail(__FILE__, __LINE__, "%s element %lld is %.17g times %g, not %.17g",
                         at_tensor_names[id], (long long)e, x->ref[e], factor, y->ref[e]);
            return;
        }
    }
}

/* V times 4: O, dQ and dK times 4, bit for bit; LSE and dV as they were. */
static void test_linear_in_v(void)
{
    static const char text[] = "hq=2:hkv=1:sq=6:skv=7:dqk=8:dv=5:mask=causal:align=br:softcap=3";
    at_world a, b;
    if (solve(&a, text) && at_world_open(&b, text)) {
        for (int64_t e = 0; e < 7 * 5; e++) {
            double v = at_tensor_get(&b.p.t[AT_V], 0, 0, e / 5, e % 5);
            at_tensor_set(&b.p.t[AT_V], 0, 0, e / 5, e % 5, 4 * v);
        }
        (void)at_world_run(&b, AT_REFERENCE_GOLDEN, NULL);
        same_but(&a, &b, AT_O, 4);
        same_but(&a, &b, AT_DQ, 4);
        same_but(&a, &b, AT_DK, 4);
        same_but(&a, &b, AT_LSE, 1);
        same_but(&a, &b, AT_DV, 1);
        at_world_close(&b);
    }
    at_world_close(&a);
}

static void test_permuted_keys(void)
{
    static const char text[] = "sq=4:skv=6:dqk=5:dv=3";
    at_world a, b;
    if (solve(&a, text) && at_world_open(&b, text)) {
        for (int64_t j = 0; j < 6; j++) {
            for (int id = AT_K; id <= AT_V; id++) {
                for (int64_t d = 0; d < b.p.t[id].shape[3]; d++) {
                    double x = at_tensor_get(&a.p.t[id], 0, 0, j, d);
                    at_tensor_set(&b.p.t[id], 0, 0, (j + 2) % 6, d, x);
                }
            }
        }
        (void)at_world_run(&b, AT_REFERENCE_GOLDEN, NULL);
        for (int64_t i = 0; i < 4; i++) {
            for (int64_t d = 0; d < 3; d++) {
                double diff = row_of(&a, AT_O, 0, 0, i)[d] - row_of(&b, AT_O, 0, 0, i)[d];
                CHECK(fabs(diff) <= 1e-14);
            }
        }
        for (int64_t j = 0; j < 6; j++) {
            for (int64_t d = 0; d < 3; d++) {
                double diff =
                    row_of(&a, AT_DV, 0, 0, j)[d] - row_of(&b, AT_DV, 0, 0, (j + 2) % 6)[d];
                CHECK(fabs(diff) <= 1e-14);
            }
            for (int64_t d = 0; d < 5; d++) {
                double diff =
                    row_of(&a, AT_DK, 0, 0, j)[d] - row_of(&b, AT_DK, 0, 0, (j + 2) % 6)[d];
                CHECK(fabs(diff) <= 1e-14);
            }
        }
        at_world_close(&b);
    }
    at_world_close(&a);
}

/* Grouped heads are repeated heads: the same O, and gradients summed over the group. */
static void test_grouping(void)
{
    at_world few, many;
    if (solve(&few, "hq=6:hkv=2:sq=5:skv=6:dqk=4:dv=3:mask=causal") &&
        at_world_open(&many, "hq=6:sq=5:skv=6:dqk=4:dv=3:mask=causal")) {
        for (int64_t h = 0; h < 6; h++) {
            for (int64_t e = 0; e < 6 * 4; e++) {
                double k = at_tensor_get(&few.p.t[AT_K], 0, h / 3, e / 4, e % 4);
                at_tensor_set(&many.p.t[AT_K], 0, h, e / 4, e % 4, k);
            }
            for (int64_t e = 0; e < 6 * 3; e++) {
                double v = at_tensor_get(&few.p.t[AT_V], 0, h / 3, e / 3, e % 3);
                at_tensor_set(&many.p.t[AT_V], 0, h, e / 3, e % 3, v);
            }
        }
        (void)at_world_run(&many, AT_REFERENCE_GOLDEN, NULL);
        same_but(&few, &many, AT_O, 1);
        same_but(&few, &many, AT_DQ, 1);
        for (int64_t j = 0; j < 6; j++) {
            for (int64_t g = 0; g < 2; g++) {
                for (int64_t d = 0; d < 4; d++) {
                    double sum = 0;
                    for (int64_t h = 3 * g; h < 3 * g + 3; h++) {
                        sum += row_of(&many, AT_DK, 0, h, j)[d];
                    }
                    CHECK(fabs(sum - row_of(&few, AT_DK, 0, g, j)[d]) <= 1e-14);
                }
            }
        }
        at_world_close(&many);
    }
    at_world_close(&few);
}

/* Sum over keys: of dV = sum over live rows of dO; of dK = 0, since each row of dS sums to 0. */
static void test_sums(void)
{
    at_world w;
    if (solve(&w, "b=2:hq=4:hkv=2:sq=7:skv=9:dqk=4:dv=3:lens=random:mask=band:wl=2:wr=1")) {
        for (int64_t b = 0; b < 2; b++) {
            for (int64_t g = 0; g < 2; g++) {
                double dv[3] = {0}, dk[4] = {0};
                for (int64_t j = 0; j < w.p.len_kv[b]; j++) {
                    for (int64_t d = 0; d < 4; d++) {
                        dk[d] += row_of(&w, AT_DK, b, g, j)[d];
                        dv[d % 3] += d < 3 ? row_of(&w, AT_DV, b, g, j)[d] : 0;
                    }
                }
                for (int64_t e = 0; e < 2 * w.p.len_q[b] * 3; e++) {
                    int64_t h = 2 * g + e / (w.p.len_q[b] * 3), i = e / 3 % w.p.len_q[b];
                    bool dead = *row_of(&w, AT_LSE, b, h, i) == -HUGE_VAL;
                    dv[e % 3] -= dead ? 0 : at_tensor_get(&w.p.t[AT_DO], b, h, i, e % 3);
                }
                for (int64_t d = 0; d < 4; d++) {
                    CHECK(fabs(dk[d]) <= 1e-13);
                    CHECK(fabs(dv[d % 3]) <= 1e-13);
                }
            }
        }
    }
    at_world_close(&w);
}

/* Under a causal mask the last key and value change nothing before the rows that see them. */
static void test_prefix(void)
{
    static const char text[] = "sq=6:skv=6:dqk=4:dv=3:mask=causal";
    at_world a, b;
    if (solve(&a, text) && at_world_open(&b, text)) {
        copy_row(&b.p.t[AT_K], 0, 0, 0, 2, 5);
        copy_row(&b.p.t[AT_V], 0, 0, 0, 2, 5);
        (void)at_world_run(&b, AT_REFERENCE_GOLDEN, NULL);
        for (int64_t i = 0; i < 6; i++) {
            bool same_o = true, same_dq = true;
            for (int64_t d = 0; d < 3; d++) {
                same_o &= row_of(&a, AT_O, 0, 0, i)[d] == row_of(&b, AT_O, 0, 0, i)[d];
                same_dq &= row_of(&a, AT_DQ, 0, 0, i)[d] == row_of(&b, AT_DQ, 0, 0, i)[d];
            }
            CHECK(same_o == (i < 5));
            CHECK(same_dq == (i < 5));
        }
        at_world_close(&b);
    }
    at_world_close(&a);
}

static void equal_cases(const char *one, const char *other)
{
    at_world a, b;
    if (solve(&a, one) && solve(&b, other)) {
        for (size_t i = 0; i < N_OUTPUTS; i++) {
            same_but(&a, &b, outputs[i], 1);
            for (int64_t e = 0; e < a.gold.t[outputs[i]].rows * a.gold.t[outputs[i]].dim; e++) {
                CHECK(a.gold.t[outputs[i]].bound[e] == b.gold.t[outputs[i]].bound[e]);
            }
        }
        at_world_close(&b);
    }
    at_world_close(&a);
}

static void test_equal_cases(void)
{
    equal_cases("sq=7:skv=9:dqk=4:mask=causal", "sq=7:skv=9:dqk=4:mask=band:wr=0");
    equal_cases("sq=7:skv=9:dqk=4:mask=causal:wl=2:align=br",
                "sq=7:skv=9:dqk=4:mask=band:wl=2:wr=0:align=2");
    equal_cases("b=2:sq=7:skv=9:dqk=4", "b=2:sq=7:skv=9:dqk=4:lens=full");
    equal_cases("b=2:sq=7:skv=9:dqk=4", "b=2:sq=7:skv=9:dqk=4:lens=full:layout=thd");
    equal_cases("b=2:hq=2:sq=7:skv=9:dqk=4", "b=2:hq=2:sq=7:skv=9:dqk=4:layout=sbhd");
    equal_cases("b=2:hq=2:sq=7:skv=9:dqk=4", "b=2:hq=2:sq=7:skv=9:dqk=4:layout=bhsd");
    equal_cases("sq=7:dqk=4", "sq=7:dqk=4:scale=0.5");
}

/* A cap far above all scores is none. */
static void test_high_cap(void)
{
    at_world a, b;
    if (solve(&a, "sq=7:skv=9:dqk=4") && solve(&b, "sq=7:skv=9:dqk=4:softcap=1e5")) {
        for (size_t i = 0; i < N_OUTPUTS; i++) {
            const at_gold_tensor *x = &a.gold.t[outputs[i]], *y = &b.gold.t[outputs[i]];
            for (int64_t e = 0; e < x->rows * x->dim; e++) {
                CHECK(fabs(x->ref[e] - y->ref[e]) <= 1e-7);
            }
        }
        at_world_close(&b);
    }
    at_world_close(&a);
}

static void test_dead_rows(void)
{
    at_world w;
    if (solve(&w, "b=2:hq=2:sq=6:skv=3:dqk=4:lenq=6+4:lenkv=3+0:mask=causal:align=br")) {
        for (size_t i = 0; i < 3; i++) {
            const at_gold_tensor *t = &w.gold.t[outputs[i]];
            CHECK_INT(t->rows, 2 * (6 + 4));
            for (int64_t r = 0; r < t->rows; r++) {
                bool dead = t->row[r][0] == 1 || t->row[r][2] < 3;
                CHECK(t->dead[r] == dead);
                for (int64_t e = r * t->dim; e < (r + 1) * t->dim && dead; e++) {
                    CHECK(t->ref[e] == (outputs[i] == AT_LSE ? -HUGE_VAL : 0));
                    CHECK(t->bound[e] == 0 && t->sigma[e] == 0);
                }
            }
        }
        CHECK_INT(w.gold.t[AT_DK].rows, 2 * 3);
        CHECK(w.gold.t[AT_DK].dead == NULL);
    }
    at_world_close(&w);
}

static void test_passes(void)
{
    static const char *const passes[] = {"fwd", "stats", "train"};
    for (int pass = 0; pass < 3; pass++) {
        char text[64];
        at_world w;
        (void)snprintf(text, sizeof text, "sq=3:dqk=4:pass=%s", passes[pass]);
        if (at_world_open(&w, text)) {
            at_error err = {""};
            at_reference_options options = {.path = AT_REFERENCE_GOLDEN, .no_scale = true};
            CHECK_OK(at_reference_run(&w.gold, &w.p, &options, w.answers, &err), &err);
            for (size_t i = 0; i < N_OUTPUTS; i++) {
                const at_gold_tensor *t = &w.gold.t[outputs[i]];
                bool made = outputs[i] == AT_O || pass == 2 || (pass == 1 && outputs[i] == AT_LSE);
                CHECK((t->rows == 3) == made && (t->ref != NULL) == made);
                CHECK(t->bound == NULL && t->sigma == NULL);
            }
            CHECK(w.gold.t[AT_Q].rows == 0 && w.gold.share == 1);
        }
        at_world_close(&w);
    }
}

static void test_unsupported(void)
{
    at_case c;
    at_error err = {""};
    char code[48] = "x";
    CHECK_OK(at_case_parse(&c, "hq=3:hkv=2:invalid=1", &err), &err);
    CHECK_INT(at_reference_supports(&c, code, &err), AT_UNSUPPORTED);
    CHECK_TEXT(code, "reference_invalid");
    CHECK_HAS(err.text, "invalid=1");
    at_case_init(&c);
    CHECK_OK(at_reference_supports(&c, code, &err), &err);
    CHECK_TEXT(code, "");
}

const at_test at_tests[] = {
    {"ref", "second_opinion", test_second_opinion},
    {"ref", "finite_differences", test_finite_differences},
    {"ref", "equal_keys", test_equal_keys},
    {"ref", "score_shift", test_score_shift},
    {"ref", "linear_in_v", test_linear_in_v},
    {"ref", "permuted_keys", test_permuted_keys},
    {"ref", "grouping", test_grouping},
    {"ref", "sums", test_sums},
    {"ref", "prefix", test_prefix},
    {"ref", "equal_cases", test_equal_cases},
    {"ref", "high_cap", test_high_cap},
    {"ref", "dead_rows", test_dead_rows},
    {"ref", "passes", test_passes},
    {"ref", "unsupported", test_unsupported},
    {NULL, NULL, NULL},
};
