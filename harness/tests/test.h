/* The smallest test framework that CTest can list: a table of named functions, checks that record.
 */
#ifndef AT_TEST_H
#define AT_TEST_H

#include <stdbool.h>

typedef struct at_test {
    const char *label; /* unit header ref mutant replay slow gpu cli */
    const char *name;
    void (*run)(void);
} at_test;

/* Each test program defines the table, ended by a NULL name. */
extern const at_test at_tests[];

/* Records a failure with its place and text; the test goes on. */
void at_test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Ends the running test as skipped, with the reason (CTest shows it as Skipped). */
void at_test_skip(const char *reason) __attribute__((noreturn));

#define CHECK(condition)                                                                           \
    ((condition) ? (void)0 : at_test_fail(__FILE__, __LINE__, "%s", #condition))
#define CHECK_INT(got, want)                                                                       \
    at_test_int(__FILE__, __LINE__, #got, (long long)(got), (long long)(want))
#define CHECK_TEXT(got, want) at_test_text(__FILE__, __LINE__, #got, (got), (want))
/* `part` occurs in `text`. */
#define CHECK_HAS(text, part) at_test_has(__FILE__, __LINE__, #text, (text), (part))
/* Status is AT_OK; shows err->text otherwise. */
#define CHECK_OK(call, err)                                                                        \
    ((call) == AT_OK ? (void)0 : at_test_fail(__FILE__, __LINE__, "%s: %s", #call, (err)->text))

void at_test_int(const char *file, int line, const char *what, long long got, long long want);
void at_test_text(const char *file, int line, const char *what, const char *got, const char *want);
void at_test_has(const char *file, int line, const char *what, const char *text, const char *part);

/* A fresh folder under $TMPDIR or /tmp, removed when the program ends. */
const char *at_test_folder(void);

/* Writes KIND/NAME.json into that folder, as a corpus has it. */
void at_test_put_json(const char *kind, const char *name, const char *text);

#endif
