/* Device memory, on a driver whose device is host memory, and on the machine's own where there is
 * one. */
#include "harness/tests/test.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/device.h"
#include "harness/problem/dtype.h"

static const char stand_in[] = AT_TEST_PLUGINS "/host_driver.so";

static void *driver_function(const char *name)
{
    static void *library;
    library = library != NULL ? library : dlopen(stand_in, RTLD_NOW);
    void *found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL) {
        at_test_fail(__FILE__, __LINE__, "%s: no %s", stand_in, name);
        abort();
    }
    return found;
}

static void set_driver(int maps, size_t memory)
{
    void (*set)(int, size_t) = NULL;
    void *found = driver_function("host_driver_set");
    memcpy(&set, &found, sizeof set);
    set(maps, memory);
}

static int driver_live(void)
{
    int (*live)(void) = NULL;
    void *found = driver_function("host_driver_live");
    memcpy(&live, &found, sizeof live);
    return live();
}

static at_device *open_device(const char *library)
{
    at_device *d = NULL;
    at_error err = {""};
    at_status status = at_device_open(&d, library, 0, &err);
    if (library == NULL && status == AT_UNSUPPORTED) {
        at_test_skip(err.text);
    }
    CHECK_OK(status, &err);
    return d;
}

static void expect_change(at_device *d, uint64_t data, int64_t place)
{
    const unsigned char byte = 0x55;
    unsigned char before = 0;
    at_error err = {""};
    int changed = -1;
    int64_t offset = 0;
    const uint64_t address = data + (uint64_t)place;
    CHECK_OK(at_device_get(d, &before, address, 1, &err), &err);
    CHECK_OK(at_device_put(d, address, &byte, 1, &err), &err);
    CHECK_OK(at_device_check(d, data, &changed, &offset, &err), &err);
    CHECK_INT(changed, 1);
    CHECK_INT(offset, place);
    CHECK_OK(at_device_put(d, address, &before, 1, &err), &err);
}

/* Buffers of all sizes keep what is put into them, and any byte of their bands is watched. */
static void check_buffers(at_device *d)
{
    static const size_t sizes[] = {0, 2, 126, 128, 1000, 70000, 4 << 20};
    at_error err = {""};
    uint64_t data[7];
    for (size_t i = 0; i < 7; i++) {
        CHECK_OK(at_device_take(&data[i], d, sizes[i], at_dtype_guard(AT_BF16), 2, &err), &err);
        CHECK_INT(data[i] % 128, 0);
        for (size_t k = 0; k < i; k++) {
            CHECK(data[i] + sizes[i] <= data[k] || data[k] + sizes[k] <= data[i]);
        }
    }
    for (size_t i = 0; i < 7; i++) {
        unsigned char *in = malloc(sizes[i] + 1), *out = malloc(sizes[i] + 1);
        memset(in, (int)(i + 1), sizes[i] + 1);
        CHECK_OK(at_device_put(d, data[i], in, sizes[i], &err), &err);
        CHECK_OK(at_device_get(d, out, data[i], sizes[i], &err), &err);
        CHECK(memcmp(in, out, sizes[i]) == 0);
        free(in);
        free(out);
        int changed = -1;
        int64_t offset = -1;
        CHECK_OK(at_device_check(d, data[i], &changed, &offset, &err), &err);
        CHECK_INT(changed, 0);
        CHECK_INT(offset, 0);
        expect_change(d, data[i], -1);
        expect_change(d, data[i], -4096);
        expect_change(d, data[i], (int64_t)sizes[i]);
        expect_change(d, data[i], (int64_t)sizes[i] + 4095);
    }
}

static void test_pages(void)
{
    set_driver(1, SIZE_MAX);
    at_device *d = open_device(stand_in);
    CHECK_INT(at_device_has_guard_pages(d), 1);
    check_buffers(d);
    at_device_close(d);
    CHECK_INT(driver_live(), 0);
}

static void test_plain(void)
{
    set_driver(0, SIZE_MAX);
    at_device *d = open_device(stand_in);
    CHECK_INT(at_device_has_guard_pages(d), 0);
    check_buffers(d);
    at_device_close(d);
    CHECK_INT(driver_live(), 0);
}

/* Behind the band, and before the first band's page, nothing is mapped. */
static void test_unmapped(void)
{
    set_driver(1, SIZE_MAX);
    at_device *d = open_device(stand_in);
    at_error err = {""};
    uint64_t data = 0;
    int end[2];
    const char *memory;
    CHECK_OK(at_device_take(&data, d, 256, at_dtype_guard(AT_F32), 4, &err), &err);
    CHECK(pipe(end) == 0);
    memory = (const char *)(uintptr_t)data;
    CHECK_INT(write(end[1], memory + 256 + 4095, 1), 1);
    CHECK_INT(write(end[1], memory + 256 + 4096, 1), -1);
    CHECK_INT(write(end[1], memory - 65536, 1), -1);
    (void)close(end[0]);
    (void)close(end[1]);
    at_device_close(d);
}

/* Released buffers are used again, with fresh bands; when memory is short they are given back. */
static void test_reuse(void)
{
    set_driver(1, 4 * 65536);
    at_device *d = open_device(stand_in);
    at_error err = {""};
    uint64_t first = 0, again = 0;
    const unsigned char byte = 1;
    CHECK_OK(at_device_take(&first, d, 1000, at_dtype_guard(AT_F32), 4, &err), &err);
    CHECK_OK(at_device_put(d, first + 1000, &byte, 1, &err), &err);
    at_device_release(d);
    CHECK_OK(at_device_take(&again, d, 900, at_dtype_guard(AT_F16), 2, &err), &err);
    int changed = -1;
    int64_t offset = 0;
    CHECK_OK(at_device_check(d, again, &changed, &offset, &err), &err);
    CHECK_INT(changed, 0);
    CHECK_INT(again - first, 0);
    CHECK(at_device_take(&first, d, 4 * 65536, 0, 1, &err) == AT_NO_MEMORY);
    CHECK_HAS(err.text, "no device memory for 262144 bytes: CUDA error 2: out of memory");
    at_device_release(d);
    CHECK_OK(at_device_take(&first, d, 3 * 65536, 0, 1, &err), &err);
    CHECK(at_device_take(&first, d, SIZE_MAX - 5000, 0, 1, &err) == AT_NO_MEMORY);
    at_device_close(d);
    CHECK_INT(driver_live(), 0);
}

static void test_no_driver(void)
{
    at_device *d = NULL;
    at_error err = {""};
    CHECK(at_device_open(&d, "/nowhere/libcuda.so.1", 0, &err) == AT_UNSUPPORTED);
    CHECK_HAS(err.text, "no CUDA driver: /nowhere/libcuda.so.1");
    CHECK(at_device_open(&d, AT_TEST_PLUGINS "/plugin_no_entry.so", 0, &err) == AT_UNSUPPORTED);
    CHECK_HAS(err.text, "plugin_no_entry.so has no cuInit");
    CHECK(at_device_open(&d, stand_in, 7, &err) == AT_UNSUPPORTED);
    CHECK_HAS(err.text, "device 7: CUDA error 100: no such device");
    CHECK(d == NULL);
}

static void test_gpu(void)
{
    at_device *d = open_device(NULL);
    check_buffers(d);
    at_device_close(d);
}

const at_test at_tests[] = {
    {"unit", "pages", test_pages},
    {"unit", "plain", test_plain},
    {"unit", "unmapped", test_unmapped},
    {"unit", "reuse", test_reuse},
    {"unit", "no_driver", test_no_driver},
    {"gpu", "gpu", test_gpu},
    {NULL, NULL, NULL},
};
