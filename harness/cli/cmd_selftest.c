/* attest selftest: planted faults that the judge must catch, healthy kernels that it must not. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/suite.h"
#include "harness/cli/limits.h"
#include "harness/cli/seed.h"
#include "harness/run/process.h"
#include "harness/selftest/faults.h"
#include "harness/selftest/healthy.h"
#include "kernels/mutants/mutants.h"

enum { RUNS_SHORT = 3000, RUNS_FULL = 1000000, SEEDS_FULL = 2 };

/* What the mean kill rates must reach. */
#define FORWARD_GOAL 0.95
#define BACKWARD_GOAL 0.97
#define BOUND_FORWARD_GOAL 0.88
#define BOUND_BACKWARD_GOAL 0.90

/* Sixteen rows against many keys, where a flat tolerance sees nothing. */
static const char *const long_texts[] = {"sq=16:skv=16384:dqk=64",
                                         "sq=16:skv=65536:dqk=64:dtype=f16", NULL};
enum { LONG_FILLS = 1 << AT_FILL_NORMAL | 1 << AT_FILL_UNIFORM01 | 1 << AT_FILL_LOWRANK };

typedef struct selftest {
    const at_options *o;
    uint64_t seed;
    at_limits *limits;            /* NULL: without the statistical tier */
    at_fault_score *scores, *far; /* far: at long_texts; NULL in the short form */
    at_healthy healthy;
    double seconds_faults, seconds_healthy;
} selftest;

static const at_step steps[] = {AT_STEP_FORWARD, AT_STEP_BACKWARD};

static at_status open_limits(selftest *t, at_error *err)
{
    char corpus[4096];
    AT_TRY(at_corpus_find(corpus, t->o->corpus, AT_BUILD_CORPUS, err));
    return at_choose_limits(&t->limits, t->o, corpus, err);
}

static void on_geometry(void *user, size_t done, size_t of)
{
    const selftest *t = user;
    if (!t->o->quiet && (done % 10 == 0 || done == of)) {
        (void)fprintf(stderr, "faults: %zu of %zu geometries\n", done, of);
    }
}

static at_status run(selftest *t, at_error *err)
{
    const at_options *o = t->o;
    AT_TRY(open_limits(t, err));
    at_fault_plan plan = {.limits = t->limits,
                          .dtypes = o->full ? 1U << AT_F32 | 1U << AT_F16 | 1U << AT_BF16 : 0,
                          .seeds = o->full ? SEEDS_FULL : 1,
                          .checks = true,
                          .progress = on_geometry,
                          .user = t};
    double start = at_clock();
    AT_TRY(at_faults_run(&t->scores, &plan, err));
    if (o->full) {
        plan.texts = long_texts;
        plan.fills = LONG_FILLS;
        plan.dtypes = 0;
        plan.seeds = 1;
        AT_TRY(at_faults_run(&t->far, &plan, err));
    }
    t->seconds_faults = at_clock() - start;
    start = at_clock();
    int64_t runs = o->runs > 0 ? o->runs : o->full ? RUNS_FULL : RUNS_SHORT;
    AT_TRY(at_healthy_run(&t->healthy, runs, t->seed, t->limits, err));
    t->seconds_healthy = at_clock() - start;
    return AT_OK;
}

static const char *percent(double share, char text[16])
{
    (void)snprintf(text, 16, isnan(share) ? "-" : "%.1f", 100 * share);
    return text;
}

static void print_rates(const char *name, int64_t runs, const double rates[AT_TIERS])
{
    (void)printf("  %-28s %6lld", name, (long long)runs);
    for (int tier = 0; tier < AT_TIERS; tier++) {
        char text[16];
        (void)printf(" %10s", percent(rates[tier], text));
    }
    (void)puts("");
}

static void print_head(const char *title)
{
    (void)printf("%-30s %6s", title, "runs");
    for (int tier = 0; tier < AT_TIERS; tier++) {
        (void)printf(" %10s", at_tier_names[tier]);
    }
    (void)puts("");
}

/* Faults of one step that act at all. */
static void print_faults(const at_fault_score *scores, at_step step)
{
    for (size_t i = 0; i < at_mutant_count(); i++) {
        const at_mutant *m = scores[i].backend->data;
        double rates[AT_TIERS];
        for (int tier = 0; tier < AT_TIERS; tier++) {
            rates[tier] = at_fault_rate(&scores[i], (at_tier)tier, -1);
        }
        if (m->step == step && at_fault_runs(&scores[i]) > 0) {
            print_rates(strchr(scores[i].backend->name, '.') + 1, at_fault_runs(&scores[i]), rates);
        }
    }
}

static void mean_rates(const at_fault_score *scores, at_step step, int fill, double rates[AT_TIERS])
{
    for (int tier = 0; tier < AT_TIERS; tier++) {
        rates[tier] = at_fault_mean(scores, step, (at_tier)tier, fill);
    }
}

static int64_t runs_of(const at_fault_score *scores, at_step step, int fill)
{
    int64_t runs = 0;
    for (size_t i = 0; i < at_mutant_count(); i++) {
        const at_mutant *m = scores[i].backend->data;
        if (m->step == step) {
            runs += fill < 0 ? at_fault_runs(&scores[i]) : scores[i].runs[fill];
        }
    }
    return runs;
}

static void print_text(const selftest *t)
{
    const at_field *fill = at_case_field("fill", 4);
    double rates[AT_TIERS];
    for (int s = 0; s < 2; s++) {
        char title[32];
        (void)snprintf(title, sizeof title, "%s fault, caught %%", at_step_names[steps[s]]);
        print_head(title);
        print_faults(t->scores, steps[s]);
        mean_rates(t->scores, steps[s], -1, rates);
        print_rates("mean", runs_of(t->scores, steps[s], -1), rates);
        (void)puts("");
        print_head("  by distribution");
        for (int f = 0; fill->names[f] != NULL; f++) {
            mean_rates(t->scores, steps[s], f, rates);
            print_rates(fill->names[f], runs_of(t->scores, steps[s], f), rates);
        }
        if (t->far != NULL) {
            mean_rates(t->far, steps[s], -1, rates);
            print_rates("16k and 64k keys", runs_of(t->far, steps[s], -1), rates);
        }
        (void)puts("");
    }
    const at_healthy *h = &t->healthy;
    (void)printf(
        "healthy: %lld runs, %lld alarms of tiers 0 and 1, %lld suspects in %lld runs with "
        "limits, %lld confirmed\n",
        (long long)h->runs, (long long)h->bound, (long long)h->suspects, (long long)h->limited,
        (long long)h->confirmed);
    for (int i = 0; i < AT_ALARMS_KEPT && h->alarm[i][0] != '\0'; i++) {
        (void)printf("  %s\n", h->alarm[i]);
    }
    (void)printf("faults took %.1f s, healthy runs %.1f s on %d threads\n", t->seconds_faults,
                 t->seconds_healthy, omp_get_max_threads());
}

static void print_line(at_json *line)
{
    char *text = at_json_print(line, false);
    (void)puts(text);
    free(text);
    at_json_close(line);
}

static void put_rates(at_json *line, const double rates[AT_TIERS])
{
    for (int tier = 0; tier < AT_TIERS; tier++) {
        if (!isnan(rates[tier])) {
            at_json_put_number(line, at_tier_names[tier], rates[tier]);
        }
    }
}

static void print_fault_line(const at_fault_score *score, bool far)
{
    const at_mutant *m = score->backend->data;
    double rates[AT_TIERS];
    at_json *line = at_json_object();
    at_json_put_text(line, "fault", score->backend->name);
    at_json_put_text(line, "step", at_step_names[m->step]);
    at_json_put_text(line, "does", score->backend->doc);
    at_json_put_text(line, "keys", far ? "long" : "short");
    at_json_put_integer(line, "runs", at_fault_runs(score));
    at_json_put_integer(line, "idle", score->idle);
    for (int tier = 0; tier < AT_TIERS; tier++) {
        rates[tier] = at_fault_rate(score, (at_tier)tier, -1);
    }
    put_rates(line, rates);
    print_line(line);
}

static void print_fill_line(const selftest *t, at_step step, int fill)
{
    double rates[AT_TIERS];
    at_json *line = at_json_object();
    at_json_put_text(line, "fill", at_case_field("fill", 4)->names[fill]);
    at_json_put_text(line, "step", at_step_names[step]);
    at_json_put_integer(line, "runs", runs_of(t->scores, step, fill));
    mean_rates(t->scores, step, fill, rates);
    put_rates(line, rates);
    print_line(line);
}

static void print_jsonl(const selftest *t)
{
    for (size_t i = 0; i < at_mutant_count(); i++) {
        print_fault_line(&t->scores[i], false);
    }
    for (size_t i = 0; t->far != NULL && i < at_mutant_count(); i++) {
        if (at_fault_runs(&t->far[i]) > 0) {
            print_fault_line(&t->far[i], true);
        }
    }
    for (int n = 0; n < 2 * AT_FAULT_FILLS; n++) {
        print_fill_line(t, steps[n / AT_FAULT_FILLS], n % AT_FAULT_FILLS);
    }
    at_json *line = at_json_object();
    const char *const keys[] = {"kill_forward", "kill_backward", "kill_tier1_forward",
                                "kill_tier1_backward"};
    for (int i = 0; i < 4; i++) {
        at_tier tier = i < 2 ? AT_TIER_ALL : AT_TIER_BOUND;
        at_json_put_number(line, keys[i], at_fault_mean(t->scores, steps[i % 2], tier, -1));
    }
    at_json_put_integer(line, "false_alarms", t->healthy.bound + t->healthy.confirmed);
    at_json_put_integer(line, "healthy_runs", t->healthy.runs);
    print_line(line);
}

/* Says on stderr which goal is missed. Statistics and checks are part of the goals for all tiers.
 */
static int judge_goals(const selftest *t)
{
    const double goals[] = {FORWARD_GOAL, BACKWARD_GOAL, BOUND_FORWARD_GOAL, BOUND_BACKWARD_GOAL};
    int missed = 0;
    for (int i = 0; i < 4; i++) {
        bool all = i < 2;
        double rate = at_fault_mean(t->scores, steps[i % 2], all ? AT_TIER_ALL : AT_TIER_BOUND, -1);
        if (!(rate >= goals[i])) {
            (void)fprintf(stderr,
                          "attest: selftest: %s faults of the %s are caught in %.1f %% of "
                          "their runs; the goal is %.0f %%\n",
                          all ? "all tiers: " : "tier 1 alone: ", at_step_names[steps[i % 2]],
                          100 * rate, 100 * goals[i]);
            missed++;
        }
    }
    int64_t allowed = t->healthy.runs / 1000000 + (t->healthy.runs % 1000000 > 0);
    if (t->healthy.bound > 0 || t->healthy.confirmed > allowed) {
        (void)fprintf(stderr,
                      "attest: selftest: %lld false alarms of tiers 0 and 1, %lld of tier 2, "
                      "in %lld healthy runs\n",
                      (long long)t->healthy.bound, (long long)t->healthy.confirmed,
                      (long long)t->healthy.runs);
        missed++;
    }
    return missed > 0 ? AT_EXIT_FINDINGS : AT_EXIT_CLEAN;
}

int cmd_selftest(int argc, char **argv)
{
    static selftest t; /* large */
    at_options o;
    at_error err = {""};
    int exit_code = AT_EXIT_CLEAN;
    const uint64_t flags = AT_FLAG(FULL) | AT_FLAG(RUNS) | AT_FLAG(DRAW) | AT_FLAG(LIMITS) |
                           AT_FLAG(THREADS) | AT_FLAG(CORPUS) | AT_FLAG(FORMAT) | AT_FLAG(QUIET);
    if (!at_options_parse(&o, flags, argc, argv, &exit_code)) {
        return exit_code;
    }
    if (o.word_count > 0) {
        return at_usage_error("selftest: \"%s\" is not expected; it takes flags alone", o.words[0]);
    }
    if (!at_seed_parse(&t.seed, o.seed)) {
        return at_usage_error(
            "selftest: --seed does not accept \"%s\"; it accepts an integer from 0 "
            "to 2^64 - 1",
            o.seed);
    }
    if (o.threads > 0) {
        omp_set_num_threads((int)o.threads);
    }
    t.o = &o;
    if (run(&t, &err) != AT_OK) {
        exit_code = at_usage_error("selftest: %s", err.text);
    } else {
        (o.jsonl ? print_jsonl : print_text)(&t);
        exit_code = judge_goals(&t);
    }
    free(t.scores);
    free(t.far);
    at_limits_close(t.limits);
    return fflush(stdout) == 0 && !ferror(stdout)
               ? exit_code
               : at_usage_error("selftest: stdout cannot be written");
}
