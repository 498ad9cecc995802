#include "harness/run/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/text.h"

static const char *const pass_names[] = {"fwd", "stats", "train"};
enum { PASSES = 3 };

static int pass_of(const at_record *r)
{
    at_case c;
    return at_case_parse(&c, r->case_text, NULL) == AT_OK ? (int)c.pass : AT_PASS_TRAIN;
}

static void add_attribute(at_text *out, const char *name, const char *value)
{
    at_text_add(out, " %s=\"", name);
    at_text_add_xml(out, value);
    at_text_add(out, "\"");
}

static void add_outcome(at_text *out, const at_record *r, const char *element)
{
    char head[700], repro[AT_CASE_TEXT_MAX + 256];
    at_text_add(out, "<%s", element);
    (void)snprintf(head, sizeof head, "%s %s%s%s", at_kind_names[r->kind], r->code,
                   r->issue[0] != '\0' ? " " : "", r->issue);
    add_attribute(out, "message", head);
    if (strcmp(element, "skipped") == 0 && r->kind != AT_WAIVED) {
        at_text_add(out, ">");
        at_text_add_xml(out, r->message);
    } else {
        add_attribute(out, "type", at_kind_names[r->measured]);
        at_text_add(out, ">");
        at_repro_line(r, "attest", repro, sizeof repro);
        at_text_add_xml(out, r->message);
        at_text_add(out, "\n");
        at_text_add_xml(out, repro);
        if (r->output[0] != '\0') {
            at_text_add(out, "\n");
            at_text_add_xml(out, r->output);
        }
    }
    at_text_add(out, "</%s>", element);
}

static const char *element_of(const at_record *r)
{
    switch (at_kind_class(r->kind)) {
    case AT_CLASS_OK:
        return NULL;
    case AT_CLASS_NEUTRAL:
        return "skipped";
    case AT_CLASS_FAIL:
        return "failure";
    case AT_CLASS_ERROR:
        break;
    }
    return "error";
}

/* Cases of one backend and pass; returns how many there are. */
static size_t add_cases(at_text *out, const at_report *report, const at_backend_totals *b, int pass,
                        size_t counts[4])
{
    size_t n = 0;
    char class[2 * AT_WORD_TEXT + 32];
    (void)snprintf(class, sizeof class, "%s@%s.%s", b->backend, b->version, pass_names[pass]);
    for (size_t i = 0; i < at_results_size(report->results); i++) {
        const at_record *r = report->by_id[i];
        if (strcmp(r->backend, b->backend) != 0 || strcmp(r->version, b->version) != 0 ||
            r->modelled != b->modelled || pass_of(r) != pass) {
            continue;
        }
        char name[AT_CASE_TEXT_MAX + 80];
        (void)snprintf(name, sizeof name, "%s%s%s", r->case_text,
                       r->engine[0] != '\0' ? " engine " : "", r->engine);
        const char *element = element_of(r);
        n++;
        counts[at_kind_class(r->kind)]++;
        at_text_add(out, "<testcase");
        add_attribute(out, "classname", class);
        add_attribute(out, "name", name);
        at_text_add(out, element != NULL ? ">" : "/>\n");
        if (element != NULL) {
            add_outcome(out, r, element);
            at_text_add(out, "</testcase>\n");
        }
    }
    return n;
}

at_status at_junit_write(const at_report *report, at_error *err)
{
    at_text out = {0};
    at_text_add(&out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"attest\">\n");
    for (size_t i = 0; i < report->backend_count; i++) {
        const at_backend_totals *b = &report->backend[i];
        for (int pass = 0; pass < PASSES; pass++) {
            at_text cases = {0};
            size_t counts[4] = {0};
            char name[2 * AT_WORD_TEXT + 32];
            size_t n = add_cases(&cases, report, b, pass, counts);
            if (n > 0) {
                (void)snprintf(name, sizeof name, "%s@%s pass=%s", b->backend, b->version,
                               pass_names[pass]);
                at_text_add(&out, "<testsuite");
                add_attribute(&out, "name", name);
                at_text_add(&out,
                            " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\">\n%s"
                            "</testsuite>\n",
                            n, counts[AT_CLASS_FAIL], counts[AT_CLASS_ERROR],
                            counts[AT_CLASS_NEUTRAL], cases.data);
            }
            free(cases.data);
        }
    }
    at_text_add(&out, "</testsuites>\n");
    at_status status =
        at_file_replace(at_results_folder(report->results), "junit.xml", out.data, err);
    free(out.data);
    return status;
}
