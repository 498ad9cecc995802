#include "harness/tests/emulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    const at_problem *p;
    const at_emulation *how;
    at_emulated *out;
    float *q, *dout;         /* [len_q dim] of the head at hand */
    float *k, *v;            /* [len_kv dim] */
    float *s, *prob, *slope; /* [len_kv] */
    float *keep;             /* [len_kv] 0 where dropped, else 1 */
    int64_t b, h, i;         /* the row at hand */
    float sink, sink_p;      /* its sink's score, -Inf without, and probability */
    float *acc, *dq;         /* [dim] */
    float *dk, *dv;          /* [len_kv dim] of the head or the group */
    float *terms;            /* [max] */
} job;

static float rounded(at_dtype type, float x)
{
    return type == AT_F32 ? x : (float)at_dtype_round(type, (double)x);
}

static float in_type(const job *w, float x)
{
    return rounded((at_dtype)w->p->c.dtype, x);
}

static float product_type(const job *w, float x, float unit)
{
    float step = unit > 0 ? unit : 1;
    return w->how->numeric.p == AT_P_F32 ? x : in_type(w, x / step) * step;
}

/* What a tensor stores of a value. */
static float out_type(const job *w, at_tensor_id id, float x)
{
    return rounded(w->p->t[id].dtype, x / w->p->unit[id]);
}

static float stored(const job *w, float x)
{
    return w->how->numeric.scores_stored ? in_type(w, x) : x;
}

static float dot(const job *w, const float *a, const float *b, int64_t n)
{
    float lane[8] = {0}, sum = 0;
    int64_t lanes = w->how->lanes ? 8 : 1;
    for (int64_t i = 0; i < n; i++) {
        lane[i % lanes] += a[i] * b[i];
    }
    for (int64_t i = 0; i < lanes; i++) {
        sum += lane[i];
    }
    return sum;
}

static float exponential(const job *w, float x)
{
    return w->how->exp2 ? exp2f(x * 1.44269504F) : expf(x);
}

static float *row_of(float *x, const at_tensor *t, int64_t b, int64_t h, int64_t s)
{
    int64_t b1 = t->shape[0] > 1 ? b : 0, h1 = t->shape[1] > 1 ? h : 0;
    int64_t s1 = t->shape[2] > 1 ? s : 0;
    return x + ((b1 * t->shape[1] + h1) * t->shape[2] + s1) * t->shape[3];
}

/* Bias and dense mask on a score, one after the other. */
static float add_extras(const job *w, float s, int64_t j)
{
    const at_problem *p = w->p;
    const at_tensor *bias = &p->t[AT_BIAS], *mask = &p->t[AT_AMASK];
    if (bias->data != NULL) {
        s = stored(w, s + (float)at_tensor_get(bias, w->b, w->h, w->i, j));
    }
    if (p->c.bias == AT_BIAS_ALIBI) {
        float distance = (float)llabs(w->i + p->diag[w->b] - j);
        s = stored(w, s - (float)at_alibi_slope(&p->c, w->h) * distance);
    }
    if (mask->data != NULL) {
        float x = (float)at_tensor_get(mask, w->b, w->h, w->i, j);
        s = mask->dtype != AT_U8 ? stored(w, s + x) : x > 0 ? s : -HUGE_VALF;
    }
    return s;
}

static float keep_of(const job *w, int64_t j)
{
    const at_tensor *t = &w->p->t[AT_DROP];
    return t->data != NULL ? (float)at_tensor_get(t, w->b, w->h, w->i, j) : 1;
}

static void score_row(job *w, int64_t i, int64_t first, int64_t last)
{
    const at_case *c = &w->p->c;
    float scale = (float)w->p->scale, cap = (float)c->softcap;
    for (int64_t j = first; j <= last; j++) {
        float s = dot(w, w->q + i * c->dim_qk, w->k + j * c->dim_qk, c->dim_qk);
        s = stored(w, s * scale);
        w->slope[j] = 1;
        if (c->softcap > 0) {
            s = stored(w, cap * tanhf(s / cap));
            w->slope[j] = 1 - (s / cap) * (s / cap);
        }
        w->s[j] = add_extras(w, s, j);
        w->keep[j] = keep_of(w, j);
    }
}

static void add_values(job *w, float p, int64_t j)
{
    int64_t dim = w->p->c.dim_v;
    for (int64_t d = 0; d < dim; d++) {
        w->acc[d] += product_type(w, p, w->how->numeric.p_unit) * w->keep[j] * w->v[j * dim + d];
    }
}

/* The sink and dropout's factor come last. Returns LSE. */
static float finish_row(job *w, float max, float sum)
{
    int64_t dim = w->p->c.dim_v;
    float most = w->sink > max ? w->sink : max, drop = 1 / (1 - (float)w->p->c.dropout);
    if (!(most > -HUGE_VALF)) {
        return most;
    }
    float again = exponential(w, max - most), sink = exponential(w, w->sink - most);
    float all = sum * again + sink;
    for (int64_t d = 0; d < dim && sum > 0; d++) {
        w->acc[d] = w->acc[d] * again / all * drop;
    }
    w->sink_p = sink / all;
    return most + logf(all);
}

/* Online softmax over tiles, P not normalised. Returns LSE. */
static float flash_row(job *w, int64_t first, int64_t last)
{
    int64_t dim = w->p->c.dim_v, tile = w->how->tile, tiles = (last - first + tile) / tile;
    float max = -HUGE_VALF, sum = 0;
    for (int64_t t = 0; t < tiles; t++) {
        int64_t from = first + (w->how->reversed ? tiles - 1 - t : t) * tile;
        int64_t to = from + tile - 1 < last ? from + tile - 1 : last;
        float new_max = max, part = 0;
        for (int64_t j = from; j <= to; j++) {
            new_max = w->s[j] > new_max ? w->s[j] : new_max;
        }
        if (!(new_max > -HUGE_VALF)) {
            continue; /* all of the tile is hidden */
        }
        float again = exponential(w, max - new_max);
        for (int64_t d = 0; d < dim; d++) {
            w->acc[d] *= again;
        }
        for (int64_t j = from; j <= to; j++) {
            float p = exponential(w, w->s[j] - new_max);
            part += p;
            add_values(w, p, j);
        }
        sum = sum * again + part;
        max = new_max;
    }
    return finish_row(w, max, sum);
}

/* Softmax of the whole row, P normalised and kept. Returns LSE. */
static float plain_row(job *w, int64_t first, int64_t last)
{
    float max = w->sink, sum = 0, drop = 1 / (1 - (float)w->p->c.dropout);
    for (int64_t j = first; j <= last; j++) {
        max = w->s[j] > max ? w->s[j] : max;
    }
    if (!(max > -HUGE_VALF)) {
        return max;
    }
    for (int64_t j = first; j <= last; j++) {
        w->prob[j] = exponential(w, w->s[j] - max);
        sum += w->prob[j];
    }
    float sink = exponential(w, w->sink - max);
    sum += sink;
    for (int64_t j = first; j <= last; j++) {
        w->prob[j] = stored(w, w->prob[j] / sum);
        add_values(w, w->prob[j], j);
    }
    for (int64_t d = 0; d < w->p->c.dim_v; d++) {
        w->acc[d] *= drop;
    }
    w->sink_p = stored(w, sink / sum);
    return max + logf(sum);
}

/* P as the backward has it: kept, or made again from LSE. */
static float backward_p(const job *w, int64_t j, float lse)
{
    return w->how->tile > 0 ? exponential(w, w->s[j] - lse) : w->prob[j];
}

static void backward_row(job *w, int64_t i, int64_t first, int64_t last, float lse, const float *o)
{
    const at_case *c = &w->p->c;
    int64_t dim_v = c->dim_v, dim = c->dim_qk, n = last - first + 1;
    float drop = 1 / (1 - (float)c->dropout);
    float *dbias = row_of(w->out->t[AT_DBIAS], &w->p->t[AT_DBIAS], w->b, w->h, i);
    const float *dout = w->dout + i * dim_v;
    float d = dot(w, dout, o, dim_v);
    for (int64_t j = first; j <= last; j++) {
        w->terms[j] = stored(w, dot(w, dout, w->v + j * dim_v, dim_v)) * w->keep[j] * drop;
    }
    if (w->how->numeric.d_from_p) {
        d = 0;
        for (int64_t j = first; j <= last; j++) {
            d += backward_p(w, j, lse) * w->terms[j];
        }
    }
    *row_of(w->out->t[AT_DSINK], &w->p->t[AT_DSINK], 0, w->h, 0) -= w->sink_p * d;
    for (int64_t k = 0; k < n; k++) {
        int64_t j = w->how->reversed ? last - k : first + k;
        float p = backward_p(w, j, lse), ds = p * (w->terms[j] - d) * w->slope[j];
        float p_low = product_type(w, p, w->how->numeric.p_unit) * w->keep[j] * drop;
        float ds_low = product_type(w, ds, w->how->numeric.ds_unit);
        dbias[j] += p * (w->terms[j] - d);
        for (int64_t e = 0; e < dim; e++) {
            w->dq[e] += ds_low * w->k[j * dim + e];
            w->dk[j * dim + e] += ds_low * w->q[i * dim + e];
        }
        for (int64_t e = 0; e < dim_v; e++) {
            w->dv[j * dim_v + e] += p_low * dout[e];
        }
    }
}

static void start_row(job *w, int64_t b, int64_t h, int64_t i)
{
    const at_case *c = &w->p->c;
    w->b = b;
    w->h = h;
    w->i = i;
    w->sink_p = 0;
    w->sink = c->sink == AT_SINK_LEARNED ? (float)at_tensor_get(&w->p->t[AT_SINK], 0, h, 0, 0)
              : c->sink == AT_SINK_OFF1  ? 0
                                         : -HUGE_VALF;
    memset(w->acc, 0, (size_t)c->dim_v * sizeof *w->acc);
}

static void run_row(job *w, int64_t b, int64_t h, int64_t i)
{
    const at_case *c = &w->p->c;
    const at_tensor *t = w->p->t;
    int64_t first = 0, last = -1;
    at_problem_keys(w->p, b, i, &first, &last);
    float *o = row_of(w->out->t[AT_O], &t[AT_O], b, h, i);
    float *lse = row_of(w->out->t[AT_LSE], &t[AT_LSE], b, h, i);
    start_row(w, b, h, i);
    *lse = w->sink;
    if (first > last) {
        return;
    }
    score_row(w, i, first, last);
    *lse = w->how->tile > 0 ? flash_row(w, first, last) : plain_row(w, first, last);
    for (int64_t d = 0; d < c->dim_v; d++) {
        o[d] = out_type(w, AT_O, w->acc[d]);
        w->acc[d] = o[d] * w->p->unit[AT_O];
    }
    if (c->pass == AT_PASS_TRAIN && *lse > -HUGE_VALF && !at_problem_is_dead(w->p, b, h, i)) {
        float *dq = row_of(w->out->t[AT_DQ], &t[AT_DQ], b, h, i);
        memset(w->dq, 0, (size_t)c->dim_qk * sizeof *w->dq);
        backward_row(w, i, first, last, *lse, w->acc);
        for (int64_t d = 0; d < c->dim_qk; d++) {
            dq[d] = out_type(w, AT_DQ, w->dq[d] * (float)w->p->scale);
        }
    }
}

/* Takes the sums of a head or group into its gradient; rounds each head's first where the class
 * says. */
static void add_gradient(job *w, float *sums, at_tensor_id id, int64_t b, int64_t h, float factor,
                         bool last)
{
    const at_tensor *t = &w->p->t[id];
    float *out = row_of(w->out->t[id], t, b, h, 0);
    int64_t n = w->p->len_kv[b] * t->shape[3];
    bool each = w->how->numeric.head_rounded;
    if (!each && !last) {
        return;
    }
    for (int64_t e = 0; e < n; e++) {
        float x = sums[e] * factor;
        out[e] += each ? out_type(w, id, x) * w->p->unit[id] : x;
        out[e] = last ? out_type(w, id, out[e]) : out[e];
        sums[e] = 0;
    }
}

static void load_row(float *out, const at_problem *p, at_tensor_id id, int64_t b, int64_t h,
                     int64_t s)
{
    at_tensor_load_row_float(&p->t[id], b, h, s, out);
    for (int64_t d = 0; d < p->t[id].shape[3]; d++) {
        out[d] *= p->unit[id];
    }
}

static void load_head(job *w, int64_t b, int64_t h, int64_t h_k, int64_t h_v)
{
    const at_problem *p = w->p;
    const at_case *c = &p->c;
    for (int64_t i = 0; i < p->len_q[b]; i++) {
        load_row(w->q + i * c->dim_qk, p, AT_Q, b, h, i);
        if (c->pass == AT_PASS_TRAIN) {
            load_row(w->dout + i * c->dim_v, p, AT_DO, b, h, i);
        }
    }
    for (int64_t j = 0; j < p->len_kv[b]; j++) {
        load_row(w->k + j * c->dim_qk, p, AT_K, b, h_k, j);
        load_row(w->v + j * c->dim_v, p, AT_V, b, h_v, j);
    }
}

static void run_sequence(job *w, int64_t b)
{
    const at_problem *p = w->p;
    const at_case *c = &p->c;
    int64_t group_k = c->heads_q / c->heads_kv, group_v = c->heads_q / c->heads_v;
    for (int64_t n = 0; n < c->heads_q; n++) {
        int64_t h = w->how->reversed ? c->heads_q - 1 - n : n;
        load_head(w, b, h, h / group_k, h / group_v);
        for (int64_t i = 0; i < p->len_q[b]; i++) {
            run_row(w, b, h, w->how->reversed ? p->len_q[b] - 1 - i : i);
        }
        if (c->pass == AT_PASS_TRAIN) {
            add_gradient(w, w->dk, AT_DK, b, h / group_k, (float)p->scale,
                         n % group_k + 1 == group_k);
            add_gradient(w, w->dv, AT_DV, b, h / group_v, 1, n % group_v + 1 == group_v);
        }
    }
}

static float *floats(int64_t n)
{
    float *out = calloc((size_t)n + 1, sizeof *out);
    AT_ASSERT(out != NULL);
    return out;
}

static void finish_bias(job *w)
{
    const at_tensor *t = &w->p->t[AT_DBIAS];
    for (int64_t e = 0; e < t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]; e++) {
        w->out->t[AT_DBIAS][e] = out_type(w, AT_DBIAS, w->out->t[AT_DBIAS][e]);
    }
}

void at_emulate(at_emulated *out, const at_problem *p, const at_emulation *how)
{
    const at_case *c = &p->c;
    AT_ASSERT(c->heads_kv == c->heads_v);
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        const int64_t *shape = p->t[id].shape;
        out->t[id] = floats(shape[0] * shape[1] * shape[2] * shape[3]);
    }
    job w = {.p = p, .how = how, .out = out};
    int64_t qk = c->dim_qk, v = c->dim_v;
    const struct {
        float **pointer;
        int64_t n;
    } wanted[] = {
        {&w.q, c->len_q * qk},
        {&w.dout, c->len_q * v},
        {&w.k, c->len_kv * qk},
        {&w.v, c->len_kv * v},
        {&w.s, c->len_kv},
        {&w.prob, c->len_kv},
        {&w.keep, c->len_kv},
        {&w.slope, c->len_kv},
        {&w.terms, c->len_kv},
        {&w.acc, v},
        {&w.dq, qk},
        {&w.dk, c->len_kv * qk},
        {&w.dv, c->len_kv * v},
    };
    size_t n = sizeof wanted / sizeof wanted[0];
    for (size_t i = 0; i < n; i++) {
        *wanted[i].pointer = floats(wanted[i].n);
    }
    for (int64_t b = 0; b < c->batch; b++) {
        run_sequence(&w, b);
    }
    finish_bias(&w);
    for (size_t i = 0; i < n; i++) {
        free(*wanted[i].pointer);
    }
}

void at_emulated_close(at_emulated *x)
{
    for (int id = 0; id < AT_TENSOR_COUNT; id++) {
        free(x->t[id]);
    }
}

at_ratios at_emulated_ratios(const at_emulated *x, const at_problem *p, const at_gold *gold,
                             at_tensor_id id)
{
    const at_gold_tensor *t = &gold->t[id];
    at_ratios out = {0};
    double sum = 0;
    for (int64_t r = 0; r < t->rows; r++) {
        const float *got = row_of(x->t[id], &p->t[id], t->row[r][0], t->row[r][1], t->row[r][2]);
        for (int64_t d = 0; d < at_problem_live_columns(p, id, t->row[r][0]); d++) {
            int64_t e = r * t->dim + d;
            if ((double)got[d] == t->ref[e] && t->bound[e] == 0) {
                continue;
            }
            double err = fabs((double)got[d] - t->ref[e]), ratio = err / t->bound[e];
            double z = err / t->sigma[e];
            out.worst = ratio <= out.worst ? out.worst : ratio;
            out.worst_z = z <= out.worst_z ? out.worst_z : z;
            sum += z * z;
            out.n++;
        }
    }
    out.rms_z = out.n > 0 ? sqrt(sum / (double)out.n) : 0;
    return out;
}
