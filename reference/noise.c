#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "the reference needs exact floating point: build without -ffast-math"
#endif
#include "reference/noise.h"

static at_noise_type type_of(at_dtype dtype, double unit)
{
    double u = at_dtype_roundoff(dtype), step = at_dtype_tiny(dtype);
    return (at_noise_type){
        .u = u,
        .half = step / 2 * unit,
        .unit = unit,
        .per_unit = 1 / unit,
        .split = u * 0x1p53 + 1, /* bits = -log2(u) */
        .magic = step * 0x1.8p52,
        .least = step / (2 * u),
    };
}

/* Only fp8 is scaled before it is rounded. */
static double unit_of(at_dtype in, float unit)
{
    bool fp8 = in == AT_F8E4M3 || in == AT_F8E5M2;
    return fp8 && unit > 0 ? (double)unit : 1;
}

static bool is_float(at_dtype dtype)
{
    return dtype < AT_DTYPE_COUNT;
}

void at_noise_init(at_noise *out, at_noise_type types[AT_TENSOR_COUNT], const at_problem *p,
                   const at_numeric_class *numeric)
{
    const at_case *c = &p->c;
    at_dtype in = (at_dtype)c->dtype, product = numeric->p == AT_P_STORED ? in : AT_F32;
    double n = (double)c->dim_qk, n_v = (double)c->dim_v;
    bool biased = c->bias != AT_BIAS_NONE && !(numeric->variant.bias_before_cap && c->softcap > 0);
    *out = (at_noise){
        .out = types,
        .p = type_of(product, unit_of(in, numeric->p_unit)),
        .ds = type_of(product, unit_of(in, numeric->ds_unit)),
        .u_s = numeric->scores_stored ? at_dtype_roundoff(in) : 0,
        .u_in = numeric->inputs_scaled ? at_dtype_roundoff(in) : 0,
        .p_times = numeric->scores_stored ? 2 : 1,
        .chain = in == AT_F32,
        .d_from_p = numeric->d_from_p,
        .head_rounded = numeric->head_rounded,
        .scale = p->scale,
        .cap = c->softcap,
        .inv_cap = c->softcap > 0 ? 1 / c->softcap : 0,
        .capped = c->softcap > 0 ? 1 : 0,
        .added = biased || c->amask >= AT_AMASK_ADD_11 ? 1 : 0,
        .dropped = c->dropout > 0 ? 1 : 0,
        .sink = c->sink != AT_SINK_NONE,
        .lse_bare = c->sink != AT_SINK_NONE && numeric->variant.lse_without_sink,
        .lse_factor = numeric->variant.lse_log2 ? 1 / log(2) : 1,
        .dim_qk = n,
        .dim_v = n_v,
        .dot_qk_total = AT_NOISE_CHAIN_TOTAL * n,
        .dot_qk_squares = AT_NOISE_CHAIN_SQUARES * n + AT_NOISE_ELEMENT,
        .dot_v_total = AT_NOISE_CHAIN_TOTAL * n_v,
        .dot_v_squares = AT_NOISE_CHAIN_SQUARES * n_v + AT_NOISE_ELEMENT,
        .dp_floor =
            AT_NOISE_STEP32 * sqrt(n_v) + (numeric->scores_stored ? at_dtype_tiny(in) / 2 : 0),
    };
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        at_dtype dtype = is_float(p->t[id].dtype) ? p->t[id].dtype : AT_F32;
        types[id] = type_of(dtype, (double)p->unit[id]);
    }
}

double at_noise_d_var(const at_noise *m, const at_row *row, const at_noise_d *sums)
{
    double e2 = at_noise_square(AT_NOISE_E), d2 = at_noise_square(row->d);
    double total = AT_NOISE_CHAIN_TOTAL * row->keys;
    double var = AT_NOISE_UNIFORM * sums->rounded + sums->score + row->flat_var * d2 +
                 AT_NOISE_CHAIN_SQUARES * e2 * row->keys * sums->chain;
    if (m->d_from_p) {
        return var + AT_NOISE_UNIFORM * sums->stored + sums->own + e2 * total * d2;
    }
    var += AT_NOISE_UNIFORM * sums->output + e2 * total * sums->do_o2 + row->sum_var * d2;
    if (m->chain) {
        return var + e2 * (m->dot_v_total * d2 + m->dot_v_squares * sums->do_o2);
    }
    return var + at_noise_square(AT_NOISE_LOOSE) * e2 * (sums->do_o2 + d2);
}

void at_noise_lse(const at_noise *m, const at_row *row, double linear, double *bound, double *sigma)
{
    /* The chain model's x0 is a standard deviation, the loose one's is close to a limit. */
    double share = row->lse_share, dev = sqrt(row->lse_var + row->shift_var) / share;
    double coherent = (m->chain ? AT_NOISE_LOOSE : 1) * linear / share;
    double few = coherent + AT_NOISE_MANY * sqrt(row->sum_var) / share;
    double many = AT_NOISE_MANY * dev;
    double size = 1 + fabs(row->lse_out), units = AT_NOISE_LOOSE * AT_NOISE_E * size;
    *bound = AT_NOISE_SAFETY * (units + (few < many ? few : many)) * m->lse_factor;
    *sigma = sqrt(AT_NOISE_UNIFORM * at_noise_square(m->out[AT_LSE].u * size) + dev * dev) *
             m->lse_factor;
}
