/* The worker programs that the flags --plugin, --worker, --corpus and --jobs ask for. */
#ifndef AT_OWN_WORKER_H
#define AT_OWN_WORKER_H

#include "harness/cli/options.h"
#include "harness/run/hosts.h"

/* Starts this executable as `attest worker` with the corpus and the plugins, and every --worker.
 * `hosts` must not be moved afterwards. */
at_status at_workers_open(at_hosts *hosts, const at_options *o, const char *corpus, int jobs,
                          at_error *err) AT_MUST_CHECK;

/* The same flags for a line that people copy, quoted for a shell: " --plugin x.so". */
void at_worker_flags(const at_options *o, char *out, size_t room);

#endif
