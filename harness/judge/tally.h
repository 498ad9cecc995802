/* What the judge counts on the rows of one tensor: issues with an example each, and statistics.
 * Used inside harness/judge only. */
#ifndef AT_TALLY_H
#define AT_TALLY_H

#include <math.h>

#include "harness/judge/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything that can be wrong with an element; tally.c's table gives each its verdict. */
typedef enum at_issue {
    AT_ISSUE_REFERENCE, /* the reference or its bound is not a number: ours */
    AT_ISSUE_UNWRITTEN,
    AT_ISSUE_NAN,
    AT_ISSUE_INF,
    AT_ISSUE_INF_UNSAMPLED, /* infinite where no reference stands */
    AT_ISSUE_FINITE,        /* finite where the reference is infinite */
    AT_ISSUE_DEAD_NAN,      /* not finite on a row without keys, against the contract */
    AT_ISSUE_DEAD,
    AT_ISSUE_PAD_NAN, /* not finite beyond the sequence's length */
    AT_ISSUE_PAD,
    AT_ISSUE_BOUND,
    AT_ISSUE_COUNT
} at_issue;

/* n elements with the issue; the first of them, or for AT_ISSUE_BOUND the worst by err / bound. */
typedef struct at_example {
    int64_t n;
    int64_t index[4];
    double got, want, bound, ratio;
} at_example;

/* How the elements of one tensor are stored. */
typedef struct at_rule {
    at_dtype dtype;
    int64_t dim;
    double max; /* largest finite stored value */
    uint32_t poison;
} at_rule;

/* The tile of 16 rows and the block of 64 rows of one head that a walk is in. */
enum { AT_PATCH_COLUMNS = 8, AT_PATCH_ROWS = 16, AT_BLOCK_ROWS = 64, AT_PATCHES = 512 };
typedef struct at_patch {
    int64_t b, h, tile, block; /* tile < 0: none yet */
    double z2[AT_PATCHES], block_z2;
    int64_t n[AT_PATCHES], block_n; /* elements */
    int used;                       /* of z2, n; columns past 4096 belong to no tile */
} at_patch;

/* The least likely of a number of groups of elements by its rms. */
typedef struct at_least {
    double log_tail, rms; /* log10 of its probability */
    int64_t groups;
} at_least;

/* Order-dependent sums are merged in row order, so that threads change no bit. */
typedef struct at_tally {
    at_example issue[AT_ISSUE_COUNT];
    at_example worst; /* of the comparable elements, by err / bound; n counts them */
    int64_t checked;  /* live elements looked at, with or without a reference */
    int64_t unwritten_rows;
    int64_t listed; /* rows that the reference holds */
    double max_z, sum_z2, sum_bias, max_error;
    double outliers;
    at_least row, tile, block;
    at_patch *patch; /* of the walk; NULL: tiles and blocks are not looked at */
} at_tally;

/* What a row must hold where there is nothing to compute. */
typedef enum at_expect {
    AT_EXPECT_VALUE,    /* `want` within `bound`, element by element */
    AT_EXPECT_NAN,      /* NaN, but written */
    AT_EXPECT_FINITE,   /* anything finite, or never written */
    AT_EXPECT_UNTOUCHED /* the poison pattern */
} at_expect;

/* Tier 1 for one element. Written so that NaN anywhere fails; where the reference, within its
 * bound, leaves the range of the stored type, an infinite result is right, and in fp8 the largest
 * number, at which kernels saturate. */
static inline bool at_rule_passes(const at_rule *rule, double got, double ref, double bound)
{
    if (fabs(got - ref) <= bound) {
        return true;
    }
    if (isinf(ref)) {
        return got == ref;
    }
    bool fp8 = rule->dtype == AT_F8E4M3 || rule->dtype == AT_F8E5M2;
    bool largest = isinf(got) || (fp8 && fabs(got) >= rule->max);
    return largest && bound >= 0 && fabs(ref) + bound > rule->max && (got > 0) == (ref > 0);
}

at_rule at_rule_of(const at_tensor *t);

/* Row [b h s] with a reference: dim values of ref, bound, sigma. `stored`: dim elements. */
void at_tally_compare(at_tally *t, const at_rule *rule, const int64_t row[3], const void *stored,
                      const double *ref, const double *bound, const double *sigma);

/* Live row without a reference: written and finite. */
void at_tally_classes(at_tally *t, const at_rule *rule, const int64_t row[3], const void *stored);

/* Row under a contract; `nan` and `other` are the issues that a breach counts as. AT_EXPECT_VALUE
 * wants `want` within `bound`, [dim] each; NULL stands for zeros. */
void at_tally_expect(at_tally *t, const at_rule *rule, const int64_t row[3], const void *stored,
                     at_expect expect, const double *want, const double *bound, at_issue nan,
                     at_issue other);

/* Starts a walk with its patch, and closes the tile and block that it is in. */
void at_tally_begin(at_tally *t, at_patch *patch);
void at_tally_end(at_tally *t);

/* Adds the tally of later rows. */
void at_tally_merge(at_tally *t, const at_tally *later);

/* The measures, status, reason and sentence of a tensor. */
void at_tally_conclude(at_measure *m, const at_tally *t, const char *tensor, int64_t dim);

#ifdef __cplusplus
}
#endif
#endif
