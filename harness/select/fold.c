#include "harness/select/fold.h"

#include <stdlib.h>
#include <string.h>

/* Marks of points x and y of an axis are equal wherever the others stand. */
static bool same_points(const uint32_t *mark, uint64_t outer, uint64_t count, uint64_t inner,
                        uint64_t x, uint64_t y)
{
    for (uint64_t o = 0; o < outer; o++) {
        const uint32_t *slab = mark + o * count * inner;
        if (memcmp(slab + x * inner, slab + y * inner, inner * sizeof *mark) != 0) {
            return false;
        }
    }
    return true;
}

/* Keeps the first of equal points of one axis and closes the gaps in the marks. */
static void fold_axis(at_fold *f, size_t axis)
{
    at_region_axis *a = &f->region.axis[axis];
    uint64_t inner = 1, count = a->count, kept = 0;
    uint64_t keeper[AT_REGION_POINTS];
    for (size_t k = axis + 1; k < f->region.axes; k++) {
        inner *= f->region.axis[k].count;
    }
    uint64_t outer = f->region.cells / (inner * count);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t k = 0;
        while (k < kept && !same_points(f->mark, outer, count, inner, keeper[k], i)) {
            k++;
        }
        f->folded[axis][i] = (uint16_t)k;
        if (k == kept) {
            a->point[kept] = a->point[i];
            keeper[kept++] = i;
        }
    }
    for (uint64_t o = 0; o < outer && kept < count; o++) {
        for (uint64_t k = 0; k < kept; k++) {
            memmove(f->mark + (o * kept + k) * inner, f->mark + (o * count + keeper[k]) * inner,
                    inner * sizeof *f->mark);
        }
    }
    a->count = kept;
    f->region.cells = outer * kept * inner;
}

void at_fold_open(at_fold *out, const at_region *region, const uint32_t *mark)
{
    *out = (at_fold){.region = *region};
    out->mark = malloc((region->cells + 1) * sizeof *out->mark);
    AT_ASSERT(out->mark != NULL); /* only memory can run out */
    for (uint64_t i = 0; i < region->cells; i++) {
        out->mark[i] = mark[i] == AT_MARK_INVALID ? mark[i] : mark[i] & ~AT_MARK_WINS;
    }
    for (size_t a = 0; a < region->axes; a++) {
        at_region_axis *axis = &out->region.axis[a];
        axis->point = malloc(axis->count * sizeof *axis->point);
        AT_ASSERT(axis->point != NULL);
        memcpy(axis->point, region->axis[a].point, axis->count * sizeof *axis->point);
        for (size_t i = 0; i < axis->count; i++) {
            out->folded[a][i] = (uint16_t)i;
        }
    }
    for (size_t a = 0; a < region->axes; a++) {
        if ((int)a != region->left && (int)a != region->right) {
            fold_axis(out, a);
        }
    }
}

void at_fold_close(at_fold *fold)
{
    for (size_t a = 0; a < fold->region.axes; a++) {
        free(fold->region.axis[a].point);
    }
    free(fold->mark);
}

void at_fold_unfold(at_box *box, const at_fold *fold, const at_region *original)
{
    at_box folded = *box;
    memset(box->in, 0, sizeof box->in);
    for (size_t a = 0; a < original->axes; a++) {
        for (size_t i = 0; i < original->axis[a].count; i++) {
            box->in[a][i] = folded.in[a][fold->folded[a][i]];
        }
    }
}
