#include "harness/selftest/confirm.h"

#include <string.h>

#include "harness/problem/rng.h"

enum { STREAM = 0x5eed };

uint64_t at_fresh_seed(uint64_t seed, int k)
{
    return at_rng_u64(seed, STREAM, (uint64_t)k);
}

void at_confirm_begin(at_confirm *confirm, const at_case *c)
{
    confirm->c = *c;
    memset(confirm->made, 0, sizeof confirm->made);
}

void at_confirm_close(at_confirm *confirm)
{
    for (int k = 0; k < AT_FRESH_SEEDS; k++) {
        at_specimen_close(&confirm->specimen[k]);
    }
}

/* Adds what exceeds in `now` too. Returns the largest count. */
static int count_hits(int hits[AT_TENSOR_COUNT][AT_STAT_COUNT], const at_exceeded *first,
                      const at_exceeded *now, bool all)
{
    int most = 0;
    for (int t = 0; t < AT_TENSOR_COUNT; t++) {
        for (int s = 0; s < AT_STAT_COUNT; s++) {
            hits[t][s] += first->at[t][s] && (all || now->at[t][s]);
            most = hits[t][s] > most ? hits[t][s] : most;
        }
    }
    return most;
}

at_status at_confirm_run(bool *confirmed, at_confirm *confirm, const at_backend *backend,
                         const char *engine, at_step step, const at_exceeded *first,
                         const at_limits *limits, at_error *err)
{
    int hits[AT_TENSOR_COUNT][AT_STAT_COUNT] = {{0}}, most = 0;
    for (int k = 0;
         k < AT_FRESH_SEEDS && most < AT_FRESH_HITS && most + AT_FRESH_SEEDS - k >= AT_FRESH_HITS;
         k++) {
        at_specimen *s = &confirm->specimen[k];
        at_case c = confirm->c;
        c.seed = at_fresh_seed(c.seed, k);
        if (!confirm->made[k]) {
            AT_TRY(at_specimen_make(s, &c, &backend->numeric, err));
            confirm->made[k] = true;
        }
        at_verdict v;
        at_exceeded now;
        at_verdict_init(&v);
        if (step == AT_STEP_BACKWARD) {
            AT_TRY(at_specimen_launch(s, backend, engine, AT_STEP_FORWARD, err));
        }
        at_specimen_judge(&v.step[step], s, backend, engine, step);
        bool failed = at_kind_class(v.step[step].kind) == AT_CLASS_FAIL;
        (void)at_limits_check(&now, limits, &backend->numeric, &c, &v);
        most = count_hits(hits, first, &now, failed);
        at_specimen_restore(s);
    }
    *confirmed = most >= AT_FRESH_HITS;
    return AT_OK;
}
