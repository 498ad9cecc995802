#include "kernels/variants.h"

#include <string.h>

#include "kernels/cpu_flash.h"
#include "kernels/cpu_naive.h"

#define COMMON(title, sentence)                                                                    \
    .name = "variant." title, .version = "1.0.0", .doc = sentence, .arch = AT_ARCH_CPU,            \
    .contract = {.pad = AT_PAD_ZERO},                                                              \
    .promises =                                                                                    \
        AT_PROMISES_BACKWARD | AT_PROMISES_STATS | AT_PROMISES_DETERMINISM | AT_PROMISES_MASK

#define FLASH(title, sentence, ...)                                                                \
    {                                                                                              \
        COMMON(title, sentence), .numeric = {__VA_ARGS__}, .supports = at_flash_supports,          \
                                 .open = at_flash_open, .claim = at_flash_claim,                   \
                                 .forward = at_flash_forward, .backward = at_flash_backward,       \
                                 .close = at_flash_close                                           \
    }

#define NAIVE(title, sentence, ...)                                                                \
    {                                                                                              \
        COMMON(title, sentence), .numeric = {__VA_ARGS__}, .supports = at_naive_supports,          \
                                 .open = at_naive_open, .claim = at_naive_claim,                   \
                                 .forward = at_naive_forward, .backward = at_naive_backward,       \
                                 .close = at_naive_close                                           \
    }

static const at_backend variants[] = {
    FLASH("p32", "fused, P and dS in f32", .p = AT_P_F32),
    FLASH("p32_head_rounded", "the same, dK and dV rounded per head", .p = AT_P_F32,
          .head_rounded = true),
    FLASH("d_from_p", "fused, D = sum P dP", .d_from_p = true),
    FLASH("head_rounded", "fused, dK and dV rounded per head before the group sum",
          .head_rounded = true),
    FLASH("fp8_fine", "fused, fp8 P and dS scaled up before they are rounded", .p_unit = 0x1p-8F,
          .ds_unit = 0x1p-4F),
    FLASH("fp8_coarse", "fused, fp8 dS scaled down before it is rounded", .ds_unit = 16),
    FLASH("bias_before_cap", "bias and ALiBi are added before the cap",
          .variant.bias_before_cap = true),
    FLASH("alibi_signed", "ALiBi adds slope (j - i)", .variant.alibi_signed = true),
    FLASH("alibi_paper", "slopes of ALiBi as in the paper", .variant.alibi_paper = true),
    FLASH("lse_log2", "LSE in units of ln 2", .variant.lse_log2 = true),
    FLASH("lse_without_sink", "LSE over the keys alone", .variant.lse_without_sink = true),
    FLASH("all_formulas", "all of these formulas at once",
          .variant = {.bias_before_cap = true,
                      .alibi_signed = true,
                      .alibi_paper = true,
                      .lse_log2 = true,
                      .lse_without_sink = true}),
    NAIVE("unfused", "S, P and dP stored in the inputs' type, D = sum P dP", .scores_stored = true,
          .d_from_p = true),
    NAIVE("unfused_d_from_o", "S, P and dP stored, D from the rounded O", .scores_stored = true),
    NAIVE("unfused_head_rounded", "S, P and dP stored, dK and dV rounded per head",
          .scores_stored = true, .d_from_p = true, .head_rounded = true),
    NAIVE("plain", "nothing rounded to the inputs' type but the outputs", .p = AT_P_F32,
          .d_from_p = true),
};

size_t at_variant_count(void)
{
    return sizeof variants / sizeof *variants;
}

const at_backend *at_variant_at(size_t i)
{
    AT_ASSERT(i < at_variant_count());
    return &variants[i];
}

const at_backend *at_variant_find(const char *name)
{
    for (size_t i = 0; i < at_variant_count(); i++) {
        if (strcmp(variants[i].name, name) == 0) {
            return &variants[i];
        }
    }
    return NULL;
}
