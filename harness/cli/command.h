/* Commands of the tool: one row a command in main.c, one file cmd_NAME.c each. */
#ifndef AT_COMMAND_H
#define AT_COMMAND_H

/* Documented exit codes. */
enum {
    AT_EXIT_CLEAN = 0,
    AT_EXIT_FINDINGS = 1,
    AT_EXIT_INCOMPLETE = 2,
    AT_EXIT_USAGE = 3,
    AT_EXIT_NOTHING_JUDGED = 4
};

typedef struct at_command {
    const char *name;
    const char *arguments;             /* "SUITE|CASE..." */
    const char *doc;                   /* one line */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns an exit code */
} at_command;

int cmd_worker(int argc, char **argv);
int cmd_sweep(int argc, char **argv);
int cmd_repro(int argc, char **argv);
int cmd_reduce(int argc, char **argv);

/* The commands, ended by a NULL name. */
extern const at_command at_commands[];

/* The tool's name as it was called ("attest", "build/attest"), for lines that people copy. */
extern const char *at_program;

int cmd_list(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_select(int argc, char **argv);
int cmd_audit(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_selftest(int argc, char **argv);

/* Prints "attest: sentence" (and the hint to --help) on stderr; returns AT_EXIT_USAGE. */
int at_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
