/* The environment that --env and --arch give. */
#ifndef AT_ENVIRONMENT_H
#define AT_ENVIRONMENT_H

#include "harness/cli/options.h"
#include "harness/select/env.h"

/* All --env values in order, then --arch as arch=; *env stays NULL when none is given. */
at_status at_options_env(at_env **env, const at_options *o, at_error *err) AT_MUST_CHECK;

#endif
