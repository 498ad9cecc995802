/* A CUDA driver whose device memory is host memory, for tests of at_device: mappings are pages
 * between pages that nobody can touch. What it does is set by host_driver_set. Source of names and
 * numbers: cuda.h. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

enum { OUT_OF_MEMORY = 2, NO_DEVICE = 100, PAGE = 65536, DEVICES = 1 };

static int maps = 1;
static size_t memory_left = SIZE_MAX;
static int live; /* allocations, mappings and reservations that were not given back */

EXPORT void host_driver_set(int can_map, size_t memory);
EXPORT int host_driver_live(void);
EXPORT int cuInit(unsigned flags);
EXPORT int cuGetErrorString(int error, const char **text);
EXPORT int cuDeviceGet(int *device, int ordinal);
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
EXPORT int cuCtxSetCurrent(void *context);
EXPORT int cuMemAlloc_v2(uint64_t *address, size_t size);
EXPORT int cuMemFree_v2(uint64_t address);
EXPORT int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size);
EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size);
EXPORT int cuMemGetAllocationGranularity(size_t *out, const void *property, int option);
EXPORT int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t wanted,
                               unsigned long long flags);
EXPORT int cuMemAddressFree(uint64_t address, size_t size);
EXPORT int cuMemCreate(unsigned long long *handle, size_t size, const void *property,
                       unsigned long long flags);
EXPORT int cuMemRelease(unsigned long long handle);
EXPORT int cuMemMap(uint64_t address, size_t size, size_t offset, unsigned long long handle,
                    unsigned long long flags);
EXPORT int cuMemUnmap(uint64_t address, size_t size);
EXPORT int cuMemSetAccess(uint64_t address, size_t size, const void *access, size_t count);

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

void host_driver_set(int can_map, size_t memory)
{
    maps = can_map;
    memory_left = memory;
}

int host_driver_live(void)
{
    return live;
}

int cuInit(unsigned flags)
{
    return flags == 0 ? 0 : NO_DEVICE;
}

int cuGetErrorString(int error, const char **text)
{
    *text = error == OUT_OF_MEMORY ? "out of memory" : "no such device";
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal >= 0 && ordinal < DEVICES ? 0 : NO_DEVICE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = attribute == 102 && device == 0 ? maps : 0;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = &live;
    live++;
    return device == 0 ? 0 : NO_DEVICE;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    live--;
    return device == 0 ? 0 : NO_DEVICE;
}

int cuCtxSetCurrent(void *context)
{
    return context == &live ? 0 : NO_DEVICE;
}

static int take(size_t size)
{
    if (size > memory_left) {
        return OUT_OF_MEMORY;
    }
    memory_left -= memory_left == SIZE_MAX ? 0 : size;
    live++;
    return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t size)
{
    void *memory = NULL;
    int error = take(size);
    if (error == 0 && posix_memalign(&memory, 256, size) != 0) {
        return OUT_OF_MEMORY;
    }
    *address = (uint64_t)(uintptr_t)memory;
    return error;
}

int cuMemFree_v2(uint64_t address)
{
    live--;
    free(at(address));
    return 0;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size)
{
    memcpy(at(to), from, size);
    return 0;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size)
{
    memcpy(to, at(from), size);
    return 0;
}

int cuMemGetAllocationGranularity(size_t *out, const void *property, int option)
{
    *out = PAGE;
    return property != NULL && option == 0 ? 0 : NO_DEVICE;
}

int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t wanted,
                        unsigned long long flags)
{
    void *memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || alignment != PAGE || wanted != 0 || flags != 0) {
        return OUT_OF_MEMORY;
    }
    live++;
    *address = (uint64_t)(uintptr_t)memory;
    return 0;
}

int cuMemAddressFree(uint64_t address, size_t size)
{
    live--;
    return munmap(at(address), size) == 0 ? 0 : NO_DEVICE;
}

int cuMemCreate(unsigned long long *handle, size_t size, const void *property,
                unsigned long long flags)
{
    const int *words = property; /* type, handle types, location type, location id */
    if (size % PAGE != 0 || words[0] != 1 || words[2] != 1 || words[3] != 0 || flags != 0) {
        return NO_DEVICE;
    }
    *handle = size;
    return take(size);
}

int cuMemRelease(unsigned long long handle)
{
    live--;
    memory_left += memory_left == SIZE_MAX ? 0 : (size_t)handle;
    return 0;
}

int cuMemMap(uint64_t address, size_t size, size_t offset, unsigned long long handle,
             unsigned long long flags)
{
    live++;
    return address % 4096 == 0 && offset == 0 && flags == 0 && handle == size ? 0 : NO_DEVICE;
}

int cuMemUnmap(uint64_t address, size_t size)
{
    live--;
    return mprotect(at(address), size, PROT_NONE) == 0 ? 0 : NO_DEVICE;
}

int cuMemSetAccess(uint64_t address, size_t size, const void *access, size_t count)
{
    const int *words = access; /* location type, location id, flags */
    if (count != 1 || words[0] != 1 || words[2] != 3) {
        return NO_DEVICE;
    }
    return mprotect(at(address), size, PROT_READ | PROT_WRITE) == 0 ? 0 : NO_DEVICE;
}
