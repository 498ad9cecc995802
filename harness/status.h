/* Call statuses, error sentences and the assertion that every file uses. */
#ifndef AT_STATUS_H
#define AT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define AT_API __attribute__((visibility("default")))
#define AT_MUST_CHECK __attribute__((warn_unused_result))
#define AT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define AT_NORETURN __attribute__((noreturn))
#else
#define AT_API
#define AT_MUST_CHECK
#define AT_PRINTF(fmt, args)
#define AT_NORETURN
#endif

/* How a call ended. Wrong numbers are never a status: they are a verdict (judge/verdict.h). */
typedef enum at_status {
    AT_OK = 0,
    AT_INVALID,     /* the caller's input is bad: text, file, flag */
    AT_IO,          /* a file, pipe or process could not be used */
    AT_NO_MEMORY,   /* memory was refused */
    AT_UNSUPPORTED, /* a limit of this build or backend, known before launch */
    AT_REFUSED,     /* a backend admitted the case, then reported an error at run time */
    AT_INTERNAL     /* our own fault */
} at_status;

/* One sentence for people: what, where, what is accepted. Empty when the call returned AT_OK. */
typedef struct at_error {
    char text[512];
} at_error;

/* Formats the sentence into err (NULL is legal) and returns status, so `return at_fail(...)`. */
AT_API at_status at_fail(at_error *err, at_status status, const char *format, ...) AT_PRINTF(3, 4);

/* Puts "prefix: " in front of the sentence that err already holds; returns status. */
AT_API at_status at_fail_in(at_error *err, at_status status, const char *format, ...)
    AT_PRINTF(3, 4);

/* Prints the broken condition and aborts: a caller's bug, always checked. */
AT_API void at_assert_failed(const char *condition, const char *file, int line) AT_NORETURN;

#define AT_ASSERT(condition)                                                                       \
    ((condition) ? (void)0 : at_assert_failed(#condition, __FILE__, __LINE__))

/* Leaves the function with the status of a failed call. The only control-flow macro. */
#define AT_TRY(call)                                                                               \
    do {                                                                                           \
        at_status at_try_status = (call);                                                          \
        if (at_try_status != AT_OK) {                                                              \
            return at_try_status;                                                                  \
        }                                                                                          \
    } while (0)

/* ABI of libattest: plugins and workers compare it with AT_ABI before anything else. */
#define AT_ABI 1
AT_API int at_abi(void);

/* "0.1.0 (commit abcdef0)". */
AT_API const char *at_version(void);

/* The commit it was built from, "unknown" outside a checkout. */
AT_API const char *at_commit(void);

#ifdef __cplusplus
}
#endif
#endif
