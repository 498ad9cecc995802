#include "harness/device.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness/device_driver.h"

enum { BAND = 4096, ALIGNMENT = 128 };

/* One mapping. Its guard pages, if any, are the `page` bytes on either side of [base, base + room).
 */
typedef struct buffer {
    struct buffer *next;
    uint64_t base, data;
    size_t room, size;
    unsigned long long handle;
    bool paged, taken;
    unsigned guard_word;
    size_t element_size;
} buffer;

struct at_device {
    at_cuda driver;
    int device;
    void *context;
    size_t page; /* granularity of mappings; 0: only plain allocations */
    buffer *first;
};

static at_status blame(const at_device *d, int error, at_status status, at_error *err)
{
    const char *text = NULL;
    bool known = d->driver.error_string(error, &text) == 0 && text != NULL;
    return at_fail(err, status, "CUDA error %d: %.300s", error, known ? text : "unknown");
}

static at_cuda_property property(const at_device *d)
{
    return (at_cuda_property){.type = AT_CUDA_PINNED,
                              .location = {AT_CUDA_LOCATION_DEVICE, d->device}};
}

/* The granularity of mappings; 0 where the device cannot map. */
static size_t find_page(const at_device *d)
{
    const at_cuda_property p = property(d);
    int can = 0;
    size_t page = 0;
    bool maps = d->driver.attribute(&can, AT_CUDA_ATTRIBUTE_VMM, d->device) == 0 && can != 0 &&
                d->driver.granularity(&page, &p, 0) == 0;
    return maps ? page : 0;
}

at_status at_device_open(at_device **out, const char *library, int ordinal, at_error *err)
{
    *out = NULL;
    at_device *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for the record of a device");
    }
    at_status status = at_cuda_open(&d->driver, library, err);
    if (status == AT_OK) {
        int error = d->driver.init(0);
        error = error == 0 ? d->driver.device_get(&d->device, ordinal) : error;
        error = error == 0 ? d->driver.retain(&d->context, d->device) : error;
        error = error == 0 ? d->driver.set_current(d->context) : error;
        if (error != 0) {
            (void)blame(d, error, AT_UNSUPPORTED, err);
            status = at_fail_in(err, AT_UNSUPPORTED, "device %d", ordinal);
        }
    }
    if (status != AT_OK) {
        at_device_close(d);
        return status;
    }
    d->page = find_page(d);
    *out = d;
    return AT_OK;
}

static void drop(at_device *d, buffer *b)
{
    if (b->paged) {
        (void)d->driver.unmap(b->base, b->room);
        (void)d->driver.destroy(b->handle);
        (void)d->driver.unreserve(b->base - d->page, b->room + 2 * d->page);
    } else {
        (void)d->driver.free(b->base);
    }
    free(b);
}

/* Gives the memory of buffers that nobody holds back to the device. */
static void drop_free(at_device *d)
{
    for (buffer **at = &d->first; *at != NULL;) {
        buffer *b = *at;
        if (b->taken) {
            at = &b->next;
        } else {
            *at = b->next;
            drop(d, b);
        }
    }
}

void at_device_close(at_device *device)
{
    if (device == NULL) {
        return;
    }
    at_device_release(device);
    if (device->context != NULL) {
        (void)device->driver.set_current(device->context);
        drop_free(device);
        (void)device->driver.give_back(device->device);
    }
    at_cuda_close(&device->driver);
    free(device);
}

int at_device_has_guard_pages(const at_device *device)
{
    return device->page > 0;
}

/* Maps `room` bytes between unmapped pages. The driver's error, 0 when it worked. */
static int map_pages(at_device *d, buffer *b)
{
    const at_cuda_property p = property(d);
    const at_cuda_access access = {{AT_CUDA_LOCATION_DEVICE, d->device}, AT_CUDA_READ_WRITE};
    const at_cuda *driver = &d->driver;
    uint64_t start = 0;
    int error = driver->reserve(&start, b->room + 2 * d->page, d->page, 0, 0);
    if (error != 0) {
        return error;
    }
    b->base = start + d->page;
    error = driver->create(&b->handle, b->room, &p, 0);
    if (error == 0) {
        error = driver->map(b->base, b->room, 0, b->handle, 0);
        if (error == 0) {
            error = driver->set_access(b->base, b->room, &access, 1);
            if (error == 0) {
                return 0;
            }
            (void)driver->unmap(b->base, b->room);
        }
        (void)driver->destroy(b->handle);
    }
    (void)driver->unreserve(start, b->room + 2 * d->page);
    return error;
}

static int allocate(at_device *d, buffer *b)
{
    return b->paged ? map_pages(d, b) : d->driver.alloc(&b->base, b->room);
}

/* A buffer of that room: one that was released, or a new one. */
static at_status find_room(buffer **out, at_device *d, size_t room, size_t size, at_error *err)
{
    for (buffer *b = d->first; b != NULL; b = b->next) {
        if (!b->taken && b->room == room) {
            *out = b;
            return AT_OK;
        }
    }
    buffer *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for the record of a buffer");
    }
    b->room = room;
    b->paged = d->page > 0;
    int error = allocate(d, b);
    if (error == AT_CUDA_OUT_OF_MEMORY) {
        drop_free(d);
        error = allocate(d, b);
    }
    if (error != 0) {
        free(b);
        (void)blame(d, error, AT_NO_MEMORY, err);
        return at_fail_in(err, error == AT_CUDA_OUT_OF_MEMORY ? AT_NO_MEMORY : AT_REFUSED,
                          "no device memory for %zu bytes", size);
    }
    b->next = d->first;
    d->first = b;
    *out = b;
    return AT_OK;
}

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

/* Bytes of the band behind the data. */
static size_t tail(const buffer *b)
{
    return (size_t)(b->base + b->room - b->data) - b->size;
}

static void fill_band(const buffer *b, unsigned char *band, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        band[i] = (unsigned char)(b->guard_word >> (8 * (i % b->element_size)));
    }
}

at_status at_device_take(uint64_t *address, at_device *device, size_t size, unsigned guard_word,
                         size_t element_size, at_error *err)
{
    AT_ASSERT(element_size == 1 || element_size == 2 || element_size == 4);
    const size_t page = device->page > 0 ? device->page : ALIGNMENT;
    *address = 0;
    if (size > PTRDIFF_MAX - 2 * (size_t)BAND - ALIGNMENT - 3 * page) {
        return at_fail(err, AT_NO_MEMORY, "no device memory for %zu bytes", size);
    }
    buffer *b = NULL;
    const size_t aligned = round_up(size, ALIGNMENT);
    AT_TRY(find_room(&b, device, round_up(aligned + 2 * (size_t)BAND, page), size, err));
    b->size = size;
    b->guard_word = guard_word;
    b->element_size = element_size;
    /* The data ends as near to the unmapped page as the band allows. */
    b->data = b->base + b->room - BAND - aligned;
    unsigned char band[BAND + ALIGNMENT];
    fill_band(b, band, sizeof band);
    AT_TRY(at_device_put(device, b->data - BAND, band, BAND, err));
    AT_TRY(at_device_put(device, b->data + size, band, tail(b), err));
    b->taken = true;
    *address = b->data;
    return AT_OK;
}

at_status at_device_put(at_device *device, uint64_t address, const void *host, size_t size,
                        at_error *err)
{
    int error = device->driver.set_current(device->context);
    error = error == 0 && size > 0 ? device->driver.to_device(address, host, size) : error;
    return error == 0 ? AT_OK : blame(device, error, AT_REFUSED, err);
}

at_status at_device_get(at_device *device, void *host, uint64_t address, size_t size, at_error *err)
{
    int error = device->driver.set_current(device->context);
    error = error == 0 && size > 0 ? device->driver.to_host(host, address, size) : error;
    return error == 0 ? AT_OK : blame(device, error, AT_REFUSED, err);
}

/* Index of the first byte that differs from the band as it was filled; `size` when none does. */
static size_t first_changed(const unsigned char *found, const unsigned char *filled, size_t size)
{
    size_t i = 0;
    while (i < size && found[i] == filled[i]) {
        i++;
    }
    return i;
}

at_status at_device_check(at_device *device, uint64_t address, int *changed, int64_t *offset,
                          at_error *err)
{
    const buffer *b = device->first;
    while (b != NULL && !(b->taken && b->data == address)) {
        b = b->next;
    }
    AT_ASSERT(b != NULL);
    unsigned char filled[BAND + ALIGNMENT], found[BAND + ALIGNMENT];
    fill_band(b, filled, sizeof filled);
    AT_TRY(at_device_get(device, found, b->data - BAND, BAND, err));
    size_t at = first_changed(found, filled, BAND);
    *changed = at < BAND;
    *offset = *changed ? (int64_t)at - BAND : 0;
    if (!*changed) {
        AT_TRY(at_device_get(device, found, b->data + b->size, tail(b), err));
        at = first_changed(found, filled, tail(b));
        *changed = at < tail(b);
        *offset = *changed ? (int64_t)(b->size + at) : 0;
    }
    return AT_OK;
}

void at_device_release(at_device *device)
{
    for (buffer *b = device->first; b != NULL; b = b->next) {
        b->taken = false;
    }
}
