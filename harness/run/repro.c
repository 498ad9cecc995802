#include "harness/run/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/text.h"

/* One failure as a page that can be pasted into a report upstream. */
static void describe(at_text *out, const at_record *r)
{
    char repro[AT_CASE_TEXT_MAX + 256], got[AT_REAL_TEXT], want[AT_REAL_TEXT], bound[AT_REAL_TEXT],
        ratio[AT_REAL_TEXT];
    at_repro_line(r, "attest", repro, sizeof repro);
    at_text_add(out, "%s\n\n", repro);
    at_text_add(out, "case      %s\nbackend   %s@%s%s\n", r->case_text, r->backend, r->version,
                r->modelled ? " (modelled)" : "");
    if (r->engine[0] != '\0') {
        at_text_add(out, "engine    %s\n", r->engine);
    }
    at_text_add(out, "status    %s%s%s%s\n", at_kind_names[r->measured], r->code[0] ? " (" : "",
                r->code, r->code[0] ? ")" : "");
    at_text_add(out, "in        %s%s%s\n", at_step_names[r->step], r->tensor >= 0 ? " " : "",
                r->tensor >= 0 ? at_tensor_names[r->tensor] : "");
    if (at_record_has_numbers(r)) {
        (void)at_real_print(r->got, got);
        (void)at_real_print(r->want, want);
        (void)at_real_print(r->bound, bound);
        (void)at_real_print(r->max_ratio, ratio);
        at_text_add(out,
                    "worst     [b h s d] = [%lld %lld %lld %lld]\n"
                    "          got %s, want %s, bound %s, error/bound %s\n",
                    (long long)r->index[0], (long long)r->index[1], (long long)r->index[2],
                    (long long)r->index[3], got, want, bound, ratio);
    }
    at_text_add(out, "message   %s\nseen      in %d of %d runs\n", r->message, r->hits, r->runs);
    if (r->issue[0] != '\0') {
        at_text_add(out, "waiver    %s\n", r->issue);
    }
    if (r->output[0] != '\0') {
        at_text_add(out, "\nlast output of the worker:\n%s\n", r->output);
    }
}

at_status at_repro_write(const at_report *report, at_error *err)
{
    char folder[4096];
    size_t n = at_results_size(report->results);
    (void)snprintf(folder, sizeof folder, "%s/repro", at_results_folder(report->results));
    AT_TRY(at_folder_make(folder, err));
    at_status status = AT_OK;
    for (size_t i = 0, end = 0; i < n && status == AT_OK; i = end) {
        at_text page = {0};
        const at_record *first = report->by_id[i];
        for (end = i; end < n && strcmp(report->by_id[end]->id, first->id) == 0; end++) {
            const at_record *r = report->by_id[end];
            if (at_kind_class(r->kind) == AT_CLASS_FAIL || r->kind == AT_WAIVED ||
                at_kind_class(r->kind) == AT_CLASS_ERROR) {
                at_text_add(&page, "%s", page.used > 0 ? "\n" : "");
                describe(&page, r);
            }
        }
        if (page.used > 0) {
            char name[AT_ID_TEXT + 4];
            (void)snprintf(name, sizeof name, "%s.txt", first->id);
            status = at_file_replace(folder, name, page.data, err);
        }
        free(page.data);
    }
    return status;
}
