/* A worker process: pipes, its last words, and how it died. */
#ifndef AT_PROCESS_H
#define AT_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

#include "harness/run/lines.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_TAIL_SIZE = 8192 }; /* bytes of output that are kept for reports */

/* How to start it. The child leads a process group, dies with its parent, leaves no core file. */
typedef struct at_spawn {
    const char *const *argv; /* NULL-terminated; argv[0] is a path or found in PATH */
    int threads;             /* OMP_NUM_THREADS and OPENBLAS_NUM_THREADS; 0 leaves them alone */
} at_spawn;

/* A running child. stdin carries requests, stdout the protocol, stderr everything that is printed.
 */
typedef struct at_process {
    pid_t pid;            /* 0: none */
    int to, from, noise;  /* -1: closed; all non-blocking */
    at_lines lines;       /* of `from` */
    uint64_t noise_bytes; /* printed since at_process_hush */
    size_t tail_used, tail_next;
    char tail[AT_TAIL_SIZE]; /* ring of the last bytes printed */
} at_process;

/* AT_IO with the reason; a program that cannot be executed ends with exit code 127. */
AT_API at_status at_process_open(at_process *out, const at_spawn *how, at_error *err) AT_MUST_CHECK;

/* Writes a whole line. AT_IO when the child does not take it. */
AT_API at_status at_process_send(at_process *p, const char *line, at_error *err) AT_MUST_CHECK;

/* Reads what has arrived on both pipes, without waiting. AT_INVALID when a protocol line grows over
 * the limit. `from` becomes -1 at its end. */
AT_API at_status at_process_read(at_process *p, at_error *err) AT_MUST_CHECK;

/* True once the child has ended; *wait_status as of waitpid. Never waits. */
AT_API bool at_process_ended(at_process *p, int *wait_status);

/* Ends the child and its group at once (SIGKILL), reaps it, closes the pipes. Safe when there is
 * none. Returns the wait status, 0 when there was none. */
AT_API int at_process_kill(at_process *p);

/* Lets the child go in order: closes its stdin, waits up to `patience` seconds, then kills. */
AT_API void at_process_close(at_process *p, double patience);

/* Forgets what was printed so far. */
AT_API void at_process_hush(at_process *p);

/* The last bytes printed, at most room - 1, from a line start where there is one; cleaned text. */
AT_API void at_process_tail(const at_process *p, char *out, size_t room);

/* "sigsegv", "exit_0", ... and a sentence of the same. */
AT_API void at_death_text(int wait_status, char code[48], char sentence[128]);

/* Monotonic seconds. */
AT_API double at_clock(void);

/* Cores that this process may use. */
AT_API int at_cores(void);

#ifdef __cplusplus
}
#endif
#endif
