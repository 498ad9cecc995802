/* npy.c: header and data byte by byte, packed sequences, paths that cannot be written. */
#include "harness/tests/test.h"

#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/problem/problem.h"

typedef struct npy {
    unsigned char *bytes;
    size_t size, data; /* data: where it begins */
} npy;

static const char *path_of(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", at_test_folder(), name);
    return path;
}

/* Reads the file and checks what the format says of every header. */
static npy read_npy(const char *path, const char *dict)
{
    npy n = {NULL, 0, 0};
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    if (file == NULL) {
        return n;
    }
    n.bytes = malloc(1 << 20);
    AT_ASSERT(n.bytes != NULL);
    n.size = fread(n.bytes, 1, 1 << 20, file);
    (void)fclose(file);
    CHECK(n.size > 10 && memcmp(n.bytes, "\x93NUMPY\x01\x00", 8) == 0);
    n.data = 10 + n.bytes[8] + ((size_t)n.bytes[9] << 8);
    CHECK(n.data % 64 == 0 && n.data <= n.size && n.bytes[n.data - 1] == '\n');
    CHECK(memcmp(n.bytes + 10, dict, strlen(dict)) == 0);
    for (size_t i = 10 + strlen(dict); i + 1 < n.data; i++) {
        CHECK_INT(n.bytes[i], ' ');
    }
    return n;
}

static at_problem open_problem(const char *text, at_arena **arena)
{
    at_case c;
    at_problem p;
    at_error err = {""};
    CHECK_OK(at_arena_open(arena, &err), &err);
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    CHECK_OK(at_problem_open(&p, &c, *arena, &err), &err);
    return p;
}

static void test_tensor(void)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16", "f8e4m3", "f8e5m2"};
    for (int i = 0; i < 5; i++) {
        char text[128];
        at_arena *arena = NULL;
        at_error err = {""};
        (void)snprintf(text, sizeof text, "b=2:hq=3:sq=5:dqk=7:layout=sbhd:dtype=%s", dtypes[i]);
        at_problem p = open_problem(text, &arena);
        const char *path = path_of("t.npy");
        CHECK_OK(at_npy_write_tensor(path, &p.t[AT_K], NULL, &err), &err);
        npy n = read_npy(path, i == AT_F16 ? "{'descr': '<f2', 'fortran_order': False, 'shape': "
                                             "(2, 3, 5, 7), }"
                                           : "{'descr': '<f4', 'fortran_order': False, 'shape': "
                                             "(2, 3, 5, 7), }");
        at_dtype stored = i == AT_F16 ? AT_F16 : AT_F32;
        size_t size = at_dtype_size(stored), wrong = 0;
        CHECK(n.size - n.data == 210 * size);
        for (size_t e = 0; e < 210 && n.size - n.data == 210 * size; e++) {
            int64_t k = (int64_t)e;
            double got = 0;
            at_dtype_load_double(stored, &got, n.bytes + n.data + e * size, 1);
            wrong += got != at_tensor_get(&p.t[AT_K], k / 105, k / 35 % 3, k / 7 % 5, k % 7);
        }
        CHECK_INT(wrong, 0);
        free(n.bytes);
        at_arena_close(arena);
    }
}

/* Rows that a packed sequence does not have are NaN. */
static void test_packed(void)
{
    static const char *const dtypes[] = {"bf16", "f16"};
    for (int i = 0; i < 2; i++) {
        char text[128];
        at_arena *arena = NULL;
        at_error err = {""};
        (void)snprintf(text, sizeof text,
                       "b=2:hq=2:sq=4:dqk=3:layout=thd:lenq=1+4:lenkv=4+2:gap=1:dtype=%s",
                       dtypes[i]);
        at_problem p = open_problem(text, &arena);
        const char *path = path_of("packed.npy");
        CHECK_OK(at_npy_write_tensor(path, &p.t[AT_Q], p.len_q, &err), &err);
        (void)snprintf(text, sizeof text,
                       "{'descr': '<f%d', 'fortran_order': False, 'shape': (2, 2, 4, 3), }",
                       i == 1 ? 2 : 4);
        npy n = read_npy(path, text);
        at_dtype stored = i == 1 ? AT_F16 : AT_F32;
        size_t size = at_dtype_size(stored), wrong = 0;
        CHECK(n.size - n.data == 48 * size);
        for (size_t e = 0; e < 48 && n.size - n.data == 48 * size; e++) {
            int64_t d = (int64_t)e % 3, s = (int64_t)e / 3 % 4, h = (int64_t)e / 12 % 2;
            int64_t b = (int64_t)e / 24;
            double got = 0;
            at_dtype_load_double(stored, &got, n.bytes + n.data + e * size, 1);
            wrong += s < p.len_q[b] ? got != at_tensor_get(&p.t[AT_Q], b, h, s, d) : !isnan(got);
        }
        CHECK_INT(wrong, 0);
        free(n.bytes);
        at_arena_close(arena);
    }
}

static void test_double(void)
{
    static const double values[] = {1, -0.5, 1e300, 0x1p-1074, 7, 8};
    static const int64_t shapes[][4] = {{6, 0, 0, 0}, {2, 3, 0, 0}, {1, 2, 3, 1}};
    static const int ranks[] = {1, 2, 4};
    static const char *const texts[] = {"(6,)", "(2, 3)", "(1, 2, 3, 1)"};
    for (int i = 0; i < 3; i++) {
        char dict[128];
        at_error err = {""};
        const char *path = path_of("d.npy");
        CHECK_OK(at_npy_write_double(path, values, shapes[i], ranks[i], &err), &err);
        (void)snprintf(dict, sizeof dict, "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }",
                       texts[i]);
        npy n = read_npy(path, dict);
        CHECK(n.size - n.data == sizeof values && memcmp(n.bytes + n.data, values, 48) == 0);
        free(n.bytes);
    }
    at_error err = {""};
    const int64_t none[] = {0, 5};
    const char *path = path_of("none.npy");
    CHECK_OK(at_npy_write_double(path, values, none, 2, &err), &err);
    npy n = read_npy(path, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 5), }");
    CHECK(n.size == n.data);
    free(n.bytes);
}

static void test_unwritable(void)
{
    at_error err = {""};
    const double value = 1;
    const int64_t one = 1;
    CHECK_INT(at_npy_write_double("/nonexistent/x.npy", &value, &one, 1, &err), AT_IO);
    CHECK_HAS(err.text, "/nonexistent/x.npy: cannot be written");
    CHECK_INT(at_npy_write_double("/", &value, &one, 1, &err), AT_IO);
    CHECK_HAS(err.text, "/: cannot be written");
}

/* True when writing n values under a limit of the file's size gives the error, in a child. */
static bool fails_on_full_disk(int64_t n, rlim_t size)
{
    static const double values[4096];
    const char *path = path_of("full.npy");
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {size, size};
        at_error err = {""};
        (void)signal(SIGXFSZ, SIG_IGN);
        bool right = setrlimit(RLIMIT_FSIZE, &limit) == 0;
        right &= at_npy_write_double(path, values, &n, 1, &err) == AT_IO;
        right &= strstr(err.text, "full.npy: cannot be written (File too large)") != NULL;
        _exit(right ? 0 : 1);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_full_disk(void)
{
    CHECK(fails_on_full_disk(4096, 4096)); /* noticed while writing */
    CHECK(fails_on_full_disk(4, 0));       /* noticed when the file is closed */
}

/* NumPy itself, where it is installed. */
static void test_numpy(void)
{
    char command[1024];
    at_arena *arena = NULL;
    at_error err = {""};
    if (system("python3 -c 'import numpy' >/dev/null 2>&1") != 0) {
        at_test_skip("python3 has no numpy");
    }
    at_problem p = open_problem("b=2:hq=3:sq=5:dqk=7:dtype=f16", &arena);
    const char *path = path_of("numpy.npy");
    CHECK_OK(at_npy_write_tensor(path, &p.t[AT_V], NULL, &err), &err);
    (void)snprintf(command, sizeof command,
                   "python3 -c \"import numpy as n; a = n.load('%s'); "
                   "assert a.shape == (2, 3, 5, 7) and a.dtype == n.float16; "
                   "assert float(a[1, 2, 4, 6]) == %.17g\"",
                   path, at_tensor_get(&p.t[AT_V], 1, 2, 4, 6));
    CHECK_INT(system(command), 0);
    at_arena_close(arena);
}

const at_test at_tests[] = {
    {"unit", "tensor", test_tensor},
    {"unit", "packed", test_packed},
    {"unit", "double", test_double},
    {"unit", "unwritable", test_unwritable},
    {"unit", "full_disk", test_full_disk},
    {"unit", "numpy", test_numpy},
    {NULL, NULL, NULL},
};
