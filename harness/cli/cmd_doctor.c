/* attest doctor: what is here, what is missing, and how to get it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/suite.h"
#include "harness/cli/doctor_packages.h"
#include "harness/cli/options.h"
#include "harness/json.h"
#include "harness/run/process.h"
#include "kernels/cudnn_audit.h"
#include "kernels/cudnn_find.h"
#include "kernels/cudnn_load.h"
#include "kernels/cudnn_record.h"
#include "kernels/driver.h"

typedef enum health { HERE, ABSENT, BROKEN } health;

/* What one check found: a value, and where something is absent how to get it. */
typedef struct finding {
    health health;
    char value[600];
    const char *remedy; /* NULL: none is needed */
} finding;

typedef struct check {
    const char *name;
    void (*look)(finding *out, const char *corpus);
} check;

static void look_cores(finding *out, const char *corpus)
{
    (void)corpus;
    (void)snprintf(out->value, sizeof out->value, "%d", at_cores());
}

static void look_corpus(finding *out, const char *corpus)
{
    out->health = corpus[0] != '\0' ? HERE : BROKEN;
    (void)snprintf(out->value, sizeof out->value, "%.500s",
                   corpus[0] != '\0' ? corpus : "not found");
    out->remedy = corpus[0] != '\0' ? NULL : "--corpus DIR or $ATTEST_CORPUS names it";
}

static void look_driver(finding *out, const char *corpus)
{
    int version = 0, count = 0;
    at_error err = {""};
    (void)corpus;
    const at_status status = at_driver_open(&version, &count, &err);
    if (status == AT_OK) {
        (void)snprintf(out->value, sizeof out->value, "CUDA %d.%d", version / 1000,
                       version % 1000 / 10);
        return;
    }
    out->health = ABSENT;
    (void)snprintf(out->value, sizeof out->value, "%s", err.text);
    out->remedy = "offline audits need none; kernels on a GPU do: NVIDIA's driver package";
}

static void look_devices(finding *out, const char *corpus)
{
    int version = 0, count = 0;
    at_error err = {""};
    (void)corpus;
    if (at_driver_open(&version, &count, &err) != AT_OK) {
        out->health = ABSENT;
        (void)snprintf(out->value, sizeof out->value, "none");
        return;
    }
    size_t used = 0;
    for (int i = 0; i < count && used < sizeof out->value; i++) {
        at_driver_device d;
        if (at_driver_describe(&d, i, &err) == AT_OK) {
            used += (size_t)snprintf(out->value + used, sizeof out->value - used, "%s%s (sm%d)",
                                     i > 0 ? ", " : "", d.name, d.sm);
        } else {
            out->health = BROKEN;
            used += (size_t)snprintf(out->value + used, sizeof out->value - used, "%s%s",
                                     i > 0 ? ", " : "", err.text);
        }
    }
}

static void look_cudnn(finding *out, const char *corpus)
{
    const at_cudnn_api *api = NULL;
    at_error err = {""};
    char number[32];
    (void)corpus;
    if (at_cudnn_load(&api, false, &err) != AT_OK) {
        out->health = ABSENT;
        (void)snprintf(out->value, sizeof out->value, "%s", err.text);
        out->remedy = "cudnn.h and `make build` for the frontend; `make cudnn-library` or NVIDIA's "
                      "package for libcudnn";
        return;
    }
    at_cudnn_version_text(api->version(), number);
    (void)snprintf(out->value, sizeof out->value, "%s (frontend %s, headers %s)", number,
                   api->frontend_version, api->header_version);
}

static void look_libraries(finding *out, const char *corpus)
{
    char path[AT_CUDNN_PATH];
    at_error err = {""};
    (void)corpus;
    if (at_cudnn_find(path, "cudnn@newest", NULL, &err) != AT_OK) {
        out->health = ABSENT;
        (void)snprintf(out->value, sizeof out->value, "none");
        out->remedy = "`make cudnn-library VERSION=9.14` fetches one to compare with";
        return;
    }
    at_cudnn_find_list(out->value, sizeof out->value);
}

static const check checks[] = {
    {"cores", look_cores},  {"corpus", look_corpus}, {"CUDA driver", look_driver},
    {"GPUs", look_devices}, {"cuDNN", look_cudnn},   {"other cuDNN", look_libraries},
    {NULL, NULL},
};

static const char *const health_names[] = {"here", "absent", "broken"};

static void print_line(const check *c, const finding *f)
{
    at_json *o = at_json_object();
    at_json_put_text(o, "check", c->name);
    at_json_put_text(o, "status", health_names[f->health]);
    at_json_put_text(o, "value", f->value);
    if (f->remedy != NULL) {
        at_json_put_text(o, "remedy", f->remedy);
    }
    char *line = at_json_print(o, false);
    (void)puts(line);
    free(line);
    at_json_close(o);
}

static void print_row(const check *c, const finding *f)
{
    (void)printf("%-8s %-12s %s\n", health_names[f->health], c->name, f->value);
    if (f->remedy != NULL) {
        (void)printf("%-21s %s\n", "", f->remedy);
    }
}

static int record(const at_options *o)
{
    at_error err = {""};
    if (at_cudnn_choose("cudnn", o->cudnn, &err) != AT_OK ||
        at_cudnn_record(o->record_device, 0, &err) != AT_OK) {
        return at_usage_error("doctor: %s", err.text);
    }
    (void)printf("%s: recorded\n", o->record_device);
    return AT_EXIT_CLEAN;
}

int cmd_doctor(int argc, char **argv)
{
    at_options o;
    at_error err = {""};
    char corpus[4096];
    int exit_code = AT_EXIT_USAGE;
    const uint64_t flags =
        AT_FLAG(CORPUS) | AT_FLAG(CUDNN) | AT_FLAG(FORMAT) | AT_FLAG(RECORD_DEVICE);
    if (!at_options_parse(&o, flags, argc, argv, &exit_code)) {
        return exit_code;
    }
    if (o.word_count != 0) {
        return at_usage_error("doctor: it takes no words, \"%s\" was given", o.words[0]);
    }
    if (o.record_device != NULL) {
        return record(&o);
    }
    if (at_cudnn_choose("cudnn", o.cudnn, &err) != AT_OK) {
        return at_usage_error("doctor: %s", err.text);
    }
    if (at_corpus_find(corpus, o.corpus, AT_BUILD_CORPUS, &err) != AT_OK) {
        corpus[0] = '\0';
    }
    exit_code = AT_EXIT_CLEAN;
    for (const check *c = checks; c->name != NULL; c++) {
        finding f = {.health = HERE};
        c->look(&f, corpus);
        (o.jsonl ? print_line : print_row)(c, &f);
        exit_code = f.health == BROKEN ? AT_EXIT_USAGE : exit_code;
    }
    if (at_doctor_packages(corpus, o.jsonl, &err) != AT_OK) {
        const check packages = {"packages", NULL};
        finding f = {.health = ABSENT, .remedy = "ATTEST_PYTHON names a Python with packages"};
        (void)snprintf(f.value, sizeof f.value, "%s", err.text);
        (o.jsonl ? print_line : print_row)(&packages, &f);
    }
    return fflush(stdout) == 0 && !ferror(stdout)
               ? exit_code
               : at_usage_error("doctor: stdout cannot be written");
}
