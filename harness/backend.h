/* The contract between attest and one implementation of attention at one version. */
#ifndef AT_BACKEND_H
#define AT_BACKEND_H

#include "harness/judge/verdict.h"
#include "reference/reference.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    AT_PROMISES_BACKWARD = 1,       /* serves pass=train */
    AT_PROMISES_STATS = 2,          /* writes LSE */
    AT_PROMISES_DETERMINISM = 4,    /* equal inputs give equal bits, always */
    AT_PROMISES_DET_ON_REQUEST = 8, /* ... when the case says det=1 */
    AT_MODELLED = 16,               /* a model of another build: named modelled.*, out of totals */
    AT_MUTANT = 32,                 /* planted fault: runs only when named */
    AT_PROMISES_MASK = 64, /* writes `drop`, the dropout mask that it used, in the forward */
    AT_PLANS_ONLY = 128    /* builds plans and executes nothing: forward and backward return
                            * AT_OK for a built plan (BUILT), AT_REFUSED for one that cannot
                            * be built (UNBUILDABLE); engines are "forward:X", "backward:X",
                            * and only that step is called; p->t has no data */
};
enum { AT_ENGINE_NAME = 64, AT_ENGINES_MAX = 32 };

/* Names of the kernels or plans that can serve a case, best first. */
typedef struct at_engines {
    int n;
    char name[AT_ENGINES_MAX][AT_ENGINE_NAME];
} at_engines;

typedef struct at_backend at_backend;
struct at_backend {
    const char *name;    /* "cpu.flash" */
    const char *version; /* "1.0.0" */
    unsigned promises;   /* AT_PROMISES_* */
    at_arch arch;        /* what it runs on (or models); a case for another arch is UNSUPPORTED */
    at_numeric_class numeric;
    at_contract contract;
    const char *doc;  /* one line for lists */
    const void *data; /* the backend's own constants, e.g. a capability set; may be NULL */

    /* Static and cheap, touches no device: AT_OK, or AT_UNSUPPORTED with the reason. `arch` and
     * the pass are checked by the caller from the fields above. */
    at_status (*supports)(const at_backend *self, const at_case *c, at_reason *why);

    /* State for any number of cases; *state may stay NULL. */
    at_status (*open)(const at_backend *self, void **state, at_error *err);

    /* Asks the library itself whether it takes the case, and lists its engines (n >= 1 on AT_OK).
     * Launches nothing. AT_UNSUPPORTED: it says no. */
    at_status (*claim)(const at_backend *self, void *state, const at_case *c, at_engines *engines,
                       at_reason *why);

    /* Writes o (and lse where present) from q k v. AT_REFUSED: an error after admitting, with the
     * library's message in err; AT_NO_MEMORY: the resource is short. */
    at_status (*forward)(const at_backend *self, void *state, const at_problem *p,
                         const char *engine, at_error *err);

    /* Writes dq dk dv from q k v do, and from o and lse as the forward of the same engine left
     * them. Never NULL: without AT_PROMISES_BACKWARD it is not called. */
    at_status (*backward)(const at_backend *self, void *state, const at_problem *p,
                          const char *engine, at_error *err);

    void (*close)(const at_backend *self, void *state); /* NULL state is legal */
};

/* The built-in backends, NULL-terminated; registry.c is the only list. Plugins are appended by
 * at_registry_load. */
AT_API const at_backend *const *at_registry(void);
AT_API const at_backend *at_registry_find(const char *name); /* NULL: unknown */

/* Loads a shared object that exports `const at_backend *const *attest_plugin(int abi)`: a
 * NULL-terminated list, or NULL when it was built for another ABI. */
AT_API at_status at_registry_load(const char *path, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
