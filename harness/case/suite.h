/* Suites: which cases to run, on what. JSON files in corpus/suites/, or case text with lists. */
#ifndef AT_SUITE_H
#define AT_SUITE_H

#include "harness/case/case.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_SUITE_BACKENDS_MAX = 16, AT_NAME_TEXT = 64 };

/* What a group of cases is to be run with; groups inherit from the file and from nesting files. */
typedef struct at_suite_plan {
    char suite[AT_NAME_TEXT]; /* innermost file's name */
    char group[AT_NAME_TEXT];
    int backend_count; /* 0: the caller's default backends */
    char backend[AT_SUITE_BACKENDS_MAX][AT_NAME_TEXT];
    char selector[AT_NAME_TEXT]; /* "" : none */
    char env[256];               /* "fa3=2025-02,fused=0" */
    /* selector's name of a backend -> the backend here that stands for it:
     * "fa3=modelled.fa3-2025-02" */
    char serves[256];
    bool modelled; /* listed apart, out of totals */
    bool entry;    /* the group is the entry of that id in the corpus of known bugs */
} at_suite_plan;

/* An entry of the corpus of known bugs that no case can say, and why. */
typedef struct at_suite_unsaid {
    char suite[AT_NAME_TEXT], entry[AT_NAME_TEXT], reason[256];
} at_suite_unsaid;

/* An audit that the suite wants printed after its cases. */
typedef struct at_suite_audit {
    char selector[AT_NAME_TEXT], arch[16], env[256], space[AT_NAME_TEXT];
    int64_t limit; /* print that many findings in short; 0: all in full */
} at_suite_audit;

typedef struct at_suite at_suite;

/* Rewrites applied to every case before it is resolved (command line: --seed, --pass). */
typedef struct at_suite_rewrite {
    const char *seed; /* NULL: keep */
    const char *pass;
} at_suite_rewrite;

/* `words`: each a suite name ("smoke" -> CORPUS/suites/smoke.json), one group of a suite
 * ("known-bugs/te-3481"), a path that ends in .json, a folder of known bugs (ends in '/'), a case
 * text (lists `a,b`, ranges `1..8` and `64..256/64` multiply), or @file (one word a line, #
 * comments, nests). All cases are made and checked before the call returns; equal (case, plan)
 * pairs are kept once. Errors name file, group and key. */
AT_API at_status at_suite_open(at_suite **out, const char *corpus, const char *const *words,
                               size_t word_count, const at_suite_rewrite *rewrite,
                               at_error *err) AT_MUST_CHECK;
AT_API void at_suite_close(at_suite *suite); /* NULL is legal */

AT_API size_t at_suite_size(const at_suite *suite);
/* Case i and its plan, in order of appearance. The plan pointer is shared by a group's cases. */
AT_API const at_case *at_suite_case(const at_suite *suite, size_t i, const at_suite_plan **plan);
AT_API size_t at_suite_audits(const at_suite *suite, const at_suite_audit **audits);
AT_API size_t at_suite_unsaid_entries(const at_suite *suite, const at_suite_unsaid **list);
/* Combinations left out: by "skip" constraints, and as contradictions where the group says so. */
AT_API size_t at_suite_skipped(const at_suite *suite);

/* The corpus folder: `given` (--corpus), $ATTEST_CORPUS, next to the executable (corpus/ beside it
 * or
 * ../share/attest/corpus), `built` (the build's own path), in this order. AT_IO when none exists.
 */
AT_API at_status at_corpus_find(char path[4096], const char *given, const char *built,
                                at_error *err) AT_MUST_CHECK;
/* The folder found by the last at_corpus_find of this process; "" before. */
AT_API const char *at_corpus(void);

#ifdef __cplusplus
}
#endif
#endif
