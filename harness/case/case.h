/* The case language: one attention problem as a plain value and as one shell-safe word. */
#ifndef AT_CASE_H
#define AT_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/json.h"
#include "harness/problem/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enumerators stand in the order of their names in the field table; 0 is the default, except where
 * the table says otherwise (dtype: bf16; pass: train). */
typedef enum at_layout { AT_BSHD, AT_SBHD, AT_BHSD, AT_THD } at_layout;
typedef enum at_pack {
    AT_PACK_NONE,
    AT_PACK_QKV3H,
    AT_PACK_QKVH3,
    AT_PACK_KV2H,
    AT_PACK_KVH2
} at_pack;
typedef enum at_stride_kind {
    AT_STRIDE_PACKED,
    AT_STRIDE_ROW_GAP,
    AT_STRIDE_HEAD_GAP,
    AT_STRIDE_OFFSET,
    AT_STRIDE_EXPAND_KV,
    AT_STRIDE_DOUT_OTHER
} at_stride_kind;
typedef enum at_mask { AT_MASK_NONE, AT_MASK_CAUSAL, AT_MASK_BAND } at_mask;
typedef enum at_amask { /* kind.broadcast; see at_amask_broadcast */
                        AT_AMASK_NONE,
                        AT_AMASK_BOOL_11,
                        AT_AMASK_BOOL_B1,
                        AT_AMASK_BOOL_1H,
                        AT_AMASK_BOOL_BH,
                        AT_AMASK_ADD_11,
                        AT_AMASK_ADD_B1,
                        AT_AMASK_ADD_1H,
                        AT_AMASK_ADD_BH,
                        AT_AMASK_MIN_11,
                        AT_AMASK_MIN_B1,
                        AT_AMASK_MIN_1H,
                        AT_AMASK_MIN_BH
} at_amask;
typedef enum at_lens {
    AT_LENS_NONE,
    AT_LENS_FULL,
    AT_LENS_HALF,
    AT_LENS_RANDOM,
    AT_LENS_ZERO_FIRST,
    AT_LENS_ZERO_MID,
    AT_LENS_ZERO_LAST,
    AT_LENS_ONE
} at_lens;
typedef enum at_bias {
    AT_BIAS_NONE,
    AT_BIAS_ALIBI,
    AT_BIAS_REL_11,
    AT_BIAS_REL_1H,
    AT_BIAS_REL_B1,
    AT_BIAS_REL_BH
} at_bias;
typedef enum at_sink { AT_SINK_NONE, AT_SINK_OFF1, AT_SINK_LEARNED } at_sink;
typedef enum at_pass { AT_PASS_FWD, AT_PASS_STATS, AT_PASS_TRAIN } at_pass;
typedef enum at_exec {
    AT_EXEC_ONCE,
    AT_EXEC_CACHED,
    AT_EXEC_REPLAY,
    AT_EXEC_SIDE,
    AT_EXEC_COMPILE
} at_exec;
typedef enum at_fill {
    AT_FILL_NORMAL,
    AT_FILL_SMALL_INT,
    AT_FILL_UNIFORM01,
    AT_FILL_OUTLIER,
    AT_FILL_PEAKY,
    AT_FILL_LOWRANK,
    AT_FILL_DEEP_NEG,
    AT_FILL_SINK_HEAVY,
    AT_FILL_CONSTANT,
    AT_FILL_DENORMAL
} at_fill;
typedef enum at_arch {
    AT_ARCH_ANY,
    AT_ARCH_CPU,
    AT_ARCH_SM80,
    AT_ARCH_SM86,
    AT_ARCH_SM87,
    AT_ARCH_SM89,
    AT_ARCH_SM90,
    AT_ARCH_SM100,
    AT_ARCH_SM103,
    AT_ARCH_SM110,
    AT_ARCH_SM120,
    AT_ARCH_SM121
} at_arch;
enum { AT_GRAD_Q = 1, AT_GRAD_K = 2, AT_GRAD_V = 4, AT_GRAD_B = 8, AT_GRAD_S = 16 };

#define AT_ALIGN_TL (-1)                   /* off = 0 */
#define AT_ALIGN_BR (-2)                   /* off = len_kv - len_q of each sequence */
#define AT_UNBOUNDED (-1)                  /* wl, wr */
#define AT_SCALE_AUTO __builtin_huge_val() /* 1/sqrt(dim_qk) */
enum { AT_LEN_LIST_MAX = 64, AT_CASE_TEXT_MAX = 2048, AT_ID_TEXT = 17 };

/* An explicit length list: n = 0 when it is not given. */
typedef struct at_len_list {
    int32_t n;
    int32_t len[AT_LEN_LIST_MAX];
} at_len_list;

/* A plain value; equal cases compare equal with at_case_equal. All members are resolved: a default
 * that refers to another key (hkv = hq) holds that key's value. */
typedef struct at_case {
    int64_t batch, heads_q, heads_kv, len_q, len_kv, dim_qk, dim_v, heads_v;
    int64_t invalid;
    int64_t dtype;  /* at_dtype */
    int64_t odt;    /* at_dtype */
    int64_t layout; /* at_layout */
    int64_t pack, stride;
    int64_t mask;  /* at_mask */
    int64_t align; /* AT_ALIGN_TL, AT_ALIGN_BR or the offset >= 0 */
    int64_t window_left, window_right;
    int64_t amask, dead_rows;
    int64_t lens; /* at_lens */
    at_len_list lens_q, lens_kv;
    int64_t gap;
    int64_t bias;
    double softcap, scale;
    int64_t sink;
    double dropout;
    int64_t page, splits, deterministic;
    int64_t grads; /* AT_GRAD_* */
    int64_t pass;  /* at_pass */
    int64_t exec, fill;
    uint64_t seed;
    int64_t arch; /* at_arch */
} at_case;

/* One row of the field table: drives text, JSON, range checks, byte decoding, shrinking, docs. */
typedef enum at_field_kind {
    AT_FIELD_INT,  /* int64_t in [min, max], or one of `names` standing for -1, -2, ... */
    AT_FIELD_ENUM, /* int64_t index into names */
    AT_FIELD_SET,  /* int64_t bit set; names[i] is one letter for bit i; never empty */
    AT_FIELD_REAL, /* double in [real_min, real_max], or names[0] standing for AT_SCALE_AUTO */
    AT_FIELD_U64,
    AT_FIELD_LIST /* at_len_list, items joined by '+'; "none" when n = 0 */
} at_field_kind;

typedef struct at_field {
    const char *key;
    size_t key_length, offset;
    at_field_kind kind;
    int64_t min, max; /* INT: numbers accepted; ENUM, SET: values; LIST: item range */
    double real_min, real_max;
    bool max_open;            /* REAL: real_max itself is not accepted */
    int64_t init;             /* default of INT, ENUM, SET, U64 */
    double real_init;         /* default of REAL */
    const char *same_as;      /* key whose value is the default, or NULL */
    size_t same_offset;       /* its offset */
    const char *const *names; /* NULL-terminated, or NULL */
    int64_t name_count;
    const char *accepts; /* for error sentences and docs: "an integer 1..65536" */
    const char *doc;
} at_field;

AT_API extern const at_field at_case_fields[]; /* canonical order */
AT_API extern const size_t at_case_field_count;
AT_API const at_field *at_case_field(const char *key, size_t key_length); /* NULL: unknown */

/* Value of an INT, ENUM, SET or U64 field, and assignment without any check. */
AT_API int64_t at_case_get(const at_case *c, const at_field *f);
AT_API void at_case_set(at_case *c, const at_field *f, int64_t value);

/* The default case: b=1, one head, 64 x 64, dim 64, bf16, training. */
AT_API void at_case_init(at_case *out);

/* Strict: unknown or repeated key, bad value, contradiction -> AT_INVALID and one sentence that
 * names the key and what it accepts. Keys may come in any order. */
AT_API at_status at_case_parse(at_case *out, const char *text, at_error *err) AT_MUST_CHECK;

/* Assigns one key from text without checking contradictions (suites build cases this way; call
 * at_case_resolve and at_case_check when all keys are set). `given` is a bit set over the table's
 * rows that records which keys were set; at_case_resolve fills the others. */
AT_API at_status at_case_assign(at_case *c, uint64_t *given, const char *key, size_t key_length,
                                const char *value, size_t value_length,
                                at_error *err) AT_MUST_CHECK;
AT_API void at_case_resolve(at_case *c, uint64_t given);

/* Contradictions between keys: AT_INVALID and a sentence. */
AT_API at_status at_case_check(const at_case *c, at_error *err) AT_MUST_CHECK;

/* Canonical text: table order, defaults left out ("b=1" when nothing is left). Returns the length;
 * always fits AT_CASE_TEXT_MAX. */
AT_API size_t at_case_print(const at_case *c, char text[AT_CASE_TEXT_MAX]);

/* Text of one key's value, as in the case text. Returns the length. */
AT_API size_t at_case_value(const at_case *c, const at_field *f, char text[AT_CASE_TEXT_MAX]);

/* First 16 hex digits of the SHA-256 of the canonical text. */
AT_API void at_case_id(const at_case *c, char id[AT_ID_TEXT]);

AT_API bool at_case_equal(const at_case *a, const at_case *b);

/* Object with the non-default keys; numbers as numbers, seed as a decimal string. */
AT_API at_json *at_case_to_json(const at_case *c);
AT_API at_status at_case_from_json(at_case *out, const at_json *object,
                                   at_error *err) AT_MUST_CHECK;

/* Total: any bytes give a case that at_case_check accepts (invalid=0); missing bytes give minima.
 * Sizes stay small (len <= 512, dims <= 256, batch <= 4, heads <= 8). */
AT_API void at_case_from_bytes(at_case *out, const uint8_t *bytes, size_t n);

/* Broadcast of a dense mask or bias: bit 0 batch, bit 1 heads. */
AT_API int at_amask_broadcast(at_amask m);
AT_API int at_bias_broadcast(at_bias b);

#ifdef __cplusplus
}
#endif
#endif
