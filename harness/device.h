/* Memory of our own on a CUDA device: guarded buffers and copies, through the driver's API, which
 * is opened at run time. Nothing here is linked with it, and no framework's cache is involved. */
#ifndef AT_DEVICE_H
#define AT_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_device at_device;

/* Opens the driver (`library` NULL: libcuda.so.1) and the primary context of a device, which is the
 * one that frameworks use. AT_UNSUPPORTED: no driver, an old one, or no such device; the sentence
 * says which. Source: CUDA driver API. */
AT_API at_status at_device_open(at_device **out, const char *library, int ordinal,
                                at_error *err) AT_MUST_CHECK;
/* Frees every buffer too; NULL is legal. */
AT_API void at_device_close(at_device *device);

/* 1: unmapped pages stand around every buffer's bands (virtual memory management), so that what
 * writes far outside faults; 0: bands only. */
AT_API int at_device_has_guard_pages(const at_device *device);

/* `size` bytes (0 is legal), aligned to 128 bytes, between guard bands of at least 4096 bytes that
 * hold `guard_word` (element_size bytes of it, 1, 2 or 4). The contents are undefined.
 * AT_NO_MEMORY names the size. */
AT_API at_status at_device_take(uint64_t *address, at_device *device, size_t size,
                                unsigned guard_word, size_t element_size,
                                at_error *err) AT_MUST_CHECK;
/* Copies between host memory and a place within a buffer, in the order of the default stream;
 * returns when done. AT_REFUSED: the driver's message, such as that of a kernel that faulted. */
AT_API at_status at_device_put(at_device *device, uint64_t address, const void *host, size_t size,
                               at_error *err) AT_MUST_CHECK;
AT_API at_status at_device_get(at_device *device, void *host, uint64_t address, size_t size,
                               at_error *err) AT_MUST_CHECK;

/* First byte of a band that changed, as an offset from the buffer that begins at `address`
 * (negative: before it; >= size: past it). *changed is 0 when the bands are intact, 1 otherwise.
 * Work on other streams is to be waited for first. */
AT_API at_status at_device_check(at_device *device, uint64_t address, int *changed, int64_t *offset,
                                 at_error *err) AT_MUST_CHECK;

/* Gives every buffer back, to be taken again; their pages stay mapped until the close. */
AT_API void at_device_release(at_device *device);

#ifdef __cplusplus
}
#endif
#endif
