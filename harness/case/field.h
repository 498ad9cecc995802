/* Generic access to the members of a case through rows of the field table; inside the library. */
#ifndef AT_FIELD_H
#define AT_FIELD_H

#include "harness/case/case.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The row that `f->same_as` names; NULL when there is none. */
const at_field *at_case_same_as(const at_field *f);

/* The member itself; aborts when the row is of another kind. */
double *at_case_real(at_case *c, const at_field *f);
at_len_list *at_case_list(at_case *c, const at_field *f);
double at_case_get_real(const at_case *c, const at_field *f);
const at_len_list *at_case_get_list(const at_case *c, const at_field *f);

/* Equal members. */
bool at_case_same(const at_case *a, const at_case *b, const at_field *f);

/* The member holds the row's default (of a same_as row: the other key's value). */
bool at_case_is_default(const at_case *c, const at_field *f);

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
/* Text of the member's value, without a terminating NUL; returns one past its end. */
char *at_field_print(const at_case *c, const at_field *f, char *text);

#ifdef __cplusplus
}
#endif
#endif
