/* A stand-in for the CUDA driver library, loaded only in the child process that asks cuDNN offline.
 * It reports no device; the few calls that cuDNN makes while it finishes a plan (load a module,
 * look up a kernel, set an attribute) pretend to succeed, so that run-time compilation is judged.
 * Nothing can execute: there is no launch and no memory. Source: CUDA driver API, cuda.h. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, NO_DEVICE = 100, DRIVER_VERSION = 13000 };

/* Marks the library: whoever sees this symbol knows that no result of this process was executed. */
EXPORT extern const char attest_driver_standin[];
const char attest_driver_standin[] = "attest: no device, nothing executes";

static char object; /* the address that every pretended handle has */

static int no_device(void)
{
    return NO_DEVICE;
}

static int succeed(void)
{
    return SUCCESS;
}

static int give_handle(void **out)
{
    if (out != NULL) {
        *out = &object;
    }
    return SUCCESS;
}

static int give_one(int *out)
{
    *out = 1;
    return SUCCESS;
}

static int give_version(int *out)
{
    *out = DRIVER_VERSION;
    return SUCCESS;
}

static int give_text(int error, const char **out)
{
    *out = error == NO_DEVICE ? "no device (attest's stand-in driver)" : "attest's stand-in driver";
    return SUCCESS;
}

static int give_zero(int *out)
{
    *out = 0;
    return SUCCESS;
}

/* Names that cuDNN looks up in the library itself; the rest comes through cuGetProcAddress. */
EXPORT int cuCtxGetCurrent(void) __attribute__((alias("no_device")));
EXPORT int cuCtxGetLimit(void) __attribute__((alias("no_device")));
EXPORT int cuCtxPopCurrent(void) __attribute__((alias("no_device")));
EXPORT int cuCtxPushCurrent(void) __attribute__((alias("no_device")));
EXPORT int cuStreamGetCtx(void) __attribute__((alias("no_device")));
EXPORT int cuLinkCreate(void) __attribute__((alias("no_device")));
EXPORT int cuLinkAddData(void) __attribute__((alias("no_device")));
EXPORT int cuLinkComplete(void) __attribute__((alias("no_device")));
EXPORT int cuLinkDestroy(void) __attribute__((alias("no_device")));
EXPORT int cuLaunchKernel(void) __attribute__((alias("no_device")));
EXPORT int cuLaunchKernelEx(void) __attribute__((alias("no_device")));
EXPORT int cuLaunchCooperativeKernel(void) __attribute__((alias("no_device")));
EXPORT int cuDeviceGet(void) __attribute__((alias("no_device")));
EXPORT int cuDeviceGetName(void) __attribute__((alias("no_device")));
EXPORT int cuCtxSetCurrent(void) __attribute__((alias("no_device")));
EXPORT int cuDeviceGetAttribute(void) __attribute__((alias("no_device")));
EXPORT int cuLibraryLoadFromFile(void) __attribute__((alias("no_device")));
EXPORT int cuOccupancyMaxPotentialClusterSize(void) __attribute__((alias("no_device")));
EXPORT int cuInit(void) __attribute__((alias("no_device")));
EXPORT int cuCtxGetDevice(void) __attribute__((alias("no_device")));
EXPORT int cuDevicePrimaryCtxRetain(void) __attribute__((alias("no_device")));
EXPORT int cuTensorMapEncodeTiled(void) __attribute__((alias("no_device")));
EXPORT int cuTensorMapEncodeIm2col(void) __attribute__((alias("no_device")));
EXPORT int cuFuncSetAttribute(void) __attribute__((alias("succeed")));
EXPORT int cuKernelSetAttribute(void) __attribute__((alias("succeed")));
EXPORT int cuLibraryUnload(void) __attribute__((alias("succeed")));
EXPORT int cuModuleUnload(void) __attribute__((alias("succeed")));
EXPORT int cuLibraryLoadData(void **out) __attribute__((alias("give_handle")));
EXPORT int cuLibraryGetKernel(void **out) __attribute__((alias("give_handle")));
EXPORT int cuKernelGetFunction(void **out) __attribute__((alias("give_handle")));
EXPORT int cuModuleLoadData(void **out) __attribute__((alias("give_handle")));
EXPORT int cuModuleLoadDataEx(void **out) __attribute__((alias("give_handle")));
EXPORT int cuModuleGetFunction(void **out) __attribute__((alias("give_handle")));
EXPORT int cuFuncGetAttribute(int *out) __attribute__((alias("give_one")));
EXPORT int cuKernelGetAttribute(int *out) __attribute__((alias("give_one")));
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out) __attribute__((alias("give_one")));
EXPORT int cuDriverGetVersion(int *out) __attribute__((alias("give_version")));
EXPORT int cuGetErrorString(int error, const char **out) __attribute__((alias("give_text")));
EXPORT int cuGetErrorName(int error, const char **out) __attribute__((alias("give_text")));
EXPORT int cuDeviceGetCount(int *out) __attribute__((alias("give_zero")));

EXPORT int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                               int *status);
EXPORT int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags);

EXPORT int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                               int *status)
{
    (void)version, (void)flags;
    void *found = NULL;
    void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (self != NULL) {
        found = dlsym(self, name);
        (void)dlclose(self);
    }
    int (*otherwise)(void) = no_device;
    if (found != NULL) {
        *out = found;
    } else {
        memcpy(out, &otherwise, sizeof otherwise);
    }
    if (status != NULL) {
        *status = 0;
    }
    return SUCCESS;
}

EXPORT int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, out, version, flags, NULL);
}
