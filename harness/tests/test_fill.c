/* fill.c, fill_kinds.c: equal bits for any number of threads and for ever, and what each
 * distribution promises. */
#include "harness/tests/test.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/problem/fill.h"
#include "harness/problem/rng.h"

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

/* FNV-1a of the bits of q, k, v, do. */
static uint64_t checksum(const at_problem *p)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (int id = AT_Q; id <= AT_DO; id++) {
        const unsigned char *bytes = p->t[id].data;
        for (size_t i = 0; i < p->size[id]; i++) {
            hash = (hash ^ bytes[i]) * 0x100000001b3U;
        }
    }
    return hash;
}

/* What a case means may never change: reports and waivers name cases by their text. */
static const uint64_t golden[FILLS][AT_DTYPE_COUNT] = {
    {0x62a28519adc26f0fU, 0xe4e5ae41a5edaff2U, 0x5e54285659aef062U, 0x41a177238d7f2247U,
     0xc48ae38990d4d610U},
    {0x9663efc65b6e49c0U, 0xa16c2f5ee582327eU, 0x174c21cfadf24020U, 0x3fba9720dc14d6a4U,
     0x1b1f560aab92193aU},
    {0x45648caabd59e42fU, 0x87d32eb0ab6db87aU, 0xccff2ba2e8e8fcb0U, 0xed030a86d0903949U,
     0xb17be9ff4d98b277U},
    {0xe8e6a77fdb455dc1U, 0xe14aab5d9c9d56c2U, 0x7e2546cf5fe6fb34U, 0xe46c87c9d1e4cf1fU,
     0xa293aef247631f40U},
    {0x3fb26c0aee251cd3U, 0x0964f51cdb8d7f32U, 0xb31eb9579aa49112U, 0x2be83669c618635fU,
     0x42ba1557917e50f0U},
    {0x606ecabd6ccfc791U, 0x3930c9c8140d9518U, 0xfa60784c2cd046e5U, 0xf56bd6d96ff8bb97U,
     0xd578d311e96ceb21U},
    {0x08da3a4ee4dc777eU, 0x44c9412abbdd5164U, 0xfff960a63a440f94U, 0x53180960cfa10885U,
     0x65924682f8dabfffU},
    {0x9bbbd1f363ce289aU, 0xd54cfab3beb8948eU, 0x31fa9715fff73666U, 0xeb7f13162938ae47U,
     0x6c8cf9325279ab9eU},
    {0x7c5e04a1d39c9042U, 0xe1a02f5b25e9a5e0U, 0xf0ffe42252131bc9U, 0x7e7356db2b194a99U,
     0xa4ff01da8fa613a3U},
    {0x2885c2dc7324e2ddU, 0xbbbba017099df637U, 0xa8330fbcba868a6dU, 0x0385f248b3735ee5U,
     0x7ea07bf1a48d987aU},
};

static void test_golden(void)
{
    at_arena *arena = open_arena();
    at_case c = parse("b=3:hq=6:hkv=3:hv=2:sq=37:skv=45:dqk=20:dv=13:lens=random:mask=band:wl=9:"
                      "wr=3:seed=81985529216486895");
    for (int i = 0; i < FILLS * AT_DTYPE_COUNT; i++) {
        c.fill = i / AT_DTYPE_COUNT;
        c.dtype = c.odt = i % AT_DTYPE_COUNT;
        at_problem p = open_case(&c, arena);
        uint64_t got = checksum(&p), want = golden[c.fill][c.dtype];
        if (got != want) {
            at_test_fail(__FILE__, __LINE__, "fill %d dtype %d: 0x%016" PRIx64, (int)c.fill,
                         (int)c.dtype, got);
        }
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

static void test_threads(void)
{
    static const int threads[] = {1, 2, 7};
    at_arena *arena = open_arena();
    at_case c = parse("b=2:hq=3:hkv=1:sq=150:skv=261:dqk=67:dv=40:lens=random:seed=5");
    int before = omp_get_max_threads();
    for (int i = 0; i < FILLS * 2; i++) {
        uint64_t sums[3] = {0};
        c.fill = i % FILLS;
        c.layout = i < FILLS ? AT_SBHD : AT_THD;
        c.gap = i < FILLS ? 0 : 5;
        for (int k = 0; k < 3; k++) {
            omp_set_num_threads(threads[k]);
            at_problem p = open_case(&c, arena);
            sums[k] = checksum(&p);
            at_arena_reset(arena);
        }
        CHECK(sums[0] == sums[1] && sums[0] == sums[2]);
    }
    omp_set_num_threads(before);
    at_arena_close(arena);
}

/* Words by blocks of lanes are those of the plain generator. */
static void test_words(void)
{
    static uint32_t low[AT_FILL_BLOCK], high[AT_FILL_BLOCK];
    static const int64_t firsts[] = {0, 1, 30, 31, 0x1fffffffeLL, 0x1fffffff1LL, 1LL << 40};
    static const int64_t counts[] = {0, 1, 2, 31, 32, 33, 65, 4095, 4096};
    uint64_t seed = 0x123456789abcdef0U;
    for (int i = 0; i < 7 * 9; i++) {
        int64_t first = firsts[i % 7], n = counts[i / 7];
        unsigned wrong = 0;
        at_fill_words(low, high, seed, 3, first, n);
        for (int64_t k = 0; k < n; k++) {
            uint64_t block = (uint64_t)(first + k) / 2;
            uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 3, 0};
            uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, word[4];
            at_philox4x32(word, counter, key);
            wrong += low[k] != word[(first + k) % 2 * 2];
            wrong += high[k] != word[(first + k) % 2 * 2 + 1];
        }
        CHECK_INT(wrong, 0);
    }
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

static void check_deep_neg(const at_case *c, at_arena *arena)
{
    static double score[131072];
    at_problem p = open_case(c, arena);
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

/* Seeds, tensors and heads give other numbers; the same element in a longer tensor does not. */
static void test_streams(void)
{
    at_case c = parse("b=2:hq=2:sq=8:dqk=8"), other = parse("b=2:hq=2:sq=8:dqk=8:seed=1");
    unsigned equal = 0;
    for (int i = 0; i < 64; i++) {
        double x = at_fill_value(&c, AT_Q, 0, 0, i / 8, i % 8);
        equal += x == at_fill_value(&other, AT_Q, 0, 0, i / 8, i % 8);
        equal += x == at_fill_value(&c, AT_K, 0, 0, i / 8, i % 8);
        equal += x == at_fill_value(&c, AT_Q, 0, 1, i / 8, i % 8);
        equal += x == at_fill_value(&c, AT_Q, 1, 0, i / 8, i % 8);
    }
    CHECK(equal <= 2);
    other = parse("b=1:hq=1:sq=100:dqk=8:mask=causal:dtype=f8e4m3");
    CHECK(at_fill_value(&c, AT_Q, 0, 0, 7, 7) == at_fill_value(&other, AT_Q, 0, 0, 7, 7));
}

static int64_t garbage_rows(const at_problem *p, int id, int64_t b)
{
    const at_tensor *t = &p->t[id];
    int64_t rows = 0;
    for (int64_t s = 0; s < t->shape[2]; s++) {
        int64_t n = 0;
        for (int64_t d = 0; d < t->shape[3]; d++) {
            double x = fabs(at_tensor_get(t, b, 0, s, d));
            n += x >= 32 && x <= 64 && x == floor(x);
        }
        rows += n == t->shape[3];
    }
    return rows;
}

static void test_garbage(void)
{
    at_arena *arena = open_arena();
    at_case c = parse("b=3:sq=10:skv=12:dqk=16:lenq=10+4+0:lenkv=12+3+5");
    for (int i = 0; i < FILLS; i++) {
        c.fill = i;
        at_problem p = open_case(&c, arena);
        for (int64_t b = 0; b < 3; b++) {
            int64_t keys = b == 2 ? 12 : 12 - p.len_kv[b]; /* sequence 2 has no rows that look */
            CHECK_INT(garbage_rows(&p, AT_Q, b), 10 - p.len_q[b]);
            CHECK_INT(garbage_rows(&p, AT_DO, b), 10 - p.len_q[b]);
            CHECK_INT(garbage_rows(&p, AT_K, b), keys);
            CHECK_INT(garbage_rows(&p, AT_V, b), keys);
        }
        at_arena_reset(arena);
    }
    at_case causal = parse("sq=6:skv=10:dqk=16:mask=causal");
    at_problem p = open_case(&causal, arena);
    CHECK_INT(garbage_rows(&p, AT_K, 0), 4); /* keys 6..9 are right of every row */
    at_case band = parse("sq=4:skv=20:dqk=16:mask=band:wl=2:wr=1:align=br");
    p = open_case(&band, arena);
    CHECK_INT(garbage_rows(&p, AT_V, 0), 14); /* row 0 is at key 16 and sees from 14 on */
    at_arena_close(arena);
}

const at_test at_tests[] = {
    {"unit", "golden", test_golden},
    {"unit", "threads", test_threads},
    {"unit", "words", test_words},
    {"unit", "normal", test_normal},
    {"unit", "all_finite", test_all_finite},
    {"unit", "deep_neg", test_deep_neg},
    {"unit", "deep_neg_scale", test_deep_neg_scale},
    {"unit", "shares", test_shares},
    {"unit", "small_int", test_small_int},
    {"unit", "other_kinds", test_other_kinds},
    {"unit", "denormal", test_denormal},
    {"unit", "streams", test_streams},
    {"unit", "garbage", test_garbage},
    {NULL, NULL, NULL},
};
