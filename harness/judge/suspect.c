#include "harness/judge/suspect.h"

#include <stdio.h>
#include <string.h>

#include "harness/problem/rng.h"

enum { STREAM = 0x5eed };

uint64_t at_fresh_seed(uint64_t seed, int k)
{
    return at_rng_u64(seed, STREAM, (uint64_t)k);
}

void at_suspect_begin(at_suspect *s, const at_exceeded *first)
{
    memset(s, 0, sizeof *s);
    s->first = *first;
}

void at_suspect_add(at_suspect *s, const at_exceeded *now, bool failed)
{
    s->runs++;
    for (int t = 0; t < AT_TENSOR_COUNT; t++) {
        for (int i = 0; i < AT_STAT_COUNT; i++) {
            s->of[t][i] += s->first.at[t][i] && (failed || now->at[t][i]);
            s->hits = s->of[t][i] > s->hits ? s->of[t][i] : s->hits;
        }
    }
}

bool at_suspect_is_confirmed(const at_suspect *s)
{
    return s->hits >= AT_FRESH_HITS;
}

bool at_suspect_wants_more(const at_suspect *s)
{
    return !at_suspect_is_confirmed(s) && s->hits + AT_FRESH_SEEDS - s->runs >= AT_FRESH_HITS;
}

/* The tensor and statistic that was beyond its limit most often, the first one at a tie. */
static void worst_of(const at_suspect *s, int *tensor, int *stat)
{
    *tensor = (int)s->first.tensor;
    *stat = (int)s->first.stat;
    for (int t = 0; t < AT_TENSOR_COUNT; t++) {
        for (int i = 0; i < AT_STAT_COUNT; i++) {
            if (s->of[t][i] > s->of[*tensor][*stat]) {
                *tensor = t;
                *stat = i;
            }
        }
    }
}

void at_suspect_settle(const at_suspect *s, at_verdict *v)
{
    int tensor = 0, stat = 0;
    bool confirmed = at_suspect_is_confirmed(s);
    worst_of(s, &tensor, &stat);
    at_step_verdict *step = &v->step[s->first.step];
    for (int i = 0; i < AT_STEP_COUNT; i++) {
        step = v->step[i].ran && v->step[i].m[tensor].judged ? &v->step[i] : step;
    }
    at_measure *m = &step->m[tensor];
    step->kind = m->kind = confirmed ? AT_WRONG : AT_SUSPECT;
    (void)snprintf(m->reason.code, sizeof m->reason.code, "%s",
                   confirmed ? "statistics" : "unconfirmed");
    (void)snprintf(
        m->reason.text, sizeof m->reason.text,
        "%s: %s is unlike that of healthy kernels (score %.4g, limit %.4g), and again on "
        "%d of %d fresh seeds.",
        at_tensor_names[tensor], at_stat_names[stat], m->score[stat], s->first.limits[tensor][stat],
        s->of[tensor][stat], s->runs);
    step->reason = m->reason;
    at_verdict_settle(v);
}
