#include <cblas.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness/case/suite.h"
#include "harness/cli/environment.h"
#include "harness/cli/bench_cudnn.h"
#include "harness/cli/bench_peers.h"
#include "harness/cli/options.h"
#include "harness/problem/fill.h"
#include "harness/select/audit.h"
#include "reference/reference.h"

/* What a benchmark gets, and the JSON object that it fills with its figures. */
typedef struct bench {
    const at_options *options;
    int threads;
    at_json *out;
    at_error err;
} bench;

static double wall(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double processor(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One multiplication of square matrices on all threads. Returns seconds, 0 without memory. */
static double time_dgemm(int n, int threads)
{
    size_t count = (size_t)n * (size_t)n;
    double *a = malloc(3 * count * sizeof *a);
    if (a == NULL) {
        return 0;
    }
    for (size_t i = 0; i < 3 * count; i++) {
        a[i] = (double)(i % 1021) / 1021 - 0.5;
    }
    openblas_set_num_threads(threads);
    double start = wall();
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, a + count, n, 0,
                a + 2 * count, n);
    double seconds = wall() - start;
    free(a);
    return seconds;
}

static at_status time_reference(double *seconds, const at_problem *p, bool no_scale,
                                at_arena *arena, at_error *err)
{
    at_gold gold;
    at_reference_options options = {.path = AT_REFERENCE_FAST, .no_scale = no_scale};
    double start = wall();
    AT_TRY(at_reference_run(&gold, p, &options, arena, err));
    *seconds = wall() - start;
    at_arena_reset(arena);
    return AT_OK;
}

/* The best of several rounds in which all three take turns, so that they see the same machine. */
static at_status reference_rounds(bench *b, const at_problem *p, at_arena *arena, double best[3])
{
    enum { ROUNDS = 7, SIZE = 1024 };
    best[0] = best[1] = best[2] = HUGE_VAL;
    for (int round = 0; round < ROUNDS; round++) {
        double seconds[3] = {time_dgemm(SIZE, b->threads), 0, 0};
        if (!(seconds[0] > 0)) {
            return at_fail(&b->err, AT_NO_MEMORY, "no memory for matrices of 1024 x 1024");
        }
        AT_TRY(time_reference(&seconds[1], p, true, arena, &b->err));
        AT_TRY(time_reference(&seconds[2], p, false, arena, &b->err));
        for (int i = 0; i < 3 && round > 0; i++) {
            best[i] = fmin(best[i], seconds[i]);
        }
    }
    return AT_OK;
}

static at_status bench_reference(bench *b)
{
    static const char text[] = "hq=8:sq=1024:dqk=128";
    const double flops = 14.0 * 1024 * 1024 * 128 * 8, dgemm = 2.0 * 1024 * 1024 * 1024;
    at_arena *inputs = NULL, *answers = NULL;
    at_case c;
    at_problem p;
    double best[3];
    at_status status = at_arena_open(&inputs, &b->err);
    status = status == AT_OK ? at_arena_open(&answers, &b->err) : status;
    status = status == AT_OK ? at_case_parse(&c, text, &b->err) : status;
    status = status == AT_OK ? at_problem_open(&p, &c, inputs, &b->err) : status;
    status = status == AT_OK ? reference_rounds(b, &p, answers, best) : status;
    at_arena_close(answers);
    at_arena_close(inputs);
    AT_TRY(status);
    at_json_put_text(b->out, "case", text);
    at_json_put_integer(b->out, "threads", b->threads);
    at_json_put_number(b->out, "dgemm_gflops", dgemm / best[0] * 1e-9);
    at_json_put_number(b->out, "gflops", flops / best[1] * 1e-9);
    at_json_put_number(b->out, "ratio", flops / best[1] / (dgemm / best[0]));
    at_json_put_number(b->out, "seconds", best[1]);
    at_json_put_number(b->out, "seconds_with_scale", best[2]);
    at_json_put_number(b->out, "scale_overhead", best[2] / best[1] - 1);
    return AT_OK;
}

/* Parse and print of canonical cases of several lengths, on one thread. */
static at_status bench_case(bench *b)
{
    static const char *const texts[] = {
        "b=1",
        "hq=16:hkv=1:sq=4096:dqk=192:dv=128:layout=sbhd:mask=causal",
        "b=4:hq=8:hkv=2:sq=512:skv=640:dqk=64:dtype=f16:mask=band:align=br:wl=127:wr=0",
        "b=2:hq=6:hkv=3:sq=200:skv=300:dqk=40:lens=random:softcap=30:scale=0.125:seed=7",
    };
    enum { N = 4, TURNS = 100000 };
    size_t length = 0;
    double start = processor();
    for (int i = 0; i < N * TURNS; i++) {
        at_case c;
        char text[AT_CASE_TEXT_MAX];
        AT_TRY(at_case_parse(&c, texts[i % N], &b->err));
        length += at_case_print(&c, text);
    }
    double seconds = processor() - start;
    AT_ASSERT(length > 0);
    at_json_put_integer(b->out, "cases", N * TURNS);
    at_json_put_number(b->out, "cases_per_second", N * TURNS / seconds);
    return AT_OK;
}

/* Elements of one distribution after the other, on all threads. */
static at_status bench_fill(bench *b)
{
    enum { FILLS = AT_FILL_DENORMAL + 1 };
    at_arena *arena = NULL;
    at_case c;
    at_problem p;
    at_status status = at_arena_open(&arena, &b->err);
    status = status == AT_OK ? at_case_parse(&c, "hq=8:sq=4096:dqk=128", &b->err) : status;
    status = status == AT_OK ? at_problem_open(&p, &c, arena, &b->err) : status;
    if (status != AT_OK) {
        at_arena_close(arena);
        return status;
    }
    double elements = (double)(p.size[AT_Q] / at_dtype_size(AT_BF16)), slowest = 0, sum = 0;
    for (int fill = 0; fill < FILLS; fill++) {
        c.fill = fill;
        double start = wall();
        at_fill_tensor(&p.t[AT_Q], &c, AT_Q);
        double seconds = wall() - start;
        sum += seconds;
        slowest = fmax(slowest, seconds);
    }
    at_arena_close(arena);
    at_json_put_integer(b->out, "threads", b->threads);
    at_json_put_number(b->out, "elements_per_second", FILLS * elements / sum);
    at_json_put_number(b->out, "elements_per_second_of_slowest", elements / slowest);
    return AT_OK;
}

/* What --selector, --env and --arch say, else the newest rule set for Hopper. */
static at_status audit_request(at_audit_request *out, at_env **env, char corpus[4096],
                               char rules[64], bench *b)
{
    const at_options *o = b->options;
    const char *selector = o->selector != NULL ? o->selector : "te-newest";
    AT_TRY(at_corpus_find(corpus, o->corpus, AT_BUILD_CORPUS, &b->err));
    AT_TRY(at_options_env(env, o, &b->err));
    if (o->env.n == 0) {
        AT_TRY(at_env_set(env, "fa3=2025-02,fused=0", &b->err));
    }
    if (o->arch == NULL && at_env_get(*env, "arch") == NULL) {
        AT_TRY(at_env_set(env, "arch=sm90", &b->err));
    }
    at_selector_rules_of(rules, corpus, selector);
    *out =
        (at_audit_request){.corpus = corpus, .selector = rules, .space = "training", .env = *env};
    return AT_OK;
}

/* The release's own function beside its rule set. */
static at_status bench_called(bench *b, const at_audit_request *rules, double per_second)
{
    enum { CALLS = 16384 };
    at_audit_request request = *rules;
    at_audit_speed called;
    request.selector = b->options->selector;
    AT_TRY(at_audit_measure(&called, &request, CALLS, &b->err));
    double calls = (double)called.cases;
    at_json_put_text(b->out, "called", request.selector);
    at_json_put_integer(b->out, "calls", (int64_t)called.cases);
    at_json_put_number(b->out, "calls_per_second", calls / called.wall);
    at_json_put_number(b->out, "ratio", per_second / (calls / called.wall));
    at_json_put_number(b->out, "function_calls_per_second", calls / called.function);
    at_json_put_number(b->out, "ratio_to_function", per_second / (calls / called.function));
    return AT_OK;
}

/* Decisions of a rule set over a whole space, on one thread; the whole audit of it on all threads;
 * and the real selector, where --selector calls one. */
static at_status bench_audit(bench *b)
{
    char corpus[4096], rules[64];
    at_env *env = NULL;
    at_audit *audit = NULL;
    at_audit_request request;
    at_audit_speed speed;
    double start = 0, per_second = 0;
    at_status status = audit_request(&request, &env, corpus, rules, b);
    status = status == AT_OK ? at_audit_measure(&speed, &request, UINT64_MAX, &b->err) : status;
    if (status == AT_OK) {
        per_second = (double)speed.cases / speed.seconds;
        start = wall();
        status = at_audit_open(&audit, &request, &b->err);
    }
    if (status == AT_OK) {
        at_json_put_text(b->out, "selector", rules);
        at_json_put_integer(b->out, "decisions", (int64_t)speed.cases);
        at_json_put_number(b->out, "decisions_per_second", per_second);
        at_json_put_integer(b->out, "threads", b->threads);
        at_json_put_number(b->out, "audit_seconds", wall() - start);
        status = b->options->selector != NULL && strncmp(b->options->selector, "te@", 3) == 0
                     ? bench_called(b, &request, per_second)
                     : AT_OK;
    }
    at_audit_close(audit);
    at_env_close(env);
    return status;
}

static const struct {
    const char *name;
    at_status (*run)(bench *b);
} benches[] = {
    {"reference", bench_reference},
    {"case", bench_case},
    {"fill", bench_fill},
    {"audit", bench_audit},
};
enum { N_BENCHES = sizeof benches / sizeof benches[0] };

static void print_figures(const at_json *figures)
{
    int shown = 0;
    for (const at_json *f = at_json_first(figures); f != NULL; f = at_json_next(f), shown++) {
        double number = 0;
        if (at_json_number(f, &number)) {
            (void)printf("%s%s %.4g", shown > 0 ? ", " : "", at_json_key(f), number);
        } else if (shown < 2) {
            (void)printf("%-10s", at_json_text(f));
        } else {
            (void)printf(", %s %s", at_json_key(f), at_json_text(f));
        }
    }
    (void)puts("");
}

static int run_bench(const at_options *o, int which)
{
    bench b = {.options = o, .threads = omp_get_max_threads(), .out = at_json_object()};
    at_json_put_text(b.out, "bench", benches[which].name);
    int exit_code = AT_EXIT_CLEAN;
    if (benches[which].run(&b) != AT_OK) {
        exit_code = at_usage_error("bench %s: %s", benches[which].name, b.err.text);
    } else if (o->jsonl) {
        char *line = at_json_print(b.out, false);
        (void)puts(line);
        free(line);
    } else {
        print_figures(b.out);
    }
    at_json_close(b.out);
    return exit_code;
}

/* The benchmark's index, -1: unknown. */
static int find_bench(const char *name)
{
    int i = N_BENCHES - 1;
    while (i >= 0 && strcmp(benches[i].name, name) != 0) {
        i--;
    }
    return i;
}

int cmd_bench(int argc, char **argv)
{
    at_options o;
    int exit_code = 0;
    const uint64_t flags = AT_FLAG(FORMAT) | AT_FLAG(THREADS) | AT_FLAG(CORPUS) |
                           AT_FLAG(SELECTOR) | AT_FLAG(ENV) | AT_FLAG(ARCH) | AT_FLAG(LIMITS);
    if (!at_options_parse(&o, flags, argc, argv, &exit_code)) {
        return exit_code;
    }
    exit_code = AT_EXIT_CLEAN;
    if (o.word_count == 1 && strcmp(o.words[0], "peers") == 0) {
        return at_bench_peers(&o); /* takes minutes, so it runs when it is named */
    }
    if (o.word_count == 1 && strcmp(o.words[0], "cudnn") == 0) {
        return at_bench_cudnn(&o); /* loads a driver that executes nothing */
    }
    for (int w = 0; w < o.word_count; w++) {
        if (find_bench(o.words[w]) < 0) {
            return at_usage_error("bench: no benchmark \"%s\"; there are reference, case, fill and "
                                  "audit, and, alone, peers or cudnn",
                                  o.words[w]);
        }
    }
    if (o.threads > 0) {
        omp_set_num_threads((int)o.threads);
    }
    for (int i = 0; i < (o.word_count > 0 ? o.word_count : N_BENCHES); i++) {
        int code = run_bench(&o, o.word_count > 0 ? find_bench(o.words[i]) : i);
        exit_code = code != AT_EXIT_CLEAN ? code : exit_code;
    }
    return fflush(stdout) == 0 && !ferror(stdout)
               ? exit_code
               : at_usage_error("bench: stdout cannot be written");
}
