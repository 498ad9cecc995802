/* Generic access to the members of a case through rows of the field table; inside the library. */
#ifndef AT_FIELD_H
#define AT_FIELD_H

#include <string.h>

#include "harness/case/case.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The member of a REAL or LIST row. */
static inline double *at_case_real(at_case *c, const at_field *f)
{
    return (double *)(void *)((char *)c + f->offset);
}
static inline at_len_list *at_case_list(at_case *c, const at_field *f)
{
    return (at_len_list *)(void *)((char *)c + f->offset);
}
static inline double at_case_get_real(const at_case *c, const at_field *f)
{
    return *(const double *)(const void *)((const char *)c + f->offset);
}
static inline const at_len_list *at_case_get_list(const at_case *c, const at_field *f)
{
    return (const at_len_list *)(const void *)((const char *)c + f->offset);
}

/* The member at an offset of an INT, ENUM, SET or U64 row. */
static inline int64_t at_field_int(const at_case *c, size_t offset)
{
    int64_t value = 0;
    memcpy(&value, (const char *)c + offset, sizeof value);
    return value;
}

/* Default of an INT, ENUM, SET or U64 row, given the members of the rows before it. */
static inline int64_t at_field_init(const at_case *c, const at_field *f)
{
    return f->same_as != NULL ? at_field_int(c, f->same_offset) : f->init;
}

/* The member holds the row's default (of a same_as row: the other key's value). */
static inline bool at_case_is_default(const at_case *c, const at_field *f)
{
    return f->kind == AT_FIELD_REAL   ? at_case_get_real(c, f) == f->real_init
           : f->kind == AT_FIELD_LIST ? at_case_get_list(c, f)->n == 0
                                      : at_field_int(c, f->offset) == at_field_init(c, f);
}

/* Equal members. */
bool at_case_same(const at_case *a, const at_case *b, const at_field *f);

/* The member's value lies in the row's range. */
bool at_case_in_range(const at_case *c, const at_field *f);

/* Parses one value of `length` characters; AT_INVALID with "key=value is not accepted: ...". */
at_status at_field_parse(at_case *c, const at_field *f, const char *value, size_t length,
                         at_error *err) AT_MUST_CHECK;

/* Assigns the key of an object's member from its JSON value, without any check between keys; see
 * at_case_assign. */
at_status at_case_assign_json(at_case *c, uint64_t *given, const at_json *member,
                              at_error *err) AT_MUST_CHECK;

enum { AT_FIELD_TEXT_MAX = 1024 };
/* Text of the member's value, without a terminating NUL; returns one past what it wrote. */
char *at_field_print(const at_case *c, const at_field *f, char *end);

#ifdef __cplusplus
}
#endif
#endif
