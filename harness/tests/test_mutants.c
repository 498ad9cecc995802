/* The judge against planted faults: each is caught with a status that fits it, and cpu.flash
 * without a fault passes the same cases on every engine. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/tests/trial.h"
#include "kernels/kernels.h"
#include "kernels/mutants/mutants.h"

enum { TRIALS_MAX = 512 };

/* Cases that were opened, by text and numeric class; closed at the end of each test. */
static at_trial trials[TRIALS_MAX];
static const char *texts[TRIALS_MAX];
static at_numeric_class classes[TRIALS_MAX];
static int trial_count;

static bool same_class(const at_numeric_class *a, const at_numeric_class *b)
{
    return a->p == b->p && a->scores_stored == b->scores_stored && a->d_from_p == b->d_from_p &&
           a->head_rounded == b->head_rounded;
}

static const at_trial *open_trial(const char *text, const at_backend *b)
{
    for (int i = 0; i < trial_count; i++) {
        if (strcmp(texts[i], text) == 0 && same_class(&classes[i], &b->numeric)) {
            return &trials[i];
        }
    }
    AT_ASSERT(trial_count < TRIALS_MAX);
    at_reference_options golden = {.path = AT_REFERENCE_GOLDEN, .numeric = b->numeric};
    texts[trial_count] = text;
    classes[trial_count] = b->numeric;
    bool made = at_trial_open(&trials[trial_count++], text, &golden);
    AT_ASSERT(made);
    return &trials[trial_count - 1];
}

static void close_trials(void)
{
    while (trial_count > 0) {
        at_trial_close(&trials[--trial_count]);
    }
}

/* Inputs and what stands around them, as they were before a fault touched them. */
static void restore(const at_trial *t)
{
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        unsigned char *base = t->p.base[id];
        uint32_t guard = at_dtype_guard(t->p.t[id].dtype);
        size_t size = at_dtype_size(t->p.t[id].dtype);
        if (base != NULL && t->p.shadow[id] != NULL) {
            memcpy(base, t->p.shadow[id], t->p.size[id]);
        }
        for (size_t i = 0; i < size && base != NULL; i++) {
            base[t->p.size[id] + i] = (unsigned char)(guard >> (8 * i));
            *(base - size + i) = (unsigned char)(guard >> (8 * i));
        }
    }
}

static const char *first_engine(const at_backend *b, const at_trial *t)
{
    static at_engines engines;
    at_reason why = {"", ""};
    void *state = NULL;
    CHECK_INT(b->supports(b, &t->p.c, &why), AT_OK);
    CHECK_INT(b->claim(b, state, &t->p.c, &engines, &why), AT_OK);
    return engines.name[0];
}

/* A fault that statistics alone could show must at least change bits. */
static void check_acts(const at_backend *b, const at_trial *t, const char *engine, at_step step)
{
    at_error err = {""};
    void *copy = malloc(at_judge_keep_size(&t->p, step) + 1);
    CHECK_OK(at_trial_launch(t, &at_backend_cpu_flash, NULL, engine, AT_STEP_FORWARD, &err), &err);
    CHECK_OK(at_trial_launch(t, &at_backend_cpu_flash, NULL, engine, step, &err), &err);
    at_judge_keep(&t->p, step, copy);
    CHECK_OK(at_trial_launch(t, b, NULL, engine, step, &err), &err);
    if (at_judge_same(&t->p, step, copy, &err)) {
        at_test_fail(__FILE__, __LINE__, "%s does nothing", b->name);
    }
    free(copy);
}

static void check_mutant(const at_backend *b, const char *text)
{
    const at_mutant *m = b->data;
    const at_trial *t = open_trial(text, b);
    const char *engine = first_engine(b, t);
    at_verdict v;
    at_trial_run(t, b, engine, m->repeated ? 2 : 1, &v);
    const at_step_verdict *s = &v.step[m->step];
    if (m->step == AT_STEP_BACKWARD && v.step[AT_STEP_FORWARD].kind != AT_PASS) {
        at_test_fail(__FILE__, __LINE__, "%s on %s: forward is %s: %s", b->name, text,
                     at_kind_names[v.step[AT_STEP_FORWARD].kind],
                     v.step[AT_STEP_FORWARD].reason.text);
    } else if (m->subtle) {
        check_acts(b, t, engine, m->step);
    } else if (!s->ran || (m->kinds & 1U << s->kind) == 0) {
        at_test_fail(__FILE__, __LINE__, "%s on %s escapes or is misjudged: %s %s %s", b->name,
                     text, at_kind_names[s->kind], s->reason.code, s->reason.text);
    }
    restore(t);
}

static void check_mutants(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const at_backend *b = at_mutant_at(i);
        const at_mutant *m = b->data;
        CHECK((b->promises & AT_MUTANT) != 0 && strncmp(b->name, "mutant.", 7) == 0);
        CHECK(b->doc[0] != '\0' && m->kinds != 0 && m->cases[0] != NULL);
        CHECK(m->source == NULL || strncmp(m->source, "https://", 8) == 0);
        for (int k = 0; k < AT_MUTANT_CASES && m->cases[k] != NULL; k++) {
            check_mutant(b, m->cases[k]);
        }
    }
    close_trials();
}

static void test_forward(void)
{
    CHECK(at_mutants_forward_count >= 25);
    check_mutants(0, at_mutants_forward_count);
}

static void test_backward(void)
{
    CHECK(at_mutants_backward_count >= 25);
    check_mutants(at_mutants_forward_count, at_mutant_count() - at_mutants_feature_count);
}

static void test_feature(void)
{
    CHECK(at_mutants_feature_count >= 35);
    check_mutants(at_mutant_count() - at_mutants_feature_count, at_mutant_count());
}

static void check_healthy(const at_backend *b, const char *text)
{
    const at_trial *t = open_trial(text, b);
    at_engines engines = {0};
    at_reason why = {"", ""};
    CHECK_INT(b->claim(b, NULL, &t->p.c, &engines, &why), AT_OK);
    CHECK(engines.n > 0);
    for (int e = 0; e < engines.n; e++) {
        at_verdict v;
        at_trial_run(t, b, engines.name[e], e == 0 ? 2 : 1, &v);
        /* Scores of -100 stored in 8 bits leave nothing of a gradient. */
        bool mute = v.kind == AT_VACUOUS && b->numeric.scores_stored;
        if (v.kind != AT_PASS && !mute) {
            at_test_fail(__FILE__, __LINE__, "%s %s on %s: %s %s %s", b->name, engines.name[e],
                         text, at_kind_names[v.kind], v.reason.code, v.reason.text);
        }
    }
}

/* Every distinct case of the tables, every engine, without a fault. */
static void test_control(void)
{
    const char *seen[TRIALS_MAX];
    int n = 0;
    for (size_t i = 0; i < at_mutant_count(); i++) {
        const at_mutant *m = at_mutant_at(i)->data;
        for (int k = 0; k < AT_MUTANT_CASES && m->cases[k] != NULL; k++) {
            bool known = false;
            for (int j = 0; j < n && !known; j++) {
                known = strcmp(seen[j], m->cases[k]) == 0;
            }
            if (!known && n < TRIALS_MAX) {
                seen[n++] = m->cases[k];
            }
        }
    }
    CHECK(n >= 30);
    for (int i = 0; i < n; i++) {
        check_healthy(&at_backend_cpu_flash, seen[i]);
        check_healthy(&at_backend_cpu_naive, seen[i]);
    }
    close_trials();
}

static at_kind judge_again(const at_trial *t, at_tensor_id id)
{
    at_step_verdict s;
    at_judge_step(&s, id == AT_O || id == AT_LSE ? AT_STEP_FORWARD : AT_STEP_BACKWARD, &t->p,
                  &t->gold, &at_backend_cpu_flash.contract);
    return s.kind;
}

/* fp8 e4m3 has one NaN, and it is the poison too. */
static bool is_caught(const at_trial *t, at_tensor_id id, at_kind kind, double was)
{
    bool poison = t->p.t[id].dtype == AT_F8E4M3 && kind == AT_UNWRITTEN;
    return kind == AT_NONFINITE || poison || (id == AT_LSE && isinf(was) && kind == AT_WRONG);
}

/* Every live element of a healthy output replaced by NaN and the infinities. */
static void inject(const at_trial *t, at_tensor_id id)
{
    const double bad[] = {(double)NAN, HUGE_VAL, -HUGE_VAL};
    const at_gold_tensor *g = &t->gold.t[id];
    CHECK_INT(g->rows, g->total_rows);
    for (int64_t e = 0; e < g->rows * g->dim; e++) {
        const int64_t *row = g->row[e / g->dim], d = e % g->dim;
        if (d >= at_problem_live_columns(&t->p, id, row[0])) {
            continue; /* of dBias, beyond the keys of the sequence */
        }
        double was = at_tensor_get(&t->p.t[id], row[0], row[1], row[2], d);
        for (int i = 0; i < 3; i++) {
            at_tensor_set(&t->p.t[id], row[0], row[1], row[2], d, bad[i]);
            double far = fabs(g->ref[e]) + g->bound[e];
            bool overflow = isinf(bad[i]) && (bad[i] > 0) == (g->ref[e] > 0) &&
                            far > at_dtype_max(t->p.t[id].dtype) && isfinite(g->ref[e]);
            if (overflow) {
                continue; /* an infinite result is right where the answer may leave the range */
            }
            bool dead_lse = id == AT_LSE && was == bad[i];
            at_kind kind = judge_again(t, id);
            if (dead_lse ? kind != AT_PASS : !is_caught(t, id, kind, was)) {
                at_test_fail(__FILE__, __LINE__, "%s[%d] = %g is %s", at_tensor_names[id], (int)e,
                             bad[i], at_kind_names[kind]);
            }
        }
        at_tensor_set(&t->p.t[id], row[0], row[1], row[2], d, was);
    }
    CHECK_INT(judge_again(t, id), AT_PASS);
}

static void test_injection(void)
{
    static const at_tensor_id all[] = {AT_O, AT_LSE, AT_DQ, AT_DK, AT_DV, AT_DBIAS, AT_DSINK};
    static const char *const cases[] = {
        "b=2:hq=2:hkv=1:sq=5:skv=7:dqk=8:dv=5:dtype=f16",
        "hq=2:sq=6:skv=4:dqk=8:mask=causal:align=br", /* two rows see no key */
        "b=3:sq=5:skv=5:dqk=9:dtype=f32:layout=thd:lenq=5+0+3:lenkv=2+5+4",
        "b=2:hq=2:sq=5:skv=7:dqk=8:bias=rel.bh:sink=learned:grads=qkvbs:lenq=5+3:lenkv=4+7",
        "b=2:hq=2:hkv=1:sq=5:skv=7:dqk=8:bias=rel.11:grads=qkvb:amask=add.1h:deadrows=1:dtype=f16",
        "hq=2:hkv=1:sq=5:skv=7:dqk=8:dtype=f8e4m3:sink=learned:dropout=0.25:grads=qkvs",
        "hq=3:sq=5:dqk=8:dtype=f8e5m2:pack=qkvh3",
        "b=2:hq=2:sq=5:skv=7:dqk=8:page=2:lens=random:pass=stats:stride=row_gap"};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const at_trial *t = open_trial(cases[c], &at_backend_cpu_flash);
        at_verdict v;
        at_trial_run(t, &at_backend_cpu_flash, "tile64", 1, &v);
        CHECK(v.kind == AT_PASS || v.kind == AT_VACUOUS);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            if (t->gold.t[all[i]].rows > 0) {
                inject(t, all[i]);
            }
        }
    }
    close_trials();
}

static const at_tensor_id outputs[] = {AT_O, AT_LSE, AT_DQ, AT_DK, AT_DV};

/* All values of the language, zero and negated outputs: whatever the inputs are like. */
static void test_fills(void)
{
    const at_field *fill = at_case_field("fill", 4);
    for (int f = 0; fill->names[f] != NULL; f++) {
        for (int d = 0; d < 3; d++) {
            char text[AT_CASE_TEXT_MAX];
            at_case c;
            at_trial t;
            at_error err = {""};
            at_reference_options golden = {.path = AT_REFERENCE_GOLDEN};
            CHECK_OK(at_case_parse(&c, "hq=2:sq=40:skv=50:dqk=32", &err), &err);
            c.fill = f;
            c.dtype = c.odt = d;
            (void)at_case_print(&c, text);
            if (!at_trial_open_case(&t, &c, &golden)) {
                continue;
            }
            at_verdict v;
            for (int i = 0; i < 10; i++) {
                at_tensor_id id = outputs[i / 2];
                at_trial_run(&t, &at_backend_cpu_flash, "tile64", 1, &v);
                if (v.kind != AT_PASS && v.kind != AT_VACUOUS) {
                    at_test_fail(__FILE__, __LINE__, "%s: %s", text, v.reason.text);
                }
                (i % 2 == 0 ? at_spoil_zero : at_spoil_negate)(&t.p, id);
                bool vacuous =
                    v.step[i < 4 ? AT_STEP_FORWARD : AT_STEP_BACKWARD].m[id].kind == AT_VACUOUS;
                if (judge_again(&t, id) != AT_WRONG && !vacuous) {
                    at_test_fail(__FILE__, __LINE__, "%s: %s %s passes", text, at_tensor_names[id],
                                 i % 2 == 0 ? "zero" : "negated");
                }
            }
            at_trial_close(&t);
        }
    }
}

const at_test at_tests[] = {
    {"mutant", "forward", test_forward},
    {"mutant", "backward", test_backward},
    {"mutant", "feature", test_feature},
    {"mutant", "control", test_control},
    {"mutant", "injection", test_injection},
    {"mutant", "fills", test_fills},
    {NULL, NULL, NULL},
};
