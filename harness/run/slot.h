/* One worker's place in the runner: its process, its request, what is known of it so far. */
#ifndef AT_SLOT_H
#define AT_SLOT_H

#include "harness/run/attempt.h"
#include "harness/run/hosts.h"
#include "harness/run/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_SLOT_ENGINES_TEXT = AT_ENGINES_MAX * AT_ENGINE_NAME };
#define AT_OUTPUT_LIMIT (32U << 20) /* bytes that a request may print */

typedef enum at_slot_state {
    AT_SLOT_EMPTY,    /* no process */
    AT_SLOT_STARTING, /* hello is awaited */
    AT_SLOT_READY,    /* waits for a request */
    AT_SLOT_BUSY      /* a request is under way */
} at_slot_state;

typedef struct at_slot {
    at_slot_state state;
    at_process process;
    int host;
    int served;        /* requests that this process has answered */
    int failed_starts; /* in a row */
    double since;      /* start of the state */

    const at_item *item;         /* NULL: none */
    char engine[AT_ENGINE_NAME]; /* asked for */
    at_attempt attempt;
    at_next next; /* what the item needs: AGAIN, FRESH or ALONE */

    /* of the request under way or just ended */
    int64_t id;
    bool began;
    at_begin_step step;
    char claimed[AT_ENGINE_NAME];
    char engines[AT_SLOT_ENGINES_TEXT]; /* joined by newlines */
    at_verdict verdict;                 /* so far; final once ended */
    char output[1024];                  /* last words when it died */
} at_slot;

/* Starts a process for the host, or takes over the one that was asked for its hello. */
AT_API at_status at_slot_start(at_slot *s, at_hosts *hosts, int host, at_error *err) AT_MUST_CHECK;

/* Sends the item's request. A worker that does not take it counts as dead. After a run that ended
 * in a launch (REFUSED, CRASH, ...) the request says so, and costs no reference. */
AT_API void at_slot_send(at_slot *s, bool force, const char *dump, const char *checks);

/* Takes in what has arrived and how much time has passed. True when the request has ended:
 * `verdict`, `claimed`, `engines`, `output` hold the outcome; the state is READY, or EMPTY when it
 * died. */
AT_API bool at_slot_poll(at_slot *s, double case_timeout);

/* Ends the process, in order when it is idle (stop) or at once (kill). */
AT_API void at_slot_stop(at_slot *s);
AT_API void at_slot_kill(at_slot *s);

#ifdef __cplusplus
}
#endif
#endif
