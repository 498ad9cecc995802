#include "harness/run/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/feature.h"

static int compare_records(const void *a, const void *b)
{
    const at_record *x = *(const at_record *const *)a, *y = *(const at_record *const *)b;
    int order = strcmp(x->id, y->id);
    order = order != 0 ? order : strcmp(x->backend, y->backend);
    order = order != 0 ? order : strcmp(x->version, y->version);
    return order != 0 ? order : strcmp(x->engine, y->engine);
}

static bool is_waived(const at_record *r)
{
    return r->kind == AT_WAIVED;
}

static bool is_finding(const at_record *r)
{
    return at_kind_class(r->kind) == AT_CLASS_FAIL || r->kind == AT_WAIVED ||
           r->kind == AT_OVER_REFUSED;
}

/* Unwaived first, then by signature, then by id. */
static int compare_findings(const void *a, const void *b)
{
    const at_record *x = *(const at_record *const *)a, *y = *(const at_record *const *)b;
    int order = (int)is_waived(x) - (int)is_waived(y);
    order = order != 0 ? order : strcmp(x->signature, y->signature);
    return order != 0 ? order : compare_records(a, b);
}

static const at_backend_info *info_of(const at_hosts *hosts, const at_record *r)
{
    int host = 0;
    const at_backend_info *info = hosts != NULL ? at_hosts_find(hosts, r->backend, &host) : NULL;
    return info != NULL && strcmp(info->version, r->version) == 0 ? info : NULL;
}

static void put_waivers(at_results *results, const at_hosts *hosts, at_waivers *waivers)
{
    for (size_t i = 0; i < at_results_size(results); i++) {
        const at_record *r = at_results_at(results, i);
        const at_backend_info *info = info_of(hosts, r);
        at_case c;
        const char *issue = NULL;
        if (at_case_parse(&c, r->case_text, NULL) != AT_OK) {
            continue;
        }
        at_waiving waiving =
            at_waivers_apply(waivers, &c, r->backend, r->version,
                             info != NULL ? info->arch : AT_ARCH_ANY, r->measured, &issue);
        at_kind kind = waiving == AT_WAIVING_WAIVED  ? AT_WAIVED
                       : waiving == AT_WAIVING_XPASS ? AT_XPASS
                                                     : r->measured;
        char region[AT_REGION_TEXT], signature[AT_REGION_TEXT + 2 * AT_WORD_TEXT];
        at_case_region(&c, region);
        (void)snprintf(signature, sizeof signature, "%s|%s|%s|%s|%s", r->backend,
                       at_kind_names[kind], r->code, at_step_names[r->step], region);
        at_results_waive(results, i, kind, issue != NULL ? issue : "", signature);
    }
}

static int compare_backends(const void *a, const void *b)
{
    const at_backend_totals *x = a, *y = b;
    int order = (int)x->modelled - (int)y->modelled;
    order = order != 0 ? order : strcmp(x->backend, y->backend);
    return order != 0 ? order : strcmp(x->version, y->version);
}

static at_backend_totals *totals_of(at_report *report, const at_record *r, const at_hosts *hosts)
{
    for (size_t i = 0; i < report->backend_count; i++) {
        at_backend_totals *b = &report->backend[i];
        if (strcmp(b->backend, r->backend) == 0 && strcmp(b->version, r->version) == 0 &&
            b->modelled == r->modelled) {
            return b;
        }
    }
    at_backend_totals *larger =
        realloc(report->backend, (report->backend_count + 1) * sizeof *larger);
    AT_ASSERT(larger != NULL);
    report->backend = larger;
    at_backend_totals *b = &report->backend[report->backend_count++];
    *b = (at_backend_totals){.backend = r->backend,
                             .version = r->version,
                             .modelled = r->modelled,
                             .info = info_of(hosts, r)};
    return b;
}

static void count(at_report *report, const at_hosts *hosts)
{
    for (size_t i = 0; i < at_results_size(report->results); i++) {
        const at_record *r = report->by_id[i];
        at_class class = at_kind_class(r->kind);
        at_backend_totals *b = totals_of(report, r, hosts);
        b->kinds[r->kind]++;
        b->records++;
        if (r->kind == AT_PASS && !(r->max_ratio <= b->worst_ratio)) {
            b->worst_ratio = r->max_ratio;
        }
        *(r->modelled ? &report->modelled_kinds[r->kind] : &report->kinds[r->kind]) += 1;
        report->judged += class == AT_CLASS_OK || class == AT_CLASS_FAIL || r->kind == AT_WAIVED;
        report->errors += class == AT_CLASS_ERROR;
    }
    if (report->backend_count > 0) {
        qsort(report->backend, report->backend_count, sizeof *report->backend, compare_backends);
    }
}

static bool is_shorter(const at_record *a, const at_record *b)
{
    size_t x = strlen(a->case_text), y = strlen(b->case_text);
    return x != y ? x < y : strcmp(a->case_text, b->case_text) < 0;
}

static bool is_known(const at_json *baseline, const char *signature)
{
    const at_json *list = baseline != NULL ? at_json_get(baseline, "findings") : NULL;
    for (const at_json *m = list ? at_json_first(list) : NULL; m != NULL; m = at_json_next(m)) {
        const at_json *known = at_json_get(m, "signature");
        const char *text = known != NULL ? at_json_text(known) : NULL;
        if (text != NULL && strcmp(text, signature) == 0) {
            return true;
        }
    }
    return false;
}

static int compare_counting(const void *a, const void *b)
{
    const at_finding *x = a, *y = b;
    int order = (int)y->counts - (int)x->counts;
    return order != 0 ? order : x->first < y->first ? -1 : x->first > y->first;
}

static void find(at_report *report, const at_json *baseline, bool strict)
{
    size_t n = 0;
    for (size_t i = 0; i < at_results_size(report->results); i++) {
        if (is_finding(report->by_id[i])) {
            report->by_finding[n++] = report->by_id[i];
        }
    }
    qsort(report->by_finding, n, sizeof *report->by_finding, compare_findings);
    for (size_t i = 0, end = 0; i < n; i = end) {
        const at_record *r = report->by_finding[i];
        at_finding *f = &report->finding[report->finding_count++];
        *f = (at_finding){.example = r, .first = i, .waived = is_waived(r)};
        for (end = i; end < n && is_waived(report->by_finding[end]) == f->waived &&
                      strcmp(report->by_finding[end]->signature, r->signature) == 0;
             end++) {
            const at_record *other = report->by_finding[end];
            f->example = is_shorter(other, f->example) ? other : f->example;
        }
        f->count = end - i;
        f->known = is_known(baseline, r->signature);
        f->counts = !f->waived && !f->known && (r->kind != AT_OVER_REFUSED || strict);
        report->new_count += f->counts;
    }
    qsort(report->finding, report->finding_count, sizeof *report->finding, compare_counting);
}

static at_status check_baseline(const at_json *root, at_error *err)
{
    const char *schema = NULL;
    const at_json *list = NULL;
    if (at_json_type(root) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "a JSON object was expected");
    }
    AT_TRY(at_json_want_text(root, "schema", true, &schema, err));
    if (strcmp(schema, AT_SUMMARY_SCHEMA) != 0) {
        return at_fail(err, AT_INVALID, "the schema is \"%.60s\", this attest reads %s", schema,
                       AT_SUMMARY_SCHEMA);
    }
    return at_json_want_array(root, "findings", true, &list, err);
}

at_status at_baseline_open(at_json **out, const char *path, at_error *err)
{
    AT_TRY(at_json_load(out, path, err));
    at_status status = check_baseline(*out, err);
    if (status != AT_OK) {
        at_json_close(*out);
        *out = NULL;
        return at_fail_in(err, status, "%s", path);
    }
    return AT_OK;
}

at_status at_report_make(at_report *out, at_results *results, const at_hosts *hosts,
                         at_waivers *waivers, const at_json *baseline, bool strict, at_error *err)
{
    size_t n = at_results_size(results);
    *out = (at_report){.results = results};
    put_waivers(results, hosts, waivers);
    out->by_id = calloc(n + 1, sizeof *out->by_id);
    out->by_finding = calloc(n + 1, sizeof *out->by_finding);
    out->finding = calloc(n + 1, sizeof *out->finding);
    if (out->by_id == NULL || out->by_finding == NULL || out->finding == NULL) {
        at_report_close(out);
        return at_fail(err, AT_NO_MEMORY, "no memory to report %zu results", n);
    }
    for (size_t i = 0; i < n; i++) {
        out->by_id[i] = at_results_at(results, i);
    }
    qsort(out->by_id, n, sizeof *out->by_id, compare_records);
    count(out, hosts);
    find(out, baseline, strict);
    return AT_OK;
}

void at_report_close(at_report *report)
{
    free(report->backend);
    free(report->finding);
    free(report->by_id);
    free(report->by_finding);
    *report = (at_report){0};
}

void at_repro_line(const at_record *r, const char *tool, char *out, size_t room)
{
    (void)snprintf(out, room, "%s repro %s --backend %s%s%s", tool, r->case_text, r->backend,
                   r->engine[0] != '\0' ? " --engine " : "", r->engine);
}
