/* What is right: the answer in fp64 from the stored inputs, with the error scale of every element.
 */
#ifndef AT_REFERENCE_H
#define AT_REFERENCE_H

#include "harness/problem/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a backend computes where libraries differ, declared as a part of its numeric class. Default
 * (all false): bias and ALiBi are added after the cap; ALiBi adds -slope |i + off - j| with slopes
 * 2^(-8 (h + 1) / H); LSE is natural and includes the sink. */
typedef struct at_variant {
    bool bias_before_cap; /* S = c tanh((scale q.k + bias) / c) */
    bool alibi_signed;    /* slope (j - i): the same but for a constant of the row where no key lies
                             beyond the diagonal, so that LSE differs */
    bool alibi_paper;     /* slopes of Press et al. 2022 where H is no power of two */
    bool lse_log2;        /* LSE in units of ln 2 */
    bool lse_without_sink; /* LSE over the keys alone; P has the sink all the same */
} at_variant;

/* How a backend computes, declared; bounds follow from this and from nothing else of the backend.
 */
typedef enum at_p_type { AT_P_STORED, AT_P_F32 } at_p_type;
typedef struct at_numeric_class {
    at_p_type p;        /* type of P and dS at the matrix multiply: the inputs' type, or f32 */
    bool scores_stored; /* S, P and dP are stored in the inputs' type (unfused), not in f32 */
    bool d_from_p;      /* D = sum P dP, not rowsum(dO * rounded O) */
    bool head_rounded;  /* dK, dV are rounded per head before the group sum */
    float p_unit;  /* what a stored 1 of P and of dS stands for at the multiply: fp8 alone is */
    float ds_unit; /* scaled before it is rounded; 0 = 1 */
    at_variant variant;
    bool inputs_scaled; /* q and k are each multiplied by sqrt(scale) and rounded to the inputs'
                           type before their product, as ONNX defines Attention */
} at_numeric_class;

/* What a backend promises where the mathematics is silent. Default (all zero): O = 0, LSE = -inf,
 * gradients 0 on dead rows; padded rows may hold anything finite or stay unwritten. */
typedef enum at_dead_o { AT_DEAD_O_ZERO, AT_DEAD_O_NAN, AT_DEAD_O_MEAN } at_dead_o;
typedef enum at_dead_lse {
    AT_DEAD_LSE_MINUS_INF,
    AT_DEAD_LSE_PLUS_INF,
    AT_DEAD_LSE_ANY
} at_dead_lse;
typedef enum at_dead_grads { AT_DEAD_GRADS_ZERO, AT_DEAD_GRADS_ANY } at_dead_grads;
typedef enum at_pad_rows { AT_PAD_ANY, AT_PAD_ZERO, AT_PAD_UNTOUCHED } at_pad_rows;
typedef struct at_contract {
    at_dead_o dead_o;
    at_dead_lse dead_lse;
    at_dead_grads dead_grads;
    at_pad_rows pad; /* rows of o, dq, dk, dv beyond a sequence's length in padded layouts */
} at_contract;

/* Which elements of a tensor the reference holds. A row is [b h s]; its dim elements are
 * contiguous. Complete: rows are all live rows in [b h s] order. Sampled: a subset, same order.
 * Padded rows (beyond the lengths) are never listed. */
typedef struct at_gold_tensor {
    int64_t rows, dim;
    int64_t (*row)[3];  /* [rows] b h s */
    double *ref;        /* [rows dim] */
    double *bound;      /* [rows dim] hard bound on |out - ref|, tier 1; >= 0 */
    double *sigma;      /* [rows dim] predicted standard deviation of out - ref */
    bool *dead;         /* [rows] q-side tensors: the row sees no key; NULL elsewhere */
    int64_t total_rows; /* live rows of the whole tensor */
} at_gold_tensor;

/* t[AT_O], t[AT_LSE] (dim 1), t[AT_DQ], t[AT_DK], t[AT_DV], t[AT_DBIAS], t[AT_DSINK] (one row a
 * head, dim 1); the others and those that the pass does not make have rows = 0 and NULL members.
 * Rows of dbias are [b|0 h|0 i] and as wide as the longest sequence that they serve. Dead rows: ref
 * O = 0, LSE = -inf, bound 0; beside a sink LSE is the sink's score and not dead. Tensors stored in
 * fp8 are in units of what is stored: value / p->unit[id]. */
typedef struct at_gold {
    at_gold_tensor t[AT_TENSOR_COUNT];
    double share;     /* judged elements / all live elements, 0..1 */
    const char *path; /* "golden" or "fast" */
} at_gold;

typedef enum at_reference_path {
    AT_REFERENCE_AUTO,   /* fast, sampled above the limit */
    AT_REFERENCE_GOLDEN, /* plain loops as the formula reads; complete */
    AT_REFERENCE_FAST    /* blocked, OpenMP, OpenBLAS; complete */
} at_reference_path;

typedef struct at_reference_options {
    at_reference_path path;
    at_numeric_class numeric;
    bool no_scale;       /* skip bound and sigma (NULL then): for benchmarks */
    double sample_above; /* multiply-adds beyond which AUTO samples; 0 = the default (2e10) */
} at_reference_options;

/* What the reference cannot do yet: AT_UNSUPPORTED, a reason code ("reference_bias") and a sentence
 * naming key and value; AT_OK when it can. Touches no data. */
AT_API at_status at_reference_supports(const at_case *c, char code[48],
                                       at_error *err) AT_MUST_CHECK;

/* Forward and, for pass=train, backward of the problem's stored inputs; with dropout, of the mask
 * that stands in `drop` (of the elements that a row sees all must be 0 or 1: AT_INVALID names the
 * first that is not). All memory comes from
 * `arena` (not the problem's own, so that it can be dropped alone). AT_UNSUPPORTED as above. */
AT_API at_status at_reference_run(at_gold *out, const at_problem *p,
                                  const at_reference_options *options, at_arena *arena,
                                  at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
