/* fill_kinds.c: what each distribution promises, measured on stored values. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/problem/fill.h"

enum { FILLS = AT_FILL_DENORMAL + 1 };

static at_arena *open_arena(void)
{
    at_arena *arena = NULL;
    at_error err = {""};
    CHECK_OK(at_arena_open(&arena, &err), &err);
    return arena;
}

static at_problem open_case(const at_case *c, at_arena *arena)
{
    at_problem p;
    at_error err = {""};
    CHECK_OK(at_problem_open(&p, c, arena, &err), &err);
    return p;
}

static at_case parse(const char *text)
{
    at_case c;
    at_error err = {""};
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    return c;
}

/* Moments of one tensor of a case with live rows only. */
typedef struct moments {
    double mean, deviation, kurtosis, most;
    int64_t zeros, above2;
} moments;

static moments moments_of(const at_tensor *t)
{
    moments m = {0, 0, 0, 0, 0, 0};
    int64_t n = t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
    double *x = malloc((size_t)n * sizeof *x), square = 0, fourth = 0;
    AT_ASSERT(x != NULL);
    at_dtype_load_double(t->dtype, x, t->data, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        m.mean += x[i] / (double)n;
        m.most = fabs(x[i]) > m.most ? fabs(x[i]) : m.most;
        m.zeros += x[i] == 0;
        m.above2 += fabs(x[i]) > 2;
    }
    for (int64_t i = 0; i < n; i++) {
        double y = (x[i] - m.mean) * (x[i] - m.mean);
        square += y / (double)n;
        fourth += y * y / (double)n;
    }
    m.deviation = sqrt(square);
    m.kurtosis = fourth / (square * square);
    free(x);
    return m;
}

static void test_normal(void)
{
    at_arena *arena = open_arena();
    at_case c = parse("b=2:hq=8:sq=512:dqk=64:dtype=f32");
    at_problem p = open_case(&c, arena);
    for (int id = AT_Q; id <= AT_DO; id++) {
        moments m = moments_of(&p.t[id]); /* 2^19 values */
        CHECK(fabs(m.mean) < 5.0 / 724);
        CHECK(fabs(m.deviation - 1.0048) < 0.005);
        CHECK(fabs(m.kurtosis - 2.96) < 0.05);
        CHECK(m.most > 4.3 && m.most <= 7.0823);
        CHECK(fabs((double)m.above2 / 524288 - 0.0455) < 0.0025);
        CHECK_INT(m.zeros, 0);
    }
    const float *q = p.t[AT_Q].data, *k = p.t[AT_K].data;
    double next = 0, cross = 0, row = 0;
    for (int i = 0; i < 524224; i++) {
        next += (double)q[i] * (double)q[i + 1] / 724;
        row += (double)q[i] * (double)q[i + 64] / 724;
        cross += (double)q[i] * (double)k[i] / 724;
    }
    CHECK(fabs(next) < 4 && fabs(row) < 4 && fabs(cross) < 4); /* standard normal each */
    at_arena_close(arena);
}

/* Every storage type, every distribution: finite, do has both signs and hardly a zero. */
static void test_all_finite(void)
{
    static const char *const scales[] = {"", ":scale=1", ":scale=-0.01", ":scale=1e30", ":scale=0"};
    at_arena *arena = open_arena();
    for (int i = 0; i < FILLS * AT_DTYPE_COUNT * 5; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "b=2:hq=2:sq=9:skv=17:dqk=%d:dv=24%s", i % 2 ? 40 : 1,
                       scales[i / (FILLS * AT_DTYPE_COUNT)]);
        at_case c = parse(text);
        c.fill = i % FILLS;
        c.dtype = c.odt = i / FILLS % AT_DTYPE_COUNT;
        at_problem p = open_case(&c, arena);
        for (int id = AT_Q; id <= AT_DO; id++) {
            moments m = moments_of(&p.t[id]);
            CHECK(m.most <= at_dtype_max((at_dtype)c.dtype) && m.most > 0);
            CHECK(isfinite(m.mean));
            CHECK(c.scale != 0 || m.most < 1500);
        }
        moments m = moments_of(&p.t[AT_DO]);
        CHECK(fabs(m.mean) < 0.5 * m.most && m.deviation > 0.05 * m.most);
        CHECK(m.zeros <= 2 * 2 * 9 * 24 / 5);
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

/* Scores of one row against the live keys of sequence 0, head 0, from stored values. */
static int64_t row_scores(const at_problem *p, int64_t i, double *out)
{
    static double q[4096], k[4096];
    int64_t first = 0, last = 0, dim = p->c.dim_qk;
    at_problem_keys(p, 0, i, &first, &last);
    at_tensor_load_row(&p->t[AT_Q], 0, 0, i, q);
    for (int64_t j = first; j <= last; j++) {
        at_tensor_load_row(&p->t[AT_K], 0, 0, j, k);
        double sum = 0;
        for (int64_t d = 0; d < dim; d++) {
            sum += q[d] * k[d];
        }
        out[j - first] = p->scale * sum;
    }
    return last - first + 1;
}

static double log_sum_exp(const double *score, int64_t n)
{
    double most = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < n; j++) {
        most = score[j] > most ? score[j] : most;
    }
    for (int64_t j = 0; j < n; j++) {
        sum += exp(score[j] - most);
    }
    return most + log(sum);
}

/* The least product of two elements alone keeps every logit of a row at -100, and LSE below -88.7
 * for any number of keys: no luck is needed. */
static void check_deep_neg_floor(const at_case *c, const at_problem *p)
{
    at_fill_plan q, k;
    at_fill_plan_init(&q, c, AT_Q);
    at_fill_plan_init(&k, c, AT_K);
    double most = p->scale * (double)q.base * (double)k.base * (double)c->dim_qk;
    CHECK(most <= -100 && most + log((double)c->len_kv) < -88.73);
    CHECK(at_dtype_round((at_dtype)c->dtype, (double)q.base) == (double)q.base);
    CHECK(at_dtype_round((at_dtype)c->dtype, (double)k.base) == (double)k.base);
    for (int64_t d = 0; d < c->dim_qk; d++) {
        CHECK(fabs(at_tensor_get(&p->t[AT_Q], 0, 0, 0, d)) >= fabs((double)q.base));
        CHECK(fabs(at_tensor_get(&p->t[AT_K], 0, 0, 1, d)) >= fabs((double)k.base));
    }
}

static void check_deep_neg(const at_case *c, at_arena *arena)
{
    static double score[131072];
    at_problem p = open_case(c, arena);
    check_deep_neg_floor(c, &p);
    for (int64_t i = 0; i < c->len_q; i++) {
        int64_t n = row_scores(&p, i, score);
        double most = -HUGE_VAL, lse = log_sum_exp(score, n);
        for (int64_t j = 0; j < n; j++) {
            most = score[j] > most ? score[j] : most;
        }
        if (!(most <= -100 && lse < -88.73 && isinf((float)exp(-lse)))) {
            char text[AT_CASE_TEXT_MAX];
            (void)at_case_print(c, text);
            at_test_fail(__FILE__, __LINE__, "%s: row %d: largest logit %g, lse %g", text, (int)i,
                         most, lse);
        }
    }
    at_arena_reset(arena);
}

static void test_deep_neg(void)
{
    at_arena *arena = open_arena();
    for (int dtype = 0; dtype < AT_DTYPE_COUNT; dtype++) {
        at_case c = parse("sq=2:skv=4:dv=1:fill=deep_neg");
        c.dtype = c.odt = dtype;
        for (c.dim_qk = 1; c.dim_qk <= 512; c.dim_qk++) {
            c.seed = (uint64_t)c.dim_qk;
            check_deep_neg(&c, arena);
        }
    }
    at_arena_close(arena);
}

static void test_deep_neg_scale(void)
{
    static const double scales[] = {0.01, 0.05, -0.05, 0.1767766952966369, 1, -1, 4, 1000, 1e30};
    static const int dims[] = {1, 3, 8, 63, 64, 96, 128, 192, 256, 511, 512, 4096};
    at_arena *arena = open_arena();
    for (int i = 0; i < 9 * 12; i++) {
        for (int dtype = 0; dtype < AT_DTYPE_COUNT; dtype++) {
            at_case c = parse("sq=2:skv=5:dv=1:fill=deep_neg");
            c.dtype = c.odt = dtype;
            c.scale = scales[i % 9];
            c.dim_qk = dims[i / 9];
            check_deep_neg(&c, arena);
        }
    }
    at_case many = parse("sq=1:skv=131072:dqk=8:dv=1:fill=deep_neg");
    check_deep_neg(&many, arena);
    many = parse("sq=1:skv=1048576:dqk=8:dv=1:scale=12.625:fill=deep_neg:pass=fwd");
    at_problem p = open_case(&many, arena); /* 8 * scale = 101: no slack but that for keys */
    check_deep_neg_floor(&many, &p);
    at_arena_close(arena);
}

/* Mean over rows of the largest (or key 0's) share, and deviation of the scores of a row. */
static void shares(const at_case *c, at_arena *arena, double *most, double *key0, double *deviation)
{
    static double score[4096];
    at_problem p = open_case(c, arena);
    *most = *key0 = *deviation = 0;
    for (int64_t i = 0; i < c->len_q; i++) {
        int64_t n = row_scores(&p, i, score);
        double lse = log_sum_exp(score, n), largest = 0, mean = 0, square = 0;
        for (int64_t j = 0; j < n; j++) {
            double share = exp(score[j] - lse);
            largest = share > largest ? share : largest;
            mean += score[j] / (double)n;
            square += score[j] * score[j] / (double)n;
        }
        *most += largest / (double)c->len_q;
        *key0 += exp(score[0] - lse) / (double)c->len_q;
        *deviation += sqrt(square - mean * mean) / (double)c->len_q;
    }
    at_arena_reset(arena);
}

static void test_shares(void)
{
    static const char *const cases[] = {"sq=32:skv=64:dqk=64", "sq=32:skv=1000:dqk=128",
                                        "sq=32:skv=33:dqk=8", "sq=32:skv=200:dqk=256:scale=1",
                                        "sq=32:skv=100:dqk=64:scale=-0.03"};
    at_arena *arena = open_arena();
    for (int i = 0; i < 5 * 5; i++) {
        double most = 0, key0 = 0, deviation = 0;
        at_case c = parse(cases[i % 5]);
        c.dtype = c.odt = i / 5;
        if (c.dtype == AT_F8E4M3 && c.scale == 1) {
            continue; /* out of the type's range: see fill_kinds.c */
        }
        c.fill = AT_FILL_PEAKY;
        shares(&c, arena, &most, &key0, &deviation);
        CHECK(most > 0.8 && deviation > 7 && deviation < 20);
        c.fill = AT_FILL_SINK_HEAVY;
        shares(&c, arena, &most, &key0, &deviation);
        CHECK(key0 > 0.75 && key0 < 0.97);
        c.fill = AT_FILL_CONSTANT;
        shares(&c, arena, &most, &key0, &deviation);
        CHECK(most < 0.6 && deviation > 0.4 && deviation < 2.7);
        c.scale = AT_SCALE_AUTO;
        c.fill = AT_FILL_LOWRANK;
        shares(&c, arena, &most, &key0, &deviation);
        CHECK(most < 0.9 && deviation > 0.3 && deviation < 6);
    }
    at_arena_close(arena);
}

static void test_small_int(void)
{
    at_arena *arena = open_arena();
    at_case c = parse("b=2:hq=4:sq=64:dqk=64:fill=small_int:dtype=f8e5m2:odt=f8e5m2");
    at_problem p = open_case(&c, arena);
    for (int id = AT_Q; id <= AT_DO; id++) {
        int64_t count[5] = {0};
        for (int64_t i = 0; i < 32768; i++) {
            double x = at_tensor_get(&p.t[id], 0, 0, 0, i);
            CHECK(fabs(x) <= 2 && x == floor(x));
            count[(int)x + 2]++;
        }
        CHECK(id == AT_DO ? count[2] == 0 : count[2] > 32768 / 16 * 9);
        CHECK(count[0] > 1000 && count[1] > 3000 && count[3] > 3000 && count[4] > 1000);
    }
    at_arena_close(arena);
}

static void test_other_kinds(void)
{
    at_arena *arena = open_arena();
    at_case c = parse("b=2:hq=4:sq=64:dqk=64:dtype=f16:fill=uniform01");
    at_problem p = open_case(&c, arena);
    moments m = moments_of(&p.t[AT_V]);
    CHECK(fabs(m.mean - 0.5) < 0.01 && fabs(m.deviation - 0.2887) < 0.005);
    CHECK(m.most <= 1 && m.zeros == 0);
    c.fill = AT_FILL_OUTLIER;
    p = open_case(&c, arena);
    for (int id = AT_Q; id <= AT_DO; id++) {
        m = moments_of(&p.t[id]);
        CHECK(m.most > 30 && m.most < 114 && m.kurtosis > 30);
        CHECK(fabs((double)m.above2 / 32768 - 0.0455 - 0.0035) < 0.006);
    }
    c.fill = AT_FILL_CONSTANT;
    p = open_case(&c, arena);
    for (int id = AT_K; id <= AT_V; id++) {
        m = moments_of(&p.t[id]);
        CHECK(m.most > 1150 && m.most < 1320 && fabs(m.mean) < 20 && m.deviation > 1000);
    }
    at_arena_close(arena);
}

/* Share of nonzero elements below the smallest normal number, by head of the tensor. */
static double subnormal_share(const at_tensor *t, int64_t head)
{
    static const double least[] = {0x1p-126, 0x1p-14, 0x1p-126, 0x1p-6, 0x1p-14};
    int64_t n = 0;
    for (int64_t s = 0; s < t->shape[2]; s++) {
        for (int64_t d = 0; d < t->shape[3]; d++) {
            double x = fabs(at_tensor_get(t, 0, head, s, d));
            n += x > 0 && x < least[t->dtype];
        }
    }
    return (double)n / (double)(t->shape[2] * t->shape[3]);
}

static void test_denormal(void)
{
    at_arena *arena = open_arena();
    for (int i = 0; i < 2 * AT_DTYPE_COUNT; i++) {
        at_case c = parse("hq=6:hkv=3:sq=32:dqk=32:fill=denormal");
        c.dtype = c.odt = i / 2;
        c.seed = (uint64_t)(i % 2);
        at_problem p = open_case(&c, arena);
        for (int64_t head = 0; head < 6; head++) {
            bool v_tiny = (head / 2 + i) % 2 == 0;
            double v = subnormal_share(&p.t[AT_V], head / 2);
            double dout = subnormal_share(&p.t[AT_DO], head);
            CHECK((v_tiny ? v : dout) > 0.6);
            CHECK((v_tiny ? dout : v) < 0.005);
            CHECK(subnormal_share(&p.t[AT_Q], head) < 0.05);
        }
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

const at_test at_tests[] = {
    {"unit", "normal", test_normal},
    {"unit", "all_finite", test_all_finite},
    {"unit", "deep_neg", test_deep_neg},
    {"unit", "deep_neg_scale", test_deep_neg_scale},
    {"unit", "shares", test_shares},
    {"unit", "small_int", test_small_int},
    {"unit", "other_kinds", test_other_kinds},
    {"unit", "denormal", test_denormal},
    {NULL, NULL, NULL},
};
