/* The cases that a command line names: words, --corpus --seed --pass --filter --shard --max-cases.
 */
#ifndef AT_CHOICE_H
#define AT_CHOICE_H

#include <stddef.h>

#include "harness/case/suite.h"
#include "harness/cli/options.h"

/* Cases of the suite that the flags keep, in order of appearance. */
typedef struct at_choice {
    at_suite *suite;
    size_t *index; /* [count] */
    size_t count;
    char corpus[4096];
} at_choice;

/* The flags that choosing reads. */
#define AT_CHOICE_FLAGS                                                                            \
    (AT_FLAG(CORPUS) | AT_FLAG(SEED) | AT_FLAG(PASS) | AT_FLAG(FILTER) | AT_FLAG(SHARD) |          \
     AT_FLAG(MAX_CASES))

/* Makes the suite from the words, or from `standard` when there are none, and applies filter
 * (extended regular expression on the case text), shard (id mod N) and max-cases, in this order.
 * AT_INVALID or AT_IO with one sentence. */
at_status at_choice_open(at_choice *out, const at_options *o, const char *standard,
                         at_error *err) AT_MUST_CHECK;
void at_choice_close(at_choice *choice);

#endif
