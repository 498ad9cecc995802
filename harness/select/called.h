/* A called selector, te@2.20 or te@installed: the get_attention_backend of a Transformer Engine
 * decides, in a python of its own; the rule set of that release gives the environment's keys, the
 * capability sets, and which refusals are the caller's. Inside the folder. */
#ifndef AT_CALLED_H
#define AT_CALLED_H

#include "harness/select/called_host.h"
#include "harness/select/selector.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_called {
    at_host *host;
    char *env; /* printed object */
    char doc[160], source[96];
    at_reasons *reasons; /* the host's */
    double seconds;      /* that the release's function itself took, of all answers */
} at_called;

/* The version behind "te@"; NULL for the name of a rule set. */
const char *at_called_version(const char *name);

/* Starts the host for an opened rule set. AT_INVALID: no python, no such release, it dies. */
at_status at_called_open(at_called **out, const at_selector *s, const char *corpus,
                         at_error *err) AT_MUST_CHECK;
void at_called_close(at_called *called); /* NULL is legal */

/* Decides n cases with one question; threads wait for each other. Rules are at_selector's
 * rule_count and up: reasons. full: reasons with their numbers filled in. AT_INVALID; *bad is then
 * the first that failed. */
at_status at_called_decide(at_decision *out, size_t *bad, const at_selector *s, const at_case *c,
                           size_t n, bool full, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
