/* --limits of the commands that judge. */
#ifndef AT_CLI_LIMITS_H
#define AT_CLI_LIMITS_H

#include "harness/cli/options.h"
#include "harness/judge/limits.h"
#include "harness/run/plan.h"

/* The file given, CORPUS/limits/cpu.json, or with "none" NULL. A corpus that has no such file is
 * warned about on stderr, and gives NULL; a file that is wrong is an error. */
at_status at_choose_limits(at_limits **out, const at_options *o, const char *corpus,
                           at_error *err) AT_MUST_CHECK;

/* Every backend's numeric class has limits: asked where a file was named. NULL limits pass. */
at_status at_require_limits(const at_limits *limits, const at_plan *plan,
                            at_error *err) AT_MUST_CHECK;

#endif
