/* attest explain: the corpus of known bugs. */
#ifndef AT_EXPLAIN_BUGS_H
#define AT_EXPLAIN_BUGS_H

#include <stdbool.h>

#include "harness/status.h"

/* Prints the page of all entries (reports/known-bugs.md). */
at_status at_explain_bugs(const char *corpus, at_error *err) AT_MUST_CHECK;

/* Prints one entry; *found is false when no entry has the id. */
at_status at_explain_bug(bool *found, const char *corpus, const char *id,
                         at_error *err) AT_MUST_CHECK;

#endif
