/* The worker: serves requests of the protocol with the backends of this process. */
#ifndef AT_WORKER_H
#define AT_WORKER_H

#include "harness/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Moves the protocol off the standard descriptors: *in and *out become high, close-on-exec
 * duplicates of 0 and 1; then 0 reads nothing and 1 goes where 2 goes, so that whatever a library
 * reads or prints leaves the protocol alone. */
AT_API at_status at_worker_detach(int *in, int *out, at_error *err) AT_MUST_CHECK;

/* Says hello, answers requests until the input ends, says bye. A bad request is answered with an
 * error event. AT_IO when the runner is gone. */
AT_API at_status at_worker_serve(const at_backend *const *backends, int in, int out,
                                 at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
