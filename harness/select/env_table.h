/* The environment keys that a rule file declares, and their values. Inside the folder. */
#ifndef AT_ENV_TABLE_H
#define AT_ENV_TABLE_H

#include "harness/select/env.h"
#include "harness/select/expr.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_ENV_KEYS_MAX = 64, AT_ENV_VALUE_TEXT = 64 };

typedef enum at_env_type {
    AT_ENV_RELEASE,
    AT_ENV_BOOL,
    AT_ENV_INT,
    AT_ENV_ENUM,
    AT_ENV_ARCH
} at_env_type;

typedef struct at_env_key {
    char *key, *doc;
    at_env_type type;
    int64_t min, max;             /* INT */
    char **values;                /* NULL-terminated, owned: spellings of an ENUM; of others those
                                     that `*` stands for in sweeps, or NULL */
    char text[AT_ENV_VALUE_TEXT]; /* the value as it is printed */
    int64_t value;                /* BOOL INT ENUM ARCH */
    at_release release;
} at_env_key;

/* In order of declaration. */
typedef struct at_env_table {
    size_t count;
    at_env_key key[AT_ENV_KEYS_MAX];
} at_env_table;

/* Adds the keys of {"KEY": {"type", "default", "doc", "values", "min", "max"}}; a key that is there
 * already is replaced. "values" are all of an enum, and those that audits sweep of others. Types:
 * version, bool, int, enum, arch (only of the key arch). */
at_status at_env_table_declare(at_env_table *table, const at_json *object,
                               at_error *err) AT_MUST_CHECK;

/* Overlays the values given in env (NULL: none); an unknown key or a bad value is AT_INVALID. */
at_status at_env_table_resolve(at_env_table *table, const at_env *env, at_error *err) AT_MUST_CHECK;

const at_env_key *at_env_table_find(const at_env_table *table, const char *key);

/* The keys but arch as names of a scope; `out` has room for AT_ENV_KEYS_MAX; returns how many. */
size_t at_env_table_names(const at_env_table *table, at_expr_name *out);

void at_env_table_clear(at_env_table *table);

#ifdef __cplusplus
}
#endif
#endif
