/* cudnn_spec.c: a case as cuDNN's graph; cudnn.cpp: what the frontend and the library say of it
 * without a device (skipped where the cuDNN part was not built). */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/cudnn_audit_core.h"
#include "kernels/cudnn_diff.h"
#include "kernels/cudnn_find.h"
#include "kernels/cudnn_load.h"
#include "kernels/cudnn_record.h"
#include "kernels/cudnn_spec.h"
#include "kernels/driver.h"

static at_cudnn_spec spec_of(const char *text, at_step step)
{
    at_case c;
    at_error err = {""};
    at_reason why = {"", ""};
    at_cudnn_spec spec;
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    CHECK_INT(at_cudnn_spec_init(&spec, &c, step, 90, &why), AT_OK);
    return spec;
}

static void test_bounds(void)
{
    at_cudnn_spec s = spec_of("mask=causal", AT_STEP_FORWARD);
    CHECK(!s.has_left && s.has_right && s.right == 0 && !s.bottom_right);
    s = spec_of("mask=causal:wl=127:align=br:skv=128", AT_STEP_FORWARD);
    CHECK(s.has_left && s.left == 128 && s.bottom_right);
    s = spec_of("mask=band:wl=3:wr=5:align=10:skv=128", AT_STEP_FORWARD);
    CHECK(s.left == -6 && s.right == 15 && !s.bottom_right);
    s = spec_of("mask=band:wr=4", AT_STEP_FORWARD);
    CHECK(!s.has_left && s.has_right && s.right == 4);
    s = spec_of("b=1", AT_STEP_FORWARD);
    CHECK(!s.has_left && !s.has_right && !s.padding && !s.ragged);
}

static void check_stride(const at_cudnn_tensor *t, int64_t b, int64_t h, int64_t s)
{
    CHECK_INT(t->stride[0], b);
    CHECK_INT(t->stride[1], h);
    CHECK_INT(t->stride[2], s);
    CHECK_INT(t->stride[3], 1);
}

static void test_strides(void)
{
    at_cudnn_spec s = spec_of("b=2:hq=4:sq=8:dqk=16", AT_STEP_FORWARD);
    check_stride(&s.q, 512, 16, 64);
    s = spec_of("b=2:hq=4:sq=8:dqk=16:layout=sbhd", AT_STEP_FORWARD);
    check_stride(&s.q, 64, 16, 128);
    s = spec_of("b=2:hq=4:sq=8:dqk=16:layout=bhsd", AT_STEP_FORWARD);
    check_stride(&s.q, 512, 128, 16);
    s = spec_of("b=2:hq=4:sq=8:dqk=16:pack=qkv3h", AT_STEP_FORWARD);
    check_stride(&s.k, 1536, 16, 192);
    s = spec_of("b=2:hq=4:sq=8:dqk=16:pack=qkvh3", AT_STEP_FORWARD);
    check_stride(&s.v, 1536, 48, 192);
    s = spec_of("b=2:hq=4:sq=8:dqk=16:pack=kvh2", AT_STEP_FORWARD);
    check_stride(&s.q, 512, 16, 64);
    check_stride(&s.k, 1024, 32, 128);
    s = spec_of("b=2:sq=8:skv=20:dqk=16:lens=full:page=8:pass=fwd", AT_STEP_FORWARD);
    CHECK_INT(s.k.dim[0], 8); /* 6 in use and a quarter more */
    CHECK_INT(s.k.dim[2], 8);
    CHECK_INT(s.len_kv, 20);
}

static void test_refusals(void)
{
    static const char *const rows[][2] = {
        {"amask=bool.11", "cudnn_bool_mask"}, {"softcap=30", "cudnn_softcap"},
        {"sink=off1", "cudnn_off1_sink"},     {"sq=0", "cudnn_empty"},
        {"exec=replay", "cudnn_exec"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        at_case c;
        at_error err = {""};
        at_reason why = {"", ""};
        at_cudnn_spec spec;
        CHECK_OK(at_case_parse(&c, rows[i][0], &err), &err);
        CHECK_INT(at_cudnn_spec_init(&spec, &c, AT_STEP_FORWARD, 90, &why), AT_UNSUPPORTED);
        CHECK_TEXT(why.code, rows[i][1]);
        CHECK(why.text[0] != '\0');
    }
}

/* The case that a package asks about, and the case that it has. */
static void test_as_asked(void)
{
    static const char *const rows[][3] = {
        {"te-2.19", "mask=causal:align=br", "mask=causal"},
        {"nvte-2.19", "mask=causal:align=br:lens=full", "mask=causal:align=br:lens=full"},
        {"te@2.20", "skv=128:mask=causal:align=br", "skv=128:mask=causal:align=br"},
        {"torch-2.11", "mask=causal:align=br", "mask=causal"},
        {"torch-2.11", "bias=alibi", "bias=rel.bh"},
        {"te-2.19", "bias=alibi", "bias=alibi"},
        {"cudnn-frontend-1.32", "mask=causal:align=br", "mask=causal:align=br"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        at_case c;
        at_error err = {""};
        char text[AT_CASE_TEXT_MAX];
        CHECK_OK(at_case_parse(&c, rows[i][1], &err), &err);
        at_cudnn_spec_as_asked(&c, rows[i][0]);
        (void)at_case_print(&c, text);
        CHECK_TEXT(text, rows[i][2]);
    }
}

static const at_cudnn_api *need_api(void)
{
    const at_cudnn_api *api = NULL;
    at_error err = {""};
    if (at_cudnn_load(&api, true, &err) != AT_OK) {
        at_test_skip(err.text);
    }
    return api;
}

static at_cudnn_answer answer_of(const char *text, at_step step, int sm, at_cudnn_stage last)
{
    const at_cudnn_api *api = need_api();
    at_cudnn_answer answer;
    at_error err = {""};
    char *device = NULL;
    at_cudnn_spec spec = spec_of(text, step);
    spec.sm = sm;
    CHECK_OK(at_cudnn_device(&device, AT_TEST_CORPUS, NULL, sm, &err), &err);
    spec.device_json = device;
    api->ask(&answer, &spec, last, NULL, NULL);
    free(device);
    return answer;
}

/* Rules that have stood in the frontend from 1.11 on: each refused by validate with this text. */
static void test_validate(void)
{
    static const struct {
        const char *text;
        at_step step;
        const char *message;
    } rows[] = {
        {"sq=1024:skv=2048:mask=causal:align=br:dropout=0.1", AT_STEP_FORWARD, "ottom right"},
        {"sq=1024:skv=2048:mask=causal:align=br:bias=rel.11", AT_STEP_FORWARD, "ottom right"},
        {"dqk=100", AT_STEP_FORWARD, "multiple of 8"},
        {"hq=6:hkv=4:invalid=1", AT_STEP_FORWARD, "must be a factor"},
        {"dqk=512:dv=512", AT_STEP_BACKWARD, "256"},
    };
    at_cudnn_answer a = answer_of("mask=causal", AT_STEP_FORWARD, 90, AT_CUDNN_S1_VALIDATE);
    CHECK(a.passed && a.stage == AT_CUDNN_S1_VALIDATE);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        a = answer_of(rows[i].text, rows[i].step, 90, AT_CUDNN_S1_VALIDATE);
        CHECK(!a.passed);
        CHECK_INT(a.stage, AT_CUDNN_S1_VALIDATE);
        CHECK_TEXT(a.code, "GRAPH_NOT_SUPPORTED");
        CHECK_HAS(a.message, rows[i].message);
    }
}

static void test_plans(void)
{
    static const int sms[] = {80, 90, 100};
    for (size_t i = 0; i < sizeof sms / sizeof *sms; i++) {
        at_cudnn_answer a = answer_of("mask=causal:hq=4:hkv=2:dqk=128", AT_STEP_FORWARD, sms[i],
                                      AT_CUDNN_S4_SUPPORT);
        CHECK(a.passed && a.stage == AT_CUDNN_S4_SUPPORT && a.plan_count > 0);
        CHECK(strncmp(a.plan[0].name, "eng", 3) == 0);
    }
    at_cudnn_answer a =
        answer_of("mask=causal:hq=4:hkv=2:dqk=128", AT_STEP_BACKWARD, 80, AT_CUDNN_S5_PLANS);
    CHECK(a.passed && a.built_count == a.plan_count && a.plan[0].workspace > 0);
}

static void test_devices(void)
{
    static const int sms[] = {80, 86, 89, 90, 100, 103, 110, 120, 121};
    at_error err = {""};
    char *json = NULL;
    for (size_t i = 0; i < sizeof sms / sizeof *sms; i++) {
        CHECK_OK(at_cudnn_device(&json, AT_TEST_CORPUS, NULL, sms[i], &err), &err);
        CHECK_HAS(json, "maxSharedMemoryPerBlockOptin");
        free(json);
    }
    CHECK_OK(at_cudnn_device(&json, AT_TEST_CORPUS, "h100", 90, &err), &err);
    CHECK_HAS(json, "H100");
    free(json);
    CHECK_INT(at_cudnn_device(&json, AT_TEST_CORPUS, "h100", 80, &err), AT_INVALID);
    CHECK_HAS(err.text, "no device profile called h100");
    CHECK_INT(at_cudnn_device(&json, "/nonexistent", NULL, 90, &err), AT_IO);
}

/* An empty file where `make cudnn-library` would put that version. */
static void place_library(const char *folder, const char *version)
{
    static const char *const parts[] = {"", "/nvidia", "/cudnn", "/lib"};
    char path[AT_CUDNN_PATH];
    int n = snprintf(path, sizeof path, "%s/%s", folder, version);
    for (size_t i = 0; i < 4; i++) {
        n += snprintf(path + n, sizeof path - (size_t)n, "%s", parts[i]);
        CHECK_INT(mkdir(path, 0777), 0);
    }
    (void)snprintf(path + n, sizeof path - (size_t)n, "/libcudnn.so.9");
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fclose(file) == 0);
}

static void test_find(void)
{
    static const char *const rows[][2] = {
        {"cudnn@9.14", "/9.14.0.64/"},   {"cudnn@9.2", "/9.2.0.82/"},
        {"cudnn@newest", "/9.28.1.4/"},  {"cudnn", "/9.28.1.4/"},
        {"cudnn@9.14.0", "/9.14.0.64/"},
    };
    const char *folder = at_test_folder();
    char path[AT_CUDNN_PATH], file[AT_CUDNN_PATH];
    at_error err = {""};
    CHECK_INT(at_cudnn_find(path, "cudnn@newest", folder, &err), AT_IO);
    CHECK_HAS(err.text, "make cudnn-library VERSION=newest");
    place_library(folder, "9.14.0.64");
    place_library(folder, "9.2.0.82");
    place_library(folder, "9.28.1.4");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_OK(at_cudnn_find(path, rows[i][0], folder, &err), &err);
        CHECK_HAS(path, rows[i][1]);
    }
    CHECK_INT(at_cudnn_find(path, "cudnn@9.1", folder, &err), AT_IO);
    CHECK_HAS(err.text, "no libcudnn of version 9.1");
    CHECK_OK(at_cudnn_find(path, "cudnn@9.14", folder, &err), &err);
    (void)snprintf(file, sizeof file, "%s", path);
    CHECK_OK(at_cudnn_find(path, "cudnn@9.28", file, &err), &err); /* a file is taken as it is */
    CHECK_TEXT(path, file);
    CHECK_INT(at_cudnn_find(path, "cudnn", "/nonexistent", &err), AT_IO);
    CHECK_OK(at_cudnn_find(path, "cudnn", NULL, &err), &err);
    CHECK_TEXT(path, "");
    CHECK_OK(at_cudnn_check_version("cudnn@newest", "9.28.1", &err), &err);
    CHECK_OK(at_cudnn_check_version("cudnn@9.28.1.4", "9.28.1", &err), &err);
    CHECK_INT(at_cudnn_check_version("cudnn@9.2", "9.28.1", &err), AT_INVALID);
}

static const at_json *property(const at_json *root, const char *key)
{
    return at_json_get(at_json_get(root, "properties"), key);
}

/* What the device reports replaces the older value; what it does not report stays as it was. */
static void test_record(void)
{
    static const char reported[] =
        "{\"deviceVer\":900,\"deviceName\":\"NVIDIA X\",\"l2CacheSize\":7}";
    static const char older[] =
        "{\"schema\":\"attest-device-1\",\"name\":\"x\",\"arch\":\"sm90\",\"doc\":\"d\","
        "\"properties\":{\"l2CacheSize\":{\"value\":5,\"source\":\"assumed\"},"
        "\"warpSize\":{\"value\":32,\"source\":\"guide\"}}}";
    char folder[AT_CUDNN_PATH], path[AT_CUDNN_PATH + 64];
    char *json = NULL;
    at_error err = {""};
    int64_t l2 = 0;
    at_json *root = NULL;
    (void)snprintf(folder, sizeof folder, "%s/devices", at_test_folder());
    (void)snprintf(path, sizeof path, "%s/x.json", folder);
    CHECK_INT(mkdir(folder, 0777), 0);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(older, file) >= 0 && fclose(file) == 0);
    CHECK_OK(at_cudnn_record_text(path, reported, "cuDNN 1.2.3", &err), &err);
    CHECK_OK(at_json_load(&root, path, &err), &err);
    CHECK(at_json_integer(at_json_get(property(root, "l2CacheSize"), "value"), &l2) && l2 == 7);
    CHECK_TEXT(at_json_text(at_json_get(property(root, "l2CacheSize"), "source")),
               "recorded from the device by cuDNN 1.2.3");
    CHECK_TEXT(at_json_text(at_json_get(property(root, "warpSize"), "source")), "guide");
    at_json_close(root);
    CHECK_OK(at_cudnn_device(&json, at_test_folder(), "x", 90, &err), &err); /* and it is read */
    CHECK_HAS(json, "NVIDIA X");
    free(json);
    CHECK_INT(at_cudnn_record_text(path, "{\"deviceVer\":800}", "cuDNN 1.2.3", &err), AT_INVALID);
    CHECK_HAS(err.text, "profile of sm90");
    CHECK_INT(at_cudnn_record_text(path, "{}", "cuDNN 1.2.3", &err), AT_INVALID);
    CHECK_HAS(err.text, "deviceVer");
    CHECK_INT(at_cudnn_record_text(path, "{", "cuDNN 1.2.3", &err), AT_INVALID);
}

/* With a driver its devices have names; with the stand-in there is none. */
static void test_driver(void)
{
    int version = 0, count = -1;
    at_error err = {""};
    at_driver_device d;
    const at_status status = at_driver_open(&version, &count, &err);
    if (status == AT_OK) {
        CHECK(version >= 9000 && count > 0);
        CHECK_OK(at_driver_describe(&d, 0, &err), &err);
        CHECK(d.sm >= 50 && d.name[0] != '\0');
        CHECK_OK(at_driver_use(0, &err), &err);
    } else {
        CHECK_INT(count, 0);
        CHECK_HAS(err.text, "CUDA driver");
    }
    if (status == AT_IO && version == 0) { /* no driver at all: so the stand-in can be loaded */
        (void)need_api();
        CHECK_INT(at_driver_open(&version, &count, &err), AT_UNSUPPORTED);
        CHECK_HAS(err.text, "no device");
        CHECK_INT(version, 13000);
        CHECK_INT(at_driver_describe(&d, 0, &err), AT_IO);
        CHECK_INT(at_driver_use(0, &err), AT_IO);
    }
}

static at_cudnn_audit *audit_every(void)
{
    const at_cudnn_audit_request request = {.corpus = AT_TEST_CORPUS,
                                            .space = "dqk=64,100,128:pass=fwd",
                                            .arch = "sm90",
                                            .stage = AT_CUDNN_S1_VALIDATE,
                                            .jobs = 1,
                                            .every = true};
    at_cudnn_audit *audit = NULL;
    at_error err = {""};
    if (at_cudnn_audit_open(&audit, &request, &err) == AT_IO) {
        at_test_skip(err.text);
    }
    CHECK(audit != NULL);
    return audit;
}

/* Equal audits have no difference; one that admits what the other refused has that one. */
static void test_diff(void)
{
    at_cudnn_audit *before = audit_every(), *after = audit_every();
    at_cudnn_diff *diff = NULL;
    at_error err = {""};
    CHECK_OK(at_cudnn_diff_open(&diff, before, after, &err), &err);
    CHECK_INT(at_cudnn_diff_boxes(diff), 0);
    at_cudnn_diff_close(diff);
    CHECK(after->mark[1] != AT_MARK_NONE && after->mark[0] == AT_MARK_NONE);
    after->mark[1] = AT_MARK_NONE;
    CHECK_OK(at_cudnn_diff_open(&diff, before, after, &err), &err);
    CHECK_INT(at_cudnn_diff_boxes(diff), 1);
    at_json *box = at_cudnn_diff_box_json(diff, 0);
    CHECK_TEXT(at_json_text(at_json_get(box, "was")), "refused");
    CHECK_TEXT(at_json_text(at_json_get(box, "is")), "admitted");
    CHECK_TEXT(at_json_text(at_json_get(box, "at")), "S1");
    CHECK_HAS(at_json_text(at_json_get(box, "message")), "multiple of 8");
    CHECK_HAS(at_json_text(at_json_get(box, "example")), "dqk=100");
    at_json_close(box);
    at_cudnn_diff_close(diff);
    after->arch++;
    CHECK_INT(at_cudnn_diff_open(&diff, before, after, &err), AT_INVALID);
    CHECK(diff == NULL);
    at_cudnn_audit_close(before);
    at_cudnn_audit_close(after);
}

const at_test at_tests[] = {
    {"unit", "bounds", test_bounds},     {"unit", "strides", test_strides},
    {"unit", "refusals", test_refusals}, {"unit", "as_asked", test_as_asked},
    {"unit", "devices", test_devices},   {"unit", "find", test_find},
    {"unit", "record", test_record},     {"unit", "driver", test_driver},
    {"unit", "diff", test_diff},         {"unit", "validate", test_validate},
    {"unit", "plans", test_plans},       {NULL, NULL, NULL},
};
