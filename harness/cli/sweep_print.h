/* What people read at the end of a sweep. */
#ifndef AT_SWEEP_PRINT_H
#define AT_SWEEP_PRINT_H

#include "harness/case/suite.h"
#include "harness/run/report.h"

/* How to print. */
typedef struct at_print_style {
    bool colors;
    const char *suffix; /* flags that repro lines need here: " --plugin x.so", or "" */
} at_print_style;

/* Table of backends with totals, modelled ones apart; then the findings with one repro line each.
 */
void at_print_backends(const at_report *report, const at_print_style *style);
void at_print_findings(const at_report *report, const at_print_style *style);

/* Entries of known bugs that were skipped since no case can say them, and why; nothing when there
 * are none. */
void at_print_unsaid(const at_suite *suite);

/* The first cases that ended as ERROR; nothing when there are none. */
void at_print_errors(const at_report *report, const at_print_style *style);

#endif
