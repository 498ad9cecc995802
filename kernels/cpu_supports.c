/* What the backends of this folder can compute, said key by key. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"

static at_status refuse(at_reason *why, const char *code, const char *key, const char *value)
{
    (void)snprintf(why->code, sizeof why->code, "%s", code);
    (void)snprintf(why->text, sizeof why->text, "%s=%s is not computed by this backend", key,
                   value);
    return AT_UNSUPPORTED;
}

/* Refuses the value that the case gives an enumerated or integer key. */
static at_status refuse_key(const at_case *c, at_reason *why, const char *code, const char *key)
{
    const at_field *field = at_case_field(key, strlen(key));
    AT_ASSERT(field != NULL);
    int64_t value = at_case_get(c, field);
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    return refuse(why, code, key, field->kind == AT_FIELD_ENUM ? field->names[value] : text);
}

at_status at_cpu_supports(const at_case *c, at_reason *why)
{
    const struct {
        bool given;
        const char *code, *key;
    } limits[] = {
        {c->invalid != 0, "invalid", "invalid"},
        {c->exec != AT_EXEC_ONCE, "exec", "exec"},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (limits[i].given) {
            return refuse_key(c, why, limits[i].code, limits[i].key);
        }
    }
    return AT_OK;
}

void at_cpu_to_units(at_dtype dtype, float unit, float *x, int64_t n)
{
    bool fp8 = dtype == AT_F8E4M3 || dtype == AT_F8E5M2;
    float most = fp8 ? (float)at_dtype_max(dtype) : HUGE_VALF;
    for (int64_t i = 0; (fp8 || unit != 1) && i < n; i++) {
        x[i] /= unit;
        x[i] = x[i] > most ? most : x[i] < -most ? -most : x[i];
    }
}

int64_t at_common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : at_common_divisor(b, a % b);
}
