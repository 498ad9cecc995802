/* What a selector reads beyond the case: arch, package versions, switches, caller's options. */
#ifndef AT_ENV_H
#define AT_ENV_H

#include "harness/json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Resolved values by key: defaults of a rule file overlaid with "key=value,key=value". */
typedef struct at_env at_env;

/* Adds or replaces keys from text; AT_INVALID names a pair that is not key=value. Opens *env when
 * it is NULL. */
AT_API at_status at_env_set(at_env **env, const char *text, at_error *err) AT_MUST_CHECK;
AT_API void at_env_close(at_env *env);                             /* NULL is legal */
AT_API const char *at_env_get(const at_env *env, const char *key); /* NULL: not set */
AT_API at_json *at_env_to_json(const at_env *env); /* object, keys sorted, text values */

#ifdef __cplusplus
}
#endif
#endif
