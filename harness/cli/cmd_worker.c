/* attest worker: serves requests of a runner. */
#include "harness/cli/command.h"
#include "harness/cli/options.h"

#include <stddef.h>

#include "harness/case/suite.h"
#include "harness/run/worker.h"

int cmd_worker(int argc, char **argv)
{
    at_options o;
    int code = 0, in = -1, out = -1;
    if (!at_options_parse(&o, AT_FLAG(PLUGIN) | AT_FLAG(CORPUS), argc, argv, &code)) {
        return code;
    }
    at_error err = {""};
    if (at_worker_detach(&in, &out, &err) != AT_OK) {
        return at_usage_error("%s", err.text);
    }
    char corpus[4096];
    if (at_corpus_find(corpus, o.corpus, AT_BUILD_CORPUS, &err) != AT_OK) {
        return at_usage_error("%s", err.text);
    }
    for (int i = 0; i < o.plugin.n; i++) {
        if (at_registry_load(o.plugin.item[i], &err) != AT_OK) {
            return at_usage_error("%s", err.text);
        }
    }
    if (at_worker_serve(at_registry(), in, out, &err) != AT_OK) {
        return at_usage_error("%s", err.text);
    }
    return AT_EXIT_CLEAN;
}
