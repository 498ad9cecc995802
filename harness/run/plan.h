/* What a run has to do: every case on every backend that is to serve it, in order. */
#ifndef AT_PLAN_H
#define AT_PLAN_H

#include "harness/case/suite.h"
#include "harness/run/hosts.h"
#include "harness/run/results.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One case on one backend. Text is owned by the plan. */
typedef struct at_item {
    const at_case *c;
    char id[AT_ID_TEXT];
    int host;
    const at_backend_info *backend;
    const char *engine; /* "": the first one that is claimed */
    bool all_engines;   /* launch the others too, once they are known */
    const char
        *admitted_by;    /* selectors, joined by newlines; "" when none was asked or all refused */
    const char *refusal; /* a sentence when selection refused, else NULL */
    bool modelled;
    bool done; /* its result is there already */
} at_item;

typedef struct at_plan {
    size_t size, room;
    at_item *item;
    size_t cases; /* different cases among the items */
    size_t done;  /* items whose result was there before */
    size_t text_count;
    char **text; /* owns what the items borrow */
} at_plan;

/* What a plan is made of. */
typedef struct at_plan_options {
    const size_t *chosen; /* [chosen_count] cases of the suite, by index */
    size_t chosen_count;
    const char *backends; /* "a,b" instead of the suite's, or NULL */
    const char *engine;   /* "first", "all" or a name; NULL is "first" */
    const char *corpus;   /* for selectors */
} at_plan_options;

/* Resolves backends: those named on the command line, the group's, what its selector admits
 * (through `serves`), or every live backend of the hosts. Equal (case, backend) pairs become one
 * item that keeps every selector's word: it is refused only if all of them refuse. AT_INVALID: an
 * unknown backend or selector, a rule that cannot be evaluated. */
AT_API at_status at_plan_make(at_plan *out, const at_suite *suite, const at_hosts *hosts,
                              const at_plan_options *options, at_error *err) AT_MUST_CHECK;
AT_API void at_plan_close(at_plan *plan);

/* Marks the items that `results` already has; with all engines wanted, replaces an item whose
 * engines are known by one for each engine that is missing. */
AT_API void at_plan_resume(at_plan *plan, const at_results *results);

#ifdef __cplusplus
}
#endif
#endif
