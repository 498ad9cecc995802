/* Audits of cuDNN's real selection over a space of cases, for any architecture, without a device.
 */
#ifndef AT_CUDNN_AUDIT_H
#define AT_CUDNN_AUDIT_H

#include <stdio.h>

#include "harness/case/case.h"
#include "harness/select/env.h"
#include "kernels/cudnn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_cudnn_audit at_cudnn_audit;

typedef struct at_cudnn_audit_request {
    const char *corpus, *space;
    const char *arch;     /* "sm90" */
    at_cudnn_stage stage; /* how far each graph is taken */
    const char *against;  /* a rule set whose backend "fused" or "cudnn" is compared; NULL: none */
    const at_env *env;    /* of that rule set; may be NULL */
    const char *device;   /* device profile; NULL: the first of the architecture */
    int jobs;             /* child processes; 0: one a core */
    bool progress;        /* on stderr */
    bool every;           /* keep every refusal, validate's too, for a diff; there are no boxes */
} at_cudnn_audit_request;

/* Asks for every case of the space, equal graphs once. A contradiction, without a rule set:
 * validate admits and a later stage refuses; no plan, or not the first one, can be built; the
 * library crashes or hangs. With one: the rule set admits what cuDNN refuses or cannot build, or it
 * refuses what cuDNN admits at every step. AT_INVALID, AT_IO with one sentence. */
AT_API at_status at_cudnn_audit_open(at_cudnn_audit **out, const at_cudnn_audit_request *request,
                                     at_error *err) AT_MUST_CHECK;
AT_API void at_cudnn_audit_close(at_cudnn_audit *audit); /* NULL is legal */

AT_API size_t at_cudnn_audit_boxes(const at_cudnn_audit *audit);

/* {"selector":"cudnn@9.19.0","frontend","arch","space","stage","against","direction","box","relation",
 * "cases","example","step","outcome","refusing_rule","at","code","message"}: outcome is refuses,
 * no_plan_builds, first_plan_fails, crash or runs; at: the stage that said so, "S1" .. "S5". */
AT_API at_json *at_cudnn_audit_box_json(const at_cudnn_audit *audit, size_t i);

/* Counts by stage, then the first `shown` boxes, a paragraph each. */
AT_API void at_cudnn_audit_print(const at_cudnn_audit *audit, FILE *out, bool colors, size_t shown);

/* What the library says of one case: the object that `attest select` prints for any selector, plus
 * "stages" and "plans" of each step. */
AT_API at_status at_cudnn_select(at_json **out, const char *corpus, const at_case *c,
                                 at_cudnn_stage last, at_error *err) AT_MUST_CHECK;

/* Which libcudnn is asked from now on (at_cudnn_find; $ATTEST_CUDNN where that leaves it to the
 * loader). Sets $ATTEST_CUDNN. */
AT_API at_status at_cudnn_choose(const char *selector, const char *given,
                                 at_error *err) AT_MUST_CHECK;

/* AT_INVALID when "cudnn@9.28" was asked and another version answered. */
AT_API at_status at_cudnn_check_version(const char *selector, const char *number,
                                        at_error *err) AT_MUST_CHECK;
AT_API long at_cudnn_audit_version(const at_cudnn_audit *audit);

#ifdef __cplusplus
}
#endif
#endif
