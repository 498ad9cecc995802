/* Runs of workers in other languages: what they promise on dead rows, LSE that they do not write,
 * dumps, and a numeric class that rounds scaled inputs. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/json.h"
#include "harness/run/foreign.h"

/* Fills a dense f32 tensor of the run. */
static void fill(const at_foreign *run, const char *name, float value)
{
    int64_t shape[4], stride[4];
    const char *dtype = "";
    float *data = at_foreign_tensor(run, name, shape, stride, &dtype);
    CHECK(data != NULL && strcmp(dtype, "f32") == 0);
    for (int64_t i = 0; i < shape[0] * shape[1] * shape[2] * shape[3]; i++) {
        data[i] = value;
    }
}

/* The verdict's status where o is `value` and every row dead. */
static void judge_dead(const char *contract, float value, const char *status)
{
    at_foreign *run = at_foreign_open("sq=2:skv=0:dqk=8:dtype=f32:pass=fwd", NULL);
    CHECK_INT(at_foreign_promise(run, contract), 1);
    fill(run, "o", value);
    (void)at_foreign_judge(run, "forward", NULL, 0);
    char want[64];
    (void)snprintf(want, sizeof want, "\"status\":\"%s\"", status);
    CHECK_HAS(at_foreign_verdict(run), want);
    at_foreign_close(run);
}

static void test_contract(void)
{
    judge_dead("{}", 0, "PASS");
    judge_dead("{}", NAN, "NONFINITE");
    judge_dead("{\"dead_o\":\"nan\"}", NAN, "PASS");
    judge_dead("{\"dead_o\":\"nan\"}", 0, "WRONG");
    judge_dead("{\"dead_o\":\"zero\",\"pad\":\"untouched\"}", 1, "WRONG");
}

static void test_bad_contract(void)
{
    static const char *const bad[] = {"", "[]", "{\"dead_o\":\"one\"}", "{\"stats\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        at_foreign *run = at_foreign_open("sq=2:dqk=8:dtype=f32:pass=fwd", NULL);
        CHECK_INT(at_foreign_promise(run, bad[i]), 0);
        CHECK_INT(at_foreign_ready(run), 0);
        CHECK_HAS(at_foreign_verdict(run), "\"status\":\"ERROR\",\"reason\":\"contract\"");
        at_foreign_close(run);
    }
}

/* LSE that nobody writes is not judged where it is not promised. */
static void test_stats(void)
{
    static const struct {
        const char *contract, *status;
    } rows[] = {{"{\"stats\":false}", "PASS"}, {"{}", "UNWRITTEN"}};
    for (int i = 0; i < 2; i++) {
        at_foreign *run = at_foreign_open("sq=2:skv=0:dqk=8:dtype=f32:pass=stats", NULL);
        CHECK_INT(at_foreign_promise(run, rows[i].contract), 1);
        fill(run, "o", 0);
        (void)at_foreign_judge(run, "forward", NULL, 0);
        CHECK_HAS(at_foreign_verdict(run), rows[i].status);
        at_foreign_close(run);
    }
}

static void test_dump(void)
{
    char folder[512], path[600], line[64] = "";
    (void)snprintf(folder, sizeof folder, "%s/dump", at_test_folder());
    at_foreign *run = at_foreign_open("sq=2:dqk=8:dtype=f32:pass=fwd", NULL);
    at_foreign_dump(run, folder, "case of a test\n");
    fill(run, "o", 7);
    (void)at_foreign_judge(run, "forward", NULL, 0);
    CHECK_HAS(at_foreign_verdict(run), "\"status\":\"WRONG\"");
    at_foreign_close(run);
    (void)snprintf(path, sizeof path, "%s/case.txt", folder);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
    CHECK_HAS(line, "case of a test");
    (void)fclose(file);
    (void)snprintf(path, sizeof path, "%s/o.ref.npy", folder);
    file = fopen(path, "rb");
    CHECK(file != NULL);
    (void)fclose(file);
}

/* The bound at the worst element of an o that is wrong in the same way under both classes. */
static double bound_of(const char *numeric)
{
    at_foreign *run = at_foreign_open("sq=1:skv=9:dqk=64:dtype=f32:fill=peaky:pass=fwd", numeric);
    fill(run, "o", 100);
    (void)at_foreign_judge(run, "forward", NULL, 0);
    const char *at = strstr(at_foreign_verdict(run), "\"bound\":");
    double bound = at != NULL ? strtod(at + strlen("\"bound\":"), NULL) : 0;
    at_foreign_close(run);
    return bound;
}

static void test_inputs_scaled(void)
{
    double plain = bound_of("{\"p\":\"f32\"}");
    double scaled = bound_of("{\"p\":\"f32\",\"inputs_scaled\":true}");
    CHECK(plain > 0 && scaled > 1.02 * plain && scaled < 4 * plain);
}

const at_test at_tests[] = {
    {"unit", "contract", test_contract},
    {"unit", "bad_contract", test_bad_contract},
    {"unit", "stats", test_stats},
    {"unit", "dump", test_dump},
    {"unit", "inputs_scaled", test_inputs_scaled},
    {NULL, NULL, NULL},
};
