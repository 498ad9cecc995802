/* attest list, attest explain: what they print, what they refuse and with which exit code. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "harness/case/case.h"

/* Runs `attest ARGUMENTS`; stdout and stderr go to `out`. Returns the exit code. */
static int tool(char out[65536], const char *arguments)
{
    char command[2048];
    (void)snprintf(command, sizeof command, "'%s' 2>&1 %s", AT_TEST_TOOL, arguments);
    FILE *pipe = popen(command, "r");
    CHECK(pipe != NULL);
    size_t n = fread(out, 1, 65535, pipe);
    out[n] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char out[65536];

static void prints(const char *arguments, const char *text)
{
    CHECK_INT(tool(out, arguments), 0);
    CHECK_TEXT(out, text);
}

/* Exit code 3 and one sentence that holds `part`. */
static void refuses(const char *arguments, const char *part)
{
    CHECK_INT(tool(out, arguments), 3);
    CHECK_HAS(out, part);
    CHECK(strchr(out, '\n') == out + strlen(out) - 1);
}

static void test_list(void)
{
    prints("list sq=1..3 dtype=f16", "sq=1\nsq=2\nsq=3\ndtype=f16\n");
    prints("list b=1", "b=1\n");
    prints("list --seed 7 --pass fwd sq=1 det=0", "sq=1:pass=fwd:seed=7\npass=fwd:seed=7\n");
    prints("list sq=1..9 --filter '=(3|5)$'", "sq=3\nsq=5\n");
    prints("list sq=1..9 --max-cases 2", "sq=1\nsq=2\n");
    prints("list sq=1..9 --filter nothing", "");
    prints("list hq=2 --format jsonl",
           "{\"id\":\"5cf7254a25b01027\",\"case\":\"hq=2\",\"suite\":\"\",\"group\":\"\","
           "\"backends\":[],\"modelled\":false}\n");
    CHECK_INT(tool(out, "list te-3481 --format jsonl --max-cases 1"), 0);
    CHECK_HAS(out, "\"suite\":\"te-3481\",\"group\":\"crash\"");
    CHECK_HAS(out, "\"selector\":\"te-2.10\"");
    CHECK_INT(tool(out, "list smoke"), 0);
    CHECK_HAS(out, "dtype=f32");
}

/* Shards are disjoint, together complete, and stay what they are when cases are added. */
static void test_shards(void)
{
    int total = 0;
    for (int i = 1; i <= 3; i++) {
        char arguments[64];
        (void)snprintf(arguments, sizeof arguments, "list sq=1..100 --shard %d/3", i);
        CHECK_INT(tool(out, arguments), 0);
        int lines = 0;
        for (const char *p = out; (p = strchr(p, '\n')) != NULL; p++) {
            lines++;
        }
        CHECK(lines > 20 && lines < 50);
        total += lines;
    }
    CHECK_INT(total, 100);
    CHECK_INT(tool(out, "list b=1 --shard 1/3"), 0);
    at_case c;
    char id[AT_ID_TEXT];
    at_case_init(&c);
    at_case_id(&c, id);
    CHECK_INT(out[0] != '\0', strtoull(id, NULL, 16) % 3 == 0);
}

static void test_list_refuses(void)
{
    refuses("list nosuch", "\"nosuch\" is no suite");
    refuses("list", "name a suite");
    refuses("list sq=x", "sq=x is not accepted");
    refuses("list b=1 --filter '('", "--filter \"(\" is not an extended regular expression");
    refuses("list b=1 --seed x", "seed=x is not accepted");
    refuses("list b=1 --pass bwd", "--pass does not accept \"bwd\"");
    refuses("list b=1 --shard 0/3", "--shard does not accept");
    refuses("list b=1 --corpus /nonexistent", "--corpus \"/nonexistent\" is not a folder");
    refuses("list b=1 --nosuch", "unknown flag");
    refuses("list smoke >/dev/full", "stdout cannot be written");
}

static void test_explain(void)
{
    prints("explain dqk",
           "dqk: head dim of q and k\n  takes    an integer 1..4096\n  default  64\n");
    CHECK_INT(tool(out, "explain hkv softcap lenq"), 0);
    CHECK_HAS(out, "default  =hq");
    CHECK_HAS(out, "softcap: ");
    CHECK_HAS(out, "default  none");
    CHECK_INT(tool(out, "explain WRONG UNSUPPORTED PASS"), 0);
    CHECK_HAS(out, "WRONG (class fail): ");
    CHECK_HAS(out, "UNSUPPORTED (class neutral): ");
    CHECK_HAS(out, "PASS (class ok): ");
    CHECK_INT(tool(out, "explain hq=16:hkv=16:mask=causal"), 0);
    CHECK_HAS(out, "case hq=16:mask=causal\nid   ");
    CHECK_HAS(out, "  hkv      16 ");
    refuses("explain", "name a status");
    refuses("explain nosuch", "\"nosuch\" is no status");
    refuses("explain sq=x", "sq=x is not accepted");
    refuses("explain wrong", "is no status");
    refuses("explain 0123456789abcdef", "no case of the suites");
    refuses("explain 0123456789abcdef -o /nonexistent",
            "/nonexistent/results.jsonl cannot be read");
}

static void test_explain_id(void)
{
    char path[512], arguments[700];
    at_case c;
    at_error err = {""};
    char id[AT_ID_TEXT];
    CHECK_OK(at_case_parse(&c, "hq=4:sq=256:dqk=128:dv=96:arch=sm100", &err), &err);
    at_case_id(&c, id);
    (void)snprintf(arguments, sizeof arguments, "explain %s", id);
    CHECK_INT(tool(out, arguments), 0);
    CHECK_HAS(out, "group wrong-dv\ncase hq=4:sq=256:dqk=128:dv=96:arch=sm100\n");
    (void)snprintf(path, sizeof path, "%s/results.jsonl", at_test_folder());
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK(
        fputs("{\"id\":\"0123456789abcdef\",\"case\":\"sq=3\",\"backend\":\"x\",\"version\":\"1\","
              "\"engine\":\"e\",\"status\":\"WRONG\",\"reason\":\"bound\",\"message\":\"m\"}\n"
              "{\"id\":\"0123456789abc",
              file) >= 0);
    CHECK(fclose(file) == 0);
    (void)snprintf(arguments, sizeof arguments, "explain 0123456789abcdef -o '%s'",
                   at_test_folder());
    CHECK_INT(tool(out, arguments), 0);
    CHECK_HAS(out, "case sq=3\n");
    CHECK_HAS(out, "  x@1 e: WRONG bound m\n");
}

/* reports/case-language.md is what the table says; `attest explain fields` writes it anew. */
static void test_language_page(void)
{
    static char page[65536];
    FILE *file = fopen(AT_TEST_SOURCE "/reports/case-language.md", "r");
    CHECK(file != NULL);
    if (file != NULL) {
        page[fread(page, 1, sizeof page - 1, file)] = '\0';
        (void)fclose(file);
    }
    prints("explain fields", page);
    for (size_t i = 0; i < at_case_field_count; i++) {
        char row[64];
        (void)snprintf(row, sizeof row, "| `%s` | ", at_case_fields[i].key);
        CHECK_HAS(page, row);
    }
}

static void test_feature_matrix(void)
{
    static char page[1 << 18];
    FILE *file = fopen(AT_TEST_SOURCE "/reports/feature-matrix.md", "r");
    CHECK(file != NULL);
    if (file != NULL) {
        page[fread(page, 1, sizeof page - 1, file)] = '\0';
        (void)fclose(file);
    }
    prints("explain features", page);
}

const at_test at_tests[] = {
    {"cli", "list", test_list},
    {"cli", "shards", test_shards},
    {"cli", "list_refuses", test_list_refuses},
    {"cli", "explain", test_explain},
    {"cli", "explain_id", test_explain_id},
    {"cli", "language_page", test_language_page},
    {"cli", "feature_matrix", test_feature_matrix},
    {NULL, NULL, NULL},
};
