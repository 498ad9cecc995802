#include "harness/device_driver.h"

#include <dlfcn.h>
#include <string.h>

/* Functions by their place in at_cuda. */
static const struct {
    const char *name;
    size_t place;
} functions[] = {
    {"cuInit", offsetof(at_cuda, init)},
    {"cuGetErrorString", offsetof(at_cuda, error_string)},
    {"cuDeviceGet", offsetof(at_cuda, device_get)},
    {"cuDeviceGetAttribute", offsetof(at_cuda, attribute)},
    {"cuDevicePrimaryCtxRetain", offsetof(at_cuda, retain)},
    {"cuDevicePrimaryCtxRelease_v2", offsetof(at_cuda, give_back)},
    {"cuCtxSetCurrent", offsetof(at_cuda, set_current)},
    {"cuMemAlloc_v2", offsetof(at_cuda, alloc)},
    {"cuMemFree_v2", offsetof(at_cuda, free)},
    {"cuMemcpyHtoD_v2", offsetof(at_cuda, to_device)},
    {"cuMemcpyDtoH_v2", offsetof(at_cuda, to_host)},
    {"cuMemGetAllocationGranularity", offsetof(at_cuda, granularity)},
    {"cuMemAddressReserve", offsetof(at_cuda, reserve)},
    {"cuMemAddressFree", offsetof(at_cuda, unreserve)},
    {"cuMemCreate", offsetof(at_cuda, create)},
    {"cuMemRelease", offsetof(at_cuda, destroy)},
    {"cuMemMap", offsetof(at_cuda, map)},
    {"cuMemUnmap", offsetof(at_cuda, unmap)},
    {"cuMemSetAccess", offsetof(at_cuda, set_access)},
};

at_status at_cuda_open(at_cuda *out, const char *library, at_error *err)
{
    *out = (at_cuda){0};
    const char *name = library != NULL ? library : "libcuda.so.1";
    out->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (out->library == NULL) {
        return at_fail(err, AT_UNSUPPORTED, "no CUDA driver: %.400s", dlerror());
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(out->library, functions[i].name);
        if (found == NULL) {
            at_cuda_close(out);
            return at_fail(err, AT_UNSUPPORTED, "%.200s has no %s; CUDA 11.2 and newer have it",
                           name, functions[i].name);
        }
        memcpy((char *)out + functions[i].place, &found, sizeof found);
    }
    return AT_OK;
}

void at_cuda_close(at_cuda *driver)
{
    if (driver->library != NULL) {
        (void)dlclose(driver->library);
        driver->library = NULL;
    }
}
