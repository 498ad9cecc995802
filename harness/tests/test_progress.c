/* The progress display: a bar that clears itself, plain lines now and then, silence. */
#include "harness/tests/test.h"

#include <unistd.h>
#include <stdio.h>
#include <string.h>

#include "harness/run/progress.h"

static char shown[1 << 14];

/* What was printed since the last call. */
static const char *printed(FILE *file)
{
    rewind(file);
    size_t n = fread(shown, 1, sizeof shown - 1, file);
    shown[n] = '\0';
    rewind(file);
    CHECK(ftruncate(fileno(file), 0) == 0);
    return shown;
}

static at_record record_of(at_kind kind)
{
    static char empty[] = "", name[] = "x.y", text[] = "sq=4";
    at_record r = {.kind = kind, .measured = kind, .step = AT_STEP_BACKWARD, .tensor = AT_DV};
    r.backend = name;
    r.case_text = text;
    r.message = r.engine = r.version = empty;
    return r;
}

static void test_bar(void)
{
    FILE *file = tmpfile();
    at_progress p;
    at_record pass = record_of(AT_PASS), wrong = record_of(AT_WRONG), waived = record_of(AT_WAIVED);
    at_progress_init(&p, file, true, false, 4);
    at_progress_launched(&p, "x.y", "sq=4");
    at_progress_done(&p, &pass);
    at_progress_tick(&p);
    CHECK_HAS(printed(file), "\r######..................  1/4  ");
    CHECK_HAS(shown, "0 failed  x.y sq=4");
    at_progress_done(&p, &wrong);
    CHECK_HAS(printed(file), "\r\033[KWRONG x.y backward.dv sq=4\n");
    at_progress_done(&p, &waived);
    at_progress_done(&p, &pass);
    at_progress_tick(&p);
    CHECK_HAS(printed(file), "########################  4/4  ");
    CHECK_HAS(shown, "eta 0s  1 failed (besides waived ones)");
    at_progress_clear(&p);
    CHECK_TEXT(printed(file), "\r\033[K");
    at_progress_clear(&p);
    CHECK_TEXT(printed(file), "");
    CHECK(fclose(file) == 0);
}

static void test_plain(void)
{
    FILE *file = tmpfile();
    at_progress p;
    at_record pass = record_of(AT_PASS), crash = record_of(AT_CRASH);
    at_progress_init(&p, file, false, false, 100);
    at_progress_done(&p, &pass);
    at_progress_tick(&p);
    CHECK_TEXT(printed(file), ""); /* not yet: a line about every ten seconds */
    p.last -= 11;
    at_progress_tick(&p);
    CHECK_HAS(printed(file), "1/100  ");
    CHECK(strchr(shown, '\r') == NULL && strchr(shown, '\033') == NULL);
    crash.tensor = -1;
    for (int i = 0; i < 50; i++) {
        at_progress_done(&p, &crash);
    }
    (void)printed(file);
    int lines = 0;
    for (const char *c = shown; (c = strstr(c, "CRASH x.y backward sq=4\n")) != NULL; c++) {
        lines++;
    }
    CHECK_INT(lines, 20);
    CHECK_HAS(shown, "(more failures are in results.jsonl)");
    CHECK_INT(p.failed, 50);
    CHECK(fclose(file) == 0);
}

static void test_quiet(void)
{
    FILE *file = tmpfile();
    at_progress p;
    at_record wrong = record_of(AT_WRONG);
    at_progress_init(&p, file, true, true, 2);
    at_progress_done(&p, &wrong);
    at_progress_tick(&p);
    at_progress_clear(&p);
    CHECK_TEXT(printed(file), "");
    CHECK_INT(p.failed, 1);
    CHECK(fclose(file) == 0);
}

const at_test at_tests[] = {
    {"unit", "bar", test_bar},
    {"unit", "plain", test_plain},
    {"unit", "quiet", test_quiet},
    {NULL, NULL, NULL},
};
