/* Measures the limits of the statistical tier on healthy runs. */
#ifndef AT_CALIBRATE_H
#define AT_CALIBRATE_H

#include "harness/judge/limits.h"
#include "harness/selftest/specimen.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_calibration {
    const at_backend *const *backends; /* [backend_count] one a numeric class; every engine runs */
    size_t backend_count;
    uint64_t seed;
    int64_t runs;      /* of each class, dtype and group at least; at least AT_LIMITS_RUNS_MIN */
    const char *words; /* the command line that makes the same file */
    void (*progress)(void *user, const char *class_name, const char *dtype, const char *group,
                     int64_t runs); /* after each; NULL: none */
    void *user;
} at_calibration;

/* The limits as JSON, the same for equal seeds and builds whatever the threads. AT_INVALID when a
 * healthy run fails, which is named: there is nothing to learn from it. */
AT_API at_status at_calibrate(at_json **out, const at_calibration *how,
                              at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
