/* The packages behind the Python adapters, for attest doctor. */
#ifndef AT_DOCTOR_PACKAGES_H
#define AT_DOCTOR_PACKAGES_H

#include <stdbool.h>

#include "harness/status.h"

/* Prints a row for each adapter of kernels/python, which stands beside the corpus folder. Python is
 * $ATTEST_PYTHON, or python3. AT_IO: there are no adapters, or no Python runs; the sentence says
 * which. */
at_status at_doctor_packages(const char *corpus, bool jsonl, at_error *err) AT_MUST_CHECK;

#endif
