/* Ways to ask selectors about cases; exit codes. */
#ifndef AT_CLI_SELECT_H
#define AT_CLI_SELECT_H

#include "harness/case/suite.h"
#include "harness/cli/options.h"
#include "harness/select/selector.h"

/* All rule sets of the corpus, one table a case. */
int at_cli_select_all(const at_options *o, const char *corpus, const at_env *env,
                      const at_suite *suite);

/* --why-not: the rule that refuses a backend, and the nearest case that is admitted. */
int at_cli_why_not(const at_options *o, const char *corpus, const at_env *env, const at_selector *s,
                   const at_suite *suite);

/* Prints the object as a line and closes it. */
void at_cli_print_line(at_json *object);

/* AT_EXIT_CLEAN when stdout took all. */
int at_cli_select_end(void);

#endif
