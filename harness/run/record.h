/* One line of results.jsonl in memory: what the reports need of it. */
#ifndef AT_RECORD_H
#define AT_RECORD_H

#include "harness/judge/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AT_RESULTS_SCHEMA "attest-results-1"

/* All text belongs to the record and is never NULL. */
typedef struct at_record {
    char id[AT_ID_TEXT];
    at_kind kind;     /* after waivers */
    at_kind measured; /* what was seen; differs from kind when a waiver applies */
    bool modelled;
    int runs, hits;   /* launches of the case, and how many of them ended like this */
    at_step step;     /* the step that decided */
    int tensor;       /* at_tensor_id that decided, -1 when none did */
    double max_ratio; /* worst err/bound of all judged tensors, 0 when none */
    int64_t index[4]; /* of `tensor`, with got, want, bound */
    double got, want, bound;
    char code[48];
    char *case_text, *backend, *version, *engine;
    char *message;
    char *engines;     /* names claimed, joined by newlines */
    char *admitted_by; /* joined by newlines; "" when selection refused */
    char *issue;       /* waiver's URL */
    char *output;      /* last words of a worker that died */
    char *signature;
} at_record;

/* Reads a line's object; AT_INVALID names the member that is missing or wrong. Close on AT_OK. */
AT_API at_status at_record_read(at_record *out, const at_json *line, at_error *err) AT_MUST_CHECK;
AT_API void at_record_close(at_record *r);

/* Do index, got, want and bound say what went wrong? Not where memory beside the tensor did. */
AT_API bool at_record_has_numbers(const at_record *r);

/* What a line says beyond its verdict. NULL text is left out of the line. */
typedef struct at_record_frame {
    const at_case *c;
    const char *backend, *version, *engine;
    const char *engines;     /* joined by newlines */
    const char *admitted_by; /* joined by newlines */
    const char *issue;       /* waiver */
    const char *output;
    const char *limits; /* what the statistical tier said: within, beyond, none; NULL: not asked */
    at_kind measured;   /* the verdict's kind before waivers */
    bool modelled;
    int runs, hits;
} at_record_frame;

/* The line {"schema","id","case",...}: frame and verdict. */
AT_API at_json *at_record_make(const at_record_frame *frame, const at_verdict *v);

/* "backend|STATUS|reason|step.tensor|region" of a verdict; free with free(). */
AT_API char *at_signature(const at_case *c, const char *backend, at_kind kind, const at_verdict *v);

#ifdef __cplusplus
}
#endif
#endif
