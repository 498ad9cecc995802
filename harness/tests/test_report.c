/* Waivers, features, findings and the files of a report. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/feature.h"
#include "harness/run/report.h"
#include "harness/run/text.h"
#include "harness/tests/tool.h"

#define TODAY "2026-06-15"
#define URL "https://example.org/issues/1"

static const char *path_of(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", at_test_folder(), name);
    return path;
}

static at_status open_waivers(at_waivers **out, const char *entries, at_error *err)
{
    char text[4096];
    (void)snprintf(text, sizeof text, "{\"schema\":\"attest-waivers-1\",\"waivers\":[%s]}",
                   entries);
    at_tool_write("waivers.json", text);
    return at_waivers_open(out, path_of("waivers.json"), TODAY, err);
}

static at_waiving apply(at_waivers *w, const char *text, const char *version, at_kind measured)
{
    at_case c;
    at_error err = {""};
    const char *issue = NULL;
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    at_waiving waiving = at_waivers_apply(w, &c, "x", version, AT_ARCH_SM90, measured, &issue);
    CHECK((issue == NULL) == (waiving == AT_WAIVING_NONE));
    return waiving;
}

static void test_waivers_apply(void)
{
    at_waivers *w = NULL;
    at_error err = {""};
    CHECK_OK(
        open_waivers(&w,
                     "{\"backend\":\"x\",\"version\":\">=1.2 <2.0\",\"arch\":\"sm90\","
                     "\"when\":\"dqk > 128 && mask == causal\",\"status\":\"REFUSED\","
                     "\"issue\":\"" URL "\",\"until\":\"2026-12-31\"},"
                     "{\"backend\":\"x\",\"when\":\"dqk == 32\",\"status\":\"WRONG\",\"issue\":"
                     "\"" URL "\",\"until\":\"2026-06-14\"},"
                     "{\"backend\":\"x\",\"when\":\"dqk == 16\",\"status\":\"WRONG\",\"issue\":"
                     "\"" URL "\",\"fixed_in\":\"1.5\"}",
                     &err),
        &err);
    CHECK_INT(at_waivers_size(w), 3);
    CHECK(!at_waivers_matched(w, 0));
    CHECK_INT(apply(w, "dqk=192:mask=causal", "1.2", AT_KIND_REFUSED), AT_WAIVING_WAIVED);
    CHECK(at_waivers_matched(w, 0));
    CHECK_INT(apply(w, "dqk=192:mask=causal", "1.9.9", AT_PASS), AT_WAIVING_XPASS);
    CHECK_INT(apply(w, "dqk=192:mask=causal", "1.9.9", AT_WRONG), AT_WAIVING_OTHER);
    CHECK_INT(apply(w, "dqk=192:mask=causal", "1.9.9", AT_SKIP), AT_WAIVING_NONE);
    CHECK_INT(apply(w, "dqk=192:mask=causal", "2.0", AT_KIND_REFUSED), AT_WAIVING_NONE);
    CHECK_INT(apply(w, "dqk=192:mask=causal", "1.1", AT_KIND_REFUSED), AT_WAIVING_NONE);
    CHECK_INT(apply(w, "dqk=192", "1.2", AT_KIND_REFUSED), AT_WAIVING_NONE);
    CHECK_INT(apply(w, "dqk=128:mask=causal", "1.2", AT_KIND_REFUSED), AT_WAIVING_NONE);
    CHECK_INT(apply(w, "dqk=32", "1.2", AT_WRONG), AT_WAIVING_EXPIRED);
    CHECK_INT(apply(w, "dqk=16", "1.4.9", AT_WRONG), AT_WAIVING_WAIVED);
    CHECK_INT(apply(w, "dqk=16", "1.5", AT_WRONG), AT_WAIVING_NONE);
    at_case c;
    const char *issue = "";
    at_case_init(&c);
    c.dim_qk = 16;
    CHECK_INT(at_waivers_apply(w, &c, "y", "1.0", AT_ARCH_SM90, AT_WRONG, &issue), AT_WAIVING_NONE);
    CHECK(issue == NULL);
    CHECK_INT(at_waivers_apply(NULL, &c, "x", "1.0", AT_ARCH_SM90, AT_WRONG, &issue),
              AT_WAIVING_NONE);
    at_waivers_close(w);
}

static void refuses_waiver(const char *entry, const char *part)
{
    at_waivers *w = NULL;
    at_error err = {""};
    CHECK_INT(open_waivers(&w, entry, &err), AT_INVALID);
    CHECK(w == NULL);
    CHECK_HAS(err.text, part);
    CHECK_HAS(err.text, "waivers.json");
    CHECK(strchr(err.text, '\n') == NULL);
}

static void test_bad_waivers(void)
{
#define REST ",\"status\":\"WRONG\",\"issue\":\"" URL "\",\"until\":\"2027-01-01\"}"
    refuses_waiver("{\"backend\":\"x\"}", "waiver 1: the member \"status\" is missing");
    refuses_waiver("7", "waiver 1: an object was expected");
    refuses_waiver("{\"backend\":\"x\",\"who\":1" REST, "unknown member \"who\"");
    refuses_waiver("{\"backend\":\"x\",\"version\":\"1.2\"" REST, "\"version\" accepts");
    refuses_waiver("{\"backend\":\"x\",\"version\":\"=>1.2\"" REST, "no comparison \"=>\"");
    refuses_waiver("{\"backend\":\"x\",\"version\":\">=abc\"" REST, "abc");
    refuses_waiver("{\"backend\":\"x\",\"arch\":\"sm9\"" REST, "no arch \"sm9\"");
    refuses_waiver("{\"backend\":\"x\",\"when\":\"dqk >\"" REST, "\"when\"");
    refuses_waiver("{\"backend\":\"x\",\"when\":\"nosuch == 1\"" REST, "nosuch");
    refuses_waiver("{\"backend\":\"x\",\"status\":\"PASS\",\"issue\":\"" URL
                   "\",\"until\":\"2027-01-01\"}",
                   "failing status");
    refuses_waiver("{\"backend\":\"x\",\"status\":\"WRONG\",\"issue\":\"later\",\"until\":"
                   "\"2027-01-01\"}",
                   "\"issue\" accepts");
    refuses_waiver("{\"backend\":\"x\",\"status\":\"WRONG\",\"issue\":\"" URL "\"}",
                   "one of \"until\" and \"fixed_in\"");
    refuses_waiver("{\"backend\":\"x\",\"status\":\"WRONG\",\"issue\":\"" URL
                   "\",\"until\":\"2027-01-01\",\"fixed_in\":\"2\"}",
                   "one of \"until\" and \"fixed_in\"");
    refuses_waiver("{\"backend\":\"x\",\"status\":\"WRONG\",\"issue\":\"" URL
                   "\",\"until\":\"soon\"}",
                   "accepts a date");
    at_waivers *w = NULL;
    at_error err = {""};
    at_tool_write("waivers.json", "{\"schema\":\"attest-waivers-7\",\"waivers\":[]}");
    CHECK_INT(at_waivers_open(&w, path_of("waivers.json"), TODAY, &err), AT_INVALID);
    CHECK_HAS(err.text, "attest-waivers-7");
    at_tool_write("waivers.json", "{\"schema\":");
    CHECK_INT(at_waivers_open(&w, path_of("waivers.json"), TODAY, &err), AT_INVALID);
    CHECK_INT(at_waivers_open(&w, path_of("nowhere.json"), TODAY, &err), AT_IO);
}

static void region_is(const char *text, const char *want)
{
    at_case c;
    at_error err = {""};
    char region[AT_REGION_TEXT];
    at_case_init(&c);
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    at_case_region(&c, region);
    CHECK_TEXT(region, want);
}

static void test_regions(void)
{
    region_is("b=1", "bf16 mha dqk=dv mask=none");
    region_is("hq=8:hkv=2:dqk=192:dv=128:mask=causal:wl=127:layout=thd:lens=random:dtype=f16",
              "f16 gqa dqk!=dv mask=causal_window thd lens");
    region_is("hq=8:hkv=1:mask=band:wl=3:softcap=30:sink=off1:splits=2:det=1",
              "bf16 mqa dqk=dv mask=window sink=off1 splits det softcap");
}

static bool has_feature(const char *text, const char *feature)
{
    at_case c;
    at_error err = {""};
    at_features f;
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    at_case_features(&f, &c);
    for (int i = 0; i < f.n; i++) {
        if (strcmp(f.name[i], feature) == 0) {
            return true;
        }
    }
    return false;
}

static void test_features(void)
{
    CHECK(has_feature("b=1", "pass=train"));
    CHECK(has_feature("b=1", "length=self"));
    CHECK(has_feature("sq=1:skv=64", "length=decode"));
    CHECK(has_feature("sq=16:skv=64", "length=cross"));
    CHECK(has_feature("sq=0", "length=zero"));
    CHECK(has_feature("dqk=192:dv=128", "dims=dqk>dv"));
    CHECK(has_feature("mask=causal:align=br", "align=br"));
    CHECK(!has_feature("b=1", "align=tl"));
    CHECK(has_feature("lens=half", "lens=half"));
    CHECK(has_feature("scale=0.5", "scale"));
    CHECK(has_feature("bias=rel.1h", "bias=rel.1h"));
    CHECK(!has_feature("b=1", "bias=none"));
    at_case c;
    at_features f;
    for (uint32_t seed = 0; seed < 4000; seed++) { /* never more than there is room for */
        uint8_t bytes[128];
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = (uint8_t)((seed * 2654435761U + (uint32_t)i * 40503U) >> 13);
        }
        at_case_from_bytes(&c, bytes, sizeof bytes);
        at_case_features(&f, &c);
        CHECK(f.n >= 7 && f.n <= AT_FEATURES_MAX);
    }
}

static void test_xml(void)
{
    at_text text = {0};
    at_text_add_xml(&text, "a<b>&\"c\"\n\x01\xff\xef\xbf\xbf\xc3\xa4");
    CHECK_TEXT(text.data, "a&lt;b&gt;&amp;&quot;c&quot;&#10;???\xc3\xa4");
    free(text.data);
}

/* Adds a result of the case on backend "x"; a failure is in dv. */
static void add(at_results *r, const char *case_text, at_kind kind, bool modelled)
{
    static at_verdict v;
    at_case c;
    at_error err = {""};
    CHECK_OK(at_case_parse(&c, case_text, &err), &err);
    at_verdict_init(&v);
    at_step_verdict *s = &v.step[kind == AT_PASS ? AT_STEP_FORWARD : AT_STEP_BACKWARD];
    s->ran = true;
    s->kind = kind;
    at_measure *m = &s->m[kind == AT_PASS ? AT_O : AT_DV];
    m->judged = at_kind_class(kind) != AT_CLASS_NEUTRAL;
    m->kind = kind;
    m->max_ratio = kind == AT_PASS ? 0.25 : 3;
    (void)snprintf(s->reason.code, sizeof s->reason.code, "%s", kind == AT_PASS ? "" : "bound");
    at_verdict_settle(&v);
    at_record_frame frame = {.c = &c,
                             .backend = "x",
                             .version = "1.0",
                             .engine = "e",
                             .measured = kind,
                             .modelled = modelled,
                             .runs = 1,
                             .hits = 1};
    at_json *line = at_record_make(&frame, &v);
    CHECK_OK(at_results_add(r, line, &err), &err);
    at_json_close(line);
}

static at_results *open_results(const char *name)
{
    at_results *r = NULL;
    at_error err = {""};
    CHECK_OK(at_results_open(&r, path_of(name), false, &err), &err);
    return r;
}

static void test_findings(void)
{
    at_results *r = open_results("findings");
    at_report report;
    at_error err = {""};
    add(r, "sq=200:dqk=96", AT_WRONG, false);
    add(r, "sq=20:dqk=96", AT_WRONG, false);
    add(r, "sq=20:dqk=96:mask=causal", AT_WRONG, false);
    add(r, "sq=20:dqk=96:b=3", AT_UNWRITTEN, false);
    add(r, "sq=30", AT_PASS, false);
    add(r, "sq=31", AT_SKIP, false);
    add(r, "sq=32", AT_PASS, true);
    CHECK_OK(at_report_make(&report, r, NULL, NULL, NULL, false, &err), &err);
    CHECK_INT(report.kinds[AT_WRONG], 3);
    CHECK_INT(report.kinds[AT_PASS], 1);
    CHECK_INT(report.modelled_kinds[AT_PASS], 1);
    CHECK_INT(report.judged, 6);
    CHECK_INT(report.backend_count, 2);
    CHECK(!report.backend[0].modelled && report.backend[1].modelled);
    CHECK(report.backend[0].worst_ratio == 0.25);
    CHECK_INT(report.finding_count, 3);
    CHECK_INT(report.new_count, 3);
    size_t twice = 0;
    for (size_t i = 0; i < report.finding_count; i++) {
        if (report.finding[i].count == 2) {
            twice++;
            CHECK_TEXT(report.finding[i].example->case_text, "sq=20:dqk=96");
        }
    }
    CHECK_INT(twice, 1);
    char line[256];
    at_repro_line(report.finding[0].example, "bin/attest", line, sizeof line);
    CHECK_HAS(line, "bin/attest repro ");
    CHECK_HAS(line, " --backend x --engine e");
    at_report_close(&report);
    at_results_close(r);
}

static void test_waived_findings(void)
{
    at_results *r = open_results("waived");
    at_report report;
    at_error err = {""};
    at_waivers *w = NULL;
    CHECK_OK(
        open_waivers(&w,
                     "{\"backend\":\"x\",\"when\":\"dqk == 96\",\"status\":\"WRONG\",\"issue\":"
                     "\"" URL "\",\"fixed_in\":\"2\"}",
                     &err),
        &err);
    add(r, "dqk=96", AT_WRONG, false);
    add(r, "dqk=80", AT_WRONG, false);
    add(r, "dqk=96:sq=3", AT_PASS, false);
    CHECK_OK(at_report_make(&report, r, NULL, w, NULL, false, &err), &err);
    CHECK_INT(report.kinds[AT_WAIVED], 1);
    CHECK_INT(report.kinds[AT_WRONG], 1);
    CHECK_INT(report.kinds[AT_XPASS], 1);
    CHECK_INT(report.new_count, 2);
    CHECK_INT(report.finding_count, 3);
    CHECK(report.finding[2].waived);
    CHECK_TEXT(report.finding[2].example->issue, URL);
    at_report_close(&report);
    CHECK_OK(at_report_make(&report, r, NULL, NULL, NULL, false, &err), &err); /* it is removed */
    CHECK_INT(report.kinds[AT_WRONG], 2);
    CHECK_INT(report.kinds[AT_PASS], 1);
    at_report_close(&report);
    at_waivers_close(w);
    at_results_close(r);
}

static void test_baseline(void)
{
    at_results *r = open_results("baseline");
    at_report report;
    at_error err = {""};
    at_hosts hosts = {0};
    at_run_facts facts = {.complete = true};
    at_json *baseline = NULL;
    add(r, "dqk=96", AT_WRONG, false);
    CHECK_OK(at_report_make(&report, r, NULL, NULL, NULL, false, &err), &err);
    CHECK_OK(at_summary_write(&report, &hosts, NULL, &facts, &err), &err);
    at_report_close(&report);
    CHECK_OK(at_baseline_open(&baseline, path_of("baseline/summary.json"), &err), &err);
    add(r, "dqk=80", AT_WRONG, false);
    add(r, "dqk=80:mask=causal", AT_WRONG, false);
    CHECK_OK(at_report_make(&report, r, NULL, NULL, baseline, false, &err), &err);
    CHECK_INT(report.finding_count, 2);
    CHECK_INT(report.new_count, 1);
    CHECK_TEXT(report.finding[0].example->case_text, "dqk=80:mask=causal");
    CHECK(report.finding[1].known && !report.finding[1].counts);
    at_report_close(&report);
    at_json_close(baseline);
    at_results_close(r);
    at_tool_write("other.json", "{\"schema\":\"attest-results-1\"}");
    CHECK_INT(at_baseline_open(&baseline, path_of("other.json"), &err), AT_INVALID);
    CHECK_HAS(err.text, "attest-summary-1");
    CHECK(baseline == NULL);
}

static void test_cells(void)
{
    at_results *r = open_results("cells");
    at_report report;
    at_error err = {""};
    add(r, "mask=causal:dtype=f16", AT_WRONG, false);
    add(r, "mask=causal", AT_PASS, false);
    add(r, "sq=8:dtype=f32", AT_UNSUPPORTED_CASE, false);
    add(r, "sq=8:layout=sbhd", AT_VACUOUS, false);
    CHECK_OK(at_report_make(&report, r, NULL, NULL, NULL, false, &err), &err);
    at_json *cells = at_cells_make(&report);
    static const char *const want[][2] = {{"mask=causal", "contradicted"},
                                          {"dtype=bf16", "verified"},
                                          {"dtype=f16", "contradicted"},
                                          {"dtype=f32", "untested"},
                                          {"layout=sbhd", "claimed"}};
    size_t met = 0;
    for (const at_json *m = at_json_first(cells); m != NULL; m = at_json_next(m)) {
        const char *feature = at_json_text(at_json_get(m, "feature"));
        for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
            if (strcmp(feature, want[i][0]) == 0) {
                CHECK_TEXT(at_json_text(at_json_get(m, "state")), want[i][1]);
                met++;
            }
        }
        bool evident = strcmp(at_json_text(at_json_get(m, "state")), "untested") != 0 &&
                       strcmp(at_json_text(at_json_get(m, "state")), "claimed") != 0;
        CHECK(!evident || at_json_size(at_json_get(m, "evidence")) > 0);
    }
    CHECK_INT(met, 5);
    at_json_close(cells);
    at_report_close(&report);
    at_results_close(r);
}

const at_test at_tests[] = {
    {"unit", "waivers_apply", test_waivers_apply},
    {"unit", "bad_waivers", test_bad_waivers},
    {"unit", "regions", test_regions},
    {"unit", "features", test_features},
    {"unit", "xml", test_xml},
    {"unit", "findings", test_findings},
    {"unit", "waived_findings", test_waived_findings},
    {"unit", "baseline", test_baseline},
    {"unit", "cells", test_cells},
    {NULL, NULL, NULL},
};
