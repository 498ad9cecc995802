/* Finds libattest_cudnn.so and libcudnn, and makes the process an offline one. */
#ifndef AT_CUDNN_LOAD_H
#define AT_CUDNN_LOAD_H

#include "harness/select/env.h"
#include "kernels/cudnn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Loads the frontend (beside libattest) and libcudnn: $ATTEST_CUDNN, or what the loader finds. With
 * `offline`, the stand-in driver is loaded first, for good: nothing can execute in this process.
 * The second call returns what the first one found. AT_IO: which file is missing, and how to get
 * it. */
AT_API at_status at_cudnn_load(const at_cudnn_api **out, bool offline, at_error *err) AT_MUST_CHECK;

/* True when $ATTEST_DRIVER is "installed": offline questions then load what they compile with the
 * machine's own driver in place of the stand-in (its first device), to recheck what the stand-in
 * let pass or fail. Still nothing is executed. */
AT_API bool at_cudnn_uses_driver(void);

/* "9.19.0" of 91900. */
AT_API void at_cudnn_version_text(long version, char text[32]);

/* The device profile for `sm` as the JSON that cuDNN reads: every file of CORPUS/devices, the first
 * in alphabetical order whose arch is it, or the profile called `name` where that is not NULL. Free
 * with free(). */
AT_API at_status at_cudnn_device(char **json, const char *corpus, const char *name, int sm,
                                 at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
