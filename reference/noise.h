/* The error scale: how far a healthy kernel of a numeric class may be from the reference, element
 * by element. Model functions shared by the golden and the fast path. */
#ifndef AT_NOISE_H
#define AT_NOISE_H

#include <math.h>

#include "harness/clones.h"
#include "reference/reference.h"

/* Every constant of the model. x stands for the value that is rounded, "units" for u |x|. */
#define AT_NOISE_E 0x1p-24 /* unit roundoff of f32: every kernel accumulates in f32 */
#define AT_NOISE_LOOSE                                                                             \
    4.0 /* units of e that a score, D or LSE may be off in kernels of 8- and 16-bit                \
           inputs: tensor cores truncate inside a dot product, exp2 is used with                   \
           a rounded log2(e), and LSE passes through memory */
#define AT_NOISE_UNIFORM                                                                           \
    (1.0 / 3) /* variance of a rounding, in units squared, at worst (mantissa 1) */
#define AT_NOISE_TERM                                                                              \
    0.3 /* the same for one of few P or dS values: near the worst, since                           \
           a row of few keys does not average over mantissas */
#define AT_NOISE_ELEMENT (1.0 / 6)     /* the same averaged over mantissas (0.54 / 3, rounded) */
#define AT_NOISE_EXP 3.0               /* roundings of an f32 exp: reduction, polynomial, scaling */
#define AT_NOISE_CHAIN_TOTAL (1.0 / 9) /* n f32 additions to a total T: sum of (k T / n)^2 / 3 */
#define AT_NOISE_CHAIN_SQUARES                                                                     \
    (1.0 / 6) /* ... of signed terms: partial sums k Q / n, n Q / 2 / 3 */
#define AT_NOISE_FEW                                                                               \
    6.0 /* sigmas beside the sum A of the largest possible rounding of each term                   \
         */
#define AT_NOISE_MANY                                                                              \
    7.5 /* sigmas when the roundings of P and dS are random too: without this arm a                \
           lost tile passes among 16k keys */
#define AT_NOISE_FINAL                                                                             \
    1.01                     /* units of the last rounding: it acts on a value that is off already \
                              */
#define AT_NOISE_SAFETY 1.05 /* on everything: products of two errors are left out of the model */
#define AT_NOISE_STEPS                                                                             \
    4.0 /* units of u that scores must spread for the roundings of their P, of                     \
           stored scores and of O in rows alike to be independent */
#define AT_NOISE_LARGEST 8.0 /* score noise beyond which P is anything: keeps squares in range */
#define AT_NOISE_STEP32                                                                            \
    0x1p-150 /* half of f32's subnormal step: what a vanishing product loses                       \
              */

/* What the model needs to know of a case and a numeric class, worked out once. */
typedef struct at_noise {
    double u_in, u_o, u_lse; /* unit roundoff of q k v dq dk dv, of o, of lse */
    double u_p, sub;         /* of P and dS at the matrix multiply; half of their subnormal step */
    double u_s;              /* of stored S and dP; 0 when they stay in f32 */
    double half_in, half_o;  /* half of the subnormal step of the outputs */
    double p_times;          /* roundings of P: 2 when it is stored before use */
    bool chain;              /* f32 inputs: chains of additions in place of the loose terms */
    bool d_from_p, head_rounded;
    double scale, cap, inv_cap; /* cap and inv_cap 0: off */
    double capped;              /* 1 when capped, else 0 */
    double dim_qk, dim_v;
    double dot_qk_total, dot_v_total; /* variance of a dot product by its square total and ... */
    double dot_qk_squares, dot_v_squares; /* ... by the sum of its squared terms */
    double dp_floor;                      /* what dP loses to f32's subnormal step */
} at_noise;

/* One score row: what the backward and the error scale need of it. */
typedef struct at_row {
    double max, inv_sum, lse; /* P = exp(S - max) inv_sum */
    double keys;              /* keys it sees; 0: dead, nothing else is set */
    double d;                 /* D = rowsum(dO O) */
    double d_var;             /* variance of D as kernels compute it */
    double sum_var;           /* relative variance of the row sum of P as a chain of additions */
    double lse_var;           /* the same with the score noise in it: variance of LSE unrounded */
    double flat_p;            /* how far the roundings of P agree in the row, 0..1 */
    double flat_var;          /* relative variance of P that they have in common */
    double flat_o;            /* how far the roundings of O agree with those of other rows, 0..1 */
    double shift_var;         /* variance of LSE by a rounding that stored scores share */
    double common_var;        /* relative variance of the backward's P that is common to the row */
} at_row;

/* Sums that one score row or key column collects for an output element: value, sum of the largest
 * roundings, variance; in a group of heads also the squares of their values. flat: how far the
 * roundings of P agree, 0..1. */
typedef struct at_noise_sum {
    double ref, a, c, squares, flat;
} at_noise_sum;

void at_noise_init(at_noise *out, const at_problem *p, const at_numeric_class *numeric);

AT_INLINE double at_noise_square(double x)
{
    return x * x;
}

/* Score after the cap. */
AT_INLINE double at_noise_cap(const at_noise *m, double raw)
{
    return m->cap > 0 ? m->cap * tanh(raw * m->inv_cap) : raw;
}

/* Slope of the cap where it gives s; 1 without a cap. */
AT_INLINE double at_noise_slope(const at_noise *m, double s)
{
    double t = s * m->inv_cap;
    return (1 - t) * (1 + t);
}

/* Standard deviation of the exponent of P. raw: scale q.k; s: after the cap; squares: scale^2 sum
 * (q k)^2. */
AT_INLINE double at_noise_score(const at_noise *m, double raw, double s, double squares, double lse)
{
    double slope = at_noise_slope(m, s),
           stored = m->u_s * (slope * fabs(raw) + m->capped * fabs(s));
    if (m->chain) {
        double dot = m->dot_qk_total * raw * raw + m->dot_qk_squares * squares +
                     2 * AT_NOISE_ELEMENT * raw * raw;
        double rest = 4 * m->capped * s * s + 2 * lse * lse + (s - lse) * (s - lse) + AT_NOISE_EXP;
        return AT_NOISE_E * sqrt(slope * slope * dot + AT_NOISE_ELEMENT * rest) + stored;
    }
    double dot = slope * (sqrt(squares) + fabs(raw)) + m->capped * fabs(s);
    return AT_NOISE_LOOSE * AT_NOISE_E * (dot + 1 + fabs(lse)) + stored;
}

/* Relative deviation of exp(x) for a deviation of x: exp(x) - 1 to third order. */
AT_INLINE double at_noise_exp(double x)
{
    x = x < AT_NOISE_LARGEST ? x : AT_NOISE_LARGEST;
    return x * (1 + x * (0.5 + x * (1.0 / 6)));
}

/* Standard deviation of dP - D apart from that of D. squares: sum (dO v)^2. */
AT_INLINE double at_noise_dp(const at_noise *m, double dp, double squares, double d)
{
    double stored = m->u_s * fabs(dp) + m->dp_floor;
    if (m->chain) {
        double dot = m->dot_v_total * dp * dp + m->dot_v_squares * squares;
        double rest = dp * dp + d * d + (dp - d) * (dp - d);
        return AT_NOISE_E * sqrt(dot + AT_NOISE_ELEMENT * rest) + stored;
    }
    return AT_NOISE_E * (sqrt(squares) + fabs(dp) + fabs(d)) + stored;
}

/* Largest rounding of a value x of P or dS at the matrix multiply. */
AT_INLINE double at_noise_rho(const at_noise *m, double x)
{
    double rounding = m->u_p * fabs(x);
    return rounding > m->sub ? rounding : m->sub;
}

/* Coefficients of one probability p in a sum of p y: a of |y|, c of y^2 (roundings; n additions in
 * the chain), w of the squared distance of y from the mean (score noise x, as a relative one). In
 * the backward, where P is made from LSE, w is of y^2 and p^2 lse_var y^2 joins it. */
typedef struct at_noise_p {
    double a, c, w;
} at_noise_p;
AT_INLINE at_noise_p at_noise_of_p(const at_noise *m, double p, double x, double n)
{
    double rho = at_noise_rho(m, p);
    at_noise_p out = {
        .a = m->p_times * rho,
        .c = AT_NOISE_TERM * m->p_times * rho * rho +
             AT_NOISE_CHAIN_SQUARES * at_noise_square(AT_NOISE_E) * n * p * p,
        .w = p * p * x * x,
    };
    return out;
}

/* Coefficients of one dS in a sum of dS y: a of |y|, c of y^2. x: relative score noise; own: from
 * at_noise_dp; s: score after the cap. */
typedef struct at_noise_ds {
    double ds, a, c;
} at_noise_ds;
AT_INLINE at_noise_ds at_noise_of_ds(const at_noise *m, const at_row *row, double p, double s,
                                     double x, double dp, double own, double n)
{
    double slope = at_noise_slope(m, s), t = fabs(s) * m->inv_cap, g = dp - row->d;
    double ds = slope * p * g, rho = at_noise_rho(m, ds);
    double again = (m->p_times - 1) * at_noise_rho(m, p) * slope * fabs(g);
    double slope_dev = 2 * t * (x * m->inv_cap + (2 * AT_NOISE_E + m->u_s) * t);
    at_noise_ds out = {
        .ds = ds,
        .a = rho + again,
        .c = AT_NOISE_TERM * (rho * rho + again * again) +
             AT_NOISE_CHAIN_SQUARES * at_noise_square(AT_NOISE_E) * n * ds * ds + ds * ds * x * x +
             at_noise_square(p * slope * own) + at_noise_square(p * g * slope_dev),
    };
    return out;
}

/* What the row's LSE and D add to c in dK, where rows are independent (but the more `flat`
 * attention is, the more their O are rounded alike: n equal errors have n times the variance); in
 * dQ they are common to the row and come at its end. */
AT_INLINE double at_noise_of_row(const at_row *row, double p, double slope, double ds, double n)
{
    double alike = 1 + row->flat_o * (n - 1);
    return p * p * slope * slope * row->d_var * alike + ds * ds * row->lse_var;
}

/* Sums over the keys of a row: p x0 and (p x0)^2 with x0 from at_noise_score; p^2; p t and p t^2
 * with t = s - max. */
typedef struct at_noise_p_sums {
    double linear, squares, pp, t, tt;
} at_noise_p_sums;

/* How far roundings to steps 2 u x wide are to the same side where x spreads by a variance `spread`
 * relative to x^2: 1 within few steps, 0 over many. */
AT_INLINE double at_noise_together(double spread, double u)
{
    double steps = spread / (AT_NOISE_STEPS * AT_NOISE_STEPS * u * u);
    return 1 / (1 + steps * steps);
}

/* The variances of a row that its sums decide. */
AT_INLINE void at_noise_row(const at_noise *m, at_row *row, const at_noise_p_sums *sums)
{
    double e2 = at_noise_square(AT_NOISE_E), n = row->keys, others = 1 - 1 / n;
    row->sum_var = e2 * n * (AT_NOISE_CHAIN_TOTAL + AT_NOISE_CHAIN_SQUARES * sums->pp);
    row->lse_var = row->sum_var + sums->squares;
    double spread = sums->tt - sums->t * sums->t;
    spread = spread > 0 ? spread : 0;
    double u = at_noise_rho(m, 1 / n) * n, s = fabs(sums->t + row->max);
    row->flat_p = at_noise_together(spread, u) * others;
    row->flat_var = AT_NOISE_TERM * m->p_times * u * u * row->flat_p;
    row->flat_o = at_noise_together(spread, u > m->u_o ? u : m->u_o);
    double stored = m->u_s > 0 ? at_noise_together(spread, m->u_s * s + AT_NOISE_E) : 0;
    row->shift_var = AT_NOISE_TERM * stored * sums->linear * sums->linear * others;
    row->common_var = e2 * (1 + row->lse * row->lse) + row->lse_var;
    row->common_var += (m->p_times - 1) * row->flat_var;
}

/* The flattest of several rows. */
typedef struct at_noise_flat {
    double p, var;
} at_noise_flat;
AT_INLINE void at_noise_flattest(at_noise_flat *most, const at_row *row)
{
    most->p = row->flat_p > most->p ? row->flat_p : most->p;
    most->var = row->flat_var > most->var ? row->flat_var : most->var;
}

/* Variance of D. With D from rowsum(dO O): do_o2 = sum_c (dO O)^2; output = sum_c (dO times the
 * rounding of O)^2; rounded = sum_j (rho(p) dP)^2; score = sum_j (p (dP - D) x)^2; chain = sum_j
 * p^2 sum_c (dO v)^2. With D from sum P dP: chain = sum_j (p dP)^2, stored = sum_j (p u dP)^2, own
 * = sum_j (p dp_dev)^2. */
typedef struct at_noise_d {
    double do_o2, output, rounded, score, chain, stored, own;
} at_noise_d;
double at_noise_d_var(const at_noise *m, const at_row *row, const at_noise_d *sums);

/* What one output element o and dO add to do_o2 and output. */
AT_INLINE void at_noise_add_output(const at_noise *m, at_noise_d *sums, double dout, double o,
                                   double keys)
{
    double rounding = m->u_o * fabs(o);
    rounding = rounding > m->half_o ? rounding : m->half_o;
    sums->do_o2 += dout * o * (dout * o);
    sums->output += dout * dout * (rounding * rounding + keys * at_noise_square(AT_NOISE_STEP32));
}

/* Bound and sigma of LSE. linear = sum p x0, x0 from at_noise_score. */
void at_noise_lse(const at_noise *m, const at_row *row, double linear, double *bound,
                  double *sigma);

/* Variance that every sum of n terms has in common: the chain to its total, products below f32's
 * range (of size `unit` beside 1), and for f32 the last two roundings. */
AT_INLINE double at_noise_total_var(const at_noise *m, double n, double ref, double unit)
{
    double total = AT_NOISE_CHAIN_TOTAL * n + (m->chain ? 2 * AT_NOISE_ELEMENT : 0);
    return at_noise_square(AT_NOISE_E * ref) * total +
           AT_NOISE_UNIFORM * n * at_noise_square(AT_NOISE_STEP32) * (1 + unit * unit);
}

/* What the heads of a group, summed one after the other to `ref`, add to that: they are not random
 * terms of one size, each may be a large sum of one sign. squares: sum of the heads' sums squared.
 */
AT_INLINE double at_noise_heads_var(double n, double squares, double ref, double group)
{
    double spread = squares - ref * ref / group;
    return AT_NOISE_CHAIN_SQUARES * at_noise_square(AT_NOISE_E) * n * (spread > 0 ? spread : 0);
}

/* Bound and sigma of an output element of roundoff u and half subnormal step `half`. Roundings of P
 * that agree have no limit but their sum a. */
AT_INLINE void at_noise_finish(const at_noise_sum *sum, double u, double half, double *bound,
                               double *sigma)
{
    double r = fabs(sum->ref), dev = sqrt(sum->c);
    double few = sum->a + AT_NOISE_FEW * dev, many = AT_NOISE_MANY * dev;
    double noise = few < many ? few : many + sum->flat * (few - many);
    *bound = AT_NOISE_SAFETY * (AT_NOISE_FINAL * u * r + noise + half);
    *sigma = sqrt(AT_NOISE_UNIFORM * (u * u * r * r + half * half) + sum->c);
}

#endif
