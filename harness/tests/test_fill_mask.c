/* fill_mask.c: dense masks, bias, sinks, dropout storage, fp8 scales. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/problem/problem.h"

static at_arena *open_arena(void)
{
    at_arena *arena = NULL;
    at_error err = {""};
    CHECK_OK(at_arena_open(&arena, &err), &err);
    return arena;
}

static at_problem open_problem(const char *text, at_arena *arena)
{
    at_case c;
    at_problem p;
    at_error err = {""};
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    CHECK_OK(at_problem_open(&p, &c, arena, &err), &err);
    return p;
}

static bool sees(const at_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    double x = at_tensor_get(&p->t[AT_AMASK], b, h, i, j);
    return p->t[AT_AMASK].dtype == AT_U8 ? x == 1 : x == 0;
}

/* Every element is the stream's, in the kind's own words, whatever b and h it is read with. */
static int64_t wrong_elements(const at_problem *p)
{
    const at_tensor *t = &p->t[AT_AMASK];
    double lowest = -at_dtype_max(t->dtype);
    bool add = p->c.amask >= AT_AMASK_ADD_11 && p->c.amask <= AT_AMASK_ADD_BH;
    double masked = t->dtype == AT_U8 ? 0 : add ? -HUGE_VAL : lowest;
    int64_t wrong = 0, n = p->c.batch * p->c.heads_q * p->c.len_q * p->c.len_kv;
    for (int64_t e = 0; e < n; e++) {
        int64_t j = e % p->c.len_kv, i = e / p->c.len_kv % p->c.len_q;
        int64_t h = e / p->c.len_kv / p->c.len_q % p->c.heads_q;
        int64_t b = e / p->c.len_kv / p->c.len_q / p->c.heads_q;
        double x = at_tensor_get(t, b, h, i, j);
        bool live = at_fill_value(&p->c, AT_AMASK, b, h, i, j) != 0;
        wrong += x != (live ? (t->dtype == AT_U8 ? 1 : 0) : masked);
    }
    return wrong;
}

/* Rows that have keys by window and lengths, and none by the dense mask. */
static int64_t dead_rows(const at_problem *p, int64_t *live)
{
    int64_t dead = 0;
    *live = 0;
    for (int64_t r = 0; r < p->c.batch * p->c.heads_q * p->c.len_q; r++) {
        int64_t i = r % p->c.len_q, h = r / p->c.len_q % p->c.heads_q;
        int64_t b = r / p->c.len_q / p->c.heads_q, first = 0, last = -1, keys = 0;
        at_problem_keys(p, b, i, &first, &last);
        for (int64_t j = first; j <= last; j++) {
            keys += sees(p, b, h, i, j);
        }
        dead += first <= last && keys == 0;
        *live += first <= last;
    }
    return dead;
}

static void test_masks(void)
{
    static const char *const kinds[] = {"bool", "add", "min"};
    static const char *const broadcasts[] = {"11", "b1", "1h", "bh"};
    static const char *const rest[] = {"lens=random",
                                       "mask=causal",
                                       "mask=band:wl=3:wr=2:lens=random:align=br",
                                       "mask=causal:align=br:layout=thd:lens=random:dtype=f16",
                                       "skv=150:dtype=f32:deadrows=1",
                                       "sq=70:deadrows=1:mask=causal"};
    at_arena *arena = open_arena();
    for (int i = 0; i < 3 * 4 * 6; i++) {
        char text[256];
        int64_t live = 0;
        const char *more = rest[i / 12];
        bool sized = strstr(more, "sq=70") != NULL || strstr(more, "skv") != NULL;
        (void)snprintf(text, sizeof text, "b=3:hq=2:dqk=4:amask=%s.%s:seed=%d:%s%s", kinds[i % 3],
                       broadcasts[i / 3 % 4], i, more, sized ? "" : ":sq=13:skv=11");
        at_problem p = open_problem(text, arena);
        CHECK_INT(wrong_elements(&p), 0);
        int64_t dead = dead_rows(&p, &live);
        CHECK(p.c.dead_rows ? dead > 0 && dead < live / 3 : dead == 0);
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

/* About 44 % of a large mask is masked, whole tiles among it, and the forms differ where they may.
 */
static void test_mask_shares(void)
{
    at_arena *arena = open_arena();
    at_problem p =
        open_problem("b=2:hq=2:sq=512:skv=512:dqk=4:amask=bool.bh:seed=5:pass=fwd", arena);
    const unsigned char *seen = p.t[AT_AMASK].data;
    int64_t masked = 0, tiles = 0, equal = 0, n = INT64_C(4) * 512 * 512;
    for (int64_t e = 0; e < n; e++) {
        masked += seen[e] == 0;
        equal += seen[e] == seen[e % (512 * 512)];
    }
    for (int64_t tile = 0; tile < 4 * 8 * 8; tile++) {
        int64_t live = 0, head = tile / 64, row = tile / 8 % 8, column = tile % 8;
        for (int64_t e = 0; e < 64 * 64; e++) {
            live += seen[(head * 512 + row * 64 + e / 64) * 512 + column * 64 + e % 64];
        }
        tiles += live < 64 * 64 / 8;
        CHECK(row != column || live > 64 * 64 / 2);
    }
    CHECK(masked > n * 38 / 100 && masked < n * 48 / 100);
    CHECK(tiles > 30 && tiles < 80);
    CHECK(equal < n * 75 / 100);
    at_arena_close(arena);
}

static double moment(const at_tensor *t, int power)
{
    double sum = 0, n = (double)(t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]);
    for (int64_t e = 0; e < (int64_t)n; e++) {
        double x = 0;
        at_dtype_load_double(t->dtype, &x,
                             (const char *)t->data + (size_t)e * at_dtype_size(t->dtype), 1);
        sum += power == 1 ? x : x * x;
    }
    return sum / n;
}

static void test_bias(void)
{
    static const char *const forms[] = {"11", "b1", "1h", "bh"};
    at_arena *arena = open_arena();
    for (int i = 0; i < 4 * (AT_FILL_DENORMAL + 1); i++) {
        char text[128];
        at_case c;
        at_problem p;
        at_error err = {""};
        (void)snprintf(text, sizeof text, "b=2:hq=3:sq=31:skv=67:dqk=4:bias=rel.%s", forms[i % 4]);
        CHECK_OK(at_case_parse(&c, text, &err), &err);
        c.fill = i / 4;
        CHECK_OK(at_problem_open(&p, &c, arena, &err), &err);
        const at_tensor *t = &p.t[AT_BIAS];
        int64_t wrong = 0;
        for (int64_t e = 0; e < 2 * 3 * 31 * 67; e += 7) {
            int64_t j = e % 67, r = e / 67 % 31, h = e / 67 / 31 % 3, b = e / 67 / 31 / 3;
            double want = at_fill_value(&c, AT_BIAS, b, h, r, j);
            wrong += at_tensor_get(t, b, h, r, j) != at_dtype_round(t->dtype, want);
        }
        CHECK_INT(wrong, 0);
        double mean = moment(t, 1), square = moment(t, 2);
        if (c.fill == AT_FILL_DEEP_NEG) {
            CHECK(mean < -7.8 && mean > -8.2);
        } else if (c.fill == AT_FILL_NORMAL || c.fill == AT_FILL_PEAKY) {
            CHECK(fabs(mean) < 0.1 && fabs(square - 1) < 0.1);
        }
        at_arena_reset(arena);
    }
    at_arena_close(arena);
}

static void test_sink(void)
{
    at_arena *arena = open_arena();
    at_problem p = open_problem("hq=1024:hkv=1:sq=1:skv=64:dqk=1:sink=learned", arena);
    double mean = moment(&p.t[AT_SINK], 1), square = moment(&p.t[AT_SINK], 2);
    CHECK(fabs(mean - 4.375) < 0.15 && fabs(square - mean * mean - 1) < 0.15);
    CHECK(at_tensor_get(&p.t[AT_SINK], 7, 9, 0, 0) == at_fill_value(&p.c, AT_SINK, 0, 9, 0, 0));
    p = open_problem("hq=1024:hkv=1:sq=1:skv=64:dqk=1:sink=learned:fill=deep_neg", arena);
    CHECK(moment(&p.t[AT_SINK], 1) < -150);
    CHECK(at_alibi_slope(&p.c, 1023) == 0x1p-8);
    p = open_problem("hq=8:bias=alibi", arena);
    CHECK(at_alibi_slope(&p.c, 0) == 0.5 && at_alibi_slope(&p.c, 7) == 0x1p-8);
    at_arena_close(arena);
}

/* Poison that nobody can take for a mask; drop belongs to the forward, dbias and dsink to the
 * backward. */
static void test_outputs(void)
{
    at_arena *arena = open_arena();
    at_problem p = open_problem("b=2:dropout=0.5:bias=rel.11:sink=learned:grads=qbs", arena);
    static const at_tensor_id ids[] = {AT_DROP, AT_DBIAS, AT_DSINK};
    for (int i = 0; i < 3; i++) {
        unsigned char *bytes = p.t[ids[i]].data;
        const unsigned char poison = (unsigned char)at_dtype_poison(p.t[ids[i]].dtype);
        CHECK(bytes[0] == poison && (ids[i] != AT_DROP || poison > 1));
        bytes[0] = 1;
    }
    at_problem_poison(&p, AT_DQ, AT_DV);
    CHECK(*(unsigned char *)p.t[AT_DROP].data == 1);
    CHECK(*(unsigned char *)p.t[AT_DBIAS].data != 1 && *(unsigned char *)p.t[AT_DSINK].data != 1);
    at_problem_poison(&p, AT_O, AT_LSE);
    CHECK(*(unsigned char *)p.t[AT_DROP].data == 0xa5);
    at_arena_close(arena);
}

static void test_units(void)
{
    at_arena *arena = open_arena();
    at_problem p = open_problem("b=2", arena);
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        CHECK(p.unit[id] == 1);
    }
    p = open_problem("b=2:dtype=f8e4m3:seed=4", arena);
    double unlike = 0;
    for (int id = AT_Q; id <= AT_DO; id++) {
        CHECK(p.unit[id] >= 1 && p.unit[id] < 2);
        unlike += fabs((double)p.unit[id] - (double)p.unit[(id + 1) % 4]);
    }
    CHECK(unlike > 0);
    /* No o is beyond the type: it is a mean of values. */
    CHECK(p.unit[AT_O] > 0 && p.unit[AT_O] < 0.1F && p.unit[AT_DQ] > 0 && p.unit[AT_LSE] == 1);
    p = open_problem("b=2:dtype=f8e4m3:odt=bf16:pass=fwd", arena);
    CHECK(p.unit[AT_Q] >= 1 && p.unit[AT_O] == 1 && p.unit[AT_DO] == 1);
    at_arena_close(arena);
}

const at_test at_tests[] = {
    {"unit", "masks", test_masks},
    {"unit", "mask_shares", test_mask_shares},
    {"unit", "bias", test_bias},
    {"unit", "sink", test_sink},
    {"unit", "outputs", test_outputs},
    {"unit", "units", test_units},
    {NULL, NULL, NULL},
};
