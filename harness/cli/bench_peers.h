/* attest bench peers: the rules of other test suites on the runs of the self-test. */
#ifndef AT_BENCH_PEERS_H
#define AT_BENCH_PEERS_H

#include "harness/cli/options.h"

/* Prints a table, with --format jsonl a line a rule; returns the exit code. */
int at_bench_peers(const at_options *o);

#endif
