/* attest repro: runs one case on one backend and tells everything about it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/checks/checks.h"
#include "harness/cli/choice.h"
#include "harness/cli/limits.h"
#include "harness/cli/own_worker.h"
#include "harness/run/runner.h"

#define REPRO_FLAGS                                                                                \
    (AT_FLAG(CORPUS) | AT_FLAG(SEED) | AT_FLAG(PASS) | AT_FLAG(BACKEND) | AT_FLAG(ENGINE) |        \
     AT_FLAG(CASE_TIMEOUT) | AT_FLAG(REPEAT) | AT_FLAG(FORCE_REFUSED) | AT_FLAG(DUMP) |            \
     AT_FLAG(PLUGIN) | AT_FLAG(WORKER) | AT_FLAG(FORMAT) | AT_FLAG(COLOR) | AT_FLAG(LIMITS) |      \
     AT_FLAG(CHECKS))
#define CASE_TIMEOUT 600.0

typedef struct repro {
    const at_options *o;
    at_choice choice;
    at_hosts hosts;
    at_plan plan;
    at_waivers *waivers;
    at_limits *limits;
    const at_item *item; /* the one that was launched last */
    at_verdict verdict;
    int exit_code;
} repro;

static const char *spell(const char *key, int64_t value)
{
    return at_case_field(key, strlen(key))->names[value];
}

static void print_mask(const at_case *c)
{
    if (c->mask == AT_MASK_NONE) {
        (void)printf("no mask");
        return;
    }
    (void)printf("%s mask", c->mask == AT_MASK_CAUSAL ? "causal" : "band");
    if (c->window_left != AT_UNBOUNDED || c->window_right != AT_UNBOUNDED) {
        (void)printf(", window %lld,%lld", (long long)c->window_left, (long long)c->window_right);
    }
    if (c->align == AT_ALIGN_BR) {
        (void)printf(", aligned bottom right");
    } else if (c->align != AT_ALIGN_TL) {
        (void)printf(", offset %lld", (long long)c->align);
    }
}

static void print_geometry(const at_case *c)
{
    static const char *const passes[] = {"inference", "inference with statistics", "training"};
    (void)printf("          batch %lld, %lld query heads on %lld, %lld x %lld tokens, head dims "
                 "%lld/%lld,\n          %s, %s, ",
                 (long long)c->batch, (long long)c->heads_q, (long long)c->heads_kv,
                 (long long)c->len_q, (long long)c->len_kv, (long long)c->dim_qk,
                 (long long)c->dim_v, at_dtype_names[c->dtype], spell("layout", c->layout));
    print_mask(c);
    (void)printf(", %s\n", passes[c->pass]);
}

static const char *paint(const at_options *o, at_kind kind)
{
    at_class class = at_kind_class(kind);
    return !o->colors                                          ? ""
           : class == AT_CLASS_OK                              ? "\033[32m"
           : class == AT_CLASS_FAIL || class == AT_CLASS_ERROR ? "\033[31m"
                                                               : "\033[33m";
}

static void print_measure(const at_measure *m, const char *name)
{
    (void)printf("  %-4s %-10s error/bound %-9.4g", name, at_kind_names[m->kind], m->max_ratio);
    if (m->total == 0) {
        (void)puts("  (no elements)");
        return;
    }
    (void)printf("  at [%lld %lld %lld %lld]: got %.9g, want %.9g, bound %.3g\n",
                 (long long)m->index[0], (long long)m->index[1], (long long)m->index[2],
                 (long long)m->index[3], m->got, m->want, m->bound);
    if (m->wrong > 0) {
        (void)printf("                  %lld of %lld elements are wrong\n", (long long)m->wrong,
                     (long long)m->total);
    }
}

static void print_step(const repro *r, at_step step)
{
    const at_step_verdict *s = &r->verdict.step[step];
    if (!s->ran) {
        return;
    }
    (void)printf("%-9s %s%s%s", at_step_names[step], paint(r->o, s->kind), at_kind_names[s->kind],
                 r->o->colors ? "\033[0m" : "");
    if (s->reason.code[0] != '\0') {
        (void)printf(" (%s)", s->reason.code);
    }
    (void)(step != AT_STEP_CLAIM ? printf("  %.3g ms\n", s->ms) : printf("\n"));
    if (s->reason.text[0] != '\0') {
        (void)printf("          %s\n", s->reason.text);
    }
    for (int t = 0; t < AT_TENSOR_COUNT; t++) {
        if (s->m[t].judged) {
            print_measure(&s->m[t], at_tensor_names[t]);
        }
    }
}

static int code_of(at_kind kind)
{
    switch (at_kind_class(kind)) {
    case AT_CLASS_OK:
        return AT_EXIT_CLEAN;
    case AT_CLASS_NEUTRAL:
        return AT_EXIT_NOTHING_JUDGED;
    case AT_CLASS_FAIL:
        return AT_EXIT_FINDINGS;
    case AT_CLASS_ERROR:
        break;
    }
    return AT_EXIT_USAGE;
}

/* Names the waiver that knows of it; the verdict stays what it is. */
static void print_waiver(const repro *r)
{
    const at_item *item = r->item;
    const char *issue = NULL;
    if (item != NULL &&
        at_waivers_apply(r->waivers, item->c, item->backend->name, item->backend->version,
                         item->backend->arch, r->verdict.kind, &issue) == AT_WAIVING_WAIVED) {
        (void)printf("waived    %s\n", issue);
    }
}

static void print_verdict(const repro *r, const at_json *line)
{
    const at_verdict *v = &r->verdict;
    int64_t runs = 1, hits = 1;
    const char *output = at_json_text(at_json_get(line, "output"));
    const char *engine = at_json_text(at_json_get(line, "engine"));
    (void)at_json_integer(at_json_get(line, "runs"), &runs);
    (void)at_json_integer(at_json_get(line, "hits"), &hits);
    if (engine != NULL && *engine != '\0') {
        (void)printf("engine    %s\n", engine);
    }
    for (int i = 0; i < AT_STEP_COUNT; i++) {
        print_step(r, (at_step)i);
    }
    if (v->share < 1) {
        (void)printf("sampled   %.3g %% of the elements were judged\n", 100 * v->share);
    }
    if (v->teeth_total > 0) {
        (void)printf("teeth     %d of %d planted faults would have been caught\n", v->teeth_caught,
                     v->teeth_total);
    }
    if (output != NULL) {
        (void)printf("output    the worker's last lines:\n%s\n", output);
    }
    (void)printf("verdict   %s%s%s", paint(r->o, v->kind), at_kind_names[v->kind],
                 r->o->colors ? "\033[0m" : "");
    (void)printf("%s%s%s, in %lld of %lld run%s\n", v->reason.code[0] ? " (" : "", v->reason.code,
                 v->reason.code[0] ? ")" : "", (long long)hits, (long long)runs,
                 runs == 1 ? "" : "s");
    print_waiver(r);
    if (r->o->dump != NULL) {
        (void)printf("dump      %s\n", r->o->dump);
    }
}

static void on_recorded(void *user, const at_record *record, const at_json *line)
{
    repro *r = user;
    at_error err = {""};
    (void)record;
    if (at_verdict_from_json(&r->verdict, line, &err) != AT_OK) {
        r->exit_code = at_usage_error("repro: %s", err.text);
        return;
    }
    int code = code_of(r->verdict.kind);
    r->exit_code =
        code > r->exit_code || r->exit_code == AT_EXIT_NOTHING_JUDGED ? code : r->exit_code;
    if (!r->o->jsonl) {
        print_verdict(r, line);
        return;
    }
    char *text = at_json_print(line, false);
    (void)puts(text);
    free(text);
}

static void on_launched(void *user, const at_item *item, const char *engine)
{
    repro *r = user;
    char text[AT_CASE_TEXT_MAX];
    if (strcmp(item->id, r->plan.item[0].id) != 0) {
        if (!r->o->jsonl) {
            (void)printf("suspect   run again with seed=%llu\n", (unsigned long long)item->c->seed);
        }
        return;
    }
    const at_item *shown = r->item;
    r->item = item;
    if (r->o->jsonl || shown == item) {
        return; /* a second run of the same */
    }
    (void)engine;
    (void)at_case_print(item->c, text);
    (void)printf("%scase      %s\n", shown != NULL ? "\n" : "", text);
    print_geometry(item->c);
    (void)printf("id        %s\nbackend   %s@%s, %s%s\n", item->id, item->backend->name,
                 item->backend->version, spell("arch", (int64_t)item->backend->arch),
                 item->modelled ? ", modelled" : "");
    (void)fflush(stdout);
}

static at_status prepare(repro *r, at_error *err)
{
    const at_options *o = r->o;
    if (o->word_count != 1 || o->backend == NULL) {
        return at_fail(err, AT_INVALID,
                       "it takes one case and --backend, such as "
                       "`attest repro sq=128:mask=causal --backend cpu.flash`");
    }
    AT_TRY(at_choice_open(&r->choice, o, NULL, err));
    if (r->choice.count != 1) {
        return at_fail(err, AT_INVALID, "\"%.200s\" is %zu cases, one is accepted", o->words[0],
                       r->choice.count);
    }
    uint32_t checks = 0;
    AT_TRY(o->checks != NULL ? at_checks_parse(&checks, o->checks, err) : AT_OK);
    AT_TRY(at_waivers_open_corpus(&r->waivers, r->choice.corpus, err));
    AT_TRY(at_choose_limits(&r->limits, o, r->choice.corpus, err));
    AT_TRY(at_workers_open(&r->hosts, o, r->choice.corpus, 1, err));
    at_plan_options options = {.chosen = r->choice.index,
                               .chosen_count = r->choice.count,
                               .backends = o->backend,
                               .engine = o->engine,
                               .corpus = r->choice.corpus};
    AT_TRY(at_plan_make(&r->plan, r->choice.suite, &r->hosts, &options, err));
    AT_TRY(o->limits != NULL ? at_require_limits(r->limits, &r->plan, err) : AT_OK);
    bool several = r->plan.size != 1 || r->plan.item[0].all_engines;
    if (o->dump != NULL && several) {
        return at_fail(err, AT_INVALID, "--dump takes one backend and one engine");
    }
    return AT_OK;
}

static int conclude(const repro *r, const at_runner_outcome *outcome)
{
    int code = outcome->left > 0 ? AT_EXIT_INCOMPLETE : r->exit_code;
    return fflush(stdout) == 0 && !ferror(stdout)
               ? code
               : at_usage_error("repro: stdout cannot be written");
}

int cmd_repro(int argc, char **argv)
{
    static repro r; /* hosts hold pointers into it */
    at_options o;
    at_error err = {""};
    at_runner_outcome outcome;
    int exit_code = AT_EXIT_CLEAN;
    if (!at_options_parse(&o, REPRO_FLAGS, argc, argv, &exit_code)) {
        return exit_code;
    }
    r.o = &o;
    r.exit_code = AT_EXIT_CLEAN;
    at_status status = prepare(&r, &err);
    if (status == AT_OK) {
        at_runner_options options = {.jobs = 1,
                                     .case_timeout =
                                         o.case_timeout > 0 ? o.case_timeout : CASE_TIMEOUT,
                                     .repeat = o.repeat,
                                     .force = o.force_refused,
                                     .dump = o.dump,
                                     .checks = o.checks,
                                     .limits = r.limits,
                                     .launched = on_launched,
                                     .recorded = on_recorded,
                                     .user = &r};
        status = at_runner_run(&outcome, &r.plan, &r.hosts, NULL, &options, &err);
    }
    exit_code = status == AT_OK ? conclude(&r, &outcome) : at_usage_error("repro: %s", err.text);
    at_plan_close(&r.plan);
    at_waivers_close(r.waivers);
    at_limits_close(r.limits);
    at_hosts_close(&r.hosts);
    at_choice_close(&r.choice);
    return exit_code;
}
