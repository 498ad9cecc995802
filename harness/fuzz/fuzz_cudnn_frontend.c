/* The cuDNN frontend's validation ends with an answer, the same twice, whatever graph it gets; and
 * the graph of a case gets the answer of the rule set cudnn-frontend of that release. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/fuzz/fuzz.h"
#include "harness/fuzz/fuzz_frontend.h"
#include "harness/tests/frontend_cases.h"
#include "kernels/cudnn_load.h"

static const at_cudnn_api *api;
static void (*say_version)(size_t);

static void open_frontend(void)
{
    at_error err = {""};
    AT_ASSERT(setenv("ATTEST_CUDNN", AT_FUZZ_CUDNN_VERSION, 1) == 0);
    if (at_cudnn_load(&api, true, &err) != AT_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        abort();
    }
    union {
        void *address;
        void (*function)(size_t);
    } say = {dlsym(dlopen(AT_FUZZ_CUDNN_VERSION, RTLD_NOW | RTLD_NOLOAD), "attest_cudnn_version")};
    AT_ASSERT(say.address != NULL);
    say_version = say.function;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at_fuzz_graph g;
    at_cudnn_answer first, second;
    if (api == NULL) {
        open_frontend();
    }
    if (!at_fuzz_graph_read(&g, data, size) || at_fuzz_graph_known(&g.spec)) {
        return 0;
    }
    say_version((size_t)at_frontend_releases[g.release].version);
    api->ask(&first, &g.spec, AT_CUDNN_S1_VALIDATE, NULL, NULL);
    api->ask(&second, &g.spec, AT_CUDNN_S1_VALIDATE, NULL, NULL);
    AT_ASSERT(strcmp(first.code, "EXCEPTION") != 0);
    AT_ASSERT(first.stage == AT_CUDNN_S1_VALIDATE && first.plan_count == 0);
    AT_ASSERT(first.passed == (strcmp(first.code, "OK") == 0));
    AT_ASSERT(first.passed == second.passed && strcmp(first.message, second.message) == 0);
    AT_ASSERT(g.changed || first.passed == at_fuzz_graph_rules(&g, api));
    return 0;
}
