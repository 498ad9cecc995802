/* Cases as JSON and from bytes: round trips, strictness, totality, reach. */
#include "harness/tests/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/field.h"

static void same_through_json(const at_case *c)
{
    at_error err = {""};
    at_json *object = at_case_to_json(c), *read = NULL;
    char *text = at_json_print(object, false);
    at_case again;
    at_case_init(&again);
    CHECK_OK(at_json_parse(&read, "case", text, strlen(text), &err), &err);
    CHECK_OK(at_case_from_json(&again, read, &err), &err);
    if (!at_case_equal(c, &again)) {
        at_test_fail(__FILE__, __LINE__, "%s reads back as another case", text);
    }
    free(text);
    at_json_close(read);
    at_json_close(object);
}

static void json_is(const char *text, const char *json)
{
    at_case c;
    at_error err = {""};
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    at_json *object = at_case_to_json(&c);
    char *printed = at_json_print(object, false);
    CHECK_TEXT(printed, json);
    free(printed);
    at_json_close(object);
    same_through_json(&c);
}

static void test_to_json(void)
{
    json_is("b=1", "{}");
    json_is(
        "hq=8:hkv=2:dtype=f16:softcap=50:seed=18446744073709551615",
        "{\"hq\":8,\"hkv\":2,\"dtype\":\"f16\",\"softcap\":50,\"seed\":\"18446744073709551615\"}");
    json_is("mask=causal:align=br:wl=5:scale=0.1:grads=qv",
            "{\"mask\":\"causal\",\"align\":\"br\",\"wl\":5,\"scale\":0.1,\"grads\":\"qv\"}");
    json_is("mask=band:align=7:wr=0", "{\"mask\":\"band\",\"align\":7,\"wr\":0}");
    json_is("b=2:lenq=3+2:lenkv=64+0", "{\"b\":2,\"lenq\":[3,2],\"lenkv\":[64,0]}");
}

static void refuses_json(const char *json, const char *part)
{
    at_error err = {""};
    at_json *read = NULL;
    at_case c;
    CHECK_OK(at_json_parse(&read, "case", json, strlen(json), &err), &err);
    if (at_case_from_json(&c, read, &err) != AT_INVALID) {
        at_test_fail(__FILE__, __LINE__, "%s is accepted", json);
    }
    CHECK_HAS(err.text, part);
    at_json_close(read);
}

static void test_from_json(void)
{
    refuses_json("[]", "a case must be an object, it is an array");
    refuses_json("{\"hqq\":1}", "unknown key \"hqq\"");
    refuses_json("{\"hq\":\"16\"}", "\"hq\" must be a number, it is a string");
    refuses_json("{\"hq\":true}", "\"hq\" must be a number, it is true or false");
    refuses_json("{\"hq\":1.5}", "hq=1.5 is not accepted");
    refuses_json("{\"hq\":1e300}", "hq=1e+300 is not accepted");
    refuses_json("{\"hq\":null}", "\"hq\" must be a number, it is null");
    refuses_json("{\"hq\":[1]}", "\"hq\" must be a number, it is an array");
    refuses_json("{\"dtype\":1}", "\"dtype\" must be a string, it is a number");
    refuses_json("{\"dtype\":\"fp16\"}", "dtype=fp16 is not accepted");
    refuses_json("{\"align\":\"bl\"}", "\"align\" must be a number");
    refuses_json("{\"scale\":\"0.5\"}", "\"scale\" must be a number");
    refuses_json("{\"seed\":5}", "\"seed\" must be a string, it is a number");
    refuses_json("{\"lenq\":\"3\"}", "\"lenq\" must be an array, it is a string");
    refuses_json("{\"lenq\":[\"3\"]}", "\"lenq\" must be an array of at most 64 lengths");
    refuses_json("{\"lenq\":[1.5]}", "lenq=1.5 is not accepted");
    refuses_json("{\"hq\":3,\"hkv\":2}", "hq=3 is not a multiple of hkv=2");
    char many[1200] = "{\"lenq\":[0";
    for (int i = 0; i < 80; i++) {
        (void)strcat(many, ",0");
    }
    refuses_json(strcat(many, "]}"), "lenq=0+0");
    static const char defaults[] = "{\"scale\":\"auto\",\"align\":\"tl\",\"lenq\":[]}";
    at_json *read = NULL;
    at_error err = {""};
    at_case c;
    CHECK_OK(at_json_parse(&read, "c", defaults, sizeof defaults - 1, &err), &err);
    CHECK_OK(at_case_from_json(&c, read, &err), &err);
    at_json_close(read);
}

/* Every index of every row that names values, and the ends of every integer row. */
typedef struct reach {
    uint64_t names[64]; /* bit i: value i of an ENUM, name i of an INT, bit pattern of a SET */
    uint64_t least[64]; /* INT: min was seen; LIST: given; REAL: not the default; U64: high bits */
} reach;

static void note(reach *seen, const at_case *c)
{
    for (size_t i = 0; i < at_case_field_count; i++) {
        const at_field *f = &at_case_fields[i];
        if (f->kind == AT_FIELD_REAL) {
            seen->least[i] |= !at_case_is_default(c, f);
            continue;
        }
        if (f->kind == AT_FIELD_LIST) {
            seen->least[i] |= at_case_get_list(c, f)->n > 0;
            continue;
        }
        int64_t value = at_case_get(c, f);
        if (f->kind == AT_FIELD_ENUM || f->kind == AT_FIELD_SET) {
            seen->names[i] |= UINT64_C(1) << value;
        } else if (f->kind == AT_FIELD_INT) {
            seen->least[i] |= value == f->min;
            seen->names[i] |= f->names != NULL && value < 0 ? UINT64_C(1) << (-1 - value) : 0;
        } else {
            seen->least[i] |= (uint64_t)value >> 63;
        }
    }
}

static void check_reach(const reach *seen)
{
    for (size_t i = 0; i < at_case_field_count; i++) {
        const at_field *f = &at_case_fields[i];
        int n = 0;
        for (; f->names != NULL && f->names[n] != NULL; n++) {
        }
        uint64_t all = f->kind == AT_FIELD_SET ? (UINT64_C(1) << ((1 << n) - 1) << 1) - 2
                       : n > 0 && f->kind != AT_FIELD_REAL ? (UINT64_C(1) << n) - 1
                                                           : 0;
        if (seen->names[i] != all) {
            at_test_fail(__FILE__, __LINE__, "%s: names %" PRIx64 " of %" PRIx64 " are reached",
                         f->key, seen->names[i], all);
        }
        if (f->kind != AT_FIELD_ENUM && f->kind != AT_FIELD_SET && seen->least[i] == 0) {
            at_test_fail(__FILE__, __LINE__, "%s: the end of its range is not reached", f->key);
        }
    }
}

static void check_small(const at_case *c)
{
    CHECK(c->batch <= 4 && c->heads_q <= 8 && c->heads_kv <= 8 && c->heads_v <= 8);
    CHECK(c->len_q <= 512 && c->len_kv <= 512 && c->dim_qk <= 256 && c->dim_v <= 256);
    CHECK(c->invalid == 0);
}

static void test_bytes(void)
{
    static reach seen;
    uint8_t bytes[96];
    uint64_t state = 1;
    at_case c, again;
    at_error err = {""};
    for (int round = 0; round < 1000000; round++) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            bytes[i] = (uint8_t)(state >> 56);
        }
        at_case_from_bytes(&c, bytes, state >> 32 & 1 ? sizeof bytes : state >> 33 & 63);
        note(&seen, &c);
        if (at_case_check(&c, &err) != AT_OK) {
            at_test_fail(__FILE__, __LINE__, "round %d: %s", round, err.text);
            return;
        }
        check_small(&c);
        if (round % 64 == 0) {
            char text[AT_CASE_TEXT_MAX];
            (void)at_case_print(&c, text);
            CHECK_OK(at_case_parse(&again, text, &err), &err);
            CHECK(at_case_equal(&c, &again));
            same_through_json(&c);
        }
    }
    check_reach(&seen);
}

static void test_short_bytes(void)
{
    at_case c, first;
    at_case_from_bytes(&first, NULL, 0);
    CHECK_INT(first.batch, 0);
    CHECK_INT(first.heads_q, 1);
    CHECK_INT(first.len_q, 0);
    for (unsigned i = 0; i < 65536; i++) {
        uint8_t bytes[2] = {(uint8_t)i, (uint8_t)(i >> 8)};
        at_case_from_bytes(&c, bytes, 1 + (i > 255));
        CHECK(at_case_check(&c, NULL) == AT_OK);
    }
    uint8_t zeros[200] = {0};
    for (size_t n = 0; n <= sizeof zeros; n++) {
        at_case_from_bytes(&c, zeros, n);
        CHECK(at_case_equal(&c, &first)); /* a missing byte is a zero byte */
    }
    uint8_t ones[200];
    memset(ones, 255, sizeof ones);
    for (size_t n = 0; n <= sizeof ones; n++) {
        at_case_from_bytes(&c, ones, n);
        CHECK(at_case_check(&c, NULL) == AT_OK);
    }
}

const at_test at_tests[] = {
    {"unit", "to_json", test_to_json},
    {"unit", "from_json", test_from_json},
    {"unit", "bytes", test_bytes},
    {"unit", "short_bytes", test_short_bytes},
    {NULL, NULL, NULL},
};
