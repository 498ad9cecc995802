/* Lines, protocol and processes: what is read, what is refused, how a child's end is told. */
#include "harness/tests/test.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/run/process.h"
#include "harness/run/protocol.h"

static void test_lines(void)
{
    at_lines lines = {0};
    at_error err = {""};
    char *line = NULL;
    size_t length = 0;
    CHECK(!at_lines_next(&lines, &line, &length));
    CHECK_OK(at_lines_push(&lines, "ab", 2, &err), &err);
    CHECK(!at_lines_next(&lines, &line, &length));
    CHECK_OK(at_lines_push(&lines, "c\n\nde", 5, &err), &err);
    CHECK(at_lines_next(&lines, &line, &length));
    CHECK_TEXT(line, "abc");
    CHECK(at_lines_next(&lines, &line, &length));
    CHECK_INT(length, 0);
    CHECK(!at_lines_next(&lines, &line, &length));
    CHECK_INT(at_lines_rest(&lines), 2);
    char *flood = calloc(1, 1 << 16);
    at_status status = AT_OK;
    int pushes = 0;
    for (; status == AT_OK && pushes < 100; pushes++) {
        memset(flood, 'x', 1 << 16);
        status = at_lines_push(&lines, flood, 1 << 16, &err);
    }
    CHECK_INT(status, AT_INVALID);
    CHECK_INT(pushes, AT_LINE_LIMIT / (1 << 16));
    CHECK_HAS(err.text, "more than 1048576 bytes");
    free(flood);
    at_lines_close(&lines);
}

static void test_utf8(void)
{
    CHECK(at_utf8_valid("abc\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 12));
    static const char *const bad[] = {"\xff",         "\xc0\x80",         "\xc3",
                                      "\xe2\x82",     "\xed\xa0\x80",     "\xf5\x80\x80\x80",
                                      "\xe0\x80\x80", "\xf0\x80\x80\x80", "\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(!at_utf8_valid(bad[i], strlen(bad[i])));
    }
    char text[] = "a\xff\x1b[31m\tb\nc\x7f\xc3\xa4";
    at_text_clean(text);
    CHECK_TEXT(text, "a??[31m\tb\nc?\xc3\xa4");
}

static void test_request(void)
{
    at_request r = {.id = 7, .case_text = "b=2", .backend = "cpu.flash", .repeat = 3}, back;
    at_error err = {""};
    char *line = at_request_print(&r);
    CHECK_TEXT(line, "{\"id\":7,\"case\":\"b=2\",\"backend\":\"cpu.flash\",\"repeat\":3}\n");
    CHECK_OK(at_request_parse(&back, line, strlen(line) - 1, &err), &err);
    CHECK_INT(back.id, 7);
    CHECK_TEXT(back.case_text, "b=2");
    CHECK_INT(back.repeat, 3);
    CHECK(!back.force);
    free(line);
    static const struct {
        const char *line, *part;
    } bad[] = {{"", "empty"},
               {"7", "object was expected"},
               {"{\"id\":1}", "\"case\" is missing"},
               {"{\"id\":0,\"case\":\"\",\"backend\":\"x\"}", "\"id\" accepts 1"},
               {"{\"id\":1,\"case\":\"\",\"backend\":\"x\",\"repeat\":0}", "\"repeat\" 1 to 1000"},
               {"{\"id\":1,\"case\":\"\",\"backend\":\"x\",\"what\":0}", "unknown member"},
               {"{\"id\":1,\"case\":1,\"backend\":\"x\"}", "\"case\" must be a string"},
               {"{\"id\":1,\"case\":\"\xff\",\"backend\":\"x\"}", "not UTF-8"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_INT(at_request_parse(&back, bad[i].line, strlen(bad[i].line), &err), AT_INVALID);
        CHECK_HAS(err.text, bad[i].part);
    }
    char wide[4000] = "{\"id\":1,\"case\":\"";
    memset(wide + 16, 'x', 3000);
    (void)snprintf(wide + 3016, 100, "\",\"backend\":\"x\"}");
    CHECK_INT(at_request_parse(&back, wide, strlen(wide), &err), AT_INVALID);
    CHECK_HAS(err.text, "at most 2047");
}

static void refuses_event(const char *line, const char *part)
{
    at_event event;
    at_error err = {""};
    CHECK_INT(at_event_parse(&event, line, strlen(line), &err), AT_INVALID);
    CHECK(event.body == NULL);
    CHECK_HAS(err.text, part);
}

static void test_event(void)
{
    at_event event;
    at_error err = {""};
    static const char line[] = "{\"event\":\"begin\",\"id\":3,\"step\":\"backward\",\"more\":1}";
    CHECK_OK(at_event_parse(&event, line, strlen(line), &err), &err);
    CHECK_INT(event.kind, AT_EVENT_BEGIN);
    CHECK_INT(event.id, 3);
    CHECK_TEXT(event.step, "backward");
    at_event_close(&event);
    refuses_event("{}", "\"event\" is missing");
    refuses_event("{\"event\":\"what\"}", "no event \"what\"");
    refuses_event("{\"event\":\"verdict\",\"id\":1}", "\"status\" is missing");
    refuses_event("{\"event\":\"verdict\",\"status\":\"PASS\"}", "\"id\" is missing");
    refuses_event("{\"event\":\"begin\",\"id\":1,\"step\":\"sleep\"}", "no step \"sleep\"");
    refuses_event("{\"event\":\"claim\",\"id\":1,\"admitted\":true}", "\"engines\" is missing");
    refuses_event("hello there", "not valid JSON");
    refuses_event("{\"event\":\"bye\"} {}", "text after the end");
}

static at_status hello(const char *line, size_t *n, at_error *err)
{
    at_event event;
    at_backend_info info[4];
    CHECK_OK(at_event_parse(&event, line, strlen(line), err), err);
    at_status status = at_hello_read(&event, info, 4, n, err);
    at_event_close(&event);
    return status;
}

static void test_hello(void)
{
    static const at_backend one = {.name = "x.y",
                                   .version = "1.0+cu",
                                   .promises = AT_PROMISES_BACKWARD | AT_MODELLED,
                                   .arch = AT_ARCH_SM90,
                                   .numeric = {.p = AT_P_F32, .head_rounded = true},
                                   .doc = "one"};
    const at_backend *const list[] = {&one, NULL};
    at_json *made = at_hello_make(list);
    char *text = at_json_print(made, false);
    at_event event;
    at_error err = {""};
    at_backend_info info[2];
    size_t n = 0;
    CHECK_OK(at_event_parse(&event, text, strlen(text), &err), &err);
    CHECK_OK(at_hello_read(&event, info, 2, &n, &err), &err);
    CHECK_INT(n, 1);
    CHECK_TEXT(info[0].name, "x.y");
    CHECK_TEXT(info[0].version, "1.0+cu");
    CHECK_INT(info[0].promises, one.promises);
    CHECK_INT(info[0].arch, AT_ARCH_SM90);
    CHECK(info[0].numeric.p == AT_P_F32 && info[0].numeric.head_rounded);
    CHECK(!info[0].numeric.scores_stored);
    at_event_close(&event);
    free(text);
    at_json_close(made);
#define HELLO(rest) "{\"event\":\"hello\",\"protocol\":1," rest "}"
    CHECK_INT(hello("{\"event\":\"hello\",\"protocol\":9,\"backends\":[]}", &n, &err), AT_INVALID);
    CHECK_HAS(err.text, "speaks protocol 9");
    CHECK_INT(hello(HELLO("\"backends\":[{\"name\":\"a b\",\"version\":\"1\"}]"), &n, &err),
              AT_INVALID);
    CHECK_HAS(err.text, "letters, digits");
    CHECK_INT(hello(HELLO("\"backends\":[1]"), &n, &err), AT_INVALID);
    CHECK_INT(hello(HELLO("\"backends\":[{\"name\":\"a\",\"version\":\"1\",\"arch\":\"z80\"}]"), &n,
                    &err),
              AT_INVALID);
    CHECK_HAS(err.text, "no arch \"z80\"");
    CHECK_OK(hello(HELLO("\"backends\":[{\"name\":\"a\",\"version\":\"1\"}]"), &n, &err), &err);
}

/* Any bytes: refused or read, never a crash. Lines are valid ones with random damage. */
static void test_any_bytes(void)
{
    static const char *const seeds[] = {
        "{\"event\":\"verdict\",\"id\":12,\"status\":\"PASS\",\"engine\":\"e\",\"steps\":[]}",
        "{\"event\":\"hello\",\"protocol\":1,\"backends\":[{\"name\":\"a\",\"version\":\"1\"}]}",
        "{\"id\":1,\"case\":\"b=1\",\"backend\":\"cpu.flash\",\"repeat\":2,\"force\":true}"};
    uint64_t state = 1;
    int read = 0;
    for (int i = 0; i < 30000; i++) {
        char line[256];
        size_t n = (size_t)snprintf(line, sizeof line, "%s", seeds[i % 3]);
        for (int k = i % 5; k > 0; k--) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            line[(state >> 33) % n] = (char)(state >> 25);
            n -= (state >> 61) == 0;
        }
        at_event event;
        at_request request;
        at_backend_info info[2];
        at_error err = {""};
        size_t count = 0;
        if (at_event_parse(&event, line, n, &err) == AT_OK) {
            read++;
            at_status status =
                event.kind == AT_EVENT_HELLO ? at_hello_read(&event, info, 2, &count, &err) : AT_OK;
            CHECK(status == AT_OK || err.text[0] != '\0');
            at_event_close(&event);
        } else {
            CHECK(err.text[0] != '\0');
        }
        read += at_request_parse(&request, line, n, &err) == AT_OK;
    }
    CHECK(read > 3000 && read < 30000);
}

/* Runs a shell line to its end; returns how it died. */
static int end_of(const char *shell, at_process *p)
{
    const char *const argv[] = {"/bin/sh", "-c", shell, NULL};
    at_spawn how = {.argv = argv, .threads = 3};
    at_error err = {""};
    int wait_status = -1;
    CHECK_OK(at_process_open(p, &how, &err), &err);
    double start = at_clock();
    while (!at_process_ended(p, &wait_status) && at_clock() - start < 20) {
        CHECK_OK(at_process_read(p, &err), &err);
        (void)poll(NULL, 0, 2);
    }
    CHECK_OK(at_process_read(p, &err), &err);
    return wait_status;
}

static void test_process(void)
{
    at_process p;
    char tail[256], code[48], sentence[128], *line = NULL;
    size_t length = 0;
    int wait_status = end_of("echo to protocol; echo threads $OMP_NUM_THREADS >&2; exit 7", &p);
    at_process_tail(&p, tail, sizeof tail);
    CHECK_TEXT(tail, "threads 3\n");
    CHECK(at_lines_next(&p.lines, &line, &length));
    CHECK_TEXT(line, "to protocol");
    at_death_text(wait_status, code, sentence);
    CHECK_TEXT(code, "exit_7");
    (void)at_process_kill(&p);
    wait_status = end_of("kill -SEGV $$", &p);
    at_death_text(wait_status, code, sentence);
    CHECK_TEXT(code, "sigsegv");
    CHECK_HAS(sentence, "SIGSEGV");
    (void)at_process_kill(&p);
    wait_status = end_of("i=0; while [ $i -lt 3000 ]; do echo line $i >&2; i=$((i+1)); done", &p);
    at_process_tail(&p, tail, sizeof tail);
    CHECK(strncmp(tail, "line ", 5) == 0);
    CHECK_HAS(tail, "line 2999\n");
    CHECK(p.noise_bytes > 3000 * 6);
    (void)at_process_kill(&p);
}

static void test_process_group(void)
{
    const char *const argv[] = {"/bin/sh", "-c", "sleep 100 & echo $!; wait", NULL};
    at_spawn how = {.argv = argv};
    at_process p;
    at_error err = {""};
    char *line = NULL;
    size_t length = 0;
    CHECK_OK(at_process_open(&p, &how, &err), &err);
    for (int i = 0; i < 1000 && !at_lines_next(&p.lines, &line, &length); i++) {
        CHECK_OK(at_process_read(&p, &err), &err);
        (void)poll(NULL, 0, 5);
    }
    pid_t grandchild = line != NULL ? (pid_t)atoi(line) : 0;
    CHECK(grandchild > 0);
    int wait_status = at_process_kill(&p);
    CHECK(WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL);
    CHECK_INT(p.pid, 0);
    char path[64], state = 'R';
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)grandchild);
    for (int i = 0; i < 400 && state != 'Z' && state != 0; i++) {
        FILE *file = fopen(path, "r");
        if (file == NULL || fscanf(file, "%*d %*s %c", &state) != 1) {
            state = 0;
        }
        if (file != NULL) {
            (void)fclose(file);
        }
        (void)poll(NULL, 0, 5);
    }
    CHECK(state == 'Z' || state == 0);
}

const at_test at_tests[] = {
    {"unit", "lines", test_lines},
    {"unit", "utf8", test_utf8},
    {"unit", "request", test_request},
    {"unit", "event", test_event},
    {"unit", "hello", test_hello},
    {"unit", "any_bytes", test_any_bytes},
    {"unit", "process", test_process},
    {"unit", "process_group", test_process_group},
    {NULL, NULL, NULL},
};
