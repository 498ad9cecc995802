/* Covers the marked cells of a space by few boxes: products of point sets. Inside the folder. */
#ifndef AT_BOXES_H
#define AT_BOXES_H

#include "harness/select/region.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A mark is the sign of a cell's contradiction, or one of these; the flag may stand beside a sign.
 */
#define AT_MARK_NONE UINT32_C(0)
#define AT_MARK_INVALID                                                                            \
    UINT32_C(0xffffffff) /* no case: boxes may hold it and say nothing of it                       \
                          */
#define AT_MARK_WINS UINT32_C(0x40000000)

typedef struct at_box {
    size_t backend;
    uint32_t sign;
    bool in[AT_REGION_AXES][AT_REGION_POINTS];
    unsigned
        relations; /* bit r: cells with at_region_relation r belong to it; 7 without restriction */
    size_t item;   /* of the list, where the space is one: `in` speaks of environments then */
    uint64_t cases, wins;
    uint64_t example; /* its most typical cell */
    double score;     /* how likely it is met, popular.h */
    uint64_t models;  /* those of popular.h that meet it, as bits */
} at_box;

/* Growing list; start zeroed, free(box). */
typedef struct at_boxes {
    size_t count, room;
    at_box *box;
} at_boxes;

/* Appends boxes of cells with that sign: every such cell is in one, and no cell with another mark
 * (but INVALID) is. mark [region->cells]. AT_NO_MEMORY is the only failure. */
at_status at_boxes_cover(at_boxes *out, const at_region *region, const uint32_t *mark,
                         uint32_t sign, size_t backend, at_error *err) AT_MUST_CHECK;

/* The same for every sign that occurs. AT_INVALID: more than 1024. */
at_status at_boxes_cover_all(at_boxes *out, const at_region *region, const uint32_t *mark,
                             size_t backend, at_error *err) AT_MUST_CHECK;

/* By score, then wins, then size. */
void at_boxes_sort(at_boxes *boxes);

/* Numbers findings from 1, in order of appearance: boxes of one backend and sign are one. *finding
 * [boxes->count] is the caller's to free. Returns how many. */
size_t at_boxes_number(size_t **finding, const at_boxes *boxes);
/* Indices of the boxes of the first `limit` findings (0: all) into out [boxes->count]. */
size_t at_boxes_shown(size_t *out, const at_boxes *boxes, const size_t *finding, size_t limit);

/* Whether a place of the space lies in the box; it may be no case. */
bool at_box_holds(const at_region *region, const at_box *b, const at_region_place *place);

#ifdef __cplusplus
}
#endif
#endif
