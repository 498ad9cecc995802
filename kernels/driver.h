/* The CUDA driver, opened at run time: which devices are here. */
#ifndef AT_DRIVER_H
#define AT_DRIVER_H

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_driver_device {
    char name[128];
    int sm; /* 90 */
} at_driver_device;

/* Opens libcuda.so.1 and initialises it. *version: 13000 for CUDA 13.0; *count: devices. AT_IO: no
 * driver, or none that works (the sentence says which); AT_UNSUPPORTED: no device. */
AT_API at_status at_driver_open(int *version, int *count, at_error *err) AT_MUST_CHECK;

/* Name and architecture of device i. AT_IO: the driver does not say. */
AT_API at_status at_driver_describe(at_driver_device *out, int i, at_error *err) AT_MUST_CHECK;

/* Makes the primary context of device i current, so that modules can be loaded. */
AT_API at_status at_driver_use(int i, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
