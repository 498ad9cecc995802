#include "harness/select/env.h"

#include <stdlib.h>
#include <string.h>

enum { PAIR_TEXT = 256 };

typedef struct pair {
    char *key;
    char *value; /* in the same block */
} pair;

struct at_env {
    size_t count;
    pair *pairs; /* by key */
};

/* Where the key stands, or would. */
static size_t place(const at_env *env, const char *key, bool *found)
{
    size_t i = 0;
    while (i < env->count && strcmp(env->pairs[i].key, key) < 0) {
        i++;
    }
    *found = i < env->count && strcmp(env->pairs[i].key, key) == 0;
    return i;
}

static at_status put(at_env *env, const char *text, size_t key_length, size_t length, at_error *err)
{
    pair *larger = realloc(env->pairs, (env->count + 1) * sizeof *larger);
    env->pairs = larger != NULL ? larger : env->pairs;
    char *block = malloc(length + 1);
    if (larger == NULL || block == NULL) {
        free(block);
        return at_fail(err, AT_NO_MEMORY, "no memory for the environment");
    }
    memcpy(block, text, length);
    block[length] = '\0';
    block[key_length] = '\0';
    pair made = {block, block + key_length + 1};
    bool found = false;
    size_t at = place(env, block, &found);
    if (found) {
        free(env->pairs[at].key);
    } else {
        memmove(env->pairs + at + 1, env->pairs + at, (env->count - at) * sizeof *env->pairs);
        env->count++;
    }
    env->pairs[at] = made;
    return AT_OK;
}

at_status at_env_set(at_env **env, const char *text, at_error *err)
{
    if (*env == NULL && (*env = calloc(1, sizeof **env)) == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for the environment");
    }
    while (*text != '\0') {
        size_t length = strcspn(text, ","), key = strcspn(text, "=,");
        if (key == 0 || key >= length || length > PAIR_TEXT || key + 1 == length) {
            return at_fail(err, AT_INVALID,
                           "environment: \"%.*s\" is not key=value; pairs are joined by commas, "
                           "as in fa3=2025-02,fused=0",
                           (int)(length > 80 ? 80 : length), text);
        }
        AT_TRY(put(*env, text, key, length, err));
        text += length + (text[length] == ',');
    }
    return AT_OK;
}

void at_env_close(at_env *env)
{
    if (env != NULL) {
        for (size_t i = 0; i < env->count; i++) {
            free(env->pairs[i].key);
        }
        free(env->pairs);
        free(env);
    }
}

const char *at_env_get(const at_env *env, const char *key)
{
    bool found = false;
    size_t at = env != NULL ? place(env, key, &found) : 0;
    return found ? env->pairs[at].value : NULL;
}

size_t at_env_size(const at_env *env)
{
    return env != NULL ? env->count : 0;
}

const char *at_env_key_at(const at_env *env, size_t i)
{
    return env->pairs[i].key;
}

at_json *at_env_to_json(const at_env *env)
{
    at_json *object = at_json_object();
    for (size_t i = 0; i < at_env_size(env); i++) {
        at_json_put_text(object, env->pairs[i].key, env->pairs[i].value);
    }
    return object;
}
