/* Which libcudnn a selector's name means: "cudnn", "cudnn@9.14", "cudnn@newest". */
#ifndef AT_CUDNN_FIND_H
#define AT_CUDNN_FIND_H

#include <stddef.h>

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_CUDNN_PATH = 4096 };

/* Writes the path of the library, "" for the one that the loader finds. `given`: a library; or a
 * folder of them, DIR/VERSION/nvidia/cudnn/lib/libcudnn.so.9, as `make cudnn-library` fills; or
 * NULL for the build's own such folder. There "newest" is the highest version, and "9.14" the
 * highest that begins with it; a version that is not there is left to the loader, whose answer
 * at_cudnn_check_version judges. AT_IO: nothing at `given`; newest of an empty folder. */
AT_API at_status at_cudnn_find(char path[AT_CUDNN_PATH], const char *selector, const char *given,
                               at_error *err) AT_MUST_CHECK;

/* The versions in the build's own folder, "9.14.0.64 9.28.1.4"; "" when there are none. */
AT_API void at_cudnn_find_list(char *text, size_t room);

#ifdef __cplusplus
}
#endif
#endif
