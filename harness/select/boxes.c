#include "harness/select/fold.h"

#include <stdlib.h>
#include <string.h>

enum { ALL_RELATIONS = 7, SIGNS_MAX = 1024 };

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

/* A slab of one point of an axis, the box's points on the others. */
static int probe_slab(walker *w, const at_box *b, size_t axis, size_t point)
{
    load(w, b);
    w->count[axis] = 1;
    w->list[axis][0] = (uint16_t)point;
    return probe(w, 0, 0);
}

/* Adds every point of the axis whose slab has cases, all of the sign. */
static bool grow_axis(walker *w, at_box *b, size_t axis)
{
    bool grown = false;
    for (size_t i = 0; i < w->region->axis[axis].count; i++) {
        if (b->in[axis][i]) {
            continue;
        }
        if (probe_slab(w, b, axis, i) == 1) {
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

/* Adds points of equal value to both compared axes at once: one alone would bring no case where
 * only equal ones belong to the box. */
static bool grow_diagonal(walker *w, at_box *b)
{
    bool grown = false;
    if (w->region->left < 0) {
        return false;
    }
    const size_t left = (size_t)w->region->left, right = (size_t)w->region->right;
    const at_region_axis *x = &w->region->axis[left], *y = &w->region->axis[right];
    for (size_t i = 0; i < x->count; i++) {
        for (size_t k = 0; k < y->count; k++) {
            if (x->point[i].value[0] != y->point[k].value[0] ||
                (b->in[left][i] || b->in[right][k])) {
                continue;
            }
            b->in[right][k] = true;
            int one = probe_slab(w, b, left, i);
            int two = one >= 0 ? probe_slab(w, b, right, k) : -1;
            bool fits = one >= 0 && two >= 0 && (one > 0 || two > 0);
            b->in[right][k] = b->in[left][i] = fits;
            grown = grown || fits;
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
        if (!grown) {
            grown = grow_diagonal(w, b);
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

/* Covers a space that is folded already. */
static at_status cover_folded(at_boxes *out, const at_region *region, const uint32_t *mark,
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
    free(covered);
    return status;
}

/* Counts the cases of a box and finds its example. */
static void summarize(at_box *b, const at_region *region, const uint32_t *mark)
{
    walker w;
    summary s = {.box = b};
    start(&w, region, mark, b->sign);
    load(&w, b);
    each(&w, 0, 0, summarize_cell, &s);
}

/* Folds once more: marks of other signs need not be told apart. */
static at_status cover_sign(at_boxes *out, const at_region *region, const uint32_t *mark,
                            uint32_t sign, size_t backend, at_error *err)
{
    size_t from = out->count;
    uint32_t *plain = malloc((region->cells + 1) * sizeof *plain);
    if (plain == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a space of %llu cases",
                       (unsigned long long)region->cells);
    }
    for (uint64_t i = 0; i < region->cells; i++) {
        plain[i] = mark[i] == AT_MARK_INVALID          ? AT_MARK_INVALID
                   : (mark[i] & ~AT_MARK_WINS) == sign ? sign
                                                       : AT_MARK_NONE;
    }
    at_fold fold;
    at_fold_open(&fold, region, plain);
    free(plain);
    at_status status = cover_folded(out, &fold.region, fold.mark, sign, backend, err);
    for (size_t i = from; i < out->count && status == AT_OK; i++) {
        at_fold_unfold(&out->box[i], &fold, region);
    }
    at_fold_close(&fold);
    return status;
}

/* The signs that occur, in order of appearance; -1 when there are too many. */
static int collect_signs(uint32_t signs[SIGNS_MAX], const uint32_t *mark, uint64_t cells)
{
    int n = 0, last = 0;
    for (uint64_t cell = 0; cell < cells; cell++) {
        uint32_t sign = mark[cell] & ~AT_MARK_WINS;
        if (mark[cell] == AT_MARK_NONE || mark[cell] == AT_MARK_INVALID ||
            (n > 0 && signs[last] == sign)) {
            continue;
        }
        last = 0;
        while (last < n && signs[last] != sign) {
            last++;
        }
        if (last == n && n == SIGNS_MAX) {
            return -1;
        }
        signs[last] = sign;
        n += last == n;
    }
    return n;
}

static at_status cover_signs(at_boxes *out, const at_region *region, const uint32_t *mark,
                             size_t backend, at_error *err)
{
    uint32_t signs[SIGNS_MAX];
    int n = collect_signs(signs, mark, region->cells);
    if (n < 0) {
        return at_fail(err, AT_INVALID, "more than %d kinds of contradictions in the space %s",
                       SIGNS_MAX, region->name);
    }
    for (int k = 0; k < n; k++) {
        AT_TRY(cover_sign(out, region, mark, signs[k], backend, err));
    }
    return AT_OK;
}

/* Case by case: boxes over the environments alone. sign NONE: all signs. */
static at_status cover_list(at_boxes *out, const at_region *region, const uint32_t *mark,
                            uint32_t sign, size_t backend, at_error *err)
{
    at_region envs = *region;
    size_t items = region->axis[region->axes - 1].count;
    envs.axes = region->env_axes;
    envs.list = NULL;
    envs.cells = region->envs;
    uint32_t *own = malloc(envs.cells * sizeof *own);
    AT_ASSERT(own != NULL); /* only memory can run out */
    at_status status = AT_OK;
    for (size_t item = 0; item < items && status == AT_OK; item++) {
        size_t from = out->count;
        for (uint64_t e = 0; e < envs.cells; e++) {
            own[e] = mark[e * items + item];
        }
        status = sign != AT_MARK_NONE ? cover_sign(out, &envs, own, sign, backend, err)
                                      : cover_signs(out, &envs, own, backend, err);
        for (size_t i = from; i < out->count && status == AT_OK; i++) {
            at_box *b = &out->box[i];
            summarize(b, &envs, own);
            b->item = item;
            b->example = b->example * items + item;
        }
    }
    free(own);
    return status;
}

at_status at_boxes_cover(at_boxes *out, const at_region *region, const uint32_t *mark,
                         uint32_t sign, size_t backend, at_error *err)
{
    size_t from = out->count;
    if (region->list != NULL) {
        return cover_list(out, region, mark, sign, backend, err);
    }
    at_status status = cover_sign(out, region, mark, sign, backend, err);
    for (size_t i = from; i < out->count && status == AT_OK; i++) {
        summarize(&out->box[i], region, mark);
    }
    return status;
}

at_status at_boxes_cover_all(at_boxes *out, const at_region *region, const uint32_t *mark,
                             size_t backend, at_error *err)
{
    size_t from = out->count;
    if (region->list != NULL) {
        return cover_list(out, region, mark, AT_MARK_NONE, backend, err);
    }
    at_fold fold;
    at_fold_open(&fold, region, mark);
    at_status status = cover_signs(out, &fold.region, fold.mark, backend, err);
    for (size_t i = from; i < out->count && status == AT_OK; i++) {
        at_fold_unfold(&out->box[i], &fold, region);
        summarize(&out->box[i], region, mark);
    }
    at_fold_close(&fold);
    return status;
}

bool at_box_holds(const at_region *region, const at_box *b, const at_region_place *place)
{
    bool in = region->left < 0 || (b->relations >> at_region_relation(region, place) & 1) != 0;
    for (size_t a = 0; a < region->axes && in; a++) {
        in = region->axis[a].point == NULL ? place->at[a] == b->item : b->in[a][place->at[a]];
    }
    return in;
}
