/* A case made concrete: inputs, poisoned and guarded outputs, per-sequence lengths. */
#ifndef AT_PROBLEM_H
#define AT_PROBLEM_H

#include "harness/case/case.h"
#include "harness/problem/arena.h"
#include "harness/problem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names in at_tensor_names[]: q k v do o lse dq dk dv bias amask sink pages drop dbias dsink. The
 * value is the tensor's random stream. */
typedef enum at_tensor_id {
    AT_Q,
    AT_K,
    AT_V,
    AT_DO,
    AT_O,
    AT_LSE,
    AT_DQ,
    AT_DK,
    AT_DV,
    AT_BIAS,
    AT_AMASK,
    AT_SINK,
    AT_PAGES,
    AT_DROP,
    AT_DBIAS,
    AT_DSINK,
    AT_TENSOR_COUNT
} at_tensor_id;
AT_API extern const char *const at_tensor_names[];

AT_API bool at_tensor_is_input(at_tensor_id id);    /* q k v do bias amask sink pages */
AT_API bool at_tensor_is_gradient(at_tensor_id id); /* dq dk dv dbias dsink */
AT_API bool at_tensor_has_keys(at_tensor_id id);    /* rows are keys: k v dk dv */

/* in:  q     [batch heads_q  len_q  dim_qk] dtype   k  [batch heads_kv len_kv dim_qk] dtype
 *      v     [batch heads_v  len_kv dim_v ] dtype   do [batch heads_q len_q dim_v] odt
 *      bias  [1|batch 1|heads_q len_q len_kv] dtype (f32 beside fp8), for bias=rel.*; added to the
 *            scores after the cap
 *      amask [1|batch 1|heads_q len_q len_kv] bool: u8, 1 = the row sees the key; add, min: dtype
 *            (f32 beside fp8), 0 there, elsewhere -inf or the dtype's lowest number, to be added
 *      sink  [1 heads_q 1 1] f32, a score of its own for sink=learned; sink=off1 is a score of 0
 *      pages [batch 1 1 pages] i32, where k and v are paged; see at_tensor
 * out: o     [batch heads_q  len_q  dim_v ] odt     lse [batch heads_q len_q 1] f32, natural log,
 *      dq dk dv like q k v                          dense in [b h s] whatever the layout
 *      drop  [batch heads_q len_q len_kv] u8, 1 = kept, 0 = dropped: the mask that the forward
 * used, from backends that hand it out (AT_PROMISES_MASK); where nobody looks it may stay unwritten
 *      dbias like bias, summed over what it is broadcast over; dsink like sink
 * `do`, `dq`.. exist for pass=train, lse for stats and train, dbias and dsink where `grads` asks;
 * elsewhere data is NULL. dq dk dv exist whichever `grads` asks for; only those asked for are
 * judged. Memory order, gaps and shared buffers are described in strides.h. */
typedef struct at_problem {
    at_case c;
    double scale;          /* resolved */
    const int64_t *len_q;  /* [batch] live rows of each sequence */
    const int64_t *len_kv; /* [batch] live keys of each sequence */
    const int64_t *diag;   /* [batch] off: key j is on row i's diagonal when j = i + off */
    const int64_t
        *start_q; /* [batch + 1] thd: first token of each sequence, then the total; else NULL */
    const int64_t *start_kv;
    at_tensor t[AT_TENSOR_COUNT];
    /* What a stored 1 stands for, per tensor: 1, except in fp8, where it is the scale (q k v do:
     * the value is unit * stored; o dq dk dv: the backend stores round(value / unit)). */
    float unit[AT_TENSOR_COUNT];
    at_arena *arena; /* owns all of the above */
    /* The buffers: one a tensor, or one for all slices of a fused one, at its first slice (`home`).
     */
    at_tensor_id home[AT_TENSOR_COUNT];
    void *base[AT_TENSOR_COUNT];   /* start of the buffer; NULL: none, or it is another's */
    size_t size[AT_TENSOR_COUNT];  /* bytes of the buffer; 0 where base is NULL */
    void *shadow[AT_TENSOR_COUNT]; /* bitwise copy of each input buffer */
    uint64_t
        *cover[AT_TENSOR_COUNT]; /* output buffers with gaps: a bit an element, 1 = in a tensor */
} at_problem;

/* Lengths, guarded buffers, inputs generated and copied to the shadow, outputs poisoned. The arena
 * owns everything: reset or close it to release the problem. For a case that at_case_check accepts:
 * AT_NO_MEMORY at worst.
 * Lengths by `lens`, q and kv drawn independently from the seed: none, full: the full length; half:
 * ceil(len / 2); one: min(1, len); random: uniform in 1..len (0 when len is 0); zero_first,
 * zero_mid, zero_last: random, except that sequence 0, batch / 2 or batch - 1 is empty: seed % 3 =
 * 0: q and kv, 1: kv only (dead rows), 2: q only. lenq and lenkv say it themselves. q, k and v of
 * one packed thd buffer share the lengths of q. Dense masks: fill_mask.c. Paged caches: tokens
 * beyond a sequence's length and pages that nobody uses hold garbage, and every entry of the table
 * is the number of some page. */
AT_API at_status at_problem_open(at_problem *out, const at_case *c, at_arena *arena,
                                 at_error *err) AT_MUST_CHECK;

/* Live key range of row i of sequence b: keys first..last inclusive, empty when first > last.
 * Covers causal, band, align and lengths (not dense masks). */
AT_API void at_problem_keys(const at_problem *p, int64_t b, int64_t i, int64_t *first,
                            int64_t *last);

/* Row i of query head h sees no key: by window, lengths, or a dense mask of kind bool or add. */
AT_API bool at_problem_is_dead(const at_problem *p, int64_t b, int64_t h, int64_t i);

/* Rows of sequence b of a tensor that mean something: its length; of bias and dbias that serve all
 * sequences the longest of them; 1 for sinks. */
AT_API int64_t at_problem_live_rows(const at_problem *p, at_tensor_id id, int64_t b);

/* Elements of such a row that mean something: for bias and dbias the keys of the sequence, of those
 * that serve all sequences the most; otherwise all. */
AT_API int64_t at_problem_live_columns(const at_problem *p, at_tensor_id id, int64_t b);

/* What bias=alibi adds: -at_alibi_slope |i + off - j|, slope 2^(-8 (h + 1) / heads_q). */
AT_API double at_alibi_slope(const at_case *c, int64_t h);

/* Poison again the outputs first..last before another launch: o lse dq dk dv; drop comes with o,
 * and dbias and dsink with dv. Of a fused buffer all slices are poisoned. */
AT_API void at_problem_poison(const at_problem *p, at_tensor_id first, at_tensor_id last);

/* What the exact tier found in memory after a launch. */
typedef enum at_memory_fault {
    AT_MEMORY_OK,
    AT_MEMORY_OVERRUN,  /* a guard band, a stride gap or a gap between sequences was written */
    AT_MEMORY_CLOBBERED /* an input changed */
} at_memory_fault;
/* Checks all guard bands, gaps and inputs, overruns first; `tensor` and `what` ("dv: memory was
 * written 12 bytes past the end of the buffer") are set unless it is AT_MEMORY_OK. */
AT_API at_memory_fault at_problem_check_memory(const at_problem *p, at_tensor_id *tensor,
                                               at_error *what);

/* Element [b h s d] (over the full lengths) of an input before storage rounding; it is a float.
 * bias is [b h i j] (0 along broadcast dimensions), sink [0 h 0 0], amask 1 where row i sees key j
 * and 0 elsewhere, whatever its kind. The same value everywhere for equal cases. Rows beyond a
 * length and keys that no row sees have values too: garbage of magnitude 32..63. The distributions
 * are described in fill_kinds.c. */
AT_API double at_fill_value(const at_case *c, at_tensor_id tensor, int64_t b, int64_t h, int64_t s,
                            int64_t d);

/* Writes one contiguous NumPy array [batch heads len dim] (version 1.0 .npy, little endian):
 * f32, f16 as they are; bf16 and fp8 as f32. len [batch] are the lengths of packed sequences (thd):
 * rows beyond them are not in memory and are written as NaN; NULL when t->start is NULL. */
AT_API at_status at_npy_write_tensor(const char *path, const at_tensor *t, const int64_t *len,
                                     at_error *err) AT_MUST_CHECK;
/* n doubles of the given shape. */
AT_API at_status at_npy_write_double(const char *path, const double *values, const int64_t *shape,
                                     int rank, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
