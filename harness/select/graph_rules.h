/* A rule set of graphs as a capability set: what a library's own validation refuses, by step. */
#ifndef AT_GRAPH_RULES_H
#define AT_GRAPH_RULES_H

#include "harness/select/capability.h"
#include "harness/select/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who answers for such a set. Inside the folder. */
typedef struct at_graph_rules at_graph_rules;

/* CORPUS/selectors/NAME.json, whose backends "forward" and "backward" are the graphs of the two
 * steps (cudnn-frontend-1.32), with those keys of env that it declares. A rule that refuses one is
 * an entry "refuses" of that step; one of the caller's, or none, is unknown: to pass is not to run.
 * The set is called "NAME, cudnn 9.19.0" by those keys. AT_INVALID: no such backends. */
AT_API at_status at_graph_rules_open(at_capabilities **out, const char *corpus, const char *name,
                                     const at_env *env, at_error *err) AT_MUST_CHECK;

/* For capability.c: the entry of the case's step, -1 for none; and the end. */
at_status at_graph_rules_find(int *entry, const at_graph_rules *rules, const at_case *c,
                              at_step step, int64_t arch, at_error *err) AT_MUST_CHECK;
void at_graph_rules_close(at_graph_rules *rules); /* NULL is legal */

#ifdef __cplusplus
}
#endif
#endif
