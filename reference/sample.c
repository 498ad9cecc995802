#include "reference/sample.h"

#include <string.h>

#include "harness/problem/rng.h"
#include "reference/gold.h"

enum {
    STREAM_ROWS = 0x2000,
    STREAM_KEYS = 0x2001,
    STREAM_UNITS = 0x2002,
    STREAM_BIAS = 0x2003,
    EDGES_MAX = 256
};

/* Places of one axis of a sequence that must not be missed, and a mark for each place taken. */
typedef struct axis {
    int64_t len;
    int64_t edge[EDGES_MAX];
    int64_t n_edges;
    unsigned char *taken; /* [len] */
    int64_t n_taken;
} axis;

static double pairs_of(const at_fast *f, int64_t b)
{
    double pairs = 0;
    for (int64_t i = 0; i < f->p->len_q[b]; i++) {
        const at_fast_span *span = &f->span[f->first_q[b] + i];
        pairs += span->last >= span->first ? (double)(span->last - span->first + 1) : 0;
    }
    return pairs;
}

double at_sample_work(const at_fast *f)
{
    const at_case *c = &f->p->c;
    double qk = (double)c->dim_qk, v = (double)c->dim_v, pairs = 0;
    for (int64_t b = 0; b < c->batch; b++) {
        pairs += pairs_of(f, b);
    }
    return pairs * (double)c->heads_q * (f->train ? 4 * qk + 3 * v : qk + v);
}

static void add_edge(axis *a, int64_t place)
{
    if (place >= 0 && place < a->len && a->n_edges < EDGES_MAX) {
        a->edge[a->n_edges++] = place;
    }
}

/* The first and the last multiple of each tile size, and what stands beside them. */
static void add_tiles(axis *a)
{
    static const int64_t tiles[] = {256, 128, 64, 16};
    for (size_t t = 0; t < sizeof tiles / sizeof tiles[0]; t++) {
        int64_t last = (a->len - 1) / tiles[t] * tiles[t];
        for (int64_t side = -1; side <= 1; side++) {
            add_edge(a, tiles[t] + side);
            add_edge(a, last + side);
        }
    }
}

/* Rows where the keys they see begin or cease to be cut off by the mask. */
static void find_row_edges(axis *a, const at_fast *f, int64_t b)
{
    int before = -1;
    a->len = f->p->len_q[b];
    a->n_edges = 0;
    for (int64_t i = 0; i < a->len; i++) {
        const at_fast_span *span = &f->span[f->first_q[b] + i];
        int kind = span->first > span->last
                       ? 4
                       : (span->first > 0) + 2 * (span->last + 1 < f->p->len_kv[b]);
        if (kind != before) {
            add_edge(a, i - 1);
            add_edge(a, i);
            add_edge(a, i + 1);
        }
        before = kind;
    }
    add_tiles(a);
}

/* Keys where the number of rows that see them begins or ceases to change. */
static void find_key_edges(axis *a, const at_fast *f, int64_t b)
{
    const double *seen = f->seen + f->first_kv[b];
    double before = 0;
    a->len = f->p->len_kv[b];
    a->n_edges = 0;
    for (int64_t j = 1; j < a->len; j++) {
        double step = seen[j] - seen[j - 1];
        if (step != before) {
            add_edge(a, j - 1);
            add_edge(a, j);
            add_edge(a, j + 1);
        }
        before = step;
    }
    add_tiles(a);
}

static void take(axis *a, int64_t place)
{
    a->n_taken += a->taken[place] == 0;
    a->taken[place] = 1;
}

/* Marks `quota` places: the ends, the edges (from a random one on, if they do not all fit into
 * three quarters), and random ones. */
static void pick(axis *a, int64_t quota, uint64_t seed, uint32_t stream, uint64_t index)
{
    memset(a->taken, 0, (size_t)a->len);
    a->n_taken = 0;
    if (a->len == 0) {
        return;
    }
    if (quota >= a->len) {
        memset(a->taken, 1, (size_t)a->len);
        a->n_taken = a->len;
        return;
    }
    uint64_t draw = index << 20, edges = (uint64_t)a->n_edges;
    take(a, 0);
    take(a, a->len - 1);
    uint64_t start = edges > 0 ? at_rng_below(seed, stream, draw, edges) : 0;
    for (uint64_t e = 0; e < edges && a->n_taken < quota * 3 / 4; e++) {
        take(a, a->edge[(start + e) % edges]);
    }
    for (int64_t n = 0; n < 4 * quota && a->n_taken < quota; n++) {
        take(a, (int64_t)at_rng_below(seed, stream, ++draw, (uint64_t)a->len));
    }
}

/* Places that a sequence of `len` may have when each costs `cost` and `budget` is there. */
static int64_t quota_of(double budget, double cost, int64_t len)
{
    double n = cost > 0 ? budget / cost : (double)len;
    return n >= (double)len ? len : n < 2 ? 2 : (int64_t)n;
}

static int64_t longest(const int64_t *len, int64_t batch)
{
    int64_t most = 0;
    for (int64_t b = 0; b < batch; b++) {
        most = len[b] > most ? len[b] : most;
    }
    return most;
}

/* Walks the sampled rows of every head: counts them, or lists them where `list` is not NULL. */
static int64_t walk_rows(const at_fast *f, axis *a, double limit, int64_t (*list)[3])
{
    const at_case *c = &f->p->c;
    int64_t n = 0, heads = c->batch * c->heads_q;
    double madds = (double)((f->train ? 2 : 1) * (c->dim_qk + c->dim_v));
    for (int64_t b = 0; b < c->batch; b++) {
        find_row_edges(a, f, b);
        double row = a->len > 0 ? pairs_of(f, b) / (double)a->len * madds : 0;
        int64_t quota = quota_of(limit / 4 / (double)heads, row, a->len);
        for (int64_t h = 0; h < c->heads_q; h++) {
            pick(a, quota, c->seed, STREAM_ROWS, (uint64_t)(b * c->heads_q + h));
            for (int64_t i = 0; i < a->len && list != NULL; i++) {
                if (a->taken[i]) {
                    list[n][0] = b;
                    list[n][1] = h;
                    list[n++][2] = i;
                }
            }
            n += list == NULL ? a->n_taken : 0;
        }
    }
    return n;
}

/* Copies a row list into another gold tensor of the q side. */
static at_status open_rows(at_fast *f, axis *a, double limit, bool no_scale, at_arena *arena,
                           at_error *err)
{
    int64_t n = walk_rows(f, a, limit, NULL);
    at_gold_tensor *o = &f->gold->t[AT_O];
    AT_TRY(at_gold_open(o, f->p, AT_O, n, no_scale, arena, err));
    (void)walk_rows(f, a, limit, o->row);
    for (int id = AT_LSE; id <= AT_DQ; id++) {
        if (at_gold_makes(&f->p->c, (at_tensor_id)id)) {
            at_gold_tensor *t = &f->gold->t[id];
            AT_TRY(at_gold_open(t, f->p, (at_tensor_id)id, n, no_scale, arena, err));
            memcpy(t->row, o->row, (size_t)n * sizeof *o->row);
        }
    }
    return AT_OK;
}

/* Units taken: all where they fit, else the first, the last and some between; one by the seed where
 * not even two fit. A sink's gradient sums over the sequences: then one unit's heads in all of
 * them. Returns their number. */
static int64_t choose_units(const at_fast *f, double limit, int64_t *index)
{
    const at_case *c = &f->p->c;
    int64_t a_sequence = c->heads_q / f->unit_heads, all = c->batch * a_sequence;
    for (int64_t b = 0; b < c->batch && at_gold_makes(c, AT_DSINK); b++) {
        uint64_t unit = at_rng_below(c->seed, STREAM_UNITS, 0, (uint64_t)a_sequence);
        index[b] = b * a_sequence + (int64_t)unit;
    }
    if (at_gold_makes(c, AT_DSINK)) {
        return c->batch;
    }
    double madds = (double)f->unit_heads * (double)(c->dim_qk + 2 * c->dim_v), cost = 0;
    for (int64_t b = 0; b < c->batch; b++) {
        cost += pairs_of(f, b) * madds * (double)a_sequence;
    }
    double fit = cost > 0 ? limit / cost * (double)all : (double)all;
    fit = fit < 3 && 4 * fit >= 3 ? 3 : fit;
    int64_t n = fit >= (double)all ? all : fit < 1 ? 1 : (int64_t)fit;
    for (int64_t i = 0; i < n; i++) {
        index[i] = n == 1 && all > 1
                       ? (int64_t)at_rng_below(c->seed, STREAM_UNITS, 0, (uint64_t)all)
                   : n == 1 ? 0
                            : i * (all - 1) / (n - 1);
    }
    return n;
}

/* Sampled keys of each chosen unit; the units are in f->units with their keys. */
static at_status choose_keys(at_fast *f, axis *a, double limit, at_arena *arena, at_error *err)
{
    const at_case *c = &f->p->c;
    double madds = (double)(2 * f->unit_heads * (c->dim_qk + c->dim_v));
    for (int64_t u = 0; u < f->n_units; u++) {
        at_fast_unit *unit = &f->units[u];
        find_key_edges(a, f, unit->b);
        double key = a->len > 0 ? pairs_of(f, unit->b) / (double)a->len * madds : 0;
        int64_t quota = quota_of(limit / 4 / (double)f->n_units, key, a->len);
        pick(a, quota, c->seed, STREAM_KEYS, (uint64_t)(unit->b * c->heads_q + unit->head));
        int64_t *keys = NULL;
        AT_TRY(at_gold_take(&keys, arena, a->n_taken, sizeof *keys, err));
        for (int64_t j = 0; j < a->len; j++) {
            if (a->taken[j]) {
                keys[unit->n_keys++] = j;
            }
        }
        unit->keys = keys;
    }
    return AT_OK;
}

/* Opens dK or dV for the units' keys and tells the units where theirs begin. */
static at_status open_keys(at_fast *f, at_tensor_id id, bool no_scale, at_arena *arena,
                           at_error *err)
{
    int64_t group = id == AT_DK ? f->group_k : f->group_v, heads = f->unit_heads / group, n = 0;
    at_gold_tensor *t = &f->gold->t[id];
    for (int64_t u = 0; u < f->n_units; u++) {
        int64_t *first = id == AT_DK ? &f->units[u].first_dk : &f->units[u].first_dv;
        *first = n;
        n += heads * f->units[u].n_keys;
    }
    AT_TRY(at_gold_open(t, f->p, id, n, no_scale, arena, err));
    n = 0;
    for (int64_t u = 0; u < f->n_units; u++) {
        const at_fast_unit *unit = &f->units[u];
        for (int64_t k = 0; k < heads * unit->n_keys; k++, n++) {
            t->row[n][0] = unit->b;
            t->row[n][1] = unit->head / group + k / unit->n_keys;
            t->row[n][2] = unit->keys[k % unit->n_keys];
        }
    }
    return AT_OK;
}

/* Whether the span holds one of the sorted keys. */
static bool sees_any(const at_fast_span *span, const int64_t *keys, int64_t n)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (keys[middle] < span->first) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < n && keys[low] <= span->last;
}

/* Rows that see a sampled key of their unit (all rows for a sink's gradient): counted, or listed
 * where `list` is not NULL. */
static int64_t walk_stream(const at_fast *f, int64_t (*list)[3])
{
    int64_t n = 0;
    bool all = at_gold_makes(&f->p->c, AT_DSINK);
    for (int64_t u = 0; u < f->n_units; u++) {
        const at_fast_unit *unit = &f->units[u];
        int64_t b = unit->b, heads = f->unit_heads;
        for (int64_t e = 0; e < heads * f->p->len_q[b]; e++) {
            int64_t i = e % f->p->len_q[b];
            if (!all && !sees_any(&f->span[f->first_q[b] + i], unit->keys, unit->n_keys)) {
                continue;
            }
            if (list != NULL) {
                list[n][0] = b;
                list[n][1] = unit->head + e / f->p->len_q[b];
                list[n][2] = i;
            }
            n++;
        }
    }
    return n;
}

/* dSink of the heads of the first unit, which stands for all sequences. */
static at_status open_sinks(at_fast *f, bool no_scale, at_arena *arena, at_error *err)
{
    if (!at_gold_makes(&f->p->c, AT_DSINK)) {
        return AT_OK;
    }
    at_gold_tensor *t = &f->gold->t[AT_DSINK];
    AT_TRY(
        at_gold_open(t, f->p, AT_DSINK, f->n_units > 0 ? f->unit_heads : 0, no_scale, arena, err));
    for (int64_t h = 0; h < t->rows; h++) {
        t->row[h][1] = f->units[0].head + h;
    }
    return AT_OK;
}

/* The sequence with the rows that dBias of sequence b has. */
static int64_t longest_of(const at_fast *f, int64_t b)
{
    int64_t rows = at_problem_live_rows(f->p, AT_DBIAS, b);
    while (f->p->len_q[b] < rows) {
        b++;
    }
    return b;
}

/* Walks the rows of dBias that are computed: counts them, or lists them. */
static int64_t walk_bias(const at_fast *f, axis *a, double share, int64_t (*list)[3])
{
    const at_case *c = &f->p->c;
    int64_t n = 0, heads = at_gold_heads(c, AT_DBIAS);
    for (int64_t b = 0; b < at_gold_batch(c, AT_DBIAS); b++) {
        find_row_edges(a, f, longest_of(f, b));
        int64_t quota = quota_of(share * (double)a->len, 1, a->len);
        for (int64_t h = 0; h < heads; h++) {
            pick(a, quota, c->seed, STREAM_BIAS, (uint64_t)(b * heads + h));
            for (int64_t i = 0; i < a->len && list != NULL; i++) {
                if (a->taken[i]) {
                    list[n][0] = b;
                    list[n][1] = h;
                    list[n++][2] = i;
                }
            }
            n += list == NULL ? a->n_taken : 0;
        }
    }
    return n;
}

at_status at_sample_bias(at_fast *f, double limit, bool no_scale, at_arena *arena, at_error *err)
{
    const at_case *c = &f->p->c;
    axis a = {0};
    double cost = 0, elements = (double)at_gold_total(f->p, AT_DBIAS) * (double)c->len_kv;
    if (!at_gold_makes(c, AT_DBIAS)) {
        return AT_OK;
    }
    for (int64_t b = 0; b < c->batch; b++) {
        cost += pairs_of(f, b) * (double)c->heads_q * (double)(c->dim_qk + 2 * c->dim_v);
    }
    double fit = limit / 16 / (cost > 0 ? cost : 1), room = AT_SAMPLE_BIAS / elements;
    double share = fit < room ? fit : room;
    AT_TRY(at_gold_take(&a.taken, arena, longest(f->p->len_q, c->batch), 1, err));
    int64_t n = walk_bias(f, &a, share < 1 ? share : 1, NULL);
    at_gold_tensor *t = &f->gold->t[AT_DBIAS];
    AT_TRY(at_gold_open(t, f->p, AT_DBIAS, n, no_scale, arena, err));
    (void)walk_bias(f, &a, share < 1 ? share : 1, t->row);
    return AT_OK;
}

static at_status open_gradients(at_sample *out, at_fast *f, axis *a, double limit, bool no_scale,
                                at_arena *arena, at_error *err)
{
    const at_case *c = &f->p->c;
    int64_t a_sequence = c->heads_q / f->unit_heads, *index = NULL;
    AT_TRY(at_gold_take(&index, arena, c->batch * a_sequence, sizeof *index, err));
    f->n_units = choose_units(f, limit, index);
    AT_TRY(at_gold_take(&f->units, arena, f->n_units, sizeof *f->units, err));
    for (int64_t u = 0; u < f->n_units; u++) {
        f->units[u] = (at_fast_unit){.b = index[u] / a_sequence,
                                     .head = index[u] % a_sequence * f->unit_heads};
    }
    AT_TRY(choose_keys(f, a, limit, arena, err));
    AT_TRY(open_keys(f, AT_DK, no_scale, arena, err));
    AT_TRY(open_keys(f, AT_DV, no_scale, arena, err));
    AT_TRY(open_sinks(f, no_scale, arena, err));
    AT_TRY(at_sample_bias(f, limit, no_scale, arena, err));
    out->n_stream = walk_stream(f, NULL);
    AT_TRY(at_gold_take(&out->stream, arena, out->n_stream, sizeof *out->stream, err));
    (void)walk_stream(f, out->stream);
    return AT_OK;
}

double at_sample_share(const at_gold *gold)
{
    double held = 0, all = 0;
    for (int id = AT_O; id < AT_TENSOR_COUNT; id++) {
        const at_gold_tensor *t = &gold->t[id];
        held += (double)t->rows * (double)t->dim;
        all += (double)t->total_rows * (double)t->dim;
    }
    return all > 0 ? held / all : 1;
}

at_status at_sample_open(at_sample *out, at_fast *f, double limit, bool no_scale, at_arena *arena,
                         at_error *err)
{
    axis a = {0};
    const at_problem *p = f->p;
    int64_t len_q = longest(p->len_q, p->c.batch), len_kv = longest(p->len_kv, p->c.batch);
    *out = (at_sample){0};
    AT_TRY(at_gold_take(&a.taken, arena, len_q > len_kv ? len_q : len_kv, 1, err));
    AT_TRY(open_rows(f, &a, limit, no_scale, arena, err));
    if (f->train) {
        AT_TRY(open_gradients(out, f, &a, limit, no_scale, arena, err));
    }
    f->gold->share = at_sample_share(f->gold);
    return AT_OK;
}
