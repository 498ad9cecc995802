/* expr: what an expression means, which texts are refused and with which sentence. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/expr.h"

static const char *const kinds[] = {"plain", "fast", "off-by-one", NULL};
static const char *const backends[] = {"fa2", "fa3", NULL};

enum { LET_BAD, LET_SEVEN };

/* fa3 2.8.3, cudnn 9.14.0, fa4 not installed, fused off, level 3, kind fast, two lets. */
static const at_expr_scope *scope(void)
{
    static at_expr_name name[] = {
        {.name = "fa3", .type = AT_EXPR_RELEASE, .slot = -1},
        {.name = "cudnn", .type = AT_EXPR_RELEASE, .slot = -1},
        {.name = "fa4", .type = AT_EXPR_RELEASE, .slot = -1},
        {.name = "month", .type = AT_EXPR_RELEASE, .slot = -1},
        {.name = "fused", .type = AT_EXPR_BOOL, .slot = -1, .value = 0},
        {.name = "flash", .type = AT_EXPR_BOOL, .slot = -1, .value = 1},
        {.name = "te.level", .type = AT_EXPR_INT, .slot = -1, .value = 3},
        {.name = "kind", .type = AT_EXPR_NAME, .slot = -1, .value = 1, .names = kinds},
        {.name = "bad", .type = AT_EXPR_INT, .slot = LET_BAD},
        {.name = "seven", .type = AT_EXPR_INT, .slot = LET_SEVEN},
        {.name = "causal", .type = AT_EXPR_BOOL, .slot = -1, .value = 1}};
    static const at_expr_scope s = {.name = name,
                                    .name_count = sizeof name / sizeof *name,
                                    .backend = backends,
                                    .backend_count = 2};
    at_error err = {""};
    CHECK_OK(at_release_parse(&name[0].release, "2.8.3", 5, &err), &err);
    CHECK_OK(at_release_parse(&name[1].release, "9.14.0", 6, &err), &err);
    CHECK_OK(at_release_parse(&name[2].release, "none", 4, &err), &err);
    CHECK_OK(at_release_parse(&name[3].release, "2025-02", 7, &err), &err);
    return &s;
}

static at_status evaluate(int64_t *out, const char *text, const char *case_text, at_error *err)
{
    static const int64_t slot[] = {[LET_BAD] = 0, [LET_SEVEN] = 7};
    at_expr *e = NULL;
    at_case c;
    at_status status = at_case_parse(&c, case_text, err);
    if (status == AT_OK) {
        status = at_expr_compile(&e, text, scope(), AT_EXPR_ANY, err);
    }
    if (status == AT_OK) {
        const at_expr_frame frame = {
            .c = &c, .arch = c.arch, .on = 2, .slot = slot, .bad = 1 << LET_BAD};
        status = at_expr_eval(out, e, &frame, err);
    }
    at_expr_close(e);
    return status;
}

static void is(int line, const char *text, const char *case_text, int64_t want)
{
    at_error err = {""};
    int64_t got = -77;
    at_status status = evaluate(&got, text, case_text, &err);
    if (status != AT_OK || got != want) {
        at_test_fail(__FILE__, line, "%s of %s is %lld (%s), want %lld", text, case_text,
                     (long long)got, err.text, (long long)want);
    }
}
#define IS(text, case_text, want) is(__LINE__, text, case_text, want)

static void test_arithmetic(void)
{
    IS("1 + 2 * 3 - 4 / 3", "b=1", 6);
    IS("(1 + 2) * 3 % 4", "b=1", 1);
    IS("-7 / 2", "b=1", -3);
    IS("-7 % 3", "b=1", -1);
    IS("- -5", "b=1", 5);
    IS("10 - 3 - 2", "b=1", 5);
    IS("dqk + dv", "dqk=192:dv=128", 320);
    IS("dqk - dv * 2", "dqk=192:dv=128", -64);
    IS("min(dqk, dv)", "dqk=192:dv=128", 128);
    IS("max(1, dqk, dv, 5)", "dqk=192:dv=128", 192);
    IS("gcd(32, ceil_to(dqk, 16) / 2)", "dqk=72", 8);
    IS("gcd(0, 0)", "b=1", 0);
    IS("gcd(-12, 18)", "b=1", 6);
    IS("ceil_to(65, 64)", "b=1", 128);
    IS("ceil_to(64, 64)", "b=1", 64);
    IS("ceil_to(-65, 64)", "b=1", -64);
    IS("ceil_to(0, 7)", "b=1", 0);
    IS("9223372036854775807 - 1", "b=1", INT64_MAX - 1);
    IS("sm", "arch=sm103", 103);
    IS("sm", "arch=cpu", 0);
    IS("seed", "seed=12345678901", 12345678901);
    IS("seven * te.level", "b=1", 21);
    IS("min(seven, 3) + max(b, 9)", "b=4", 12);
}

static void test_conditions(void)
{
    static const char text[] = "hq=8:hkv=2:sq=7:skv=9:dqk=64:dv=96";
    IS("dqk == 64 && dv == 96", text, 1);
    IS("dqk == 64 && dv != 96", text, 0);
    IS("dqk != 64 || dv == 96", text, 1);
    IS("!(dqk < dv) || dqk >= 64 && dqk <= 64", text, 1);
    IS("dqk > 64 || dqk < 64", text, 0);
    IS("dqk < dv && dv > dqk && dqk <= dv && dv >= dqk && dqk != dv", text, 1);
    IS("dqk == dv", text, 0);
    IS("64 == dqk && 65 > dqk && 64 <= dqk && 63 < dqk && 63 != dqk && 64 >= dqk", text, 1);
    IS("dqk in {8, 64, 128}", text, 1);
    IS("dv in {8, 64, 128}", text, 0);
    IS("sq in {1, 7}", text, 1);
    IS("skv in {1, 7}", text, 0);
    IS("hq / hkv in {4}", text, 1);
    IS("dqk % 64 == 0 && dv % 64 == 32", text, 1);
    IS("true && !false", text, 1);
    IS("(dqk == 64) == (dv == 96)", text, 1);
    IS("(dqk == 64) != true", text, 0);
    IS("dqk < -9223372036854775807 - 1", text, 0);
    IS("dqk >= -9223372036854775807 - 1", text, 1);
    IS("dqk <= 9223372036854775807", text, 1);
    IS("dqk > 9223372036854775807", text, 0);
    IS("1 < 2 && 2 <= 2 && 3 > 2 && 2 >= 2 && 2 == 2 && 2 != 3", text, 1);
}

static void test_short_circuit(void)
{
    IS("dqk == 1 && 1 / (dqk - 64) == 0", "dqk=64", 0);
    IS("dqk == 64 || 1 / (dqk - 64) == 0", "dqk=64", 1);
    IS("dqk == 64 || bad == 0", "dqk=64", 1);
    IS("fused && bad == 0", "b=1", 0);
    IS("flash || bad == 0", "b=1", 1);
    IS("flash && dqk == 64", "b=1", 1);
    IS("dqk == 64 && flash", "b=1", 1);
    IS("dqk == 64 && fused", "b=1", 0);
    IS("dqk == 63 || flash", "b=1", 1);
    IS("(dqk == 1 || dqk == 2) && dv == 64 || dqk == 64 && !(dv == 1 || dv == 2)", "b=1", 1);
    IS("(dqk == 1 && flash || dqk == 64) && (fused || dv == 64)", "b=1", 1);
}

static void test_names(void)
{
    IS("mask == causal", "mask=causal", 1);
    IS("mask == causal", "mask=none", 0);
    IS("none == mask", "mask=none", 1);
    IS("mask != none && dtype in {f16, bf16}", "mask=causal:dtype=f16", 1);
    IS("dtype in {f16, bf16}", "dtype=f8e4m3", 0);
    IS("dtype == odt", "dtype=f16", 1);
    IS("bias == 'rel.1h' && amask == \"bool.b1\"", "bias=rel.1h:amask=bool.b1", 1);
    IS("bias == rel.1h", "bias=rel.1h", 1);
    IS("align == br", "mask=causal:align=br", 1);
    IS("align == tl", "mask=causal", 1);
    IS("align >= 0 && align == 5", "mask=causal:align=5", 1);
    IS("wl == -1 && wr == -1", "mask=causal", 1);
    IS("wl in {-1, 127}", "mask=causal:wl=127", 1);
    IS("pass == train && !det", "b=1", 1);
    IS("det == 1", "det=1", 1);
    IS("0 == det", "det=1", 0);
    IS("grads == qkv", "b=1", 1);
    IS("'b' in grads", "bias=rel.11:grads=qkvb", 1);
    IS("'b' in grads", "b=1", 0);
    IS("has(lenq)", "b=2:layout=thd:lenq=3+4:lenkv=3+4:sq=4:skv=4", 1);
    IS("has(lenq)", "b=1", 0);
    IS("arch == sm90 && sm >= 90", "arch=sm90", 1);
    IS("arch in {sm80, sm90}", "arch=sm100", 0);
    IS("kind == fast", "b=1", 1);
    IS("kind == 'off-by-one'", "b=1", 0);
    IS("kind in {plain, 'fast'}", "b=1", 1);
    IS("on.fa3 && !on.fa2", "b=1", 1);
    IS("layout == thd || lens != none", "lens=random", 1);
}

static void test_reals(void)
{
    IS("softcap > 0", "softcap=30", 1);
    IS("softcap == 30 && softcap != 29.5 && softcap >= 30 && softcap <= 30.0", "softcap=30", 1);
    IS("0.5 > dropout && dropout != 0", "dropout=0.125", 1);
    IS("dropout < 1", "b=1", 1);
    IS("scale == auto", "b=1", 1);
    IS("scale == auto", "scale=0.25", 0);
    IS("scale == 0.25", "scale=0.25", 1);
    IS("softcap > dqk", "softcap=65", 1);
    IS("dqk < softcap", "softcap=63", 0);
    IS("1.5 < 2", "b=1", 1);
}

static void test_releases(void)
{
    IS("fa3 == v2.8.3 && fa3 >= 2.8.3 && fa3 > 2.8 && fa3 < v2.10", "b=1", 1);
    IS("cudnn < 9.14.1 && cudnn > 9.2.0 && cudnn >= 9 && cudnn < 10", "b=1", 1);
    IS("9.13 <= cudnn", "b=1", 1);
    IS("cudnn in {9.13.0, 9.14.0}", "b=1", 1);
    IS("cudnn in {9.13.0, 9.14.1}", "b=1", 0);
    IS("has(cudnn) && !has(fa4)", "b=1", 1);
    IS("fa4 == fa4", "b=1", 0);
    IS("fa4 != v1.0 && !(fa4 < v1.0) && !(fa4 >= v1.0) && !(fa4 in {v1.0})", "b=1", 1);
    IS("month == v2025-02 && month < v2025-04 && month < v2025-02-03", "b=1", 1);
    IS("v4.0.0b11 < v4.0.0b27 && 4.0.0b27 < 4.0.0rc1 && 4.0.0rc1 < 4.0.0", "b=1", 1);
    IS("v2.8.3 < v2.8.3.post1 && v2.8.3.post1 < v2.8.4 && v3.0.0.b1 == v3.0.0b1", "b=1", 1);
    IS("v4.0.0.dev1 < v4.0.0a1 && v4.0.0alpha2 < v4.0.0beta1 && v2.11.0 == v2.11", "b=1", 1);
}

static void refused(int line, const char *text, const char *part)
{
    at_error err = {""};
    at_expr *e = NULL;
    at_status status = at_expr_compile(&e, text, scope(), AT_EXPR_BOOL, &err);
    if (status != AT_INVALID || strstr(err.text, part) == NULL || e != NULL) {
        at_test_fail(__FILE__, line, "%s: status %d, \"%s\", want \"%s\"", text, (int)status,
                     err.text, part);
    }
    at_expr_close(e);
}
#define REFUSED(text, part) refused(__LINE__, text, part)

static void test_refused_texts(void)
{
    REFUSED("", "column 1: a value is missing at the end");
    REFUSED("dqk ==", "column 7: a value is missing at the end");
    REFUSED("dqk == )", "column 8: a value is missing before \")\"");
    REFUSED("(dqk == 1", "column 10: ')' is missing at the end");
    REFUSED("dqk == 1 dv", "column 10: \"dv\" is not expected here");
    REFUSED("dqk = 1", "column 5: '=' means nothing here");
    REFUSED("dqk & 1", "column 5: '&' means nothing here");
    REFUSED("dqk == 1 \x01", "column 10: the byte 0x01 means nothing here");
    REFUSED("mask == 'causal", "column 9: the quote is not closed");
    REFUSED("dqk == 3x", "column 8: a number ends in letters");
    REFUSED("dqk == 99999999999999999999", "column 8: the number does not fit 64 bits");
    REFUSED("cudnn > v1.2.3x", "column 9: \"v1.2.3x\" is no version");
    REFUSED("cudnn > 1.2.3.4.5.6.7.8.9", "column 9: \"1.2.3.4.5.6.7.8.9\" is no version");
    REFUSED("0 < dqk < 9", "column 9: comparisons do not chain; join them with &&");
    REFUSED("dqk in {1} in {2}", "column 12: comparisons do not chain");
    REFUSED("dqk in {}", "column 9: a value is missing before \"}\"");
    REFUSED("dqk in {1, 2", "column 13: '}' is missing at the end");
    REFUSED("dqk in 3", "after `in` stands { with the accepted values");
    REFUSED("dqk in grads", "after `in` stands { with the accepted values");
    REFUSED("dqk in {dv}", "column 9: a set holds constants");
    REFUSED("softcap in {30}", "`in` is not for real numbers");
    REFUSED("dqk in {1.5}", "not real numbers");
}

static void test_refused_types(void)
{
    REFUSED("dqk", "column 1: a condition is needed here, not an integer");
    REFUSED("dqk && true", "column 1: a condition is needed here, not an integer");
    REFUSED("true && dqk", "column 9: a condition is needed here, not an integer");
    REFUSED("!dqk", "column 2: a condition is needed here, not an integer");
    REFUSED("-mask == 1", "column 2: an integer is needed here, not one of a list of names");
    REFUSED("mask + 1 == 2", "column 1: an integer is needed here");
    REFUSED("1 + softcap == 2", "column 5: an integer is needed here, not a real number");
    REFUSED("dqkk == 1", "column 1: the unknown name \"dqkk\" means nothing here");
    REFUSED("foo == bar", "column 1: the unknown name \"foo\" means nothing here");
    REFUSED("foo", "column 1: a condition is needed here, not the unknown name \"foo\"");
    REFUSED("mask == casual", "\"casual\" is no value of \"mask\"; accepted: none, causal, band");
    REFUSED("dtype in {f16, f17}", "\"f17\" is no value of \"dtype\"");
    REFUSED("kind == slow", "\"slow\" is no value of \"kind\"; accepted: plain, fast, off-by-one");
    REFUSED("mask == dtype", "their names differ");
    REFUSED("causal == mask", "column 8: a condition and one of a list of names cannot be");
    REFUSED("mask < causal", "one of a list of names has no order; == and != are accepted");
    REFUSED("det < 1", "a condition has no order");
    REFUSED("det == 2", "a condition and an integer cannot be compared");
    REFUSED("cudnn == mask", "a version and one of a list of names cannot be compared");
    REFUSED("month == 2025-02", "a version and an integer cannot be compared");
    REFUSED("cudnn > 1 + 2", "a version and an integer cannot be compared");
    REFUSED("lenq == 1", "the list \"lenq\" and an integer cannot be compared");
    REFUSED("grads == xyz", "\"xyz\" is no value of \"grads\"; accepted: q, k, v, b, s");
    REFUSED("'z' in grads", "\"z\" is no value of \"grads\"");
    REFUSED("on.fa9", "column 1: no backend is called \"fa9\"; known: fa2, fa3");
    REFUSED("has(dqk)", "column 5: has() asks for a version or a list, not an integer");
    REFUSED("has(1)", "column 5: has() asks for the name of a version or a list");
    REFUSED("min(1) == 1", "column 1: min takes two integers or more");
    REFUSED("gcd(1, 2, 3) == 1", "column 9: ')' is missing before \",\"");
    REFUSED("ceil_to(1, true) == 1", "column 12: an integer is needed here");
    REFUSED("abs(1) == 1", "column 1: no function is called \"abs\"; known: min, max, gcd");
}

static void fails(int line, const char *text, const char *part)
{
    at_error err = {""};
    int64_t value = 0;
    at_status status = evaluate(&value, text, "dqk=64:seed=18446744073709551615", &err);
    if (status != AT_INVALID || strstr(err.text, part) == NULL) {
        at_test_fail(__FILE__, line, "%s: status %d, \"%s\", want \"%s\"", text, (int)status,
                     err.text, part);
    }
}
#define FAILS(text, part) fails(__LINE__, text, part)

static void test_evaluation_errors(void)
{
    FAILS("1 / (dqk - 64)", "column 3: division by zero");
    FAILS("1 % (dqk - 64)", "column 3: division by zero");
    FAILS("1 / 0", "column 3: division by zero");
    FAILS("9223372036854775807 + dqk", "column 21: the result does not fit 64 bits");
    FAILS("-9223372036854775807 - dqk", "column 22: the result does not fit 64 bits");
    FAILS("9223372036854775807 * dqk", "column 21: the result does not fit 64 bits");
    FAILS("(-9223372036854775807 - 1) / (63 - dqk)", "column 28: the result does not fit");
    FAILS("-(-9223372036854775807 - 1)", "column 1: the result does not fit 64 bits");
    FAILS("gcd(-9223372036854775807 - 1, dqk)", "column 1: the result does not fit 64 bits");
    FAILS("ceil_to(9223372036854775807, dqk)", "column 1: the result does not fit 64 bits");
    FAILS("ceil_to(1, dqk - 64)", "column 1: the step of ceil_to must be positive");
    FAILS("seed", "column 1: the number does not fit a signed 64-bit integer");
    FAILS("bad + 1", "column 1: the let used here has no value");
    IS("(-9223372036854775807 - 1) % (63 - dqk)", "dqk=64", 0);
}

static void test_limits(void)
{
    char text[6000];
    at_error err = {""};
    at_expr *e = NULL;
    memset(text, '(', 65);
    (void)strcpy(text + 65, "true");
    REFUSED(text, "nested deeper than 64");
    memset(text, '!', 100);
    (void)strcpy(text + 100, "true");
    REFUSED(text, "nested deeper than 64");
    memset(text, ' ', 5000);
    (void)strcpy(text + 5000, "true");
    REFUSED(text, "the expression has 5004 bytes, at most 4096 are read");
    memset(text, '(', 63);
    (void)strcpy(text + 63, "true");
    memset(text + 67, ')', 63);
    text[130] = '\0';
    CHECK_OK(at_expr_compile(&e, text, NULL, AT_EXPR_BOOL, &err), &err);
    at_expr_close(e);
    size_t n = 0;
    for (int i = 0; i < 55; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "max(1,dqk+2*(");
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "1");
    REFUSED(text, "nested deeper than 64");
    REFUSED("max(1,max(1,max(1,", "column 19: a value is missing at the end");
    n = 0;
    for (int i = 0; i < 450; i++) { /* a long chain nests nothing */
        n += (size_t)snprintf(text + n, sizeof text - n, "%sdv != 1", i > 0 ? "&&" : "");
    }
    IS(text, "dqk=64", 1);
    IS(text, "dv=1", 0);
}

static void test_made_of(void)
{
    at_error err = {""};
    at_expr *e = NULL;
    int64_t value = 0;
    const char *const *spellings = NULL;
    CHECK_OK(at_expr_compile(&e, "fused && dqk != dv && seven == 7", scope(), AT_EXPR_BOOL, &err),
             &err);
    CHECK(at_expr_constant(e, &value, NULL));
    CHECK_INT(value, 0);
    CHECK_INT(at_expr_slots(e), 0);
    uint64_t keys = (uint64_t)1 << (at_case_field("dqk", 3) - at_case_fields) |
                    (uint64_t)1 << (at_case_field("dv", 2) - at_case_fields);
    CHECK(at_expr_keys(e) == keys);
    at_expr_close(e);
    CHECK_OK(at_expr_compile(&e, "seven + b", scope(), AT_EXPR_ANY, &err), &err);
    CHECK(!at_expr_constant(e, &value, NULL));
    CHECK_INT(at_expr_slots(e), 1 << LET_SEVEN);
    CHECK_INT(at_expr_kind(e, &spellings), AT_EXPR_INT);
    CHECK(spellings == NULL);
    at_expr_close(e);
    CHECK_OK(at_expr_compile(&e, "kind", scope(), AT_EXPR_ANY, &err), &err);
    CHECK_INT(at_expr_kind(e, &spellings), AT_EXPR_NAME);
    CHECK(spellings == kinds);
    at_expr_close(e);
    CHECK(at_expr_name_usable("te.cp") && at_expr_name_usable("a_1"));
    CHECK(!at_expr_name_usable("") && !at_expr_name_usable("1a") && !at_expr_name_usable("a-b") &&
          !at_expr_name_usable("dqk") && !at_expr_name_usable("on.x") &&
          !at_expr_name_usable("max") && !at_expr_name_usable("v2") &&
          !at_expr_name_usable("a b") && !at_expr_name_usable("arch"));
}

const at_test at_tests[] = {{"unit", "arithmetic", test_arithmetic},
                            {"unit", "conditions", test_conditions},
                            {"unit", "short-circuit", test_short_circuit},
                            {"unit", "names", test_names},
                            {"unit", "reals", test_reals},
                            {"unit", "releases", test_releases},
                            {"unit", "refused-texts", test_refused_texts},
                            {"unit", "refused-types", test_refused_types},
                            {"unit", "evaluation-errors", test_evaluation_errors},
                            {"unit", "limits", test_limits},
                            {"unit", "made-of", test_made_of},
                            {NULL, NULL, NULL}};
