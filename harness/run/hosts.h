/* The worker programs of a run and the backends that they bring. */
#ifndef AT_HOSTS_H
#define AT_HOSTS_H

#include "harness/run/process.h"
#include "harness/run/protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_HOSTS_MAX = 17 }; /* our own, and one for each --worker */

/* One program; every worker of it says the same hello. */
typedef struct at_host {
    const char *const *argv;
    const char *name; /* "attest worker", or the command given */
    at_process first; /* the one that was asked; pid 0 once a runner has taken it */
    size_t backend_count;
    at_backend_info *backend;
    at_json *versions; /* packages behind it, an object */
} at_host;

typedef struct at_hosts {
    int n;
    int threads; /* for each worker */
    at_host host[AT_HOSTS_MAX];
    const char *shell[AT_HOSTS_MAX][5];
    char line[AT_HOSTS_MAX][4096];
} at_hosts;

/* Starts one worker of our own program (`self`: NULL-terminated argv) and one of each command (run
 * by /bin/sh), and reads their hellos. AT_IO: the sentence names the program and quotes its last
 * words; AT_INVALID: two programs bring a backend of one name. */
AT_API at_status at_hosts_open(at_hosts *out, const char *const *self, const char *const *commands,
                               int command_count, int threads, at_error *err) AT_MUST_CHECK;
AT_API void at_hosts_close(at_hosts *hosts);

/* The backend's introduction and which host has it; NULL: none has. */
AT_API const at_backend_info *at_hosts_find(const at_hosts *hosts, const char *name, int *host);

#ifdef __cplusplus
}
#endif
#endif
