/* What a case exercises, in a few words: rows of the compatibility report, regions of findings. */
#ifndef AT_FEATURE_H
#define AT_FEATURE_H

#include "harness/case/case.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_FEATURES_MAX = 40, AT_FEATURE_TEXT = 40, AT_REGION_TEXT = 256 };

typedef struct at_features {
    int n;
    char name[AT_FEATURES_MAX][AT_FEATURE_TEXT]; /* "mask=window", "heads=gqa", "softcap" */
} at_features;

/* Every feature of the case, in one fixed order. Sizes appear as relations, never as numbers. */
AT_API void at_case_features(at_features *out, const at_case *c);

/* The features that tell one bug from another (dtype, heads, head sizes, mask, lengths and whatever
 * is not default), joined by spaces: findings that agree in it, in backend, status and tensor are
 * one. */
AT_API void at_case_region(const at_case *c, char region[AT_REGION_TEXT]);

#ifdef __cplusplus
}
#endif
#endif
