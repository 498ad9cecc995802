/* Bytes as a graph for the cuDNN frontend. */
#ifndef AT_FUZZ_FRONTEND_H
#define AT_FUZZ_FRONTEND_H

#include "kernels/cudnn_spec.h"

/* The graph of a case, then changed by hand in up to seven places where `changed`: members of the
 * spec that no case gives such values, alone or together. */
typedef struct at_fuzz_graph {
    at_case c;
    at_step step;
    at_cudnn_spec spec;
    size_t release; /* of at_frontend_releases */
    bool changed;
} at_fuzz_graph;

/* Any bytes: release, node and direction, arch, changes (place and value each), then the case's
 * own. false: the API has no word for the case. */
bool at_fuzz_graph_read(at_fuzz_graph *out, const uint8_t *data, size_t size);

/* What the rule set of that frontend says of the graph of the case, unchanged. */
bool at_fuzz_graph_rules(const at_fuzz_graph *g, const at_cudnn_api *api);

/* What is known to end badly (reports/published/cudnn-frontend-1.32/findings.md), to look further;
 * never where ATTEST_FUZZ_KNOWN is set. */
bool at_fuzz_graph_known(const at_cudnn_spec *spec);

#endif
