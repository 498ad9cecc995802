#include "harness/select/called_host.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/json.h"
#include "harness/run/process.h"

/* Importing torch from a cold disk takes its time; answers do not. */
enum { START_SECONDS = 300, ANSWER_SECONDS = 120, PATH_ROOM = 4096 };

struct at_host {
    struct at_host *next;
    size_t users;
    char *key;
    char name[64], release[64];
    const char *python;
    at_process process;
    at_reasons reasons;
    char dead[768]; /* why it can answer no more; "" while it can */
};

static at_host *hosts; /* running */

const char *at_host_release(const at_host *host)
{
    return host->release;
}

at_reasons *at_host_reasons(at_host *host)
{
    return &host->reasons;
}

static bool exists(const char *path)
{
    return access(path, R_OK) == 0;
}

static at_status find_program(char out[PATH_ROOM], const char *corpus, const char *name,
                              at_error *err)
{
    static const char *const places[] = {"../kernels/python/te_selector/host.py",
                                         "../python/te_selector/host.py"};
    for (size_t i = 0; i < 2; i++) {
        int n = snprintf(out, PATH_ROOM, "%s/%s", corpus, places[i]);
        if (n < PATH_ROOM && exists(out)) {
            return AT_OK;
        }
    }
    return at_fail(err, AT_INVALID, "%s: neither %s nor %s lies beside the corpus %.300s", name,
                   places[0] + 3, places[1] + 3, corpus);
}

/* The program that asks the C++ half, beside this one; "" when it was not built. */
static void find_half(char out[PATH_ROOM])
{
    static const char *const places[] = {"te_fused_half", "../libexec/attest/te_fused_half"};
    char self[PATH_ROOM / 2] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = n > 0 ? strrchr(self, '/') : NULL;
    for (size_t i = 0; slash != NULL && i < 2; i++) {
        slash[1] = '\0';
        (void)snprintf(out, PATH_ROOM, "%s%s", self, places[i]);
        if (access(out, X_OK) == 0) {
            return;
        }
    }
    out[0] = '\0';
}

static at_status check_cache(const char *cache, const char *program, const char *name,
                             const char *version, at_error *err)
{
    char path[PATH_ROOM];
    int folder = (int)(strrchr(program, '/') - program);
    int n = snprintf(path, sizeof path, "%s/te/%s/.done", cache, version);
    if (strcmp(version, "installed") == 0 || (cache[0] != '\0' && n < PATH_ROOM && exists(path))) {
        return AT_OK;
    }
    return at_fail(err, AT_INVALID,
                   "%s: %s%.200s%s: unpack the release with `python3 %.*s/fetch.py FOLDER %s` and "
                   "set ATTEST_TE_CACHE=FOLDER",
                   name, cache[0] != '\0' ? "ATTEST_TE_CACHE=" : "ATTEST_TE_CACHE is not set",
                   cache, cache[0] != '\0' ? " does not hold it" : "", folder, program, version);
}

/* Its last words, of one line. */
static void last_line(const at_process *p, char *out, size_t room)
{
    char tail[AT_TAIL_SIZE];
    at_process_tail(p, tail, sizeof tail);
    size_t n = strlen(tail);
    while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == ' ')) {
        tail[--n] = '\0';
    }
    const char *newline = strrchr(tail, '\n');
    (void)snprintf(out, room, "%s", newline != NULL ? newline + 1 : tail);
}

static at_status dead(at_host *h, at_error *err)
{
    return at_fail(err, AT_INVALID, "%s", h->dead);
}

/* Its output has ended: says how. */
static at_status bury(at_host *h, at_error *err)
{
    char words[300], code[48], sentence[128];
    at_error ignored;
    int wait_status = 0, reads = 8;
    bool ended = false;
    for (int i = 0; i < 200 && !(ended = at_process_ended(&h->process, &wait_status)); i++) {
        (void)poll(NULL, 0, 10);
    }
    wait_status = ended ? wait_status : at_process_kill(&h->process);
    while (h->process.noise >= 0 && at_process_read(&h->process, &ignored) == AT_OK &&
           --reads > 0) {
    }
    last_line(&h->process, words, sizeof words);
    at_death_text(wait_status, code, sentence);
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 127 && h->release[0] == '\0') {
        (void)snprintf(h->dead, sizeof h->dead,
                       "%s: no python: \"%.100s\" cannot be executed; set ATTEST_PYTHON to a "
                       "python3 that has torch",
                       h->name, h->python);
    } else {
        (void)snprintf(h->dead, sizeof h->dead, "%s: %s before it %s%s%s", h->name, sentence,
                       h->release[0] != '\0' ? "answered" : "was ready",
                       words[0] != '\0' ? ": " : "", words);
    }
    (void)at_process_kill(&h->process);
    return dead(h, err);
}

static at_status silence(at_host *h, const char *what, at_error *err)
{
    (void)at_process_kill(&h->process);
    (void)snprintf(h->dead, sizeof h->dead, "%s: the selector's process %s", h->name, what);
    return dead(h, err);
}

/* Writes what the pipe takes; answers must be read meanwhile, or both sides would wait. */
static void write_some(at_process *p, const char **rest)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
    (void)sigaction(SIGPIPE, &ignore, &old);
    ssize_t n = write(p->to, *rest, strlen(*rest));
    bool broken = n < 0 && errno != EAGAIN && errno != EINTR;
    (void)sigaction(SIGPIPE, &old, NULL);
    *rest += n > 0 ? n : 0;
    if (broken) { /* its end of output says why */
        *rest += strlen(*rest);
    }
}

static at_status exchange(at_host *h, const char *rest, size_t n, double patience,
                          at_host_take *take, void *context, at_error *err)
{
    at_status first = AT_OK;
    at_process *p = &h->process;
    double end = at_clock() + patience;
    for (size_t i = 0; i < n;) {
        char *line = NULL;
        size_t length = 0;
        while (i < n && at_lines_next(&p->lines, &line, &length)) {
            at_status status = take(context, i++, line, length, first == AT_OK ? err : NULL);
            first = first == AT_OK ? status : first;
            end = at_clock() + patience;
        }
        if (i == n) {
            break;
        }
        if (p->from < 0) {
            return bury(h, err);
        }
        if (at_clock() >= end) {
            return silence(h, "does not answer", err);
        }
        struct pollfd fd[3] = {
            {p->from, POLLIN, 0}, {p->noise, POLLIN, 0}, {*rest != '\0' ? p->to : -1, POLLOUT, 0}};
        (void)poll(fd, 3, 1000);
        if (fd[2].revents != 0) {
            write_some(p, &rest);
        }
        if (at_process_read(p, NULL) != AT_OK) {
            return silence(h, "writes a line without an end", err);
        }
    }
    return first;
}

at_status at_host_check(at_host *host, at_error *err)
{
    return host->dead[0] != '\0' ? dead(host, err) : AT_OK;
}

at_status at_host_ask(at_host *host, const char *line, size_t n, at_host_take *take, void *context,
                      at_error *err)
{
    return host->dead[0] != '\0' ? dead(host, err)
                                 : exchange(host, line, n, ANSWER_SECONDS, take, context, err);
}

static at_status take_release(void *context, size_t i, char *line, size_t length, at_error *err)
{
    at_host *h = context;
    at_json *o = NULL;
    const char *release = NULL;
    (void)i;
    at_status status = at_json_parse(&o, "its first line", line, length, err);
    status = status == AT_OK ? at_json_want_text(o, "release", true, &release, err) : status;
    if (status == AT_OK) {
        (void)snprintf(h->release, sizeof h->release, "%s", release);
    }
    at_json_close(o);
    return status == AT_OK ? AT_OK : at_fail_in(err, AT_INVALID, "%s", h->name);
}

static at_status start(at_host *h, const char *program, const char *version, const char *cache,
                       at_error *err)
{
    char half[PATH_ROOM];
    find_half(half);
    const char *const argv[] = {
        h->python, program, cache, version, half[0] != '\0' ? "--fused-half" : NULL, half, NULL};
    AT_TRY(at_process_open(&h->process, &(at_spawn){.argv = argv, .threads = 1}, err));
    return exchange(h, "", 1, START_SECONDS, take_release, h, err);
}

at_status at_host_open(at_host **out, const char *corpus, const char *name, const char *version,
                       at_error *err)
{
    char program[PATH_ROOM], key[3 * PATH_ROOM];
    const char *python = getenv("ATTEST_PYTHON"), *cache = getenv("ATTEST_TE_CACHE");
    python = python != NULL && python[0] != '\0' ? python : "python3";
    cache = cache != NULL ? cache : "";
    *out = NULL;
    AT_TRY(find_program(program, corpus, name, err));
    AT_TRY(check_cache(cache, program, name, version, err));
    (void)snprintf(key, sizeof key, "%s\n%s\n%s\n%s", version, python, cache, program);
    for (at_host *h = hosts; h != NULL; h = h->next) {
        if (strcmp(h->key, key) == 0) {
            h->users++;
            *out = h;
            return AT_OK;
        }
    }
    at_host *h = calloc(1, sizeof *h);
    AT_ASSERT(h != NULL && (h->key = strdup(key)) != NULL); /* only memory can run out */
    h->users = 1;
    h->next = hosts;
    h->python = python;
    h->process = (at_process){.to = -1, .from = -1, .noise = -1};
    (void)snprintf(h->name, sizeof h->name, "%s", name);
    hosts = h;
    at_status status = start(h, program, version, cache, err);
    if (status != AT_OK) {
        at_host_close(h);
        return status;
    }
    *out = h;
    return AT_OK;
}

void at_host_close(at_host *host)
{
    if (host == NULL || --host->users > 0) {
        return;
    }
    for (at_host **at = &hosts; *at != NULL; at = &(*at)->next) {
        if (*at == host) {
            *at = host->next;
            break;
        }
    }
    at_process_close(&host->process, 2);
    for (size_t i = 0; i < host->reasons.count; i++) {
        free(host->reasons.reason[i].why);
    }
    free(host->key);
    free(host);
}
