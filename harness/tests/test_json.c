/* json.c: what is read, what is refused and with which sentence, what is written. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/json.h"

static void refuses(const char *text, const char *part)
{
    at_json *root = NULL;
    at_error err = {""};
    CHECK_INT(at_json_parse(&root, "t.json", text, strlen(text), &err), AT_INVALID);
    CHECK(root == NULL);
    CHECK_HAS(err.text, part);
    at_json_close(root);
}

static void test_parse_errors(void)
{
    refuses("", "t.json:1:1: the file is empty");
    refuses("{\"a\":1,\n \"b\":}", "t.json:2:");
    refuses("{} {}", "t.json:1:4: text after the end");
    refuses("{\"a\":1,\"a\":2}", "\"a\" stands twice");
    char deep[600];
    memset(deep, '[', 300);
    memset(deep + 300, ']', 299);
    deep[599] = '\0';
    refuses(deep, "t.json:1:");
    deep[599] = ']';
    at_json *root = NULL;
    at_error err = {""};
    CHECK_INT(at_json_parse(&root, "t.json", deep, 600, &err), AT_INVALID);
    CHECK_HAS(err.text, "nested deeper than 200");
    CHECK_INT(at_json_parse(&root, "t.json", "1\0 2", 4, &err), AT_INVALID);
    CHECK_HAS(err.text, "NUL");
    CHECK_INT(at_json_load(&root, "/nonexistent.json", &err), AT_IO);
    CHECK_HAS(err.text, "/nonexistent.json: cannot be read");
    CHECK_INT(at_json_load(&root, "/", &err), AT_IO);
}

static void test_typed_members(void)
{
    static const char text[] = "{\"s\":\"x\",\"i\":7,\"r\":1.5,\"b\":true,\"a\":[1,2],\"o\":{}}";
    at_json *root = NULL;
    at_error err = {""};
    CHECK_OK(at_json_parse(&root, "t", text, sizeof text - 1, &err), &err);
    const char *s = NULL;
    int64_t i = 0;
    double r = 0;
    bool b = false;
    const at_json *a = NULL;
    CHECK_OK(at_json_want_text(root, "s", true, &s, &err), &err);
    CHECK_TEXT(s, "x");
    CHECK_OK(at_json_want_integer(root, "i", true, &i, &err), &err);
    CHECK_INT(i, 7);
    CHECK_OK(at_json_want_number(root, "r", true, &r, &err), &err);
    CHECK(r == 1.5);
    CHECK_OK(at_json_want_bool(root, "b", true, &b, &err), &err);
    CHECK(b);
    CHECK_OK(at_json_want_array(root, "a", true, &a, &err), &err);
    CHECK_INT(at_json_size(a), 2);
    CHECK_INT(at_json_want_integer(root, "r", true, &i, &err), AT_INVALID);
    CHECK_HAS(err.text, "\"r\" must be an integer");
    CHECK_INT(at_json_want_text(root, "i", true, &s, &err), AT_INVALID);
    CHECK_HAS(err.text, "\"i\" must be a string, it is a number");
    CHECK_INT(at_json_want_text(root, "z", true, &s, &err), AT_INVALID);
    CHECK_HAS(err.text, "\"z\" is missing");
    CHECK_OK(at_json_want_text(root, "z", false, &s, &err), &err);
    static const char *const keys[] = {"s", "i", "r", "b", "a", NULL};
    CHECK_INT(at_json_only_keys(root, keys, &err), AT_INVALID);
    CHECK_HAS(err.text, "unknown member \"o\"; accepted: s, i, r, b, a");
    at_json_close(root);
}

static void test_print(void)
{
    at_json *root = at_json_object();
    at_json_put_number(root, "inf", (double)INFINITY);
    at_json_put_number(root, "tenth", 0.1);
    at_json_put_integer(root, "big", INT64_MAX);
    at_json_put_text(root, "t", "a\"b\n");
    char *text = at_json_print(root, false);
    CHECK_TEXT(text,
               "{\"inf\":\"inf\",\"tenth\":0.1,\"big\":9223372036854775807,\"t\":\"a\\\"b\\n\"}");
    free(text);
    at_json_close(root);
    char real[AT_REAL_TEXT];
    CHECK_INT(at_real_print(0.1, real), 3);
    CHECK_TEXT(real, "0.1");
    (void)at_real_print(1.0 / 3, real);
    CHECK(strtod(real, NULL) == 1.0 / 3);
    (void)at_real_print(50, real);
    CHECK_TEXT(real, "50");
    (void)at_real_print(-1e14, real);
    CHECK_TEXT(real, "-100000000000000");
    (void)at_real_print(1e15, real);
    CHECK_TEXT(real, "1e+15");
    (void)at_real_print(-(double)NAN, real);
    CHECK_TEXT(real, "nan");
}

/* The text is the first %.Ng that reads back, whichever way it is made. */
static void same_real(double value)
{
    char text[AT_REAL_TEXT], want[AT_REAL_TEXT] = "nan";
    for (int digits = 1; digits <= 17 && strtod(want, NULL) != value; digits++) {
        (void)snprintf(want, sizeof want, "%.*g", digits, value);
    }
    size_t length = at_real_print(value, text);
    CHECK_INT(length, strlen(text));
    if (strchr(want, 'e') == NULL) {
        CHECK_TEXT(text, want);
    }
    CHECK(strtod(text, NULL) == value);
}

/* What is printed reads back as the same double. */
static void same_in_document(double value)
{
    at_json *array = at_json_array(), *read = NULL;
    at_error err = {""};
    double again = 0;
    at_json_add_number(array, value);
    char *text = at_json_print(array, false);
    CHECK_OK(at_json_parse(&read, "t", text, strlen(text), &err), &err);
    CHECK(at_json_number(at_json_first(read), &again) && again == value);
    CHECK(at_json_number(at_json_first(array), &again) && again == value);
    free(text);
    at_json_close(read);
    at_json_close(array);
}

static void test_reals(void)
{
    static const double hard[] = {-5161444448888891,
                                  0.1 + 0.2,
                                  1.0 / 3,
                                  5e-324,
                                  2.3e-308,
                                  1e23,
                                  1.7976931348623157e308,
                                  0.0,
                                  -1.0,
                                  9007199254740994.0};
    static const char huge[] = "[1e999]";
    at_json *read = NULL;
    CHECK(at_json_parse(&read, "t", huge, sizeof huge - 1, NULL) == AT_OK);
    char *text = at_json_print(read, false);
    CHECK_TEXT(text, "[\"inf\"]");
    free(text);
    at_json_close(read);
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++) {
        same_real(hard[i]);
        same_in_document(hard[i]);
        same_in_document(nextafter(hard[i], 1));
    }
    uint64_t state = 1;
    for (int i = 0; i < 20000; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double decimals[] = {10, 100, 1000, 1e4, 1e5, 1e6, 1e7};
        double value = (double)(state >> 40) / decimals[i % 7];
        same_real(value);
        same_real(-value);
        same_real(nextafter(value, 2 * value));
        same_real(sqrt(value));
        same_real(1 / (1 + value));
    }
    same_real(1e-4);
    same_real(0.00012);
    same_real(999999.999999);
    same_real(0.1 + 0.2);
}

const at_test at_tests[] = {
    {"unit", "parse_errors", test_parse_errors},
    {"unit", "typed_members", test_typed_members},
    {"unit", "print", test_print},
    {"unit", "reals", test_reals},
    {NULL, NULL, NULL},
};
