/* attest sweep: runs cases on backends, keeps the results, says what was found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness/checks/checks.h"
#include "harness/cli/choice.h"
#include "harness/cli/limits.h"
#include "harness/cli/own_worker.h"
#include "harness/cli/sweep_print.h"
#include "harness/run/progress.h"
#include "harness/run/runner.h"
#include "harness/select/audit.h"

#define SWEEP_FLAGS                                                                                \
    (AT_CHOICE_FLAGS | AT_FLAG(BACKEND) | AT_FLAG(ENGINE) | AT_FLAG(JOBS) |                        \
     AT_FLAG(CASE_TIMEOUT) | AT_FLAG(DEADLINE) | AT_FLAG(RESUME) | AT_FLAG(REPEAT) |               \
     AT_FLAG(DRY_RUN) | AT_FLAG(OUTPUT) | AT_FLAG(STRICT) | AT_FLAG(FORCE_REFUSED) |               \
     AT_FLAG(BASELINE) | AT_FLAG(PLUGIN) | AT_FLAG(WORKER) | AT_FLAG(FORMAT) | AT_FLAG(COLOR) |    \
     AT_FLAG(QUIET) | AT_FLAG(VERBOSE) | AT_FLAG(LIMITS) | AT_FLAG(CHECKS))
#define CASE_TIMEOUT 300.0

typedef struct sweep {
    const at_options *o;
    int jobs;
    at_choice choice;
    at_hosts hosts;
    at_plan plan;
    at_waivers *waivers;
    at_limits *limits; /* NULL: without the statistical tier */
    at_json *baseline;
    size_t audit_count;
    at_audit **audit;
    size_t *audit_limit;
    at_results *results;
    at_runner_outcome outcome;
    at_report report;
    at_progress progress;
    double start;
    int64_t started;
} sweep;

static void on_launched(void *user, const at_item *item, const char *engine)
{
    sweep *s = user;
    char text[AT_CASE_TEXT_MAX];
    (void)at_case_print(item->c, text);
    if (s->o->verbose && !s->o->jsonl) {
        at_progress_clear(&s->progress);
        (void)printf("run   %s %s%s%s\n", item->backend->name, text, engine[0] ? " engine " : "",
                     engine);
        (void)fflush(stdout);
    }
    at_progress_launched(&s->progress, item->backend->name, text);
}

static void on_recorded(void *user, const at_record *record, const at_json *line)
{
    sweep *s = user;
    at_progress_done(&s->progress, record);
    if (s->o->jsonl) {
        char *text = at_json_print(line, false);
        at_progress_clear(&s->progress);
        (void)printf("%s\n", text);
        (void)fflush(stdout);
        free(text);
    } else if (s->o->verbose) {
        at_progress_clear(&s->progress);
        (void)printf("%s %s %s\n", at_kind_names[record->kind], record->backend, record->case_text);
        (void)fflush(stdout);
    }
}

static void on_tick(void *user)
{
    sweep *s = user;
    at_progress_tick(&s->progress);
}

/* The audits that the suite wants printed. */
static at_status open_audits(sweep *s, at_error *err)
{
    const at_suite_audit *list = NULL;
    size_t n = at_suite_audits(s->choice.suite, &list);
    s->audit = calloc(n + 1, sizeof *s->audit);
    s->audit_limit = calloc(n + 1, sizeof *s->audit_limit);
    if (s->audit == NULL || s->audit_limit == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for %zu audits", n);
    }
    for (size_t i = 0; i < n; i++) {
        char text[sizeof list[i].arch + sizeof list[i].env + 8];
        at_env *env = NULL;
        bool has_arch = list[i].arch[0] != '\0', has_env = list[i].env[0] != '\0';
        (void)snprintf(text, sizeof text, "%s%s%s%s", has_arch ? "arch=" : "", list[i].arch,
                       has_arch && has_env ? "," : "", list[i].env);
        at_status status = has_arch || has_env ? at_env_set(&env, text, err) : AT_OK;
        at_audit_request request = {.corpus = s->choice.corpus,
                                    .selector = list[i].selector,
                                    .space = list[i].space,
                                    .env = env};
        status = status == AT_OK ? at_audit_open(&s->audit[i], &request, err) : status;
        at_env_close(env);
        AT_TRY(status);
        s->audit_limit[s->audit_count++] = (size_t)list[i].limit;
    }
    return AT_OK;
}

/* Everything that can be wrong with the input is found here, before anything is run or written. */
static at_status prepare(sweep *s, at_error *err)
{
    const at_options *o = s->o;
    AT_TRY(at_choice_open(&s->choice, o, "default", err));
    uint32_t checks = 0;
    AT_TRY(o->checks != NULL ? at_checks_parse(&checks, o->checks, err) : AT_OK);
    AT_TRY(at_waivers_open_corpus(&s->waivers, s->choice.corpus, err));
    if (o->baseline != NULL) {
        AT_TRY(at_baseline_open(&s->baseline, o->baseline, err));
    }
    if (!o->jsonl && !o->dry_run) {
        AT_TRY(open_audits(s, err));
    }
    if (s->choice.count < (size_t)s->jobs) { /* few cases: fewer workers, with more threads each */
        s->jobs = s->choice.count > 0 ? (int)s->choice.count : 1;
    }
    AT_TRY(at_workers_open(&s->hosts, o, s->choice.corpus, s->jobs, err));
    at_plan_options options = {.chosen = s->choice.index,
                               .chosen_count = s->choice.count,
                               .backends = o->backend,
                               .engine = o->engine,
                               .corpus = s->choice.corpus};
    AT_TRY(at_plan_make(&s->plan, s->choice.suite, &s->hosts, &options, err));
    AT_TRY(at_choose_limits(&s->limits, o, s->choice.corpus, err));
    return o->limits != NULL ? at_require_limits(s->limits, &s->plan, err) : AT_OK;
}

static void print_item(const at_item *item, bool jsonl)
{
    char text[AT_CASE_TEXT_MAX];
    (void)at_case_print(item->c, text);
    if (!jsonl) {
        (void)printf("%s@%s %s%s%s\n", item->backend->name, item->backend->version, text,
                     item->refusal != NULL ? "  # " : "",
                     item->refusal != NULL ? item->refusal : "");
        return;
    }
    at_json *line = at_json_object();
    at_json_put_text(line, "id", item->id);
    at_json_put_text(line, "case", text);
    at_json_put_text(line, "backend", item->backend->name);
    at_json_put_text(line, "version", item->backend->version);
    at_json_put_bool(line, "modelled", item->modelled);
    if (item->refusal != NULL) {
        at_json_put_text(line, "refused", item->refusal);
    }
    char *printed = at_json_print(line, false);
    (void)puts(printed);
    free(printed);
    at_json_close(line);
}

static int finish_output(void)
{
    return fflush(stdout) == 0 && !ferror(stdout)
               ? AT_EXIT_CLEAN
               : at_usage_error("sweep: stdout cannot be written");
}

static int dry_run(const sweep *s)
{
    for (size_t i = 0; i < s->plan.size; i++) {
        print_item(&s->plan.item[i], s->o->jsonl);
    }
    if (!s->o->quiet) {
        (void)fprintf(stderr, "%zu cases, %zu runs\n", s->plan.cases, s->plan.size);
    }
    return finish_output();
}

static at_status run(sweep *s, at_error *err)
{
    const at_options *o = s->o;
    bool terminal = isatty(STDERR_FILENO) != 0;
    AT_TRY(
        at_results_open(&s->results, o->output != NULL ? o->output : "attest-out", o->resume, err));
    if (o->resume) {
        at_plan_resume(&s->plan, s->results);
    }
    at_progress_init(&s->progress, stderr, terminal, o->quiet, s->plan.size - s->plan.done);
    at_runner_options options = {.jobs = s->jobs,
                                 .case_timeout =
                                     o->case_timeout > 0 ? o->case_timeout : CASE_TIMEOUT,
                                 .deadline = o->deadline,
                                 .repeat = o->repeat,
                                 .force = o->force_refused,
                                 .waivers = s->waivers,
                                 .checks = o->checks,
                                 .limits = s->limits,
                                 .launched = on_launched,
                                 .recorded = on_recorded,
                                 .tick = on_tick,
                                 .user = s};
    at_status status = at_runner_run(&s->outcome, &s->plan, &s->hosts, s->results, &options, err);
    at_progress_clear(&s->progress);
    return status;
}

/* 2 beats 1; findings beat our own errors, which beat the rest. */
static int exit_code_of(const sweep *s)
{
    return s->outcome.left > 0       ? AT_EXIT_INCOMPLETE
           : s->report.new_count > 0 ? AT_EXIT_FINDINGS
           : s->report.errors > 0    ? AT_EXIT_USAGE
           : s->report.judged == 0   ? AT_EXIT_NOTHING_JUDGED
                                     : AT_EXIT_CLEAN;
}

static at_status write_files(sweep *s, int exit_code, at_error *err)
{
    static const char *const standard[] = {"default"};
    const at_options *o = s->o;
    char shard[64];
    (void)snprintf(shard, sizeof shard, "%lld/%lld", (long long)o->shard_index,
                   (long long)o->shard_count);
    at_run_facts facts = {.words =
                              o->word_count > 0 ? (const char *const *)(void *)o->words : standard,
                          .word_count = o->word_count > 0 ? o->word_count : 1,
                          .filter = o->filter,
                          .shard = shard,
                          .complete = s->outcome.left == 0,
                          .left = s->outcome.left,
                          .exit_code = exit_code,
                          .jobs = s->jobs,
                          .seconds = at_clock() - s->start,
                          .started = s->started};
    AT_TRY(at_summary_write(&s->report, &s->hosts, s->waivers, &facts, err));
    AT_TRY(at_junit_write(&s->report, err));
    return at_repro_write(&s->report, err);
}

/* A waiver that a whole run never met is out of date, or has a mistake in it. */
static void warn_unmatched(const sweep *s)
{
    const at_options *o = s->o;
    bool whole = s->outcome.left == 0 && o->filter == NULL && o->backend == NULL &&
                 o->max_cases == 0 && o->shard_count == 1;
    for (size_t i = 0; whole && i < at_waivers_size(s->waivers); i++) {
        const char *backend = at_waivers_backend(s->waivers, i);
        bool ran = o->word_count == 0;
        for (size_t k = 0; k < s->report.backend_count; k++) {
            ran = ran || strcmp(s->report.backend[k].backend, backend) == 0;
        }
        if (ran && !at_waivers_matched(s->waivers, i)) {
            (void)fprintf(stderr, "attest: warning: the waiver of %s for %s matched no case\n",
                          at_waivers_issue(s->waivers, i), backend);
        }
    }
}

static void print_end(const sweep *s, int exit_code)
{
    static const char *const meaning[] = {"complete and clean", "complete, with findings",
                                          "incomplete; --resume runs what is missing",
                                          "attest itself failed on some cases",
                                          "nothing was judged"};
    const char *folder = at_results_folder(s->results);
    (void)printf("\nfiles: %s/results.jsonl summary.json junit.xml%s\n", folder,
                 s->report.finding_count > 0 ? " repro/" : "");
    if (s->outcome.left > 0) {
        (void)printf("left: %zu of %zu runs%s\n", s->outcome.left, s->plan.size - s->plan.done,
                     s->outcome.past_deadline ? " (--deadline)"
                     : s->outcome.signal != 0 ? " (interrupted)"
                                              : "");
        if (s->report.new_count > 0) {
            (void)printf("findings so far: %zu\n", s->report.new_count);
        }
    }
    (void)printf("%zu cases in %.1f s on %d worker%s; exit %d: %s\n", s->plan.cases,
                 at_clock() - s->start, s->jobs, s->jobs == 1 ? "" : "s", exit_code,
                 meaning[exit_code]);
}

static int conclude(sweep *s)
{
    const at_options *o = s->o;
    at_error err = {""};
    if (s->outcome.at_once) {
        return AT_EXIT_INCOMPLETE;
    }
    if (at_report_make(&s->report, s->results, &s->hosts, s->waivers, s->baseline, o->strict,
                       &err) != AT_OK) {
        return at_usage_error("sweep: %s", err.text);
    }
    int exit_code = exit_code_of(s);
    at_status written = write_files(s, exit_code, &err);
    if (!o->jsonl) {
        char suffix[1024];
        at_worker_flags(o, suffix, sizeof suffix);
        at_print_style style = {.colors = o->colors, .suffix = suffix};
        for (size_t i = 0; i < s->audit_count; i++) {
            const at_audit_style look = {.colors = o->colors,
                                         .limit = s->audit_limit[i],
                                         .brief = s->audit_limit[i] > 0,
                                         .tool = at_program};
            at_audit_print(s->audit[i], stdout, &look);
            (void)puts("");
        }
        at_print_backends(&s->report, &style);
        (void)puts("");
        at_print_findings(&s->report, &style);
        at_print_errors(&s->report, &style);
        at_print_unsaid(s->choice.suite);
        print_end(s, exit_code);
    }
    warn_unmatched(s);
    if (written != AT_OK) {
        return at_usage_error("sweep: %s", err.text);
    }
    int flushed = finish_output();
    return flushed != AT_EXIT_CLEAN ? flushed : exit_code;
}

static void release(sweep *s)
{
    at_report_close(&s->report);
    at_results_close(s->results);
    at_plan_close(&s->plan);
    at_hosts_close(&s->hosts);
    at_json_close(s->baseline);
    for (size_t i = 0; i < s->audit_count; i++) {
        at_audit_close(s->audit[i]);
    }
    free(s->audit);
    free(s->audit_limit);
    at_waivers_close(s->waivers);
    at_limits_close(s->limits);
    at_choice_close(&s->choice);
}

int cmd_sweep(int argc, char **argv)
{
    static sweep s; /* hosts hold pointers into it */
    at_options o;
    at_error err = {""};
    int exit_code = AT_EXIT_CLEAN;
    if (!at_options_parse(&o, SWEEP_FLAGS, argc, argv, &exit_code)) {
        return exit_code;
    }
    s.o = &o;
    s.jobs = o.jobs > 0 ? (int)o.jobs : at_cores();
    s.start = at_clock();
    s.started = (int64_t)time(NULL);
    at_status status = prepare(&s, &err);
    if (status == AT_OK && o.dry_run) {
        exit_code = dry_run(&s);
    } else {
        status = status == AT_OK ? run(&s, &err) : status;
        exit_code = status == AT_OK ? conclude(&s) : at_usage_error("sweep: %s", err.text);
    }
    release(&s);
    return exit_code;
}
