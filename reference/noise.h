/* The error scale: how far a healthy kernel of a numeric class may be from the reference, element
 * by element. Model functions shared by the golden and the fast path. */
#ifndef AT_NOISE_H
#define AT_NOISE_H

#include <math.h>

#include "harness/clones.h"
#include "reference/reference.h"

/* Every constant of the model, with its reason. x is a value that is rounded; a unit is u |x|. */

/* Unit roundoff of f32, in which every kernel accumulates. */
#define AT_NOISE_E 0x1p-24
/* Units of e that a score, D or LSE may be off in kernels of 8- and 16-bit inputs: tensor cores
 * truncate inside a dot product, exp2 works with a rounded log2(e), LSE passes through memory. */
#define AT_NOISE_LOOSE 4.0
/* Sigmas of a chain of f32 additions that count as its limit: over 200 dims a score made in one
 * chain is off by more than the loose units. */
#define AT_NOISE_LIMIT 3.0
/* Variance of one rounding in units squared, at worst: uniform, mantissa 1. */
#define AT_NOISE_UNIFORM (1.0 / 3)
/* The same for roundings of P and dS: near the worst, since a row of few keys does not average over
 * mantissas. */
#define AT_NOISE_TERM 0.3
/* The same averaged over mantissas: 0.54 / 3, rounded down as products round less than sums. */
#define AT_NOISE_ELEMENT (1.0 / 6)
/* Roundings of an f32 exp: reduction, polynomial, scaling. */
#define AT_NOISE_EXP 3.0
/* n f32 additions in a chain to a total T: sum over k of (k T / n)^2 / 3 = n T^2 / 9. */
#define AT_NOISE_CHAIN_TOTAL (1.0 / 9)
/* The same for terms of both signs with a sum of squares Q: sum over k of (k Q / n) / 3 = n Q / 6.
 */
#define AT_NOISE_CHAIN_SQUARES (1.0 / 6)
/* Sigmas beside the sum A of the largest possible rounding of each term. */
#define AT_NOISE_FEW 6.0
/* Sigmas where the roundings of P and dS are random too: without this limit a lost tile passes
 * among 16k keys. */
#define AT_NOISE_MANY 7.5
/* Units of the last rounding: it acts on a value that is off already. */
#define AT_NOISE_FINAL 1.01
/* On everything: products of two errors are left out of the model. */
#define AT_NOISE_SAFETY 1.05
/* Units that scores must spread for the roundings of their P, or of stored scores, to be random. */
#define AT_NOISE_STEPS 4.0
/* Sigmas up to which an error that the roundings of P and O add up to is chance, not agreement. */
#define AT_NOISE_CHANCE 3.0
/* Score noise beyond which P is anything: keeps squares in range. */
#define AT_NOISE_LARGEST 8.0
/* Where the exponential of a GPU flushes P to 0: f32's smallest normal number. */
#define AT_NOISE_FLUSH 0x1p-126
/* Least deviation that a P is credited with: its square in units of e^2 is f32's smallest normal
 * number, in which the fast path keeps it. A sink or dropout may leave rows with nothing larger. */
#define AT_NOISE_TINY 0x1p-87
/* Half of f32's subnormal step: what a product that vanishes loses. */
#define AT_NOISE_STEP32 0x1p-150

/* A storage type as a rounding of doubles: unit roundoff, half of the subnormal step, and what
 * at_noise_round needs. A stored 1 stands for `unit`, of which `half` is a multiple too. */
typedef struct at_noise_type {
    double u, half, unit, per_unit;
    double split, magic, least; /* 2^(53 - bits) + 1; 1.5 2^52 steps; smallest normal number */
} at_noise_type;

/* What the model needs to know of a case and a numeric class, worked out once. */
typedef struct at_noise {
    const at_noise_type *out; /* [AT_TENSOR_COUNT] of each tensor */
    at_noise_type p, ds;      /* of P and dS at the matrix multiply */
    double u_in;    /* unit roundoff of q and k after scaling; 0 when they are not scaled */
    double u_s;     /* unit roundoff of stored S and dP; 0 when they stay in f32 */
    double p_times; /* roundings of P: 2 when it is stored before use */
    bool chain;     /* f32 inputs: chains of additions in place of the loose terms */
    bool d_from_p, head_rounded;
    double scale, cap, inv_cap; /* cap and inv_cap 0: off */
    double capped, added;       /* 1 when capped, when something is added to the score; else 0 */
    double dropped;             /* 1 with dropout */
    bool sink, lse_bare;        /* a sink; LSE without it */
    double lse_factor;          /* 1, or 1 / ln 2 */
    double dim_qk, dim_v;
    double dot_qk_total, dot_v_total; /* variance of a dot product by its square total and ... */
    double dot_qk_squares, dot_v_squares; /* ... by the sum of its squared terms */
    double dp_floor;                      /* what dP loses to f32's subnormal step */
} at_noise;

/* One score row: what the backward and the error scale need of it. */
typedef struct at_row {
    double max, inv_sum, lse; /* P = exp(S - max) inv_sum */
    double keys;              /* keys it sees; 0: dead, nothing else is set but lse_out */
    double lse_out;           /* LSE as asked for: without the sink where the variant says so */
    double sink_s, sink_p;    /* score and probability of the sink; 0 without */
    double sink_x;            /* relative score noise of the latter */
    double d;                 /* D = rowsum(dO O) */
    double d_var;             /* variance of D as kernels compute it */
    double sum_var;           /* relative variance of the row sum of P as a chain of additions */
    double lse_var;           /* the same with the score noise in it: variance of LSE unrounded */
    double lse_share;  /* what P adds up to over the keys, where LSE is asked without the sink; else
                          1 */
    double p_var;      /* lse_var as a relative variance of P, which cannot be off by more */
    double flat_p;     /* how far the roundings of P agree in the row, 0..1 */
    double flat_var;   /* relative variance of P that they have in common */
    double d_round;    /* what D gains by rounding O; 0 where D is made from P */
    double shift_var;  /* variance of LSE by a rounding that stored scores share */
    double common_var; /* relative variance of the backward's P that is common to the row */
} at_row;

/* Sums that one score row or key column collects for an output element: value, sum of the largest
 * roundings, variance; in a group of heads also the squares of their values. flat: how far the
 * roundings of P agree, 0..1; known: what they add up to, as far as the reference can tell. */
typedef struct at_noise_sum {
    double ref, a, c, squares, flat, known;
} at_noise_sum;

/* `types` becomes what out->out points at. */
void at_noise_init(at_noise *out, at_noise_type types[AT_TENSOR_COUNT], const at_problem *p,
                   const at_numeric_class *numeric);

AT_INLINE double at_noise_square(double x)
{
    return x * x;
}

/* x rounded to the type, to nearest. Source: Dekker, "A floating-point technique for extending the
 * available precision", 1971, for normal numbers. */
AT_INLINE double at_noise_round(const at_noise_type *t, double x)
{
    double y = x * t->per_unit;
    double product = t->split * y, near = product - (product - y), small = y + t->magic - t->magic;
    return (fabs(y) < t->least ? small : near) * t->unit;
}

/* Score after the cap. */
AT_INLINE double at_noise_cap(const at_noise *m, double raw)
{
    return m->cap > 0 ? m->cap * tanh(raw * m->inv_cap) : raw;
}

/* Slope of the cap where it gives `capped`; 1 without a cap. */
AT_INLINE double at_noise_slope(const at_noise *m, double capped)
{
    double t = capped * m->inv_cap;
    return (1 - t) * (1 + t);
}

/* Standard deviation of that slope as kernels compute it, 1 - (s / c)^2 in f32. x: score noise. */
AT_INLINE double at_noise_slope_dev(const at_noise *m, double s, double x)
{
    double t = fabs(s) * m->inv_cap;
    return 2 * t * (x * m->inv_cap + (2 * AT_NOISE_E + m->u_s) * t);
}

/* The slope that noise of dP meets: not 0 in f32 where tanh is 1 in fp64. */
AT_INLINE double at_noise_slope_most(const at_noise *m, double s, double x)
{
    return at_noise_slope(m, s) + at_noise_slope_dev(m, s, x);
}

/* Variance of a score whose q and k are rounded again after sqrt(scale), itself rounded: two
 * roundings of each product, and twice that of the factor, which all products share. */
AT_INLINE double at_noise_scaled_var(const at_noise *m, double raw, double squares)
{
    return m->u_in * m->u_in * AT_NOISE_UNIFORM * (2 * squares + 4 * raw * raw);
}

/* Standard deviation of the exponent of P. raw: scale q.k; capped: after the cap; add: what is
 * added then; squares: scale^2 sum (q k)^2. What is added passes through two roundings, its own and
 * that of the sum; slopes of ALiBi come from an exponential of few units. */
AT_INLINE double at_noise_score(const at_noise *m, double raw, double capped, double add,
                                double squares, double lse)
{
    double slope = at_noise_slope(m, capped), s = capped + add;
    double stored = m->u_s * (slope * fabs(raw) + m->capped * fabs(capped) + m->added * fabs(s));
    double dot = m->dot_qk_total * raw * raw + m->dot_qk_squares * squares +
                 2 * AT_NOISE_ELEMENT * raw * raw;
    double rest = 4 * m->capped * capped * capped + m->added * (s * s + 4 * add * add) +
                  2 * lse * lse + (s - lse) * (s - lse) + AT_NOISE_EXP;
    double scaled = slope * slope * at_noise_scaled_var(m, raw, squares);
    double chain = sqrt(slope * slope * dot + AT_NOISE_ELEMENT * rest);
    stored += m->u_in > 0 ? sqrt(scaled) : 0;
    if (m->chain) {
        return AT_NOISE_E * chain + stored;
    }
    double size = slope * (sqrt(squares) + fabs(raw)) + m->capped * fabs(capped) +
                  m->added * (fabs(s) + fabs(add)) + 1 + fabs(lse);
    double loose = AT_NOISE_LOOSE * size, most = AT_NOISE_LIMIT * chain;
    return AT_NOISE_E * (loose > most ? loose : most) + stored;
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
AT_INLINE double at_noise_rho(const at_noise_type *type, double x)
{
    double rounding = type->u * fabs(x);
    return rounding > type->half ? rounding : type->half;
}

/* The same of a probability. */
AT_INLINE double at_noise_rho_p(const at_noise *m, double p)
{
    double rounding = at_noise_rho(&m->p, p);
    return rounding > AT_NOISE_FLUSH ? rounding : AT_NOISE_FLUSH;
}

/* Coefficients of one probability p in a sum of p y: a of |y|, c of y^2 (roundings; n additions in
 * the chain), w of the squared distance of y from the mean (score noise x, as a relative one). In
 * the backward, where P is made from LSE, w is of y^2 and p^2 lse_var y^2 joins it. */
typedef struct at_noise_p {
    double a, c, w;
} at_noise_p;
AT_INLINE at_noise_p at_noise_of_p(const at_noise *m, double p, double x, double n)
{
    double rho = at_noise_rho_p(m, p);
    at_noise_p out = {
        .a = m->p_times * rho,
        .c = AT_NOISE_TERM * m->p_times * rho * rho +
             AT_NOISE_CHAIN_SQUARES * at_noise_square(AT_NOISE_E) * n * p * p +
             at_noise_square(AT_NOISE_TINY),
        .w = p * p * x * x,
    };
    return out;
}

/* Coefficients of one dS in a sum of dS y: a of |y|, c of y^2. x: relative score noise; own: from
 * at_noise_dp; s: score after the cap. With dropout dp has the factor of its key. */
typedef struct at_noise_ds {
    double ds, a, c;
} at_noise_ds;
AT_INLINE at_noise_ds at_noise_of_ds(const at_noise *m, const at_row *row, double p, double s,
                                     double x, double dp, double own, double n)
{
    double slope = at_noise_slope(m, s), g = dp - row->d;
    double ds = slope * p * g, rho = at_noise_rho(&m->ds, ds);
    double again = ((m->p_times - 1) * at_noise_rho(&m->p, p) + AT_NOISE_FLUSH) * slope * fabs(g);
    double slope_dev = at_noise_slope_dev(m, s, x);
    at_noise_ds out = {
        .ds = ds,
        .a = rho + again,
        .c = AT_NOISE_TERM * (rho * rho + again * again) +
             AT_NOISE_CHAIN_SQUARES * at_noise_square(AT_NOISE_E) * n * ds * ds + ds * ds * x * x +
             at_noise_square(p * (slope + slope_dev) * own) + at_noise_square(p * g * slope_dev) +
             at_noise_square(AT_NOISE_TINY * (fabs(dp) + fabs(row->d))),
    };
    return out;
}

/* What the row's LSE and D add to c in dK, where rows are independent; in dQ they are common to the
 * row and come at its end. */
AT_INLINE double at_noise_of_row(const at_row *row, double p, double slope, double ds)
{
    return p * p * slope * slope * row->d_var + ds * ds * row->p_var;
}

/* The rounding of p itself, and what it and that of O add to dS: p stands in dS as stored, and
 * -slope p D. */
AT_INLINE double at_noise_p_error(const at_noise *m, double p)
{
    return at_noise_round(&m->p, p) - p;
}
AT_INLINE double at_noise_ds_error(const at_noise *m, const at_row *row, double p, double p_error,
                                   double slope, double dp)
{
    return slope * ((m->p_times - 1) * p_error * (dp - row->d) - p * row->d_round);
}

/* Sums over the keys of a row: p; p x0 and (p x0)^2 with x0 from at_noise_score; p^2; p t and p t^2
 * with t = s - max. */
typedef struct at_noise_p_sums {
    double p, linear, squares, pp, t, tt;
} at_noise_p_sums;

/* How far roundings to steps 2 u x wide are to the same side where x spreads by a variance `spread`
 * relative to x^2: 1 within few steps, 0 over many. */
AT_INLINE double at_noise_together(double spread, double u)
{
    double steps = spread / (AT_NOISE_STEPS * AT_NOISE_STEPS * u * u);
    return 1 / (1 + steps * steps);
}

/* The variances of a row that its sums decide. A sink is a key of value 0; the spread that tells
 * flat rows is that of the keys alone. */
AT_INLINE void at_noise_row(const at_noise *m, at_row *row, const at_noise_p_sums *sums)
{
    double e2 = at_noise_square(AT_NOISE_E), n = row->keys, others = 1 - 1 / n;
    double most = at_noise_exp(AT_NOISE_LARGEST), pp = sums->pp, share = 1;
    row->sum_var = 0;
    if (m->sink) {
        row->sink_x = at_noise_exp(at_noise_score(m, 0, row->sink_s, 0, 0, row->lse));
        row->sum_var = at_noise_square(row->sink_p * row->sink_x);
        pp += row->sink_p * row->sink_p;
        share = sums->p > 0 ? sums->p : 1;
    }
    row->sum_var += e2 * n * (AT_NOISE_CHAIN_TOTAL + AT_NOISE_CHAIN_SQUARES * pp);
    double mean = sums->t / share, spread = sums->tt / share - mean * mean;
    spread = spread > 0 ? spread : 0;
    double u = at_noise_rho(&m->p, 1 / n) * n, s = fabs(mean + row->max);
    if (m->sink) { /* an error that scores share moves them against the sink */
        double shared = row->sink_p * sums->linear / share;
        row->sum_var += shared * shared * at_noise_together(spread, AT_NOISE_E * (1 + s)) * others;
    }
    row->lse_var = row->sum_var + sums->squares;
    row->flat_p = at_noise_together(spread, u) * others;
    row->flat_var = AT_NOISE_TERM * m->p_times * u * u * row->flat_p;
    double stored = m->u_s > 0 ? at_noise_together(spread, m->u_s * s + AT_NOISE_E) : 0;
    row->shift_var = AT_NOISE_TERM * stored * sums->linear * sums->linear * others;
    row->lse_share = m->lse_bare ? share : 1;
    double relative = row->lse_var < most * most ? row->lse_var : most * most;
    row->p_var = relative;
    row->common_var = e2 * (1 + row->lse * row->lse) + relative;
    row->common_var += (m->p_times - 1) * row->flat_var;
}

/* What one row adds to the gradient of its head's sink, -sum p_sink D: n rows in all. */
AT_INLINE void at_noise_add_sink(const at_noise *m, at_noise_sum *sum, const at_row *row, double n)
{
    double p = row->sink_p, term = p * row->d;
    double x2 = row->sink_x * row->sink_x + row->p_var;
    double rounding = m->u_s > 0 ? m->u_s * p : 0, least = m->u_s > 0 ? m->out[AT_Q].half : 0;
    rounding = (rounding > least ? rounding : least) * fabs(row->d);
    sum->ref -= term;
    sum->known -= p * row->d_round;
    sum->a += rounding;
    sum->c += p * p * row->d_var + term * term * x2 + AT_NOISE_TERM * rounding * rounding +
              AT_NOISE_CHAIN_SQUARES * at_noise_square(AT_NOISE_E) * n * term * term;
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
    double rounding = at_noise_rho(&m->out[AT_O], o);
    sums->do_o2 += dout * o * (dout * o);
    sums->output += dout * dout * (rounding * rounding + keys * at_noise_square(AT_NOISE_STEP32));
}

/* Bound and sigma of LSE, in its own units. linear = sum p x0, x0 from at_noise_score. */
void at_noise_lse(const at_noise *m, const at_row *row, double linear, double *bound,
                  double *sigma);

/* Variance that every sum of n terms has in common: the chain to its total, products below f32's
 * range (of size `unit` beside 1), for f32 the last two roundings, with dropout that of its factor.
 */
AT_INLINE double at_noise_total_var(const at_noise *m, double n, double ref, double unit)
{
    double total = AT_NOISE_CHAIN_TOTAL * n + (m->chain ? 2 * AT_NOISE_ELEMENT : 0) +
                   m->dropped * AT_NOISE_UNIFORM;
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

/* Value of an output element in units of what is stored. */
AT_INLINE double at_noise_stored(const at_noise_type *type, double ref)
{
    return ref * type->per_unit;
}

/* Bound and sigma of an output element of the type, in units of what is stored. Roundings of P that
 * agree along a row have no limit but their sum a; those that agree along a key column (flat
 * attention, rows alike) are known to the reference, and count where they are more than chance. */
AT_INLINE void at_noise_finish(const at_noise_sum *sum, const at_noise_type *type, double *bound,
                               double *sigma)
{
    double more = at_noise_square(sum->known) - at_noise_square(AT_NOISE_CHANCE) * sum->c;
    double c = sum->c + (more > 0 ? more : 0), u = type->u, half = type->half;
    double r = fabs(sum->ref), dev = sqrt(c);
    double few = sum->a + AT_NOISE_FEW * dev, many = AT_NOISE_MANY * dev;
    double noise = few < many ? few : many + sum->flat * (few - many);
    *bound = AT_NOISE_SAFETY * (AT_NOISE_FINAL * u * r + noise + half) * type->per_unit;
    *sigma = sqrt(AT_NOISE_UNIFORM * (u * u * r * r + half * half) + c) * type->per_unit;
}

#endif
