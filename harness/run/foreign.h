/* For workers in other languages (ctypes, JNI, ...): the same inputs, guards, reference and judge,
 * behind pointers, numbers and text. reports/worker-protocol.md shows a worker that uses it. Not
 * for threads: one run is open at a time. */
#ifndef AT_FOREIGN_H
#define AT_FOREIGN_H

#include <stddef.h>
#include <stdint.h>

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One run of one case: its tensors and the verdict so far. */
typedef struct at_foreign at_foreign;

/* Opens the case; `numeric` is the backend's numeric class as in its hello, or NULL. Never fails:
 * what goes wrong becomes the verdict (SKIP, OOM, ERROR), and at_foreign_ready says 0. Runs of one
 * case that follow each other share inputs and reference. */
AT_API at_foreign *at_foreign_open(const char *case_text, const char *numeric);
AT_API int at_foreign_ready(const at_foreign *run);
AT_API void at_foreign_close(at_foreign *run); /* NULL is legal */

/* What the backend promises where the mathematics is silent (at_contract), before the first judge:
 * {"dead_o":"zero|nan|mean", "dead_lse":"minus_inf|plus_inf|any", "dead_grads":"zero|any",
 * "pad":"any|zero|untouched", "stats":true|false}, every member optional, the first is the default.
 * stats false: it writes no LSE. Returns 1; 0 when the text is no such object (the verdict is ERROR
 * then). */
AT_API int at_foreign_promise(at_foreign *run, const char *contract);

/* A key of the case: integers, switches, indices of enumerated values; scale is resolved. NaN: no
 * such key, or one without a number. */
AT_API double at_foreign_number(const at_foreign *run, const char *key);

/* Address of the tensor ("q" "k" "v" "do" "o" "lse" "dq" "dk" "dv" "bias" "amask" "sink" "pages"
 * "drop" "dbias" "dsink"), NULL where the case has none. shape and stride are [b h s d], strides in
 * elements; *dtype becomes "bf16", ... */
AT_API void *at_foreign_tensor(const at_foreign *run, const char *name, int64_t shape[4],
                               int64_t stride[4], const char **dtype);
/* Live rows and keys of each sequence: [b] each. */
AT_API const int64_t *at_foreign_len_q(const at_foreign *run);
AT_API const int64_t *at_foreign_len_kv(const at_foreign *run);
/* Keys first..last that row i of sequence b sees; none when first > last. */
AT_API void at_foreign_keys(const at_foreign *run, int64_t b, int64_t i, int64_t *first,
                            int64_t *last);

/* After the library was called: `refusal` NULL judges what it wrote ("forward": o, lse; "backward":
 * dq dk dv), otherwise the step is REFUSED with that message. Returns 1 when the next step may
 * follow. */
AT_API int at_foreign_judge(at_foreign *run, const char *step, const char *refusal, double ms);

/* Each judge that follows also writes case.txt (`text`) and the inputs, outputs and reference as
 * .npy files into `folder`. */
AT_API void at_foreign_dump(at_foreign *run, const char *folder, const char *text);

/* The verdict's members as JSON text, ready to be put into a verdict event. Borrowed: it lives
 * until the next call or the close. */
AT_API const char *at_foreign_verdict(at_foreign *run);

#ifdef __cplusplus
}
#endif
#endif
