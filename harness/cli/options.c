#include "harness/cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum kind { TEXT, CHOICE, LIST, SWITCH, INTEGER, SECONDS, SHARD } kind;

typedef struct flag {
    const char *name;
    char letter; /* short form, or 0 */
    kind kind;
    size_t offset;
    const char *argument; /* NULL for a switch; a CHOICE's values, separated by '|' */
    int64_t min, max;     /* INTEGER */
    const char *doc;
} flag;

#define AT(member) offsetof(at_options, member)

static const flag flags[AT_FLAG_COUNT] = {
    [AT_FLAG_BACKEND] = {"backend", 0, TEXT, AT(backend), "A,B", 0, 0,
                         "run these backends instead of the suite's"},
    [AT_FLAG_ENGINE] = {"engine", 0, TEXT, AT(engine), "all|first|ID", 0, 0,
                        "which engines of a backend to run (first)"},
    [AT_FLAG_FILTER] = {"filter", 0, TEXT, AT(filter), "REGEX", 0, 0,
                        "keep cases whose text matches"},
    [AT_FLAG_PASS] = {"pass", 0, CHOICE, AT(pass), "fwd|stats|train", 0, 0,
                      "rewrite every case to this pass"},
    [AT_FLAG_SEED] = {"seed", 0, TEXT, AT(seed), "N", 0, 0, "rewrite every case to this seed"},
    [AT_FLAG_JOBS] = {"jobs", 'j', INTEGER, AT(jobs), "N", 1, 1024,
                      "worker processes (one a core)"},
    [AT_FLAG_SHARD] = {"shard", 0, SHARD, 0, "I/N", 0, 0, "run part I of N, by case id"},
    [AT_FLAG_CASE_TIMEOUT] = {"case-timeout", 0, SECONDS, AT(case_timeout), "TIME", 0, 0,
                              "deadline of each step of a case: 5, 5s, 2m (5m)"},
    [AT_FLAG_DEADLINE] = {"deadline", 0, SECONDS, AT(deadline), "TIME", 0, 0,
                          "stop launching after this time; exit 2 if cases are left"},
    [AT_FLAG_MAX_CASES] = {"max-cases", 0, INTEGER, AT(max_cases), "N", 1, INT64_MAX,
                           "run the first N cases"},
    [AT_FLAG_RESUME] = {"resume", 0, SWITCH, AT(resume), NULL, 0, 0,
                        "keep what the output folder holds, run what is missing"},
    [AT_FLAG_REPEAT] = {"repeat", 0, INTEGER, AT(repeat), "N", 1, 10000,
                        "run every case N times; disagreement is FLAKY"},
    [AT_FLAG_DRY_RUN] = {"dry-run", 0, SWITCH, AT(dry_run), NULL, 0, 0,
                         "print what would run, run nothing"},
    [AT_FLAG_OUTPUT] = {"output", 'o', TEXT, AT(output), "DIR", 0, 0,
                        "folder for results (attest-out)"},
    [AT_FLAG_STRICT] = {"strict", 0, SWITCH, AT(strict), NULL, 0, 0,
                        "count OVER_REFUSED as a finding"},
    [AT_FLAG_FORCE_REFUSED] = {"force-refused", 0, SWITCH, AT(force_refused), NULL, 0, 0,
                               "run what selection refuses too; right results are OVER_REFUSED"},
    [AT_FLAG_BASELINE] = {"baseline", 0, TEXT, AT(baseline), "FILE", 0, 0,
                          "a summary.json: findings in it are not new"},
    [AT_FLAG_SELECTOR] = {"selector", 0, TEXT, AT(selector), "NAME", 0, 0,
                          "rule set of corpus/selectors, e.g. te-2.10; te@2.20: itself, called"},
    [AT_FLAG_ENV] = {"env", 0, LIST, AT(env), "K=V,..", 0, 0,
                     "what the selector reads beyond the case"},
    [AT_FLAG_ARCH] = {"arch", 0, TEXT, AT(arch), "ARCH", 0, 0, "target, e.g. sm90"},
    [AT_FLAG_SPACE] = {"space", 0, TEXT, AT(space), "NAME", 0, 0,
                       "space of cases to audit; or a suite, case text with lists"},
    [AT_FLAG_SWEEP] = {"sweep", 0, LIST, AT(sweep), "K=V,..", 0, 0,
                       "values of an environment key to audit, fa3=* is every known build"},
    [AT_FLAG_LIMIT] = {"limit", 0, INTEGER, AT(limit), "N", 1, INT64_MAX,
                       "show the N likeliest findings"},
    [AT_FLAG_DIFF] = {"diff", 0, SWITCH, AT(diff), NULL, 0, 0,
                      "what changed between two rule sets, given as words"},
    [AT_FLAG_WHY_NOT] = {"why-not", 0, TEXT, AT(why_not), "BACKEND", 0, 0,
                         "the rule that refuses it, and the nearest case that is admitted"},
    [AT_FLAG_RESULTS] = {"results", 0, TEXT, AT(results), "DIR", 0, 0,
                         "measured verdicts: the output folder of a sweep"},
    [AT_FLAG_WAIVERS] = {"waivers", 0, SWITCH, AT(waivers), NULL, 0, 0,
                         "leave out what corpus/waivers.json waives"},
    [AT_FLAG_STAGE] = {"stage", 0, CHOICE, AT(stage), "validate|graph|heuristics|support|plans", 0,
                       0, "how far cudnn takes each graph (support)"},
    [AT_FLAG_AGAINST] = {"against", 0, TEXT, AT(against), "NAME", 0, 0,
                         "rule set to compare cudnn with, e.g. te-2.18; or of cuDNN's frontend, to "
                         "hold a rule set against"},
    [AT_FLAG_CUDNN] = {"cudnn", 0, TEXT, AT(cudnn), "PATH", 0, 0,
                       "libcudnn.so.9 to ask, or a folder of versions (.cache/cudnn)"},
    [AT_FLAG_RECORD_DEVICE] = {"record-device", 0, TEXT, AT(record_device), "FILE", 0, 0,
                               "write the first GPU's properties, as cuDNN reports them"},
    [AT_FLAG_DUMP] = {"dump", 0, TEXT, AT(dump), "DIR", 0, 0,
                      "write inputs, outputs, reference and bound as .npy"},
    [AT_FLAG_PLUGIN] = {"plugin", 0, LIST, AT(plugin), "FILE.so", 0, 0,
                        "add the backends of a shared object (repeatable)"},
    [AT_FLAG_WORKER] = {"worker", 0, LIST, AT(worker), "COMMAND", 0, 0,
                        "add a worker program and its backends (repeatable)"},
    [AT_FLAG_CORPUS] = {"corpus", 0, TEXT, AT(corpus), "DIR", 0, 0, "the corpus folder"},
    [AT_FLAG_FORMAT] = {"format", 0, CHOICE, AT(format), "text|jsonl", 0, 0,
                        "what stdout gets (text)"},
    [AT_FLAG_DOCUMENT] = {"format", 0, CHOICE, AT(format), "text|jsonl|markdown", 0, 0,
                          "what stdout gets (text)"},
    [AT_FLAG_COLOR] = {"color", 0, CHOICE, AT(color), "auto|always|never", 0, 0,
                       "colours on stdout (auto; NO_COLOR is honoured)"},
    [AT_FLAG_QUIET] = {"quiet", 'q', SWITCH, AT(quiet), NULL, 0, 0, "no progress"},
    [AT_FLAG_VERBOSE] = {"verbose", 'v', SWITCH, AT(verbose), NULL, 0, 0,
                         "print every case before it is launched"},
    [AT_FLAG_THREADS] = {"threads", 0, INTEGER, AT(threads), "N", 1, 1024,
                         "threads to measure with (one a core)"},
    [AT_FLAG_DRAW] = {"seed", 0, TEXT, AT(seed), "N", 0, 0, "seed of the drawn cases (0)"},
    [AT_FLAG_FILE] = {"output", 'o', TEXT, AT(output), "FILE", 0, 0, "write here, not to stdout"},
    [AT_FLAG_RUNS] = {"runs", 0, INTEGER, AT(runs), "N", 1, INT64_MAX,
                      "healthy runs: of each class, dtype and group to calibrate; in all to test"},
    [AT_FLAG_FULL] = {"full", 0, SWITCH, AT(full), NULL, 0, 0,
                      "every fault on every dtype and distribution, 10^6 healthy runs, long keys"},
    [AT_FLAG_CHECKS] = {"checks", 0, TEXT, AT(checks), "A,B|all|none", 0, 0,
                        "metamorphic checks for cases that pass (none); explain checks lists them"},
    [AT_FLAG_LIMITS] = {"limits", 0, TEXT, AT(limits), "FILE|none", 0, 0,
                        "limits of the statistical tier (CORPUS/limits/cpu.json)"},
};

static const at_command *find_command(const char *name)
{
    const at_command *c = at_commands;
    while (c->name != NULL && strcmp(c->name, name) != 0) {
        c++;
    }
    return c->name != NULL ? c : NULL;
}

static void print_help(uint64_t accepts, const char *name)
{
    const at_command *command = find_command(name);
    if (command != NULL) {
        (void)printf("usage: attest %s [flags] %s\n%s\n", name, command->arguments,
                     command->doc ? command->doc : "");
    }
    (void)puts("\nflags:");
    for (int i = 0; i < AT_FLAG_COUNT; i++) {
        const flag *f = &flags[i];
        if ((accepts >> i & 1) == 0) {
            continue;
        }
        char left[64], letter[8] = "    ";
        if (f->letter != 0) {
            (void)snprintf(letter, sizeof letter, "-%c, ", f->letter);
        }
        (void)snprintf(left, sizeof left, "%s--%s%s%s", letter, f->name, f->argument ? " " : "",
                       f->argument ? f->argument : "");
        (void)printf("  %-32s %s\n", left, f->doc);
    }
    (void)printf("  %-32s %s\n", "-h, --help", "print this");
}

/* `word` is one of the '|'-separated choices. */
static bool is_choice(const char *choices, const char *word)
{
    size_t n = strlen(word);
    for (const char *c = choices; c != NULL; c = strchr(c, '|'), c = c ? c + 1 : NULL) {
        if (n > 0 && strncmp(c, word, n) == 0 && (c[n] == '|' || c[n] == '\0')) {
            return true;
        }
    }
    return false;
}

static bool parse_integer(int64_t *out, const char *text, int64_t min, int64_t max)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < min || value > max) {
        return false;
    }
    *out = value;
    return true;
}

/* "90", "90s", "1.5m", "2h" in seconds; positive, at most a year. */
static bool parse_seconds(double *out, const char *text)
{
    char *end = NULL;
    double value = strtod(text, &end);
    double unit = strcmp(end, "h") == 0   ? 3600
                  : strcmp(end, "m") == 0 ? 60
                  : strcmp(end, "s") == 0 ? 1
                  : *end == '\0'          ? 1
                                          : -1;
    value *= unit;
    if (end == text || !(value > 0) || !(value <= 366 * 86400.0)) {
        return false;
    }
    *out = value;
    return true;
}

static bool parse_shard(at_options *out, const char *text)
{
    char *end = NULL;
    errno = 0;
    long long index = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '/' &&
           parse_integer(&out->shard_count, end + 1, 1, 1000000) && index >= 1 &&
           index <= out->shard_count && (out->shard_index = index, true);
}

static int refuse(const char *command, const flag *f, const char *value, const char *accepted)
{
    return at_usage_error("%s: --%s does not accept \"%s\"; it accepts %s", command, f->name, value,
                          accepted);
}

/* Stores one value; -1, or the exit code after a sentence. */
static int store(at_options *out, const char *command, const flag *f, const char *value)
{
    char *at = (char *)out + f->offset;
    char accepted[128];
    switch (f->kind) {
    case TEXT:
        *(const char **)(void *)at = value;
        return *value != '\0' ? -1 : refuse(command, f, value, "a word that is not empty");
    case CHOICE:
        *(const char **)(void *)at = value;
        return is_choice(f->argument, value) ? -1 : refuse(command, f, value, f->argument);
    case LIST: {
        at_option_list *list = (at_option_list *)(void *)at;
        if (list->n == AT_OPTION_LIST_MAX) {
            return at_usage_error("%s: --%s stands more than %d times", command, f->name,
                                  AT_OPTION_LIST_MAX);
        }
        list->item[list->n++] = value;
        return *value != '\0' ? -1 : refuse(command, f, value, "a word that is not empty");
    }
    case SWITCH:
        *(bool *)(void *)at = true;
        return -1;
    case INTEGER:
        (void)snprintf(accepted, sizeof accepted, "an integer from %lld%s", (long long)f->min,
                       f->max == INT64_MAX ? " up" : "");
        if (f->max != INT64_MAX) {
            (void)snprintf(accepted, sizeof accepted, "an integer from %lld to %lld",
                           (long long)f->min, (long long)f->max);
        }
        return parse_integer((int64_t *)(void *)at, value, f->min, f->max)
                   ? -1
                   : refuse(command, f, value, accepted);
    case SECONDS:
        return parse_seconds((double *)(void *)at, value)
                   ? -1
                   : refuse(command, f, value, "a time such as 5, 5s, 10m or 2h");
    case SHARD:
        return parse_shard(out, value) ? -1 : refuse(command, f, value, "I/N with 1 <= I <= N");
    }
    return -1;
}

static bool wants_colors(const char *color)
{
    if (color != NULL && strcmp(color, "auto") != 0) {
        return strcmp(color, "always") == 0;
    }
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return (off == NULL || *off == '\0') && terminal != NULL && strcmp(terminal, "dumb") != 0 &&
           isatty(STDOUT_FILENO);
}

static int refuse_flag(const char *command, int code, char **argv)
{
    const char *word = optind > 0 ? argv[optind - 1] : "";
    for (int i = 0; i < AT_FLAG_COUNT; i++) {
        if (optopt == 256 + i || (optopt != 0 && optopt == flags[i].letter)) {
            return flags[i].argument != NULL && code == ':'
                       ? at_usage_error("%s: --%s needs a value: %s", command, flags[i].name,
                                        flags[i].argument)
                       : at_usage_error("%s: --%s takes no value", command, flags[i].name);
        }
    }
    return at_usage_error("%s: unknown flag \"%s\"; `attest %s --help` lists the flags", command,
                          word, command);
}

bool at_options_parse(at_options *out, uint64_t accepts, int argc, char **argv, int *exit_code)
{
    struct option table[AT_FLAG_COUNT + 2] = {{0}};
    char letters[2 * AT_FLAG_COUNT + 4] = ":h";
    int n = 0;
    for (int i = 0; i < AT_FLAG_COUNT; i++) {
        if ((accepts >> i & 1) == 0) {
            continue;
        }
        bool valued = flags[i].argument != NULL;
        table[n++] =
            (struct option){flags[i].name, valued ? required_argument : no_argument, NULL, 256 + i};
        if (flags[i].letter != 0) {
            size_t used = strlen(letters);
            (void)snprintf(letters + used, sizeof letters - used, "%c%s", flags[i].letter,
                           valued ? ":" : "");
        }
    }
    table[n] = (struct option){"help", no_argument, NULL, 'h'};
    *out = (at_options){.engine = "first", .shard_index = 1, .shard_count = 1, .repeat = 1};
    opterr = 0;
    optind = 0; /* glibc: start over, permuting words behind the flags */
    for (int code; (code = getopt_long(argc, argv, letters, table, NULL)) != -1;) {
        if (code == 'h') {
            print_help(accepts, argv[0]);
            *exit_code = AT_EXIT_CLEAN;
            return false;
        }
        int i = code - 256;
        for (int k = 0; i < 0 && k < AT_FLAG_COUNT; k++) {
            i = flags[k].letter != 0 && flags[k].letter == code ? k : i;
        }
        *exit_code =
            i < 0 ? refuse_flag(argv[0], code, argv) : store(out, argv[0], &flags[i], optarg);
        if (*exit_code != -1) {
            return false;
        }
    }
    out->jsonl = out->format != NULL && strcmp(out->format, "jsonl") == 0;
    out->markdown = out->format != NULL && strcmp(out->format, "markdown") == 0;
    out->colors = wants_colors(out->color);
    out->words = argv + optind;
    out->word_count = argc - optind;
    return true;
}
