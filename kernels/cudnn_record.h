/* Device profiles of GPUs that are here: corpus/devices. */
#ifndef AT_CUDNN_RECORD_H
#define AT_CUDNN_RECORD_H

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes what cuDNN reports of GPU `device` to the profile `path`, NAME.json. Properties of an
 * older file that this cuDNN does not report stay, with their source. AT_IO: no driver, no device,
 * no cuDNN, the file cannot be written; AT_INVALID: the file is there and is no profile of that
 * architecture. */
AT_API at_status at_cudnn_record(const char *path, int device, at_error *err) AT_MUST_CHECK;

/* The same from properties as cuDNN prints them; `by` says who reported them. */
AT_API at_status at_cudnn_record_text(const char *path, const char *properties, const char *by,
                                      at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
