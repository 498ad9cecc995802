/* What a capability set is made of. Inside the folder. */
#ifndef AT_CAPABILITY_CORE_H
#define AT_CAPABILITY_CORE_H

#include "harness/select/capability.h"
#include "harness/select/graph_rules.h"
#include "harness/select/lets.h"
#include "harness/select/measured.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_capability_entry {
    at_capability what;
    at_step step;
    at_expr *when; /* NULL: always */
    bool never;
    uint64_t keys, slots;
} at_capability_entry;

struct at_capabilities {
    char path[4096]; /* for sentences */
    at_json *document;
    const char *name, *package, *doc, *arch_name;
    at_expr *covers; /* NULL: all cases */
    int64_t arch;
    at_lets lets;
    size_t count;
    at_capability_entry *entry;
    at_measured_set *measured; /* who answers instead of the entries' conditions; NULL: they do */
    at_graph_rules *graphs;    /* the same for a rule set of graphs */
};

#ifdef __cplusplus
}
#endif
#endif
