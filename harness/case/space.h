/* Spaces of cases: every key with its alternatives; expanded or sampled. Inside the library. */
#ifndef AT_SPACE_H
#define AT_SPACE_H

#include "harness/case/case.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One alternative as written: a value, or a range of integers. */
typedef struct at_span {
    char *text;
    int64_t first, step;
    uint64_t count;  /* values; 1 unless a range */
    uint64_t weight; /* share in samples */
} at_span;

typedef struct at_axis {
    size_t row;   /* of at_case_fields */
    bool base;    /* comes from the group's "case": a case text may replace it */
    bool weighed; /* at_space_weigh was called: spans count 1 unless they have a weight */
    at_span *span;
    size_t span_count;
    uint64_t count;  /* values of all spans */
    uint64_t weight; /* of all spans */
} at_axis;

enum { AT_AXES_MAX = 64 };
typedef struct at_space {
    at_axis axis[AT_AXES_MAX];
    size_t n;
} at_space;

/* Frees the spans; the space is empty then and may be used again. A space starts zeroed. */
void at_space_close(at_space *space);

/* Adds the alternatives `text` ("64,128" "1..8" "64..256/64") to the key's axis, which begins when
 * it is first named; every value is checked against the key's range. */
at_status at_space_add(at_space *space, const char *key, size_t key_length, const char *text,
                       size_t length, bool base, at_error *err) AT_MUST_CHECK;

/* Adds a case text with lists and ranges. A key of a base axis replaces it. */
at_status at_space_add_text(at_space *space, const char *text, at_error *err) AT_MUST_CHECK;

/* Weight >= 1 of an alternative, by its text as written. Without any weight the values of an axis
 * are equally likely; with one, the alternatives without a weight have 1. */
at_status at_space_weigh(at_space *space, const char *key, const char *text, uint64_t weight,
                         at_error *err) AT_MUST_CHECK;

/* Combinations; AT_INVALID above the limit. */
at_status at_space_count(uint64_t *out, const at_space *space, uint64_t limit,
                         at_error *err) AT_MUST_CHECK;

/* FNV-1a, continued from `hash` (2166136261 to begin with). */
uint32_t at_hash_name(const char *text, uint32_t hash);

/* Combination `index` (the last axis runs fastest), or draw number `index` of a stream: the keys
 * assigned but neither resolved nor checked. */
void at_space_at(at_case *out, uint64_t *given, const at_space *space, uint64_t index);
void at_space_draw(at_case *out, uint64_t *given, const at_space *space, uint64_t seed,
                   uint32_t stream, uint64_t index);

#ifdef __cplusplus
}
#endif
#endif
