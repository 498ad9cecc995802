#include "harness/select/boxes.h"

#include <stdlib.h>
#include <string.h>

enum { ALL_RELATIONS = 7 };

/* The points of a box as lists, and where its cells lie. */
typedef struct walker {
    const at_region *region;
    const uint32_t *mark;
    uint32_t sign;
    uint64_t stride[AT_REGION_AXES];
    size_t last_compared; /* axis after which the relation is known */
    size_t count[AT_REGION_AXES];
    uint16_t list[AT_REGION_AXES][AT_REGION_POINTS];
    unsigned relations;
    at_region_place place;
} walker;

typedef void (*visit)(void *context, const walker *w, uint64_t cell);

static bool related(const walker *w, size_t axis)
{
    return axis != w->last_compared || w->region->left < 0 ||
           (w->relations >> at_region_relation(w->region, &w->place) & 1) != 0;
}

/* Cells of the box from an axis on: 1 there are cases and all have the sign, 0 there is none, -1
 * one has another mark. */
static int probe(walker *w, size_t axis, uint64_t base)
{
    int found = 0;
    if (axis == w->region->axes) {
        uint32_t mark = w->mark[base];
        return mark == AT_MARK_INVALID ? 0 : (mark & ~AT_MARK_WINS) == w->sign ? 1 : -1;
    }
    for (size_t i = 0; i < w->count[axis]; i++) {
        w->place.at[axis] = w->list[axis][i];
        int inner =
            related(w, axis) ? probe(w, axis + 1, base + w->stride[axis] * w->list[axis][i]) : 0;
        if (inner < 0) {
            return -1;
        }
        found |= inner;
    }
    return found;
}

static void each(walker *w, size_t axis, uint64_t base, visit what, void *context)
{
    if (axis == w->region->axes) {
        if (w->mark[base] != AT_MARK_INVALID) {
            what(context, w, base);
        }
        return;
    }
    for (size_t i = 0; i < w->count[axis]; i++) {
        w->place.at[axis] = w->list[axis][i];
        if (related(w, axis)) {
            each(w, axis + 1, base + w->stride[axis] * w->list[axis][i], what, context);
        }
    }
}

static void start(walker *w, const at_region *region, const uint32_t *mark, uint32_t sign)
{
    *w = (walker){.region = region, .mark = mark, .sign = sign, .relations = ALL_RELATIONS};
    uint64_t stride = 1;
    for (size_t a = region->axes; a-- > 0;) {
        w->stride[a] = stride;
        stride *= region->axis[a].count;
    }
    if (region->left >= 0) {
        w->last_compared = (size_t)(region->left > region->right ? region->left : region->right);
    }
}

static void load(walker *w, const at_box *b)
{
    for (size_t a = 0; a < w->region->axes; a++) {
        w->count[a] = 0;
        for (size_t i = 0; i < w->region->axis[a].count; i++) {
            if (b->in[a][i]) {
                w->list[a][w->count[a]++] = (uint16_t)i;
            }
        }
    }
    w->relations = b->relations;
}

/* Adds every point of the axis whose slab has cases, all of the sign. */
static bool grow_axis(walker *w, at_box *b, size_t axis)
{
    bool grown = false;
    for (size_t i = 0; i < w->region->axis[axis].count; i++) {
        if (b->in[axis][i]) {
            continue;
        }
        load(w, b);
        w->count[axis] = 1;
        w->list[axis][0] = (uint16_t)i;
        if (probe(w, 0, 0) == 1) {
            b->in[axis][i] = true;
            grown = true;
        }
    }
    return grown;
}

static bool grow_relations(walker *w, at_box *b)
{
    bool grown = false;
    for (unsigned r = 0; r < 3 && w->region->left >= 0; r++) {
        load(w, b);
        w->relations = 1U << r;
        if ((b->relations >> r & 1) == 0 && probe(w, 0, 0) == 1) {
            b->relations |= 1U << r;
            grown = true;
        }
    }
    return grown;
}

/* The largest box around the cell that this order of the axes leads to; axis number `axes` stands
 * for the relation. */
static void grow(walker *w, at_box *b, uint64_t cell, const size_t *order)
{
    at_region_place place;
    at_region_locate(&place, w->region, cell);
    memset(b->in, 0, sizeof b->in);
    for (size_t a = 0; a < w->region->axes; a++) {
        b->in[a][place.at[a]] = true;
    }
    b->relations =
        w->region->left >= 0 ? 1U << at_region_relation(w->region, &place) : ALL_RELATIONS;
    for (bool grown = true; grown;) {
        grown = false;
        for (size_t i = 0; i <= w->region->axes; i++) {
            grown =
                (order[i] < w->region->axes ? grow_axis(w, b, order[i]) : grow_relations(w, b)) ||
                grown;
        }
    }
}

/* A relation that no case of the box has restricts nothing. */
static void drop_idle_relations(walker *w, at_box *b)
{
    for (unsigned r = 0; r < 3 && w->region->left >= 0; r++) {
        load(w, b);
        w->relations = 1U << r;
        b->relations |= probe(w, 0, 0) == 0 ? 1U << r : 0;
    }
}

typedef struct gain {
    const uint8_t *covered;
    uint64_t fresh, all;
} gain;

static void count_gain(void *context, const walker *w, uint64_t cell)
{
    gain *g = context;
    (void)w;
    g->fresh += g->covered[cell] == 0;
    g->all++;
}

static void cover_cell(void *context, const walker *w, uint64_t cell)
{
    uint8_t *covered = context;
    (void)w;
    covered[cell] = (uint8_t)(covered[cell] + (covered[cell] < 255));
}

/* Forward and backward rotations of 0 .. axes. */
static void make_order(size_t *order, size_t n, size_t number)
{
    for (size_t i = 0; i < n; i++) {
        order[i] = number < n ? (number + i) % n : (2 * n - 1 + number - i) % n;
    }
}

static void best_box(walker *w, at_box *best, uint64_t cell, const uint8_t *covered)
{
    size_t order[AT_REGION_AXES + 1], n = w->region->axes + 1;
    gain most = {.fresh = 0};
    at_box b = *best;
    for (size_t number = 0; number < 2 * n; number++) {
        make_order(order, n, number);
        grow(w, &b, cell, order);
        gain g = {.covered = covered};
        load(w, &b);
        each(w, 0, 0, count_gain, &g);
        if (g.fresh > most.fresh || (g.fresh == most.fresh && g.all > most.all)) {
            most = g;
            *best = b;
        }
    }
}

static void count_single(void *context, const walker *w, uint64_t cell)
{
    gain *g = context;
    (void)w;
    g->fresh += g->covered[cell] == 1;
}

static void uncover_cell(void *context, const walker *w, uint64_t cell)
{
    uint8_t *covered = context;
    (void)w;
    covered[cell]--;
}

/* Takes out boxes whose cells all lie in others. */
static void prune(walker *w, at_boxes *out, size_t from, uint8_t *covered)
{
    for (size_t i = from; i < out->count;) {
        gain g = {.covered = covered};
        load(w, &out->box[i]);
        each(w, 0, 0, count_single, &g);
        if (g.fresh > 0) {
            i++;
            continue;
        }
        each(w, 0, 0, uncover_cell, covered);
        out->count--;
        memmove(out->box + i, out->box + i + 1, (out->count - i) * sizeof *out->box);
    }
}

typedef struct summary {
    at_box *box;
    at_region_place best;
} summary;

static bool more_typical(const at_region *r, const at_region_place *a, const at_region_place *b)
{
    for (size_t i = 0; i < r->axes; i++) {
        int x = r->axis[i].point[a->at[i]].rank, y = r->axis[i].point[b->at[i]].rank;
        if (x != y) {
            return x < y;
        }
    }
    return false;
}

static void summarize_cell(void *context, const walker *w, uint64_t cell)
{
    summary *s = context;
    if (s->box->cases == 0 || more_typical(w->region, &w->place, &s->best)) {
        s->best = w->place;
        s->box->example = cell;
    }
    s->box->cases++;
    s->box->wins += (w->mark[cell] & AT_MARK_WINS) != 0;
}

static at_status append(at_boxes *out, const at_box *b, at_error *err)
{
    if (out->count == out->room) {
        size_t room = out->room == 0 ? 16 : 2 * out->room;
        at_box *larger = realloc(out->box, room * sizeof *larger);
        if (larger == NULL) {
            return at_fail(err, AT_NO_MEMORY, "no memory for %zu boxes", room);
        }
        out->box = larger;
        out->room = room;
    }
    out->box[out->count++] = *b;
    return AT_OK;
}

static at_status cover(walker *w, at_boxes *out, at_box *b, uint8_t *covered, at_error *err)
{
    for (uint64_t cell = 0; cell < w->region->cells; cell++) {
        if ((w->mark[cell] & ~AT_MARK_WINS) != w->sign || w->mark[cell] == AT_MARK_INVALID ||
            covered[cell] != 0) {
            continue;
        }
        best_box(w, b, cell, covered);
        drop_idle_relations(w, b);
        AT_TRY(append(out, b, err));
        load(w, b);
        each(w, 0, 0, cover_cell, covered);
    }
    return AT_OK;
}

at_status at_boxes_cover(at_boxes *out, const at_region *region, const uint32_t *mark,
                         uint32_t sign, size_t backend, at_error *err)
{
    walker w;
    at_box b = {.backend = backend, .sign = sign};
    size_t from = out->count;
    uint8_t *covered = calloc(region->cells, 1);
    if (covered == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a space of %llu cases",
                       (unsigned long long)region->cells);
    }
    start(&w, region, mark, sign);
    at_status status = cover(&w, out, &b, covered, err);
    if (status == AT_OK) {
        prune(&w, out, from, covered);
    }
    for (size_t i = from; i < out->count && status == AT_OK; i++) {
        summary s = {.box = &out->box[i]};
        load(&w, &out->box[i]);
        each(&w, 0, 0, summarize_cell, &s);
    }
    free(covered);
    return status;
}
