/* The Python host: an adapter outside the tree is judged like any backend, and what goes wrong in
 * it costs one verdict. Skipped where Python has no NumPy. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/tests/tool.h"

static const char numpy_adapter[] = AT_TEST_SOURCE "/harness/tests/adapter_numpy.py";
static const char device_adapter[] = AT_TEST_SOURCE "/harness/tests/adapter_device.py";

/* The first Python that has NumPy, or NULL. */
static const char *find_python(void)
{
    static char found[1024];
    const char *given = getenv("ATTEST_PYTHON");
    const char *const choices[] = {given != NULL ? given : "python3",
                                   AT_TEST_SOURCE "/.cache/python/bin/python", "python3",
                                   "/usr/bin/python3"};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        char line[1200];
        (void)snprintf(found, sizeof found, "%s", choices[i]);
        (void)snprintf(line, sizeof line, "%s -c 'import numpy' >/dev/null 2>&1", found);
        if (system(line) == 0) {
            return found;
        }
    }
    return NULL;
}

static const char *python(void)
{
    static const char *found;
    found = found != NULL ? found : find_python();
    if (found == NULL) {
        at_test_skip("no Python here has numpy: `python3 -m pip install numpy` installs it");
    }
    return found;
}

/* The build folder, where libattest is. */
static const char *build_folder(void)
{
    static char folder[1024];
    (void)snprintf(folder, sizeof folder, "%s", AT_TEST_TOOL);
    *strrchr(folder, '/') = '\0';
    return folder;
}

/* Runs cases on one backend of the adapter; *code becomes the exit code. Lines of the results. */
static char *sweep_on(const char *adapter, const char *cases, const char *backend,
                      const char *flags, int *code)
{
    const at_tool *t = at_tool_run(
        "sweep %s --backend %s --jobs 1 %s -o out-%s --worker 'ATTEST_DRIVER=%s/host_driver.so "
        "LIBATTEST=%s/libattest.so.1 exec %s %s/kernels/python/cpu/worker.py %s'",
        cases, backend, flags, backend, build_folder(), build_folder(), python(), AT_TEST_SOURCE,
        adapter);
    char path[128];
    (void)snprintf(path, sizeof path, "out-%s/results.jsonl", backend);
    *code = t->code;
    return at_tool_read(path);
}

static char *sweep(const char *cases, const char *backend, const char *flags, int *code)
{
    return sweep_on(numpy_adapter, cases, backend, flags, code);
}

static void test_healthy(void)
{
    int code = -1;
    char *lines = sweep("b=2:hq=4:hkv=2:sq=1,5,17:skv=9:dqk=8:dv=8,16:dtype=f32:layout=bshd:"
                        "stride=packed:pass=fwd,train hq=2:sq=5:dqk=8:dtype=f16",
                        "host.numpy", "", &code);
    CHECK_INT(code, 0);
    CHECK_INT(at_tool_count(lines, "\"engine\":\"numpy\",\"status\":\"PASS\""), 12);
    CHECK_INT(at_tool_count(lines, "\"status\":\"UNSUPPORTED\""), 1);
    CHECK_HAS(lines, "dtype=f16: the library cannot be asked for it");
    free(lines);
}

static void test_chatter(void)
{
    int code = -1;
    char *lines = sweep("hq=2:sq=5:dqk=8:dtype=f32", "host.chatter", "", &code);
    CHECK_INT(code, 0);
    CHECK_HAS(lines, "\"status\":\"PASS\"");
    free(lines);
}

/* One case on a backend at fault: findings, and this status. */
static void expect(const char *backend, const char *flags, const char *status)
{
    int code = -1;
    char *lines = sweep("hq=2:sq=5:dqk=8:dtype=f32", backend, flags, &code);
    CHECK_INT(code, 1);
    CHECK_HAS(lines, status);
    free(lines);
}

static void test_wrong(void)
{
    expect("host.wrong", "", "\"status\":\"WRONG\"");
}

static void test_overrun(void)
{
    expect("host.overrun", "", "\"status\":\"OVERRUN\"");
}

static void test_clobber(void)
{
    expect("host.clobber", "", "\"status\":\"CLOBBERED\"");
}

static void test_refuse(void)
{
    expect("host.refuse", "", "no plan for plan.cc:12 today");
}

static void test_crash(void)
{
    expect("host.crash", "", "\"status\":\"CRASH\",\"reason\":\"sigsegv\"");
}

static void test_leave(void)
{
    expect("host.leave", "", "\"status\":\"CRASH\",\"reason\":\"exit_5\"");
}

static void test_hang(void)
{
    expect("host.hang", "--case-timeout 2s", "\"status\":\"TIMEOUT\"");
}

static void test_missing(void)
{
    const at_tool *t =
        at_tool_run("sweep sq=5 -o none --worker 'LIBATTEST=%s/libattest.so.1 exec %s "
                    "%s/kernels/python/cpu/worker.py nowhere.py'",
                    build_folder(), python(), AT_TEST_SOURCE);
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "nowhere.py: no such adapter");
}

/* Tensors in device memory of our own, strided ones and those with gaps too. */
static void test_device(void)
{
    int code = -1;
    char *lines = sweep_on(device_adapter,
                           "b=2:hq=4:hkv=2:sq=1,17:skv=9:dqk=8:dv=8,16:dtype=f32:layout=bshd "
                           "b=2:hq=2:sq=5:skv=7:dqk=8:dtype=f32",
                           "device", "", &code);
    CHECK_INT(code, 0);
    CHECK_INT(at_tool_count(lines, "\"engine\":\"numpy\",\"status\":\"PASS\""), 5);
    free(lines);
}

/* What a kernel writes outside its buffers on the device, or into an input, is found. */
static void test_device_faults(void)
{
    static const char *const faults[][3] = {
        {"device.past", "\"status\":\"OVERRUN\"", "v: memory was written 0 bytes past the end"},
        {"device.before", "\"status\":\"OVERRUN\"", "q: memory was written 3 bytes before"},
        {"device.input", "\"status\":\"CLOBBERED\"", "k: "},
    };
    for (int i = 0; i < 3; i++) {
        int code = -1;
        char *lines =
            sweep_on(device_adapter, "hq=2:sq=5:dqk=8:dtype=f32", faults[i][0], "", &code);
        CHECK_INT(code, 1);
        CHECK_HAS(lines, faults[i][1]);
        CHECK_HAS(lines, faults[i][2]);
        free(lines);
    }
}

/* Each package is told with its version, or with the command that installs it. */
static void test_doctor(void)
{
    const at_tool *t = at_tool_run("doctor --format jsonl");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "{\"check\":\"ort_attention\",\"status\":\"");
    const char *row = strstr(t->out, "{\"check\":\"jax_xla\",\"status\":\"absent\"");
    if (row != NULL) {
        CHECK_HAS(row, "\"value\":\"jax is missing\",\"remedy\":\"python3 -m pip install jax\"}");
    } else {
        CHECK_HAS(t->out, "{\"check\":\"jax_xla\",\"status\":\"here\",\"value\":\"jax ");
    }
    CHECK(setenv("ATTEST_PYTHON", "/nowhere/python", 1) == 0);
    t = at_tool_run("doctor");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "absent   packages     /nowhere/python: No such file or directory");
}

const at_test at_tests[] = {
    {"cli", "healthy", test_healthy},
    {"cli", "chatter", test_chatter},
    {"cli", "wrong", test_wrong},
    {"cli", "overrun", test_overrun},
    {"cli", "clobber", test_clobber},
    {"cli", "refuse", test_refuse},
    {"cli", "crash", test_crash},
    {"cli", "leave", test_leave},
    {"cli", "hang", test_hang},
    {"cli", "missing", test_missing},
    {"cli", "doctor", test_doctor},
    {"cli", "device", test_device},
    {"cli", "device_faults", test_device_faults},
    {NULL, NULL, NULL},
};
