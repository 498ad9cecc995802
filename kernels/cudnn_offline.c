/* cudnn.offline: what cuDNN admits, and which of its plans can be built, for any architecture on a
 * machine that has none. Stages S0 to S4 are the claim; building a plan is the launch. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/backend.h"
#include "harness/case/suite.h"
#include "harness/select/expr.h"
#include "kernels/cudnn_load.h"
#include "kernels/cudnn_spec.h"

static const at_cudnn_api *api;

static at_status refuse(at_reason *why, const char *code, const char *text)
{
    (void)snprintf(why->code, sizeof why->code, "%s", code);
    (void)snprintf(why->text, sizeof why->text, "%s", text);
    return AT_UNSUPPORTED;
}

static int sm_of(const at_case *c)
{
    return (int)at_arch_number(c->arch);
}

static at_status supports(const at_backend *self, const at_case *c, at_reason *why)
{
    (void)self;
    at_cudnn_spec spec;
    if (sm_of(c) == 0) {
        return refuse(why, "arch_needed",
                      "arch: offline questions name a GPU architecture, e.g. "
                      "arch=sm90");
    }
    AT_TRY(at_cudnn_spec_init(&spec, c, AT_STEP_FORWARD, sm_of(c), why));
    return c->pass == AT_PASS_TRAIN ? at_cudnn_spec_init(&spec, c, AT_STEP_BACKWARD, sm_of(c), why)
                                    : AT_OK;
}

static at_status open_state(const at_backend *self, void **state, at_error *err)
{
    (void)self, (void)err;
    *state = NULL;
    return AT_OK;
}

static void close_state(const at_backend *self, void *state)
{
    (void)self, (void)state;
}

/* The answer to one step's question up to `last`; `only` names the one plan to build. */
static at_status ask(at_cudnn_answer *out, const at_case *c, at_step step, at_cudnn_stage last,
                     at_cudnn_before_plan before, void *context, at_reason *why)
{
    at_cudnn_spec spec;
    at_error err;
    char *device = NULL;
    AT_TRY(at_cudnn_spec_init(&spec, c, step, sm_of(c), why));
    if (at_cudnn_device(&device, at_corpus(), getenv("ATTEST_DEVICE"), sm_of(c), &err) != AT_OK) {
        return refuse(why, "device_profile", err.text);
    }
    spec.device_json = device;
    api->ask(out, &spec, last, before, context);
    free(device);
    return AT_OK;
}

static void stage_reason(at_reason *why, at_step step, const at_cudnn_answer *answer)
{
    char code[AT_CUDNN_CODE];
    for (size_t i = 0; i < sizeof code; i++) {
        const char ch = answer->code[i];
        code[i] = ch >= 'A' && ch <= 'Z' ? (char)(ch - 'A' + 'a') : ch;
    }
    (void)snprintf(why->code, sizeof why->code, "s%d_%.40s", (int)answer->stage, code);
    (void)snprintf(why->text, sizeof why->text, "%s: %.450s", at_step_names[step], answer->message);
}

static at_status list_engines(at_engines *engines, const at_case *c, at_step step, at_reason *why)
{
    at_cudnn_answer *answer = calloc(1, sizeof *answer);
    AT_ASSERT(answer != NULL);
    at_status status = ask(answer, c, step, AT_CUDNN_S4_SUPPORT, NULL, NULL, why);
    if (status == AT_OK && !answer->passed) {
        stage_reason(why, step, answer);
        status = AT_UNSUPPORTED;
    }
    for (int i = 0; status == AT_OK && i < answer->plan_count && engines->n < AT_ENGINES_MAX; i++) {
        (void)snprintf(engines->name[engines->n++], AT_ENGINE_NAME, "%s:%.50s", at_step_names[step],
                       answer->plan[i].name);
    }
    free(answer);
    return status;
}

static at_status claim(const at_backend *self, void *state, const at_case *c, at_engines *engines,
                       at_reason *why)
{
    (void)self, (void)state;
    engines->n = 0;
    AT_TRY(list_engines(engines, c, AT_STEP_FORWARD, why));
    return c->pass == AT_PASS_TRAIN ? list_engines(engines, c, AT_STEP_BACKWARD, why) : AT_OK;
}

/* Which plans to build: the named one, or (name NULL) others until one is built. */
typedef struct choice {
    const char *name;
} choice;

static bool is_chosen(void *context, const char *plan)
{
    const choice *which = context;
    return strcmp(which->name, plan) == 0;
}

static const at_cudnn_plan *find_plan(const at_cudnn_answer *answer, const char *name)
{
    for (int i = 0; i < answer->plan_count; i++) {
        if (strcmp(answer->plan[i].name, name) == 0) {
            return &answer->plan[i];
        }
    }
    return NULL;
}

/* What became of plans that this worker has built: equal graphs ask once. The oldest is forgotten
 * first. */
typedef struct known {
    at_cudnn_spec spec; /* without its pointers */
    char plan[AT_CUDNN_NAME];
    at_status status;
    at_error err;
} known;

enum { KNOWN = 256 };
static known memory[KNOWN];
static size_t remembered;

static const known *recall(const at_cudnn_spec *spec, const char *plan)
{
    for (size_t i = 0; i < KNOWN && i < remembered; i++) {
        const known *k = &memory[i];
        if (strcmp(k->plan, plan) == 0 && memcmp(&k->spec, spec, sizeof *spec) == 0) {
            return k;
        }
    }
    return NULL;
}

static void remember(const at_cudnn_spec *spec, const char *plan, at_status status,
                     const at_error *err)
{
    known *k = &memory[remembered++ % KNOWN];
    k->spec = *spec;
    k->status = status;
    k->err = *err;
    (void)snprintf(k->plan, sizeof k->plan, "%s", plan);
}

/* Asks for one plan, and says which of the list it is when it cannot be built. */
static at_status build_asked(const at_case *c, at_step step, const char *name, at_error *err)
{
    choice which = {name};
    at_reason why = {"", ""};
    at_cudnn_answer *answer = calloc(1, sizeof *answer);
    AT_ASSERT(answer != NULL);
    at_status status = ask(answer, c, step, AT_CUDNN_S5_PLANS, is_chosen, &which, &why);
    const at_cudnn_plan *plan = status == AT_OK ? find_plan(answer, name) : NULL;
    if (plan == NULL) {
        status = at_fail(err, AT_REFUSED, "%s: the plan %s is not listed again; %.300s",
                         at_step_names[step], name, answer->message);
    } else if (!plan->built) {
        status =
            at_fail(err, AT_REFUSED, "plan %d of %d, %s: %.400s", (int)(plan - answer->plan) + 1,
                    answer->plan_count, plan->code, plan->message);
    }
    free(answer);
    return status;
}

/* Builds the engine's plan. */
static at_status build(const at_problem *p, at_step step, const char *engine, at_error *err)
{
    const char *colon = strchr(engine, ':'), *name = colon != NULL ? colon + 1 : engine;
    at_reason why;
    at_cudnn_spec spec;
    err->text[0] = '\0';
    AT_TRY(at_cudnn_spec_init(&spec, &p->c, step, sm_of(&p->c), &why));
    spec.heuristics = NULL;
    const known *k = recall(&spec, name);
    if (k != NULL) {
        *err = k->err;
        return k->status;
    }
    const at_status status = build_asked(&p->c, step, name, err);
    remember(&spec, name, status, err);
    return status;
}

static at_status forward(const at_backend *self, void *state, const at_problem *p,
                         const char *engine, at_error *err)
{
    (void)self, (void)state;
    return build(p, AT_STEP_FORWARD, engine, err);
}

static at_status backward(const at_backend *self, void *state, const at_problem *p,
                          const char *engine, at_error *err)
{
    (void)self, (void)state;
    return build(p, AT_STEP_BACKWARD, engine, err);
}

static char version[96];
static at_backend offline = {
    .name = "cudnn.offline",
    .version = version,
    .promises =
        AT_PROMISES_BACKWARD | AT_PROMISES_STATS | AT_PROMISES_DET_ON_REQUEST | AT_PLANS_ONLY,
    .arch = AT_ARCH_ANY,
    .doc = "cuDNN's support checks and plan building, without a device; nothing executes",
    .supports = supports,
    .open = open_state,
    .claim = claim,
    .forward = forward,
    .backward = backward,
    .close = close_state,
};

AT_API const at_backend *const *attest_plugin(int abi);

const at_backend *const *attest_plugin(int abi)
{
    static const at_backend *const list[] = {&offline, NULL};
    at_error err;
    char text[32];
    if (abi != AT_ABI) {
        return NULL;
    }
    if (at_cudnn_load(&api, true, &err) != AT_OK) {
        (void)fprintf(stderr, "attest: %s\n", err.text);
        return NULL;
    }
    at_cudnn_version_text(api->version(), text);
    (void)snprintf(version, sizeof version, "%s", text);
    if (at_cudnn_uses_driver()) {
        offline.name = "cudnn.loaded";
        offline.doc = "cuDNN's plans, built and loaded with the installed driver; nothing executes";
    }
    return list;
}
