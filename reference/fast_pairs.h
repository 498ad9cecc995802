/* Loops over the pairs of one score row and consecutive keys: probabilities, dS and the
 * coefficients of the error scale, in vectors. */
#ifndef AT_FAST_PAIRS_H
#define AT_FAST_PAIRS_H

#include "reference/noise.h"

/* One row's stretch of n keys. squares, dp_squares: f32 sums of squared products, to be multiplied
 * by their factors (scale^2 and the units of the forms they came from). */
typedef struct at_fast_pairs {
    const at_noise *m;
    const at_row *row;
    int64_t n;
    const double *raw; /* scale q.k */
    const double *add; /* what is added after the cap, -HUGE_VAL: hidden; NULL: nothing */
    const float *squares;
    double squares_factor;
    double *p;
    const double *keep; /* factors of dropout, NULL: none; dp and dp_squares have them */
    const double *dp;
    const float *dp_squares;
    double dp_factor;
} at_fast_pairs;

/* Coefficients are stored in units of e (a) and e^2 (c, w). */
#define AT_FAST_UNITS 0x1p24

/* Largest score, sum, LSE and number of live keys of the row over all its keys (raw, add, n), with
 * its sink where the model has one. Returns the index of the likeliest key. A row whose keys are
 * all hidden ends with keys = 0 and P = 0. */
int64_t at_fast_softmax(const at_noise *m, at_row *row, const double *raw, const double *add,
                        int64_t n);

/* p = exp(s - max) inv_sum. */
void at_fast_probabilities(const at_fast_pairs *x);

/* ds = slope p (dp - d). */
void at_fast_gradients(const at_fast_pairs *x, double *ds);

/* Coefficients of O: a, c, w of at_noise_of_p; adds to the sums. */
void at_fast_p_terms(const at_fast_pairs *x, float *a, float *c, float *w, at_noise_p_sums *sums);

/* Coefficients of dQ, times `unit` (a) and unit^2 (c); mass = slope p. `sums` of D's variance grow;
 * a, c and mass may be NULL together. */
void at_fast_dq_terms(const at_fast_pairs *x, double unit, float *a, float *c, float *mass,
                      at_noise_d *sums);

/* What the key pass knows of each of n key columns. The largest P and dS (or what their noise is
 * made of, where dP - D cancels) bring their coefficients into f32's range: units are powers of two
 * near 1 / largest. */
typedef struct at_fast_columns {
    const double *count_k, *count_v; /* additions in the chains of dK and dV */
    double *p_most, *ds_most;
    double *p_unit, *ds_unit;
} at_fast_columns;

/* Raises p_most and ds_most by one row. */
void at_fast_column_most(const at_fast_pairs *x, const at_fast_columns *columns);

/* Coefficients of dV (a_p, c_p) and dK (a_ds, c_ds), times the columns' units and their squares;
 * k_p, k_ds: known errors, times the units. */
typedef struct at_fast_column_terms {
    float *a_p, *c_p, *a_ds, *c_ds, *k_p, *k_ds;
} at_fast_column_terms;
void at_fast_key_terms(const at_fast_pairs *x, const at_fast_columns *columns,
                       const at_fast_column_terms *out);

#endif
