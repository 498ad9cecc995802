#include <string.h>

#include "harness/problem/gaps.h"

static void write_word(unsigned char *to, size_t size, uint32_t word, size_t element)
{
    unsigned char bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(word >> (8 * (i % element)));
    }
    for (size_t done = 0; done < size; done += sizeof bytes) {
        memcpy(to + done, bytes, size - done < sizeof bytes ? size - done : sizeof bytes);
    }
}

/* The output that a range must hold for `id` to be poisoned: drop comes with o, dbias with dv. */
static int place_of(int id)
{
    return id == AT_DROP ? AT_O : id == AT_DBIAS || id == AT_DSINK ? AT_DV : id;
}

void at_problem_poison(const at_problem *p, at_tensor_id first, at_tensor_id last)
{
    for (int id = AT_O; id < AT_TENSOR_COUNT; id++) {
        at_tensor_id home = p->home[id];
        const at_tensor *t = &p->t[home];
        bool inside = place_of(id) >= (int)first && place_of(id) <= (int)last;
        if (inside && p->base[home] != NULL && !at_tensor_is_input(home)) {
            write_word(p->base[home], p->size[home], at_dtype_poison(t->dtype),
                       at_dtype_size(t->dtype));
        }
    }
}

static at_memory_fault fault(at_memory_fault kind, at_tensor_id *tensor, int id)
{
    *tensor = (at_tensor_id)id;
    return kind;
}

/* A sentence for a byte that changed outside the buffer. */
static void say_band(const at_problem *p, int id, ptrdiff_t offset, at_error *what)
{
    bool before = offset < 0;
    long long distance = before ? -(long long)offset : (long long)offset - (long long)p->size[id];
    (void)at_fail(what, AT_OK, "%s: memory was written %lld bytes %s of the buffer",
                  at_tensor_names[id], distance, before ? "before the start" : "past the end");
}

/* Finds the row of tensor `id` that holds the element at this offset from the buffer's start. */
static bool find_element(const at_problem *p, int id, int64_t element, int64_t index[4])
{
    const at_tensor *t = &p->t[id];
    const unsigned char *base = p->base[p->home[id]], *data = t->data;
    int64_t offset = (data - base) / (int64_t)at_dtype_size(t->dtype);
    for (int64_t b = 0; b < t->shape[0]; b++) {
        for (int64_t h = 0; h < t->shape[1]; h++) {
            for (int64_t s = 0; s < at_problem_rows(p, (at_tensor_id)id, b); s++) {
                int64_t d = element - offset - at_tensor_offset(t, b, h, s, 0);
                if (d >= 0 && d < t->shape[3]) {
                    const int64_t found[4] = {b, h, s, d};
                    memcpy(index, found, sizeof found);
                    return true;
                }
            }
        }
    }
    return false;
}

static at_memory_fault say_changed(const at_problem *p, int home, size_t element,
                                   at_tensor_id *tensor, at_error *what)
{
    int64_t i[4] = {0, 0, 0, 0};
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        if (p->t[id].data != NULL && (int)p->home[id] == home &&
            find_element(p, id, (int64_t)element, i)) {
            (void)at_fail(what, AT_OK, "%s: the input changed at [%lld %lld %lld %lld]",
                          at_tensor_names[id], (long long)i[0], (long long)i[1], (long long)i[2],
                          (long long)i[3]);
            return fault(AT_MEMORY_CLOBBERED, tensor, id);
        }
    }
    (void)at_fail(what, AT_OK, "%s: the input changed at element %zu of its memory, %s",
                  at_tensor_names[home], element,
                  p->t[home].start != NULL ? "between sequences" : "in a gap");
    return fault(AT_MEMORY_CLOBBERED, tensor, home);
}

static at_memory_fault check_input(const at_problem *p, int home, at_tensor_id *tensor,
                                   at_error *what)
{
    const unsigned char *now = p->base[home], *then = p->shadow[home];
    if (then == NULL || memcmp(now, then, p->size[home]) == 0) {
        return AT_MEMORY_OK;
    }
    size_t at = 0;
    while (now[at] == then[at]) {
        at++;
    }
    return say_changed(p, home, at / at_dtype_size(p->t[home].dtype), tensor, what);
}

/* Where the gap lies that holds this element. */
static void say_gap(const at_problem *p, int home, size_t element, size_t byte, at_error *what)
{
    const at_tensor *t = &p->t[home];
    int64_t token = t->start != NULL ? (int64_t)element / t->stride[2] : -1;
    for (int64_t b = 0; token >= 0 && b < p->c.batch; b++) {
        int64_t end = t->start[b] + at_problem_rows(p, (at_tensor_id)home, b);
        if (token >= end && token < t->start[b + 1]) {
            (void)at_fail(what, AT_OK,
                          "%s: memory was written in the gap after sequence %lld, at byte %zu of "
                          "the buffer",
                          at_tensor_names[home], (long long)b, byte);
            return;
        }
    }
    (void)at_fail(what, AT_OK, "%s: memory was written in a gap, at byte %zu of the buffer",
                  at_tensor_names[home], byte);
}

/* Elements of an output's buffer that lie in no tensor must still hold poison. */
static bool gap_written(const at_problem *p, int home, at_error *what)
{
    const uint64_t *cover = p->cover[home];
    const unsigned char *bytes = p->base[home];
    size_t element = at_dtype_size(p->t[home].dtype), n = p->size[home] / element;
    uint32_t poison = at_dtype_poison(p->t[home].dtype);
    for (size_t e = 0; cover != NULL && e < n; e++) {
        if (cover[e / 64] == UINT64_MAX) {
            e |= 63;
            continue;
        }
        for (size_t i = 0; i < element && (cover[e / 64] >> (e % 64) & 1) == 0; i++) {
            if (bytes[e * element + i] != (unsigned char)(poison >> (8 * i))) {
                say_gap(p, home, e, e * element + i, what);
                return true;
            }
        }
    }
    return false;
}

at_memory_fault at_problem_check_memory(const at_problem *p, at_tensor_id *tensor, at_error *what)
{
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        ptrdiff_t offset = 0;
        if (p->base[id] != NULL && at_arena_check(p->arena, p->base[id], &offset) != 0) {
            say_band(p, id, offset, what);
            return fault(AT_MEMORY_OVERRUN, tensor, id);
        }
        if (gap_written(p, id, what)) {
            return fault(AT_MEMORY_OVERRUN, tensor, id);
        }
    }
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        at_memory_fault found = check_input(p, id, tensor, what);
        if (found != AT_MEMORY_OK) {
            return found;
        }
    }
    return AT_MEMORY_OK;
}
