/* A space in which points that never differ are one. Inside the folder. */
#ifndef AT_FOLD_H
#define AT_FOLD_H

#include "harness/select/boxes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The folded space and its marks. Axes that are compared keep their points. */
typedef struct at_fold {
    at_region region;                                  /* borrows texts of the original */
    uint16_t folded[AT_REGION_AXES][AT_REGION_POINTS]; /* point of the original -> of this */
    uint32_t *mark;                                    /* [region.cells] */
} at_fold;

/* mark [region->cells]; its flags (AT_MARK_WINS) are left out. The space has no list. */
void at_fold_open(at_fold *out, const at_region *region, const uint32_t *mark);
void at_fold_close(at_fold *fold);

/* The box in points of the original. */
void at_fold_unfold(at_box *box, const at_fold *fold, const at_region *original);

#ifdef __cplusplus
}
#endif
#endif
