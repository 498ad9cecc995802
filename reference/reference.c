#include "reference/reference.h"

#include <stdio.h>
#include <string.h>

#include "reference/fast.h"
#include "reference/golden.h"

/* A key whose features the reference does not have yet: the values that it accepts, as a range. */
typedef struct limit {
    const char *key;
    int64_t least, most;
    const char *accepts;
} limit;

static const limit limits[] = {
    {"invalid", 0, 0, "invalid=0"},
    {"dtype", AT_F32, AT_BF16, "dtype=f32, f16 or bf16"},
    {"odt", AT_F32, AT_BF16, "odt=f32, f16 or bf16"},
    {"pack", AT_PACK_NONE, AT_PACK_NONE, "pack=none"},
    {"stride", AT_STRIDE_PACKED, AT_STRIDE_PACKED, "stride=packed"},
    {"amask", AT_AMASK_NONE, AT_AMASK_NONE, "amask=none"},
    {"bias", AT_BIAS_NONE, AT_BIAS_NONE, "bias=none"},
    {"sink", AT_SINK_NONE, AT_SINK_NONE, "sink=none"},
    {"dropout", 0, 0, "dropout=0"},
    {"page", 0, 0, "page=0"},
};

static bool accepts(const at_case *c, const at_field *f, const limit *l)
{
    if (f->kind == AT_FIELD_REAL) {
        return c->dropout <= (double)l->most;
    }
    int64_t value = at_case_get(c, f);
    return value >= l->least && value <= l->most;
}

/* "key=value" as the case's text says it; the text holds every key that is not at its default. */
static void find_pair(const at_case *c, const char *key, char *pair, size_t size)
{
    char text[AT_CASE_TEXT_MAX];
    (void)at_case_print(c, text);
    size_t length = strlen(key);
    const char *at = text;
    while (at != NULL && !(strncmp(at, key, length) == 0 && at[length] == '=')) {
        at = strchr(at, ':');
        at = at != NULL ? at + 1 : NULL;
    }
    const char *found = at != NULL ? at : key;
    (void)snprintf(pair, size, "%.*s", (int)strcspn(found, ":"), found);
}

at_status at_reference_supports(const at_case *c, char code[48], at_error *err)
{
    code[0] = '\0';
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const limit *l = &limits[i];
        const at_field *f = at_case_field(l->key, strlen(l->key));
        AT_ASSERT(f != NULL);
        if (!accepts(c, f, l)) {
            char pair[160];
            find_pair(c, l->key, pair, sizeof pair);
            bool fp8 = strcmp(l->key, "dtype") == 0 || strcmp(l->key, "odt") == 0;
            (void)snprintf(code, 48, "reference_%s", fp8 ? "fp8" : l->key);
            return at_fail(err, AT_UNSUPPORTED, "the reference does not compute %s yet, only %s",
                           pair, l->accepts);
        }
    }
    return AT_OK;
}

at_status at_reference_run(at_gold *out, const at_problem *p, const at_reference_options *options,
                           at_arena *arena, at_error *err)
{
    char code[48];
    *out = (at_gold){0};
    AT_TRY(at_reference_supports(&p->c, code, err));
    return options->path == AT_REFERENCE_GOLDEN ? at_golden_run(out, p, options, arena, err)
                                                : at_fast_run(out, p, options, arena, err);
}
