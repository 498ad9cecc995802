/* Acceptance rules of other test suites, applied to the same runs as ours. */
#ifndef AT_PEERS_H
#define AT_PEERS_H

#include "harness/selftest/faults.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_peer_row {
    const char *name, *rule;                /* the rule in words */
    double forward, backward;               /* mean kill rate; NaN: it has no such rule */
    double alarms_forward, alarms_backward; /* share of healthy runs that it flags */
} at_peer_row;

/* Eight peers, then our tier 1 and all our tiers. */
enum { AT_PEERS = 8, AT_PEER_ROWS = AT_PEERS + 2 };

typedef struct at_peer_table {
    at_peer_row row[AT_PEER_ROWS];
    int64_t fault_runs[2], healthy_runs[2]; /* forward, backward */
} at_peer_table;

/* Faults that change values on bf16 and f16, five distributions; the healthy runs are all engines
 * of cpu.flash. Rules that allow a multiple of another kernel's error get cpu.naive's. */
AT_API at_status at_peers_measure(at_peer_table *out, const at_limits *limits,
                                  void (*progress)(void *user, size_t done, size_t of), void *user,
                                  at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
