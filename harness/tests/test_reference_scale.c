/* The error scale on emulated healthy kernels: no alarm, and not vacuous. */
#include "harness/tests/test.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "harness/tests/emulate.h"
#include "harness/tests/world.h"

static const char *const fills[] = {"normal",  "small_int", "uniform01",  "outlier",  "peaky",
                                    "lowrank", "deep_neg",  "sink_heavy", "constant", "denormal"};
enum { N_FILLS = 10 };

typedef struct seen {
    double worst;           /* err / bound */
    double least_z, most_z; /* rms z of the gradients and O, where `loose` is not set */
    const char *worst_fill;
} seen;

static void measure(seen *out, const char *text, const char *fill, const at_emulation *how,
                    bool loose)
{
    at_world w;
    at_emulated got;
    if (!at_world_open(&w, text) || !at_world_run(&w, AT_REFERENCE_FAST, &how->numeric)) {
        at_world_close(&w);
        return;
    }
    at_emulate(&got, &w.p, how);
    for (int i = 0; i < AT_WORLD_OUTPUTS; i++) {
        at_tensor_id id = at_world_outputs[i];
        at_ratios r = at_emulated_ratios(&got, &w.p, &w.gold, id);
        if (!(r.worst <= 1)) {
            at_test_fail(__FILE__, __LINE__, "%s: %s is off by %.3g bounds", text,
                         at_tensor_names[id], r.worst);
        }
        out->worst_fill = r.worst > out->worst ? fill : out->worst_fill;
        out->worst = fmax(out->worst, r.worst);
        bool few = id == AT_LSE || id == AT_DSINK;
        if (!few && !loose && r.n > 0) {
            out->least_z = fmin(out->least_z, r.rms_z);
            out->most_z = fmax(out->most_z, r.rms_z);
        }
    }
    at_emulated_close(&got);
    at_world_close(&w);
}

/* All distributions in one type. K of deep_neg is one-sided, so that errors of scores are alike and
 * cancel in dQ: there the scale is only a limit. */
static void all_fills(const char *dtype, const char *shape, const at_emulation *how, double least_z,
                      double most_z)
{
    seen out = {.least_z = HUGE_VAL};
    for (int f = 0; f < N_FILLS; f++) {
        char text[256];
        (void)snprintf(text, sizeof text, "%s:dtype=%s:fill=%s", shape, dtype, fills[f]);
        measure(&out, text, fills[f], how, strcmp(fills[f], "deep_neg") == 0);
    }
    (void)printf("%-4s %-58s worst err/bound %.3f (%s), rms z %.2f..%.2f\n", dtype, shape,
                 out.worst, out.worst_fill, out.least_z, out.most_z);
    CHECK(out.least_z >= least_z);
    CHECK(out.most_z <= most_z);
}

static const char causal[] = "hq=4:hkv=2:sq=70:skv=110:dqk=64:dv=32:mask=causal:align=br";
static const char wide[] = "sq=40:skv=300:dqk=32:dv=48";

static void test_flash(void)
{
    static const at_emulation forward = {.tile = 64};
    static const at_emulation backward = {
        .tile = 32, .reversed = true, .exp2 = true, .lanes = true};
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    for (int d = 0; d < 3; d++) {
        all_fills(dtypes[d], causal, &forward, 0.2, 1.5);
        all_fills(dtypes[d], wide, &backward, d == 0 ? 0.05 : 0.2, 1.5);
    }
}

static void test_flash_f32_products(void)
{
    static const at_emulation how = {.numeric = {.p = AT_P_F32}, .tile = 64};
    all_fills("f16", causal, &how, 0.2, 1.5);
    all_fills("bf16", wide, &how, 0.2, 1.5);
}

/* Scores and P stored; the model counts the roundings of P twice, as the frameworks do. */
static void test_unfused(void)
{
    static const at_emulation from_p = {
        .numeric = {.scores_stored = true, .d_from_p = true, .head_rounded = true}};
    static const at_emulation from_o = {.numeric = {.scores_stored = true}};
    static const at_emulation plain = {.numeric = {.p = AT_P_F32, .d_from_p = true}};
    all_fills("bf16", causal, &from_p, 0.1, 1.5);
    all_fills("f16", wide, &from_o, 0.1, 1.5);
    all_fills("f32", wide, &from_o, 0.1, 1.5);
    all_fills("bf16", wide, &plain, 0.2, 1.5);
    all_fills("f32", causal, &plain, 0.2, 1.5);
}

static void test_softcap(void)
{
    static const at_emulation how = {.tile = 64};
    static const char shape[] = "hq=2:sq=60:skv=90:dqk=32:softcap=2";
    static const char band[] =
        "b=2:hq=2:sq=40:skv=60:dqk=48:lens=random:mask=band:wl=20:wr=5:softcap=30";
    all_fills("f32", shape, &how, 0.05, 1.5);
    all_fills("f16", band, &how, 0.05, 1.5);
    all_fills("bf16", shape, &how, 0.05, 1.5);
}

/* Long sums: 16 heads times 300 rows in one chain of f32 additions. */
static void test_long_group(void)
{
    static const at_emulation how = {.tile = 64};
    all_fills("f32", "hq=16:hkv=1:sq=300:skv=24:dqk=16", &how, 0.1, 1.5);
    all_fills("bf16", "hq=16:hkv=1:sq=300:skv=24:dqk=16", &how, 0.1, 1.5);
}

/* Attention so flat that roundings agree. */
static void test_flat(void)
{
    static const at_emulation how = {.tile = 64};
    static const char *const shapes[] = {
        "hq=4:hkv=1:sq=200:skv=50:dqk=32:scale=0.001", "sq=30:skv=600:dqk=32:scale=0.0001",
        "sq=60:skv=300:dqk=32:softcap=0.001", "sq=30:skv=100:dqk=32:scale=0"};
    for (int s = 0; s < 4; s++) {
        all_fills("bf16", shapes[s], &how, 0, 1.5);
        all_fills("f16", shapes[s], &how, 0, 1.5);
    }
}

static void test_features(void)
{
    omp_set_num_threads(1); /* many small problems */
    static const at_emulation flash = {.tile = 32};
    static const at_emulation unfused = {
        .numeric = {.scores_stored = true, .d_from_p = true, .head_rounded = true}};
    static const char *const words[] = {
        "amask=bool.bh:deadrows=1",
        "amask=add.b1",
        "amask=min.11",
        "bias=alibi:mask=causal:align=br",
        "bias=rel.11:grads=qkvb",
        "bias=rel.bh:grads=qkvb",
        "sink=learned:grads=qkvs",
        "sink=off1:amask=bool.1h",
        "dropout=0.25",
        "dropout=0.5:sink=learned:bias=rel.b1:grads=qkvbs:softcap=3",
    };
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    for (size_t i = 0; i < 3 * sizeof words / sizeof *words; i++) {
        char shape[256];
        (void)snprintf(shape, sizeof shape, "b=2:hq=2:hkv=1:sq=40:skv=50:dqk=32:dv=24:seed=%d:%s",
                       (int)i, words[i / 3]);
        all_fills(dtypes[i % 3], shape, &flash, 0.02, 1.5);
        if (i % 3 > 0) {
            all_fills(dtypes[i % 3], shape, &unfused, 0.02, 1.5);
        }
    }
}

static void test_fp8(void)
{
    omp_set_num_threads(1);
    /* dS of large inputs leaves the range of e4m3 unless it is scaled. */
    static const at_emulation plain = {.numeric = {.ds_unit = 64}, .tile = 32};
    static const at_emulation scaled = {.numeric = {.p_unit = 0x1p-8F, .ds_unit = 16}, .tile = 64};
    static const at_emulation wide_p = {.numeric = {.p = AT_P_F32}, .tile = 32};
    static const char *const shapes[] = {
        "b=2:hq=4:hkv=2:sq=50:skv=70:dqk=32:dv=24",
        "hq=2:sq=40:skv=90:dqk=32:odt=bf16:mask=causal:align=br",
        "hq=2:sq=40:skv=50:dqk=32:odt=f32:sink=learned:dropout=0.3"};
    for (int i = 0; i < 3; i++) {
        all_fills("f8e4m3", shapes[i], &plain, 0, 1.5);
        all_fills("f8e4m3", shapes[i], &scaled, 0, 1.5);
        all_fills("f8e5m2", shapes[i], &plain, 0, 1.5);
        all_fills("f8e5m2", shapes[i], &wide_p, 0, 1.5);
    }
}

const at_test at_tests[] = {
    {"ref", "flash", test_flash},
    {"ref", "flash_f32_products", test_flash_f32_products},
    {"ref", "unfused", test_unfused},
    {"ref", "softcap", test_softcap},
    {"ref", "long_group", test_long_group},
    {"ref", "flat", test_flat},
    {"ref", "features", test_features},
    {"ref", "fp8", test_fp8},
    {NULL, NULL, NULL},
};
