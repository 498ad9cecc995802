/* What an audit holds; shared by its files. Inside the folder. */
#ifndef AT_AUDIT_CORE_H
#define AT_AUDIT_CORE_H

#include "harness/select/audit.h"
#include "harness/select/boxes.h"
#include "harness/select/measured.h"
#include "harness/select/popular.h"
#include "harness/select/region.h"
#include "harness/select/rules.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What builds do, whatever the build: equal steps, outcomes and words are one kind. */
typedef struct at_audit_kind {
    at_step step;
    at_outcome outcome;
    const char *tensor, *message;
} at_audit_kind;

typedef struct at_audit_set {
    at_capabilities *set;
    uint32_t *kind; /* by entry */
} at_audit_set;

typedef struct at_audit_env {
    at_env *given; /* by the caller and the space */
    at_selector *selector;
    const at_audit_set *set[AT_SELECTION_MAX]; /* by backend; NULL: none */
    const char *missing[AT_SELECTION_MAX];     /* sets that it names and nobody wrote */
} at_audit_env;

enum { AT_AUDIT_SETS_MAX = 256, AT_AUDIT_KINDS_MAX = 4096 };

struct at_audit {
    at_region *region;
    size_t backends, envs;
    at_audit_env *env;
    size_t sets, kinds;
    at_audit_set set[AT_AUDIT_SETS_MAX];
    at_audit_kind kind[AT_AUDIT_KINDS_MAX];
    uint32_t *mark[AT_SELECTION_MAX]; /* [region->cells] where an environment has a set */
    uint64_t cases, contradictions;
    uint64_t fired[AT_SELECTION_MAX]
                  [AT_SELECTOR_RULES_MAX / 64]; /* rules that refused it somewhere, as bits */
    at_boxes boxes;
    size_t *finding; /* by box: its number, from 1 */
    size_t findings;
    at_popular *popular;   /* may be NULL */
    at_measured *measured; /* NULL: capability sets say what builds do */
};

/* Reads the space and opens a selector and its sets for each environment. */
at_status at_audit_prepare(at_audit *a, const at_audit_request *request,
                           at_error *err) AT_MUST_CHECK;

/* Marks cells begin .. end; *bad is the cell that could not be decided. */
typedef struct at_audit_tally {
    uint64_t cases, contradictions;
    uint64_t fired[AT_SELECTION_MAX][AT_SELECTOR_RULES_MAX / 64];
} at_audit_tally;
at_status at_audit_mark(at_audit *a, uint64_t begin, uint64_t end, at_audit_tally *t, uint64_t *bad,
                        at_error *err) AT_MUST_CHECK;

/* A sign: the kind, and the rule that refused (-1: admitted). */
uint32_t at_audit_sign(uint32_t kind, int rule);
const at_audit_kind *at_audit_kind_of(const at_audit *a, uint32_t sign);
int at_audit_rule(uint32_t sign);

/* What stands behind a sign at one cell. */
typedef struct at_audit_answer {
    const at_audit_env *env;
    const at_capabilities *set;
    int entry;
    at_capability capability;
} at_audit_answer;

/* The sign that backend i would get for a case in an environment; NONE where nothing contradicts.
 */
at_status at_audit_ask(uint32_t *sign, const at_audit_env *env, size_t i, const at_case *c,
                       at_error *err) AT_MUST_CHECK;

/* The case of a cell, with the arch in force. */
void at_audit_case(at_case *c, const at_audit *a, uint64_t cell);

/* What a box's build says at that cell; asks no selector. */
at_audit_answer at_audit_answer_at(const at_audit *a, const at_box *b, uint64_t cell);

/* The rule that ought to have refused an admitted box; all members NULL when none looks at its
 * keys. */
at_refusal at_audit_should_refuse(const at_audit *a, const at_box *b, const at_audit_answer *at);

#ifdef __cplusplus
}
#endif
#endif
