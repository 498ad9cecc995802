/* The space of an audit: environments and partial cases, multiplied, CORPUS/spaces/NAME.json; or
 * the cases of a suite. Inside the folder. */
#ifndef AT_REGION_H
#define AT_REGION_H

#include "harness/case/case.h"
#include "harness/select/env_table.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_REGION_AXES = 16, AT_REGION_POINTS = 256, AT_REGION_KEYS = 8 };

/* One partial case: the values of all keys of its axis. Or one part of an environment. */
typedef struct at_region_point {
    char *text;                    /* "mask=causal:wl=127"; "fa3=2025-02,fa4=none" */
    uint64_t given;                /* rows that the text names */
    int64_t value[AT_REGION_KEYS]; /* by key of the axis */
    int rank;                      /* how typical: 0 is best */
} at_region_point;

typedef struct at_region_axis {
    char name[32];
    size_t key_count; /* 0: of environments, or the list */
    const at_field *key[AT_REGION_KEYS];
    bool single; /* its points are values of one key, which is its name */
    size_t count;
    at_region_point *point; /* NULL: the list */
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
    size_t env_axes; /* the first axes are of environments */
    uint64_t envs;   /* environments: cells [i, i + 1) * cells / envs are those of number i */
    at_case *list;   /* the cases of a suite are the last axis; NULL: none */
} at_region;

/* Index of a point on each axis. */
typedef struct at_region_place {
    uint32_t at[AT_REGION_AXES];
} at_region_place;

/* `name`: a space, or else anything that at_suite_open takes: its cases are the space, in a list.
 * One environment: the space's "env" is left to at_region_sweep. AT_INVALID with file and axis:
 * unknown member, bad point, a key on two axes, more than 2^26 cells. */
at_status at_region_open(at_region **out, const char *corpus, const char *name,
                         at_error *err) AT_MUST_CHECK;

/* A space that is a list of n > 0 cases. */
void at_region_of_cases(at_region **out, const char *name, const at_case *list, size_t n);

/* Puts axes of environments before the others: those of the space's "env", then one for each text
 * "KEY=VALUES" of `sweep`. VALUES are joined by commas; integers may be ranges such as 1..8/2; `*`
 * is every value of a key that has a list. A key that `given` (may be NULL) holds is not swept.
 * AT_INVALID: a key that no table declares, or a bad value. */
typedef struct at_region_sweep_request {
    const at_env_table *const *table;
    size_t table_count;
    const char *corpus; /* of capability sets: fa3=* is every build of fa3 that has one */
    const at_env *given;
    const char *const *sweep;
    size_t sweep_count;
} at_region_sweep_request;
at_status at_region_sweep(at_region *region, const at_region_sweep_request *request,
                          at_error *err) AT_MUST_CHECK;

/* Sets in *env what the environment of that number names. */
at_status at_region_env(at_env **env, const at_region *region, uint64_t number,
                        at_error *err) AT_MUST_CHECK;
bool at_region_sweeps(const at_region *region, const char *key);
uint64_t at_region_env_of(const at_region *region, uint64_t cell);
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
