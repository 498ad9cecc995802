#include "harness/problem/arena.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BAND = 4096, ALIGNMENT = 128, SCRATCH_ALIGNMENT = 64, ASK_KERNEL_FROM = 16 << 20 };

/* One buffer: mapped pages with the first and the last one inaccessible, or (base NULL) scratch. */
typedef struct region {
    struct region *next;
    unsigned char *base; /* whole mapping */
    size_t mapped;
    unsigned char *data;
    size_t size;
    unsigned guard_word;
    size_t element_size;
} region;

struct at_arena {
    region *first;
    size_t used, limit;
};

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

/* The number after `key` in a file of the kernel, SIZE_MAX when there is none ("max"). */
static size_t read_number(const char *path, const char *key, size_t unit)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return SIZE_MAX;
    }
    char line[256];
    size_t found = SIZE_MAX, length = strlen(key);
    while (found == SIZE_MAX && fgets(line, sizeof line, file) != NULL) {
        char *end = NULL;
        if (strncmp(line, key, length) != 0) {
            continue;
        }
        errno = 0;
        unsigned long long n = strtoull(line + length, &end, 10);
        if (end != line + length && errno == 0 && n <= SIZE_MAX / unit) {
            found = (size_t)n * unit;
        }
    }
    (void)fclose(file);
    return found;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Kernels overcommit: a mapping that cannot be filled is granted and the process killed later. So
 * the arena itself never grants more than the machine, or its control group, has. */
static size_t memory_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t limit = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX;
    limit = least(limit, read_number("/sys/fs/cgroup/memory.max", "", 1));
    limit = least(limit, read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", "", 1));
    return least(limit, PTRDIFF_MAX);
}

static at_status reserve(at_arena *arena, size_t size, size_t wanted, at_error *err)
{
    size_t room = arena->limit - arena->used;
    if (wanted >= ASK_KERNEL_FROM) {
        room = least(room, read_number("/proc/meminfo", "MemAvailable:", 1024));
    }
    if (wanted < size || wanted > room) {
        return at_fail(err, AT_NO_MEMORY, "no memory for %zu bytes, %zu bytes are free", size,
                       room);
    }
    arena->used += wanted;
    return AT_OK;
}

at_status at_arena_open(at_arena **out, at_error *err)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for an arena");
    }
    (*out)->limit = memory_limit();
    return AT_OK;
}

void at_arena_close(at_arena *arena)
{
    if (arena != NULL) {
        at_arena_reset(arena);
        free(arena);
    }
}

void at_arena_reset(at_arena *arena)
{
    while (arena->first != NULL) {
        region *r = arena->first;
        arena->first = r->next;
        if (r->base != NULL) {
            (void)munmap(r->base, r->mapped);
        } else {
            free(r->data);
        }
        free(r);
    }
    arena->used = 0;
}

static at_status add_region(at_arena *arena, const region *r, at_error *err)
{
    region *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for the record of a buffer");
    }
    *kept = *r;
    kept->next = arena->first;
    arena->first = kept;
    return AT_OK;
}

/* First byte of the band before the data, and one past the band after it. */
static unsigned char *band_begin(const region *r, size_t page)
{
    return r->base + page;
}

static unsigned char *band_end(const region *r, size_t page)
{
    return r->base + r->mapped - page;
}

/* Eight bytes of the guard word. Both bands begin at a whole element of the buffer: the first one's
 * place is a multiple of 128 bytes before the data. */
static uint64_t guard_pattern(const region *r)
{
    unsigned char bytes[sizeof(uint64_t)];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(r->guard_word >> (8 * (i % r->element_size)));
    }
    uint64_t pattern = 0;
    memcpy(&pattern, bytes, sizeof pattern);
    return pattern;
}

static void fill_band(const region *r, unsigned char *from, const unsigned char *to)
{
    uint64_t pattern = guard_pattern(r);
    while (from < to) {
        size_t n = least((size_t)(to - from), sizeof pattern);
        memcpy(from, &pattern, n);
        from += n;
    }
}

at_status at_arena_take(void **out, at_arena *arena, size_t size, unsigned guard_word,
                        size_t element_size, at_error *err)
{
    AT_ASSERT(element_size == 1 || element_size == 2 || element_size == 4);
    *out = NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t extra = 2 * page + 2 * (size_t)BAND + ALIGNMENT + page;
    size_t mapped = size <= PTRDIFF_MAX - extra ? round_up(size + extra - page, page) : 0;
    AT_TRY(reserve(arena, size, mapped, err));
    void *base = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        arena->used -= mapped;
        return at_fail(err, AT_NO_MEMORY, "no memory for %zu bytes (%s)", size, strerror(errno));
    }
    region r = {.base = base, .mapped = mapped, .size = size};
    r.guard_word = guard_word;
    r.element_size = element_size;
    /* The data ends as near to the inaccessible page as the band allows. */
    r.data = band_end(&r, page) - BAND - round_up(size, ALIGNMENT);
    if (mprotect(r.base + page, mapped - 2 * page, PROT_READ | PROT_WRITE) != 0 ||
        add_region(arena, &r, NULL) != AT_OK) {
        (void)munmap(base, mapped);
        arena->used -= mapped;
        return at_fail(err, AT_NO_MEMORY, "no memory for %zu bytes", size);
    }
    fill_band(&r, band_begin(&r, page), r.data);
    fill_band(&r, r.data + size, band_end(&r, page));
    *out = r.data;
    return AT_OK;
}

at_status at_arena_scratch(void **out, at_arena *arena, size_t size, at_error *err)
{
    *out = NULL;
    size_t wanted = size > 0 ? size : 1;
    AT_TRY(reserve(arena, size, wanted, err));
    void *data = NULL;
    region r = {.size = size};
    if (posix_memalign(&data, SCRATCH_ALIGNMENT, wanted) == 0) {
        r.data = data;
        if (add_region(arena, &r, NULL) == AT_OK) {
            memset(data, 0, wanted);
            *out = data;
            return AT_OK;
        }
        free(data);
    }
    arena->used -= wanted;
    return at_fail(err, AT_NO_MEMORY, "no memory for %zu bytes", size);
}

/* First byte of the band [from, to) that differs, or NULL. */
static const unsigned char *first_changed(const region *r, const unsigned char *from,
                                          const unsigned char *to)
{
    uint64_t pattern = guard_pattern(r);
    unsigned char byte[sizeof pattern];
    memcpy(byte, &pattern, sizeof byte);
    while ((size_t)(to - from) >= sizeof byte && memcmp(from, byte, sizeof byte) == 0) {
        from += sizeof byte;
    }
    for (size_t i = 0; from < to; i++, from++) {
        if (*from != byte[i % sizeof byte]) {
            return from;
        }
    }
    return NULL;
}

int at_arena_check(const at_arena *arena, const void *data, ptrdiff_t *offset)
{
    const region *r = arena->first;
    while (r != NULL && (r->base == NULL || r->data != data)) {
        r = r->next;
    }
    AT_ASSERT(r != NULL);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const unsigned char *bad = first_changed(r, band_begin(r, page), r->data);
    if (bad == NULL) {
        bad = first_changed(r, r->data + r->size, band_end(r, page));
    }
    *offset = bad != NULL ? bad - r->data : 0;
    return bad != NULL;
}
