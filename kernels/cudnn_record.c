#include "kernels/cudnn_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/run/results.h"
#include "kernels/cudnn_load.h"

enum { PATH_TEXT = 4096 };

static at_status parse(at_json **out, const char *properties, char arch[16], at_error *err)
{
    int64_t version = 0;
    AT_TRY(at_json_parse(out, "device properties", properties, strlen(properties), err));
    if (!at_json_integer(at_json_get(*out, "deviceVer"), &version) || version < 100 ||
        version > 9999) {
        at_json_close(*out);
        *out = NULL;
        return at_fail(err, AT_INVALID, "the device properties have no deviceVer such as 900");
    }
    (void)snprintf(arch, 16, "sm%" PRId64, version / 10);
    return AT_OK;
}

/* The properties of the older file, NULL when there is none. */
static at_status read_older(at_json **root, const at_json **properties, const char *path,
                            const char *arch, at_error *err)
{
    struct stat s;
    const char *own = NULL;
    *properties = NULL;
    if (stat(path, &s) != 0) {
        return AT_OK;
    }
    AT_TRY(at_json_load(root, path, err));
    AT_TRY(at_json_want_text(*root, "arch", true, &own, err));
    AT_TRY(at_json_want_object(*root, "properties", true, properties, err));
    return strcmp(own, arch) == 0
               ? AT_OK
               : at_fail(err, AT_INVALID, "%s is a profile of %s, the device is %s", path, own,
                         arch);
}

static at_json *merge(const at_json *reported, const at_json *older, const char *source)
{
    at_json *merged = at_json_object();
    for (const at_json *m = at_json_first(reported); m != NULL; m = at_json_next(m)) {
        at_json *property = at_json_object();
        at_json_put(property, "value", at_json_copy(m));
        at_json_put_text(property, "source", source);
        at_json_put(merged, at_json_key(m), property);
    }
    for (const at_json *m = older != NULL ? at_json_first(older) : NULL; m != NULL;
         m = at_json_next(m)) {
        if (at_json_get(reported, at_json_key(m)) == NULL) {
            at_json_put(merged, at_json_key(m), at_json_copy(m));
        }
    }
    return merged;
}

static at_status write_profile(const char *path, at_json *properties, const char *arch,
                               const char *source, at_error *err)
{
    char folder[PATH_TEXT], doc[512];
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.'),
               *device = at_json_text(at_json_get(at_json_get(properties, "deviceName"), "value"));
    char stem[128];
    (void)snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path) : 1,
                   slash != NULL ? path : ".");
    (void)snprintf(stem, sizeof stem, "%.*s", dot != NULL ? (int)(dot - name) : 100, name);
    (void)snprintf(doc, sizeof doc, "%s, %s", device != NULL ? device : stem, source);
    at_json *o = at_json_object();
    at_json_put_text(o, "schema", "attest-device-1");
    at_json_put_text(o, "name", stem);
    at_json_put_text(o, "arch", arch);
    at_json_put_text(o, "doc", doc);
    at_json_put(o, "properties", properties);
    char *text = at_json_print(o, true);
    const at_status status = at_file_replace(folder, name, text, err);
    free(text);
    at_json_close(o);
    return status;
}

at_status at_cudnn_record_text(const char *path, const char *properties, const char *by,
                               at_error *err)
{
    char arch[16], source[128];
    at_json *reported = NULL, *root = NULL;
    const at_json *older = NULL;
    AT_TRY(parse(&reported, properties, arch, err));
    (void)snprintf(source, sizeof source, "recorded from the device by %s", by);
    at_status status = read_older(&root, &older, path, arch, err);
    if (status == AT_OK) {
        status = write_profile(path, merge(reported, older, source), arch, source, err);
    }
    at_json_close(root);
    at_json_close(reported);
    return status;
}

at_status at_cudnn_record(const char *path, int device, at_error *err)
{
    const at_cudnn_api *api = NULL;
    char message[AT_CUDNN_MESSAGE] = "", number[32], by[64];
    AT_TRY(at_cudnn_load(&api, false, err));
    char *properties = api->device_properties(device, message);
    if (properties == NULL) {
        return at_fail(err, AT_IO, "cuDNN does not describe GPU %d: %s", device, message);
    }
    at_cudnn_version_text(api->version(), number);
    (void)snprintf(by, sizeof by, "cuDNN %s", number);
    const at_status status = at_cudnn_record_text(path, properties, by, err);
    free(properties);
    return status;
}
