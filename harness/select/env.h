/* What a selector reads beyond the case: arch, package versions, switches, caller's options. */
#ifndef AT_ENV_H
#define AT_ENV_H

#include "harness/json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values that the caller gives by key, as text; a rule file declares which it takes, their types
 * and defaults, and resolves them (selector.h). A version that is not installed is "none". */
typedef struct at_env at_env;

/* Adds or replaces keys from text; AT_INVALID names a pair that is not key=value. Opens *env when
 * it is NULL. */
AT_API at_status at_env_set(at_env **env, const char *text, at_error *err) AT_MUST_CHECK;
AT_API void at_env_close(at_env *env);                             /* NULL is legal */
AT_API const char *at_env_get(const at_env *env, const char *key); /* NULL: not set */
AT_API size_t at_env_size(const at_env *env);                      /* NULL: 0 */
AT_API const char *at_env_key_at(const at_env *env, size_t i);     /* sorted by key */
AT_API at_json *at_env_to_json(const at_env *env); /* object, keys sorted, text values */

#ifdef __cplusplus
}
#endif
#endif
