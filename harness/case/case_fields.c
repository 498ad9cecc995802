#include "harness/case/field.h"

#include <string.h>

static const char *const dtype_names[] = {"f32", "f16", "bf16", "f8e4m3", "f8e5m2", NULL};
static const char *const layout_names[] = {"bshd", "sbhd", "bhsd", "thd", NULL};
static const char *const pack_names[] = {"none", "qkv3h", "qkvh3", "kv2h", "kvh2", NULL};
static const char *const stride_names[] = {"packed",    "row_gap",    "head_gap", "offset",
                                           "expand_kv", "dout_other", NULL};
static const char *const mask_names[] = {"none", "causal", "band", NULL};
static const char *const align_names[] = {"tl", "br", NULL}; /* -1, -2 */
static const char *const amask_names[] = {"none",   "bool.11", "bool.b1", "bool.1h", "bool.bh",
                                          "add.11", "add.b1",  "add.1h",  "add.bh",  "min.11",
                                          "min.b1", "min.1h",  "min.bh",  NULL};
static const char *const lens_names[] = {"none",     "full",      "half", "random", "zero_first",
                                         "zero_mid", "zero_last", "one",  NULL};
static const char *const bias_names[] = {"none",   "alibi",  "rel.11", "rel.1h",
                                         "rel.b1", "rel.bh", NULL};
static const char *const scale_names[] = {"auto", NULL};
static const char *const sink_names[] = {"none", "off1", "learned", NULL};
static const char *const grads_names[] = {"q", "k", "v", "b", "s", NULL};
static const char *const pass_names[] = {"fwd", "stats", "train", NULL};
static const char *const exec_names[] = {"once", "cached", "replay", "side", "compile", NULL};
static const char *const fill_names[] = {"normal",   "small_int", "uniform01", "outlier",
                                         "peaky",    "lowrank",   "deep_neg",  "sink_heavy",
                                         "constant", "denormal",  NULL};
static const char *const arch_names[] = {"any",   "cpu",   "sm80",  "sm86",  "sm87",
                                         "sm89",  "sm90",  "sm100", "sm103", "sm110",
                                         "sm120", "sm121", NULL};

/* Members that every row has. */
#define KEY(name, member)                                                                          \
    .key = #name, .key_length = sizeof #name - 1, .offset = offsetof(at_case, member)
#define NAMES(list) .names = (list), .name_count = COUNT(list)
#define COUNT(list) ((int64_t)(sizeof(list) / sizeof *(list)) - 1)
#define SAME_AS(name, member) .same_as = #name, .same_offset = offsetof(at_case, member)
#define INT_ROW(name, member, low, high, standard)                                                 \
    KEY(name, member), .kind = AT_FIELD_INT, .min = (low), .max = (high), .init = (standard)
#define ENUM_ROW(name, member, list, standard)                                                     \
    KEY(name, member), .kind = AT_FIELD_ENUM, .max = COUNT(list) - 1, .init = (standard),          \
                       NAMES(list)
#define LIST_ROW(name, member)                                                                     \
    KEY(name, member),                                                                             \
        .kind = AT_FIELD_LIST, .max = 1 << 24,                                                     \
        .accepts = "none or up to 64 lengths 0..16777216 joined by +, such as 3+2+4"
#define REAL_ROW(name, member, low, high)                                                          \
    KEY(name, member), .kind = AT_FIELD_REAL, .real_min = (low), .real_max = (high)
#define LENGTH "an integer 0..16777216"
#define SIZE "an integer 1..4096"

const at_field at_case_fields[] = {
    {INT_ROW(b, batch, 0, 1 << 20, 1), .accepts = "an integer 0..1048576", .doc = "batch size"},
    {INT_ROW(hq, heads_q, 1, 4096, 1), .accepts = SIZE,
     .doc = "query heads; a multiple of hkv and of hv unless invalid=1"},
    {INT_ROW(hkv, heads_kv, 1, 4096, 1), SAME_AS(hq, heads_q), .accepts = SIZE, .doc = "key heads"},
    {INT_ROW(sq, len_q, 0, 1 << 24, 64), .accepts = LENGTH, .doc = "query rows of a sequence"},
    {INT_ROW(skv, len_kv, 0, 1 << 24, 64), SAME_AS(sq, len_q), .accepts = LENGTH,
     .doc = "keys of a sequence"},
    {INT_ROW(dqk, dim_qk, 1, 4096, 64), .accepts = SIZE, .doc = "head dim of q and k"},
    {INT_ROW(dv, dim_v, 1, 4096, 64), SAME_AS(dqk, dim_qk), .accepts = SIZE,
     .doc = "head dim of v and o"},
    {INT_ROW(hv, heads_v, 1, 4096, 1), SAME_AS(hkv, heads_kv), .accepts = SIZE,
     .doc = "value heads, where they differ from the key heads"},
    {INT_ROW(invalid, invalid, 0, 1, 0), .accepts = "0 or 1",
     .doc = "1 marks heads that do not divide: every backend must refuse cleanly"},
    {ENUM_ROW(dtype, dtype, dtype_names, AT_BF16), .accepts = "one of f32 f16 bf16 f8e4m3 f8e5m2",
     .doc = "storage of q, k, v; fp8 adds one scale a tensor"},
    {ENUM_ROW(odt, odt, dtype_names, AT_BF16), SAME_AS(dtype, dtype),
     .accepts = "one of f32 f16 bf16 f8e4m3 f8e5m2", .doc = "storage of o and its gradient"},
    {ENUM_ROW(layout, layout, layout_names, AT_BSHD), .accepts = "one of bshd sbhd bhsd thd",
     .doc = "memory order; thd packs sequences of different length"},
    {ENUM_ROW(pack, pack, pack_names, AT_PACK_NONE), .accepts = "one of none qkv3h qkvh3 kv2h kvh2",
     .doc = "q, k, v (k, v) as slices of one buffer; the suffix says where the 3 (2) stands; "
            "qkv with thd shares q's lengths"},
    {ENUM_ROW(stride, stride, stride_names, AT_STRIDE_PACKED),
     .accepts = "one of packed row_gap head_gap offset expand_kv dout_other",
     .doc =
         "one kind of non-contiguity, aligned to 16 bytes: row_gap, head_gap leave 16 elements "
         "unused after each row or head of q k v do o dq dk dv; offset starts them 16 bytes into "
         "their buffers; expand_kv gives all heads of k and v (one head: all sequences) the same "
         "memory by stride 0; dout_other puts do into another layout"},
    {ENUM_ROW(mask, mask, mask_names, AT_MASK_NONE), .accepts = "one of none causal band",
     .doc = "what the caller passes: no mask, a causal flag, or a window"},
    {INT_ROW(align, align, 0, 1 << 24, AT_ALIGN_TL), NAMES(align_names),
     .accepts = "tl, br or an integer 0..16777216",
     .doc = "offset of the diagonal: tl 0, br len_kv - len_q, or the number of keys already "
            "in the cache"},
    {INT_ROW(wl, window_left, -1, 1 << 24, AT_UNBOUNDED), .accepts = "an integer -1..16777216",
     .doc = "keys left of the diagonal that a row sees; -1 unbounded"},
    {INT_ROW(wr, window_right, -1, 1 << 24, AT_UNBOUNDED), .accepts = "an integer -1..16777216",
     .doc = "keys right of the diagonal that a row sees; -1 unbounded"},
    {ENUM_ROW(amask, amask, amask_names, AT_AMASK_NONE),
     .accepts = "none or one of bool add min with a broadcast .11 .b1 .1h .bh, such as bool.b1",
     .doc =
         "dense mask: boolean (1 = seen), additive -inf, or additive lowest number of the dtype"},
    {INT_ROW(deadrows, dead_rows, 0, 1, 0), .accepts = "0 or 1",
     .doc =
         "1: some rows have no key: the dense mask is drawn so; of a band alone it only says that "
         "the window and lengths leave such rows"},
    {ENUM_ROW(lens, lens, lens_names, AT_LENS_NONE),
     .accepts = "one of none full half random zero_first zero_mid zero_last one",
     .doc = "lengths of each sequence, q and kv drawn independently; none: not passed"},
    {LIST_ROW(lenq, lens_q), .doc = "explicit query lengths, one a sequence"},
    {LIST_ROW(lenkv, lens_kv), .doc = "explicit key lengths, one a sequence"},
    {INT_ROW(gap, gap, 0, 65536, 0), .accepts = "an integer 0..65536",
     .doc = "unused tokens between thd sequences"},
    {ENUM_ROW(bias, bias, bias_names, AT_BIAS_NONE),
     .accepts = "one of none alibi rel.11 rel.1h rel.b1 rel.bh", .doc = "additive bias"},
    {REAL_ROW(softcap, softcap, 0, 1e30), .accepts = "a number 0..1e30",
     .doc = "tanh cap of the scores; 0 off"},
    {REAL_ROW(scale, scale, -1e30, 1e30), .real_init = AT_SCALE_AUTO, NAMES(scale_names),
     .accepts = "auto or a number -1e30..1e30", .doc = "softmax scale; auto is 1/sqrt(dqk)"},
    {ENUM_ROW(sink, sink, sink_names, AT_SINK_NONE), .accepts = "one of none off1 learned",
     .doc = "softmax sink: none, one more key of score 0, or a learned score a head"},
    {REAL_ROW(dropout, dropout, 0, 1), .max_open = true, .accepts = "a number 0 <= x < 1",
     .doc = "dropout probability"},
    {INT_ROW(page, page, 0, 1024, 0), .accepts = "an integer 0..1024",
     .doc = "keys of one page of a paged cache, [pages page h d] (bhsd: [pages h page d]), with a "
            "shuffled page table; 0 not paged"},
    {INT_ROW(splits, splits, 0, 1024, 0), .accepts = "an integer 0..1024",
     .doc = "split-KV count; 0 is the backend's choice"},
    {INT_ROW(det, deterministic, 0, 1, 0), .accepts = "0 or 1",
     .doc = "1: the caller asks for a deterministic backward"},
    {KEY(grads, grads), .kind = AT_FIELD_SET, .min = 1, .max = (1 << COUNT(grads_names)) - 1,
     .init = AT_GRAD_Q | AT_GRAD_K | AT_GRAD_V, NAMES(grads_names),
     .accepts = "one or more of the letters q k v b s, such as qkvb",
     .doc = "inputs that require a gradient (b bias, s sink)"},
    {ENUM_ROW(pass, pass, pass_names, AT_PASS_TRAIN), .accepts = "one of fwd stats train",
     .doc = "inference, forward with log-sum-exp, or forward and backward"},
    {ENUM_ROW(exec, exec, exec_names, AT_EXEC_ONCE),
     .accepts = "one of once cached replay side compile",
     .doc = "plain call, second call of a cached plan, CUDA graph replay, side stream, "
            "torch.compile"},
    {ENUM_ROW(fill, fill, fill_names, AT_FILL_NORMAL),
     .accepts = "one of normal small_int uniform01 outlier peaky lowrank deep_neg sink_heavy "
                "constant denormal",
     .doc = "distribution of the input values"},
    {KEY(seed, seed), .kind = AT_FIELD_U64, .accepts = "an integer 0..18446744073709551615",
     .doc = "seed of the inputs, lengths and masks"},
    {ENUM_ROW(arch, arch, arch_names, AT_ARCH_ANY),
     .accepts = "one of any cpu sm80 sm86 sm87 sm89 sm90 sm100 sm103 sm110 sm120 sm121",
     .doc = "target of audits; a live backend of another arch answers UNSUPPORTED"},
};
const size_t at_case_field_count = sizeof at_case_fields / sizeof *at_case_fields;

const at_field *at_case_field(const char *key, size_t key_length)
{
    for (size_t i = 0; i < at_case_field_count; i++) {
        const at_field *f = &at_case_fields[i];
        if (f->key_length == key_length && memcmp(f->key, key, key_length) == 0) {
            return f;
        }
    }
    return NULL;
}

int64_t at_case_get(const at_case *c, const at_field *f)
{
    int64_t value = 0;
    AT_ASSERT(f->kind != AT_FIELD_REAL && f->kind != AT_FIELD_LIST);
    memcpy(&value, (const char *)c + f->offset, sizeof value);
    return value;
}

void at_case_set(at_case *c, const at_field *f, int64_t value)
{
    AT_ASSERT(f->kind != AT_FIELD_REAL && f->kind != AT_FIELD_LIST);
    memcpy((char *)c + f->offset, &value, sizeof value);
}

bool at_case_same(const at_case *a, const at_case *b, const at_field *f)
{
    if (f->kind == AT_FIELD_REAL) {
        return at_case_get_real(a, f) == at_case_get_real(b, f);
    }
    if (f->kind == AT_FIELD_LIST) {
        const at_len_list *x = at_case_get_list(a, f), *y = at_case_get_list(b, f);
        return x->n == y->n && memcmp(x->len, y->len, (size_t)x->n * sizeof x->len[0]) == 0;
    }
    return at_field_int(a, f->offset) == at_field_int(b, f->offset);
}

int at_amask_broadcast(at_amask m)
{
    return m == AT_AMASK_NONE ? 0 : ((int)m - 1) & 3;
}

int at_bias_broadcast(at_bias b)
{
    static const int of[] = {0, 0, 0, 2, 1, 3};
    return of[b];
}
