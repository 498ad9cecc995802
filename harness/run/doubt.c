#include "harness/run/doubt.h"

#include <stdio.h>
#include <string.h>

static void next_seed(at_doubt *d, at_slot *s)
{
    d->c = *d->item->c;
    d->c.seed = at_fresh_seed(d->c.seed, d->suspect.runs);
    d->fresh = *d->item;
    d->fresh.c = &d->c;
    at_case_id(&d->c, d->fresh.id);
    s->item = &d->fresh;
    memset(&s->attempt, 0, sizeof s->attempt);
    (void)snprintf(s->engine, sizeof s->engine, "%s", d->engine);
    s->next = AT_NEXT_AGAIN;
}

void at_doubt_begin(at_doubt *d, at_slot *s, const at_verdict *v, const at_exceeded *exceeded)
{
    d->item = s->item;
    d->verdict = *v;
    (void)snprintf(d->asked, sizeof d->asked, "%s", s->engine);
    (void)snprintf(d->engine, sizeof d->engine, "%s", s->claimed[0] ? s->claimed : s->engine);
    (void)snprintf(d->engines, sizeof d->engines, "%s", s->engines);
    at_suspect_begin(&d->suspect, exceeded);
    next_seed(d, s);
}

bool at_doubt_add(at_doubt *d, at_slot *s, const at_limits *limits)
{
    at_exceeded now;
    bool failed = at_kind_class(s->verdict.kind) == AT_CLASS_FAIL;
    (void)at_limits_check(&now, limits, &d->item->backend->numeric, &d->c, &s->verdict);
    at_suspect_add(&d->suspect, &now, failed);
    if (failed) {
        at_slot_kill(s); /* its memory is not to be trusted */
    }
    if (at_suspect_wants_more(&d->suspect)) {
        next_seed(d, s);
        return true;
    }
    at_suspect_settle(&d->suspect, &d->verdict);
    (void)snprintf(s->engine, sizeof s->engine, "%s", d->asked);
    (void)snprintf(s->claimed, sizeof s->claimed, "%s", d->engine);
    (void)snprintf(s->engines, sizeof s->engines, "%s", d->engines);
    s->output[0] = '\0';
    return false;
}
