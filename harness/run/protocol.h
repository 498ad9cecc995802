/* The worker protocol: one JSON object a line, requests to a worker, events from it. The page
 * reports/worker-protocol.md describes it for authors of workers. */
#ifndef AT_PROTOCOL_H
#define AT_PROTOCOL_H

#include "harness/backend.h"
#include "harness/json.h"
#include "harness/run/lines.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    AT_PROTOCOL = 1,
    AT_WORD_TEXT = 64,
    AT_PATH_TEXT = 1024,
    AT_CHECKS_TEXT = 256,
    AT_HELLO_BACKENDS_MAX = 512
};

/* A backend as its worker introduces it. */
typedef struct at_backend_info {
    char name[AT_WORD_TEXT]; /* letters, digits and ._+- */
    char version[AT_WORD_TEXT];
    unsigned promises; /* AT_PROMISES_*, AT_MODELLED, AT_MUTANT */
    at_arch arch;
    at_numeric_class numeric;
    char doc[128];
} at_backend_info;

/* "Judge this case on that engine of that backend." engine "" asks for the first one claimed. */
typedef struct at_request {
    int64_t id;
    char case_text[AT_CASE_TEXT_MAX];
    char backend[AT_WORD_TEXT];
    char engine[AT_ENGINE_NAME];
    int64_t repeat;          /* launches whose bits are compared where determinism is promised */
    bool force;              /* launch although the static check refuses */
    bool probe;              /* launch first without judging: an earlier run ended in a launch */
    char dump[AT_PATH_TEXT]; /* folder for .npy files, "" for none */
    char checks[AT_CHECKS_TEXT]; /* metamorphic checks, see at_checks_parse; "" for none */
} at_request;

typedef enum at_event_kind {
    AT_EVENT_HELLO,   /* protocol, abi, tool, backends, versions; first line of a worker */
    AT_EVENT_CLAIM,   /* id, admitted, engines, engine | reason, message */
    AT_EVENT_BEGIN,   /* id, step: about to run it; verdict of the steps before it */
    AT_EVENT_VERDICT, /* id, engine, status, reason, message, steps: ends the request */
    AT_EVENT_ERROR,   /* id, message: the worker's own failure; ends the request */
    AT_EVENT_BYE      /* last line of a worker that leaves in order */
} at_event_kind;

/* A parsed event; `body` owns the text. id is 0 for hello and bye. */
typedef struct at_event {
    at_event_kind kind;
    int64_t id;
    const char *step;    /* begin: one of at_begin_steps */
    const char *message; /* error: the sentence */
    at_json *body;
} at_event;

/* What a worker can be busy with: the judged steps and our own ones between them. */
typedef enum at_begin_step {
    AT_BEGIN_OPEN,
    AT_BEGIN_CLAIM,
    AT_BEGIN_PROBLEM,
    AT_BEGIN_REFERENCE,
    AT_BEGIN_FORWARD,
    AT_BEGIN_BACKWARD,
    AT_BEGIN_JUDGE,
    AT_BEGIN_COUNT
} at_begin_step;
AT_API extern const char *const at_begin_steps[];

/* Reads one line of any bytes. AT_INVALID and one sentence unless it is a well-formed request. */
AT_API at_status at_request_parse(at_request *out, const char *line, size_t length,
                                  at_error *err) AT_MUST_CHECK;
/* The line with its newline; free with free(). */
AT_API char *at_request_print(const at_request *request);

/* Reads one line of any bytes; on AT_OK close the event. Members that the kind needs are present
 * and of the right type; unknown members are kept and ignored. */
AT_API at_status at_event_parse(at_event *out, const char *line, size_t length,
                                at_error *err) AT_MUST_CHECK;
AT_API void at_event_close(at_event *event);

/* The backends of a hello; AT_INVALID also when protocol or ABI are not ours. */
AT_API at_status at_hello_read(const at_event *hello, at_backend_info *out, size_t room, size_t *n,
                               at_error *err) AT_MUST_CHECK;

/* {"event":...,"id":...} (no id when it is 0), to be filled and sent. */
AT_API at_json *at_event_make(at_event_kind kind, int64_t id);
AT_API at_json *at_hello_make(const at_backend *const *backends);

/* {"p":"stored","scores_stored":false,...} and back; absent members are the default. */
AT_API at_json *at_numeric_to_json(const at_numeric_class *numeric);
AT_API at_status at_numeric_from_json(at_numeric_class *out, const at_json *object,
                                      at_error *err) AT_MUST_CHECK;

/* Writes the object as one line with one write(); consumes it. AT_IO when the peer is gone. */
AT_API at_status at_event_send(int fd, at_json *event, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
