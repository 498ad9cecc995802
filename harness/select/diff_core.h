/* What a comparison of two rule sets holds; shared by its files. Inside the folder. */
#ifndef AT_DIFF_CORE_H
#define AT_DIFF_CORE_H

#include "harness/select/boxes.h"
#include "harness/select/diff.h"
#include "harness/select/popular.h"
#include "harness/select/rules.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_DIFF_BACKENDS = 2 * AT_SELECTION_MAX, AT_DIFF_KINDS_MAX = 4096 };
enum { AT_DIFF_ADMITTED = -1, AT_DIFF_UNKNOWN = -2, AT_DIFF_SAME = -3 }; /* in place of a rule */

/* One kind of change, by index of diff->backend: winners (-1: none), and of each backend the rule
 * before and after; SAME in both where it is admitted twice or refused twice. */
typedef struct at_change {
    int16_t winner[2];
    int16_t rule[AT_DIFF_BACKENDS][2];
} at_change;

typedef struct at_diff_env {
    at_env *given[2]; /* what each was opened with that its own defaults do not say */
    at_selector *selector[2];
} at_diff_env;

struct at_diff {
    at_region *region;
    size_t envs;
    at_diff_env *env;
    size_t backends;
    const char *backend[AT_DIFF_BACKENDS]; /* of the later one, then of the earlier one alone */
    int8_t index[2][AT_SELECTION_MAX];     /* of a selector's backends among them */
    char note[1024];                       /* defaults that were overruled */
    uint32_t *mark;                        /* [region->cells] 1 + kind */
    size_t kinds;
    at_change kind[AT_DIFF_KINDS_MAX];
    uint16_t bucket[4 * AT_DIFF_KINDS_MAX]; /* 1 + kind by hash */
    bool full;                              /* more kinds than there is room for */
    uint64_t cases, changed;
    at_boxes boxes;
    size_t *finding, findings;
    at_popular *popular;
};

at_status at_diff_prepare(at_diff *d, const at_diff_request *request, at_error *err) AT_MUST_CHECK;

const at_change *at_diff_kind(const at_diff *d, const at_box *b);
/* The refusal behind a rule of a change; members NULL where there is none. */
at_refusal at_diff_refusal(const at_diff *d, int side, int rule);
void at_diff_case(at_case *c, const at_diff *d, uint64_t cell);
/* "attest select CASE --selector S --env .." of one side. */
void at_diff_line(char *out, size_t room, const at_diff *d, const at_box *b, int side,
                  const char *tool);

#ifdef __cplusplus
}
#endif
#endif
