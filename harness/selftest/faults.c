#include "harness/selftest/faults.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/checks/checks.h"
#include "harness/selftest/confirm.h"
#include "kernels/kernels.h"
#include "kernels/mutants/mutants.h"

enum { TEXTS_MAX = 256, DTYPES = 3 };

const char *const at_tier_names[] = {"exact", "bound", "statistics", "checks", "all", NULL};

/* One case at work. */
typedef struct bench {
    const at_fault_plan *plan;
    at_fault_score *scores;
    at_case c;
    at_specimen specimen;
    at_confirm confirm;
    char engine[AT_ENGINE_NAME];
    void *healthy[AT_STEP_COUNT], *launch; /* outputs: of cpu.flash; of the fault's first launch */
} bench;

/* What a run of a fault showed. */
typedef struct finding {
    bool acts, caught[AT_TIERS];
} finding;

static at_status keep(const bench *b, at_step step, void **copy, at_error *err)
{
    free(*copy);
    *copy = malloc(at_judge_keep_size(&b->specimen.p, step) + 1);
    if (*copy == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory to compare launches");
    }
    at_judge_keep(&b->specimen.p, step, *copy);
    return AT_OK;
}

/* Tier 0 and tier 1 from the verdict of one step. */
static void sort_verdict(finding *f, const at_step_verdict *v)
{
    f->caught[AT_TIER_EXACT] = at_kind_class(v->kind) == AT_CLASS_FAIL && v->kind != AT_WRONG;
    for (int t = 0; t < AT_TENSOR_COUNT; t++) {
        const at_measure *m = &v->m[t];
        if (!m->judged || at_kind_class(m->kind) != AT_CLASS_FAIL) {
            continue;
        }
        bool bound = strcmp(m->reason.code, "bound") == 0;
        bool beyond = m->kind == AT_NONFINITE || m->kind == AT_UNWRITTEN;
        bool pad = strcmp(m->reason.code, "pad_rows") == 0;
        bool row = strcmp(m->reason.code, "dead_row") == 0;
        bool class_differs = strcmp(m->reason.code, "class_finite") == 0;
        f->caught[AT_TIER_EXACT] |= pad || row || class_differs;
        f->caught[AT_TIER_BOUND] |= bound || row || class_differs || (beyond && !pad);
    }
}

/* Multiply-adds of a launch beyond which checks take too long to be tried on every miss. */
#define CHECKS_WORK 2e6

static bool any_check_breaks(const bench *b, const at_backend *fault)
{
    const at_case *c = &b->c;
    if ((double)(c->batch * c->heads_q * c->len_q * c->len_kv) * (double)(c->dim_qk + c->dim_v) >
        CHECKS_WORK) {
        return false;
    }
    for (int i = 0; i < AT_CHECK_COUNT; i++) {
        at_step step;
        at_reason why;
        if (at_check_run((at_check)i, fault, NULL, b->engine, &b->c, &step, &why) ==
            AT_CHECK_BROKEN) {
            return true;
        }
    }
    return false;
}

static at_status run_fault(bench *b, size_t n, finding *f, at_error *err)
{
    const at_backend *fault = at_mutant_at(n);
    static at_verdict v; /* large */
    const at_mutant *m = fault->data;
    at_verdict_init(&v);
    at_step_verdict *s = &v.step[m->step];
    at_specimen_judge(s, &b->specimen, fault, b->engine, m->step);
    sort_verdict(f, s);
    f->acts =
        f->caught[AT_TIER_EXACT] || !at_judge_near(&b->specimen.p, m->step, b->healthy[m->step]);
    if (m->repeated) {
        at_error what = {""};
        AT_TRY(keep(b, m->step, &b->launch, err));
        AT_TRY(at_specimen_launch(&b->specimen, fault, b->engine, m->step, err));
        bool differs = !at_judge_same(&b->specimen.p, m->step, b->launch, &what);
        f->acts = differs;
        f->caught[AT_TIER_EXACT] |= differs;
    }
    f->caught[AT_TIER_ALL] = f->caught[AT_TIER_EXACT] || f->caught[AT_TIER_BOUND];
    at_exceeded exceeded;
    if (f->acts && b->plan->limits != NULL &&
        at_limits_check(&exceeded, b->plan->limits, &fault->numeric, &b->c, &v) && exceeded.n > 0) {
        f->caught[AT_TIER_STATS] = true;
        if (!f->caught[AT_TIER_ALL]) {
            bool confirmed = false;
            AT_TRY(at_confirm_run(&confirmed, &b->confirm, fault, b->engine, m->step, &exceeded,
                                  b->plan->limits, err));
            f->caught[AT_TIER_ALL] = confirmed;
        }
    }
    if (f->acts && b->plan->checks && !f->caught[AT_TIER_ALL]) {
        f->caught[AT_TIER_CHECKS] = any_check_breaks(b, fault);
        f->caught[AT_TIER_ALL] = f->caught[AT_TIER_CHECKS];
    }
    if (b->plan->observe != NULL && f->acts && b->scores[n].changes_values) {
        b->plan->observe(b->plan->observer, &b->specimen, n, m->step, f->caught);
    }
    at_specimen_restore(&b->specimen);
    return AT_OK;
}

static void score(bench *b, size_t i, const finding *f)
{
    at_fault_score *s = &b->scores[i];
    if (!f->acts) {
        s->idle++;
        return;
    }
    s->runs[b->c.fill]++;
    for (int t = 0; t < AT_TIERS; t++) {
        s->caught[b->c.fill][t] += f->caught[t];
    }
}

/* The fault is to run on this geometry. */
static bool takes(const bench *b, const at_mutant *m, const char *text)
{
    bool own = b->plan->texts != NULL;
    for (int k = 0; k < AT_MUTANT_CASES && !own && m->cases[k] != NULL; k++) {
        own = strcmp(m->cases[k], text) == 0;
    }
    return own && (m->step == AT_STEP_FORWARD || b->c.pass == AT_PASS_TRAIN);
}

static at_status launch_healthy(bench *b, at_step step, bool copy, at_error *err)
{
    AT_TRY(at_specimen_launch(&b->specimen, &at_backend_cpu_flash, b->engine, step, err));
    return copy ? keep(b, step, &b->healthy[step], err) : AT_OK;
}

/* Every engine without a fault, for the plan's observer. */
static void observe_healthy(bench *b, const at_engines *engines)
{
    for (int e = 0; e < engines->n; e++) {
        for (at_step step = AT_STEP_FORWARD; step <= at_specimen_last(&b->specimen); step++) {
            at_step_verdict v;
            finding f = {0};
            at_specimen_judge(&v, &b->specimen, &at_backend_cpu_flash, engines->name[e], step);
            sort_verdict(&f, &v);
            f.caught[AT_TIER_ALL] = f.caught[AT_TIER_EXACT] || f.caught[AT_TIER_BOUND];
            b->plan->observe(b->plan->observer, &b->specimen, AT_NO_FAULT, step, f.caught);
        }
    }
}

static at_status run_case(bench *b, const char *text, at_error *err)
{
    at_engines engines = {0};
    at_reason why = {"", ""};
    const at_backend *flash = &at_backend_cpu_flash;
    if (flash->claim(flash, NULL, &b->c, &engines, &why) != AT_OK) {
        return at_fail(err, AT_UNSUPPORTED, "%s: %s", text, why.text);
    }
    memcpy(b->engine, engines.name[0], sizeof b->engine);
    AT_TRY(at_specimen_make(&b->specimen, &b->c, &flash->numeric, err));
    at_confirm_begin(&b->confirm, &b->c);
    if (b->plan->observe != NULL) {
        observe_healthy(b, &engines);
    }
    AT_TRY(launch_healthy(b, AT_STEP_FORWARD, true, err));
    if (b->c.pass == AT_PASS_TRAIN) {
        AT_TRY(launch_healthy(b, AT_STEP_BACKWARD, true, err));
    }
    for (at_step step = AT_STEP_FORWARD; step <= AT_STEP_BACKWARD; step++) {
        if (step == AT_STEP_BACKWARD) {
            AT_TRY(launch_healthy(b, AT_STEP_FORWARD, false, err));
        }
        for (size_t i = 0; i < at_mutant_count(); i++) {
            const at_mutant *m = at_mutant_at(i)->data;
            finding f = {0};
            if (m->step == step && takes(b, m, text)) {
                AT_TRY(run_fault(b, i, &f, err));
                score(b, i, &f);
            }
        }
    }
    return AT_OK;
}

/* One geometry and dtype: its distributions and seeds. */
static at_status run_dtype(bench *b, const char *text, int64_t dtype, at_error *err)
{
    for (int64_t n = 0; n < AT_FAULT_FILLS * b->plan->seeds; n++) {
        int64_t fill = n % AT_FAULT_FILLS;
        if (b->plan->fills != 0 && (b->plan->fills >> fill & 1) == 0) {
            continue;
        }
        AT_TRY(at_case_parse(&b->c, text, err));
        b->c.fill = fill;
        b->c.seed = (uint64_t)(n / AT_FAULT_FILLS);
        if (dtype >= 0) {
            b->c.dtype = b->c.odt = dtype;
        }
        AT_TRY(run_case(b, text, err));
    }
    return AT_OK;
}

static at_status run_text(bench *b, const char *text, at_error *err)
{
    if (b->plan->dtypes == 0) {
        return run_dtype(b, text, -1, err);
    }
    for (int64_t dtype = 0; dtype < DTYPES; dtype++) {
        if ((b->plan->dtypes >> dtype & 1) != 0) {
            AT_TRY(run_dtype(b, text, dtype, err));
        }
    }
    return AT_OK;
}

/* The different geometries of all faults. */
static size_t list_texts(const char *texts[TEXTS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < at_mutant_count(); i++) {
        const at_mutant *m = at_mutant_at(i)->data;
        for (int k = 0; k < AT_MUTANT_CASES && m->cases[k] != NULL; k++) {
            bool known = false;
            for (size_t j = 0; j < n && !known; j++) {
                known = strcmp(texts[j], m->cases[k]) == 0;
            }
            AT_ASSERT(known || n < TEXTS_MAX);
            texts[n] = m->cases[k];
            n += !known;
        }
    }
    return n;
}

static bool changes_values(const at_mutant *m)
{
    const unsigned values = 1U << AT_WRONG | 1U << AT_NONFINITE | 1U << AT_UNWRITTEN;
    return (m->kinds & values) != 0 && !m->repeated;
}

at_status at_faults_run(at_fault_score **out, const at_fault_plan *plan, at_error *err)
{
    const char *texts[TEXTS_MAX + 1];
    size_t count = plan->texts == NULL ? list_texts(texts) : 0;
    while (plan->texts != NULL && plan->texts[count] != NULL && count < TEXTS_MAX) {
        texts[count] = plan->texts[count];
        count++;
    }
    bench *b = calloc(1, sizeof *b);
    at_fault_score *scores = calloc(at_mutant_count(), sizeof *scores);
    if (b == NULL || scores == NULL) {
        free(b);
        free(scores);
        return at_fail(err, AT_NO_MEMORY, "no memory for the scores of faults");
    }
    b->plan = plan;
    b->scores = scores;
    for (size_t i = 0; i < at_mutant_count(); i++) {
        scores[i].backend = at_mutant_at(i);
        scores[i].changes_values = changes_values(at_mutant_at(i)->data);
    }
    at_status status = AT_OK;
    for (size_t i = 0; i < count && status == AT_OK; i++) {
        status = run_text(b, texts[i], err);
        if (plan->progress != NULL) {
            plan->progress(plan->user, i + 1, count);
        }
    }
    at_specimen_close(&b->specimen);
    at_confirm_close(&b->confirm);
    free(b->healthy[AT_STEP_FORWARD]);
    free(b->healthy[AT_STEP_BACKWARD]);
    free(b->launch);
    free(b);
    if (status != AT_OK) {
        free(scores);
        return status;
    }
    *out = scores;
    return AT_OK;
}

int64_t at_fault_runs(const at_fault_score *score)
{
    int64_t runs = 0;
    for (int f = 0; f < AT_FAULT_FILLS; f++) {
        runs += score->runs[f];
    }
    return runs;
}

double at_fault_rate(const at_fault_score *score, at_tier tier, int fill)
{
    int64_t runs = 0, caught = 0;
    for (int f = 0; f < AT_FAULT_FILLS; f++) {
        if (fill < 0 || f == fill) {
            runs += score->runs[f];
            caught += score->caught[f][tier];
        }
    }
    return runs > 0 ? (double)caught / (double)runs : (double)NAN;
}

double at_fault_mean(const at_fault_score *scores, at_step step, at_tier tier, int fill)
{
    double sum = 0;
    int n = 0;
    for (size_t i = 0; i < at_mutant_count(); i++) {
        const at_mutant *m = scores[i].backend->data;
        double rate = at_fault_rate(&scores[i], tier, fill);
        bool asked = tier != AT_TIER_BOUND || scores[i].changes_values;
        if (m->step == step && asked && !isnan(rate)) {
            sum += rate;
            n++;
        }
    }
    return n > 0 ? sum / n : (double)NAN;
}
