#define _GNU_SOURCE /* dladdr */

#include "kernels/cudnn_load.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/json.h"
#include "kernels/driver.h"

enum { PATH_TEXT = 4096 };

/* The folder that libattest was loaded from; "." when the loader does not say. */
static void own_folder(char folder[PATH_TEXT])
{
    Dl_info info = {0};
    union {
        int (*function)(void);
        void *address;
    } self = {at_abi};
    const char *path = dladdr(self.address, &info) != 0 ? info.dli_fname : NULL;
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    if (slash == NULL) {
        (void)snprintf(folder, PATH_TEXT, ".");
    } else {
        (void)snprintf(folder, PATH_TEXT, "%.*s", (int)(slash - path), path);
    }
}

static at_status load_standin(const char *folder, at_error *err)
{
    char path[PATH_TEXT + 64];
    (void)snprintf(path, sizeof path, "%s/attest-standin/libcuda.so.1", folder);
    if (dlopen(path, RTLD_NOW | RTLD_GLOBAL) == NULL) {
        return at_fail(err, AT_IO, "the stand-in driver cannot be loaded: %s", dlerror());
    }
    /* Another driver may have been loaded first under the same name. */
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver == NULL || dlsym(driver, "attest_driver_standin") == NULL) {
        return at_fail(err, AT_IO,
                       "a real CUDA driver is loaded already; offline questions need a "
                       "process of their own");
    }
    return AT_OK;
}

static at_status load_frontend(const at_cudnn_api **out, const char *folder, at_error *err)
{
    char path[PATH_TEXT + 64], message[AT_CUDNN_MESSAGE] = "";
    (void)snprintf(path, sizeof path, "%s/libattest_cudnn.so", folder);
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) {
        return at_fail(err, AT_IO,
                       "the cuDNN part was not built (%s); it needs cudnn.h and `make "
                       "cudnn-frontend`",
                       dlerror());
    }
    union {
        void *address;
        const at_cudnn_api *(*function)(int);
    } entry = {dlsym(library, "attest_cudnn")};
    const at_cudnn_api *api = entry.address != NULL ? entry.function(AT_CUDNN_ABI) : NULL;
    if (api == NULL) {
        return at_fail(err, AT_IO, "%s was built for another version of attest", path);
    }
    if (!api->open(getenv("ATTEST_CUDNN"), message)) {
        return at_fail(err, AT_IO, "libcudnn cannot be opened (%s); --cudnn PATH names another",
                       message);
    }
    *out = api;
    return AT_OK;
}

bool at_cudnn_uses_driver(void)
{
    const char *driver = getenv("ATTEST_DRIVER");
    return driver != NULL && strcmp(driver, "installed") == 0;
}

/* The driver that modules of built plans are loaded with. */
static at_status load_driver(const char *folder, at_error *err)
{
    int version, count;
    if (!at_cudnn_uses_driver()) {
        return load_standin(folder, err);
    }
    AT_TRY(at_driver_open(&version, &count, err));
    return at_driver_use(0, err);
}

at_status at_cudnn_load(const at_cudnn_api **out, bool offline, at_error *err)
{
    static const at_cudnn_api *loaded;
    static bool loaded_offline;
    if (loaded == NULL) {
        char folder[PATH_TEXT];
        own_folder(folder);
        if (offline) {
            AT_TRY(load_driver(folder, err));
        }
        AT_TRY(load_frontend(&loaded, folder, err));
        loaded_offline = offline;
    }
    AT_ASSERT(loaded_offline == offline);
    *out = loaded;
    return AT_OK;
}

void at_cudnn_version_text(long version, char text[32])
{
    (void)snprintf(text, 32, "%ld.%ld.%ld", version / 10000, version / 100 % 100, version % 100);
}

/* Properties without their sources, as cuDNN reads them. */
static at_status read_profile(char **json, const char *path, const char *arch, at_error *err)
{
    static const char *const keys[] = {"schema", "name", "arch", "doc", "properties", NULL};
    at_json *root = NULL;
    const char *schema = NULL, *own_arch = NULL;
    const at_json *properties = NULL;
    *json = NULL;
    AT_TRY(at_json_load(&root, path, err));
    at_status status = at_json_only_keys(root, keys, err);
    status = status != AT_OK ? status : at_json_want_text(root, "schema", true, &schema, err);
    status = status != AT_OK ? status : at_json_want_text(root, "arch", true, &own_arch, err);
    status =
        status != AT_OK ? status : at_json_want_object(root, "properties", true, &properties, err);
    if (status == AT_OK && strcmp(schema, "attest-device-1") != 0) {
        status = at_fail(err, AT_INVALID, "schema \"%s\", attest-device-1 is read", schema);
    }
    if (status == AT_OK && strcmp(own_arch, arch) == 0) {
        at_json *plain = at_json_object();
        for (const at_json *m = at_json_first(properties); m != NULL; m = at_json_next(m)) {
            const at_json *value = at_json_get(m, "value");
            if (value == NULL || at_json_text(at_json_get(m, "source")) == NULL) {
                status = at_fail(err, AT_INVALID, "property \"%s\" needs a value and a source",
                                 at_json_key(m));
                break;
            }
            at_json_put(plain, at_json_key(m), at_json_copy(value));
        }
        *json = status == AT_OK ? at_json_print(plain, false) : NULL;
        at_json_close(plain);
    }
    at_json_close(root);
    return status == AT_OK ? AT_OK : at_fail_in(err, status, "%s", path);
}

static int is_profile(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

at_status at_cudnn_device(char **json, const char *corpus, const char *name, int sm, at_error *err)
{
    char path[PATH_TEXT], arch[16];
    struct dirent **list = NULL;
    *json = NULL;
    (void)snprintf(arch, sizeof arch, "sm%d", sm);
    (void)snprintf(path, sizeof path, "%s/devices", corpus);
    const int n = scandir(path, &list, is_profile, alphasort);
    at_status status =
        n < 0 ? at_fail(err, AT_IO, "%s: no device profiles can be read", path) : AT_OK;
    for (int i = 0; i < n; i++) {
        const size_t stem = strlen(list[i]->d_name) - 5;
        const bool named =
            name == NULL || (strlen(name) == stem && strncmp(name, list[i]->d_name, stem) == 0);
        if (status == AT_OK && *json == NULL && named) {
            (void)snprintf(path, sizeof path, "%s/devices/%s", corpus, list[i]->d_name);
            status = read_profile(json, path, arch, err);
        }
        free(list[i]);
    }
    free(list);
    if (status == AT_OK && *json == NULL) {
        return at_fail(err, AT_INVALID, "no device profile%s%s in %s/devices is for %s",
                       name != NULL ? " called " : "", name != NULL ? name : "", corpus, arch);
    }
    return status;
}
