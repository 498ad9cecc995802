#include "harness/selftest/healthy.h"

#include <stdio.h>
#include <string.h>

#include "harness/selftest/confirm.h"
#include "kernels/kernels.h"

enum { BATCH = 512 };

/* Counts of one thread. */
typedef struct count {
    at_healthy sum;
    const at_limits *limits;
    at_specimen specimen;
    at_confirm confirm;
    int alarms;
} count;

static void alarm_at(count *n, const at_backend *b, const char *engine, const char *what)
{
    if (n->alarms < AT_ALARMS_KEPT) {
        char text[AT_CASE_TEXT_MAX];
        (void)at_case_print(&n->specimen.p.c, text);
        (void)snprintf(n->sum.alarm[n->alarms++], sizeof n->sum.alarm[0], "%s %s on %.200s: %.200s",
                       b->name, engine, text, what);
    }
}

static at_status check_limits(count *n, const at_backend *b, const char *engine,
                              const at_verdict *v, at_error *err)
{
    at_exceeded exceeded;
    bool confirmed = false;
    n->sum.limited += at_limits_check(&exceeded, n->limits, &b->numeric, &n->specimen.p.c, v);
    if (exceeded.n == 0) {
        return AT_OK;
    }
    n->sum.suspects++;
    at_confirm_begin(&n->confirm, &n->specimen.p.c);
    AT_TRY(at_confirm_run(&confirmed, &n->confirm, b, engine, exceeded.step, &exceeded, n->limits,
                          err));
    n->sum.confirmed += confirmed;
    char what[160];
    (void)snprintf(what, sizeof what, "%s of %s is %.4g, the limit %.4g%s",
                   at_stat_names[exceeded.stat], at_tensor_names[exceeded.tensor], exceeded.score,
                   exceeded.limit, confirmed ? ", confirmed" : ", not confirmed");
    alarm_at(n, b, engine, what);
    return AT_OK;
}

static at_status run_engine(count *n, const at_backend *b, const char *engine, at_error *err)
{
    at_verdict v;
    at_verdict_init(&v);
    n->sum.runs++;
    for (at_step step = AT_STEP_FORWARD; step <= at_specimen_last(&n->specimen); step++) {
        at_specimen_judge(&v.step[step], &n->specimen, b, engine, step);
        if (v.step[step].kind != AT_PASS) {
            n->sum.bound++;
            alarm_at(n, b, engine, v.step[step].reason.text);
            return AT_OK;
        }
    }
    return n->limits != NULL ? check_limits(n, b, engine, &v, err) : AT_OK;
}

static at_status run_case(count *n, const at_case *c, at_error *err)
{
    const at_backend *const backends[] = {&at_backend_cpu_flash, &at_backend_cpu_naive};
    for (int i = 0; i < 2; i++) {
        const at_backend *b = backends[i];
        at_engines engines = {0};
        at_reason why = {"", ""};
        if (b->claim(b, NULL, c, &engines, &why) != AT_OK) {
            continue;
        }
        if (i == 0) {
            AT_TRY(at_specimen_make(&n->specimen, c, &b->numeric, err));
        } else {
            AT_TRY(at_specimen_refer(&n->specimen, &b->numeric, err));
        }
        for (int e = 0; e < engines.n; e++) {
            AT_TRY(run_engine(n, b, engines.name[e], err));
        }
    }
    return AT_OK;
}

static void merge(at_healthy *out, const count *n)
{
    out->runs += n->sum.runs;
    out->bound += n->sum.bound;
    out->suspects += n->sum.suspects;
    out->confirmed += n->sum.confirmed;
    out->limited += n->sum.limited;
    for (int i = 0; i < n->alarms; i++) {
        int free_one = 0;
        while (free_one < AT_ALARMS_KEPT && out->alarm[free_one][0] != '\0') {
            free_one++;
        }
        if (free_one < AT_ALARMS_KEPT) {
            memcpy(out->alarm[free_one], n->sum.alarm[i], sizeof out->alarm[0]);
        }
    }
}

at_status at_healthy_run(at_healthy *out, int64_t runs, uint64_t seed, const at_limits *limits,
                         at_error *err)
{
    at_status result = AT_OK;
    memset(out, 0, sizeof *out);
    for (uint64_t first = 0; out->runs < runs && result == AT_OK; first += BATCH) {
#pragma omp parallel
        {
            count n = {.limits = limits};
#pragma omp for schedule(dynamic)
            for (uint64_t i = first; i < first + BATCH; i++) {
                at_case c;
                at_error own = {""};
                at_tiny_case(&c, &at_backend_cpu_flash, seed, i);
                at_status status = run_case(&n, &c, &own);
#pragma omp critical(at_healthy_status)
                if (status != AT_OK && result == AT_OK) {
                    result = status;
                    *err = own;
                }
            }
#pragma omp critical(at_healthy_merge)
            merge(out, &n);
            at_specimen_close(&n.specimen);
            at_confirm_close(&n.confirm);
        }
    }
    return result;
}
