/* Host memory of one problem: guarded buffers, released together. */
#ifndef AT_ARENA_H
#define AT_ARENA_H

#include <stddef.h>

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_arena at_arena;

/* An empty arena. */
AT_API at_status at_arena_open(at_arena **out, at_error *err) AT_MUST_CHECK;
AT_API void at_arena_close(at_arena *arena); /* NULL is legal */

/* `size` bytes (0 is legal), aligned to 128 bytes, between guard bands of at least 4096 bytes and an
 * unmapped page on either side of the bands. The bands hold `guard_word` (element_size bytes of it,
 * 1, 2 or 4, in step with the buffer's elements). AT_NO_MEMORY names the size; it also comes when
 * the machine or its control group has less, since kernels grant more memory than there is. */
AT_API at_status at_arena_take(void **out, at_arena *arena, size_t size, unsigned guard_word,
                               size_t element_size, at_error *err) AT_MUST_CHECK;

/* Plain scratch memory without guards, zeroed, aligned to 64 bytes, freed with the
 * arena. AT_NO_MEMORY as above. */
AT_API at_status at_arena_scratch(void **out, at_arena *arena, size_t size, at_error *err)
    AT_MUST_CHECK;

/* First byte of a band that changed, as an offset from the buffer `data` (negative: before it;
 * >= size: past it). Returns 0 when the bands are intact, 1 otherwise. */
AT_API int at_arena_check(const at_arena *arena, const void *data, ptrdiff_t *offset);

/* Releases every buffer; the arena can be used again. */
AT_API void at_arena_reset(at_arena *arena);

#ifdef __cplusplus
}
#endif
#endif
