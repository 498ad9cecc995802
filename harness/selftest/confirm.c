#include "harness/selftest/confirm.h"

#include <string.h>

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

at_status at_confirm_run(bool *confirmed, at_confirm *confirm, const at_backend *backend,
                         const char *engine, at_step step, const at_exceeded *first,
                         const at_limits *limits, at_error *err)
{
    at_suspect suspect;
    at_suspect_begin(&suspect, first);
    while (at_suspect_wants_more(&suspect)) {
        int k = suspect.runs;
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
        (void)at_limits_check(&now, limits, &backend->numeric, &c, &v);
        at_suspect_add(&suspect, &now, at_kind_class(v.step[step].kind) == AT_CLASS_FAIL);
        at_specimen_restore(s);
    }
    *confirmed = at_suspect_is_confirmed(&suspect);
    return AT_OK;
}
