/* How far a run is: a bar on a terminal, now and then a plain line elsewhere. */
#ifndef AT_PROGRESS_H
#define AT_PROGRESS_H

#include <stdio.h>

#include "harness/run/record.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_progress {
    FILE *out; /* NULL: silent */
    bool bar;
    size_t total, done, failed, waived;
    double start, last;
    size_t last_done;
    bool shown; /* a bar stands on the line */
    size_t failures_shown;
    char now[160]; /* what was launched last */
} at_progress;

/* `quiet`: nothing is printed. `bar`: redraw one line, otherwise print a line about every ten
 * seconds. */
AT_API void at_progress_init(at_progress *p, FILE *out, bool bar, bool quiet, size_t total);
AT_API void at_progress_launched(at_progress *p, const char *backend, const char *case_text);

/* Counts a result, and shows the first failures as they come. */
AT_API void at_progress_done(at_progress *p, const at_record *r);
AT_API void at_progress_tick(at_progress *p);
/* Clears the bar, so that something else can be printed. */
AT_API void at_progress_clear(at_progress *p);

#ifdef __cplusplus
}
#endif
#endif
