/* arena.c: guard bands, inaccessible pages, refused sizes. */
#include "harness/tests/test.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/problem/arena.h"

enum { BAND = 4096 };

static at_arena *open_arena(void)
{
    at_arena *arena = NULL;
    at_error err = {""};
    CHECK_OK(at_arena_open(&arena, &err), &err);
    return arena;
}

static unsigned char *take(at_arena *arena, size_t size, unsigned word, size_t element)
{
    void *data = NULL;
    at_error err = {""};
    CHECK_OK(at_arena_take(&data, arena, size, word, element, &err), &err);
    return data;
}

static void test_bands(void)
{
    static const size_t sizes[] = {0, 4, 124, 128, 132, 4092, 4096, 4100, 100000};
    static const size_t elements[] = {1, 2, 4};
    at_arena *arena = open_arena();
    for (int i = 0; i < 9 * 3; i++) {
        size_t size = sizes[i % 9], element = elements[i / 9];
        unsigned char *data = take(arena, size, 0xd4c3b2a1U, element);
        CHECK((uintptr_t)data % 128 == 0);
        ptrdiff_t offset = 1;
        CHECK_INT(at_arena_check(arena, data, &offset), 0);
        CHECK_INT(offset, 0);
        static const unsigned char word[] = {0xa1, 0xb2, 0xc3, 0xd4};
        unsigned wrong = 0;
        for (size_t k = 0; k < BAND; k++) {
            wrong += data[size + k] != word[k % element];
            wrong += data[-1 - (ptrdiff_t)k] != word[element - 1 - k % element];
        }
        CHECK_INT(wrong, 0);
        memset(data, 0x5a, size);
        CHECK_INT(at_arena_check(arena, data, &offset), 0);
    }
    at_arena_close(arena);
}

/* One changed byte at any distance is found, with its offset. */
static void test_overrun_offsets(void)
{
    at_arena *arena = open_arena();
    enum { SIZE = 1002 };
    unsigned char *data = take(arena, SIZE, 0xff25, 2), *other = take(arena, SIZE, 0xff25, 2);
    static const ptrdiff_t places[] = {
        -1,   -2,       -7,       -8,       -9,       -100,       -BAND,
        SIZE, SIZE + 1, SIZE + 5, SIZE + 6, SIZE + 7, SIZE + 999, SIZE + BAND - 1};
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        ptrdiff_t offset = 0;
        unsigned char before = data[places[i]];
        data[places[i]] ^= 0x10;
        CHECK_INT(at_arena_check(arena, data, &offset), 1);
        CHECK_INT(offset, places[i]);
        CHECK_INT(at_arena_check(arena, other, &offset), 0);
        data[places[i]] = before;
        CHECK_INT(at_arena_check(arena, data, &offset), 0);
    }
    data[-3] = 0;
    data[SIZE] = 0;
    ptrdiff_t offset = 0;
    CHECK_INT(at_arena_check(arena, data, &offset), 1);
    CHECK_INT(offset, -3);
    at_arena_close(arena);
}

/* True when touching the address ends the process with SIGSEGV. */
static bool faults(volatile unsigned char *address, bool write)
{
    pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        unsigned char seen = *address;
        if (write) {
            *address = seen;
        }
        _exit(0);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void test_inaccessible_pages(void)
{
    at_arena *arena = open_arena();
    static const size_t sizes[] = {0, 1, 127, 128, 4096, 5000};
    ptrdiff_t page = (ptrdiff_t)sysconf(_SC_PAGESIZE);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *data = take(arena, sizes[i], 0xff, 1);
        ptrdiff_t past = (ptrdiff_t)((sizes[i] + 127) / 128 * 128) + BAND;
        CHECK(!faults(data + past - 1, true));
        CHECK(faults(data + past, false));
        CHECK(faults(data + past, true));
        CHECK(!faults(data - BAND, true));
        CHECK(faults(data - BAND - 2 * page, false));
    }
    at_arena_close(arena);
}

static void test_scratch(void)
{
    at_arena *arena = open_arena();
    at_error err = {""};
    for (size_t size = 0; size < 100000; size = size * 3 + 1) {
        void *memory = NULL;
        CHECK_OK(at_arena_scratch(&memory, arena, size, &err), &err);
        CHECK(memory != NULL && (uintptr_t)memory % 64 == 0);
        unsigned char *bytes = memory;
        unsigned wrong = 0;
        for (size_t i = 0; i < size; i++) {
            wrong += bytes[i] != 0;
        }
        CHECK_INT(wrong, 0);
        memset(bytes, 0xff, size);
    }
    at_arena_close(arena);
}

static void test_refused_sizes(void)
{
    at_arena *arena = open_arena();
    static const size_t sizes[] = {SIZE_MAX,     SIZE_MAX - 1,     SIZE_MAX - 20000,
                                   SIZE_MAX / 2, SIZE_MAX / 2 + 1, (size_t)1 << 46};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char number[32];
        at_error err = {""};
        void *memory = arena;
        (void)snprintf(number, sizeof number, " %zu bytes", sizes[i]);
        CHECK_INT(at_arena_take(&memory, arena, sizes[i], 0xff, 1, &err), AT_NO_MEMORY);
        CHECK(memory == NULL);
        CHECK_HAS(err.text, number);
        memory = arena;
        CHECK_INT(at_arena_scratch(&memory, arena, sizes[i], &err), AT_NO_MEMORY);
        CHECK(memory == NULL);
        CHECK_HAS(err.text, number);
    }
    unsigned char *data = take(arena, 100, 0xff, 1);
    ptrdiff_t offset = 0;
    CHECK_INT(at_arena_check(arena, data, &offset), 0);
    at_arena_close(arena);
}

#ifndef AT_SANITIZED
/* Bytes of address space that this process has. */
static size_t address_space(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    AT_ASSERT(file != NULL && fscanf(file, "%llu", &pages) == 1);
    (void)fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}
#endif

/* The kernel itself says no. */
static void test_address_space(void)
{
#ifdef AT_SANITIZED
    at_test_skip("sanitizers need the address space");
#else
    pid_t child = fork();
    if (child == 0) {
        at_arena *arena = open_arena();
        rlim_t most = address_space() + ((rlim_t)64 << 20);
        struct rlimit limit = {most, most};
        at_error err = {""};
        void *memory = NULL;
        bool right = setrlimit(RLIMIT_AS, &limit) == 0;
        right &= at_arena_take(&memory, arena, (size_t)100 << 20, 0xff, 1, &err) == AT_NO_MEMORY;
        right &= strstr(err.text, "104857600 bytes") != NULL;
        right &= at_arena_scratch(&memory, arena, (size_t)100 << 20, &err) == AT_NO_MEMORY;
        right &= at_arena_take(&memory, arena, 4096, 0xff, 1, &err) == AT_OK;
        at_arena_close(arena);
        _exit(right ? 0 : 1);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
}

/* A thousand rounds would need 64 GiB if reset kept anything. */
static void test_reset(void)
{
    at_arena *arena = open_arena();
    at_error err = {""};
    for (int round = 0; round < 1000; round++) {
        unsigned char *data = take(arena, (size_t)64 << 20, 0xff, 1);
        void *memory = NULL;
        data[0] = 1;
        if (round % 100 == 0) {
            CHECK_OK(at_arena_scratch(&memory, arena, 1 << 20, &err), &err);
        }
        at_arena_reset(arena);
    }
    at_arena_close(arena);
    at_arena_close(NULL);
}

const at_test at_tests[] = {
    {"unit", "bands", test_bands},
    {"unit", "overrun_offsets", test_overrun_offsets},
    {"unit", "inaccessible_pages", test_inaccessible_pages},
    {"unit", "scratch", test_scratch},
    {"unit", "refused_sizes", test_refused_sizes},
    {"unit", "address_space", test_address_space},
    {"unit", "reset", test_reset},
    {NULL, NULL, NULL},
};
