/* What changed between two rule sets, over a whole space of cases and environments. */
#ifndef AT_DIFF_H
#define AT_DIFF_H

#include <stdio.h>

#include "harness/select/audit.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_diff at_diff;

/* Members as in at_audit_request. Keys of the environment need to be declared by one of the two;
 * the other goes without. A key that both declare and nobody gives has the later one's default in
 * both, where the earlier one takes it. */
typedef struct at_diff_request {
    const char *corpus, *before, *after, *space;
    const at_env *env;
    const char *const *sweep;
    size_t sweep_count;
} at_diff_request;

/* A case has changed when another set of backends is admitted or another one wins; a backend that a
 * rule set does not know is refused by it. AT_INVALID: a file or key is bad, no arch, a rule cannot
 * be evaluated. */
AT_API at_status at_diff_open(at_diff **out, const at_diff_request *request,
                              at_error *err) AT_MUST_CHECK;
AT_API void at_diff_close(at_diff *diff); /* NULL is legal */

AT_API uint64_t at_diff_cases(const at_diff *diff);
AT_API uint64_t at_diff_changed(const at_diff *diff);
/* Boxes that hold every changed case and nothing else, in the order of at_audit_boxes. */
AT_API size_t at_diff_boxes(const at_diff *diff);
AT_API size_t at_diff_shown(const at_diff *diff, size_t limit, size_t *box);

/* {"before","after","arch","env":{before,
 * after},"space","finding","score","models","box","relation",
 * "cases","wins","example","select":[before, after],"winner":{before, after},"changes":[{"backend",
 * "before":{"admitted","rule","why","source"},"after":{...}}]}: wins: cases of the box whose winner
 * changed; changes: the backends that one admits and the other does not; rule, why and source are
 * null where it is admitted, or not known to the rule set. */
AT_API at_json *at_diff_box_json(const at_diff *diff, size_t i);

AT_API void at_diff_print(const at_diff *diff, FILE *out, const at_audit_style *style);
AT_API void at_diff_markdown(const at_diff *diff, FILE *out, const at_audit_style *style);

#ifdef __cplusplus
}
#endif
#endif
