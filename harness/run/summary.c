#include "harness/run/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

enum { IDS = 200 }; /* ids listed of one finding; its count is exact */

static void put_time(at_json *object, const char *key, int64_t seconds)
{
    char text[32];
    struct tm parts;
    time_t moment = (time_t)seconds;
    if (gmtime_r(&moment, &parts) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0) {
        at_json_put_text(object, key, text);
    }
}

static void read_cpu(char *out, size_t room)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    (void)snprintf(out, room, "unknown");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            line[strcspn(line, "\n")] = '\0';
            (void)snprintf(out, room, "%s", colon + 2);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* What the numbers depend on, and nothing that says whose machine it is. */
static at_json *make_environment(const at_hosts *hosts)
{
    at_json *object = at_json_object(), *packages = at_json_object();
    struct utsname name;
    char cpu[128];
    if (uname(&name) == 0) {
        at_json_put_text(object, "os", name.sysname);
        at_json_put_text(object, "kernel", name.release);
        at_json_put_text(object, "machine", name.machine);
    }
    read_cpu(cpu, sizeof cpu);
    at_json_put_text(object, "cpu", cpu);
    at_json_put_integer(object, "cores", at_cores());
    for (int i = 0; i < hosts->n; i++) {
        for (const at_json *m = at_json_first(hosts->host[i].versions); m != NULL;
             m = at_json_next(m)) {
            const char *version = at_json_text(m);
            if (version != NULL && at_json_get(packages, at_json_key(m)) == NULL) {
                at_json_put_text(packages, at_json_key(m), version);
            }
        }
    }
    at_json_put(object, "packages", packages);
    return object;
}

static at_json *make_totals(const size_t kinds[AT_KIND_COUNT])
{
    at_json *object = at_json_object();
    for (int i = 0; i < AT_KIND_COUNT; i++) {
        if (kinds[i] > 0) {
            at_json_put_integer(object, at_kind_names[i], (int64_t)kinds[i]);
        }
    }
    return object;
}

static at_json *make_backend(const at_backend_totals *b)
{
    at_json *object = at_json_object();
    at_json_put_text(object, "name", b->backend);
    at_json_put_text(object, "version", b->version);
    at_json_put_bool(object, "modelled", b->modelled);
    if (b->info != NULL) {
        at_json_put_text(object, "arch", at_case_field("arch", 4)->names[b->info->arch]);
        at_json_put(object, "numeric", at_numeric_to_json(&b->info->numeric));
    }
    at_json_put_integer(object, "results", (int64_t)b->records);
    at_json_put_number(object, "worst_ratio", b->worst_ratio);
    at_json_put(object, "totals", make_totals(b->kinds));
    return object;
}

static at_json *make_example(const at_record *r)
{
    at_json *object = at_json_object();
    at_json_put_text(object, "id", r->id);
    at_json_put_text(object, "case", r->case_text);
    at_json_put_text(object, "engine", r->engine);
    if (at_record_has_numbers(r)) {
        at_json *index = at_json_array();
        for (int i = 0; i < 4; i++) {
            at_json_add_integer(index, r->index[i]);
        }
        at_json_put(object, "index", index);
        at_json_put_number(object, "got", r->got);
        at_json_put_number(object, "want", r->want);
        at_json_put_number(object, "bound", r->bound);
        at_json_put_number(object, "max_ratio", r->max_ratio);
    }
    at_json_put_integer(object, "runs", r->runs);
    at_json_put_integer(object, "hits", r->hits);
    return object;
}

static at_json *make_finding(const at_report *report, const at_finding *f)
{
    const at_record *r = f->example;
    char repro[AT_CASE_TEXT_MAX + 256];
    at_json *object = at_json_object(), *ids = at_json_array();
    at_json_put_text(object, "signature", r->signature);
    at_json_put_text(object, "backend", r->backend);
    at_json_put_text(object, "version", r->version);
    at_json_put_bool(object, "modelled", r->modelled);
    at_json_put_text(object, "status", at_kind_names[r->kind]);
    at_json_put_text(object, "measured", at_kind_names[r->measured]);
    at_json_put_text(object, "step", at_step_names[r->step]);
    at_json_put_text(object, "tensor", r->tensor >= 0 ? at_tensor_names[r->tensor] : "");
    at_json_put_text(object, "reason", r->code);
    at_json_put_text(object, "message", r->message);
    const char *region = strrchr(r->signature, '|');
    at_json_put_text(object, "region", region != NULL ? region + 1 : "");
    at_json_put_integer(object, "count", (int64_t)f->count);
    for (size_t i = 0; i < f->count && i < IDS; i++) {
        at_json_add_text(ids, report->by_finding[f->first + i]->id);
    }
    at_json_put(object, "ids", ids);
    at_json_put(object, "example", make_example(r));
    at_repro_line(r, "attest", repro, sizeof repro);
    at_json_put_text(object, "repro", repro);
    if (r->issue[0] != '\0') {
        at_json_put_text(object, "waiver", r->issue);
    }
    at_json_put_bool(object, "counts", f->counts);
    at_json_put_bool(object, "in_baseline", f->known);
    return object;
}

static at_json *make_run(const at_run_facts *facts)
{
    at_json *run = at_json_object();
    put_time(run, "started", facts->started);
    put_time(run, "finished", facts->started + (int64_t)facts->seconds);
    at_json_put_number(run, "seconds", facts->seconds);
    at_json_put_integer(run, "jobs", facts->jobs);
    return run;
}

static at_json *make_asked(const at_run_facts *facts)
{
    at_json *asked = at_json_object(), *words = at_json_array();
    for (int i = 0; i < facts->word_count; i++) {
        bool is_path = strchr(facts->words[i], '/') != NULL; /* paths tell of the machine */
        at_json_add_text(words, is_path ? strrchr(facts->words[i], '/') + 1 : facts->words[i]);
    }
    at_json_put(asked, "words", words);
    at_json_put_text(asked, "filter", facts->filter != NULL ? facts->filter : "");
    at_json_put_text(asked, "shard", facts->shard != NULL ? facts->shard : "1/1");
    return asked;
}

static at_json *make_unmatched(const at_waivers *waivers)
{
    at_json *list = at_json_array();
    for (size_t i = 0; i < at_waivers_size(waivers); i++) {
        if (!at_waivers_matched(waivers, i)) {
            at_json *one = at_json_object();
            at_json_put_text(one, "backend", at_waivers_backend(waivers, i));
            at_json_put_text(one, "issue", at_waivers_issue(waivers, i));
            at_json_add(list, one);
        }
    }
    return list;
}

at_status at_summary_write(const at_report *report, const at_hosts *hosts,
                           const at_waivers *waivers, const at_run_facts *facts, at_error *err)
{
    at_json *root = at_json_object(), *tool = at_json_object(), *list = NULL;
    at_json_put_text(root, "schema", AT_SUMMARY_SCHEMA);
    at_json_put_text(tool, "name", "attest");
    at_json_put_text(tool, "version", at_version());
    at_json_put_text(tool, "commit", at_commit());
    at_json_put(root, "tool", tool);
    list = at_json_array();
    at_json_add_text(list, "run");
    at_json_put(root, "volatile", list);
    at_json_put(root, "run", make_run(facts));
    at_json_put(root, "environment", make_environment(hosts));
    at_json_put(root, "asked", make_asked(facts));
    at_json_put_bool(root, "complete", facts->complete);
    at_json_put_integer(root, "left", (int64_t)facts->left);
    at_json_put_integer(root, "exit_code", facts->exit_code);
    list = at_json_array();
    for (size_t i = 0; i < report->backend_count; i++) {
        at_json_add(list, make_backend(&report->backend[i]));
    }
    at_json_put(root, "backends", list);
    at_json_put(root, "totals", make_totals(report->kinds));
    at_json_put(root, "modelled_totals", make_totals(report->modelled_kinds));
    at_json_put_integer(root, "new_findings", (int64_t)report->new_count);
    list = at_json_array();
    for (size_t i = 0; i < report->finding_count; i++) {
        at_json_add(list, make_finding(report, &report->finding[i]));
    }
    at_json_put(root, "findings", list);
    at_json_put(root, "cells", at_cells_make(report));
    at_json_put(root, "waivers_unmatched", make_unmatched(waivers));
    char *text = at_json_print(root, true);
    at_json_close(root);
    at_text_clean(text);
    size_t n = strlen(text);
    char *ended = realloc(text, n + 2);
    AT_ASSERT(ended != NULL);
    memcpy(ended + n, "\n", 2);
    at_status status =
        at_file_replace(at_results_folder(report->results), "summary.json", ended, err);
    free(ended);
    return status;
}
