/* Selectors: for a case and an environment, which backends may serve it, and why the others not. */
#ifndef AT_SELECTOR_H
#define AT_SELECTOR_H

#include "harness/case/case.h"
#include "harness/select/env.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_selector at_selector;

enum { AT_SELECTION_MAX = 16 };

/* Text is borrowed from the selector and lives as long as it. */
typedef struct at_refusal {
    const char *backend, *rule, *why, *source;
} at_refusal;
typedef struct at_selection {
    const char *winner; /* NULL: nothing is left */
    int admitted_count, refused_count;
    const char *admitted[AT_SELECTION_MAX];
    at_refusal refused[AT_SELECTION_MAX]; /* the first rule that refused each */
} at_selection;

/* CORPUS/selectors/NAME.json with its environment resolved: unknown env keys and bad values are
 * AT_INVALID. `env` may be NULL. */
AT_API at_status at_selector_open(at_selector **out, const char *corpus, const char *name,
                                  const at_env *env, at_error *err) AT_MUST_CHECK;
AT_API void at_selector_close(at_selector *s); /* NULL is legal */

/* AT_INVALID when a rule cannot be evaluated (division by zero, ...): names file and rule id. The
 * case's arch (unless any) overrides the environment's. */
AT_API at_status at_selector_decide(at_selection *out, const at_selector *s, const at_case *c,
                                    at_error *err) AT_MUST_CHECK;

/* {"selector","case","winner","admitted":[..],"refused":[{backend,rule,why,source}],"env":{..}} */
AT_API at_json *at_selection_to_json(const at_selection *selection, const at_selector *s,
                                     const at_case *c);

#ifdef __cplusplus
}
#endif
#endif
