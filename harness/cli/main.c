/* The attest tool: finds the command and runs it. */
#include "harness/cli/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "harness/status.h"

const at_command at_commands[] = {
    {"sweep", "[SUITE|CASE...]", "run cases on backends; the main job", cmd_sweep},
    {"list", "SUITE|CASE...", "print cases, run nothing", cmd_list},
    {"repro", "CASE --backend B", "run one case on one backend, verbosely", cmd_repro},
    {"reduce", "CASE --backend B", "shrink a failing case to the keys it needs", cmd_reduce},
    {"explain", "ID|STATUS|KEY|CASE|BUG|fields|features|known-bugs", "say what a name means",
     cmd_explain},
    {"worker", "", NULL, cmd_worker},
    {"select", "CASE... [--selector NAME]", "who would serve it, and why the others not",
     cmd_select},
    {"audit", "--selector NAME --space NAME",
     "check rule sets against what kernel builds can do, or did", cmd_audit},
    {"doctor", "", "devices, libraries, what is missing and how to get it", cmd_doctor},
    {"bench", "[NAME...]", "throughput of the harness itself: reference case fill audit",
     cmd_bench},
    {"selftest", "", "planted faults: how many the judge catches; false alarms", cmd_selftest},
    {"calibrate", "", "measure the limits of the statistical tier on healthy runs", cmd_calibrate},
    {NULL, NULL, NULL, NULL},
};
const char *at_program = "attest";

int at_usage_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fputs("attest: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputs("\n", stderr);
    va_end(args);
    return AT_EXIT_USAGE;
}

static void print_help(void)
{
    (void)puts("attest: conformance tests for attention backends\n\nusage: attest COMMAND ...\n");
    for (const at_command *c = at_commands; c->name != NULL; c++) {
        if (c->doc != NULL) {
            (void)printf("  %-10s %-22s %s\n", c->name, c->arguments, c->doc);
        }
    }
    (void)puts("\nattest COMMAND --help lists a command's flags.\n"
               "exit codes: 0 complete and clean, 1 findings, 2 incomplete (resumable), 3 usage, "
               "input or\ninfrastructure error, 4 nothing was judged");
}

int main(int argc, char **argv)
{
    at_program = argc > 0 ? argv[0] : at_program;
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help();
        return argc < 2 ? AT_EXIT_USAGE : AT_EXIT_CLEAN;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("attest %s\n", at_version());
        return AT_EXIT_CLEAN;
    }
    for (const at_command *c = at_commands; c->name != NULL; c++) {
        if (strcmp(c->name, argv[1]) == 0) {
            return c->run(argc - 1, argv + 1);
        }
    }
    return at_usage_error("no command \"%s\"; `attest --help` lists them", argv[1]);
}
