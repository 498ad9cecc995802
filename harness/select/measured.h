/* What backends did in a sweep, as a capability set: the measured side of an audit. Inside the
 * folder. */
#ifndef AT_MEASURED_H
#define AT_MEASURED_H

#include "harness/select/capability.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_measured at_measured;
typedef struct at_measured_set at_measured_set;

/* path: results.jsonl or the folder that holds it. only: "fa3,cudnn@9.19.0": backends that count,
 * NULL: all. waivers: what a waiver covers says nothing. AT_INVALID: a bad line, no verdict. */
at_status at_measured_open(at_measured **out, const char *path, const char *only, bool waivers,
                           at_error *err) AT_MUST_CHECK;
void at_measured_close(at_measured *m); /* NULL is legal; after its sets */

/* The cases of the verdicts, each once. */
const at_case *at_measured_cases(const at_measured *m, size_t *count);

/* The set of the backend with one of these names (NULL-terminated); *out stays NULL when the
 * results have no verdict of one. A right answer (PASS, OVER_REFUSED) is `runs` when no engine of
 * the case fails; of those that fail, the first counts: an error, a death or no plan is `refuses`,
 * wrong numbers or memory are `wrong`. Other verdicts (UNSUPPORTED, SKIP, OOM, VACUOUS, ..) say
 * nothing. Messages have # for numbers, so that equal failures of many shapes are one kind.
 * AT_INVALID: several backends or versions match; names them. */
at_status at_measured_set_open(at_capabilities **out, const at_measured *m, const char *const *name,
                               at_error *err) AT_MUST_CHECK;

/* Index of the entry for the case, whatever arch it names, and step; -1: none. */
int at_measured_find(const at_measured_set *set, const at_case *c, at_step step);
void at_measured_set_close(at_measured_set *set); /* NULL is legal */

#ifdef __cplusplus
}
#endif
#endif
