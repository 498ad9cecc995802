#include "harness/run/hosts.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { STARTS = 5 };
#define HELLO_SECONDS 120.0 /* Python hosts import frameworks first */

static at_status read_hello(at_host *h, const char *line, size_t length, at_error *err)
{
    at_event event;
    AT_TRY(at_event_parse(&event, line, length, err));
    at_status status = AT_OK;
    h->backend = calloc(AT_HELLO_BACKENDS_MAX, sizeof *h->backend);
    if (event.kind != AT_EVENT_HELLO) {
        status = at_fail(err, AT_INVALID, "the first line is not a hello");
    } else if (h->backend == NULL) {
        status = at_fail(err, AT_NO_MEMORY, "no memory for its backends");
    } else {
        status = at_hello_read(&event, h->backend, AT_HELLO_BACKENDS_MAX, &h->backend_count, err);
    }
    const at_json *versions = at_json_get(event.body, "versions");
    bool given = versions != NULL && at_json_type(versions) == AT_JSON_OBJECT;
    h->versions = given ? at_json_copy(versions) : at_json_object();
    at_event_close(&event);
    return status;
}

/* Waits for the first line, or for the reason why there is none. *killed: a SIGKILL was it, which a
 * worker hardly sends itself before its hello. */
static at_status hear(at_host *h, bool *killed, at_error *err)
{
    *killed = false;
    char *line = NULL, code[48], death[128], tail[250];
    size_t length = 0;
    double end = at_clock() + HELLO_SECONDS;
    for (;;) {
        AT_TRY(at_process_read(&h->first, err));
        if (at_lines_next(&h->first.lines, &line, &length)) {
            return read_hello(h, line, length, err);
        }
        int wait_status = 0;
        if (h->first.from < 0 || at_process_ended(&h->first, &wait_status)) {
            at_status drained = at_process_read(&h->first, err);
            wait_status = h->first.pid > 0 ? at_process_kill(&h->first) : wait_status;
            *killed = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
            at_death_text(wait_status, code, death);
            at_process_tail(&h->first, tail, sizeof tail);
            AT_TRY(drained);
            return at_error_flatten(err, at_fail(err, AT_IO, "no hello: %s%s%s", death,
                                                 *tail ? "; it said: " : "", tail));
        }
        if (!(at_clock() < end)) {
            return at_fail(err, AT_IO, "no hello within %.0f seconds", HELLO_SECONDS);
        }
        struct pollfd fd[2] = {{h->first.from, POLLIN, 0}, {h->first.noise, POLLIN, 0}};
        (void)poll(fd, 2, 50);
    }
}

static at_status start(at_host *h, int threads, at_error *err)
{
    at_spawn how = {.argv = h->argv, .threads = threads};
    return at_process_open(&h->first, &how, err);
}

/* Hears the hello of one that was started; one that is killed from outside gets other tries. */
static at_status introduce(at_host *h, int threads, at_error *err)
{
    bool killed = false;
    at_status status = hear(h, &killed, err);
    for (int tries = 1; status != AT_OK && killed && tries < STARTS; tries++) {
        AT_TRY(start(h, threads, err));
        status = hear(h, &killed, err);
    }
    return status;
}

static at_status check_names(const at_hosts *hosts, const at_host *added, at_error *err)
{
    for (size_t i = 0; i < added->backend_count; i++) {
        const char *name = added->backend[i].name;
        int other = 0;
        const at_backend_info *first = at_hosts_find(hosts, name, &other);
        if (first != &added->backend[i]) {
            return at_fail(err, AT_INVALID, "it brings the backend \"%s\", which %s has already",
                           name, hosts->host[other].name);
        }
    }
    return AT_OK;
}

/* A plain command replaces the shell, so that signals and the end of its pipes are its own; what
 * only a shell can run is left to it. */
static const char *shell_line(char *out, size_t room, const char *command)
{
    bool plain = strpbrk(command, ";&|<>(){}`\n") == NULL;
    size_t word = strcspn(command, " =");
    bool assigns = command[word] == '=';
    (void)snprintf(out, room, "%s%s", plain && !assigns ? "exec " : "", command);
    return out;
}

at_status at_hosts_open(at_hosts *out, const char *const *self, const char *const *commands,
                        int command_count, int threads, at_error *err)
{
    *out = (at_hosts){.threads = threads};
    AT_ASSERT(command_count < AT_HOSTS_MAX);
    at_status status = AT_OK;
    for (int i = 0; i <= command_count && status == AT_OK; i++) {
        at_host *h = &out->host[i];
        const char **shell = out->shell[i];
        shell[0] = "/bin/sh";
        shell[1] = "-c";
        shell[2] = i > 0 ? shell_line(out->line[i], sizeof out->line[i], commands[i - 1]) : NULL;
        h->argv = i > 0 ? shell : self;
        h->name = i > 0 ? commands[i - 1] : "attest worker";
        out->n = i + 1;
        status = start(h, threads, err); /* all of them, before the first is waited for */
    }
    for (int i = 0; i < out->n && status == AT_OK; i++) {
        at_host *h = &out->host[i];
        status = introduce(h, threads, err);
        status = status == AT_OK ? check_names(out, h, err) : status;
        if (status != AT_OK) {
            status = at_fail_in(err, status, "worker \"%s\"", h->name);
        }
    }
    if (status != AT_OK) {
        at_hosts_close(out);
    }
    return status;
}

void at_hosts_close(at_hosts *hosts)
{
    for (int i = 0; i < hosts->n; i++) {
        at_process_close(&hosts->host[i].first, 1);
        free(hosts->host[i].backend);
        at_json_close(hosts->host[i].versions);
    }
    *hosts = (at_hosts){0};
}

const at_backend_info *at_hosts_find(const at_hosts *hosts, const char *name, int *host)
{
    for (int i = 0; i < hosts->n; i++) {
        for (size_t k = 0; k < hosts->host[i].backend_count; k++) {
            if (strcmp(hosts->host[i].backend[k].name, name) == 0) {
                *host = i;
                return &hosts->host[i].backend[k];
            }
        }
    }
    return NULL;
}
