#include "harness/run/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int wake_pipe[2] = {-1, -1};
static volatile sig_atomic_t caught, caught_count;
static struct {
    struct sigaction child, interrupt, terminate, pipe, size;
} old;

static void on_signal(int number)
{
    int saved = errno;
    if (number != SIGCHLD) {
        caught = number;
        caught_count++;
    }
    ssize_t got = write(wake_pipe[1], "", 1);
    (void)got; /* a full pipe wakes as well */
    errno = saved;
}

at_status at_wake_open(at_error *err)
{
    caught = caught_count = 0;
    if (pipe(wake_pipe) != 0) {
        return at_fail(err, AT_IO, "no pipe for signals (%s)", strerror(errno));
    }
    for (int i = 0; i < 2; i++) {
        (void)fcntl(wake_pipe[i], F_SETFL, O_NONBLOCK);
        (void)fcntl(wake_pipe[i], F_SETFD, FD_CLOEXEC);
    }
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGCHLD, &act, &old.child);
    (void)sigaction(SIGINT, &act, &old.interrupt);
    (void)sigaction(SIGTERM, &act, &old.terminate);
    (void)sigaction(SIGPIPE, &ignore, &old.pipe); /* writes to dead workers report EPIPE */
    (void)sigaction(SIGXFSZ, &ignore, &old.size); /* a full file reports EFBIG */
    return AT_OK;
}

void at_wake_close(void)
{
    (void)sigaction(SIGCHLD, &old.child, NULL);
    (void)sigaction(SIGINT, &old.interrupt, NULL);
    (void)sigaction(SIGTERM, &old.terminate, NULL);
    (void)sigaction(SIGPIPE, &old.pipe, NULL);
    (void)sigaction(SIGXFSZ, &old.size, NULL);
    (void)close(wake_pipe[0]);
    (void)close(wake_pipe[1]);
    wake_pipe[0] = wake_pipe[1] = -1;
}

int at_wake_descriptor(void)
{
    return wake_pipe[0];
}

void at_wake_drain(void)
{
    char drain[64];
    while (read(wake_pipe[0], drain, sizeof drain) > 0) {
    }
}

int at_wake_signal(void)
{
    return caught;
}

int at_wake_count(void)
{
    return caught_count;
}
