/* How suites are made: words and files add groups of cases to one list. Inside the library. */
#ifndef AT_SUITE_BUILD_H
#define AT_SUITE_BUILD_H

#include "harness/case/space.h"
#include "harness/case/suite.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    AT_SUITE_CASES_MAX = 1000000,
    AT_SUITE_COMBINATIONS_MAX = 1 << 24, /* of one product, before "skip" */
    AT_SUITE_DEPTH_MAX = 16,
    AT_PATH_TEXT = 4096
};

/* A file that is being read, and the one that named it: cycles show as a path that comes twice. */
typedef struct at_suite_file {
    const char *path;
    const struct at_suite_file *outer;
} at_suite_file;

/* The list that grows, and what every case goes through. */
typedef struct at_suite_builder {
    at_suite *suite;
    const char *corpus;
    const at_suite_rewrite *rewrite; /* may be NULL */
    uint64_t combinations, cases;    /* limits, at most the maxima above */
    bool placed;                     /* the error names the innermost file already */
    const char *only;                /* the group wanted; NULL: all */
    bool met;                        /* a group of that name was met */
} at_suite_builder;

/* Sampling of a group; n = 0: the whole product. */
typedef struct at_suite_sample {
    uint64_t n, seed;
    uint32_t stream;
} at_suite_sample;

typedef struct at_suite_rules {
    struct at_expr **skip;
    size_t skip_count;
    bool skip_contradictions;
    at_suite_sample sample;
} at_suite_rules;

/* at_suite_open with smaller limits. */
at_status at_suite_open_within(at_suite **out, const char *corpus, const char *const *words,
                               size_t word_count, const at_suite_rewrite *rewrite,
                               uint64_t combinations, uint64_t cases, at_error *err) AT_MUST_CHECK;

/* A copy of the plan that lives as long as the suite. */
at_status at_suite_keep_plan(const at_suite_plan **out, at_suite *suite, const at_suite_plan *plan,
                             at_error *err) AT_MUST_CHECK;
at_status at_suite_keep_audit(at_suite *suite, const at_suite_audit *audit,
                              at_error *err) AT_MUST_CHECK;

at_status at_suite_keep_unsaid(at_suite *suite, const char *name, const char *id,
                               const char *reason, at_error *err) AT_MUST_CHECK;

/* Whether the group is wanted; notes that it was met. */
bool at_suite_takes(at_suite_builder *b, const char *group);

/* Makes every case of the space under the rules, which may be NULL. */
at_status at_suite_add_space(at_suite_builder *b, const at_space *space,
                             const at_suite_rules *rules, const at_suite_plan *plan,
                             at_error *err) AT_MUST_CHECK;

/* Adds what a word names; `outer` is the file it stands in (NULL: the command line), `inherited`
 * what its groups start from. */
at_status at_suite_add_word(at_suite_builder *b, const char *word, const at_suite_file *outer,
                            const at_suite_plan *inherited, at_error *err) AT_MUST_CHECK;

/* Adds known bugs: a file, or a folder (ends in '/'). */
at_status at_suite_add_known(at_suite_builder *b, const char *path, const at_suite_plan *inherited,
                             at_error *err) AT_MUST_CHECK;

/* Adds a JSON suite, or a file of known bugs. */
at_status at_suite_add_json(at_suite_builder *b, const at_suite_file *file,
                            const at_suite_plan *inherited, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
