#include "harness/run/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double at_clock(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int at_cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 1024 ? 1024 : (int)n;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

/* A pipe whose ends are above the standard descriptors and close on exec. */
static int make_pipe(int ends[2])
{
    int raw[2];
    if (pipe(raw) != 0) {
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(raw[i], F_DUPFD_CLOEXEC, 3);
        (void)close(raw[i]);
    }
    return ends[0] >= 0 && ends[1] >= 0 ? 0 : -1;
}

/* Between fork and exec: only calls that are safe there, apart from setenv in this one-thread
 * program. */
static void become_child(const at_spawn *how, const int fd[3], pid_t parent)
{
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127);
    }
    struct sigaction normal = {.sa_handler = SIG_DFL};
    static const int touched[] = {SIGINT, SIGTERM, SIGCHLD, SIGPIPE};
    for (size_t i = 0; i < sizeof touched / sizeof touched[0]; i++) {
        (void)sigaction(touched[i], &normal, NULL);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    for (int i = 0; i < 3; i++) {
        if (dup2(fd[i], i) < 0) {
            _exit(127);
        }
    }
    if (how->threads > 0) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", how->threads);
        (void)setenv("OMP_NUM_THREADS", text, 1);
        (void)setenv("OPENBLAS_NUM_THREADS", text, 1);
        (void)setenv("OMP_WAIT_POLICY", "passive", 0);
    }
    char **argv = (char **)(uintptr_t)how->argv;
    (void)execvp(argv[0], argv);
    (void)dprintf(2, "%s: cannot be executed (%s)\n", argv[0], strerror(errno));
    _exit(127);
}

at_status at_process_open(at_process *out, const at_spawn *how, at_error *err)
{
    int in[2] = {-1, -1}, events[2] = {-1, -1}, noise[2] = {-1, -1};
    *out = (at_process){.to = -1, .from = -1, .noise = -1};
    at_status status = AT_OK;
    pid_t parent = getpid(), pid = -1;
    if (make_pipe(in) != 0 || make_pipe(events) != 0 || make_pipe(noise) != 0) {
        status = at_fail(err, AT_IO, "no pipe for a worker (%s)", strerror(errno));
        goto done;
    }
    pid = fork();
    if (pid < 0) {
        status = at_fail(err, AT_IO, "no process for a worker (%s)", strerror(errno));
        goto done;
    }
    if (pid == 0) {
        int child[3] = {in[0], events[1], noise[1]};
        become_child(how, child, parent);
    }
    (void)setpgid(pid, pid); /* here too: whoever comes first */
    out->pid = pid;
    out->to = in[1];
    out->from = events[0];
    out->noise = noise[0];
    in[1] = events[0] = noise[0] = -1;
    (void)fcntl(out->to, F_SETFL, O_NONBLOCK);
    (void)fcntl(out->from, F_SETFL, O_NONBLOCK);
    (void)fcntl(out->noise, F_SETFL, O_NONBLOCK);
done:
    for (int i = 0; i < 2; i++) {
        close_fd(&in[i]);
        close_fd(&events[i]);
        close_fd(&noise[i]);
    }
    return status;
}

at_status at_process_send(at_process *p, const char *line, at_error *err)
{
    size_t n = strlen(line), sent = 0;
    while (sent < n) {
        ssize_t got = p->to >= 0 ? write(p->to, line + sent, n - sent) : -1;
        if (got < 0 && errno == EINTR && p->to >= 0) {
            continue;
        }
        if (got < 0) {
            return at_fail(err, AT_IO, "the worker does not read its requests");
        }
        sent += (size_t)got;
    }
    return AT_OK;
}

static void keep_noise(at_process *p, const char *bytes, size_t n)
{
    p->noise_bytes += n;
    for (size_t i = n > AT_TAIL_SIZE ? n - AT_TAIL_SIZE : 0; i < n; i++) {
        p->tail[p->tail_next] = bytes[i];
        p->tail_next = (p->tail_next + 1) % AT_TAIL_SIZE;
        p->tail_used += p->tail_used < AT_TAIL_SIZE;
    }
}

/* A bounded number of reads a call, so that endless output cannot hold the runner. */
enum { READS = 16, CHUNK = 1 << 16 };

at_status at_process_read(at_process *p, at_error *err)
{
    char bytes[CHUNK];
    for (int i = 0; i < READS && p->noise >= 0; i++) {
        ssize_t got = read(p->noise, bytes, sizeof bytes);
        if (got > 0) {
            keep_noise(p, bytes, (size_t)got);
        } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
            close_fd(&p->noise);
        } else if (errno == EAGAIN) {
            break;
        }
    }
    for (int i = 0; i < READS && p->from >= 0; i++) {
        ssize_t got = read(p->from, bytes, sizeof bytes);
        if (got > 0) {
            AT_TRY(at_lines_push(&p->lines, bytes, (size_t)got, err));
        } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
            close_fd(&p->from);
        } else if (errno == EAGAIN) {
            break;
        }
    }
    return AT_OK;
}

static void forget(at_process *p)
{
    close_fd(&p->to);
    close_fd(&p->from);
    close_fd(&p->noise);
    at_lines_close(&p->lines);
    p->pid = 0;
}

bool at_process_ended(at_process *p, int *wait_status)
{
    pid_t got = p->pid > 0 ? waitpid(p->pid, wait_status, WNOHANG) : -1;
    if (got <= 0) {
        return false;
    }
    (void)kill(-p->pid, SIGKILL); /* what it may have left behind */
    p->pid = 0;
    return true;
}

int at_process_kill(at_process *p)
{
    int wait_status = 0;
    if (p->pid > 0) {
        (void)kill(-p->pid, SIGKILL);
        (void)kill(p->pid, SIGKILL);
        while (waitpid(p->pid, &wait_status, 0) < 0 && errno == EINTR) {
        }
    }
    forget(p);
    return wait_status;
}

void at_process_close(at_process *p, double patience)
{
    int wait_status = 0;
    double end = at_clock() + patience;
    close_fd(&p->to);
    while (p->pid > 0 && at_clock() < end) {
        struct pollfd fd[2] = {{p->from, POLLIN, 0}, {p->noise, POLLIN, 0}};
        (void)poll(fd, 2, 5);
        at_error ignored;
        if (at_process_read(p, &ignored) != AT_OK || at_process_ended(p, &wait_status)) {
            break;
        }
    }
    (void)at_process_kill(p);
}

void at_process_hush(at_process *p)
{
    p->noise_bytes = 0;
    p->tail_used = p->tail_next = 0;
}

void at_process_tail(const at_process *p, char *out, size_t room)
{
    size_t n = p->tail_used < room - 1 ? p->tail_used : room - 1;
    for (size_t i = 0; i < n; i++) {
        char c = p->tail[(p->tail_next + AT_TAIL_SIZE - n + i) % AT_TAIL_SIZE];
        out[i] = c != '\0' ? c : '?';
    }
    out[n] = '\0';
    const char *newline = strchr(out, '\n');
    if (n < p->noise_bytes && newline != NULL && newline[1] != '\0') {
        memmove(out, newline + 1, strlen(newline + 1) + 1);
    }
    at_text_clean(out);
}

void at_death_text(int wait_status, char code[48], char sentence[128])
{
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},
                 {SIGFPE, "SIGFPE"},   {SIGILL, "SIGILL"},   {SIGKILL, "SIGKILL"},
                 {SIGTERM, "SIGTERM"}, {SIGTRAP, "SIGTRAP"}, {SIGSYS, "SIGSYS"},
                 {SIGPIPE, "SIGPIPE"}, {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}};
    if (!WIFSIGNALED(wait_status)) {
        int exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
        (void)snprintf(code, 48, "exit_%d", exit_code);
        (void)snprintf(sentence, 128, "the process left with exit code %d", exit_code);
        return;
    }
    int number = WTERMSIG(wait_status);
    char name[16];
    (void)snprintf(name, sizeof name, "SIG%d", number);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].number == number) {
            (void)snprintf(name, sizeof name, "%s", names[i].name);
        }
    }
    (void)snprintf(code, 48, "%s", name);
    for (char *c = code; *c != '\0'; c++) {
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    }
    (void)snprintf(sentence, 128, "the process died of %s", name);
}
