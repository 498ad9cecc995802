/* attest reduce: the smallest case that still ends the same way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/shrink.h"
#include "harness/cli/choice.h"
#include "harness/cli/own_worker.h"
#include "harness/run/report.h"
#include "harness/run/runner.h"

#define REDUCE_FLAGS                                                                               \
    (AT_FLAG(CORPUS) | AT_FLAG(SEED) | AT_FLAG(PASS) | AT_FLAG(BACKEND) | AT_FLAG(ENGINE) |        \
     AT_FLAG(CASE_TIMEOUT) | AT_FLAG(DEADLINE) | AT_FLAG(FORCE_REFUSED) | AT_FLAG(PLUGIN) |        \
     AT_FLAG(WORKER) | AT_FLAG(FORMAT) | AT_FLAG(QUIET))
#define CASE_TIMEOUT 300.0

enum { CODE_TEXT = 64 };

/* How a case ends; equal ends are the same fault. */
typedef struct ending {
    at_kind kind;
    at_step step;
    int tensor;
    char reason[48];
    char code[CODE_TEXT]; /* the library's own code, where the message has one */
} ending;

typedef struct reduce {
    const at_options *o;
    at_choice choice;
    at_hosts hosts;
    double start;
    int tries;
    bool heard;
    at_record seen, best; /* of the case asked last; of the smallest that ends the same way */
    bool has_best;
    ending end;
    at_case smallest;
    at_error err; /* of a run that could not be made */
    at_status status;
} reduce;

/* The first word of capitals and underscores, such as CUDNN_STATUS_NOT_SUPPORTED. */
static void find_code(char code[CODE_TEXT], const char *message)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    code[0] = '\0';
    for (const char *at = message; *at != '\0' && code[0] == '\0';) {
        const size_t n = strspn(at, letters);
        if (n >= 8 && n < CODE_TEXT && memchr(at, '_', n) != NULL) {
            memcpy(code, at, n);
            code[n] = '\0';
        }
        at += n > 0 ? n : 1;
    }
}

static ending ending_of(const at_record *r)
{
    ending e = {.kind = r->measured, .step = r->step, .tensor = r->tensor};
    (void)snprintf(e.reason, sizeof e.reason, "%s", r->code);
    find_code(e.code, r->measured == AT_UNBUILDABLE ? r->message : "");
    return e;
}

static bool same(const ending *a, const ending *b)
{
    return a->kind == b->kind && a->step == b->step && a->tensor == b->tensor &&
           strcmp(a->reason, b->reason) == 0 && strcmp(a->code, b->code) == 0;
}

static void on_recorded(void *user, const at_record *record, const at_json *line)
{
    reduce *r = user;
    (void)record;
    if (!r->heard) {
        r->status = at_record_read(&r->seen, line, &r->err);
        r->heard = r->status == AT_OK;
    }
}

static at_status run_suite(reduce *r, const at_suite *suite, at_error *err)
{
    static const size_t first[] = {0};
    const at_options *o = r->o;
    at_plan plan = {0};
    at_runner_outcome outcome;
    const at_plan_options how = {.chosen = first,
                                 .chosen_count = 1,
                                 .backends = o->backend,
                                 .engine = o->engine,
                                 .corpus = r->choice.corpus};
    const at_runner_options options = {.jobs = 1,
                                       .case_timeout =
                                           o->case_timeout > 0 ? o->case_timeout : CASE_TIMEOUT,
                                       .repeat = 1,
                                       .force = o->force_refused,
                                       .recorded = on_recorded,
                                       .user = r};
    at_status status = at_plan_make(&plan, suite, &r->hosts, &how, err);
    if (status == AT_OK && (plan.size != 1 || plan.item[0].all_engines)) {
        status = at_fail(err, AT_INVALID, "it takes one backend and one engine");
    }
    status =
        status == AT_OK ? at_runner_run(&outcome, &plan, &r->hosts, NULL, &options, err) : status;
    at_plan_close(&plan);
    if (status == AT_OK && !r->heard) {
        status = r->status != AT_OK ? r->status : at_fail(err, AT_INTERNAL, "interrupted");
    }
    return status;
}

/* Runs one case in a fresh worker; what fails is run a second time there. */
static at_status run_case(reduce *r, const at_case *c, at_error *err)
{
    char text[AT_CASE_TEXT_MAX];
    const char *word = text;
    at_suite *suite = NULL;
    if (r->heard) {
        at_record_close(&r->seen);
    }
    r->heard = false;
    r->status = AT_OK;
    r->tries++;
    (void)at_case_print(c, text);
    AT_TRY(at_suite_open(&suite, r->choice.corpus, &word, 1, NULL, err));
    const at_status status = run_suite(r, suite, err);
    at_suite_close(suite);
    return status;
}

static void keep(reduce *r, const at_case *c)
{
    if (r->has_best) {
        at_record_close(&r->best);
    }
    r->best = r->seen;
    r->has_best = true;
    r->heard = false; /* its text belongs to `best` now */
    r->smallest = *c;
}

static at_shrink_answer ask(void *user, const at_case *smaller)
{
    reduce *r = user;
    const double limit = r->o->deadline;
    if (limit > 0 && !(at_clock() - r->start < limit)) {
        return AT_SHRINK_STOP;
    }
    r->status = run_case(r, smaller, &r->err);
    if (r->status != AT_OK) {
        return AT_SHRINK_STOP;
    }
    const ending end = ending_of(&r->seen);
    const bool kept = same(&end, &r->end);
    if (!r->o->quiet) {
        (void)fprintf(stderr, "%-4s %s\n", kept ? "kept" : "lost", r->seen.case_text);
    }
    if (kept) {
        keep(r, smaller);
    }
    return kept ? AT_SHRINK_KEPT : AT_SHRINK_LOST;
}

static void print_text(const reduce *r, const char *from, const char *repro, bool minimal)
{
    const at_record *b = &r->best;
    (void)printf("case      %s\nreduced   %s\nbackend   %s@%s\n", from, b->case_text, b->backend,
                 b->version);
    if (b->engine[0] != '\0') {
        (void)printf("engine    %s\n", b->engine);
    }
    (void)printf("ends      %s (%s) at %s%s%s, in %d of %d runs\n          %s\n",
                 at_kind_names[b->measured], b->code, at_step_names[b->step],
                 b->tensor >= 0 ? " " : "", b->tensor >= 0 ? at_tensor_names[b->tensor] : "",
                 b->hits, b->runs, b->message);
    (void)printf("steps     %d runs in %.1f s; %s\nrepro     %s\n", r->tries, at_clock() - r->start,
                 minimal ? "no key can be made simpler" : "stopped by --deadline", repro);
}

static void print_line(const reduce *r, const char *from, const char *repro, bool minimal)
{
    const at_record *b = &r->best;
    at_json *o = at_json_object();
    at_json_put_text(o, "case", from);
    at_json_put_text(o, "reduced", b->case_text);
    at_json_put_text(o, "backend", b->backend);
    at_json_put_text(o, "version", b->version);
    at_json_put_text(o, "engine", b->engine);
    at_json_put_text(o, "status", at_kind_names[b->measured]);
    at_json_put_text(o, "reason", b->code);
    at_json_put_text(o, "step", at_step_names[b->step]);
    if (b->tensor >= 0) {
        at_json_put_text(o, "tensor", at_tensor_names[b->tensor]);
    }
    at_json_put_text(o, "message", b->message);
    at_json_put_integer(o, "runs", b->runs);
    at_json_put_integer(o, "hits", b->hits);
    at_json_put_integer(o, "tries", r->tries);
    at_json_put_bool(o, "minimal", minimal);
    at_json_put_text(o, "repro", repro);
    char *line = at_json_print(o, false);
    (void)puts(line);
    free(line);
    at_json_close(o);
}

static int print(const reduce *r, const char *from, bool minimal)
{
    char repro[2 * AT_CASE_TEXT_MAX], suffix[1024];
    at_repro_line(&r->best, at_program, repro, sizeof repro);
    at_worker_flags(r->o, suffix, sizeof suffix);
    const size_t used = strlen(repro);
    (void)snprintf(repro + used, sizeof repro - used, "%s", suffix);
    (r->o->jsonl ? print_line : print_text)(r, from, repro, minimal);
    return fflush(stdout) != 0 || ferror(stdout)
               ? at_usage_error("reduce: stdout cannot be written")
           : minimal ? AT_EXIT_FINDINGS
                     : AT_EXIT_INCOMPLETE;
}

static at_status prepare(reduce *r, at_error *err)
{
    const at_options *o = r->o;
    if (o->word_count != 1 || o->backend == NULL) {
        return at_fail(err, AT_INVALID,
                       "it takes one case and --backend, such as `attest reduce CASE --backend "
                       "modelled.fa3-2025-02`");
    }
    AT_TRY(at_choice_open(&r->choice, o, NULL, err));
    if (r->choice.count != 1) {
        return at_fail(err, AT_INVALID, "\"%.200s\" is %zu cases, one is accepted", o->words[0],
                       r->choice.count);
    }
    return at_workers_open(&r->hosts, o, r->choice.corpus, 1, err);
}

/* Runs the case as given, and shrinks it when it does not end well. */
static int work(reduce *r)
{
    const at_case *given = at_suite_case(r->choice.suite, r->choice.index[0], NULL);
    char from[AT_CASE_TEXT_MAX];
    at_case c = *given;
    (void)at_case_print(given, from);
    if (run_case(r, &c, &r->err) != AT_OK) {
        return at_usage_error("reduce: %s", r->err.text);
    }
    const at_kind kind = r->seen.measured;
    if (at_kind_class(kind) == AT_CLASS_OK || kind == AT_BUILT) {
        (void)printf("%s ends as %s: nothing is to be reduced\n", from, at_kind_names[kind]);
        return kind == AT_BUILT ? AT_EXIT_NOTHING_JUDGED : AT_EXIT_CLEAN;
    }
    if (at_kind_class(kind) == AT_CLASS_ERROR) {
        return at_usage_error("reduce: attest itself failed on %s: %s", from, r->seen.message);
    }
    r->end = ending_of(&r->seen);
    keep(r, &c);
    const bool minimal = at_shrink(&c, ask, r);
    return r->status == AT_OK ? print(r, from, minimal) : at_usage_error("reduce: %s", r->err.text);
}

int cmd_reduce(int argc, char **argv)
{
    static reduce r; /* hosts hold pointers into it */
    at_options o;
    int exit_code = AT_EXIT_CLEAN;
    if (!at_options_parse(&o, REDUCE_FLAGS, argc, argv, &exit_code)) {
        return exit_code;
    }
    r.o = &o;
    r.start = at_clock();
    const at_status status = prepare(&r, &r.err);
    exit_code = status == AT_OK ? work(&r) : at_usage_error("reduce: %s", r.err.text);
    if (r.heard) {
        at_record_close(&r.seen);
    }
    if (r.has_best) {
        at_record_close(&r.best);
    }
    at_hosts_close(&r.hosts);
    at_choice_close(&r.choice);
    return exit_code;
}
