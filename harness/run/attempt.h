/* Several runs of one case become one verdict. */
#ifndef AT_ATTEMPT_H
#define AT_ATTEMPT_H

#include "harness/judge/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_ATTEMPT_KINDS = 8 };

typedef struct at_attempt_kind {
    at_kind kind;
    char code[48];
    int count;
} at_attempt_kind;

/* The runs so far; zero-initialise. */
typedef struct at_attempt {
    int runs;    /* that count */
    int excused; /* that may not be the backend's fault */
    int idle;    /* of these, killed before anything was launched */
    int kinds;   /* distinct (kind, code) among those that count */
    at_attempt_kind seen[AT_ATTEMPT_KINDS];
    at_verdict worst; /* of those that count, or the last excused one */
} at_attempt;

typedef enum at_next {
    AT_NEXT_REPORT, /* the verdict is final */
    AT_NEXT_AGAIN,  /* run again, in any worker */
    AT_NEXT_FRESH,  /* run again in a new worker */
    AT_NEXT_ALONE   /* ... with no other worker busy */
} at_next;

/* Adds a run's verdict and says what is to follow. `repeat` runs are wanted in any case; `confirm`
 * asks for failures to be run again. */
AT_API at_next at_attempt_add(at_attempt *a, const at_verdict *v, int64_t repeat, bool confirm);

/* The final verdict with its runs and hits: FLAKY when the runs disagree. */
AT_API void at_attempt_settle(const at_attempt *a, at_verdict *out, int *runs, int *hits);

#ifdef __cplusplus
}
#endif
#endif
