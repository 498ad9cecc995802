/* Suites: what words, lists, ranges, files and JSON make; what is refused, and where it stands. */
#include "harness/tests/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/case/suite_build.h"

/* Writes a file under the test folder (with its suites/ folder) and returns its path. */
static const char *write_file(const char *name, const char *text)
{
    static char path[8][512];
    static int next;
    char *p = path[next++ % 8];
    (void)snprintf(p, sizeof path[0], "%s/suites", at_test_folder());
    CHECK(mkdir(p, 0777) == 0 || errno == EEXIST);
    (void)snprintf(p, sizeof path[0], "%s/%s", at_test_folder(), name);
    FILE *file = fopen(p, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    return p;
}

static at_suite *open_words(const char *const *words, size_t n, const at_suite_rewrite *rewrite)
{
    at_suite *suite = NULL;
    at_error err = {""};
    CHECK_OK(at_suite_open(&suite, at_test_folder(), words, n, rewrite, &err), &err);
    return suite;
}

static at_suite *open_word(const char *word)
{
    return open_words(&word, 1, NULL);
}

static const char *text_of(const at_suite *suite, size_t i)
{
    static char text[4][AT_CASE_TEXT_MAX];
    static int next;
    char *t = text[next++ % 4];
    (void)at_case_print(at_suite_case(suite, i, NULL), t);
    return t;
}

/* The word's cases are exactly these, in order. */
static void makes(const char *word, const char *const *texts)
{
    at_suite *suite = open_word(word);
    size_t n = 0;
    for (; texts[n] != NULL; n++) {
        if (suite != NULL && n < at_suite_size(suite)) {
            CHECK_TEXT(text_of(suite, n), texts[n]);
        }
    }
    CHECK_INT(suite != NULL ? at_suite_size(suite) : 0, n);
    at_suite_close(suite);
}
#define MAKES(word, ...) makes(word, (const char *const[]){__VA_ARGS__, NULL})

static void refuses(const char *word, const char *part)
{
    at_suite *suite = NULL;
    at_error err = {""};
    if (at_suite_open(&suite, at_test_folder(), &word, 1, NULL, &err) == AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s is accepted", word);
    }
    CHECK(suite == NULL);
    CHECK_HAS(err.text, part);
    CHECK(strchr(err.text, '\n') == NULL);
}

static void refuses_json(const char *json, const char *part)
{
    const char *path = write_file("bad.json", json);
    refuses(path, part);
    at_suite *suite = NULL;
    at_error err = {""};
    CHECK(at_suite_open(&suite, at_test_folder(), &path, 1, NULL, &err) != AT_OK);
    CHECK_HAS(err.text, "bad.json");
}

static void test_texts(void)
{
    MAKES("b=1", "b=1");
    MAKES("sq=64", "b=1");
    MAKES("sq=1..4", "sq=1", "sq=2", "sq=3", "sq=4");
    MAKES("sq=64..256/64", "b=1", "sq=128", "sq=192", "sq=256");
    MAKES("sq=1..6/4", "sq=1", "sq=5");
    MAKES("sq=5..5", "sq=5");
    MAKES("wl=-1..1:mask=band", "mask=band", "mask=band:wl=0", "mask=band:wl=1");
    MAKES("seed=0..2", "b=1", "seed=1", "seed=2");
    MAKES("hq=2,4:dtype=f16,f32", "hq=2:dtype=f16", "hq=2:dtype=f32", "hq=4:dtype=f16",
          "hq=4:dtype=f32");
    MAKES("b=2:lenq=1+2,3+4:lenkv=5+6", "b=2:lenq=1+2:lenkv=5+6", "b=2:lenq=3+4:lenkv=5+6");
    MAKES("sq=8,1..3,8", "sq=8", "sq=1", "sq=2", "sq=3");
    MAKES("hkv=1,2:hq=2", "hq=2:hkv=1", "hq=2");
    MAKES("align=tl,br,3:mask=causal", "mask=causal", "mask=causal:align=br",
          "mask=causal:align=3");
}

static void test_bad_texts(void)
{
    refuses("sq=4..1", "sq=4..1 is not a range");
    refuses("sq=1..4/0", "sq=1..4/0 is not a range");
    refuses("sq=1..4/", "is not a range");
    refuses("sq=1..4/x", "is not a range");
    refuses("sq=1..4/2x", "is not a range");
    refuses("sq=1..99999999999", "the key sq takes an integer");
    refuses("sq=..4", "sq= is not accepted");
    refuses("sq=1..", "sq= is not accepted");
    refuses("sq=1..2..3", "sq=2..3 is not accepted");
    refuses("align=tl..5:mask=causal", "a range goes from one integer to another");
    refuses("scale=0.1..0.5", "scale=0.1..0.5 is a range, the key scale takes");
    refuses("dtype=f16..bf16", "is a range, the key dtype takes");
    refuses("sq=1,", "sq= is not accepted");
    refuses("sq=,1", "sq= is not accepted");
    refuses("sq=1,x", "sq=x is not accepted");
    refuses("sq=1:sq=2", "the key sq is given twice");
    refuses("sq=1:x=2", "unknown key \"x\"");
    refuses("sq=1:", "\"\" is not key=value");
    refuses("=1", "is not key=value");
    refuses("hq=3,4:hkv=2", "the case hq=3:hkv=2: hq=3 is not a multiple of hkv=2");
    refuses("hq=3:hkv=2", "hq=3 is not a multiple of hkv=2; invalid=1");
    refuses("sq=1..16777216:skv=1..16777216", "more than 16777216 combinations");
}

static void limited(const char *word, uint64_t combinations, uint64_t cases, const char *part)
{
    at_suite *suite = NULL;
    at_error err = {""};
    at_status status =
        at_suite_open_within(&suite, at_test_folder(), &word, 1, NULL, combinations, cases, &err);
    CHECK_INT(status, part != NULL ? AT_INVALID : AT_OK);
    CHECK_HAS(err.text, part != NULL ? part : "");
    at_suite_close(suite);
}

static void test_limits(void)
{
    limited("sq=1..100", 100, 100, NULL);
    limited("sq=1..100", 99, 100, "more than 99 combinations");
    limited("sq=1..100", 100, 99, "more than 99 cases");
    limited("sq=1..50,1..50", 100, 50, NULL);
    CHECK_INT(AT_SUITE_CASES_MAX, 1000000);
}

static void test_names(void)
{
    (void)write_file("suites/one.json", "{\"groups\":[{\"case\":{\"sq\":[1,2]}}]}");
    (void)write_file("suites/two.json", "{}");
    MAKES("one", "sq=1", "sq=2");
    at_suite *empty = open_word("two");
    CHECK_INT(at_suite_size(empty), 0);
    at_suite_close(empty);
    refuses("nosuch", "\"nosuch\" is no suite");
    refuses("nosuch", "the suites are one two");
    refuses("../suites/one", "is no suite");
    refuses("", "is no suite");
    refuses("/nonexistent/x.json", "/nonexistent/x.json: cannot be read");
    refuses("@/nonexistent/x", "/nonexistent/x: cannot be read");
    refuses("@", "cannot be read");
    char folder[600];
    (void)snprintf(folder, sizeof folder, "@%s", at_test_folder());
    refuses(folder, "cannot be read");
    at_suite_close(NULL);
}

static void test_lists(void)
{
    (void)write_file("inner", "  sq=3 # a comment\n\n# only a comment\nsq=4\r\n");
    (void)write_file("outer", "sq=1\n@inner\nsq=2");
    char word[600];
    (void)snprintf(word, sizeof word, "@%s/outer", at_test_folder());
    MAKES(word, "sq=1", "sq=3", "sq=4", "sq=2");
    (void)write_file("loop", "sq=1\n@loop2\n");
    (void)write_file("loop2", "@./loop\n");
    (void)snprintf(word, sizeof word, "@%s/loop", at_test_folder());
    refuses(word, "loop names itself, directly or through other files");
    refuses(word, "loop2:1: ");
    (void)write_file("outer", "sq=1\nsq=x\n");
    (void)snprintf(word, sizeof word, "@%s/outer", at_test_folder());
    refuses(word, "outer:2: sq=x is not accepted");
    (void)write_file("outer", "sq=1 sq=2\n");
    refuses(word, "outer:1: one word a line");
    char line[6000];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\0';
    (void)write_file("outer", line);
    refuses(word, "outer:1: longer than");
    refuses("@/dev/zero", "/dev/zero:1: a NUL byte, lists are text");
    (void)write_file("suites/self.json", "{\"include\":[\"self\"]}");
    refuses("self", "names itself");
    (void)write_file("suites/a.json", "{\"include\":[\"b\"]}");
    (void)write_file("suites/b.json", "{\"include\":[\"b=2\",\"a.json\"]}");
    refuses("a", "names itself");
    for (int i = 0; i < 40; i++) {
        char name[32], text[64];
        (void)snprintf(name, sizeof name, "deep%d", i);
        (void)snprintf(text, sizeof text, "@deep%d\n", i + 1);
        (void)write_file(name, text);
    }
    (void)snprintf(word, sizeof word, "@%s/deep0", at_test_folder());
    refuses(word, "nested deeper than 16 files");
}

static void test_equal_cases(void)
{
    static const char *const words[] = {"sq=1,2", "sq=2,3", "sq=1"};
    at_suite *suite = open_words(words, 3, NULL);
    CHECK_INT(at_suite_size(suite), 3);
    at_suite_close(suite);
    const char *path = write_file(
        "twice.json", "{\"backends\":[\"x\"],\"groups\":[{\"name\":\"a\",\"case\":{\"sq\":1}},"
                      "{\"name\":\"b\",\"case\":{\"sq\":\"1..2\"}},"
                      "{\"name\":\"c\",\"backends\":[\"y\"],\"case\":{\"sq\":1}},"
                      "{\"name\":\"d\",\"modelled\":true,\"case\":{\"sq\":1}},"
                      "{\"name\":\"e\",\"selector\":\"s\",\"case\":{\"sq\":1}},"
                      "{\"name\":\"f\",\"env\":\"k=v\",\"case\":{\"sq\":1}},"
                      "{\"name\":\"g\",\"serves\":{\"k\":\"v\"},\"case\":{\"sq\":1}}]}");
    suite = open_word(path);
    CHECK_INT(at_suite_size(suite), 7);
    const at_suite_plan *plan = NULL;
    (void)at_suite_case(suite, 1, &plan);
    CHECK_TEXT(plan->group, "b");
    (void)at_suite_case(suite, 6, &plan);
    CHECK_TEXT(plan->serves, "k=v");
    at_suite_close(suite);
    /* More than one growth of the list. */
    suite = open_word("seed=0..9999:sq=1,1");
    CHECK_INT(at_suite_size(suite), 10000);
    CHECK_TEXT(text_of(suite, 9999), "sq=1:seed=9999");
    at_suite_close(suite);
}

static void test_rewrite(void)
{
    static const char *const words[] = {"seed=0..9:pass=fwd,train"};
    at_suite *suite = open_words(words, 1, &(at_suite_rewrite){.seed = "7", .pass = NULL});
    CHECK_INT(at_suite_size(suite), 2);
    CHECK_TEXT(text_of(suite, 0), "pass=fwd:seed=7");
    CHECK_TEXT(text_of(suite, 1), "seed=7");
    at_suite_close(suite);
    suite = open_words(words, 1, &(at_suite_rewrite){.seed = "7", .pass = "stats"});
    CHECK_INT(at_suite_size(suite), 1);
    CHECK_TEXT(text_of(suite, 0), "pass=stats:seed=7");
    at_suite_close(suite);
    static const char *const training[] = {"det=0,1"};
    suite = open_words(training, 1, &(at_suite_rewrite){.pass = "fwd"});
    CHECK_INT(at_suite_size(suite), 1); /* det=1 means nothing without a backward */
    CHECK_INT(at_suite_skipped(suite), 1);
    at_suite_close(suite);
    static const char *const bad[] = {"wl=3"};
    at_error err = {""};
    CHECK(at_suite_open(&suite, "", bad, 1, &(at_suite_rewrite){.pass = "fwd"}, &err) != AT_OK);
    CHECK_HAS(err.text, "wl=3 needs mask=causal");
    CHECK(at_suite_open(&suite, "", words, 1, &(at_suite_rewrite){.pass = "bwd"}, &err) != AT_OK);
    CHECK_HAS(err.text, "pass=bwd is not accepted");
    CHECK(at_suite_open(&suite, "", words, 1, &(at_suite_rewrite){.seed = "x"}, &err) != AT_OK);
    CHECK_HAS(err.text, "seed=x is not accepted");
}

static void test_plan(void)
{
    (void)write_file("suites/inner.json",
                     "{\"name\":\"inner\",\"doc\":\"d\",\"backends\":[\"i\"],"
                     "\"audits\":[{\"selector\":\"s\",\"arch\":\"sm90\",\"env\":\"a=b\","
                     "\"space\":\"training\"}],"
                     "\"groups\":[{\"name\":\"g\",\"doc\":\"d\",\"case\":{\"sq\":1}}]}");
    (void)write_file("suites/outer.json",
                     "{\"selector\":\"te\",\"env\":\"fa3=1\",\"serves\":{\"fa3\":\"m.a\",\"fa2\":"
                     "\"m.b\"},\"modelled\":true,\"backends\":[\"o\",\"p\"],"
                     "\"include\":[\"inner\",\"sq=9\"],"
                     "\"audits\":[{\"selector\":\"s\",\"arch\":\"sm90\",\"env\":\"a=b\","
                     "\"space\":\"training\"},{\"selector\":\"t\",\"limit\":3}],"
                     "\"groups\":[{\"case\":{\"sq\":2}},"
                     "{\"modelled\":false,\"serves\":{},\"case\":{\"sq\":3}}]}");
    at_suite *suite = open_word("outer");
    CHECK_INT(at_suite_size(suite), 4);
    const at_suite_plan *plan = NULL;
    (void)at_suite_case(suite, 0, &plan);
    CHECK_TEXT(plan->suite, "inner");
    CHECK_TEXT(plan->group, "g");
    CHECK_INT(plan->backend_count, 1);
    CHECK_TEXT(plan->backend[0], "i");
    CHECK_TEXT(plan->selector, "te");
    CHECK_TEXT(plan->env, "fa3=1");
    CHECK_TEXT(plan->serves, "fa3=m.a,fa2=m.b");
    CHECK(plan->modelled);
    (void)at_suite_case(suite, 1, &plan);
    CHECK_TEXT(text_of(suite, 1), "sq=9");
    CHECK_TEXT(plan->suite, "outer");
    (void)at_suite_case(suite, 2, &plan);
    CHECK_INT(plan->backend_count, 2);
    CHECK_TEXT(plan->group, "");
    (void)at_suite_case(suite, 3, &plan);
    CHECK(!plan->modelled);
    CHECK_TEXT(plan->serves, "");
    const at_suite_audit *audits = NULL;
    CHECK_INT(at_suite_audits(suite, &audits), 2);
    CHECK_TEXT(audits[0].arch, "sm90");
    CHECK_TEXT(audits[0].space, "training");
    CHECK_TEXT(audits[1].selector, "t");
    CHECK_INT(audits[0].limit, 0);
    CHECK_INT(audits[1].limit, 3);
    at_suite_close(suite);
}

static void test_groups(void)
{
    const char *path = write_file(
        "g.json", "{\"groups\":[{\"case\":{\"pass\":[\"fwd\",\"train\"],\"sq\":\"1..2\",\"b\":2},"
                  "\"cases\":[\"hq=2\",\"hq=4:sq=9:pass=stats\"]}]}");
    MAKES(path, "b=2:hq=2:sq=1:pass=fwd", "b=2:hq=2:sq=2:pass=fwd", "b=2:hq=2:sq=1",
          "b=2:hq=2:sq=2", "b=2:hq=4:sq=9:pass=stats");
    path = write_file("g.json",
                      "{\"groups\":[{\"case\":{\"softcap\":[0,0.5,50],\"scale\":\"auto\"}}]}");
    MAKES(path, "b=1", "softcap=0.5", "softcap=50");
    path = write_file("g.json", "{\"groups\":[{\"case\":{\"dqk\":\"64..256/64\",\"dv\":[64,128]},"
                                "\"skip\":[\"dqk < dv\",\"dqk == 256 && dv == 64\"]}]}");
    at_suite *suite = open_word(path);
    CHECK_INT(at_suite_size(suite), 6);
    CHECK_INT(at_suite_skipped(suite), 2);
    at_suite_close(suite);
    path = write_file("g.json", "{\"groups\":[{\"contradictions\":\"skip\",\"case\":{\"mask\":"
                                "\"none,causal,band\",\"wr\":[-1,0,1]}}]}");
    MAKES(path, "b=1", "mask=causal", "mask=causal:wr=0", "mask=band", "mask=band:wr=0",
          "mask=band:wr=1");
    suite = open_word(path);
    CHECK_INT(at_suite_skipped(suite), 3);
    at_suite_close(suite);
}

static void test_bad_json(void)
{
    refuses_json("", "the file is empty");
    refuses_json("[]", "a suite must be an object, it is an array");
    refuses_json("{\"group\":[]}", "unknown member \"group\"; accepted: name, doc, backends");
    refuses_json("{\"groups\":{}}", "\"groups\" must be an array");
    refuses_json("{\"groups\":[1]}", "\"groups\" must be a list of objects");
    refuses_json("{\"groups\":[{}]}", "group 1: a group needs \"case\", \"cases\" or both");
    refuses_json("{\"groups\":[{\"case\":{}},{\"name\":\"x\",\"foo\":1}]}",
                 "group \"x\": unknown member \"foo\"; accepted: name, doc");
    refuses_json("{\"groups\":[{\"name\":\"x\",\"case\":{\"sq\":\"a\"}}]}",
                 "group \"x\": \"case\": sq=a is not accepted");
    refuses_json("{\"groups\":[{\"case\":{\"sqq\":1}}]}", "\"case\": unknown key \"sqq\"");
    refuses_json("{\"groups\":[{\"case\":{\"sq\":[]}}]}", "sq is an empty list");
    refuses_json("{\"groups\":[{\"case\":{\"sq\":true}}]}", "sq must be a number or a text");
    refuses_json("{\"groups\":[{\"case\":{\"sq\":[[1]]}}]}", "sq must be a number or a text");
    refuses_json("{\"groups\":[{\"case\":{\"sq\":1.5}}]}", "sq=1.5 is not accepted");
    refuses_json("{\"groups\":[{\"case\":1}]}", "\"case\" must be an object");
    refuses_json("{\"groups\":[{\"cases\":[1]}]}", "\"cases\" must be a list of case texts");
    refuses_json("{\"groups\":[{\"cases\":[\"sq=1:x=1\"]}]}",
                 "group 1: \"cases\": \"sq=1:x=1\": unknown key \"x\"");
    refuses_json("{\"groups\":[{\"name\":\"x\",\"case\":{\"hq\":[2,3],\"hkv\":2}}]}",
                 "group \"x\": the case hq=3:hkv=2: hq=3 is not a multiple");
    refuses_json("{\"groups\":[{\"case\":{},\"contradictions\":\"ignore\"}]}",
                 "\"contradictions\" must be error or skip");
    refuses_json("{\"groups\":[{\"case\":{},\"skip\":[1]}]}",
                 "\"skip\" must be a list of conditions");
    refuses_json("{\"groups\":[{\"case\":{},\"skip\":[\"dqk <\"]}]}",
                 "\"skip\": \"dqk <\": column");
    refuses_json("{\"groups\":[{\"case\":{},\"skip\":[\"dqkk < 1\"]}]}", "dqkk");
    refuses_json("{\"groups\":[{\"case\":{\"b\":0},\"skip\":[\"sq / b == 1\"]}]}",
                 "item 1 of \"skip\"");
    refuses_json("{\"backends\":[1]}", "\"backends\" must be at most 16 names");
    refuses_json("{\"backends\":[\"\"]}", "\"backends\" must be at most 16 names");
    refuses_json("{\"backends\":\"x\"}", "\"backends\" must be an array");
    refuses_json("{\"serves\":{\"fa3\":1}}", "\"serves\" must name one backend");
    refuses_json("{\"modelled\":1}", "\"modelled\" must be true or false");
    refuses_json("{\"selector\":1}", "\"selector\" must be a string");
    refuses_json("{\"audits\":[{}]}", "\"audits\": an audit needs the member \"selector\"");
    refuses_json("{\"audits\":[{\"selector\":\"a\",\"x\":1}]}", "unknown member \"x\"");
    refuses_json("{\"audits\":[{\"selector\":\"a\",\"limit\":0}]}", "must be an integer from 1 up");
    refuses_json("{\"audits\":[1]}", "\"audits\": it must be a list of objects");
    refuses_json("{\"include\":[1]}", "\"include\": it must be a list of suites");
    refuses_json("{\"include\":[\"nosuch\"]}", "\"include\": \"nosuch\" is no suite");
    char json[400];
    (void)snprintf(json, sizeof json, "{\"name\":\"%0100d\"}", 7);
    refuses_json(json, "\"name\" has more than 63 characters");
    (void)snprintf(json, sizeof json, "{\"env\":\"%0300d\"}", 7);
    refuses_json(json, "\"env\" has more than 255 characters");
    (void)snprintf(json, sizeof json, "{\"serves\":{\"a\":\"%0300d\"}}", 7);
    refuses_json(json, "at most 255 characters");
}

static const char sampled[] =
    "{\"groups\":[{\"name\":\"%s\",\"case\":{\"sq\":\"1..1000\",\"hq\":[1,2,4],\"hkv\":[1,2,4],"
    "\"dtype\":\"f32,bf16\",\"mask\":\"none,causal\"},\"contradictions\":\"skip\","
    "\"skip\":[\"sq %% 2 == 0\"],"
    "\"sample\":{\"n\":2000,\"seed\":%d,\"weights\":{\"dtype\":{\"bf16\":9},"
    "\"mask\":{\"none\":3}}}}]}";

static at_suite *open_sample(const char *group, int seed)
{
    char json[1000];
    (void)snprintf(json, sizeof json, sampled, group, seed);
    return open_word(write_file("sample.json", json));
}

static void test_sample(void)
{
    at_suite *a = open_sample("x", 1), *b = open_sample("x", 1), *c = open_sample("x", 2),
             *d = open_sample("y", 1);
    size_t bf16 = 0, causal = 0, small = 0, as_c = 0, as_d = 0;
    CHECK_INT(at_suite_size(a), 2000);
    CHECK_INT(at_suite_size(d), 2000);
    for (size_t i = 0; i < 2000; i++) {
        const at_case *x = at_suite_case(a, i, NULL);
        CHECK(at_case_equal(x, at_suite_case(b, i, NULL)));
        as_c += at_case_equal(x, at_suite_case(c, i, NULL));
        as_d += at_case_equal(x, at_suite_case(d, i, NULL));
        CHECK(x->len_q % 2 == 1 && x->heads_q % x->heads_kv == 0);
        bf16 += x->dtype == AT_BF16;
        causal += x->mask == AT_MASK_CAUSAL;
        small += x->len_q <= 500;
    }
    CHECK(as_c < 20 && as_d < 20);
    CHECK(bf16 > 1720 && bf16 < 1880); /* 9 in 10, less what is drawn twice */
    CHECK(causal > 420 && causal < 600);
    CHECK(small > 900 && small < 1100);
    at_suite_close(a);
    at_suite_close(b);
    at_suite_close(c);
    at_suite_close(d);
}

static void test_bad_sample(void)
{
    refuses_json("{\"groups\":[{\"case\":{\"sq\":[1,2]},\"sample\":{\"n\":3}}]}",
                 "1000 draws gave no new case after 2 of 3");
    refuses_json(
        "{\"groups\":[{\"case\":{\"sq\":[1,2]},\"skip\":[\"sq > 0\"],\"sample\":{\"n\":3}}]}",
        "1000 draws gave no new case after 0 of 3");
    refuses_json("{\"groups\":[{\"case\":{},\"sample\":{}}]}",
                 "\"sample\": the member \"n\" is missing");
    refuses_json("{\"groups\":[{\"case\":{},\"sample\":{\"n\":0}}]}", "n must be 1..1000000");
    refuses_json("{\"groups\":[{\"case\":{},\"sample\":{\"n\":1,\"x\":1}}]}",
                 "unknown member \"x\"");
    refuses_json(
        "{\"groups\":[{\"case\":{\"sq\":1},\"sample\":{\"n\":1,\"weights\":{\"hq\":{\"1\":1}}}}]}",
        "weights for \"hq\", which is no key");
    refuses_json(
        "{\"groups\":[{\"case\":{\"sq\":1},\"sample\":{\"n\":1,\"weights\":{\"sq\":{\"2\":1}}}}]}",
        "a weight for sq=2, which is none of the values");
    refuses_json(
        "{\"groups\":[{\"case\":{\"sq\":1},\"sample\":{\"n\":1,\"weights\":{\"sq\":{\"1\":0}}}}]}",
        "the weight of sq=1 must be an integer 1..1000000");
    refuses_json("{\"groups\":[{\"case\":{\"sq\":1},\"sample\":{\"n\":1,\"weights\":{\"sq\":1}}}]}",
                 "the weights of sq must be an object");
    refuses_json("{\"groups\":[{\"case\":{\"hq\":3,\"hkv\":2},\"sample\":{\"n\":1}}]}",
                 "the case hq=3:hkv=2: hq=3 is not a multiple");
    const char *path =
        write_file("few.json",
                   "{\"groups\":[{\"case\":{\"sq\":1,\"seed\":\"0..99\"},\"sample\":{\"n\":50}}]}");
    at_suite *suite = open_words(&path, 1, &(at_suite_rewrite){.seed = "3"});
    CHECK_INT(at_suite_size(suite), 1);
    at_suite_close(suite);
}

static void test_corpus_find(void)
{
    char path[4096];
    at_error err = {""};
    CHECK(unsetenv("ATTEST_CORPUS") == 0);
    CHECK_OK(at_corpus_find(path, at_test_folder(), "/nonexistent", &err), &err);
    CHECK_TEXT(path, at_test_folder());
    CHECK_TEXT(at_corpus(), at_test_folder());
    CHECK_INT(at_corpus_find(path, "/nonexistent", at_test_folder(), &err), AT_IO);
    CHECK_HAS(err.text, "--corpus \"/nonexistent\" is not a folder");
    CHECK_OK(at_corpus_find(path, NULL, at_test_folder(), &err), &err);
    CHECK(setenv("ATTEST_CORPUS", "/tmp", 1) == 0);
    CHECK_OK(at_corpus_find(path, NULL, at_test_folder(), &err), &err);
    CHECK_TEXT(path, "/tmp");
    CHECK_OK(at_corpus_find(path, at_test_folder(), NULL, &err), &err);
    CHECK_TEXT(path, at_test_folder());
    CHECK(setenv("ATTEST_CORPUS", "/nonexistent", 1) == 0);
    CHECK_INT(at_corpus_find(path, NULL, at_test_folder(), &err), AT_IO);
    CHECK_HAS(err.text, "ATTEST_CORPUS \"/nonexistent\" is not a folder");
    CHECK(unsetenv("ATTEST_CORPUS") == 0);
    CHECK_INT(at_corpus_find(path, NULL, "/nonexistent", &err), AT_IO);
    CHECK_HAS(err.text, "the corpus is not found");
}

const at_test at_tests[] = {
    {"unit", "texts", test_texts},
    {"unit", "bad_texts", test_bad_texts},
    {"unit", "limits", test_limits},
    {"unit", "names", test_names},
    {"unit", "lists", test_lists},
    {"unit", "equal_cases", test_equal_cases},
    {"unit", "rewrite", test_rewrite},
    {"unit", "plan", test_plan},
    {"unit", "groups", test_groups},
    {"unit", "bad_json", test_bad_json},
    {"unit", "sample", test_sample},
    {"unit", "bad_sample", test_bad_sample},
    {"unit", "corpus_find", test_corpus_find},
    {NULL, NULL, NULL},
};
