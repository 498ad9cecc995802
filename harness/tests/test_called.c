/* called selectors: what the tool makes of the answers, the garbage and the death of a host; the
 * host here is a stand-in of a few lines, which follows the rule set beside it. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/tests/tool.h"

static const char rules[] =
    "{\"schema\":\"attest-rules-1\",\"name\":\"te-2.20\",\"doc\":\"d\",\"source\":\"s\",\"env\":{"
    "\"arch\":{\"type\":\"arch\",\"default\":\"any\",\"doc\":\"\"},"
    "\"fa3\":{\"type\":\"version\",\"default\":\"none\",\"doc\":\"\"},"
    "\"fused\":{\"type\":\"bool\",\"default\":true,\"doc\":\"\"}},"
    "\"backends\":[{\"name\":\"fa3\",\"doc\":\"\",\"capabilities\":\"build\"},"
    "{\"name\":\"fused\",\"doc\":\"\",\"capabilities\":\"build\"}],\"rules\":["
    "{\"id\":\"env\",\"off\":[\"fused\"],\"when\":\"!fused\",\"why\":\"w\",\"source\":\"s\","
    "\"caller\":true},"
    "{\"id\":\"fa3\",\"off\":[\"fa3\"],\"when\":\"dqk > 256 || sm != 90\",\"why\":\"w\","
    "\"source\":\"s\"}]}";
static const char build[] =
    "{\"schema\":\"attest-capabilities-1\",\"name\":\"build\",\"arch\":\"sm90\",\"package\":\"p\","
    "\"doc\":\"d\",\"covers\":\"sm == 90\",\"rules\":[{\"id\":\"no\",\"when\":\"dqk < 200 && dv > "
    "300\",\"step\":\"forward\",\"outcome\":\"refuses\",\"message\":\"m\",\"evidence\":\"read\","
    "\"source\":\"s\"},{\"id\":\"yes\",\"when\":\"dqk > 0\",\"step\":\"forward\",\"outcome\":"
    "\"runs\",\"evidence\":\"read\",\"source\":\"s\"},{\"id\":\"back\",\"when\":\"dqk > 0\","
    "\"step\":\"backward\",\"outcome\":\"runs\",\"evidence\":\"read\",\"source\":\"s\"}]}";
static const char space[] =
    "{\"schema\":\"attest-space-1\",\"name\":\"small\",\"doc\":\"d\",\"case\":\"sq=128\",\"axes\":["
    "{\"name\":\"dqk\",\"points\":[\"dqk=16..512/8\"]},"
    "{\"name\":\"dv\",\"points\":[\"dv=16..512/8\"]}]}";
static const char host[] =
    "import json, os, sys\n"
    "start = os.environ.get('STAND_IN')\n"
    "if start == 'exit':\n"
    "    sys.exit('no engine here')\n"
    "print('hello' if start == 'hello' else json.dumps({'release': '2.20.9'}), flush=True)\n"
    "for line in sys.stdin:\n"
    "    open('asked', 'a').write('question\\n')\n"
    "    if len(open('asked').readlines()) > int(os.environ.get('QUESTIONS', '1000')):\n"
    "        sys.exit('enough')\n"
    "    q = json.loads(line)\n"
    "    for text in q['cases']:\n"
    "        case = dict(pair.split('=') for pair in text.split(':'))\n"
    "        d = int(case.get('dqk', 64))\n"
    "        if d == 1:\n"
    "            print('first words\\nlast words', file=sys.stderr)\n"
    "            sys.exit(7)\n"
    "        if d == 2:\n"
    "            os.kill(os.getpid(), 9)\n"
    "        on = [b for b, no in (('fa3', d > 256), ('fused', q['env']['fused'] == '0')) if not "
    "no]\n"
    "        a = {'winner': on[0] if on else None, 'admitted': on, 'seconds': 1e-6, 'reasons': [\n"
    "            'Disabling FlashAttention 2 for this', 'Selected',\n"
    "            'Disabling FlashAttention 3 for head dims' + (f' such as {d}' if q['full'] else "
    "''),\n"
    "            'Disabling FusedAttention due to NVTE_FUSED_ATTN=0']}\n"
    "        a.update({4: {'admitted': ['fa9']}, 5: {'winner': 'fused', 'admitted': ['fa3']},\n"
    "                  6: {'error': 'ValueError: odd'}, 7: {'winner': None, 'admitted': [],\n"
    "                  'refused_by': 'TypeError: raised'}, 8: {'reasons': 1}}.get(d, {}))\n"
    "        print('{\"winner\": ' if d == 3 else json.dumps(a), flush=True)\n";

static void prepare(void)
{
    char path[600];
    at_tool_write("corpus/selectors/te-2.20.json", rules);
    at_tool_write("corpus/capabilities/build.json", build);
    at_tool_write("corpus/spaces/small.json", space);
    at_tool_write("kernels/python/te_selector/host.py", host);
    at_tool_write("cache/te/2.20/.done", "");
    (void)snprintf(path, sizeof path, "%s/corpus", at_test_folder());
    (void)setenv("ATTEST_CORPUS", path, 1);
    (void)snprintf(path, sizeof path, "%s/cache", at_test_folder());
    (void)setenv("ATTEST_TE_CACHE", path, 1);
    (void)setenv("ATTEST_PYTHON", "python3", 1);
}

static void selects(int line, const char *arguments, int code, const char *out, const char *err)
{
    const at_tool *t = at_tool_run("select %s", arguments);
    if (t->code != code || strstr(t->out, out) == NULL || strstr(t->err, err) == NULL ||
        at_tool_count(t->err, "\n") != (code == 3)) {
        at_test_fail(__FILE__, line, "code %d, \"%s\", \"%s\", want %d, \"%s\", \"%s\"", t->code,
                     t->out, t->err, code, out, err);
    }
}
#define SELECTS(arguments, out) selects(__LINE__, arguments, 0, out, "")
#define REFUSED(arguments, err) selects(__LINE__, arguments, 3, "", err)

static void test_answers(void)
{
    prepare();
    SELECTS("arch=sm90 --selector te@2.20", "winner    fa3\n  admitted  fa3 fused\n");
    SELECTS("arch=sm90 --selector te@installed", "winner    fa3\n");
    SELECTS("dqk=300:arch=sm90 --selector te@2.20",
            "winner    fused\n  admitted  fused\n  refused   fa3 by called: Disabling "
            "FlashAttention 3 for head dims such as 300\n            Transformer Engine 2.20.9, "
            "called\n");
    SELECTS("dqk=300 --arch sm90 --selector te@2.20 --env fused=0 --format jsonl",
            "\"winner\":null,\"admitted\":[]");
    SELECTS("dqk=7:arch=sm90 --selector te@2.20", "fused by called: TypeError: raised\n");
}

static void test_refused(void)
{
    prepare();
    REFUSED("dqk=64 --selector te@2.20", "te@2.20 asks for the arch");
    REFUSED("arch=sm90 --selector te@2.20 --env fa4=none", "te@2.20: ");
    REFUSED("arch=sm90 --selector te@2.20 --env fused=2", "fused");
    REFUSED("arch=sm90 --selector te@9.9", "te-9.9");
    REFUSED("dqk=3:arch=sm90 --selector te@2.20", "te@2.20: the answer");
    REFUSED("dqk=4:arch=sm90 --selector te@2.20", "admits a backend that te@2.20 does not have");
    REFUSED("dqk=5:arch=sm90 --selector te@2.20", "its winner is none of those that it admits");
    REFUSED("dqk=6:arch=sm90 --selector te@2.20", "te@2.20: ValueError: odd");
    REFUSED("dqk=8:arch=sm90 --selector te@2.20", "\"reasons\" must be an array");
}

static void test_death(void)
{
    prepare();
    REFUSED("dqk=1:arch=sm90 --selector te@2.20",
            "te@2.20: the process left with exit code 7 before it answered: last words");
    REFUSED("dqk=2:arch=sm90 --selector te@2.20",
            "te@2.20: the process died of SIGKILL before it answered");
    (void)setenv("STAND_IN", "exit", 1);
    REFUSED("arch=sm90 --selector te@2.20",
            "te@2.20: the process left with exit code 1 before it was ready: ");
    REFUSED("arch=sm90 --selector te@installed", "no engine here");
    (void)setenv("STAND_IN", "hello", 1);
    REFUSED("arch=sm90 --selector te@2.20", "te@2.20: its first line");
    (void)unsetenv("STAND_IN");
    (void)setenv("ATTEST_PYTHON", "python-that-is-not", 1);
    REFUSED("arch=sm90 --selector te@2.20", "\"python-that-is-not\" cannot be executed");
    (void)setenv("ATTEST_PYTHON", "python3", 1);
    (void)setenv("ATTEST_TE_CACHE", "/nonexistent", 1);
    REFUSED("arch=sm90 --selector te@2.20", "fetch.py FOLDER 2.20");
    (void)unsetenv("ATTEST_TE_CACHE");
    REFUSED("arch=sm90 --selector te@2.20", "ATTEST_TE_CACHE is not set");
}

#define SPACE "--arch sm90 --env fused=0 --space small --format jsonl"

/* The stand-in follows the rules, so boxes are the same but for what refuses. */
static void test_audit(void)
{
    prepare();
    const at_tool *t = at_tool_run("audit --selector te-2.20 " SPACE);
    int boxes = at_tool_count(t->out, "\n"), admits = at_tool_count(t->out, "\"admits\":\"fa3\"");
    int refused = at_tool_count(t->out, "\"refusing_rule\":\"");
    CHECK_INT(t->code, 1);
    CHECK(admits > 0 && refused > 0 && admits + refused == boxes);
    t = at_tool_run("audit --selector te@2.20 " SPACE);
    CHECK_INT(t->code, 1);
    CHECK_INT(at_tool_count(t->out, "\n"), boxes);
    CHECK_INT(at_tool_count(t->out, "\"admits\":\"fa3\""), admits);
    CHECK_INT(at_tool_count(t->out, "\"refusing_rule\":\"called\""), refused);
    CHECK_INT(at_tool_count(t->out, "NVTE_FUSED_ATTN"), 0); /* the caller's own */
    char *asked = at_tool_read("asked");
    int questions = at_tool_count(asked, "\n");
    CHECK(questions >= 63 * 63 / 256 && questions < 100); /* many cases a question */
    free(asked);
}

/* Reasons are numbered alike in all environments. */
static void test_sweep(void)
{
    prepare();
    static const char asked[] = "audit --selector %s --arch sm90 --sweep fused=1,0 --space small "
                                "--format jsonl";
    const at_tool *t = at_tool_run(asked, "te-2.20");
    int boxes = at_tool_count(t->out, "\n"), admits = at_tool_count(t->out, "\"admits\":\"fused\"");
    CHECK(t->code == 1 && boxes > admits && admits > 0);
    t = at_tool_run(asked, "te@2.20");
    CHECK_INT(t->code, 1);
    CHECK_INT(at_tool_count(t->out, "\n"), boxes);
    CHECK_INT(at_tool_count(t->out, "\"admits\":\"fused\""), admits);
    CHECK_INT(at_tool_count(t->out, "NVTE_FUSED_ATTN"), 0);
}

static void test_audit_death(void)
{
    prepare();
    const at_tool *t = at_tool_run("audit --selector te@2.20 --arch sm90 --space "
                                   "'dqk=1,9..64:dv=16..64'");
    CHECK_INT(t->code, 3);
    CHECK_INT(at_tool_count(t->err, "\n"), 1);
    CHECK(strstr(t->err, "exit code 7 before it answered: last words") != NULL);
}

/* The text with every "build" as the name of a set that is modelled. */
static void put_modelled(const char *path, const char *text)
{
    char out[4096];
    size_t used = 0;
    for (const char *c = text; *c != '\0' && used + 32 < sizeof out;) {
        bool here = strncmp(c, "\"build\"", 7) == 0;
        used += (size_t)snprintf(out + used, sizeof out - used, "%.*s", here ? 13 : 1,
                                 here ? "\"fa3-2025-02\"" : c);
        c += here ? 7 : 1;
    }
    at_tool_write(path, out);
}

/* The command lines of boxes ask for shorter cases: the selector ends between two boxes. */
static void test_death_between_boxes(void)
{
    static const char asked[] = "audit --selector te@2.20 --arch sm90 --space long --format %s";
    static const char *const formats[] = {"text", "jsonl", "markdown"};
    prepare();
    at_tool_write("corpus/spaces/long.json",
                  "{\"schema\":\"attest-space-1\",\"name\":\"long\",\"doc\":\"d\",\"case\":"
                  "\"sq=512:pass=fwd\",\"axes\":[{\"name\":\"dqk\",\"points\":[\"dqk=64..128/8\"]},"
                  "{\"name\":\"dv\",\"points\":[\"dv=304..512/8\"]}]}");
    put_modelled("corpus/selectors/te-2.20.json", rules);
    put_modelled("corpus/capabilities/fa3-2025-02.json", build);
    for (int i = 0; i < 3; i++) {
        at_tool_write("asked", "");
        (void)setenv("QUESTIONS", "99", 1);
        const at_tool *t = at_tool_run(asked, formats[i]);
        CHECK_INT(t->code, 1);
        CHECK_HAS(t->out, "repro 'dv=304:pass=fwd:arch=sm90' --backend modelled.fa3-2025-02");
        CHECK_TEXT(t->err, "");
        char *log = at_tool_read("asked");
        CHECK(at_tool_count(log, "\n") > 1);
        free(log);
        at_tool_write("asked", "");
        (void)setenv("QUESTIONS", "1", 1);
        t = at_tool_run(asked, formats[i]);
        CHECK_INT(t->code, 3);
        CHECK_INT(at_tool_count(t->err, "\n"), 1);
        CHECK_HAS(t->err, "attest: audit: te@2.20: the process left with exit code 1 before it "
                          "answered: enough");
        CHECK(strstr(t->out, "fa3") != NULL);
    }
    (void)unsetenv("QUESTIONS");
}

/* The release's own function beside the rule set, in one run. */
static void test_bench(void)
{
    char training[1024] = "";
    prepare();
    (void)snprintf(training, sizeof training, "%s", space);
    char *name = strstr(training, "small");
    memmove(name + 8, name + 5, strlen(name + 5) + 1);
    memcpy(name, "training", 8);
    at_tool_write("corpus/spaces/training.json", training);
    const at_tool *t = at_tool_run("bench audit --selector te@2.20 --format jsonl");
    CHECK_TEXT(t->err, "");
    CHECK_INT(t->code, 0);
    CHECK_HAS(t->out, "\"selector\":\"te-2.20\",\"decisions\":3969,");
    CHECK_HAS(t->out, "\"called\":\"te@2.20\",\"calls\":3969,");
    CHECK_HAS(t->out, "\"ratio_to_function\":");
    t = at_tool_run("bench audit --selector te@9.9");
    CHECK_INT(t->code, 3);
    CHECK_HAS(t->err, "bench audit: ");
}

const at_test at_tests[] = {{"cli", "answers", test_answers},
                            {"cli", "refused", test_refused},
                            {"cli", "death", test_death},
                            {"cli", "audit", test_audit},
                            {"cli", "sweep", test_sweep},
                            {"cli", "audit-death", test_audit_death},
                            {"cli", "death-between-boxes", test_death_between_boxes},
                            {"cli", "bench", test_bench},
                            {NULL, NULL, NULL}};
