/* Runs one (case, backend, engine) in this process, from claim to verdict. */
#ifndef AT_EXECUTE_H
#define AT_EXECUTE_H

#include "harness/backend.h"
#include "harness/run/protocol.h"
#include "harness/run/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What to run, and whom to tell. The callbacks may be NULL. */
typedef struct at_execution {
    const at_backend *backend;
    void *state;        /* of backend->open */
    const char *engine; /* "" for the first one claimed */
    int64_t repeat; /* launches, at least 1; 2 and up compare bits where determinism is promised */
    bool force;     /* a refusal of the static check does not stop the launch */
    bool probe;     /* launch first, make the reference and judge only if that succeeds */
    const char *dump; /* folder, or "" */
    uint32_t checks;  /* metamorphic checks to run once the case passes: bit set of at_check */
    void (*begin)(void *user, at_begin_step step, const at_verdict *so_far);
    void (*claimed)(void *user, const at_engines *engines, const char *engine);
    void *user;
} at_execution;

/* Fills the verdict, whatever happens; `engine` gets the engine's name, "" when none was claimed. A
 * refusal before launch is UNSUPPORTED, what the reference or the problem cannot do yet is SKIP,
 * AT_REFUSED from a launch is REFUSED, AT_NO_MEMORY is OOM. invalid=1 turns refusals into PASS and
 * acceptance into WRONG. A case that was refused, forced and right is OVER_REFUSED. */
AT_API void at_execute(at_verdict *out, char engine[AT_ENGINE_NAME], at_session *session,
                       const at_execution *how);

#ifdef __cplusplus
}
#endif
#endif
