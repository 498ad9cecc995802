/* The python process of a called selector; one serves all selectors of a release. Inside the
 * folder; one thread at a time. */
#ifndef AT_CALLED_HOST_H
#define AT_CALLED_HOST_H

#include "harness/select/selector.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_host at_host;

/* Reasons heard so far, numbered alike for all environments; entries stay where they are. */
typedef struct at_reasons {
    size_t count;
    struct {
        char *why;
        bool caller;
    } reason[AT_SELECTOR_RULES_MAX];
} at_reasons;

/* Starts host.py of the release, found beside the corpus, with the python of $ATTEST_PYTHON and the
 * cache of $ATTEST_TE_CACHE, and waits until it is ready. `name`: te@VERSION, for sentences. */
at_status at_host_open(at_host **out, const char *corpus, const char *name, const char *version,
                       at_error *err) AT_MUST_CHECK;
void at_host_close(at_host *host); /* NULL is legal; the last user ends the process */
const char *at_host_release(const at_host *host);
at_reasons *at_host_reasons(at_host *host);

/* AT_INVALID: it can answer no more, and why. */
at_status at_host_check(at_host *host, at_error *err) AT_MUST_CHECK;

/* Takes answer i, a line; it may write to it. */
typedef at_status at_host_take(void *context, size_t i, char *line, size_t length, at_error *err);

/* Sends a line and takes n lines. AT_INVALID: the host died or is silent (from then on, always);
 * otherwise the first failure of `take`. */
at_status at_host_ask(at_host *host, const char *line, size_t n, at_host_take *take, void *context,
                      at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
