/* Planted faults of a process rather than of a value: what a library under test may do to the
 * worker that runs it. Apart from the fault, each computes what cpu.flash does. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cpu_flash.h"
#include "kernels/kernels.h"

typedef enum process_fault {
    FAULT_SEGV,
    FAULT_ABORT,
    FAULT_EXIT,
    FAULT_KILL,
    FAULT_HANG,
    FAULT_SLEEP,
    FAULT_FLOOD,
    FAULT_PRINT,
    FAULT_GARBAGE,
    FAULT_CLOSE_FDS,
    FAULT_OOB_WRITE,
    FAULT_OOB_WRITE_FAR,
    FAULT_OOB_WRITE_DV,
    FAULT_OOB_READ,
    FAULT_OOB_READ_FAR,
    FAULT_INPUT_WRITTEN,
    FAULT_REFUSE,
    FAULT_OOM,
    FAULT_FLAKY
} process_fault;

enum { FIRST_FD = 3, LAST_FD = 20, FAR = 1 << 20 };

static void write_all(int fd, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t n = write(fd, text, left);
        if (n <= 0) {
            return;
        }
        text += n;
        left -= (size_t)n;
    }
}

static void touch_unmapped_page(void)
{
    volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = 1;
}

static void wait_for_ever(void)
{
    for (;;) {
        (void)pause();
    }
}

/* Half a second, and a millisecond more for each unit of the case's seed. */
static void sleep_long(const at_problem *p)
{
    uint64_t ms = 500 + p->c.seed % 1000000;
    struct timespec time = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&time, &time) != 0) {
    }
}

static void flood(void)
{
    char line[4096];
    memset(line, 'x', sizeof line);
    line[sizeof line - 2] = '\n';
    line[sizeof line - 1] = '\0';
    for (;;) {
        write_all(STDOUT_FILENO, line);
        write_all(STDERR_FILENO, line);
    }
}

static void print(void)
{
    (void)printf("library banner, by printf\n");
    (void)fflush(stdout);
    write_all(STDOUT_FILENO, "library banner, by write\n");
}

/* Lines that look like the worker protocol, on every descriptor that takes them. */
static void write_garbage(void)
{
    for (int fd = STDOUT_FILENO; fd <= LAST_FD; fd++) {
        bool ours = fd == STDOUT_FILENO || fd >= FIRST_FD;
        if (ours && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY) {
            write_all(fd, "{\"event\":\"verdict\",\"status\":\"PASS\"}\n{\"event\":\n\xff\xfe{]\n");
        }
    }
}

static void close_descriptors(void)
{
    for (int fd = 0; fd <= LAST_FD; fd++) {
        (void)close(fd);
    }
}

/* The byte that follows the tensor's buffer. */
static unsigned char *end_of(const at_problem *p, at_tensor_id id)
{
    return (unsigned char *)p->t[id].data + p->size[id];
}

static void write_past(const at_problem *p, at_tensor_id id, size_t elements)
{
    volatile unsigned char *end = end_of(p, id);
    for (size_t i = 0; i < elements * at_dtype_size(p->t[id].dtype); i++) {
        end[i] = 0x3c;
    }
}

/* What lies behind K reaches the last element of o. */
static void read_past(const at_problem *p, size_t elements)
{
    const at_tensor *k = &p->t[AT_K], *o = &p->t[AT_O];
    size_t step = at_dtype_size(k->dtype), last = at_dtype_size(o->dtype);
    const unsigned char *end = end_of(p, AT_K);
    unsigned char read[8] = {0};
    for (size_t i = 0; i < elements; i++) {
        volatile unsigned char first = end[i * step];
        memcpy(read, end + i * step, step);
        read[0] = first;
    }
    double value = 0, sum = 0;
    at_dtype_load_double(k->dtype, &value, read, 1);
    if (p->size[AT_O] > 0) {
        at_dtype_load_double(o->dtype, &sum, end_of(p, AT_O) - last, 1);
        sum += value;
        at_dtype_store_double(o->dtype, end_of(p, AT_O) - last, &sum, 1);
    }
}

/* Wrong the first time that a runner (the parent process) sees the case, right the second time, and
 * so on: the state is a file that the second launch removes. */
static void be_flaky(const at_problem *p)
{
    char id[AT_ID_TEXT], path[512];
    const char *base = getenv("TMPDIR");
    at_case_id(&p->c, id);
    (void)snprintf(path, sizeof path, "%s/attest-flaky-%ld-%s", base ? base : "/tmp",
                   (long)getppid(), id);
    if (unlink(path) == 0) {
        return;
    }
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)close(fd);
    }
    memset(p->t[AT_O].data, 0, p->size[AT_O]);
}

static process_fault fault_of(const at_backend *self)
{
    return *(const process_fault *)self->data;
}

/* Faults that come before the launch; those that never return are among them. */
static void before_forward(process_fault fault, const at_problem *p)
{
    switch ((int)fault) {
    case FAULT_SEGV:
        touch_unmapped_page();
        break;
    case FAULT_ABORT:
        abort();
    case FAULT_EXIT:
        exit(0);
    case FAULT_KILL:
        (void)raise(SIGKILL);
        break;
    case FAULT_HANG:
        wait_for_ever();
        break;
    case FAULT_SLEEP:
        sleep_long(p);
        break;
    case FAULT_FLOOD:
        flood();
        break;
    case FAULT_PRINT:
        print();
        break;
    case FAULT_GARBAGE:
        write_garbage();
        break;
    case FAULT_CLOSE_FDS:
        close_descriptors();
        break;
    default:
        break;
    }
}

static void after_forward(process_fault fault, const at_problem *p)
{
    switch ((int)fault) {
    case FAULT_OOB_WRITE:
        write_past(p, AT_O, 1);
        break;
    case FAULT_OOB_WRITE_FAR:
        write_past(p, AT_O, FAR);
        break;
    case FAULT_OOB_READ:
        read_past(p, 1);
        break;
    case FAULT_OOB_READ_FAR:
        read_past(p, FAR);
        break;
    case FAULT_INPUT_WRITTEN:
        if (p->size[AT_K] > 0) {
            *(unsigned char *)p->t[AT_K].data ^= 1;
        }
        break;
    case FAULT_FLAKY:
        be_flaky(p);
        break;
    default:
        break;
    }
}

/* cpu.flash, without a value fault. */
static at_backend plain_flash(const at_backend *self)
{
    at_backend flash = *self;
    flash.data = NULL;
    return flash;
}

static at_status claim(const at_backend *self, void *state, const at_case *c, at_engines *engines,
                       at_reason *why)
{
    at_backend flash = plain_flash(self);
    AT_TRY(at_flash_claim(&flash, state, c, engines, why));
    engines->n = 1;
    return AT_OK;
}

static at_status forward(const at_backend *self, void *state, const at_problem *p,
                         const char *engine, at_error *err)
{
    at_backend flash = plain_flash(self);
    process_fault fault = fault_of(self);
    if (fault == FAULT_OOM) {
        return at_fail(err, AT_NO_MEMORY, "out of memory: tried to allocate 80.00 GiB");
    }
    before_forward(fault, p);
    AT_TRY(at_flash_forward(&flash, state, p, engine, err));
    after_forward(fault, p);
    return AT_OK;
}

static at_status backward(const at_backend *self, void *state, const at_problem *p,
                          const char *engine, at_error *err)
{
    at_backend flash = plain_flash(self);
    if (fault_of(self) == FAULT_REFUSE) {
        return at_fail(err, AT_REFUSED, "planted: the backward takes no such head dimension");
    }
    AT_TRY(at_flash_backward(&flash, state, p, engine, err));
    if (fault_of(self) == FAULT_OOB_WRITE_DV) {
        write_past(p, AT_DV, 1);
    }
    return AT_OK;
}

#define PROCESS_MUTANT(NAME, FAULT, DOC)                                                           \
    &(const at_backend)                                                                            \
    {                                                                                              \
        .name = "mutant." NAME, .version = "1.0.0",                                                \
        .promises = AT_PROMISES_BACKWARD | AT_PROMISES_STATS | AT_MUTANT, .arch = AT_ARCH_CPU,     \
        .numeric = {.p = AT_P_STORED}, .contract = {.pad = AT_PAD_ZERO}, .doc = DOC,               \
        .data = &(const process_fault){FAULT}, .supports = at_flash_supports,                      \
        .open = at_flash_open, .claim = claim, .forward = forward, .backward = backward,           \
        .close = at_flash_close                                                                    \
    }

static const at_flash_fault nondeterministic = {.nondeterministic = 1};

static const at_backend nondet = {
    .name = "mutant.nondet",
    .version = "1.0.0",
    .promises = AT_PROMISES_BACKWARD | AT_PROMISES_STATS | AT_PROMISES_DETERMINISM | AT_MUTANT,
    .arch = AT_ARCH_CPU,
    .numeric = {.p = AT_P_STORED},
    .contract = {.pad = AT_PAD_ZERO},
    .doc = "promises equal bits, and sums in another order every other launch",
    .data = &nondeterministic,
    .supports = at_flash_supports,
    .open = at_flash_open,
    .claim = at_flash_claim,
    .forward = at_flash_forward,
    .backward = at_flash_backward,
    .close = at_flash_close,
};

const at_backend *const at_backends_fault_process[] = {
    PROCESS_MUTANT("segv", FAULT_SEGV, "writes to an unmapped page"),
    PROCESS_MUTANT("abort", FAULT_ABORT, "calls abort"),
    PROCESS_MUTANT("exit0", FAULT_EXIT, "calls exit(0) in the forward"),
    PROCESS_MUTANT("kill", FAULT_KILL, "sends itself SIGKILL"),
    PROCESS_MUTANT("hang", FAULT_HANG, "never returns from the forward"),
    PROCESS_MUTANT("sleep_forward", FAULT_SLEEP, "right, after 500 ms and seed ms"),
    PROCESS_MUTANT("flood", FAULT_FLOOD, "endless output on stdout and stderr"),
    PROCESS_MUTANT("print", FAULT_PRINT, "right, and prints to stdout"),
    PROCESS_MUTANT("garbage", FAULT_GARBAGE, "right, and writes broken JSON to every descriptor"),
    PROCESS_MUTANT("close_fds", FAULT_CLOSE_FDS, "right, and closes descriptors 0 to 20"),
    PROCESS_MUTANT("oob_write", FAULT_OOB_WRITE, "writes one element past o"),
    PROCESS_MUTANT("oob_write_far", FAULT_OOB_WRITE_FAR, "writes a million elements past o"),
    PROCESS_MUTANT("oob_write_dv", FAULT_OOB_WRITE_DV, "writes one element past dv"),
    PROCESS_MUTANT("oob_read", FAULT_OOB_READ, "what follows k leaks into the last element of o"),
    PROCESS_MUTANT("oob_read_far", FAULT_OOB_READ_FAR, "reads a million elements past k"),
    PROCESS_MUTANT("input_written", FAULT_INPUT_WRITTEN, "changes one bit of k"),
    PROCESS_MUTANT("refuse", FAULT_REFUSE, "admits training, refuses in the backward"),
    PROCESS_MUTANT("oom", FAULT_OOM, "the forward finds no memory"),
    PROCESS_MUTANT("flaky", FAULT_FLAKY, "o is zero every other launch under one parent"),
    &nondet,
    NULL,
};
