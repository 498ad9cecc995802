#include "harness/problem/problem.h"

#include <string.h>

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

void at_problem_poison(const at_problem *p, at_tensor_id first, at_tensor_id last)
{
    for (int id = first > AT_O ? (int)first : (int)AT_O; id <= (int)last; id++) {
        const at_tensor *t = &p->t[id];
        if (t->data != NULL) {
            write_word(t->data, p->size[id], at_dtype_poison(t->dtype), at_dtype_size(t->dtype));
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

/* Logical place of the element at this offset from data. */
static void say_changed(const at_problem *p, int id, size_t element, at_error *what)
{
    const at_tensor *t = &p->t[id];
    for (int64_t b = 0; b < t->shape[0]; b++) {
        int64_t first = at_tensor_offset(t, b, 0, 0, 0), rest = (int64_t)element - first;
        if (rest < 0) {
            continue;
        }
        int64_t outer = t->stride[1] > t->stride[2] ? 1 : 2, inner = 3 - outer;
        int64_t index[4] = {b, 0, 0, 0};
        index[outer] = rest / t->stride[outer];
        index[inner] = rest % t->stride[outer] / t->stride[inner];
        index[3] = rest % t->stride[inner];
        int64_t len = t->start == NULL           ? t->shape[2]
                      : id == AT_K || id == AT_V ? p->len_kv[b]
                                                 : p->len_q[b];
        if (index[1] < t->shape[1] && index[2] < len &&
            at_tensor_offset(t, b, index[1], index[2], index[3]) == (int64_t)element) {
            (void)at_fail(what, AT_OK, "%s: the input changed at [%lld %lld %lld %lld]",
                          at_tensor_names[id], (long long)b, (long long)index[1],
                          (long long)index[2], (long long)index[3]);
            return;
        }
    }
    (void)at_fail(what, AT_OK,
                  "%s: the input changed at element %zu of its memory, between sequences",
                  at_tensor_names[id], element);
}

static bool input_changed(const at_problem *p, int id, at_error *what)
{
    const unsigned char *now = p->t[id].data, *then = p->shadow[id];
    if (now == NULL || memcmp(now, then, p->size[id]) == 0) {
        return false;
    }
    size_t at = 0;
    while (now[at] == then[at]) {
        at++;
    }
    say_changed(p, id, at / at_dtype_size(p->t[id].dtype), what);
    return true;
}

/* Tokens between sequences of an output must still hold poison. */
static bool gap_written(const at_problem *p, int id, at_error *what)
{
    const at_tensor *t = &p->t[id];
    const int64_t *len = id == AT_DK || id == AT_DV ? p->len_kv : p->len_q;
    if (t->data == NULL || t->start == NULL) {
        return false;
    }
    size_t element = at_dtype_size(t->dtype);
    size_t token = (size_t)t->stride[2] * element;
    uint32_t poison = at_dtype_poison(t->dtype);
    for (int64_t b = 0; b < p->c.batch; b++) {
        const unsigned char *bytes = t->data;
        size_t from = (size_t)(t->start[b] + len[b]) * token;
        size_t to = (size_t)t->start[b + 1] * token;
        for (size_t i = from; i < to; i++) {
            if (bytes[i] != (unsigned char)(poison >> (8 * (i % element)))) {
                (void)at_fail(what, AT_OK,
                              "%s: memory was written in the gap after sequence %lld, at byte %zu "
                              "of the buffer",
                              at_tensor_names[id], (long long)b, i);
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
        if (p->t[id].data != NULL && at_arena_check(p->arena, p->t[id].data, &offset) != 0) {
            say_band(p, id, offset, what);
            return fault(AT_MEMORY_OVERRUN, tensor, id);
        }
        if (id > AT_DO && gap_written(p, id, what)) {
            return fault(AT_MEMORY_OVERRUN, tensor, id);
        }
    }
    for (int id = 0; id <= AT_DO; id++) {
        if (input_changed(p, id, what)) {
            return fault(AT_MEMORY_CLOBBERED, tensor, id);
        }
    }
    return AT_MEMORY_OK;
}
