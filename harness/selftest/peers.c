#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error "verdicts need NaN and infinities"
#endif
#include "harness/selftest/peers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/mutants/mutants.h"

/* Distributions that the other suites could meet; on the rest flat rules flag healthy kernels. */
enum {
    FILLS = 1 << AT_FILL_NORMAL | 1 << AT_FILL_UNIFORM01 | 1 << AT_FILL_OUTLIER |
            1 << AT_FILL_PEAKY | 1 << AT_FILL_LOWRANK
};

/* One output tensor as a rule sees it; n elements. */
typedef struct sample {
    at_tensor_id id;
    at_dtype dtype;
    size_t n;
    const double *got, *ref, *low; /* low: of the unfused kernel in the same type */
    const double *floor;           /* sum p |v|, of O alone */
    double keys, dim;
} sample;

static double eps_of(const sample *s)
{
    return 2 * at_dtype_roundoff(s->dtype);
}

static bool all_close(const sample *s, double absolute, double relative)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!(fabs(s->got[i] - s->ref[i]) <= absolute + relative * fabs(s->ref[i]))) {
            return false;
        }
    }
    return true;
}

/* Largest error; NaN where a value is none. */
static double largest(const sample *s, const double *x)
{
    double most = 0;
    for (size_t i = 0; i < s->n; i++) {
        double e = fabs(x[i] - s->ref[i]);
        most = e <= most ? most : e;
        if (isnan(e)) {
            return e;
        }
    }
    return most;
}

/* Source: oneDNN tests/benchdnn/sdpa/sdpa.cpp, compare setup: either limit will do. */
static bool onednn(const sample *s)
{
    bool forward = s->id == AT_O;
    double limit = (forward ? 8 : 32) * (1 + s->keys) * eps_of(s);
    for (size_t i = 0; i < s->n; i++) {
        double e = fabs(s->got[i] - s->ref[i]), size = fabs(s->ref[i]);
        double relative = size > 1e-5 ? e / size : e;
        double absolute = forward ? eps_of(s) * s->floor[i] : 5e-2;
        if (!(relative <= limit) && !(e <= absolute)) {
            return false;
        }
    }
    return true;
}

/* Source: ggml tests/test-backend-ops.cpp, max_nmse_err of FLASH_ATTN_EXT. */
static bool ggml(const sample *s)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < s->n; i++) {
        error += (s->got[i] - s->ref[i]) * (s->got[i] - s->ref[i]);
        size += s->ref[i] * s->ref[i];
    }
    return error <= 5e-4 * size;
}

/* Source: cudnn-frontend test/python/sdpa/fp16.py. */
static bool cudnn(const sample *s)
{
    bool wide = s->dtype == AT_BF16 && (s->id == AT_DK || s->id == AT_DV);
    return all_close(s, wide ? 0.07 : 0.02, 0.02);
}

/* What x + 0.3 - 0.3 loses in the type, at most. */
static double ulp_of(const sample *s)
{
    double most = 0;
    for (size_t i = 0; i < s->n; i++) {
        double x = at_dtype_round(s->dtype, s->ref[i]);
        double back = at_dtype_round(s->dtype, at_dtype_round(s->dtype, x + 0.3) - 0.3);
        most = fmax(most, fabs(back - x));
    }
    return most;
}

/* Source: flash-attention hopper/test_flash_attn.py (O), tests/test_flash_attn.py (gradients). */
static bool flash(const sample *s)
{
    double low = largest(s, s->low);
    return largest(s, s->got) <= (s->id == AT_O ? 2 * low + 2 * ulp_of(s) : 3 * low);
}

/* Source: pytorch test/test_transformers.py, default fudge factors. */
static bool torch(const sample *s)
{
    double factor = s->id == AT_O ? 5 : s->id == AT_DQ ? 160 : s->id == AT_DK ? 25 : 8;
    return largest(s, s->got) <= fmax(1e-5, factor * largest(s, s->low));
}

/* Source: TransformerEngine tests/pytorch/attention/test_attention.py. */
static bool te(const sample *s)
{
    double tolerance = s->dtype == AT_F16 ? 1e-3 : 1.5e-2;
    return all_close(s, tolerance, tolerance);
}

/* Source: composable_kernel example/ck_tile/01_fmha/fmha_fwd.cpp, fmha_bwd.cpp. */
static bool ck(const sample *s)
{
    double forward = s->dtype == AT_F16 ? 1e-3 : 1e-2;
    double backward = s->dtype == AT_BF16 && s->dim > 128 ? 3.2e-2 : 1e-2;
    double tolerance = s->id == AT_O ? forward : backward;
    return all_close(s, tolerance, tolerance);
}

/* Source: aiter op_tests/test_mha.py. */
static bool aiter(const sample *s)
{
    double factor = s->id == AT_O ? 2 : 10;
    return largest(s, s->got) <= fmax(factor * largest(s, s->low), 0.01);
}

static const struct {
    const char *name, *rule;
    bool (*accepts)(const sample *s);
    bool backward, lse;
} peers[AT_PEERS] = {
    {"oneDNN benchdnn", "relative 8 (32) (1 + keys) eps, or absolute eps sum p\\|v\\| (0.05)",
     onednn, true, false},
    {"ggml", "NMSE 5e-4", ggml, false, false},
    {"cuDNN frontend", "0.02 + 0.02 \\|ref\\|; bf16 dK, dV 0.07", cudnn, true, true},
    {"FlashAttention", "2 (3) x the unfused error", flash, true, false},
    {"PyTorch", "5 (160, 25, 8) x the unfused error", torch, true, false},
    {"Transformer Engine", "f16 1e-3, bf16 1.5e-2", te, true, false},
    {"CK", "f16 1e-3, bf16 1e-2; gradients 1e-2", ck, true, false},
    {"aiter", "max(2 (10) x the unfused error, 0.01)", aiter, true, false},
};

/* Counts of one rule: by fault, of the runs in which it acts. */
typedef struct tally {
    int64_t *caught;
    int64_t alarms[2];
} tally;

typedef struct measure {
    at_peer_table *out;
    at_specimen low, size; /* the case on cpu.naive; with |V|, for sum p |v| */
    at_case c;
    bool has_case;
    at_status status;
    at_error err;
    int64_t *runs; /* by fault */
    tally of[AT_PEER_ROWS];
} measure;

static at_status take_case(measure *m, const at_specimen *s)
{
    at_engines engines = {0};
    at_reason why = {"", ""};
    const at_backend *naive = &at_backend_cpu_naive;
    AT_TRY(at_specimen_make(&m->low, &s->p.c, &naive->numeric, &m->err));
    AT_TRY(naive->claim(naive, NULL, &s->p.c, &engines, &why));
    for (at_step step = AT_STEP_FORWARD; step <= at_specimen_last(s); step++) {
        AT_TRY(at_specimen_launch(&m->low, naive, engines.name[0], step, &m->err));
    }
    at_case c = s->p.c;
    c.pass = AT_PASS_FWD;
    at_reference_options options = {0};
    AT_TRY(at_specimen_make(&m->size, &c, &options.numeric, &m->err));
    const at_tensor *v = &m->size.p.t[AT_V];
    for (int64_t n = 0; n < v->shape[0] * v->shape[1] * v->shape[2] * v->shape[3]; n++) {
        int64_t d = n % v->shape[3], j = n / v->shape[3] % v->shape[2];
        int64_t h = n / v->shape[3] / v->shape[2] % v->shape[1];
        int64_t b = n / v->shape[3] / v->shape[2] / v->shape[1];
        if (j < m->size.p.len_kv[b]) {
            at_tensor_set(v, b, h, j, d, fabs(at_tensor_get(v, b, h, j, d)));
        }
    }
    m->c = s->p.c;
    m->has_case = true;
    return at_specimen_refer(&m->size, &options.numeric, &m->err);
}

/* The rows that the reference holds, as contiguous values. */
static void gather(double *out, const at_tensor *t, const at_gold_tensor *g)
{
    for (int64_t e = 0; e < g->rows * g->dim; e++) {
        const int64_t *row = g->row[e / g->dim];
        out[e] = at_tensor_get(t, row[0], row[1], row[2], e % g->dim);
    }
}

/* Which peers accept the tensor: clears those in `accepted` that do not. */
static void judge_tensor(const measure *m, const at_specimen *s, at_tensor_id id,
                         bool accepted[AT_PEERS])
{
    const at_gold_tensor *g = &s->gold.t[id];
    size_t n = (size_t)(g->rows * g->dim);
    double *x = malloc((2 * n + 1) * sizeof *x);
    AT_ASSERT(x != NULL);
    gather(x, &s->p.t[id], g);
    gather(x + n, &m->low.p.t[id], g);
    const sample seen = {.id = id,
                         .dtype = s->p.t[id].dtype,
                         .n = n,
                         .got = x,
                         .ref = g->ref,
                         .low = x + n,
                         .floor = m->size.gold.t[AT_O].ref,
                         .keys = (double)s->p.c.len_kv,
                         .dim = (double)s->p.c.dim_qk};
    for (int i = 0; i < AT_PEERS; i++) {
        bool asked = id == AT_O || (id == AT_LSE ? peers[i].lse : peers[i].backward);
        accepted[i] = accepted[i] && (!asked || peers[i].accepts(&seen));
    }
    free(x);
}

static void observe(void *user, const at_specimen *s, size_t fault, at_step step,
                    const bool caught[AT_TIERS])
{
    static const at_tensor_id ids[2][3] = {{AT_O, AT_LSE, AT_LSE}, {AT_DQ, AT_DK, AT_DV}};
    measure *m = user;
    bool rejected[AT_PEER_ROWS], accepted[AT_PEERS];
    int back = step == AT_STEP_BACKWARD;
    if (m->status == AT_OK && !(m->has_case && at_case_equal(&m->c, &s->p.c))) {
        m->status = take_case(m, s);
    }
    if (m->status != AT_OK) {
        return;
    }
    memset(accepted, true, sizeof accepted);
    for (int i = 0; i < 3; i++) {
        if (s->p.t[ids[back][i]].data != NULL && (back || i < 2)) {
            judge_tensor(m, s, ids[back][i], accepted);
        }
    }
    for (int i = 0; i < AT_PEERS; i++) {
        rejected[i] = !accepted[i];
    }
    rejected[AT_PEERS] = caught[AT_TIER_BOUND];
    rejected[AT_PEERS + 1] = caught[AT_TIER_ALL];
    bool healthy = fault == AT_NO_FAULT;
    m->out->fault_runs[back] += !healthy;
    m->out->healthy_runs[back] += healthy;
    m->runs[healthy ? at_mutant_count() : fault]++;
    for (int i = 0; i < AT_PEER_ROWS; i++) {
        m->of[i].caught[healthy ? at_mutant_count() : fault] += rejected[i];
        m->of[i].alarms[back] += healthy && rejected[i];
    }
}

static double mean_rate(const measure *m, int row, at_step step)
{
    double sum = 0;
    int n = 0;
    for (size_t i = 0; i < at_mutant_count(); i++) {
        const at_mutant *mutant = at_mutant_at(i)->data;
        if (mutant->step == step && m->runs[i] > 0) {
            sum += (double)m->of[row].caught[i] / (double)m->runs[i];
            n++;
        }
    }
    return n > 0 ? sum / n : (double)NAN;
}

static void fill_table(const measure *m)
{
    for (int i = 0; i < AT_PEER_ROWS; i++) {
        bool ours = i >= AT_PEERS, back = ours || peers[i].backward;
        at_peer_row *row = &m->out->row[i];
        row->name = ours ? "attest" : peers[i].name;
        row->rule = i == AT_PEERS ? "tier 1 alone" : ours ? "all tiers" : peers[i].rule;
        row->forward = mean_rate(m, i, AT_STEP_FORWARD);
        row->backward = back ? mean_rate(m, i, AT_STEP_BACKWARD) : (double)NAN;
        row->alarms_forward = (double)m->of[i].alarms[0] / (double)m->out->healthy_runs[0];
        row->alarms_backward =
            back ? (double)m->of[i].alarms[1] / (double)m->out->healthy_runs[1] : (double)NAN;
    }
}

at_status at_peers_measure(at_peer_table *out, const at_limits *limits,
                           void (*progress)(void *user, size_t done, size_t of), void *user,
                           at_error *err)
{
    measure *m = calloc(1, sizeof *m);
    at_fault_score *scores = NULL;
    AT_ASSERT(m != NULL);
    memset(out, 0, sizeof *out);
    m->out = out;
    m->runs = calloc(at_mutant_count() + 1, sizeof *m->runs);
    AT_ASSERT(m->runs != NULL);
    for (int i = 0; i < AT_PEER_ROWS; i++) {
        m->of[i].caught = calloc(at_mutant_count() + 1, sizeof *m->of[i].caught);
        AT_ASSERT(m->of[i].caught != NULL);
    }
    at_fault_plan plan = {.limits = limits,
                          .dtypes = 1U << AT_F16 | 1U << AT_BF16,
                          .fills = FILLS,
                          .seeds = 1,
                          .checks = limits != NULL,
                          .observe = observe,
                          .observer = m,
                          .progress = progress,
                          .user = user};
    at_status status = at_faults_run(&scores, &plan, err);
    if (status == AT_OK && m->status != AT_OK) {
        status = m->status;
        *err = m->err;
    }
    if (status == AT_OK) {
        fill_table(m);
    }
    free(scores);
    at_specimen_close(&m->low);
    at_specimen_close(&m->size);
    free(m->runs);
    for (int i = 0; i < AT_PEER_ROWS; i++) {
        free(m->of[i].caught);
    }
    free(m);
    return status;
}
