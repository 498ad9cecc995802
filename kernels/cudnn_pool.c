#include "kernels/cudnn_pool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/run/process.h"

enum { CHILDREN_MAX = 256, ARCHES = 16, FIRST_ANSWER_SECONDS = 60 };

/* Messages of a child begin with one of these. */
typedef enum message { MESSAGE_HELLO = 1, MESSAGE_FAILED, MESSAGE_PLAN, MESSAGE_ANSWER } message;

typedef struct hello {
    long version;
    char frontend[32];
} hello;

typedef struct request {
    uint64_t tag;
    int last;
    at_cudnn_spec spec;
} request;

typedef struct child {
    pid_t pid; /* 0: none */
    int to, from;
    bool ready, busy;
    uint64_t tag;
    double deadline;
    char plan[AT_CUDNN_NAME];
} child;

static bool write_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        const ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static bool read_all(int fd, void *data, size_t size)
{
    char *at = data;
    while (size > 0) {
        const ssize_t n = read(fd, at, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* The child. */

typedef struct devices {
    int sm[ARCHES];
    char *json[ARCHES];
} devices;

static const char *device_for(devices *list, const at_cudnn_pool *pool, int sm, at_error *err)
{
    int i = 0;
    while (i < ARCHES - 1 && list->json[i] != NULL && list->sm[i] != sm) {
        i++;
    }
    if (list->json[i] == NULL || list->sm[i] != sm) {
        free(list->json[i]);
        list->sm[i] = sm;
        if (at_cudnn_device(&list->json[i], pool->corpus, pool->device, sm, err) != AT_OK) {
            list->json[i] = NULL;
        }
    }
    return list->json[i];
}

static bool announce(void *context, const char *plan)
{
    const int *to = context;
    const int kind = MESSAGE_PLAN;
    char name[AT_CUDNN_NAME];
    (void)snprintf(name, sizeof name, "%s", plan);
    return write_all(*to, &kind, sizeof kind) && write_all(*to, name, sizeof name);
}

static bool send_answer(int to, const at_cudnn_answer *answer)
{
    const int kind = MESSAGE_ANSWER;
    return write_all(to, &kind, sizeof kind) &&
           write_all(to, answer, offsetof(at_cudnn_answer, plan)) &&
           write_all(to, answer->plan, (size_t)answer->plan_count * sizeof *answer->plan);
}

static void serve(const at_cudnn_pool *pool, const at_cudnn_api *api, int from, int to)
{
    static at_cudnn_answer answer;
    devices list = {{0}, {NULL}};
    request r;
    while (read_all(from, &r, sizeof r)) {
        at_error err = {""};
        r.spec.heuristics = "AF";
        r.spec.device_json = device_for(&list, pool, r.spec.sm, &err);
        if (r.spec.device_json == NULL && r.last > AT_CUDNN_S1_VALIDATE) {
            memset(&answer, 0, sizeof answer);
            (void)snprintf(answer.code, sizeof answer.code, "DEVICE_PROFILE");
            (void)snprintf(answer.message, sizeof answer.message, "%s", err.text);
        } else {
            api->ask(&answer, &r.spec, (at_cudnn_stage)r.last, announce, &to);
        }
        if (!send_answer(to, &answer)) {
            return;
        }
    }
}

static void run_child(const at_cudnn_pool *pool, int from, int to)
{
    const at_cudnn_api *api = NULL;
    at_error err = {""};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool loaded = at_cudnn_load(&api, true, &err) == AT_OK;
    const int kind = loaded ? MESSAGE_HELLO : MESSAGE_FAILED;
    hello h = {0};
    if (loaded) {
        h.version = api->version();
        (void)snprintf(h.frontend, sizeof h.frontend, "%s", api->frontend_version);
    }
    if (write_all(to, &kind, sizeof kind) &&
        (loaded ? write_all(to, &h, sizeof h) : write_all(to, &err, sizeof err)) && loaded) {
        serve(pool, api, from, to);
    }
    _exit(0);
}

/* The parent. */

static at_status start(child *c, const at_cudnn_pool *pool, at_error *err)
{
    int down[2] = {-1, -1}, up[2] = {-1, -1};
    memset(c, 0, sizeof *c);
    (void)fflush(NULL); /* or the child's libraries write our text a second time */
    if (pipe(down) != 0) {
        return at_fail(err, AT_IO, "no pipe for a child process (%s)", strerror(errno));
    }
    if (pipe(up) != 0 || (c->pid = fork()) < 0) {
        (void)close(down[0]), (void)close(down[1]);
        return at_fail(err, AT_IO, "no child process can be started (%s)", strerror(errno));
    }
    if (c->pid == 0) {
        (void)close(down[1]), (void)close(up[0]);
        run_child(pool, down[0], up[1]);
    }
    (void)close(down[0]), (void)close(up[1]);
    c->to = down[1];
    c->from = up[0];
    c->deadline = at_clock() + FIRST_ANSWER_SECONDS;
    return AT_OK;
}

/* Ends and reaps a child; returns its wait status. */
static int stop(child *c)
{
    int status = 0;
    if (c->pid > 0) {
        (void)close(c->to), (void)close(c->from);
        (void)kill(c->pid, SIGKILL);
        while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    c->pid = 0;
    return status;
}

static double patience(const at_cudnn_pool *pool)
{
    return pool->seconds > 0 ? pool->seconds : 60;
}

/* Gives an idle child its next question; false: none is left. */
static bool feed(child *c, const at_cudnn_pool *pool)
{
    request r = {0};
    at_cudnn_stage last = AT_CUDNN_S1_VALIDATE;
    if (!pool->next(pool->user, &r.spec, &last, &r.tag)) {
        return false;
    }
    r.last = (int)last;
    c->busy = true;
    c->tag = r.tag;
    c->plan[0] = '\0';
    c->deadline = at_clock() + patience(pool);
    (void)write_all(c->to, &r, sizeof r); /* a dead child is seen when it is read */
    return true;
}

static void bury(child *c, const at_cudnn_pool *pool, bool late)
{
    at_cudnn_result result = {.answer = NULL};
    char sentence[128];
    const int status = stop(c);
    at_death_text(status, result.death, sentence);
    if (late) {
        (void)snprintf(result.death, sizeof result.death, "timeout");
    }
    memcpy(result.plan, c->plan, sizeof result.plan);
    if (c->busy) {
        pool->done(pool->user, c->tag, &result);
    }
    c->busy = false;
}

typedef struct heard {
    long *version;
    char *frontend;
} heard;

/* Reads one message. AT_IO with the child's sentence when it cannot load cuDNN; false in *alive
 * when it is gone. */
static at_status hear(child *c, const at_cudnn_pool *pool, const heard *h, bool *alive,
                      at_error *err)
{
    static at_cudnn_answer answer;
    int kind = 0;
    hello greeting;
    *alive = read_all(c->from, &kind, sizeof kind);
    if (*alive && kind == MESSAGE_HELLO) {
        *alive = read_all(c->from, &greeting, sizeof greeting);
        c->ready = *alive;
        *h->version = greeting.version;
        (void)snprintf(h->frontend, 32, "%s", greeting.frontend);
    } else if (*alive && kind == MESSAGE_FAILED) {
        at_error theirs = {""};
        *alive = read_all(c->from, &theirs, sizeof theirs);
        return at_fail(err, AT_IO, "%s", theirs.text);
    } else if (*alive && kind == MESSAGE_PLAN) {
        *alive = read_all(c->from, c->plan, sizeof c->plan);
        c->deadline = at_clock() + patience(pool);
    } else if (*alive && kind == MESSAGE_ANSWER) {
        *alive = read_all(c->from, &answer, offsetof(at_cudnn_answer, plan)) &&
                 answer.plan_count <= AT_CUDNN_PLANS_MAX &&
                 read_all(c->from, answer.plan, (size_t)answer.plan_count * sizeof *answer.plan);
        if (*alive) {
            const at_cudnn_result result = {.answer = &answer};
            c->busy = false;
            pool->done(pool->user, c->tag, &result);
        }
    }
    return AT_OK;
}

/* Starts and feeds children while questions are left; returns how many are at work. */
static at_status drive(child *list, int n, const at_cudnn_pool *pool, bool *more, int *working,
                       at_error *err)
{
    *working = 0;
    for (int i = 0; i < n; i++) {
        child *c = &list[i];
        if (*more && c->pid == 0) {
            AT_TRY(start(c, pool, err));
        }
        if (*more && c->pid > 0 && c->ready && !c->busy) {
            *more = feed(c, pool);
        }
        *working += c->pid > 0 && (c->busy || (!c->ready && *more));
    }
    return AT_OK;
}

static at_status listen(child *list, int n, const at_cudnn_pool *pool, const heard *h,
                        at_error *err)
{
    struct pollfd fds[CHILDREN_MAX];
    for (int i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = list[i].pid > 0 ? list[i].from : -1, .events = POLLIN};
    }
    (void)poll(fds, (nfds_t)n, 200);
    for (int i = 0; i < n; i++) {
        bool alive = true;
        if (list[i].pid > 0 && fds[i].revents != 0) {
            AT_TRY(hear(&list[i], pool, h, &alive, err));
        }
        const bool late =
            list[i].pid > 0 && (list[i].busy || !list[i].ready) && at_clock() > list[i].deadline;
        if (list[i].pid > 0 && (!alive || late)) {
            const bool was_ready = list[i].ready;
            bury(&list[i], pool, late);
            if (!was_ready) {
                return at_fail(err, AT_IO, "a child process died while it loaded cuDNN");
            }
        }
    }
    return AT_OK;
}

at_status at_cudnn_pool_run(const at_cudnn_pool *pool, long *version, char frontend[32],
                            at_error *err)
{
    const int jobs = pool->jobs > 0 ? pool->jobs : at_cores();
    const int n = jobs < CHILDREN_MAX ? jobs : CHILDREN_MAX;
    const heard h = {version, frontend};
    child *list = calloc((size_t)n, sizeof *list);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    if (list == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for %d child processes", n);
    }
    (void)sigaction(SIGPIPE, &ignore, &before);
    bool more = true;
    int working = 1;
    at_status status = AT_OK;
    while (status == AT_OK && working > 0) {
        status = drive(list, n, pool, &more, &working, err);
        if (status == AT_OK && working > 0) {
            status = listen(list, n, pool, &h, err);
        }
    }
    for (int i = 0; i < n; i++) {
        (void)stop(&list[i]);
    }
    (void)sigaction(SIGPIPE, &before, NULL);
    free(list);
    return status;
}
