/* What changed from one cuDNN to the next: two audits of one space, compared cell by cell. */
#ifndef AT_CUDNN_DIFF_H
#define AT_CUDNN_DIFF_H

#include "kernels/cudnn_audit.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_cudnn_diff at_cudnn_diff;

/* Compares two audits that were opened with `every` over one space, to one stage, for one
 * architecture (borrowed: close them later). AT_INVALID when they were not; AT_NO_MEMORY. */
AT_API at_status at_cudnn_diff_open(at_cudnn_diff **out, const at_cudnn_audit *before,
                                    const at_cudnn_audit *after, at_error *err) AT_MUST_CHECK;
AT_API void at_cudnn_diff_close(at_cudnn_diff *diff); /* NULL is legal */

AT_API size_t at_cudnn_diff_boxes(const at_cudnn_diff *diff);

/* {"before":"cudnn@9.14.0","after","arch","space","stage","box","relation","cases","example","was",
 * "is","step","at","code","message"}: was and is are admitted, refused, no_plan_builds,
 * first_plan_fails or crash; step to message: of the side that does not admit, the later one where
 * neither does. */
AT_API at_json *at_cudnn_diff_box_json(const at_cudnn_diff *diff, size_t i);
AT_API void at_cudnn_diff_print(const at_cudnn_diff *diff, FILE *out, bool colors);

#ifdef __cplusplus
}
#endif
#endif
