/* possible: conditions that can never hold, and rule files that are refused with one sentence. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <string.h>

#include "harness/select/expr.h"
#include "harness/select/possible.h"
#include "harness/select/selector.h"

static const char *const backends[] = {"a", "b"};

static at_possible *names(at_env_table *env)
{
    static const char keys[] =
        "{\"level\":{\"type\":\"int\",\"default\":3,\"min\":0,\"max\":9,\"doc\":\"\"},"
        "\"fast\":{\"type\":\"bool\",\"default\":true,\"doc\":\"\"},"
        "\"mode\":{\"type\":\"enum\",\"default\":\"x\",\"values\":[\"x\",\"y\"],\"doc\":\"\"},"
        "\"lib\":{\"type\":\"version\",\"default\":\"none\",\"doc\":\"\"}}";
    static const char *const lets[][2] = {
        {"train", "pass == train"},  {"big", "dqk > 128"}, {"rounded", "ceil_to(dqk, 16)"},
        {"cheap", "!train && !big"}, {"build", "lib"},     {"recent", "build >= 9.1"},
        {"speed", "level"}};
    at_error err = {""};
    at_json *declared = NULL;
    at_possible *p = NULL;
    CHECK_OK(at_json_parse(&declared, "keys", keys, strlen(keys), &err), &err);
    CHECK_OK(at_env_table_declare(env, declared, &err), &err);
    at_json_close(declared);
    at_possible_open(&p, env);
    for (size_t i = 0; i < sizeof lets / sizeof *lets; i++) {
        CHECK_OK(at_possible_let(p, lets[i][0], lets[i][1], &err), &err);
    }
    return p;
}

typedef struct row {
    const char *text;
    int column; /* 0: it can hold */
    bool part;
    const char *there; /* what the sentence says of the key */
} row;

static const row rows[] = {
    {"dqk > 256 && dqk < 128", 18, false, "dqk is 257..4096"},
    {"dqk > 256 && dqk < 258", 0, false, NULL},
    {"dqk > 4096", 5, false, "dqk is 1..4096"},
    {"dqk < 1", 5, false, NULL},
    {"dqk in {64, 128} && dqk == 96", 25, false, "dqk is 64"},
    {"dqk in {64, 128} && dqk == 128", 0, false, NULL},
    {"!(dqk in {64, 128}) && dqk in {64, 128}", 28, false, NULL},
    {"dqk == 64 && dqk != 64", 18, false, "dqk is 64"},
    {"dqk % 8 == 9", 9, false, NULL},
    {"dqk % 8 == 4 && dqk % 8 == 2", 25, false, NULL},
    {"ceil_to(dqk, 16) < 0", 18, false, NULL},
    {"max(dqk, dv) < 64 && min(dqk, dv) > 64", 0, false, NULL}, /* says too little */
    {"dqk < dv && dqk > dv", 17, false, NULL},
    {"dqk < dv && dv < dqk", 16, false, NULL},
    {"dqk <= dv && dv <= dqk", 0, false, NULL},
    {"mask == none && mask == causal", 22, false, "mask is none"},
    {"mask != none && mask != causal && mask != band", 40, false, "mask is band"},
    {"mask != none && mask == band", 0, false, NULL},
    {"det && !det", 8, false, NULL},
    {"!det && det", 9, false, NULL},
    {"'q' in grads && !('q' in grads)", 19, false, NULL},
    {"'q' in grads && !('k' in grads)", 0, false, NULL},
    {"sm == 95", 4, false, NULL},
    {"sm >= 100 && arch == sm90", 19, false, "arch is sm100 or sm103 or sm110 or sm120 or sm121"},
    {"sm >= 100 && arch == sm103", 0, false, NULL},
    {"sm >= 122", 4, false, NULL},
    {"softcap > 5 && softcap < 1.5", 24, false, NULL},
    {"softcap > 1.5 && softcap < 5", 0, false, NULL},
    {"dropout >= 1", 9, false, NULL},
    {"dropout > 0.99", 0, false, NULL},
    {"scale == auto", 0, false, NULL},
    {"has(lenq) && !has(lenq)", 14, false, NULL},
    {"level > 9", 7, false, "level is 0..9"},
    {"level > 8", 0, false, NULL},
    {"speed < 3 && level == 5", 20, false, "level is 0..2"},
    {"fast && !fast", 10, false, NULL},
    {"mode == x && mode == y", 19, false, "mode is x"},
    {"lib >= 9.1 && lib < 9.0", 19, false, NULL},
    {"lib >= 9.0 && lib < 9.0.1", 0, false, NULL},
    {"lib == 9.0 && lib != 9.0.0", 19, false, NULL},
    {"!has(lib) && lib < 9", 18, false, NULL},
    {"!has(lib) && lib != 9", 0, false, NULL},
    {"recent && lib < 9", 15, false, NULL},
    {"recent && lib < 9.2", 0, false, NULL},
    {"big && cheap", 8, false, NULL},
    {"cheap && dqk == 200", 14, false, "dqk is 1..128"},
    {"cheap && pass == train", 15, false, "pass is fwd or stats"},
    {"rounded < 0", 9, false, NULL},
    {"on.a && !on.a", 9, false, NULL},
    {"on.a && !on.b", 0, false, NULL},
    {"false", 1, false, NULL},
    {"true", 0, false, NULL},
    {"2 < 1 && det", 1, false, NULL},
    {"det && 2 < 1", 1, false, NULL},
    {"det || dqk > 256 && dqk < 128", 25, true, "dqk is 257..4096"},
    {"dqk > 64 || dqk > 128", 17, true, "dqk is 1..64"},
    {"dqk > 128 || dqk > 64", 0, false, NULL},
    {"(det || dqk < 8) && (det || dqk > 64) && dqk == 32", 33, true, "dqk is 1..7"},
    {"(!det || dqk < 8) && (det || dqk > 64) && dqk == 32", 47, false, NULL},
};

static void test_table(void)
{
    at_env_table env = {0};
    at_possible *p = names(&env);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        at_error err = {""};
        char want[200] = "";
        at_status status = at_possible_check(p, r->text, backends, 2, &err);
        if (r->column > 0) {
            (void)snprintf(want, sizeof want, "column %d: %s", r->column,
                           r->part ? "this part never holds where it stands"
                                   : "the condition is impossible, it never holds");
        }
        bool right = (status == AT_OK) == (r->column == 0) &&
                     strncmp(err.text, want, strlen(want)) == 0 &&
                     (r->there == NULL || strstr(err.text, r->there) != NULL);
        if (!right) {
            at_test_fail(__FILE__, __LINE__, "%s: status %d, \"%s\", want \"%s\", \"%s\"", r->text,
                         (int)status, err.text, want, r->there != NULL ? r->there : "");
        }
    }
    at_possible_close(p);
    at_env_table_clear(&env);
}

/* A small random condition over dqk, mask and det, from the words of `seed`. */
static size_t put_condition(char *text, size_t used, uint64_t *seed, int depth)
{
    static const char *const atoms[] = {"dqk < 8",
                                        "dqk >= 8",
                                        "dqk == 64",
                                        "dqk != 64",
                                        "dqk in {8, 64}",
                                        "mask == none",
                                        "mask != band",
                                        "mask in {none, band}",
                                        "det",
                                        "!det",
                                        "8 <= dqk",
                                        "64 > dqk",
                                        "mask == causal",
                                        "dqk % 2 == 1"};
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    unsigned word = (unsigned)(*seed >> 33);
    if (depth == 0 || word % 4 == 0) {
        return used +
               (size_t)sprintf(text + used, "%s", atoms[word / 4 % (sizeof atoms / sizeof *atoms)]);
    }
    used += (size_t)sprintf(text + used, word % 8 < 2 ? "!(" : "(");
    used = put_condition(text, used, seed, depth - 1);
    used += (size_t)sprintf(text + used, word / 8 % 2 != 0 ? " && " : " || ");
    used = put_condition(text, used, seed, depth - 1);
    return used + (size_t)sprintf(text + used, ")");
}

/* Whether a case with values at and about all constants meets the condition. */
static bool met(const at_expr *e)
{
    static const int64_t dims[] = {1, 2, 7, 8, 9, 62, 63, 64, 65, 66, 4095, 4096};
    at_case c;
    at_case_init(&c);
    bool found = false;
    for (size_t i = 0; i < sizeof dims / sizeof *dims * 6; i++) {
        bool holds = false;
        c.dim_qk = dims[i / 6];
        c.mask = (int64_t)(i % 3);
        c.deterministic = (int64_t)(i / 3 % 2);
        CHECK_INT(at_expr_test(&holds, e, &c, NULL), AT_OK);
        found = found || holds;
    }
    return found;
}

static void test_random(void)
{
    int impossible = 0;
    uint64_t seed = 1;
    at_possible *p = NULL;
    at_possible_open(&p, NULL);
    for (int i = 0; i < 20000; i++) {
        char text[2000] = "";
        at_expr *e = NULL;
        at_error err = {""};
        (void)put_condition(text, 0, &seed, 4);
        CHECK_OK(at_expr_compile(&e, text, NULL, AT_EXPR_BOOL, &err), &err);
        at_status status = at_possible_check(p, text, NULL, 0, &err);
        bool refused = status != AT_OK && strstr(err.text, "the condition is impossible") != NULL;
        bool holds = met(e);
        impossible += !holds;
        /* "dqk % 2" says nothing of dqk, so with it something impossible may pass */
        if (refused == holds && (refused || strchr(text, '%') == NULL)) {
            at_test_fail(__FILE__, __LINE__, "%s: %s, yet a case %s it", text, err.text,
                         holds ? "meets" : "never meets");
        }
        at_expr_close(e);
    }
    CHECK(impossible > 500);
    at_possible_close(p);
}

/* Every way is followed to its end, or given up; never refused for being long. */
static void test_long(void)
{
    char text[4000] = "", odd[4000] = "";
    size_t used = 0, more = 0;
    for (int i = 0; i < 40; i++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s(sq %% %d == 1 || skv %% %d == 1)",
                             i > 0 ? " && " : "", i + 2, i + 2);
        more += (size_t)snprintf(odd + more, sizeof odd - more, "%sdqk == %d", i > 0 ? " || " : "",
                                 2 * i + 2);
    }
    at_error err = {""};
    at_possible *p = NULL;
    at_possible_open(&p, NULL);
    CHECK_OK(at_possible_check(p, text, NULL, 0, &err), &err);
    CHECK_OK(at_possible_check(p, odd, NULL, 0, &err), &err);
    at_possible_close(p);
}

#define FILE_OF(rules)                                                                             \
    "{\"schema\":\"attest-rules-1\",\"name\":\"x\",\"doc\":\"d\",\"source\":\"s\",\n"              \
    " \"backends\":[{\"name\":\"a\",\"doc\":\"A\"}],\n \"rules\":[\n" rules "]}"
#define RULE(id, when)                                                                             \
    "  {\"id\":\"" id "\",\"off\":[\"a\"],\"when\":\"" when "\",\"why\":\"w\",\"source\":\"s\"}"

/* The six kinds of fault in a rule file: a sentence with the file, the rule and where it stands. */
static void test_faults(void)
{
    static const char *const faults[][2] = {
        {FILE_OF(RULE("r", "true") ",\n  {\"id\":\"q\",\"of\":[]}"),
         "selectors/x.json: line 5, column 3: rule \"q\": unknown member \"of\"; accepted: id, "
         "off, when"},
        {FILE_OF(RULE("q", "det && dqq > 8")),
         "selectors/x.json: line 4, column 3: rule \"q\": when: column 8: the unknown name "
         "\"dqq\" means nothing here"},
        {FILE_OF(RULE("q", "dqk > (8")),
         "selectors/x.json: line 4, column 3: rule \"q\": when: column 9: ')' is missing at the "
         "end"},
        {FILE_OF(RULE("q", "det") ",\n  " RULE("q", "!det")),
         "selectors/x.json: line 5, column 5: rule \"q\": the id stands twice"},
        {FILE_OF("  {\"id\":\"q\",\"off\":[\"a\"],\"when\":\"true\",\"why\":\"w\"}"),
         "selectors/x.json: line 4, column 3: rule \"q\": \"source\" is missing"},
        {FILE_OF(RULE("q", "dqk > 256 && dqk < 128")),
         "selectors/x.json: line 4, column 3: rule \"q\": when: column 18: the condition is "
         "impossible, it never holds: there dqk is 257..4096"},
        {FILE_OF(RULE("q", "mask == caused")),
         "selectors/x.json: line 4, column 3: rule \"q\": when: column 9: \"caused\" is no value "
         "of \"mask\"; accepted: none, causal, band"},
        {"{\"schema\":\"attest-rules-1\",\"name\":\"x\",\"doc\":\"d\",\"source\":\"s\",\n"
         " \"extends\":\"y\"}",
         "selectors/y.json: line 2, column 12: \"extends\" leads back to x: a cycle from "},
    };
    at_test_put_json(
        "selectors", "y",
        "{\"schema\":\"attest-rules-1\",\"name\":\"y\",\"doc\":\"d\",\"source\":\"s\",\n"
        " \"extends\":\"x\"}");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        at_error err = {""};
        at_selector *s = NULL;
        at_test_put_json("selectors", "x", faults[i][0]);
        CHECK_INT(at_selector_open(&s, at_test_folder(), "x", NULL, &err), AT_INVALID);
        CHECK_HAS(err.text, faults[i][1]);
        CHECK(strchr(err.text, '\n') == NULL);
        at_selector_close(s);
    }
}

/* Environment keys count with their ranges, not with the values of the run. */
static void test_rules_in_all_environments(void)
{
    at_error err = {""};
    at_selector *s = NULL;
    at_test_put_json("selectors", "x",
                     "{\"schema\":\"attest-rules-1\",\"name\":\"x\",\"doc\":\"d\",\"source\":\"s\","
                     "\"env\":{\"fast\":{\"type\":\"bool\",\"default\":false,\"doc\":\"\"}},"
                     "\"backends\":[{\"name\":\"a\",\"doc\":\"A\"}],\"rules\":[" RULE(
                         "q", "fast") "],"
                                      "\"prefer\":[{\"when\":\"det && "
                                      "!det\",\"order\":[\"a\"]},{\"order\":[\"a\"]}]}");
    CHECK_INT(at_selector_open(&s, at_test_folder(), "x", NULL, &err), AT_INVALID);
    CHECK_HAS(err.text, "selectors/x.json: prefer 1: when: column 8: the condition is impossible");
}

const at_test at_tests[] = {{"unit", "table", test_table},
                            {"unit", "random", test_random},
                            {"unit", "long", test_long},
                            {"unit", "faults", test_faults},
                            {"unit", "all-environments", test_rules_in_all_environments},
                            {NULL, NULL, NULL}};
