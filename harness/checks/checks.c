#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error "verdicts need NaN and infinities"
#endif
#include "harness/checks/checks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/checks/relation.h"

static const struct {
    at_check_outcome (*run)(at_relation *b);
    const char *doc;
} checks[AT_CHECK_COUNT] = {
    [AT_CHECK_BATCH] = {at_check_batch, "sequences in another order give the same bits"},
    [AT_CHECK_HEADS] = {at_check_heads, "heads in another order give the same bits"},
    [AT_CHECK_V_POWER] = {at_check_v_power, "V times a power of two scales O exactly"},
    [AT_CHECK_V_ONES] = {at_check_v_ones, "V of ones gives O of ones"},
    [AT_CHECK_V_ONEHOT] = {at_check_v_onehot, "one-hot V reads P back"},
    [AT_CHECK_K_CONSTANT] = {at_check_k_constant, "a vector added to every key changes LSE alone"},
    [AT_CHECK_GARBAGE] = {at_check_garbage, "what no row sees changes no bit"},
    [AT_CHECK_PREFIX] = {at_check_prefix, "later keys change no bit of earlier causal rows"},
    [AT_CHECK_SUMS] = {at_check_sums, "dV sums to the sum of dO"},
    [AT_CHECK_DS_ROWS] = {at_check_ds_rows, "rows of dS sum to 0"},
    [AT_CHECK_GROUPED] = {at_check_grouped, "grouped heads equal repeated heads"},
    [AT_CHECK_FULL_LENS] = {at_check_full_lens, "full lengths equal none"},
    [AT_CHECK_TRUE_MASK] = {at_check_true_mask, "a mask that hides nothing equals none"},
    [AT_CHECK_SPLIT] = {at_check_split, "halves of the keys merge through LSE"},
    [AT_CHECK_EXACT] = {at_check_exact, "small integers under uniform attention are exact"},
};
const char *const at_check_names[] = {
    "batch", "heads",   "v_power", "v_ones",    "v_onehot",  "k_constant", "garbage", "prefix",
    "sums",  "ds_rows", "grouped", "full_lens", "true_mask", "split",      "exact",   NULL};
_Static_assert(sizeof at_check_names / sizeof at_check_names[0] == AT_CHECK_COUNT + 1,
               "one name a check");

const char *at_check_doc(at_check check)
{
    return checks[check].doc;
}

at_status at_checks_parse(uint32_t *out, const char *list, at_error *err)
{
    *out = strcmp(list, "all") == 0 ? (1U << AT_CHECK_COUNT) - 1 : 0;
    if (*out != 0 || strcmp(list, "none") == 0) {
        return AT_OK;
    }
    for (const char *word = list;; word++) {
        size_t n = strcspn(word, ",");
        int i = 0;
        while (i < AT_CHECK_COUNT &&
               (strlen(at_check_names[i]) != n || strncmp(word, at_check_names[i], n) != 0)) {
            i++;
        }
        if (i == AT_CHECK_COUNT) {
            return at_fail(err, AT_INVALID,
                           "no check \"%.*s\"; accepted: all, none, or a list of batch, heads, "
                           "v_power, v_ones, v_onehot, k_constant, garbage, prefix, sums, ds_rows, "
                           "grouped, full_lens, true_mask, split, exact",
                           (int)(n < 40 ? n : 40), word);
        }
        *out |= 1U << i;
        word += n;
        if (*word == '\0') {
            return AT_OK;
        }
    }
}

bool at_relation_break(at_relation *b, at_step step, const char *format, ...)
{
    if (b->broken) {
        return false;
    }
    va_list args;
    va_start(args, format);
    b->broken = true;
    b->step = step;
    (void)snprintf(b->why->code, sizeof b->why->code, "check_%s", at_check_names[b->check]);
    int n = snprintf(b->why->text, sizeof b->why->text, "%s, but ", checks[b->check].doc);
    (void)vsnprintf(b->why->text + n, sizeof b->why->text - (size_t)n, format, args);
    va_end(args);
    return false;
}

static bool has_engine(const at_relation *b, const at_case *c)
{
    at_engines engines = {0};
    at_reason why = {"", ""};
    if (b->backend->supports(b->backend, c, &why) != AT_OK ||
        b->backend->claim(b->backend, b->state, c, &engines, &why) != AT_OK) {
        return false;
    }
    for (int i = 0; i < engines.n; i++) {
        if (strcmp(engines.name[i], b->engine) == 0) {
            return true;
        }
    }
    return false;
}

bool at_relation_open(at_relation *b, int i, const at_case *c)
{
    at_error err = {""};
    if (at_case_check(c, &err) != AT_OK || !has_engine(b, c)) {
        return false;
    }
    if (b->arena[i] == NULL && at_arena_open(&b->arena[i], &err) != AT_OK) {
        return false;
    }
    at_arena_reset(b->arena[i]);
    return at_problem_open(&b->p[i], c, b->arena[i], &err) == AT_OK;
}

bool at_relation_launch(at_relation *b, int i)
{
    at_error err = {""};
    const at_problem *p = &b->p[i];
    if (b->backend->forward(b->backend, b->state, p, b->engine, &err) != AT_OK) {
        return at_relation_break(b, AT_STEP_FORWARD, "its launch failed: %.200s", err.text);
    }
    if (p->c.pass == AT_PASS_TRAIN &&
        b->backend->backward(b->backend, b->state, p, b->engine, &err) != AT_OK) {
        return at_relation_break(b, AT_STEP_BACKWARD, "its launch failed: %.200s", err.text);
    }
    return true;
}

double at_relation_value(const at_relation *b, int i, at_tensor_id id, int64_t bb, int64_t h,
                         int64_t s, int64_t d)
{
    return at_tensor_get(&b->p[i].t[id], bb, h, s, d) * (double)b->p[i].unit[id];
}

void at_relation_set(at_relation *b, int i, at_tensor_id id, int64_t bb, int64_t h, int64_t s,
                     int64_t d, double x)
{
    at_tensor_set(&b->p[i].t[id], bb, h, s, d, x / (double)b->p[i].unit[id]);
}

static at_step step_of(at_tensor_id id)
{
    return id == AT_O || id == AT_LSE ? AT_STEP_FORWARD : AT_STEP_BACKWARD;
}

bool at_relation_close(at_relation *b, at_tensor_id id, const int64_t row[3], int64_t d, double got,
                       double want, double slack)
{
    if (fabs(got - want) <= slack || got == want) {
        return true;
    }
    return at_relation_break(b, step_of(id),
                             "%s[%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                             "] is %.9g, not %.9g "
                             "within %.3g.",
                             at_tensor_names[id], row[0], row[1], row[2], d, got, want, slack);
}

static bool same_row(at_relation *b, at_tensor_id id, const int64_t row[3], const int64_t other[3])
{
    const at_tensor *t = &b->p[0].t[id];
    size_t size = (size_t)t->shape[3] * at_dtype_size(t->dtype);
    const void *x = at_tensor_at(t, row[0], row[1], row[2], 0);
    const void *y = at_tensor_at(&b->p[1].t[id], other[0], other[1], other[2], 0);
    for (int64_t d = 0; memcmp(x, y, size) != 0 && d < t->shape[3]; d++) {
        double was = at_tensor_get(t, row[0], row[1], row[2], d);
        double is = at_tensor_get(&b->p[1].t[id], other[0], other[1], other[2], d);
        if (was != is && !(isnan(was) && isnan(is))) {
            return at_relation_break(b, step_of(id),
                                     "%s[%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                                     "] changes from %.9g to %.9g.",
                                     at_tensor_names[id], row[0], row[1], row[2], d, was, is);
        }
    }
    return true;
}

bool at_relation_same(at_relation *b, at_step last, at_row_map map)
{
    static const at_tensor_id ids[] = {AT_O, AT_LSE, AT_DQ, AT_DK, AT_DV};
    for (int i = 0; i < 5; i++) {
        const at_tensor *t = &b->p[0].t[ids[i]];
        if (t->data == NULL || b->p[1].t[ids[i]].data == NULL || step_of(ids[i]) > last) {
            continue;
        }
        for (int64_t bh = 0; bh < t->shape[0] * t->shape[1]; bh++) {
            int64_t row[3] = {bh / t->shape[1], bh % t->shape[1], 0};
            for (; row[2] < at_problem_live_rows(&b->p[0], ids[i], row[0]); row[2]++) {
                int64_t other[3] = {row[0], row[1], row[2]};
                if (map(b, ids[i], row, other) && !same_row(b, ids[i], row, other)) {
                    return false;
                }
            }
        }
    }
    return true;
}

double at_relation_u(const at_relation *b)
{
    return at_dtype_roundoff((at_dtype)b->c.odt);
}

double at_relation_u_p(const at_relation *b)
{
    bool f32 = b->backend->numeric.p == AT_P_F32;
    double u = f32 ? 0x1p-24 : at_dtype_roundoff((at_dtype)b->c.dtype);
    return b->backend->numeric.scores_stored ? 2 * u : u;
}

double at_relation_top_v(const at_relation *b, int i, int64_t bb, int64_t h)
{
    const at_tensor *v = &b->p[i].t[AT_V];
    int64_t head = h * v->shape[1] / b->p[i].c.heads_q;
    double top = 0;
    for (int64_t n = 0; n < b->p[i].len_kv[bb] * v->shape[3]; n++) {
        top = fmax(top,
                   fabs(at_relation_value(b, i, AT_V, bb, head, n / v->shape[3], n % v->shape[3])));
    }
    return top;
}

double at_relation_noise(const at_relation *b, double score, double lse)
{
    double stored = b->backend->numeric.scores_stored ? at_dtype_roundoff((at_dtype)b->c.dtype) : 0;
    return 0x1p-19 * (1 + fabs(score) + fabs(lse)) + 2 * stored * fabs(score);
}

bool at_relation_is_plain(const at_case *c)
{
    return c->amask == AT_AMASK_NONE && c->bias == AT_BIAS_NONE && c->sink == AT_SINK_NONE &&
           !(c->dropout > 0) && c->page == 0 && c->pack == AT_PACK_NONE &&
           c->stride == AT_STRIDE_PACKED && c->dtype <= AT_BF16 && c->odt == c->dtype &&
           c->heads_v == c->heads_kv && c->batch > 0 && c->len_q > 0 && c->len_kv > 0;
}

bool at_relation_has_bits(const at_relation *b)
{
    unsigned promises = b->backend->promises;
    return (promises & AT_PROMISES_DETERMINISM) ||
           ((promises & AT_PROMISES_DET_ON_REQUEST) && b->c.deterministic);
}

bool at_relation_is_whole(const at_case *c)
{
    return c->lens_q.n == 0 && c->lens_kv.n == 0 &&
           (c->lens == AT_LENS_NONE || c->lens == AT_LENS_FULL);
}

at_check_outcome at_check_run(at_check check, const at_backend *backend, void *state,
                              const char *engine, const at_case *c, at_step *step, at_reason *why)
{
    at_relation *b = calloc(1, sizeof *b);
    at_reason unused = {"", ""};
    if (b == NULL) {
        return AT_CHECK_IDLE;
    }
    b->backend = backend;
    b->state = state;
    b->engine = engine;
    b->c = *c;
    b->check = check;
    b->why = why != NULL ? why : &unused;
    b->has_backward = c->pass == AT_PASS_TRAIN;
    at_check_outcome outcome = at_relation_is_plain(c) ? checks[check].run(b) : AT_CHECK_IDLE;
    outcome = b->broken ? AT_CHECK_BROKEN : outcome;
    if (step != NULL) {
        *step = b->step;
    }
    at_arena_close(b->arena[0]);
    at_arena_close(b->arena[1]);
    free(b);
    return outcome;
}
