/* Runs a plan on worker processes: deadlines, deaths, confirmation, results. Never touches a
 * device. */
#ifndef AT_RUNNER_H
#define AT_RUNNER_H

#include "harness/judge/limits.h"
#include "harness/run/plan.h"
#include "harness/run/waivers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_runner_options {
    int jobs;                /* workers, at least 1 */
    double case_timeout;     /* seconds for each step of the backend; ours get ten times as much */
    double deadline;         /* seconds from the start; nothing is launched later. 0: none */
    int64_t repeat;          /* runs of each case, at least 1 */
    bool force;              /* run what selection or the static check refuses */
    const char *dump;        /* folder for .npy files of the last run of each case, or NULL */
    at_waivers *waivers;     /* or NULL */
    const char *checks;      /* metamorphic checks for every case that passes, or NULL */
    const at_limits *limits; /* of the statistical tier; NULL: it judges nothing */

    /* Before a request is sent; once a result is final (`line` as in results.jsonl; `record` NULL
     * without results); about ten times a second. Any may be NULL. */
    void (*launched)(void *user, const at_item *item, const char *engine);
    void (*recorded)(void *user, const at_record *record, const at_json *line);
    void (*tick)(void *user);
    void *user;
} at_runner_options;

typedef struct at_runner_outcome {
    int signal;   /* SIGINT or SIGTERM that ended it, else 0 */
    bool at_once; /* a second signal: nothing more is to be done */
    bool past_deadline;
    size_t left;    /* items without a result */
    size_t started; /* worker processes, the first ones not counted */
} at_runner_outcome;

/* Runs every item that is not done. A result is final after: `repeat` runs that agree; for a
 * failure, a second run in a fresh worker (with no other at work after a timeout); disagreement
 * takes a third run and is FLAKY; for a pass with statistics beyond their limits, runs of fresh
 * seeds (suspect.h). What may not be the backend's fault (OOM, our own errors, a SIGKILL from
 * outside) is decided by retries with nothing else at work. `results` may be NULL. AT_IO: results
 * cannot be written or workers cannot be started; what was written stays. */
AT_API at_status at_runner_run(at_runner_outcome *out, const at_plan *plan, at_hosts *hosts,
                               at_results *results, const at_runner_options *options,
                               at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
