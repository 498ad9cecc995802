#include "harness/cli/limits.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

at_status at_choose_limits(at_limits **out, const at_options *o, const char *corpus, at_error *err)
{
    char path[4096];
    *out = NULL;
    if (o->limits != NULL) {
        return strcmp(o->limits, "none") == 0 ? AT_OK : at_limits_open(out, o->limits, err);
    }
    (void)snprintf(path, sizeof path, "%s/limits/cpu.json", corpus);
    if (access(path, F_OK) != 0) {
        (void)fprintf(stderr,
                      "attest: warning: there is no %s, so the statistical tier judges "
                      "nothing\n",
                      path);
        return AT_OK;
    }
    return at_limits_open(out, path, err);
}

at_status at_require_limits(const at_limits *limits, const at_plan *plan, at_error *err)
{
    for (size_t i = 0; limits != NULL && i < plan->size; i++) {
        const at_backend_info *b = plan->item[i].backend;
        at_status status = at_limits_require(limits, &b->numeric, err);
        if (status != AT_OK) {
            return at_fail_in(err, status, "--limits: backend %s", b->name);
        }
    }
    return AT_OK;
}
