/* Questions to cuDNN, asked in child processes: a crash or a hang of the library is an answer. */
#ifndef AT_CUDNN_POOL_H
#define AT_CUDNN_POOL_H

#include "kernels/cudnn_load.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What became of one question. Either `answer`, or a death: "sigsegv", "timeout", ... while `plan`
 * was built ("" when none was). */
typedef struct at_cudnn_result {
    const at_cudnn_answer *answer; /* NULL: the child died; valid during the call */
    char death[48];
    char plan[AT_CUDNN_NAME];
} at_cudnn_result;

typedef struct at_cudnn_pool {
    const char *corpus; /* device profiles */
    const char *device; /* profile's name; NULL: the first of the architecture */
    int jobs;           /* children; 0: one a core */
    double seconds;     /* allowed between two signs of life of a child; 0: 60 */

    /* Writes the next question (device_json is the pool's) and how far to take it; false: none is
     * left. `tag` comes back with the result. */
    bool (*next)(void *user, at_cudnn_spec *spec, at_cudnn_stage *last, uint64_t *tag);
    void (*done)(void *user, uint64_t tag, const at_cudnn_result *result);
    void *user;
} at_cudnn_pool;

/* Asks until `next` has no more and every result is delivered, in the order of arrival. AT_IO: no
 * child can be started or none can load cuDNN (the sentence says why). Call it before this process
 * has threads. *version: cudnnGetVersion() of the children. */
AT_API at_status at_cudnn_pool_run(const at_cudnn_pool *pool, long *version, char frontend[32],
                                   at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
