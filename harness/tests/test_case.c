/* The case language: what each key takes, canonical text, ids, contradictions. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/case.h"

static void accepts(const char *text, const char *canonical)
{
    at_case c;
    at_error err = {""};
    char printed[AT_CASE_TEXT_MAX] = "";
    if (at_case_parse(&c, text, &err) != AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
        return;
    }
    size_t length = at_case_print(&c, printed);
    CHECK_INT(length, strlen(printed));
    CHECK_TEXT(printed, canonical);
    at_case again;
    CHECK_OK(at_case_parse(&again, printed, &err), &err);
    CHECK(at_case_equal(&c, &again));
    char id[AT_ID_TEXT], id_again[AT_ID_TEXT];
    at_case_id(&c, id);
    at_case_id(&again, id_again);
    CHECK_TEXT(id, id_again);
}

static void refuses(const char *text, const char *part)
{
    at_case c;
    at_error err = {""};
    at_case_init(&c);
    at_case before = c;
    if (at_case_parse(&c, text, &err) != AT_INVALID) {
        at_test_fail(__FILE__, __LINE__, "\"%s\" is accepted", text);
        return;
    }
    CHECK_HAS(err.text, part);
    CHECK(strchr(err.text, '\n') == NULL);
    CHECK(at_case_equal(&c, &before));
}

/* Every key: a value that is good (in a text that makes it legal) and values that are bad. */
typedef struct key_values {
    const char *key, *with; /* other pairs that the good values need; "" for none */
    const char *good[8], *bad[8];
} key_values;

static const key_values values[] = {
    {"b", "", {"0", "1", "7", "1048576"}, {"1048577", "1.0", "0x1", "+1"}},
    {"hq", "hkv=1:", {"1", "16", "4096"}, {"0", "4097", "16 ", "016"}},
    {"hkv", "hq=4096:", {"1", "8", "4096"}, {"0", "4097", "1e2"}},
    {"sq", "", {"0", "1", "4097", "16777216"}, {"16777217", "64k"}},
    {"skv", "", {"0", "1", "16777216"}, {"16777217", " 1"}},
    {"dqk", "", {"1", "65", "4096"}, {"0", "4097"}},
    {"dv", "", {"1", "512", "4096"}, {"0", "4097"}},
    {"hv", "hq=8:hkv=2:", {"1", "2", "4", "8"}, {"0", "4097"}},
    {"invalid", "hq=3:hkv=2:", {"1"}, {"2", "true", "yes"}},
    {"dtype", "", {"f32", "f16", "bf16", "f8e4m3", "f8e5m2"}, {"fp16", "BF16", "bf", "bf161"}},
    {"odt", "dtype=f8e4m3:", {"f32", "f16", "bf16", "f8e4m3", "f8e5m2"}, {"float", "f8"}},
    {"layout", "lens=full:", {"bshd", "sbhd", "bhsd", "thd"}, {"bsh", "bshdx", "t3hd"}},
    {"pack", "", {"none", "qkv3h", "qkvh3", "kv2h", "kvh2"}, {"qkv", "qkv3hd"}},
    {"stride",
     "",
     {"packed", "row_gap", "head_gap", "offset", "expand_kv", "dout_other"},
     {"gap", "row-gap"}},
    {"mask", "", {"none", "causal", "band"}, {"full", "window", "casual"}},
    {"align", "mask=causal:", {"tl", "br", "0", "1000", "16777216"}, {"bl", "16777217", "tr"}},
    {"wl", "mask=band:", {"-1", "0", "127", "16777216"}, {"-2", "inf", "16777217"}},
    {"wr", "mask=band:", {"-1", "0", "127", "16777216"}, {"-2", "none", "16777217"}},
    {"amask",
     "",
     {"none", "bool.11", "bool.b1", "add.1h", "add.bh", "min.11", "min.bh"},
     {"bool", "bool.2", "bool.", "add.b1h"}},
    {"deadrows", "mask=band:", {"0", "1"}, {"2", "on"}},
    {"lens",
     "",
     {"none", "full", "half", "random", "zero_first", "zero_mid", "zero_last", "one"},
     {"zero", "FULL", "zero_firstx"}},
    {"lenq",
     "b=3:sq=4:lenkv=1+2+3:",
     {"3+2+4", "0+0+0"},
     {"3+", "+3", "3++4", "3,2,4", "04", "1 + 1"}},
    {"lenkv", "b=1:sq=4:skv=64:lenq=1:", {"3", "0", "64"}, {"16777217", "a", "1+-1", "3+4+"}},
    {"gap", "layout=thd:lens=full:", {"0", "1", "65536"}, {"65537", "1+1"}},
    {"bias",
     "",
     {"none", "alibi", "rel.11", "rel.1h", "rel.b1", "rel.bh"},
     {"rel", "alibi.11", "rel.hb"}},
    {"softcap", "", {"0", "50", "0.5", "1e-05", "1e30"}, {"nan", "inf", "1e31", "0x10", "."}},
    {"scale", "", {"auto", "0", "0.125", "-1", "1e-30"}, {"inf", "nan", "1e999", "auto1", "+1"}},
    {"sink", "", {"none", "off1", "learned"}, {"1", "learn", "off"}},
    {"dropout", "", {"0", "0.1", "0.999"}, {"1", "1.5", "nan", "10%"}},
    {"page", "pass=fwd:lens=full:", {"0", "1", "1024"}, {"1025", "16k"}},
    {"splits", "", {"0", "1", "1024"}, {"1025", "auto"}},
    {"det", "", {"0", "1"}, {"2", "true"}},
    {"grads", "bias=rel.11:sink=learned:", {"q", "kv", "vkq", "qkvbs"}, {"qq", "x", "q k", "none"}},
    {"pass", "", {"fwd", "stats", "train"}, {"bwd", "forward", "training"}},
    {"exec", "", {"once", "cached", "replay", "side", "compile"}, {"graph", "twice"}},
    {"fill",
     "",
     {"normal", "small_int", "uniform01", "outlier", "peaky", "lowrank", "deep_neg", "sink_heavy"},
     {"ones", "random", "normal1"}},
    {"seed", "", {"0", "1", "18446744073709551615"}, {"18446744073709551616", "0x1", "1.5"}},
    {"arch", "", {"any", "cpu", "sm80", "sm90", "sm100", "sm121"}, {"sm70", "90", "hopper"}},
};
static const size_t value_count = sizeof values / sizeof *values;

static void test_table(void)
{
    CHECK_INT(value_count, at_case_field_count);
    at_case c;
    at_case_init(&c);
    for (size_t i = 0; i < at_case_field_count; i++) {
        const at_field *f = &at_case_fields[i];
        CHECK_TEXT(values[i].key, f->key);
        CHECK(at_case_field(f->key, strlen(f->key)) == f);
        CHECK(f->doc != NULL && f->accepts != NULL);
        CHECK_INT(f->key_length, strlen(f->key));
        CHECK(f->names == NULL || f->names[f->name_count] == NULL);
        if (f->same_as != NULL) {
            const at_field *other = at_case_field(f->same_as, strlen(f->same_as));
            CHECK(other != NULL && other < f); /* resolving goes down the table */
            CHECK(other != NULL && f->same_offset == other->offset);
        }
        if (f->kind != AT_FIELD_REAL && f->kind != AT_FIELD_LIST) {
            at_case_set(&c, f, at_case_get(&c, f) + 1);
        }
    }
    for (int i = 0; i <= AT_DTYPE_COUNT; i++) {
        const char *name = at_case_field("dtype", 5)->names[i];
        CHECK(name == NULL ? at_dtype_names[i] == NULL : strcmp(name, at_dtype_names[i]) == 0);
    }
    CHECK_INT(c.batch, 2);
    CHECK_INT(c.arch, AT_ARCH_CPU);
    CHECK(at_case_field("h", 1) == NULL);
    CHECK(at_case_field("hqx", 3) == NULL);
    CHECK(at_case_field("hqx", 2) == at_case_field("hq", 2));
}

static void test_good_values(void)
{
    for (size_t i = 0; i < value_count; i++) {
        for (size_t v = 0; v < 8 && values[i].good[v] != NULL; v++) {
            char text[512];
            at_case c;
            at_error err = {""};
            (void)snprintf(text, sizeof text, "%s%s=%s", values[i].with, values[i].key,
                           values[i].good[v]);
            CHECK_OK(at_case_parse(&c, text, &err), &err);
        }
    }
}

static void refuses_value(const key_values *k, const char *value)
{
    char text[512], part[64];
    (void)snprintf(part, sizeof part, "the key %s takes ", k->key);
    (void)snprintf(text, sizeof text, "%s%s=%s", k->with, k->key, value);
    refuses(text, part);
}

static void test_bad_values(void)
{
    static const char *const always[] = {"", "?", "none0", "1x", "\xc3\xa9", "=", "1=1", "\n"};
    static const char *const not_real[] = {"99999999999999999999", "-7", "1.5"};
    for (size_t i = 0; i < value_count; i++) {
        const key_values *k = &values[i];
        for (size_t v = 0; v < 8 && k->bad[v] != NULL; v++) {
            refuses_value(k, k->bad[v]);
        }
        for (size_t v = 0; v < sizeof always / sizeof *always; v++) {
            refuses_value(k, always[v]);
        }
        for (size_t v = 0; v < sizeof not_real / sizeof *not_real; v++) {
            if (at_case_field(k->key, strlen(k->key))->kind != AT_FIELD_REAL) {
                refuses_value(k, not_real[v]);
            }
        }
    }
    refuses("softcap=-7", "the key softcap takes a number 0..1e30");
    refuses("softcap=99999999999999999999999999999999", "the key softcap takes");
    refuses("dropout=-0.1", "the key dropout takes a number 0 <= x < 1");
    refuses("scale=1.5.5", "the key scale takes");
}

static void test_bad_pairs(void)
{
    for (size_t i = 0; i < value_count; i++) {
        const key_values *k = &values[i];
        char text[512], part[64];
        (void)snprintf(text, sizeof text, "%s%s=%s:%s=%s", k->with, k->key, k->good[0], k->key,
                       k->good[0]);
        (void)snprintf(part, sizeof part, "the key %s is given twice", k->key);
        refuses(text, part);
        (void)snprintf(text, sizeof text, "%s%s", k->with, k->key);
        (void)snprintf(part, sizeof part, "\"%s\" is not key=value", k->key);
        refuses(text, part);
        (void)snprintf(text, sizeof text, "%sx=1", k->key);
        (void)snprintf(part, sizeof part, "unknown key \"%sx\", the keys are b hq hkv", k->key);
        refuses(text, part);
    }
    refuses("", "the case text is empty");
    refuses(":", "an empty pair");
    refuses("b=1:", "an empty pair");
    refuses("b=1::hq=2", "an empty pair");
    refuses("=1", "\"=1\" is not key=value");
    refuses("B=1", "unknown key \"B\"");
    refuses("b =1", "unknown key \"b \"");
    char longer[3000];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    refuses(longer, "is not key=value");
    memcpy(longer, "seed=", 5);
    refuses(longer, "seed=aaaa");
    longer[0] = '1';
    refuses(longer, "unknown key");
}

static void test_canonical(void)
{
    accepts("b=1", "b=1");
    accepts("hq=1:dtype=bf16:pass=train:seed=0", "b=1");
    accepts("hkv=16:hq=16", "hq=16");
    accepts("dv=64:dqk=64:sq=64:skv=64", "b=1");
    accepts("skv=128:sq=128", "sq=128");
    accepts("hv=2:hkv=2:hq=8", "hq=8:hkv=2");
    accepts("hv=8:hkv=2:hq=8", "hq=8:hkv=2:hv=8");
    accepts("odt=f16:dtype=f16", "dtype=f16");
    accepts("odt=f32:dtype=f16", "dtype=f16:odt=f32");
    accepts("scale=0.125", "scale=0.125");
    accepts("scale=1.250e-1", "scale=0.125");
    accepts("scale=auto", "b=1");
    accepts("scale=-0", "scale=0");
    accepts("softcap=-0", "b=1");
    accepts("softcap=50.00", "softcap=50");
    accepts("dropout=.1", "dropout=0.1");
    accepts("scale=0.1000000000000000055", "scale=0.1");
    accepts("grads=vkq", "b=1");
    accepts("grads=vq", "grads=qv");
    accepts("mask=causal:align=0", "mask=causal:align=0");
    accepts("align=br:mask=causal", "mask=causal:align=br");
    accepts("align=tl:mask=causal:wl=-1", "mask=causal");
    accepts("mask=band:wr=0", "mask=band:wr=0");
    accepts("mask=causal:wr=0", "mask=causal:wr=0");
    accepts("lens=none:lenq=none:lenkv=none", "b=1");
    accepts("lenq=3+2+4:b=3:lenkv=1+1+1:sq=4", "b=3:sq=4:lenq=3+2+4:lenkv=1+1+1");
    accepts("seed=18446744073709551615", "seed=18446744073709551615");
    accepts("b=1:hq=16:hkv=1:sq=4096:skv=4096:dqk=192:dv=128:dtype=bf16:layout=sbhd:mask=causal:"
            "pass=train",
            "hq=16:hkv=1:sq=4096:dqk=192:dv=128:layout=sbhd:mask=causal");
    accepts("b=0:sq=0:skv=0", "b=0:sq=0");
}

static void test_longest_text(void)
{
    at_case c;
    at_case_init(&c);
    for (size_t i = 0; i < at_case_field_count; i++) {
        const at_field *f = &at_case_fields[i];
        if (f->kind == AT_FIELD_INT) {
            at_case_set(&c, f, f->max);
        } else if (f->kind == AT_FIELD_SET) {
            at_case_set(&c, f, 31);
        } else if (f->kind == AT_FIELD_U64) {
            at_case_set(&c, f, -1);
        }
    }
    c.heads_kv--, c.len_kv--, c.dim_v--, c.heads_v -= 2;
    c.softcap = 1.2345678901234567e-300, c.dropout = 0.12345678901234567;
    c.scale = -1.2345678901234567e-300;
    c.stride = AT_STRIDE_DOUT_OTHER, c.lens = AT_LENS_ZERO_FIRST, c.fill = AT_FILL_SINK_HEAVY;
    c.dtype = AT_F8E4M3, c.odt = AT_F8E5M2, c.layout = AT_THD, c.pack = AT_PACK_QKV3H;
    c.mask = AT_MASK_CAUSAL, c.amask = AT_AMASK_BOOL_BH, c.bias = AT_BIAS_REL_BH;
    c.sink = AT_SINK_LEARNED, c.pass = AT_PASS_STATS, c.exec = AT_EXEC_COMPILE;
    c.arch = AT_ARCH_SM121;
    c.lens_q.n = c.lens_kv.n = AT_LEN_LIST_MAX;
    for (int i = 0; i < AT_LEN_LIST_MAX; i++) {
        c.lens_q.len[i] = c.lens_kv.len[i] = 1 << 24;
    }
    char text[AT_CASE_TEXT_MAX];
    memset(text, 1, sizeof text);
    size_t length = at_case_print(&c, text);
    CHECK(length < AT_CASE_TEXT_MAX - 100);
    CHECK_INT(strlen(text), length);
    CHECK(strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789=:.+-") == length);
}

static void test_ids(void)
{
    static const struct {
        const char *text, *id;
    } golden[] = {
        {"b=1", "cbe78bac8689bf95"},
        {"hq=16:hkv=1:sq=4096:dqk=192:dv=128:layout=sbhd:mask=causal", "5aa21552733668a2"},
        {"b=3:sq=4:dtype=f16:layout=thd:lenq=3+2+4:lenkv=1+1+1:softcap=0.5", "221f98995bed200a"},
    };
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        at_case c;
        at_error err = {""};
        char id[AT_ID_TEXT];
        CHECK_OK(at_case_parse(&c, golden[i].text, &err), &err);
        at_case_id(&c, id);
        CHECK_TEXT(id, golden[i].id);
    }
}

static void test_equality(void)
{
    at_case base;
    at_case_init(&base);
    for (size_t i = 0; i < at_case_field_count; i++) {
        at_case other = base;
        const at_field *f = &at_case_fields[i];
        if (f->kind == AT_FIELD_REAL || f->kind == AT_FIELD_LIST) {
            continue;
        }
        at_case_set(&other, f, at_case_get(&base, f) + 1);
        CHECK(!at_case_equal(&base, &other));
    }
    at_case other = base;
    other.scale = 0.125;
    CHECK(!at_case_equal(&base, &other));
    other = base;
    other.lens_kv.n = 1;
    CHECK(!at_case_equal(&base, &other));
    other = base;
    other.lens_q.len[5] = 7; /* beyond n: means nothing */
    CHECK(at_case_equal(&base, &other));
}

static void test_contradictions(void)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"hq=3:hkv=2", "hq=3 is not a multiple of hkv=2; invalid=1"},
        {"hq=4:hkv=2:hv=3", "hq=4 is not a multiple of hv=3"},
        {"invalid=1", "invalid=1 needs heads that do not divide"},
        {"mask=causal:wr=1", "mask=causal with wr=1"},
        {"wl=3", "wl=3 needs mask=causal or mask=band"},
        {"wr=0", "wr=0 needs mask=causal or mask=band"},
        {"align=br", "align needs a diagonal"},
        {"align=5:bias=rel.11", "align needs a diagonal"},
        {"deadrows=1", "deadrows=1 needs"},
        {"deadrows=1:mask=causal", "deadrows=1 needs"},
        {"layout=thd", "layout=thd needs lengths"},
        {"lens=full:lenq=1:lenkv=1", "lens and lenq, lenkv exclude each other"},
        {"lenq=1", "lenq needs lenkv too"},
        {"lenkv=1", "lenkv needs lenq too"},
        {"b=2:lenq=1:lenkv=1", "lenq holds 1 lengths and b=2"},
        {"b=2:lenq=1+1:lenkv=1+1+1", "lenkv holds 3 lengths and b=2"},
        {"sq=4:lenq=5:lenkv=4", "lenq holds the length 5, at most sq=4"},
        {"sq=4:lenq=4:lenkv=5", "lenkv holds the length 5, at most skv=4"},
        {"gap=2", "gap=2 needs layout=thd"},
        {"gap=2:lens=full", "gap=2 needs layout=thd"},
        {"pack=kv2h:dqk=192:dv=128", "hkv=hv and dqk=dv only"},
        {"pack=kvh2:hq=4:hv=2", "hkv=hv and dqk=dv only"},
        {"pack=qkv3h:hq=4:hkv=2", "hq=hkv and sq=skv only"},
        {"pack=qkvh3:sq=4:skv=8", "hq=hkv and sq=skv only"},
        {"pack=qkv3h:stride=row_gap", "stride=packed or dout_other only"},
        {"pack=qkv3h:page=16:pass=fwd:lens=full", "page needs k and v apart"},
        {"pack=qkv3h:layout=thd:lenq=3:lenkv=4", "lenq equal to lenkv only"},
        {"pass=fwd:grads=q", "grads needs pass=train"},
        {"pass=stats:det=1", "det=1 needs pass=train"},
        {"pass=fwd:stride=dout_other", "stride=dout_other needs pass=train"},
        {"grads=qb", "b in grads needs a stored bias"},
        {"grads=qb:bias=alibi", "b in grads needs a stored bias"},
        {"grads=s:sink=off1", "s in grads needs sink=learned"},
        {"page=16:lens=full", "page=16 needs pass=fwd or pass=stats"},
        {"page=16:pass=fwd", "page=16 needs the keys of each sequence"},
        {"odt=f8e4m3", "odt=f8e4m3 needs an fp8 dtype"},
        {"dtype=f16:odt=f8e5m2", "odt=f8e5m2 needs an fp8 dtype"},
        {"b=1048576:sq=16777216", "b * sq * hq * max(dqk, dv) is more than 2^40"},
        {"b=1024:skv=16777216:dqk=128", "b * skv * max(hkv, hv)"},
        {"sq=16777216:skv=1048576:amask=bool.11", "the dense mask amask"},
        {"sq=1048576:skv=1048576:b=2:bias=rel.b1", "the bias would have"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refuses(bad[i].text, bad[i].part);
    }
}

static void test_sayable(void)
{
    static const char *const good[] = {
        "hq=3:hkv=2:invalid=1",
        "hq=6:hkv=4:hv=3:invalid=1",
        "hq=12:hkv=4:hv=3",
        "mask=causal:wl=127",
        "mask=band",
        "bias=alibi:align=br",
        "bias=alibi:align=7",
        "deadrows=1:mask=band:wl=3:wr=-1",
        "deadrows=1:amask=bool.11",
        "b=0:layout=thd:lens=full",
        "b=2:layout=thd:lenq=0+0:lenkv=0+0",
        "layout=bhsd:lens=random",
        "layout=thd:lens=random:gap=7",
        "pack=qkv3h:layout=thd:lens=random",
        "pack=kv2h:hq=8:hkv=2:sq=3:skv=9",
        "pack=qkvh3:stride=dout_other",
        "layout=thd:lens=full:page=16:pass=fwd",
        "lenq=3:lenkv=9:page=256:pass=stats:mask=causal:align=br",
        "dropout=0.1:pass=fwd",
        "dtype=f8e4m3:odt=f16",
        "dtype=f8e4m3:odt=f8e5m2",
        "dtype=bf16:odt=f32",
        "grads=qkvb:bias=rel.1h",
        "grads=s:sink=learned",
        "det=1",
        "splits=4:pass=train",
        "exec=compile:pass=fwd:arch=sm90",
        "sq=0:skv=5",
        "b=0:sq=16777216:hq=4096:dqk=4096",
        "sq=131072:hq=32:hkv=8:dqk=128",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        at_case c;
        at_error err = {""};
        CHECK_OK(at_case_parse(&c, good[i], &err), &err);
    }
}

/* Members that a program set without any check are caught by at_case_check. */
static void test_check_ranges(void)
{
    for (size_t i = 0; i < at_case_field_count; i++) {
        at_case c;
        at_error err = {""};
        const at_field *f = &at_case_fields[i];
        at_case_init(&c);
        if (f->kind == AT_FIELD_REAL || f->kind == AT_FIELD_U64) {
            continue;
        }
        if (f->kind == AT_FIELD_LIST) {
            at_len_list *list = f->key[3] == 'q' ? &c.lens_q : &c.lens_kv;
            list->n = AT_LEN_LIST_MAX + 1;
        } else {
            at_case_set(&c, f, f->kind == AT_FIELD_INT ? f->max + 1 : 1000);
        }
        CHECK_INT(at_case_check(&c, &err), AT_INVALID);
        CHECK_HAS(err.text, f->key);
        if (f->kind != AT_FIELD_LIST) {
            at_case_set(&c, f, -1000);
            CHECK_INT(at_case_check(&c, &err), AT_INVALID);
        }
    }
    at_case c;
    at_error err = {""};
    at_case_init(&c);
    c.scale = (double)NAN;
    CHECK_INT(at_case_check(&c, &err), AT_INVALID);
    at_case_init(&c);
    c.dropout = 1;
    CHECK_INT(at_case_check(&c, &err), AT_INVALID);
    at_case_init(&c);
    c.lens_q.n = c.lens_kv.n = 1, c.lens_q.len[0] = -1;
    CHECK_INT(at_case_check(&c, &err), AT_INVALID);
}

static void test_broadcast(void)
{
    CHECK_INT(at_amask_broadcast(AT_AMASK_NONE), 0);
    CHECK_INT(at_amask_broadcast(AT_AMASK_BOOL_11), 0);
    CHECK_INT(at_amask_broadcast(AT_AMASK_BOOL_B1), 1);
    CHECK_INT(at_amask_broadcast(AT_AMASK_ADD_1H), 2);
    CHECK_INT(at_amask_broadcast(AT_AMASK_MIN_BH), 3);
    CHECK_INT(at_bias_broadcast(AT_BIAS_ALIBI), 0);
    CHECK_INT(at_bias_broadcast(AT_BIAS_REL_1H), 2);
    CHECK_INT(at_bias_broadcast(AT_BIAS_REL_B1), 1);
    CHECK_INT(at_bias_broadcast(AT_BIAS_REL_BH), 3);
}

const at_test at_tests[] = {
    {"unit", "table", test_table},
    {"unit", "good_values", test_good_values},
    {"unit", "bad_values", test_bad_values},
    {"unit", "bad_pairs", test_bad_pairs},
    {"unit", "canonical", test_canonical},
    {"unit", "longest_text", test_longest_text},
    {"unit", "ids", test_ids},
    {"unit", "equality", test_equality},
    {"unit", "contradictions", test_contradictions},
    {"unit", "sayable", test_sayable},
    {"unit", "check_ranges", test_check_ranges},
    {"unit", "broadcast", test_broadcast},
    {NULL, NULL, NULL},
};
