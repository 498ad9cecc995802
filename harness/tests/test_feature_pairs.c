/* Every pair of features that the table calls judged is judged: the reference's own answer passes,
 * a wrong one does not, and cpu.flash passes. */
#include "harness/tests/test.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "harness/judge/judge.h"
#include "harness/run/feature_pairs.h"
#include "harness/tests/trial.h"
#include "harness/tests/world.h"
#include "kernels/kernels.h"

/* Writes the reference into the outputs, rounded to their types. */
static void answer(const at_world *w)
{
    for (int i = 0; i < AT_WORLD_OUTPUTS; i++) {
        at_tensor_id id = at_world_outputs[i];
        const at_gold_tensor *g = &w->gold.t[id];
        for (int64_t e = 0; e < g->rows * g->dim; e++) {
            const int64_t *row = g->row[e / g->dim];
            at_tensor_set(&w->p.t[id], row[0], row[1], row[2], e % g->dim, g->ref[e]);
        }
    }
}

static at_kind judge(const at_world *w, at_step step, at_step_verdict *out)
{
    static const at_contract contract;
    memset(out, 0, sizeof *out);
    at_judge_step(out, step, &w->p, &w->gold, &contract);
    return out->kind;
}

static void expect_pass(const at_world *w)
{
    at_step_verdict s;
    at_step last = w->p.c.pass == AT_PASS_TRAIN ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
    for (at_step step = AT_STEP_FORWARD; step <= last; step++) {
        if (judge(w, step, &s) != AT_PASS) {
            at_test_fail(__FILE__, __LINE__, "%s: %s", w->text, s.reason.text);
        }
    }
}

/* Negates the largest element that is above its bound. Counts tensors without any. */
static int expect_wrong(const at_world *w, at_tensor_id id)
{
    const at_gold_tensor *g = &w->gold.t[id];
    int64_t worst = -1;
    for (int64_t e = 0; e < g->rows * g->dim; e++) {
        double ref = fabs(g->ref[e]), most = worst >= 0 ? fabs(g->ref[worst]) : 0;
        bool judged = e % g->dim < at_problem_live_columns(&w->p, id, g->row[e / g->dim][0]);
        if (judged && isfinite(ref) && ref > g->bound[e] && ref > most) {
            worst = e;
        }
    }
    if (worst < 0) {
        (void)printf("%s: %s is nowhere above its bound\n", w->text, at_tensor_names[id]);
        /* Rows of one key have no gradient of scores, and no keys no answer at all. */
        return w->p.c.len_q > 0 && w->p.c.len_kv > 0 && w->p.c.lens != AT_LENS_ONE;
    }
    const int64_t *row = g->row[worst / g->dim];
    at_step_verdict s;
    at_step step = id == AT_O || id == AT_LSE ? AT_STEP_FORWARD : AT_STEP_BACKWARD;
    at_tensor_set(&w->p.t[id], row[0], row[1], row[2], worst % g->dim, -g->ref[worst]);
    (void)judge(w, step, &s);
    bool wanted = (id != AT_DQ || (w->p.c.grads & AT_GRAD_Q)) &&
                  (id != AT_DK || (w->p.c.grads & AT_GRAD_K)) &&
                  (id != AT_DV || (w->p.c.grads & AT_GRAD_V));
    if (wanted != (s.m[id].kind == AT_WRONG)) {
        at_test_fail(__FILE__, __LINE__, "%s: a wrong %s is %s", w->text, at_tensor_names[id],
                     at_kind_names[s.m[id].kind]);
    }
    at_tensor_set(&w->p.t[id], row[0], row[1], row[2], worst % g->dim, g->ref[worst]);
    return 0;
}

static int judge_case(const at_case *c)
{
    char text[AT_CASE_TEXT_MAX];
    at_world w;
    int vague = 0;
    (void)at_case_print(c, text);
    if (at_world_open(&w, text) && at_world_run(&w, AT_REFERENCE_AUTO, NULL)) {
        at_reason reason;
        CHECK_INT(at_judge_dropout(&w.p, &reason), AT_PASS);
        answer(&w);
        expect_pass(&w);
        for (int i = 0; i < AT_WORLD_OUTPUTS; i++) {
            bool any = w.gold.t[at_world_outputs[i]].rows * w.gold.t[at_world_outputs[i]].dim > 0;
            vague += any ? expect_wrong(&w, at_world_outputs[i]) : 0;
        }
        expect_pass(&w);
    }
    at_world_close(&w);
    return vague;
}

/* One engine of cpu.flash, in turn. */
static bool flash_tells(const at_case *c, size_t turn)
{
    const at_backend *b = &at_backend_cpu_flash;
    const at_reference_options options = {.numeric = b->numeric};
    char text[AT_CASE_TEXT_MAX];
    at_engines engines = {0};
    at_reason why;
    at_trial t;
    at_verdict v = {0};
    (void)at_case_print(c, text);
    CHECK_INT(b->claim(b, NULL, c, &engines, &why), AT_OK);
    const char *engine = engines.name[turn % (size_t)engines.n];
    if (at_trial_open_case(&t, c, &options)) {
        at_trial_run(&t, b, engine, 1, &v);
    }
    at_trial_close(&t);
    if (v.kind != AT_PASS && v.kind != AT_VACUOUS) {
        at_test_fail(__FILE__, __LINE__, "cpu.flash %s on %s: %s: %s", engine, text,
                     at_kind_names[v.kind], v.reason.text);
    }
    return v.kind == AT_PASS;
}

static void test_flash(void)
{
    int told = 0, mute = 0, refused = 0;
    omp_set_num_threads(1);
    for (size_t a = 0; a < at_feature_word_count; a++) {
        for (size_t b = a; b < at_feature_word_count; b++) {
            at_case c;
            char code[48];
            at_error why = {""};
            at_pair_state state = at_feature_pair(&c, code, &why, a, b);
            if (state <= AT_PAIR_BY_MASK) {
                bool tells = flash_tells(&c, a + b);
                told += tells;
                mute += !tells;
            } else if (state == AT_PAIR_REFUSED) {
                CHECK_TEXT(code, "exec");
                refused++;
            }
        }
    }
    (void)printf("cpu.flash passes %d pairs, %d tell nothing, %d are refused\n", told, mute,
                 refused);
    CHECK(told > 1000 && mute * 4 < told);
}

static void test_pairs(void)
{
    int states[5] = {0}, vague = 0;
    omp_set_num_threads(1); /* many tiny problems */
    for (size_t a = 0; a < at_feature_word_count; a++) {
        for (size_t b = a; b < at_feature_word_count; b++) {
            at_case c;
            char code[48];
            at_error why = {""};
            at_pair_state state = at_feature_pair(&c, code, &why, a, b);
            states[state]++;
            bool coded = state == AT_PAIR_SKIPPED || state == AT_PAIR_REFUSED;
            CHECK((code[0] != '\0') == coded);
            CHECK((why.text[0] != '\0') == (state >= AT_PAIR_REFUSED));
            if (state <= AT_PAIR_REFUSED) {
                vague += judge_case(&c);
            }
        }
    }
    (void)printf(
        "%d pairs judged, %d by the mask, %d refused by cpu.flash, %d skipped, %d no case\n",
        states[0], states[1], states[2], states[3], states[4]);
    CHECK(states[AT_PAIR_JUDGED] > 1000 && states[AT_PAIR_BY_MASK] > 40);
    CHECK(vague <= 4);
}

/* A feature alone is always a case. */
static void test_singles(void)
{
    for (size_t a = 0; a < at_feature_word_count; a++) {
        at_case c;
        char code[48];
        at_error why = {""};
        if (at_feature_pair(&c, code, &why, a, a) > AT_PAIR_REFUSED) {
            at_test_fail(__FILE__, __LINE__, "%s: %s", at_feature_words[a].name, why.text);
        }
    }
}

const at_test at_tests[] = {
    {"ref", "pairs", test_pairs},
    {"ref", "singles", test_singles},
    {"ref", "flash", test_flash},
    {NULL, NULL, NULL},
};
