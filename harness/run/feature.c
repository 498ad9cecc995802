#include "harness/run/feature.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

AT_PRINTF(2, 3)
static void add(at_features *out, const char *format, ...)
{
    AT_ASSERT(out->n < AT_FEATURES_MAX);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(out->name[out->n++], AT_FEATURE_TEXT, format, args);
    va_end(args);
}

static const char *spell(const char *key, int64_t value)
{
    return at_case_field(key, strlen(key))->names[value];
}

static const char *mask_name(const at_case *c)
{
    bool window = c->window_left != AT_UNBOUNDED || c->window_right != AT_UNBOUNDED;
    return c->mask == AT_MASK_NONE     ? "none"
           : c->mask == AT_MASK_CAUSAL ? (window ? "causal_window" : "causal")
                                       : (window ? "window" : "band");
}

static const char *heads_name(const at_case *c)
{
    return c->heads_q == c->heads_kv ? "mha" : c->heads_kv == 1 ? "mqa" : "gqa";
}

static bool has_lens(const at_case *c)
{
    return c->lens != AT_LENS_NONE || c->lens_q.n > 0 || c->lens_kv.n > 0;
}

/* Keys that are features as soon as they leave their default. */
static void add_unusual(at_features *out, const at_case *c)
{
    static const char *const named[] = {"pack", "stride", "amask", "bias", "sink", "exec"};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        const at_field *f = at_case_field(named[i], strlen(named[i]));
        int64_t value = at_case_get(c, f);
        if (value != f->init) {
            add(out, "%s=%s", f->key, f->names[value]);
        }
    }
    static const char *const switches[] = {"deadrows", "gap", "page", "splits", "det", "invalid"};
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        const at_field *f = at_case_field(switches[i], strlen(switches[i]));
        if (at_case_get(c, f) != f->init) {
            add(out, "%s", f->key);
        }
    }
    if (c->heads_v != c->heads_kv) {
        add(out, "hv");
    }
    if (c->odt != c->dtype) {
        add(out, "odt=%s", at_dtype_names[c->odt]);
    }
    if (c->softcap > 0) {
        add(out, "softcap");
    }
    if (c->dropout > 0) {
        add(out, "dropout");
    }
}

void at_case_features(at_features *out, const at_case *c)
{
    out->n = 0;
    add(out, "pass=%s", spell("pass", c->pass));
    add(out, "dtype=%s", at_dtype_names[c->dtype]);
    add(out, "layout=%s", spell("layout", c->layout));
    add(out, "heads=%s", heads_name(c));
    add(out, "dims=%s",
        c->dim_qk == c->dim_v ? "equal" : (c->dim_qk > c->dim_v ? "dqk>dv" : "dqk<dv"));
    add(out, "mask=%s", mask_name(c));
    if (c->mask != AT_MASK_NONE) {
        add(out, "align=%s",
            c->align == AT_ALIGN_TL ? "tl" : (c->align == AT_ALIGN_BR ? "br" : "offset"));
    }
    add(out, "length=%s",
        c->len_q == 0 || c->len_kv == 0 ? "zero"
        : c->len_q == c->len_kv         ? "self"
        : c->len_q <= 8                 ? "decode"
                                        : "cross");
    if (has_lens(c)) {
        add(out, "lens=%s", c->lens_q.n > 0 || c->lens_kv.n > 0 ? "given" : spell("lens", c->lens));
    }
    if (c->scale != AT_SCALE_AUTO) {
        add(out, "scale");
    }
    add(out, "fill=%s", spell("fill", c->fill));
    add_unusual(out, c);
}

void at_case_region(const at_case *c, char region[AT_REGION_TEXT])
{
    at_features f = {0};
    add(&f, "%s", at_dtype_names[c->dtype]);
    add(&f, "%s", heads_name(c));
    add(&f, "%s", c->dim_qk == c->dim_v ? "dqk=dv" : "dqk!=dv");
    add(&f, "mask=%s", mask_name(c));
    if (c->layout == AT_THD) {
        add(&f, "thd");
    }
    if (has_lens(c)) {
        add(&f, "lens");
    }
    add_unusual(&f, c);
    size_t used = 0;
    region[0] = '\0';
    for (int i = 0; i < f.n && used < AT_REGION_TEXT; i++) {
        int n = snprintf(region + used, AT_REGION_TEXT - used, i ? " %s" : "%s", f.name[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}
