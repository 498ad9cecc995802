/* judge.c and teeth.c against references made up here: classes, bounds, contracts, memory, teeth.
 */
#include "harness/tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/judge/statistics.h"
#include "harness/judge/tally.h"
#include "harness/tests/bench.h"

/* Judges again and wants this of the tensor's step. */
static const at_measure *expect(at_bench *t, at_tensor_id id, at_kind kind, const char *code)
{
    at_bench_judge(t);
    const at_step_verdict *s = id == AT_O || id == AT_LSE ? &t->forward : &t->backward;
    CHECK_TEXT(at_kind_names[s->kind], at_kind_names[kind]);
    CHECK_TEXT(s->reason.code, code);
    CHECK((s->reason.text[0] == '\0') == (kind == AT_PASS));
    CHECK_TEXT(at_kind_names[at_bench_measure(t, id)->kind], at_kind_names[kind]);
    return at_bench_measure(t, id);
}

static const char plain[] = "b=2:hq=2:sq=5:skv=6:dqk=7:dv=9:dtype=f32";

static void test_pass(void)
{
    static const char *const cases[] = {
        "b=2:hq=2:sq=5:skv=6:dqk=7:dv=9:dtype=f32", "hq=4:hkv=2:sq=3:skv=2:dqk=300:dtype=f16",
        "b=2:sq=17:skv=9:dqk=16:layout=sbhd", "b=3:hq=2:sq=4:skv=4:layout=thd:lens=random:gap=2",
        "b=3:sq=8:skv=8:lens=half:layout=bhsd"};
    for (int i = 0; i < 5; i++) {
        at_bench t;
        at_bench_open(&t, cases[i]);
        for (int k = 0; k < AT_BENCH_OUTPUTS; k++) {
            const at_measure *m = expect(&t, at_bench_outputs[k], AT_PASS, "");
            CHECK(m->judged && m->max_ratio == 0 && m->rms_z == 0 && m->wrong == 0);
            CHECK_INT(m->total,
                      t.gold.t[at_bench_outputs[k]].rows * t.gold.t[at_bench_outputs[k]].dim);
        }
        at_bench_close(&t);
    }
}

static void test_not_judged(void)
{
    at_bench t;
    at_bench_open(&t, "sq=4:skv=4:pass=fwd:dtype=f32");
    at_bench_judge(&t);
    CHECK(t.forward.m[AT_O].judged && !t.forward.m[AT_LSE].judged);
    CHECK(!t.backward.m[AT_DQ].judged);
    at_bench_close(&t);
    at_bench_open(&t, "sq=4:skv=4:grads=v:dtype=f32");
    at_tensor_set(&t.p.t[AT_DQ], 0, 0, 0, 0, (double)NAN); /* nobody asked for it */
    at_bench_judge(&t);
    CHECK_INT(t.backward.kind, AT_PASS);
    CHECK(t.backward.m[AT_DV].judged && !t.backward.m[AT_DQ].judged);
    at_bench_close(&t);
    at_bench_open(&t, "b=0:sq=4:skv=4:dtype=f32");
    (void)expect(&t, AT_O, AT_PASS, "");
    CHECK_INT(t.forward.m[AT_O].total, 0);
    at_bench_close(&t);
}

/* diff == bound passes, the next number beyond does not. */
static void test_edge(void)
{
    at_bench t;
    at_bench_open(&t, plain);
    at_gold_tensor *g = &t.gold.t[AT_DK];
    int64_t at = 5 * g->dim + 3, *row = g->row[5];
    g->ref[at] = 1;
    g->bound[at] = 0.25;
    at_tensor_set(&t.p.t[AT_DK], row[0], row[1], row[2], 3, 1.25);
    const at_measure *m = expect(&t, AT_DK, AT_PASS, "");
    CHECK(m->max_ratio == 1 && m->got == 1.25 && m->want == 1 && m->bound == 0.25);
    float beyond = nextafterf(1.25F, 2.0F);
    at_tensor_set(&t.p.t[AT_DK], row[0], row[1], row[2], 3, (double)beyond);
    m = expect(&t, AT_DK, AT_WRONG, "bound");
    CHECK_INT(m->wrong, 1);
    CHECK_INT(m->index[0], row[0]);
    CHECK_INT(m->index[1], row[1]);
    CHECK_INT(m->index[2], row[2]);
    CHECK_INT(m->index[3], 3);
    CHECK(m->max_ratio > 1 && m->got == (double)beyond);
    CHECK_HAS(m->reason.text, "dk[0 0 5 3] is 1.25000011");
    CHECK_HAS(m->reason.text, "the reference is 1 and the bound 0.25; 1 elements");
    at_tensor_set(&t.p.t[AT_DK], row[0], row[1], row[2], 3, 0.75);
    (void)expect(&t, AT_DK, AT_PASS, "");
    g->bound[at] = 0;
    m = expect(&t, AT_DK, AT_WRONG, "bound");
    CHECK(m->max_ratio == HUGE_VAL);
    at_bench_close(&t);
}

static void test_worst_element(void)
{
    at_bench t;
    at_bench_open(&t, "b=2:hq=3:sq=40:skv=40:dqk=16:dtype=f32");
    at_gold_tensor *g = &t.gold.t[AT_O];
    for (int64_t r = 0; r < g->rows; r += 7) {
        int64_t *row = g->row[r];
        double error = r == 119 ? 5.0 / 64 : 2.0 / 64;
        at_tensor_set(&t.p.t[AT_O], row[0], row[1], row[2], 2, g->ref[r * g->dim + 2] + error);
    }
    const at_measure *m = expect(&t, AT_O, AT_WRONG, "bound");
    CHECK_INT(m->wrong, (g->rows + 6) / 7);
    CHECK(m->max_ratio == 5);
    CHECK_INT(m->index[0] * 120 + m->index[1] * 40 + m->index[2], 119);
    at_bench_close(&t);
}

/* NaN and infinities at every element of every output. */
static void test_classes(void)
{
    static const char *const codes[] = {"class_nan", "class_inf", "class_inf"};
    const double bad[] = {(double)NAN, HUGE_VAL, -HUGE_VAL};
    at_bench t;
    at_bench_open(&t, plain);
    for (int k = 0; k < AT_BENCH_OUTPUTS; k++) {
        const at_gold_tensor *g = &t.gold.t[at_bench_outputs[k]];
        for (int64_t i = 0; i < 3 * g->rows * g->dim; i++) {
            int64_t e = i / 3, *row = g->row[e / g->dim], d = e % g->dim;
            at_tensor_set(&t.p.t[at_bench_outputs[k]], row[0], row[1], row[2], d, bad[i % 3]);
            const at_measure *m = expect(&t, at_bench_outputs[k], AT_NONFINITE, codes[i % 3]);
            CHECK(m->index[2] == row[2] && m->index[3] == d && m->max_ratio == HUGE_VAL);
            CHECK(m->want == g->ref[e]);
            at_tensor_set(&t.p.t[at_bench_outputs[k]], row[0], row[1], row[2], d, g->ref[e]);
        }
    }
    at_bench_close(&t);
}

static void test_unwritten(void)
{
    at_bench t;
    at_bench_open(&t, "b=2:hq=2:sq=5:skv=6:dqk=8");
    at_problem_poison(&t.p, AT_DK, AT_DK);
    const at_measure *m = expect(&t, AT_DK, AT_UNWRITTEN, "unwritten");
    CHECK_INT(m->wrong, m->total);
    at_bench_fill(&t, AT_DK);
    at_tensor *o = &t.p.t[AT_O];
    uint16_t *row = at_tensor_at(o, 1, 0, 4, 0);
    for (int d = 0; d < 8; d++) {
        row[d] = (uint16_t)at_dtype_poison(AT_BF16);
    }
    m = expect(&t, AT_O, AT_UNWRITTEN, "unwritten_rows");
    CHECK_INT(m->wrong, 8);
    CHECK_HAS(m->reason.text, "o[1 0 4 0] was never written");
    row[0] = 0x7fff; /* another NaN is a NaN, and written */
    m = expect(&t, AT_O, AT_UNWRITTEN, "unwritten_part");
    CHECK_INT(m->wrong, 8);
    CHECK_INT(m->index[3], 1);
    at_bench_close(&t);
}

static void test_overflow(void)
{
    at_bench t;
    at_bench_open(&t, "sq=4:skv=4:dqk=4:dtype=f16");
    at_gold_tensor *g = &t.gold.t[AT_DV];
    g->ref[5] = 70000;
    g->bound[5] = 1;
    at_tensor_set(&t.p.t[AT_DV], 0, 0, 1, 1, HUGE_VAL);
    (void)expect(&t, AT_DV, AT_PASS, "");
    at_tensor_set(&t.p.t[AT_DV], 0, 0, 1, 1, -HUGE_VAL);
    (void)expect(&t, AT_DV, AT_NONFINITE, "class_inf");
    at_tensor_set(&t.p.t[AT_DV], 0, 0, 1, 1, 60000);
    (void)expect(&t, AT_DV, AT_WRONG, "bound");
    g->ref[5] = 65500; /* rounding noise may carry it beyond the largest number, 65504 */
    g->bound[5] = 40;
    at_tensor_set(&t.p.t[AT_DV], 0, 0, 1, 1, HUGE_VAL);
    (void)expect(&t, AT_DV, AT_PASS, "");
    g->bound[5] = 3;
    (void)expect(&t, AT_DV, AT_NONFINITE, "class_inf");
    at_bench_close(&t);
}

/* fp8 kernels stop at the largest number instead. */
static void test_saturation(void)
{
    const at_rule fp8 = {.dtype = AT_F8E4M3, .dim = 1, .max = 448};
    const at_rule f16 = {.dtype = AT_F16, .dim = 1, .max = 65504};
    CHECK(at_rule_passes(&fp8, 448, 600, 10) && at_rule_passes(&fp8, -448, -600, 10));
    CHECK(!at_rule_passes(&fp8, 416, 600, 10) && !at_rule_passes(&fp8, -448, 600, 10));
    CHECK(!at_rule_passes(&fp8, 448, 430, 10)); /* within the range it is as wrong as any */
    CHECK(!at_rule_passes(&fp8, (double)NAN, 600, 10));
    CHECK(!at_rule_passes(&f16, 65504, 70000, 10));
}

/* Rows 0..3 of sq=6, skv=2 under a bottom-right causal mask see no key. */
static void test_dead_rows(void)
{
    at_bench t;
    at_bench_open(&t, "b=1:hq=2:sq=6:skv=2:dqk=4:dtype=f32:mask=causal:align=br");
    (void)expect(&t, AT_O, AT_PASS, "");
    at_tensor_set(&t.p.t[AT_O], 0, 1, 2, 3, 1e-30);
    const at_measure *m = expect(&t, AT_O, AT_WRONG, "dead_row");
    CHECK_INT(m->index[2], 2);
    at_tensor_set(&t.p.t[AT_O], 0, 1, 2, 3, (double)NAN);
    (void)expect(&t, AT_O, AT_NONFINITE, "dead_row");
    at_tensor_set(&t.p.t[AT_O], 0, 1, 2, 3, -0.0);
    (void)expect(&t, AT_O, AT_PASS, "");
    t.contract.dead_o = AT_DEAD_O_NAN;
    (void)expect(&t, AT_O, AT_WRONG, "dead_row");
    for (int i = 0; i < 2 * 4 * 4; i++) {
        at_tensor_set(&t.p.t[AT_O], 0, i / 16, i / 4 % 4, i % 4, (double)NAN);
    }
    (void)expect(&t, AT_O, AT_PASS, "");
    t.contract.dead_o = AT_DEAD_O_MEAN;
    (void)expect(&t, AT_O, AT_NONFINITE, "dead_row");
    for (int i = 0; i < 2 * 4 * 4; i++) {
        double sum = at_tensor_get(&t.p.t[AT_V], 0, i / 16, 0, i % 4) +
                     at_tensor_get(&t.p.t[AT_V], 0, i / 16, 1, i % 4);
        at_tensor_set(&t.p.t[AT_O], 0, i / 16, i / 4 % 4, i % 4, sum / 2);
    }
    (void)expect(&t, AT_O, AT_PASS, "");
    at_tensor_set(&t.p.t[AT_O], 0, 1, 2, 3, 17);
    (void)expect(&t, AT_O, AT_WRONG, "dead_row");
    at_bench_close(&t);
}

static void test_dead_statistics(void)
{
    at_bench t;
    at_bench_open(&t, "b=1:hq=2:sq=6:skv=2:dqk=4:dtype=f32:mask=causal:align=br");
    at_tensor_set(&t.p.t[AT_LSE], 0, 0, 1, 0, HUGE_VAL);
    (void)expect(&t, AT_LSE, AT_WRONG, "dead_row");
    at_tensor_set(&t.p.t[AT_LSE], 0, 0, 1, 0, (double)NAN);
    (void)expect(&t, AT_LSE, AT_WRONG, "dead_row");
    t.contract.dead_lse = AT_DEAD_LSE_ANY;
    (void)expect(&t, AT_LSE, AT_PASS, "");
    t.contract.dead_lse = AT_DEAD_LSE_PLUS_INF;
    (void)expect(&t, AT_LSE, AT_WRONG, "dead_row");
    for (int i = 0; i < 8; i++) {
        at_tensor_set(&t.p.t[AT_LSE], 0, i / 4, i % 4, 0, HUGE_VAL);
    }
    (void)expect(&t, AT_LSE, AT_PASS, "");
    at_tensor_set(&t.p.t[AT_DQ], 0, 0, 1, 1, 3);
    (void)expect(&t, AT_DQ, AT_WRONG, "dead_row");
    t.contract.dead_grads = AT_DEAD_GRADS_ANY;
    (void)expect(&t, AT_DQ, AT_PASS, "");
    t.contract.dead_grads = AT_DEAD_GRADS_ZERO;
    uint32_t poison = at_dtype_poison(AT_F32);
    memcpy(at_tensor_at(&t.p.t[AT_DQ], 0, 0, 1, 1), &poison, sizeof poison);
    (void)expect(&t, AT_DQ, AT_UNWRITTEN, "unwritten_part");
    at_bench_close(&t);
}

static void test_padding(void)
{
    at_bench t;
    at_bench_open(&t, "b=2:sq=6:skv=6:dqk=4:dtype=f32:lenq=6+2:lenkv=3+6");
    t.contract.pad = AT_PAD_UNTOUCHED;
    (void)expect(&t, AT_DK, AT_PASS, "");
    at_tensor_set(&t.p.t[AT_DK], 0, 0, 4, 1, 0);
    (void)expect(&t, AT_DK, AT_WRONG, "pad_rows");
    t.contract.pad = AT_PAD_ANY;
    (void)expect(&t, AT_DK, AT_PASS, "");
    at_tensor_set(&t.p.t[AT_DK], 0, 0, 4, 1, (double)NAN);
    const at_measure *m = expect(&t, AT_DK, AT_NONFINITE, "pad_rows");
    CHECK_HAS(m->reason.text, "dk[0 0 4 1] is nan");
    t.contract.pad = AT_PAD_ZERO;
    for (int i = 0; i < 3 * 4; i++) {
        at_tensor_set(&t.p.t[AT_DK], 0, 0, 3 + i / 4, i % 4, 0);
    }
    at_bench_judge(&t);
    CHECK_INT(t.backward.m[AT_DK].kind, AT_PASS);
    CHECK_TEXT(t.forward.m[AT_O].reason.code, "pad_rows"); /* still poison, zero was promised */
    CHECK_INT(t.forward.m[AT_LSE].kind, AT_PASS);          /* the contract does not name it */
    at_bench_close(&t);
}

static void test_sampled(void)
{
    at_bench t;
    at_bench_open_sampled(&t, "b=2:hq=2:sq=9:skv=8:dqk=8:dtype=f32", 3);
    at_bench_judge(&t);
    CHECK_TEXT(t.forward.reason.code, "unwritten_rows"); /* rows between the listed ones too */
    for (int k = 0; k < AT_BENCH_OUTPUTS; k++) {
        at_tensor *x = &t.p.t[at_bench_outputs[k]];
        memset(x->data, 0, t.p.size[at_bench_outputs[k]]);
        at_bench_fill(&t, at_bench_outputs[k]);
    }
    const at_measure *m = expect(&t, AT_O, AT_PASS, "");
    CHECK_INT(m->total, 2 * 2 * 9 * 8);
    at_tensor_set(&t.p.t[AT_O], 1, 1, 7, 5, 1e30); /* no reference there: finite is enough */
    (void)expect(&t, AT_O, AT_PASS, "");
    at_tensor_set(&t.p.t[AT_O], 1, 1, 7, 5, (double)NAN);
    m = expect(&t, AT_O, AT_NONFINITE, "class_nan");
    CHECK(m->index[2] == 7 && m->index[3] == 5 && isnan(m->want));
    at_tensor_set(&t.p.t[AT_O], 1, 1, 7, 5, -HUGE_VAL);
    (void)expect(&t, AT_O, AT_NONFINITE, "class_inf");
    t.gold.t[AT_O].ref[0] = 1e39; /* the reference itself leaves f32 elsewhere */
    at_tensor_set(&t.p.t[AT_O], 0, 0, 0, 0, HUGE_VAL);
    (void)expect(&t, AT_O, AT_PASS, "");
    at_tensor_set(&t.p.t[AT_O], 0, 0, 3, 0, 9);
    (void)expect(&t, AT_O, AT_WRONG, "bound");
    at_bench_close(&t);
}

static void test_bad_reference(void)
{
    at_bench t;
    at_bench_open(&t, plain);
    t.gold.t[AT_O].ref[11] = (double)NAN;
    (void)expect(&t, AT_O, AT_ERROR, "reference_nan");
    t.gold.t[AT_O].ref[11] = 1;
    t.gold.t[AT_O].bound[11] = -1;
    (void)expect(&t, AT_O, AT_ERROR, "reference_nan");
    t.gold.t[AT_DV].row[2][2] = 77;
    (void)expect(&t, AT_DV, AT_ERROR, "reference_rows");
    t.gold.t[AT_DV].rows = 0;
    (void)expect(&t, AT_DV, AT_ERROR, "reference_missing");
    at_bench_close(&t);
}

static void write_byte(const at_bench *t, at_tensor_id id, int64_t offset)
{
    unsigned char *bytes = t->p.t[id].data;
    bytes[offset] ^= 1;
}

static void test_memory(void)
{
    at_bench t;
    at_bench_open(&t, "b=2:sq=4:skv=4:dqk=4:dtype=f32:layout=thd:lens=full:gap=2");
    write_byte(&t, AT_DV, (int64_t)t.p.size[AT_DV]);
    const at_measure *m = expect(&t, AT_DV, AT_OVERRUN, "guard_after");
    CHECK_HAS(m->reason.text, "dv");
    write_byte(&t, AT_DV, (int64_t)t.p.size[AT_DV]);
    write_byte(&t, AT_DQ, -1);
    (void)expect(&t, AT_DQ, AT_OVERRUN, "guard_before");
    write_byte(&t, AT_DQ, -1);
    write_byte(&t, AT_DK, 4 * 4 * 4); /* the first token after sequence 0 */
    (void)expect(&t, AT_DK, AT_OVERRUN, "gap_written");
    write_byte(&t, AT_DK, 4 * 4 * 4);
    write_byte(&t, AT_K, 3);
    at_bench_judge(&t);
    CHECK_TEXT(at_kind_names[t.forward.kind], "CLOBBERED");
    CHECK_TEXT(t.forward.reason.code, "input_changed");
    CHECK_HAS(t.forward.reason.text, "k");
    write_byte(&t, AT_K, 3);
    (void)expect(&t, AT_O, AT_PASS, "");
    at_bench_close(&t);
}

static void test_repeat(void)
{
    at_bench t;
    at_error what = {""};
    at_bench_open(&t, "b=2:hq=2:sq=5:skv=6:dqk=8:lenq=5+3:lenkv=6+2");
    size_t size = at_judge_keep_size(&t.p, AT_STEP_BACKWARD);
    CHECK_INT(size, (2 * 8 + 2 * 8 + 2 * 8) * 8 * 2);
    void *copy = malloc(size);
    at_judge_keep(&t.p, AT_STEP_BACKWARD, copy);
    CHECK(at_judge_same(&t.p, AT_STEP_BACKWARD, copy, &what));
    at_tensor_set(&t.p.t[AT_DK], 1, 1, 2, 0, 5); /* padding is nobody's promise */
    CHECK(at_judge_same(&t.p, AT_STEP_BACKWARD, copy, &what));
    double x = at_tensor_get(&t.p.t[AT_DK], 1, 1, 1, 6);
    at_tensor_set(&t.p.t[AT_DK], 1, 1, 1, 6, x * 1.01);
    CHECK(!at_judge_same(&t.p, AT_STEP_BACKWARD, copy, &what));
    CHECK_HAS(what.text, "dk[1 1 1 6] was");
    CHECK_INT(at_judge_keep_size(&t.p, AT_STEP_CLAIM), 0);
    free(copy);
    at_bench_close(&t);
}

static void test_statistics(void)
{
    at_bench t;
    at_bench_open(&t, "sq=2:skv=2:dqk=2:dtype=f32");
    at_gold_tensor *g = &t.gold.t[AT_O];
    for (int i = 0; i < 4; i++) { /* always outwards, by 1, 1, 1, 2 sigma */
        double away = (i == 3 ? 2.0 : 1.0) / 128 * (g->ref[i] > 0 ? 1 : -1);
        at_tensor_set(&t.p.t[AT_O], 0, 0, i / 2, i % 2, g->ref[i] + away);
    }
    const at_measure *m = expect(&t, AT_O, AT_PASS, "");
    CHECK(m->max_z == 2 && m->max_ratio == 1);
    CHECK(fabs(m->rms_z - sqrt(7.0 / 4)) < 1e-12);
    CHECK(fabs(m->row_rms_z - sqrt(5.0 / 2)) < 1e-12);
    CHECK(fabs(m->bias_z - 5 / sqrt(4.0)) < 1e-12);
    CHECK_INT(m->outliers, 0);
    CHECK_INT(m->compared, 4);
    CHECK(fabs(m->score[AT_STAT_BIAS] - 5.0 / 4) < 1e-12);
    CHECK(fabs(m->tile_rms_z - m->rms_z) < 1e-12 && fabs(m->block_rms_z - m->rms_z) < 1e-12);
    at_bench_close(&t);
}

/* One wrong tile, block and row among many: found where they are, also at the edges. */
static void test_places(void)
{
    at_bench t;
    at_bench_open(&t, "b=2:hq=2:sq=150:skv=4:dqk=8:dv=20:dtype=f32:pass=fwd");
    at_gold_tensor *g = &t.gold.t[AT_O];
    for (int64_t r = 0; r < g->rows; r++) {
        const int64_t *row = g->row[r];
        bool there = row[0] == 1 && row[1] == 0 && row[2] >= 48 && row[2] < 64;
        for (int64_t d = 0; d < g->dim; d++) {
            double z = there && d >= 16 ? 4 : 1, up = (r + d) % 2 == 0 ? 1 : -1;
            g->bound[r * g->dim + d] = 10;
            at_tensor_set(&t.p.t[AT_O], row[0], row[1], row[2], d,
                          g->ref[r * g->dim + d] + z * up * g->sigma[r * g->dim + d]);
        }
    }
    const at_measure *m = expect(&t, AT_O, AT_PASS, "");
    CHECK(fabs(m->tile_rms_z - 4) < 1e-4); /* 16 rows x columns 16..19 */
    CHECK(fabs(m->row_rms_z - sqrt((16 * 1 + 4 * 16) / 20.0)) < 1e-4);
    CHECK(fabs(m->block_rms_z - sqrt((64 * 20 - 64 + 64 * 16) / (64 * 20.0))) < 1e-4);
    CHECK(m->score[AT_STAT_TILE] > 10 && m->score[AT_STAT_BLOCK] < 1);
    CHECK_INT(m->outliers, 0);
    for (int i = 0; i < 3; i++) {
        double *sigma = &g->sigma[(g->rows - 1 - i) * g->dim];
        *sigma /= 8;
    }
    m = expect(&t, AT_O, AT_PASS, "");
    CHECK_INT(m->outliers, 3);
    CHECK(fabs(m->max_z - 8) < 1e-3 && m->score[AT_STAT_OUTLIERS] > 5);
    at_bench_close(&t);
}

/* Tail probabilities against known values. */
static void test_tails(void)
{
    CHECK(fabs(at_tail_normal(1.959963984540054) - 0.05) < 1e-12);
    CHECK(fabs(at_log_tail_normal(29.999) - at_log_tail_normal(30.001)) < 0.03);
    CHECK(fabs(at_log_tail_normal(40) + 349.136) < 2e-3); /* 2 x 3.66e-350, less 1/40^2 */
    /* chi squared with 8 degrees of freedom: 15.507 is its 95th percentile */
    CHECK(fabs(at_log_tail_rms(sqrt(15.5073130558655 / 8), 8) - log10(0.05)) < 1e-9);
    CHECK(at_log_tail_rms(2, 1000) == at_log_tail_rms(2, 8));
    CHECK(fabs(at_log_tail_rms(1.959963984540054, 1) - log10(0.05)) < 1e-9);
    CHECK(fabs(at_log_tail_count(2, 0.01) - log10(0.01 * 0.01 / 2)) < 1e-9);
    CHECK(at_log_tail_count(0, 0) == 0);
    CHECK(fabs(at_surprise(-7, 1e4) - 3) < 1e-9 && at_surprise(-2, 1e4) == 0);
    CHECK(at_surprise(-1e6, 1) == 300 && at_surprise((double)NAN, 1) == 300);
    CHECK(at_surprise(at_log_tail_normal((double)NAN), 4) == 300);
}

const at_test at_tests[] = {
    {"unit", "pass", test_pass},
    {"unit", "not_judged", test_not_judged},
    {"unit", "edge", test_edge},
    {"unit", "worst_element", test_worst_element},
    {"unit", "places", test_places},
    {"unit", "tails", test_tails},
    {"unit", "classes", test_classes},
    {"unit", "unwritten", test_unwritten},
    {"unit", "overflow", test_overflow},
    {"unit", "saturation", test_saturation},
    {"unit", "dead_rows", test_dead_rows},
    {"unit", "dead_statistics", test_dead_statistics},
    {"unit", "padding", test_padding},
    {"unit", "sampled", test_sampled},
    {"unit", "bad_reference", test_bad_reference},
    {"unit", "memory", test_memory},
    {"unit", "repeat", test_repeat},
    {"unit", "statistics", test_statistics},
    {NULL, NULL, NULL},
};
