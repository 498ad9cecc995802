#include "kernels/driver.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

enum { SUCCESS = 0, NO_DEVICE = 100, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };

/* Names and types of cuda.h, where a result and a device are ints. */
typedef struct calls {
    int (*init)(unsigned);
    int (*version)(int *);
    int (*count)(int *);
    int (*get)(int *, int);
    int (*name)(char *, int, int);
    int (*attribute)(int *, int, int);
    int (*retain)(void **, int);
    int (*use)(void *);
} calls;

typedef void (*code)(void);

static code find(void *library, const char *name, const char **missing)
{
    union {
        void *data;
        code code;
    } symbol = {dlsym(library, name)};
    *missing = symbol.data == NULL ? name : *missing;
    return symbol.code;
}

static at_status load(calls *c, at_error *err)
{
    const char *missing = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        return at_fail(err, AT_IO, "no CUDA driver here (libcuda.so.1)");
    }
    c->init = (int (*)(unsigned))find(library, "cuInit", &missing);
    c->version = (int (*)(int *))find(library, "cuDriverGetVersion", &missing);
    c->count = (int (*)(int *))find(library, "cuDeviceGetCount", &missing);
    c->get = (int (*)(int *, int))find(library, "cuDeviceGet", &missing);
    c->name = (int (*)(char *, int, int))find(library, "cuDeviceGetName", &missing);
    c->attribute = (int (*)(int *, int, int))find(library, "cuDeviceGetAttribute", &missing);
    c->retain = (int (*)(void **, int))find(library, "cuDevicePrimaryCtxRetain", &missing);
    c->use = (int (*)(void *))find(library, "cuCtxSetCurrent", &missing);
    return missing == NULL ? AT_OK
                           : at_fail(err, AT_IO, "the CUDA driver found has no %s", missing);
}

at_status at_driver_open(int *version, int *count, at_error *err)
{
    calls c;
    *version = *count = 0;
    AT_TRY(load(&c, err));
    const int result = c.init(0);
    (void)c.version(version);
    if (result == NO_DEVICE || (result == SUCCESS && c.count(count) == SUCCESS && *count == 0)) {
        return at_fail(err, AT_UNSUPPORTED, "a CUDA driver, but no device");
    }
    return result == SUCCESS && *count > 0
               ? AT_OK
               : at_fail(err, AT_IO, "the CUDA driver does not start (error %d)", result);
}

at_status at_driver_describe(at_driver_device *out, int i, at_error *err)
{
    calls c;
    int device = 0, major = 0, minor = 0;
    AT_TRY(load(&c, err));
    if (c.get(&device, i) != SUCCESS ||
        c.name(out->name, (int)sizeof out->name, device) != SUCCESS ||
        c.attribute(&major, CAPABILITY_MAJOR, device) != SUCCESS ||
        c.attribute(&minor, CAPABILITY_MINOR, device) != SUCCESS) {
        return at_fail(err, AT_IO, "the CUDA driver does not describe device %d", i);
    }
    out->sm = 10 * major + minor;
    return AT_OK;
}

at_status at_driver_use(int i, at_error *err)
{
    calls c;
    int device = 0;
    void *context = NULL;
    AT_TRY(load(&c, err));
    return c.get(&device, i) == SUCCESS && c.retain(&context, device) == SUCCESS &&
                   c.use(context) == SUCCESS
               ? AT_OK
               : at_fail(err, AT_IO, "device %d gives no context", i);
}
