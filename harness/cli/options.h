/* Flags of the commands: one table, parsed the same way everywhere. */
#ifndef AT_OPTIONS_H
#define AT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/cli/command.h"

/* One bit a flag: a command says which it takes with AT_FLAG(BACKEND) | AT_FLAG(ENGINE) ... */
typedef enum at_flag_id {
    AT_FLAG_BACKEND,
    AT_FLAG_ENGINE,
    AT_FLAG_FILTER,
    AT_FLAG_PASS,
    AT_FLAG_SEED,
    AT_FLAG_JOBS,
    AT_FLAG_SHARD,
    AT_FLAG_CASE_TIMEOUT,
    AT_FLAG_DEADLINE,
    AT_FLAG_MAX_CASES,
    AT_FLAG_RESUME,
    AT_FLAG_REPEAT,
    AT_FLAG_DRY_RUN,
    AT_FLAG_OUTPUT,
    AT_FLAG_STRICT,
    AT_FLAG_FORCE_REFUSED,
    AT_FLAG_BASELINE,
    AT_FLAG_SELECTOR,
    AT_FLAG_ENV,
    AT_FLAG_ARCH,
    AT_FLAG_SPACE,
    AT_FLAG_SWEEP,
    AT_FLAG_LIMIT,
    AT_FLAG_DIFF,
    AT_FLAG_WHY_NOT,
    AT_FLAG_RESULTS,
    AT_FLAG_WAIVERS,
    AT_FLAG_STAGE,
    AT_FLAG_AGAINST,
    AT_FLAG_CUDNN,
    AT_FLAG_RECORD_DEVICE,
    AT_FLAG_DUMP,
    AT_FLAG_PLUGIN,
    AT_FLAG_WORKER,
    AT_FLAG_CORPUS,
    AT_FLAG_FORMAT,
    AT_FLAG_DOCUMENT, /* --format with markdown */
    AT_FLAG_COLOR,
    AT_FLAG_QUIET,
    AT_FLAG_VERBOSE,
    AT_FLAG_THREADS,
    AT_FLAG_DRAW, /* --seed of drawn cases */
    AT_FLAG_FILE, /* --output of one file */
    AT_FLAG_RUNS,
    AT_FLAG_FULL,
    AT_FLAG_LIMITS,
    AT_FLAG_CHECKS,
    AT_FLAG_COUNT
} at_flag_id;
#define AT_FLAG(name) (UINT64_C(1) << AT_FLAG_##name)

enum { AT_OPTION_LIST_MAX = 16 };

/* Values of a flag that may be given several times, in order. */
typedef struct at_option_list {
    int n;
    const char *item[AT_OPTION_LIST_MAX];
} at_option_list;

/* Parsed flags. Text is borrowed from argv; NULL or 0 where a flag was not given. */
typedef struct at_options {
    const char *backend; /* "a,b" */
    const char *engine;  /* "first" unless given */
    const char *filter;  /* extended regular expression over the case text */
    const char *pass, *seed, *output, *baseline;
    const char *selector, *arch, *space, *stage, *against, *cudnn, *record_device, *why_not,
        *results, *dump, *corpus, *limits, *checks;
    at_option_list env, plugin, worker, sweep;
    int64_t jobs, max_cases, repeat, limit, threads, runs;
    int64_t shard_index, shard_count; /* 1-based; 1/1 unless given */
    double case_timeout, deadline;    /* seconds; 0: not given */
    bool resume, dry_run, strict, force_refused, waivers, quiet, verbose, diff, full;
    const char *format, *color; /* as given, or NULL */
    bool jsonl, markdown;       /* --format */
    bool colors;                /* stdout wants colour: --color, NO_COLOR and the terminal decide */
    int word_count;             /* what stands beside the flags */
    char **words;
} at_options;

/* Parses argv[1..] by the table, `accepts` being the flags that command argv[0] takes; --help
 * prints them. Returns true when the command is to go on; otherwise *exit_code is what main
 * returns, and help or one sentence has been printed. Words and flags may be mixed; "--" ends the
 * flags. */
bool at_options_parse(at_options *out, uint64_t accepts, int argc, char **argv, int *exit_code);

#endif
