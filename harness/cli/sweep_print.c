#include "harness/cli/sweep_print.h"

#include <stdio.h>
#include <string.h>

#include "harness/cli/command.h"

enum { FINDINGS_SHOWN = 25, ERRORS_SHOWN = 5 };

static const char *color_of(at_kind kind, const at_print_style *style)
{
    if (!style->colors) {
        return "";
    }
    at_class class = at_kind_class(kind);
    return class == AT_CLASS_OK        ? "\033[32m"
           : class == AT_CLASS_NEUTRAL ? (kind == AT_WAIVED ? "\033[33m" : "\033[2m")
                                       : "\033[31m";
}

static const char *plain(const at_print_style *style)
{
    return style->colors ? "\033[0m" : "";
}

/* One row: name, number of results, a column for each status that occurs anywhere. */
static void print_row(const char *name, const char *version, size_t records,
                      const size_t kinds[AT_KIND_COUNT], const size_t columns[AT_KIND_COUNT],
                      double worst, const at_print_style *style)
{
    (void)printf("  %-26s %-10s %7zu", name, version, records);
    for (int k = 0; k < AT_KIND_COUNT; k++) {
        int width = (int)strlen(at_kind_names[k]);
        if (columns[k] > 0 && kinds[k] > 0) {
            (void)printf("  %s%*zu%s", color_of((at_kind)k, style), width < 6 ? 6 : width, kinds[k],
                         plain(style));
        } else if (columns[k] > 0) {
            (void)printf("  %*s", width < 6 ? 6 : width, ".");
        }
    }
    if (worst > 0) {
        (void)printf("  %12.3f\n", worst);
    } else {
        (void)puts("");
    }
}

static void print_group(const at_report *report, bool modelled, const size_t columns[AT_KIND_COUNT],
                        const at_print_style *style)
{
    size_t rows = 0, records = 0;
    double worst = 0;
    for (size_t i = 0; i < report->backend_count; i++) {
        const at_backend_totals *b = &report->backend[i];
        if (b->modelled == modelled) {
            print_row(b->backend, b->version, b->records, b->kinds, columns, b->worst_ratio, style);
            rows++;
            records += b->records;
            worst = b->worst_ratio > worst ? b->worst_ratio : worst;
        }
    }
    if (rows > 1 && !modelled) {
        print_row("total", "", records, report->kinds, columns, worst, style);
    }
}

void at_print_backends(const at_report *report, const at_print_style *style)
{
    size_t columns[AT_KIND_COUNT] = {0}, live = 0, modelled = 0;
    for (int k = 0; k < AT_KIND_COUNT; k++) {
        columns[k] = report->kinds[k] + report->modelled_kinds[k];
        live += report->kinds[k];
        modelled += report->modelled_kinds[k];
    }
    (void)printf("  %-26s %-10s %7s", "backend", "version", "results");
    for (int k = 0; k < AT_KIND_COUNT; k++) {
        if (columns[k] > 0) {
            (void)printf("  %6s", at_kind_names[k]);
        }
    }
    (void)printf("  %12s\n", "worst passed");
    if (live > 0) {
        print_group(report, false, columns, style);
    }
    if (modelled > 0) {
        (void)puts("  modelled builds, not in the totals:");
        print_group(report, true, columns, style);
    }
    (void)puts("  (worst passed: the largest error/bound of a case that passed; 1 would fail)");
}

/* Waived findings that differ in their region only are told once. */
static bool same_story(const at_finding *a, const at_finding *b)
{
    const at_record *x = a->example, *y = b->example;
    return a->waived && b->waived && strcmp(x->backend, y->backend) == 0 &&
           strcmp(x->issue, y->issue) == 0 && x->measured == y->measured && x->step == y->step &&
           x->tensor == y->tensor;
}

static void print_numbers(const at_record *r)
{
    if (r->tensor < 0 || !at_record_has_numbers(r)) {
        return;
    }
    (void)printf("    worst at [%lld %lld %lld %lld]: got %.6g, want %.6g, bound %.3g\n",
                 (long long)r->index[0], (long long)r->index[1], (long long)r->index[2],
                 (long long)r->index[3], r->got, r->want, r->bound);
}

static void print_finding(const at_finding *f, const at_record *r, size_t count,
                          const at_print_style *style)
{
    char repro[AT_CASE_TEXT_MAX + 512];
    const char *region = strrchr(r->signature, '|');
    (void)printf(
        "\n  %s%s%s  %s  %s%s%s  %zu case%s%s%s\n", color_of(r->kind, style),
        at_kind_names[r->measured == r->kind || r->kind == AT_XPASS ? r->kind : r->measured],
        plain(style), r->backend, at_step_names[r->step], r->tensor >= 0 ? "." : "",
        r->tensor >= 0 ? at_tensor_names[r->tensor] : "", count, count == 1 ? "" : "s",
        r->modelled ? ", modelled" : "", f->known ? ", in the baseline" : "");
    if (r->message[0] != '\0') {
        (void)printf("    %s\n", r->message);
    }
    print_numbers(r);
    if (!f->waived && region != NULL) {
        (void)printf("    region: %s\n", region + 1);
    }
    if (f->waived) {
        (void)printf("    waived: %s\n", r->issue);
    }
    at_repro_line(r, at_program, repro, sizeof repro);
    (void)printf("    %s%s\n", repro, style->suffix);
}

void at_print_unsaid(const at_suite *suite)
{
    const at_suite_unsaid *list = NULL;
    size_t n = at_suite_unsaid_entries(suite, &list);
    if (n > 0) {
        (void)printf("\nskipped: %zu known bug%s that no case can say\n", n, n == 1 ? "" : "s");
    }
    for (size_t i = 0; i < n; i++) {
        (void)printf("  %s: %s\n", list[i].entry, list[i].reason);
    }
}

void at_print_errors(const at_report *report, const at_print_style *style)
{
    size_t shown = 0;
    if (report->errors == 0) {
        return;
    }
    (void)printf("\nattest itself failed on %zu case%s:\n", report->errors,
                 report->errors == 1 ? "" : "s");
    for (size_t i = 0; i < at_results_size(report->results) && shown < ERRORS_SHOWN; i++) {
        const at_record *r = report->by_id[i];
        if (at_kind_class(r->kind) == AT_CLASS_ERROR) {
            char repro[AT_CASE_TEXT_MAX + 512];
            at_repro_line(r, at_program, repro, sizeof repro);
            (void)printf("  %s: %s\n    %s%s\n", r->code, r->message, repro, style->suffix);
            shown++;
        }
    }
}

void at_print_findings(const at_report *report, const at_print_style *style)
{
    size_t waived = 0, shown = 0, known = 0;
    for (size_t i = 0; i < report->finding_count; i++) {
        waived += report->finding[i].waived;
        known += report->finding[i].known && !report->finding[i].waived;
    }
    (void)printf("findings: %zu new", report->new_count);
    if (known > 0) {
        (void)printf(", %zu in the baseline", known);
    }
    (void)printf(", %zu waived\n", waived);
    for (size_t i = 0, end = 0; i < report->finding_count; i = end) {
        const at_finding *f = &report->finding[i];
        const at_record *example = f->example;
        size_t count = 0;
        for (end = i;
             end < report->finding_count && (end == i || same_story(f, &report->finding[end]));
             end++) {
            const at_record *r = report->finding[end].example;
            example = strlen(r->case_text) < strlen(example->case_text) ? r : example;
            count += report->finding[end].count;
        }
        if (shown++ < FINDINGS_SHOWN) {
            print_finding(f, example, count, style);
        }
    }
    if (shown > FINDINGS_SHOWN) {
        (void)printf("\n  ... and %zu more: see summary.json\n", shown - FINDINGS_SHOWN);
    }
}
