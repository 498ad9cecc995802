#include "harness/cli/own_worker.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

at_status at_workers_open(at_hosts *hosts, const at_options *o, const char *corpus, int jobs,
                          at_error *err)
{
    static char self[4096];
    static const char *argv[2 * AT_OPTION_LIST_MAX + 5];
    int n = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) {
        return at_fail(err, AT_IO, "the path of this program cannot be read");
    }
    self[length] = '\0';
    argv[n++] = self;
    argv[n++] = "worker";
    argv[n++] = "--corpus";
    argv[n++] = corpus;
    for (int i = 0; i < o->plugin.n; i++) {
        argv[n++] = "--plugin";
        argv[n++] = o->plugin.item[i];
    }
    argv[n] = NULL;
    int threads = at_cores() / jobs;
    return at_hosts_open(hosts, argv, o->worker.item, o->worker.n, threads > 0 ? threads : 1, err);
}

static void add_flag(char *out, size_t room, const char *flag, const char *value)
{
    size_t used = strlen(out);
    used += (size_t)snprintf(out + used, room - used, " --%s '", flag);
    for (; *value != '\0' && used + 6 < room; value++) {
        char one[2] = {*value, '\0'};
        used += (size_t)snprintf(out + used, room - used, "%s", *value == '\'' ? "'\\''" : one);
    }
    if (used + 2 < room) {
        (void)snprintf(out + used, room - used, "'");
    }
}

void at_worker_flags(const at_options *o, char *out, size_t room)
{
    out[0] = '\0';
    if (o->corpus != NULL) {
        add_flag(out, room, "corpus", o->corpus);
    }
    for (int i = 0; i < o->plugin.n; i++) {
        add_flag(out, room, "plugin", o->plugin.item[i]);
    }
    for (int i = 0; i < o->worker.n; i++) {
        add_flag(out, room, "worker", o->worker.item[i]);
    }
}
