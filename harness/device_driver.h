/* The part of the CUDA driver API that at_device uses. Types and numbers: cuda.h. */
#ifndef AT_DEVICE_DRIVER_H
#define AT_DEVICE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "harness/status.h"

enum {
    AT_CUDA_OUT_OF_MEMORY = 2,
    AT_CUDA_ATTRIBUTE_VMM = 102,
    AT_CUDA_PINNED = 1,
    AT_CUDA_LOCATION_DEVICE = 1,
    AT_CUDA_READ_WRITE = 3
};

typedef struct at_cuda_location {
    int type, id;
} at_cuda_location;

/* CUmemAllocationProp. */
typedef struct at_cuda_property {
    int type, handle_types;
    at_cuda_location location;
    void *metadata;
    unsigned char flags[8];
} at_cuda_property;

/* CUmemAccessDesc. */
typedef struct at_cuda_access {
    at_cuda_location location;
    int flags;
} at_cuda_access;

typedef struct at_cuda {
    void *library;
    int (*init)(unsigned flags);
    int (*error_string)(int error, const char **text);
    int (*device_get)(int *device, int ordinal);
    int (*attribute)(int *value, int attribute, int device);
    int (*retain)(void **context, int device);
    int (*give_back)(int device);
    int (*set_current)(void *context);
    int (*alloc)(uint64_t *address, size_t size);
    int (*free)(uint64_t address);
    int (*to_device)(uint64_t to, const void *from, size_t size);
    int (*to_host)(void *to, uint64_t from, size_t size);
    int (*granularity)(size_t *out, const at_cuda_property *property, int option);
    int (*reserve)(uint64_t *address, size_t size, size_t alignment, uint64_t wanted,
                   unsigned long long flags);
    int (*unreserve)(uint64_t address, size_t size);
    int (*create)(unsigned long long *handle, size_t size, const at_cuda_property *property,
                  unsigned long long flags);
    int (*destroy)(unsigned long long handle);
    int (*map)(uint64_t address, size_t size, size_t offset, unsigned long long handle,
               unsigned long long flags);
    int (*unmap)(uint64_t address, size_t size);
    int (*set_access)(uint64_t address, size_t size, const at_cuda_access *access, size_t count);
} at_cuda;

/* Opens the library and finds every function. AT_UNSUPPORTED says what is missing. */
at_status at_cuda_open(at_cuda *out, const char *library, at_error *err) AT_MUST_CHECK;
void at_cuda_close(at_cuda *driver);

#endif
