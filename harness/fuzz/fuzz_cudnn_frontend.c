/* The cuDNN frontend's validation ends with an answer, the same twice, whatever graph it gets; and
 * the graph of a case gets the answer of the rule set (auto node, cudnn.h of this build). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/fuzz/fuzz.h"
#include "harness/fuzz/fuzz_frontend.h"
#include "harness/select/expr.h"
#include "harness/select/selector.h"
#include "harness/tests/frontend_cases.h"
#include "kernels/cudnn_load.h"
#include "kernels/cudnn_spec.h"

static const at_cudnn_api *api;
static void (*say_version)(size_t);

static void open_frontend(void)
{
    at_error err = {""};
    AT_ASSERT(setenv("ATTEST_CUDNN", AT_FUZZ_CUDNN_VERSION, 1) == 0);
    const at_status status = at_cudnn_load(&api, true, &err);
    if (status != AT_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
    }
    AT_ASSERT(status == AT_OK);
    union {
        void *address;
        void (*function)(size_t);
    } say = {dlsym(dlopen(AT_FUZZ_CUDNN_VERSION, RTLD_NOW | RTLD_NOLOAD), "attest_cudnn_version")};
    AT_ASSERT(say.address != NULL);
    say_version = say.function;
}

static const at_selector *rules_for(size_t release, size_t node)
{
    static at_selector *open[64][3];
    at_selector **s = &open[release][node];
    if (*s == NULL) {
        static const char *const nodes[] = {"auto", "composite", "unified"};
        char text[128], name[64];
        at_env *env = NULL;
        int major = 0, minor = 0;
        AT_ASSERT(sscanf(api->frontend_version, "%d.%d", &major, &minor) == 2);
        (void)snprintf(name, sizeof name, "cudnn-frontend-%d.%d", major, minor);
        (void)snprintf(text, sizeof text, "cudnn=%s,header=%s,node=%s",
                       at_frontend_releases[release].name, api->header_version, nodes[node]);
        AT_ASSERT(at_env_set(&env, text, NULL) == AT_OK);
        AT_ASSERT(at_selector_open(s, AT_FUZZ_CORPUS, name, env, NULL) == AT_OK);
        at_env_close(env);
    }
    return *s;
}

/* Bit 1 of the backends is the forward graph, bit 2 the backward one. */
static bool rules_admit(const at_case *c, at_step step, size_t release, size_t node)
{
    at_decision d;
    AT_ASSERT(at_selector_decide_fast(&d, rules_for(release, node), c, NULL) == AT_OK);
    return (d.admitted >> (step == AT_STEP_BACKWARD ? 2 : 1) & 1) != 0;
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
    AT_ASSERT(g.changed ||
              first.passed == rules_admit(&g.c, g.step, g.release, (size_t)g.spec.node));
    return 0;
}
