#include "harness/cli/bench_cudnn.h"

#include <stdio.h>
#include <time.h>

#include "harness/cli/command.h"
#include "kernels/cudnn_load.h"
#include "kernels/cudnn_spec.h"

static const char *const texts[] = {
    "b=2:hq=8:sq=1024:dqk=128:mask=causal",
    "b=4:hq=32:hkv=8:sq=4096:dqk=128:layout=bhsd:mask=causal:align=br",
    "hq=16:hkv=1:sq=4096:dqk=192:dv=128:layout=sbhd:mask=causal",
    "b=2:hq=8:hkv=2:sq=512:skv=640:dtype=f16:mask=band:align=br:wl=127:wr=0",
    "b=4:hq=8:sq=512:layout=thd:lens=random:mask=causal",
    "b=2:hq=8:sq=512:bias=rel.1h:dropout=0.1",
    "b=2:hq=8:sq=512:dqk=100:lens=half",
    "b=2:hq=8:sq=512:dqk=264:sink=learned",
};
enum { CASES = sizeof texts / sizeof texts[0], GRAPHS = 2 * CASES, TURNS = 20000 };

/* The forward and the backward graph of each text, on sm90. */
static at_status graphs(at_cudnn_spec spec[GRAPHS], at_error *err)
{
    static const at_step steps[2] = {AT_STEP_FORWARD, AT_STEP_BACKWARD};
    for (int i = 0; i < GRAPHS; i++) {
        at_case c;
        at_reason why;
        AT_TRY(at_case_parse(&c, texts[i / 2], err));
        if (at_cudnn_spec_init(&spec[i], &c, steps[i % 2], 90, &why) != AT_OK) {
            return at_fail(err, AT_INVALID, "%s: %s", texts[i / 2], why.text);
        }
    }
    return AT_OK;
}

static double processor(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int at_bench_cudnn(const at_options *o)
{
    at_error err = {""};
    const at_cudnn_api *api = NULL;
    static at_cudnn_spec spec[GRAPHS];
    static at_cudnn_answer answer;
    at_status status = at_cudnn_load(&api, true, &err);
    status = status == AT_OK ? graphs(spec, &err) : status;
    if (status != AT_OK) {
        return at_usage_error("bench cudnn: %s", err.text);
    }
    long passed = 0;
    double start = processor();
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < GRAPHS; i++) {
            api->ask(&answer, &spec[i], AT_CUDNN_S1_VALIDATE, NULL, NULL);
            passed += answer.passed;
        }
    }
    double seconds = processor() - start, asked = (double)GRAPHS * TURNS;
    char version[32];
    at_cudnn_version_text(api->version(), version);
    if (o->jsonl) {
        (void)printf("{\"bench\":\"cudnn\",\"cudnn\":\"%s\",\"frontend\":\"%s\",\"graphs\":%.0f,"
                     "\"valid\":%.4f,\"graphs_per_second\":%.0f}\n",
                     version, api->frontend_version, asked, (double)passed / asked,
                     asked / seconds);
    } else {
        (void)printf("cudnn     cuDNN %s, frontend %s: %.4g graphs validated a second on one core, "
                     "%.0f%% of them valid\n",
                     version, api->frontend_version, asked / seconds, 100 * (double)passed / asked);
    }
    return fflush(stdout) == 0 ? AT_EXIT_CLEAN : at_usage_error("bench: stdout cannot be written");
}
