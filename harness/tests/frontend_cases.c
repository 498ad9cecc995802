#include "harness/tests/frontend_cases.h"

#include <stddef.h>
#include <string.h>

#include "harness/problem/rng.h"

const at_frontend_release at_frontend_releases[] = {
    {"9.0.0", 90000},  {"9.1.0", 90100},  {"9.4.0", 90400},  {"9.5.0", 90500},  {"9.5.1", 90501},
    {"9.6.0", 90600},  {"9.7.0", 90700},  {"9.8.0", 90800},  {"9.9.0", 90900},  {"9.9.1", 90901},
    {"9.10.0", 91000}, {"9.10.1", 91001}, {"9.10.2", 91002}, {"9.11.0", 91100}, {"9.12.0", 91200},
    {"9.13.0", 91300}, {"9.13.1", 91301}, {"9.14.0", 91400}, {"9.14.1", 91401}, {"9.15.0", 91500},
    {"9.15.1", 91501}, {"9.17.0", 91700}, {"9.18.0", 91800}, {"9.18.1", 91801}, {"9.19.0", 91900},
    {"9.20.0", 92000}, {"9.21.0", 92100}, {"9.22.0", 92200}, {"9.23.0", 92300}, {"9.24.0", 92400},
    {"9.25.0", 92500}, {"9.25.1", 92501}, {"9.26.0", 92600}, {"9.27.0", 92700}, {"9.28.1", 92801},
};
const size_t at_frontend_release_count = sizeof at_frontend_releases / sizeof *at_frontend_releases;

enum { VALUES = 24, TRIES = 64, BYTES = 96 };

/* One member of the case: drawn with this chance (of 16), from these values. */
typedef struct knob {
    size_t offset;
    int chance, count;
    int64_t value[VALUES];
} knob;

/* clang-format off */
#define DIMS 12, 23, {8, 16, 24, 64, 72, 80, 96, 100, 120, 128, 136, 144, 160, 184, 192, 200, 248, 256, 264, 272, 504, 512, 520}
#define LENGTHS 12, 12, {1, 2, 63, 64, 65, 127, 128, 192, 1024, 1025, 2048, 4096}
static const knob knobs[] = {
    {offsetof(at_case, dim_qk), DIMS},
    {offsetof(at_case, dim_v), DIMS},
    {offsetof(at_case, len_q), LENGTHS},
    {offsetof(at_case, len_kv), LENGTHS},
    {offsetof(at_case, batch), 4, 4, {0, 1, 2, 3}},
    {offsetof(at_case, heads_q), 8, 4, {2, 4, 6, 8}},
    {offsetof(at_case, heads_kv), 3, 4, {1, 2, 3, 4}},
    {offsetof(at_case, heads_v), 2, 4, {1, 2, 3, 4}},
    {offsetof(at_case, dtype), 8, 5, {AT_F32, AT_F16, AT_BF16, AT_F8E4M3, AT_F8E5M2}},
    {offsetof(at_case, odt), 3, 5, {AT_F32, AT_F16, AT_BF16, AT_F8E4M3, AT_F8E5M2}},
    {offsetof(at_case, layout), 5, 5, {AT_BSHD, AT_SBHD, AT_BHSD, AT_THD, AT_THD}},
    {offsetof(at_case, pack), 1, 4, {AT_PACK_QKV3H, AT_PACK_QKVH3, AT_PACK_KV2H, AT_PACK_KVH2}},
    {offsetof(at_case, stride), 2, 5, {AT_STRIDE_ROW_GAP, AT_STRIDE_HEAD_GAP, AT_STRIDE_OFFSET, AT_STRIDE_EXPAND_KV, AT_STRIDE_DOUT_OTHER}},
    {offsetof(at_case, mask), 10, 3, {AT_MASK_NONE, AT_MASK_CAUSAL, AT_MASK_BAND}},
    {offsetof(at_case, align), 8, 7, {AT_ALIGN_BR, AT_ALIGN_BR, AT_ALIGN_BR, 0, 1, 2, 64}},
    {offsetof(at_case, window_left), 6, 7, {0, 1, 2, 63, 64, 127, 1024}},
    {offsetof(at_case, window_right), 6, 4, {0, 0, 1, 64}},
    {offsetof(at_case, amask), 1, 6, {AT_AMASK_BOOL_11, AT_AMASK_ADD_11, AT_AMASK_ADD_BH, AT_AMASK_MIN_1H, AT_AMASK_MIN_B1, AT_AMASK_BOOL_BH}},
    {offsetof(at_case, lens), 4, 7, {AT_LENS_FULL, AT_LENS_HALF, AT_LENS_RANDOM, AT_LENS_ZERO_FIRST, AT_LENS_ZERO_MID, AT_LENS_ZERO_LAST, AT_LENS_ONE}},
    {offsetof(at_case, bias), 3, 5, {AT_BIAS_ALIBI, AT_BIAS_REL_11, AT_BIAS_REL_1H, AT_BIAS_REL_B1, AT_BIAS_REL_BH}},
    {offsetof(at_case, sink), 3, 5, {AT_SINK_OFF1, AT_SINK_LEARNED, AT_SINK_LEARNED, AT_SINK_LEARNED, AT_SINK_LEARNED}},
    {offsetof(at_case, page), 2, 4, {1, 16, 64, 100}},
    {offsetof(at_case, deterministic), 4, 1, {1}},
    {offsetof(at_case, grads), 3, 4, {15, 23, 31, 1}},
    {offsetof(at_case, pass), 8, 2, {AT_PASS_FWD, AT_PASS_STATS}},
    {offsetof(at_case, exec), 1, 3, {AT_EXEC_ONCE, AT_EXEC_ONCE, AT_EXEC_REPLAY}},
};
/* clang-format on */

/* Around 1 - 2^-25, from where on a float is 1. */
static const double dropouts[] = {
    0.1, 0.5, 1e-50, 0.99999997019767750, 0.99999997019767761, 0.99999999999999989, 0.99};

static const int64_t archs[] = {AT_ARCH_SM80,  AT_ARCH_SM86,  AT_ARCH_SM87,  AT_ARCH_SM89,
                                AT_ARCH_SM90,  AT_ARCH_SM90,  AT_ARCH_SM90,  AT_ARCH_SM100,
                                AT_ARCH_SM100, AT_ARCH_SM103, AT_ARCH_SM110, AT_ARCH_SM120,
                                AT_ARCH_SM121};

typedef struct source {
    uint64_t seed, index;
    uint32_t next;
} source;

static uint64_t below(source *s, uint64_t n)
{
    return at_rng_below(s->seed, s->next++, s->index, n);
}

static void draw_few(at_case *c, source *s)
{
    bool heads_v = false, odt = false;
    at_case_init(c);
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
        const knob *k = &knobs[i];
        if (below(s, 16) < (uint64_t)k->chance) {
            const int64_t value = k->value[below(s, (uint64_t)k->count)];
            memcpy((char *)c + k->offset, &value, sizeof value);
            heads_v = heads_v || k->offset == offsetof(at_case, heads_v);
            odt = odt || k->offset == offsetof(at_case, odt);
        }
    }
    c->heads_v = heads_v ? c->heads_v : c->heads_kv;
    c->odt = odt ? c->odt : c->dtype;
    if (below(s, 2) == 0) {
        c->dim_v = c->dim_qk;
    }
    if (below(s, 6) == 0) {
        c->dropout = dropouts[below(s, sizeof dropouts / sizeof *dropouts)];
    }
    c->softcap = below(s, 64) == 0 ? 15 : 0;
}

/* What contradicts what was drawn goes. */
static void mend(at_case *c)
{
    const bool diagonal = c->mask != AT_MASK_NONE, train = c->pass == AT_PASS_TRAIN;
    c->invalid = c->heads_q % c->heads_kv != 0 || c->heads_q % c->heads_v != 0;
    c->align = diagonal || c->bias == AT_BIAS_ALIBI ? c->align : AT_ALIGN_TL;
    c->window_left = diagonal ? c->window_left : AT_UNBOUNDED;
    c->window_right = c->mask == AT_MASK_BAND ? c->window_right : AT_UNBOUNDED;
    c->page = train ? 0 : c->page;
    if ((c->layout == AT_THD || c->page > 0) && c->lens == AT_LENS_NONE) {
        c->lens = AT_LENS_FULL;
    }
    c->grads &=
        ~(c->bias < AT_BIAS_REL_11 ? AT_GRAD_B : 0) & ~(c->sink != AT_SINK_LEARNED ? AT_GRAD_S : 0);
    if (!train) {
        c->grads = AT_GRAD_Q | AT_GRAD_K | AT_GRAD_V;
        c->deterministic = 0;
        c->stride = c->stride == AT_STRIDE_DOUT_OTHER ? AT_STRIDE_PACKED : c->stride;
    }
    const bool fp8 = c->dtype == AT_F8E4M3 || c->dtype == AT_F8E5M2;
    if (!fp8 && (c->odt == AT_F8E4M3 || c->odt == AT_F8E5M2)) {
        c->odt = c->dtype;
    }
}

void at_frontend_case(at_case *out, uint64_t seed, uint64_t index, bool train)
{
    source s = {.seed = seed, .index = index};
    for (int i = 0; i < TRIES; i++) {
        if (below(&s, 4) == 0) {
            uint8_t bytes[BYTES];
            for (size_t k = 0; k < BYTES; k++) {
                bytes[k] = (uint8_t)below(&s, 256);
            }
            at_case_from_bytes(out, bytes, BYTES);
            out->exec = below(&s, 16) == 0 ? out->exec : AT_EXEC_ONCE;
            out->softcap = below(&s, 16) == 0 ? out->softcap : 0;
        } else {
            draw_few(out, &s);
        }
        out->pass = train ? AT_PASS_TRAIN : out->pass;
        out->arch = archs[below(&s, sizeof archs / sizeof *archs)];
        mend(out);
        if (at_case_check(out, NULL) == AT_OK) {
            return;
        }
    }
    at_case_init(out); /* 64 contradictions in a row */
    out->arch = AT_ARCH_SM90;
}
