/* Words of an expression. Inside the folder. */
#ifndef AT_EXPR_LEX_H
#define AT_EXPR_LEX_H

#include <stdint.h>

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum at_token_kind {
    AT_TOKEN_END,
    AT_TOKEN_WORD,   /* name */
    AT_TOKEN_QUOTED, /* the text between the quotes */
    AT_TOKEN_INTEGER,
    AT_TOKEN_REAL,    /* 1.5; also a release of two parts */
    AT_TOKEN_RELEASE, /* v2.8, 9.14.0, 4.0.0b11 */
    AT_TOKEN_SIGN     /* operator or bracket, one or two characters */
} at_token_kind;

typedef struct at_token {
    at_token_kind kind;
    uint16_t column; /* from 1 */
    uint16_t length;
    const char *text;
    int64_t integer;
    double real;
} at_token;

/* The word at text + at (blanks skipped); *next is where the following one starts. */
at_status at_token_read(at_token *out, const char *text, uint16_t at, uint16_t *next,
                        at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
