/* The order in which boxes are told. */
#include <stdlib.h>

#include "harness/select/boxes.h"

static int compare_boxes(const void *a, const void *b)
{
    const at_box *x = a, *y = b;
    if (x->score > y->score || x->score < y->score) {
        return x->score > y->score ? -1 : 1;
    }
    if (x->wins != y->wins) {
        return x->wins > y->wins ? -1 : 1;
    }
    if (x->cases != y->cases) {
        return x->cases > y->cases ? -1 : 1;
    }
    if (x->example != y->example) {
        return x->example < y->example ? -1 : 1;
    }
    return x->backend < y->backend ? -1 : x->backend > y->backend;
}

void at_boxes_sort(at_boxes *boxes)
{
    if (boxes->count > 0) {
        qsort(boxes->box, boxes->count, sizeof *boxes->box, compare_boxes);
    }
}

size_t at_boxes_number(size_t **finding, const at_boxes *boxes)
{
    size_t findings = 0, *number = calloc(boxes->count + 1, sizeof *number);
    AT_ASSERT(number != NULL); /* only memory can run out */
    for (size_t i = 0; i < boxes->count; i++) {
        size_t k = 0;
        const at_box *b = &boxes->box[i];
        while (k < i && !(b->backend == boxes->box[k].backend && b->sign == boxes->box[k].sign)) {
            k++;
        }
        number[i] = k < i ? number[k] : ++findings;
    }
    *finding = number;
    return findings;
}

size_t at_boxes_shown(size_t *out, const at_boxes *boxes, const size_t *finding, size_t limit)
{
    size_t n = 0;
    for (size_t i = 0; i < boxes->count; i++) {
        if (limit == 0 || finding[i] <= limit) {
            out[n++] = i;
        }
    }
    return n;
}
