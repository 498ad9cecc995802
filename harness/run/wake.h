/* Signals that end or wake a run. One run at a time in a process. */
#ifndef AT_WAKE_H
#define AT_WAKE_H

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Catches SIGINT, SIGTERM and SIGCHLD, ignores SIGPIPE and SIGXFSZ; close puts back what was there.
 */
at_status at_wake_open(at_error *err) AT_MUST_CHECK;
void at_wake_close(void);

int at_wake_descriptor(void); /* readable once a signal has come */
void at_wake_drain(void);
int at_wake_signal(void); /* the last SIGINT or SIGTERM, 0: none */
int at_wake_count(void);  /* how many of them */

#ifdef __cplusplus
}
#endif
#endif
