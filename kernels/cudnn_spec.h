/* A case as the graph that cuDNN's callers would ask for. */
#ifndef AT_CUDNN_SPEC_H
#define AT_CUDNN_SPEC_H

#include "harness/case/case.h"
#include "harness/judge/verdict.h"
#include "kernels/cudnn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills the spec of the case's forward or backward graph for the architecture `sm` (90).
 * AT_UNSUPPORTED with a reason code and key=value when cuDNN's API has no word for it. The caller
 * sets device_json, node and heuristics (defaults: none, AUTO, "AF"). Windows become cuDNN's
 * bounds: its left bound counts the diagonal. An integer `align` moves both bounds. */
AT_API at_status at_cudnn_spec_init(at_cudnn_spec *out, const at_case *c, at_step step, int sm,
                                    at_reason *why) AT_MUST_CHECK;

/* What a package asks cuDNN in place of the case, by the name of its rule set. te-*, te@*, nvte-*:
 * a bottom-right mask over equal lengths that are not passed is asked for as top-left. torch-*:
 * causal masks are top-left, and ALiBi is a mask. Others ask for the case itself. */
AT_API void at_cudnn_spec_as_asked(at_case *c, const char *selector);

#ifdef __cplusplus
}
#endif
#endif
