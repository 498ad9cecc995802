#include "harness/run/feature_pairs.h"

#include <stdio.h>
#include <string.h>

#include "harness/backend.h"
#include "harness/case/field.h"
#include "reference/reference.h"

#define PAGED "lens=random:pass=stats"
#define FUSED "hkv=4:skv=6"

const at_feature_word at_feature_words[] = {
    {"pass=fwd", "pass=fwd", ""},
    {"pass=stats", "pass=stats", ""},
    {"dtype=f32", "dtype=f32", ""},
    {"dtype=f16", "dtype=f16", ""},
    {"dtype=f8e4m3", "dtype=f8e4m3", ""},
    {"dtype=f8e5m2", "dtype=f8e5m2", ""},
    {"odt=f32", "odt=f32", ""},
    {"layout=sbhd", "layout=sbhd", ""},
    {"layout=bhsd", "layout=bhsd", ""},
    {"layout=thd", "layout=thd", "lens=random"},
    {"gap", "gap=3", "layout=thd:lens=random"},
    {"one key head", "hkv=1", ""},
    {"hv", "hv=1", ""},
    {"dqk>dv", "dv=3", ""},
    {"no rows", "sq=0", ""},
    {"no keys", "skv=0", ""},
    {"pack=qkv3h", "pack=qkv3h", FUSED},
    {"pack=qkvh3", "pack=qkvh3", FUSED},
    {"pack=kv2h", "pack=kv2h", ""},
    {"pack=kvh2", "pack=kvh2", ""},
    {"stride=row_gap", "stride=row_gap", ""},
    {"stride=head_gap", "stride=head_gap", ""},
    {"stride=offset", "stride=offset", ""},
    {"stride=expand_kv", "stride=expand_kv", ""},
    {"stride=dout_other", "stride=dout_other", ""},
    {"mask=causal", "mask=causal", ""},
    {"mask=band", "mask=band", "wl=2:wr=1"},
    {"align=br", "align=br", "mask=band:wl=2"},
    {"align=N", "align=2", "mask=band:wl=2"},
    {"wl", "wl=2", "mask=band"},
    {"wr", "wr=1", "mask=band"},
    {"amask=bool", "amask=bool.bh", ""},
    {"amask=add", "amask=add.b1", ""},
    {"amask=min", "amask=min.11", ""},
    {"deadrows", "deadrows=1", "amask=bool.1h"},
    {"lens=full", "lens=full", ""},
    {"lens=random", "lens=random", ""},
    {"lens=zero_mid", "lens=zero_mid", ""},
    {"lens=one", "lens=one", ""},
    {"lenq, lenkv", "lenq=2+6+1:lenkv=5+3+6", ""},
    {"bias=alibi", "bias=alibi", ""},
    {"bias=rel", "bias=rel.1h", ""},
    {"softcap", "softcap=1.5", ""},
    {"scale", "scale=-0.3", ""},
    {"sink=off1", "sink=off1", ""},
    {"sink=learned", "sink=learned", ""},
    {"dropout", "dropout=0.25", ""},
    {"page", "page=4", PAGED},
    {"splits", "splits=2", ""},
    {"det", "det=1", ""},
    {"grads=k", "grads=k", ""},
    {"grads=b", "grads=b", "bias=rel.11"},
    {"grads=s", "grads=s", "sink=learned"},
    {"exec=cached", "exec=cached", ""},
    {"exec=replay", "exec=replay", ""},
    {"exec=side", "exec=side", ""},
    {"exec=compile", "exec=compile", ""},
    {"fill=peaky", "fill=peaky", ""},
};
const size_t at_feature_word_count = sizeof at_feature_words / sizeof *at_feature_words;

static const char base[] = "b=3:hq=4:hkv=2:sq=6:skv=8:dqk=4:seed=1";

static uint64_t bit_of(const at_field *f)
{
    return UINT64_C(1) << (f - at_case_fields);
}

static uint64_t bit_of_key(const char *key)
{
    return bit_of(at_case_field(key, strlen(key)));
}

/* Explicit lengths and kinds of lengths stand for each other. */
static bool is_set(uint64_t given, const at_field *f)
{
    uint64_t lengths = bit_of_key("lens") | bit_of_key("lenq") | bit_of_key("lenkv");
    uint64_t bits = (bit_of(f) & lengths) != 0 ? lengths : bit_of(f);
    return (given & bits) != 0;
}

/* A key that both features set: gradients add up, other values must be the same. */
static at_status merge(at_case *c, const at_case *other, const at_field *f, at_error *why)
{
    if (f->kind == AT_FIELD_SET) {
        at_case_set(c, f, at_case_get(c, f) | at_case_get(other, f));
        return AT_OK;
    }
    return at_case_same(c, other, f) ? AT_OK
                                     : at_fail(why, AT_INVALID, "%s takes one value", f->key);
}

/* Assigns the pairs of `text`; soft ones only where the key is not set yet. */
static at_status assign(at_case *c, uint64_t *given, const char *text, bool own, at_error *why)
{
    while (*text != '\0') {
        size_t length = strcspn(text, ":"), key = strcspn(text, "=");
        const at_field *f = at_case_field(text, key);
        AT_ASSERT(f != NULL && key < length);
        at_case after = *c;
        uint64_t ignored = 0;
        AT_TRY(at_case_assign(&after, &ignored, text, key, text + key + 1, length - key - 1, why));
        if (own && (*given & bit_of(f)) != 0) {
            AT_TRY(merge(c, &after, f, why));
        } else if (own || !is_set(*given, f)) {
            *c = after;
            *given |= bit_of(f);
        }
        text += length + (text[length] == ':');
    }
    return AT_OK;
}

static at_status compose(at_case *out, const at_feature_word *a, const at_feature_word *b,
                         at_error *why)
{
    uint64_t given = 0;
    at_case_init(out);
    AT_TRY(assign(out, &given, a->own, true, why));
    AT_TRY(assign(out, &given, b->own, true, why));
    AT_TRY(assign(out, &given, a->soft, false, why));
    AT_TRY(assign(out, &given, b->soft, false, why));
    AT_TRY(assign(out, &given, base, false, why));
    at_case_resolve(out, given);
    return at_case_check(out, why);
}

at_pair_state at_feature_pair(at_case *out, char code[48], at_error *why, size_t a, size_t b)
{
    code[0] = '\0';
    if (compose(out, &at_feature_words[a], &at_feature_words[b], why) != AT_OK) {
        return AT_PAIR_EXCLUDED;
    }
    if (at_reference_supports(out, code, why) != AT_OK) {
        return AT_PAIR_SKIPPED;
    }
    const at_backend *flash = at_registry_find("cpu.flash");
    at_reason reason = {"", ""};
    if (flash->supports(flash, out, &reason) != AT_OK) {
        (void)snprintf(code, 48, "%s", reason.code);
        (void)at_fail(why, AT_UNSUPPORTED, "%s", reason.text);
        return AT_PAIR_REFUSED;
    }
    return out->dropout > 0 ? AT_PAIR_BY_MASK : AT_PAIR_JUDGED;
}
