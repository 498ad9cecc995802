#include "harness/cli/environment.h"

#include <stdio.h>

at_status at_options_env(at_env **env, const at_options *o, at_error *err)
{
    char pair[64];
    for (int i = 0; i < o->env.n; i++) {
        AT_TRY(at_env_set(env, o->env.item[i], err));
    }
    if (o->arch == NULL) {
        return AT_OK;
    }
    int n = snprintf(pair, sizeof pair, "arch=%s", o->arch);
    return n > 0 && (size_t)n < sizeof pair
               ? at_env_set(env, pair, err)
               : at_fail(err, AT_INVALID, "--arch takes a name such as sm90");
}
