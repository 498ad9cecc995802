/* The space of an audit: axes of partial cases, multiplied. CORPUS/spaces/NAME.json. Inside the
 * folder. */
#ifndef AT_REGION_H
#define AT_REGION_H

#include "harness/case/case.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_REGION_AXES = 12, AT_REGION_POINTS = 256, AT_REGION_KEYS = 8 };

/* One partial case: the values of all keys of its axis. */
typedef struct at_region_point {
    char *text;                    /* "mask=causal:wl=127" */
    uint64_t given;                /* rows that the text names */
    int64_t value[AT_REGION_KEYS]; /* by key of the axis */
    int rank;                      /* how typical: 0 is best */
} at_region_point;

typedef struct at_region_axis {
    char name[32];
    size_t key_count;
    const at_field *key[AT_REGION_KEYS];
    size_t count;
    at_region_point *point;
} at_region_axis;

/* A key whose default is another key's value: copied wherever the place does not name it. */
typedef struct at_region_follower {
    size_t row;
    size_t to, from; /* offsets */
    int axis;        /* that may name it; -1: none */
} at_region_follower;

typedef struct at_region {
    char name[64];
    at_json *document;
    const char *doc;
    at_case base;               /* every key that no axis has */
    uint64_t base_given, given; /* rows named by "case", and by it or any axis */
    size_t axes;
    at_region_axis axis[AT_REGION_AXES];
    size_t followers;
    at_region_follower follower[AT_REGION_KEYS];
    int left, right; /* axes whose values are compared in boxes; -1: none */
    uint64_t cells;
} at_region;

/* Index of a point on each axis. */
typedef struct at_region_place {
    uint16_t at[AT_REGION_AXES];
} at_region_place;

/* AT_INVALID with file and axis: unknown member, bad point, a key on two axes, more than 2^26
 * cells. */
at_status at_region_open(at_region **out, const char *corpus, const char *name,
                         at_error *err) AT_MUST_CHECK;
void at_region_close(at_region *region); /* NULL is legal */

/* Cells are numbered with the last axis running fastest. */
void at_region_locate(at_region_place *out, const at_region *region, uint64_t cell);
/* The place of the next cell; returns the first axis that moved (0 after the last cell). */
size_t at_region_step(at_region_place *place, const at_region *region);

/* Writes the keys of axes first.. into *c, which holds those of the axes before (at first: a copy
 * of base, first = 0), and resolves defaults. Does not check contradictions. */
void at_region_case(at_case *c, const at_region *region, const at_region_place *place,
                    size_t first);

/* Value of the compared key at a place: 0 below, 1 equal, 2 above (left against right). */
int at_region_relation(const at_region *region, const at_region_place *place);

#ifdef __cplusplus
}
#endif
#endif
