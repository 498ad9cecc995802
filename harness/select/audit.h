/* Audits: where a selector and what kernel builds can do part, over a whole space of cases and
 * environments. */
#ifndef AT_AUDIT_H
#define AT_AUDIT_H

#include <stdio.h>

#include "harness/select/capability.h"
#include "harness/select/selector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Contradictions of one selector and space, compressed to boxes. */
typedef struct at_audit at_audit;

/* space: a name of corpus/spaces, or a suite or case text, whose cases are the space. env: may be
 * NULL; its arch is the target. sweep: "KEY=VALUES" each, environment keys to be swept beside those
 * of the space; one that env gives is not. */
typedef struct at_audit_request {
    const char *corpus, *selector, *space;
    const at_env *env;
    const char *const *sweep;
    size_t sweep_count;
    const char *results; /* of a sweep, results.jsonl or its folder, instead of a space and of the
                            capability sets; NULL: none */
    const char *only;    /* "fa3,cudnn@9.19.0": backends of the results that count; NULL: all */
    bool waivers;        /* what a waiver covers says nothing */
    const char *against; /* a rule set of graphs (graph_rules.h), instead of the capability sets,
                            for the backend called fused or cudnn; NULL: none */
} at_audit_request;

/* Decides every case of the space. A contradiction: a backend is admitted and its build (the
 * capability set that the rule file names for it) refuses or is wrong in the forward or the
 * backward; or a rule refuses it, one that is not the caller's, and the build runs all the steps.
 * Unknown is none. AT_INVALID: a file or key is bad, no arch, a rule cannot be evaluated. */
AT_API at_status at_audit_open(at_audit **out, const at_audit_request *request,
                               at_error *err) AT_MUST_CHECK;
AT_API void at_audit_close(at_audit *audit); /* NULL is legal */

/* Cases decided (without contradictions between keys), and those with a contradiction. */
AT_API uint64_t at_audit_cases(const at_audit *audit);
AT_API uint64_t at_audit_contradictions(const at_audit *audit);

/* Boxes, the likeliest to be met first: by score (the models of CORPUS/popular.json that meet it),
 * then by how often the backend is the winner, then by size. Together they hold every contradiction
 * and nothing else; boxes of one kind may overlap. Those of one kind (backend, rule, step,
 * outcome and words) are one finding. */
AT_API size_t at_audit_boxes(const at_audit *audit);
AT_API size_t at_audit_findings(const at_audit *audit);

/* {"selector","arch","env","space","finding","score","models","backend","direction":"admits"|
 * "refuses","box":{axis: points},"relation","cases","wins","example","select","repro","admits",
 * "refusing_rule","should_refuse_rule","step","outcome","tensor","message","evidence","source",
 * "capabilities"}: arch, env (all keys), evidence, source and capabilities are those of the
 * example; finding: number, from 1; models: names; box has every axis, an axis of one key as a list
 * such as "8..64/8,512", others as an array of partial cases (environments); relation ("dqk != dv")
 * or null; wins: cases of the box in which the backend is the winner; select, repro: command lines,
 * repro runs a modelled or measured backend, else the audit of the example alone; admits: the
 * backend, null where it is refused. */
AT_API at_json *at_audit_box_json(const at_audit *audit, size_t i);

/* limit: findings to show, 0: all. brief: a few lines each, numbers and environments alone. tool:
 * for command lines, NULL: "attest". */
typedef struct at_audit_style {
    bool colors, brief;
    size_t limit;
    const char *tool;
} at_audit_style;

/* AT_INVALID: a called selector ended while boxes were printed, and why; what was printed lacks
 * its answers. */
AT_API at_status at_audit_check(const at_audit *audit, at_error *err) AT_MUST_CHECK;

/* Boxes of the first `limit` findings, in order; 0: all. */
AT_API size_t at_audit_shown(const at_audit *audit, size_t limit, size_t *box);

/* Counts, notes, and each finding as a paragraph that names what it restricts. */
AT_API void at_audit_print(const at_audit *audit, FILE *out, const at_audit_style *style);

/* The same for an issue: title, environment, each finding with a table and its command lines. */
AT_API void at_audit_markdown(const at_audit *audit, FILE *out, const at_audit_style *style);

/* How fast cases are decided: selection, and the capabilities of the backends that have a set. */
typedef struct at_audit_speed {
    uint64_t cases;
    double seconds;  /* processor time of the thread */
    double wall;     /* wall time */
    double function; /* of a called selector: what its release's own function took; else 0 */
} at_audit_speed;

/* Decides up to `most` cases of the space, evenly spread, on this thread; for benchmarks. */
AT_API at_status at_audit_measure(at_audit_speed *out, const at_audit_request *request,
                                  uint64_t most, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
