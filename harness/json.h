/* JSON documents: the only door to cJSON. Errors name file, line, column and what was expected. */
#ifndef AT_JSON_H
#define AT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A value inside a document; a document is its root value. Opaque. */
typedef struct at_json at_json;

typedef enum at_json_kind {
    AT_JSON_NULL,
    AT_JSON_BOOL,
    AT_JSON_NUMBER,
    AT_JSON_STRING,
    AT_JSON_ARRAY,
    AT_JSON_OBJECT
} at_json_kind;

/* Parses exactly one document (trailing text is an error; duplicate keys are an error). `name`
 * stands in errors as the file. Limits: 64 MiB, depth 200. Free with at_json_close. */
AT_API at_status at_json_parse(at_json **out, const char *name, const char *text, size_t length,
                               at_error *err) AT_MUST_CHECK;
AT_API at_status at_json_load(at_json **out, const char *path, at_error *err) AT_MUST_CHECK;
AT_API void at_json_close(at_json *root); /* NULL is legal */

AT_API at_json_kind at_json_type(const at_json *value);
AT_API const char *at_json_kind_name(at_json_kind kind);

/* Reading. at_json_get: NULL where the key is absent (keys are case sensitive). */
AT_API const at_json *at_json_get(const at_json *object, const char *key);
AT_API size_t at_json_size(const at_json *array_or_object);
AT_API const at_json *at_json_first(const at_json *array_or_object);
AT_API const at_json *at_json_next(const at_json *value);
AT_API const char *at_json_key(const at_json *member);    /* NULL for array items */
AT_API const char *at_json_text(const at_json *value);    /* NULL unless a string */
AT_API bool at_json_number(const at_json *value, double *out);  /* false unless a number */
AT_API bool at_json_integer(const at_json *value, int64_t *out); /* false unless integral, |x| <= 2^53 */
AT_API bool at_json_bool(const at_json *value, bool *out);

/* Typed members with one-sentence errors "NAME: member "key" of WHERE must be a string, is ...". A
 * missing member is AT_OK with *out untouched when `required` is false. Text is borrowed. */
AT_API at_status at_json_want_text(const at_json *object, const char *key, bool required,
                                   const char **out, at_error *err) AT_MUST_CHECK;
AT_API at_status at_json_want_integer(const at_json *object, const char *key, bool required,
                                      int64_t *out, at_error *err) AT_MUST_CHECK;
AT_API at_status at_json_want_number(const at_json *object, const char *key, bool required,
                                     double *out, at_error *err) AT_MUST_CHECK;
AT_API at_status at_json_want_bool(const at_json *object, const char *key, bool required, bool *out,
                                   at_error *err) AT_MUST_CHECK;
AT_API at_status at_json_want_array(const at_json *object, const char *key, bool required,
                                    const at_json **out, at_error *err) AT_MUST_CHECK;
AT_API at_status at_json_want_object(const at_json *object, const char *key, bool required,
                                     const at_json **out, at_error *err) AT_MUST_CHECK;
/* AT_INVALID if the object has a member outside the NULL-terminated list. */
AT_API at_status at_json_only_keys(const at_json *object, const char *const *keys, at_error *err)
    AT_MUST_CHECK;

/* Building. Values given to at_json_put / at_json_add become the parent's. Non-finite numbers are
 * written as the strings "nan", "inf", "-inf"; integers are exact in |x| <= 2^63. */
AT_API at_json *at_json_object(void);
AT_API at_json *at_json_array(void);
AT_API void at_json_put(at_json *object, const char *key, at_json *value);
AT_API void at_json_put_text(at_json *object, const char *key, const char *text);
AT_API void at_json_put_number(at_json *object, const char *key, double value);
AT_API void at_json_put_integer(at_json *object, const char *key, int64_t value);
AT_API void at_json_put_bool(at_json *object, const char *key, bool value);
AT_API void at_json_put_null(at_json *object, const char *key);
AT_API void at_json_add(at_json *array, at_json *value);
AT_API void at_json_add_text(at_json *array, const char *text);
AT_API void at_json_add_number(at_json *array, double value);
AT_API void at_json_add_integer(at_json *array, int64_t value);
AT_API at_json *at_json_copy(const at_json *value);

/* Text of the value; one line, or indented. Reals in shortest round-trip form. Free with free(). */
AT_API char *at_json_print(const at_json *value, bool indented);

/* Shortest decimal text that reads back as the same double; "inf", "-inf", "nan" otherwise. */
enum { AT_REAL_TEXT = 32 };
AT_API size_t at_real_print(double value, char text[AT_REAL_TEXT]);

#ifdef __cplusplus
}
#endif
#endif
