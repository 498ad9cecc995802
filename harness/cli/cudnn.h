/* The selector "cudnn", "cudnn@VERSION": the real library, asked without a device. */
#ifndef AT_CLI_CUDNN_H
#define AT_CLI_CUDNN_H

#include "harness/case/suite.h"
#include "harness/cli/options.h"
#include "harness/select/env.h"

/* Whether --selector names cuDNN. */
bool at_cli_is_cudnn(const char *selector);

/* `attest audit` and `attest select` of it; exit codes. */
int at_cli_cudnn_diff(const at_options *o, const char *corpus);
int at_cli_cudnn_audit(const at_options *o, const char *corpus, const at_env *env);
int at_cli_cudnn_select(const at_options *o, const char *corpus, const at_suite *suite);

#endif
