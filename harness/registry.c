/* The list of backends: the built-in ones, then those that plugins brought. */
#include "harness/backend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "kernels/mutants/mutants.h"

enum { BACKENDS_MAX = 512 };

static const at_backend *const live[] = {&at_backend_cpu_flash, &at_backend_cpu_naive, NULL};

static const at_backend *const *const built_in[] = {live, at_backends_modelled,
                                                    at_backends_fault_process};

static const at_backend *all[BACKENDS_MAX + 1];
static int count;
static pthread_once_t listed = PTHREAD_ONCE_INIT;

static void list_built_in(void)
{
    for (size_t group = 0; group < sizeof built_in / sizeof *built_in; group++) {
        for (const at_backend *const *b = built_in[group]; *b != NULL; b++) {
            AT_ASSERT(count < BACKENDS_MAX);
            all[count++] = *b;
        }
    }
    for (size_t i = 0; i < at_mutant_count(); i++) {
        AT_ASSERT(count < BACKENDS_MAX);
        all[count++] = at_mutant_at(i);
    }
}

const at_backend *const *at_registry(void)
{
    (void)pthread_once(&listed, list_built_in);
    return all;
}

const at_backend *at_registry_find(const char *name)
{
    for (const at_backend *const *b = at_registry(); *b != NULL; b++) {
        if (strcmp((*b)->name, name) == 0) {
            return *b;
        }
    }
    return NULL;
}

static at_status check_plugin_backend(const char *path, const at_backend *b,
                                      const at_backend *const *before, at_error *err)
{
    if (b->name == NULL || b->name[0] == '\0' || b->version == NULL) {
        return at_fail(err, AT_INVALID, "plugin %s: a backend has no name or no version", path);
    }
    if (b->supports == NULL || b->open == NULL || b->claim == NULL || b->forward == NULL ||
        b->backward == NULL || b->close == NULL) {
        return at_fail(err, AT_INVALID,
                       "plugin %s: backend %s must set supports, open, claim, forward, backward "
                       "and close",
                       path, b->name);
    }
    bool repeated = at_registry_find(b->name) != NULL;
    for (; *before != b; before++) {
        repeated = repeated || strcmp((*before)->name, b->name) == 0;
    }
    if (repeated) {
        return at_fail(err, AT_INVALID, "plugin %s: there is already a backend called %s", path,
                       b->name);
    }
    return AT_OK;
}

static at_status append_plugin(const char *path, const at_backend *const *list, at_error *err)
{
    int n = 0;
    for (; list[n] != NULL; n++) {
        AT_TRY(check_plugin_backend(path, list[n], list, err));
    }
    if (n == 0) {
        return at_fail(err, AT_INVALID, "plugin %s: it brings no backend", path);
    }
    if (count + n > BACKENDS_MAX) {
        return at_fail(err, AT_INVALID, "plugin %s: more than %d backends", path, BACKENDS_MAX);
    }
    for (int i = 0; i < n; i++) {
        all[count++] = list[i];
    }
    return AT_OK;
}

/* A bare file name means the file in the current folder where there is one; dlopen alone would
 * search the system's folders only. */
static void *open_library(const char *path)
{
    char local[4096];
    if (strchr(path, '/') == NULL && access(path, F_OK) == 0 && strlen(path) + 3 < sizeof local) {
        (void)snprintf(local, sizeof local, "./%s", path);
        return dlopen(local, RTLD_NOW | RTLD_LOCAL);
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

at_status at_registry_load(const char *path, at_error *err)
{
    typedef const at_backend *const *plugin_entry(int abi);
    (void)at_registry();
    void *library = open_library(path);
    if (library == NULL) {
        return at_fail(err, AT_IO, "plugin %s cannot be loaded: %s", path, dlerror());
    }
    void *symbol = dlsym(library, "attest_plugin");
    plugin_entry *entry = NULL;
    memcpy(&entry, &symbol, sizeof entry);
    at_status status;
    if (entry == NULL) {
        status = at_fail(err, AT_INVALID, "plugin %s does not export attest_plugin", path);
    } else {
        const at_backend *const *list = entry(AT_ABI);
        status = list != NULL ? append_plugin(path, list, err)
                              : at_fail(err, AT_INVALID,
                                        "plugin %s was built for another ABI than %d, that of "
                                        "this attest",
                                        path, AT_ABI);
    }
    if (status != AT_OK) {
        (void)dlclose(library);
    }
    return status;
}
