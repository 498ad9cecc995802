/* Any bytes from a worker or a runner are refused with a sentence, or read and printed the same. */
#include <stdlib.h>
#include <string.h>

#include "harness/fuzz/fuzz.h"
#include "harness/run/protocol.h"

static void check_request(const char *line, size_t size)
{
    at_request request, again;
    at_error err = {""};
    if (at_request_parse(&request, line, size, &err) != AT_OK) {
        AT_ASSERT(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
        return;
    }
    char *printed = at_request_print(&request);
    AT_ASSERT(at_request_parse(&again, printed, strlen(printed) - 1, &err) == AT_OK);
    AT_ASSERT(again.id == request.id && again.repeat == request.repeat);
    AT_ASSERT(again.force == request.force && again.probe == request.probe);
    AT_ASSERT(strcmp(again.checks, request.checks) == 0);
    AT_ASSERT(strcmp(again.case_text, request.case_text) == 0);
    AT_ASSERT(strcmp(again.backend, request.backend) == 0);
    AT_ASSERT(strcmp(again.engine, request.engine) == 0 && strcmp(again.dump, request.dump) == 0);
    free(printed);
}

static void check_event(const char *line, size_t size)
{
    at_event event;
    at_error err = {""};
    if (at_event_parse(&event, line, size, &err) != AT_OK) {
        AT_ASSERT(err.text[0] != '\0' && strchr(err.text, '\n') == NULL && event.body == NULL);
        return;
    }
    if (event.kind == AT_EVENT_HELLO) {
        static at_backend_info info[8];
        size_t n = 0;
        at_status status = at_hello_read(&event, info, 8, &n, &err);
        AT_ASSERT(status == AT_OK || err.text[0] != '\0');
        AT_ASSERT(n <= 8);
    } else if (event.kind == AT_EVENT_VERDICT) {
        static at_verdict v;
        at_status status = at_verdict_from_json(&v, event.body, &err);
        AT_ASSERT(status == AT_OK || err.text[0] != '\0');
    }
    at_event_close(&event);
}

/* In pieces or at once, a stream has the same lines. */
static void check_lines(const char *bytes, size_t size)
{
    at_lines lines = {0};
    at_error err = {""};
    size_t n = 0, length = 0, newlines = 0;
    char *line = NULL;
    for (size_t i = 0, step = 1; i < size; i += step) {
        step = 1 + (unsigned char)bytes[i] % 7;
        step = step < size - i ? step : size - i;
        AT_ASSERT(at_lines_push(&lines, bytes + i, step, &err) == AT_OK);
        while (at_lines_next(&lines, &line, &length)) {
            AT_ASSERT(line[length] == '\0');
            n++;
        }
    }
    for (size_t i = 0; i < size; i++) {
        newlines += bytes[i] == '\n';
    }
    AT_ASSERT(n == newlines);
    at_lines_close(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    check_request(bytes, size);
    check_event(bytes, size);
    check_lines(bytes, size);
    return 0;
}
