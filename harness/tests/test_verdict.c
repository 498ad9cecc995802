/* verdict.c: names, classes, severity, and a JSON round trip that loses nothing. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/judge/verdict.h"

static void test_kinds(void)
{
    for (int i = 0; i < AT_KIND_COUNT; i++) {
        at_kind kind = AT_KIND_COUNT;
        CHECK(at_kind_parse(&kind, at_kind_names[i]));
        CHECK_INT(kind, i);
        const char *doc = at_kind_doc((at_kind)i);
        CHECK(doc != NULL && strlen(doc) > 20 && doc[strlen(doc) - 1] == '.');
    }
    at_kind kind = AT_PASS;
    CHECK(!at_kind_parse(&kind, "pass"));
    CHECK(!at_kind_parse(&kind, ""));
    CHECK_TEXT(at_class_name(at_kind_class(AT_PASS)), "ok");
    CHECK_TEXT(at_class_name(at_kind_class(AT_UNSUPPORTED_CASE)), "neutral");
    CHECK_TEXT(at_class_name(at_kind_class(AT_OVER_REFUSED)), "neutral");
    CHECK_TEXT(at_class_name(at_kind_class(AT_WRONG)), "fail");
    CHECK_TEXT(at_class_name(at_kind_class(AT_FALLBACK)), "fail");
    CHECK_TEXT(at_class_name(at_kind_class(AT_ERROR)), "error");
    CHECK_INT(at_kind_worse(AT_PASS, AT_VACUOUS), AT_VACUOUS);
    CHECK_INT(at_kind_worse(AT_NONFINITE, AT_WRONG), AT_NONFINITE);
    CHECK_INT(at_kind_worse(AT_ERROR, AT_FALLBACK), AT_ERROR);
}

static void set_reason(at_reason *r, const char *code, const char *text)
{
    (void)snprintf(r->code, sizeof r->code, "%s", code);
    (void)snprintf(r->text, sizeof r->text, "%s", text);
}

static void fill_verdict(at_verdict *v)
{
    at_verdict_init(v);
    v->teeth_caught = 28;
    v->teeth_total = 30;
    v->share = 0.125;
    v->step[AT_STEP_CLAIM].ran = true;
    at_step_verdict *f = &v->step[AT_STEP_FORWARD], *b = &v->step[AT_STEP_BACKWARD];
    f->ran = b->ran = true;
    f->ms = 0.1;
    b->ms = 12.75;
    f->m[AT_O] = (at_measure){.judged = true, .max_ratio = 0.3, .max_z = 2.5, .total = 64};
    b->kind = AT_NONFINITE;
    set_reason(&b->reason, "class_nan", "dv[0 1 2 3] is NaN.");
    at_measure *m = &b->m[AT_DV];
    *m = (at_measure){.judged = true, .kind = AT_NONFINITE, .index = {0, 1, 2, 3}, .want = 1.0 / 3};
    m->reason = b->reason;
    m->max_ratio = HUGE_VAL;
    m->got = (double)NAN;
    m->bound = -HUGE_VAL;
    m->max_z = 1e300;
    m->rms_z = 5e-324;
    m->row_rms_z = 3;
    m->bias_z = 4;
    m->tile_rms_z = 5;
    m->block_rms_z = 6;
    m->max_error = 0.25;
    m->outliers = 8;
    m->compared = 9;
    for (int i = 0; i < AT_STAT_COUNT; i++) {
        m->score[i] = 10 + i;
    }
    m->sensitivity = 0.6;
    m->wrong = 7;
    m->total = INT64_C(1) << 40;
    at_verdict_settle(v);
}

static void test_settle(void)
{
    at_verdict v;
    at_verdict_init(&v);
    v.kind = AT_CRASH;
    at_verdict_settle(&v); /* no step ran: the runner's own word stands */
    CHECK_INT(v.kind, AT_CRASH);
    fill_verdict(&v);
    CHECK_INT(v.kind, AT_NONFINITE);
    CHECK_TEXT(v.reason.code, "class_nan");
    v.step[AT_STEP_BACKWARD].kind = AT_PASS;
    set_reason(&v.step[AT_STEP_BACKWARD].reason, "", "");
    at_verdict_settle(&v);
    CHECK_INT(v.kind, AT_PASS);
    CHECK_TEXT(v.reason.code, "");
}

static void check_real(double got, double want)
{
    CHECK(got == want || (isnan(got) && isnan(want)));
}

static void check_measure(const at_measure *got, const at_measure *want)
{
    CHECK_INT(got->judged, want->judged);
    CHECK_INT(got->kind, want->kind);
    CHECK_TEXT(got->reason.code, want->reason.code);
    CHECK_TEXT(got->reason.text, want->reason.text);
    check_real(got->max_ratio, want->max_ratio);
    check_real(got->max_z, want->max_z);
    check_real(got->rms_z, want->rms_z);
    check_real(got->row_rms_z, want->row_rms_z);
    check_real(got->bias_z, want->bias_z);
    check_real(got->tile_rms_z, want->tile_rms_z);
    check_real(got->block_rms_z, want->block_rms_z);
    check_real(got->max_error, want->max_error);
    CHECK_INT(got->outliers, want->outliers);
    CHECK_INT(got->compared, want->compared);
    for (int i = 0; i < AT_STAT_COUNT; i++) {
        check_real(got->score[i], want->score[i]);
    }
    check_real(got->got, want->got);
    check_real(got->want, want->want);
    check_real(got->bound, want->bound);
    check_real(got->sensitivity, want->sensitivity);
    CHECK_INT(got->wrong, want->wrong);
    CHECK_INT(got->total, want->total);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(got->index[i], want->index[i]);
    }
}

static void test_round_trip(void)
{
    at_verdict v, back;
    fill_verdict(&v);
    at_json *object = at_json_object(), *again = NULL;
    at_json_put_text(object, "schema", "attest-results-1"); /* other members are not its business */
    at_verdict_to_json(&v, object);
    char *text = at_json_print(object, false);
    at_error err = {""};
    CHECK_HAS(text, "\"got\":\"nan\"");
    CHECK_HAS(text, "\"teeth\":{\"caught\":28,\"total\":30}");
    CHECK_HAS(text, "\"index\":[0,1,2,3]");
    CHECK_OK(at_json_parse(&again, "line", text, strlen(text), &err), &err);
    CHECK_OK(at_verdict_from_json(&back, again, &err), &err);
    CHECK_INT(back.kind, v.kind);
    CHECK_TEXT(back.reason.code, v.reason.code);
    CHECK_TEXT(back.reason.text, v.reason.text);
    CHECK_INT(back.teeth_caught, 28);
    CHECK_INT(back.teeth_total, 30);
    check_real(back.share, v.share);
    for (int i = 0; i < AT_STEP_COUNT; i++) {
        CHECK_INT(back.step[i].ran, v.step[i].ran);
        CHECK_INT(back.step[i].kind, v.step[i].kind);
        check_real(back.step[i].ms, v.step[i].ms);
        CHECK_TEXT(back.step[i].reason.text, v.step[i].reason.text);
        for (int t = 0; t < AT_TENSOR_COUNT; t++) {
            check_measure(&back.step[i].m[t], &v.step[i].m[t]);
        }
    }
    at_json_close(again);
    at_json_close(object);
    free(text);
}

static void refuses(const char *text, const char *part)
{
    at_json *root = NULL;
    at_error err = {""};
    at_verdict v;
    CHECK_OK(at_json_parse(&root, "t", text, strlen(text), &err), &err);
    CHECK_INT(at_verdict_from_json(&v, root, &err), AT_INVALID);
    CHECK_HAS(err.text, part);
    at_json_close(root);
}

static void test_bad_json(void)
{
    refuses("{}", "\"status\" is missing");
    refuses("{\"status\":\"FINE\"}", "unknown status \"FINE\"");
    refuses("{\"status\":\"PASS\",\"steps\":[1]}", "step");
    refuses("{\"status\":\"PASS\",\"steps\":{}}", "\"steps\" must be an array");
    refuses("{\"status\":\"PASS\",\"steps\":[{\"step\":\"sideways\",\"status\":\"PASS\"}]}",
            "unknown step \"sideways\"");
    refuses("{\"status\":\"PASS\",\"steps\":[{\"step\":\"claim\",\"status\":\"PASS\"},"
            "{\"step\":\"claim\",\"status\":\"PASS\"}]}",
            "stands twice");
    refuses("{\"status\":\"PASS\",\"steps\":[{\"step\":\"forward\",\"status\":\"PASS\","
            "\"tensors\":{\"p\":{}}}]}",
            "tensor \"p\"");
    refuses("{\"status\":\"PASS\",\"steps\":[{\"step\":\"forward\",\"status\":\"PASS\","
            "\"tensors\":{\"o\":{\"status\":\"PASS\",\"got\":\"big\"}}}]}",
            "\"got\" must be a number");
    refuses("{\"status\":\"PASS\",\"steps\":[{\"step\":\"forward\",\"status\":\"PASS\","
            "\"tensors\":{\"o\":{\"status\":\"PASS\",\"index\":[1,2]}}}]}",
            "4 integers");
    refuses("{\"status\":\"PASS\",\"teeth\":{\"caught\":2,\"total\":1}}", "caught <= total");
}

const at_test at_tests[] = {
    {"unit", "kinds", test_kinds},
    {"unit", "settle", test_settle},
    {"unit", "round_trip", test_round_trip},
    {"unit", "bad_json", test_bad_json},
    {NULL, NULL, NULL},
};
