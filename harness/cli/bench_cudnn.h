/* attest bench cudnn: how fast the cuDNN frontend validates graphs. */
#ifndef AT_BENCH_CUDNN_H
#define AT_BENCH_CUDNN_H

#include "harness/cli/options.h"

/* Prints a line, with --format jsonl an object; returns the exit code. */
int at_bench_cudnn(const at_options *o);

#endif
