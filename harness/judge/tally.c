#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error "verdicts need NaN and infinities"
#endif
#include "harness/judge/tally.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "harness/clones.h"
#include "harness/judge/statistics.h"

enum { PIECE = 256, LANES = AT_PATCH_COLUMNS };
#define FAR 5.0 /* |z| of an outlier */

typedef struct issue_row {
    at_kind kind;
    const char *code;
    const char *many; /* "3 elements (12 live ones checked) MANY." */
} issue_row;

static const issue_row issue_rows[AT_ISSUE_COUNT] = {
    [AT_ISSUE_REFERENCE] = {AT_ERROR, "reference_nan", "have no reference"},
    [AT_ISSUE_UNWRITTEN] = {AT_UNWRITTEN, "unwritten", "still hold the poison pattern"},
    [AT_ISSUE_NAN] = {AT_NONFINITE, "class_nan", "are NaN"},
    [AT_ISSUE_INF] = {AT_NONFINITE, "class_inf", "are infinite"},
    [AT_ISSUE_INF_UNSAMPLED] = {AT_NONFINITE, "class_inf", "are infinite"},
    [AT_ISSUE_FINITE] = {AT_WRONG, "class_finite", "are finite where the reference is not"},
    [AT_ISSUE_DEAD_NAN] = {AT_NONFINITE, "dead_row", "of rows that see no key are not finite"},
    [AT_ISSUE_DEAD] = {AT_WRONG, "dead_row", "of rows that see no key break the contract"},
    [AT_ISSUE_PAD_NAN] = {AT_NONFINITE, "pad_rows", "beyond the sequence lengths are not finite"},
    [AT_ISSUE_PAD] = {AT_WRONG, "pad_rows", "beyond the sequence lengths break the contract"},
    [AT_ISSUE_BOUND] = {AT_WRONG, "bound", "are beyond their bound"},
};

at_rule at_rule_of(const at_tensor *t)
{
    return (at_rule){.dtype = t->dtype,
                     .dim = t->shape[3],
                     .max = at_dtype_max(t->dtype),
                     .poison = at_dtype_poison(t->dtype)};
}

static bool is_poison(const at_rule *rule, const void *stored, int64_t d)
{
    size_t size = at_dtype_size(rule->dtype);
    const unsigned char *at = (const unsigned char *)stored + (size_t)d * size;
    uint32_t bits = 0;
    for (size_t i = 0; i < size; i++) {
        bits |= (uint32_t)at[i] << (8 * i);
    }
    return bits == rule->poison;
}

static double ratio_of(double diff, double bound)
{
    if (diff == 0) {
        return 0;
    }
    double ratio = diff / bound;
    return ratio >= 0 ? ratio : HUGE_VAL; /* NaN and negative bounds are as bad as can be */
}

static at_example example(const int64_t row[3], int64_t d, double got, double want, double bound)
{
    return (at_example){.n = 1,
                        .index = {row[0], row[1], row[2], d},
                        .got = got,
                        .want = want,
                        .bound = bound,
                        .ratio = ratio_of(fabs(got - want), bound)};
}

static void count(at_tally *t, at_issue issue, const at_example *e)
{
    at_example *known = &t->issue[issue];
    int64_t n = known->n + e->n;
    if (known->n == 0 || (issue == AT_ISSUE_BOUND && e->ratio > known->ratio)) {
        *known = *e;
    }
    known->n = n;
}

typedef struct lanes {
    double ratio[LANES], z[LANES], z2[LANES], bias[LANES], bad[LANES], far[LANES], error[LANES];
} lanes;

/* One element a lane, so that the sums do not depend on the width of the machine's vectors. Equal
 * values have ratio and z 0 whatever the bound and sigma. Returns z^2. */
AT_INLINE double step(lanes *a, int l, double got, double ref, double bound, double sigma)
{
    double error = got - ref, diff = fabs(error), equal = diff == 0 ? 1 : 0;
    double ratio = diff / (bound + equal), z = error / (sigma + equal);
    a->ratio[l] = ratio > a->ratio[l] ? ratio : a->ratio[l];
    a->z[l] = fabs(z) > a->z[l] ? fabs(z) : a->z[l];
    a->z2[l] += z * z;
    a->bias[l] += z * copysign(1, ref);
    a->bad[l] += diff <= bound ? 0 : 1;
    a->far[l] += fabs(z) > FAR ? 1 : 0;
    double relative = diff / (1 + fabs(ref));
    a->error[l] = relative > a->error[l] ? relative : a->error[l];
    return z * z;
}

static double lanes_max(const double *x)
{
    double max = x[0];
    for (int l = 1; l < LANES; l++) {
        max = x[l] > max ? x[l] : max;
    }
    return max;
}

static double lanes_sum(const double *x)
{
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

/* Returns whether all n elements lie within their bounds; only then the lanes and z2, the squares
 * of z, mean something. */
AT_CLONES static bool sweep(lanes *out, double *restrict z2, const double *restrict got,
                            const double *restrict ref, const double *restrict bound,
                            const double *restrict sigma, int64_t n)
{
    lanes a = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            z2[i + l] = step(&a, l, got[i + l], ref[i + l], bound[i + l], sigma[i + l]);
        }
    }
    for (int l = 0; i < n; i++, l++) {
        z2[i] = step(&a, l, got[i], ref[i], bound[i], sigma[i]);
    }
    *out = a;
    return lanes_sum(a.bad) == 0;
}

static at_issue classify(const at_rule *rule, const void *stored, int64_t d, const at_example *e)
{
    if (is_poison(rule, stored, d)) {
        return AT_ISSUE_UNWRITTEN;
    }
    if (isnan(e->want) || !(e->bound >= 0)) {
        return AT_ISSUE_REFERENCE;
    }
    if (at_rule_passes(rule, e->got, e->want, e->bound)) {
        return AT_ISSUE_COUNT;
    }
    if (isnan(e->got)) {
        return AT_ISSUE_NAN;
    }
    if (isinf(e->got)) {
        return isinf(e->want) ? AT_ISSUE_FINITE : AT_ISSUE_INF;
    }
    return isinf(e->want) ? AT_ISSUE_FINITE : AT_ISSUE_BOUND;
}

static void note_worst(at_tally *t, const at_example *e)
{
    if (e->ratio > t->worst.ratio || t->worst.n == 0) {
        int64_t n = t->worst.n;
        t->worst = *e;
        t->worst.n = n;
    }
}

/* Element by element, where at least one is not within its bound. Returns the number unwritten. */
static int64_t inspect(at_tally *t, lanes *a, double *z2, const at_rule *rule, const int64_t row[3],
                       int64_t first, const void *stored, const double *got, const double *ref,
                       const double *bound, const double *sigma, int64_t n)
{
    int64_t unwritten = 0;
    for (int64_t i = 0; i < n; i++) {
        at_example e = example(row, first + i, got[i], ref[i], bound[i]);
        at_issue issue = classify(rule, stored, first + i, &e);
        unwritten += issue == AT_ISSUE_UNWRITTEN;
        if (issue != AT_ISSUE_COUNT) {
            count(t, issue, &e);
        }
        z2[i] = 0;
        if (isfinite(got[i]) && isfinite(ref[i])) {
            z2[i] = step(a, (int)(i % LANES), got[i], ref[i], bound[i], sigma[i]);
            note_worst(t, &e);
            t->worst.n++;
        }
    }
    return unwritten;
}

static void find_worst(at_tally *t, const int64_t row[3], int64_t first, const double *got,
                       const double *ref, const double *bound, int64_t n, double top)
{
    for (int64_t i = 0; i < n; i++) {
        at_example e = example(row, first + i, got[i], ref[i], bound[i]);
        if (e.ratio == top) {
            note_worst(t, &e);
            return;
        }
    }
}

static void note_group(at_least *least, double z2, int64_t n)
{
    double rms = sqrt(z2 / (double)n), log_tail = at_log_tail_rms(rms, n);
    if (least->groups == 0 || !(log_tail >= least->log_tail)) {
        least->log_tail = log_tail;
        least->rms = rms;
    }
    least->groups++;
}

static void close_tile(at_tally *t)
{
    at_patch *patch = t->patch;
    for (int i = 0; i < patch->used; i++) {
        if (patch->n[i] > 0) {
            note_group(&t->tile, patch->z2[i], patch->n[i]);
        }
        patch->z2[i] = 0;
        patch->n[i] = 0;
    }
    patch->used = 0;
}

static void close_block(at_tally *t)
{
    if (t->patch->block_n > 0) {
        note_group(&t->block, t->patch->block_z2, t->patch->block_n);
    }
    t->patch->block_z2 = 0;
    t->patch->block_n = 0;
}

void at_tally_begin(at_tally *t, at_patch *patch)
{
    memset(patch, 0, sizeof *patch);
    patch->tile = patch->block = -1;
    t->patch = patch;
}

void at_tally_end(at_tally *t)
{
    close_tile(t);
    close_block(t);
    t->patch = NULL;
}

/* Closes what the row is no part of. */
static void enter(at_tally *t, const int64_t row[3])
{
    at_patch *patch = t->patch;
    bool same = row[0] == patch->b && row[1] == patch->h;
    if (!same || row[2] / AT_PATCH_ROWS != patch->tile) {
        close_tile(t);
    }
    if (!same || row[2] / AT_BLOCK_ROWS != patch->block) {
        close_block(t);
    }
    patch->b = row[0];
    patch->h = row[1];
    patch->tile = row[2] / AT_PATCH_ROWS;
    patch->block = row[2] / AT_BLOCK_ROWS;
}

/* The squares of n elements from column `first` of the row. */
static void add_squares(at_patch *patch, int64_t first, const double *z2, int64_t n)
{
    for (int64_t i = 0; i < n; i += AT_PATCH_COLUMNS) {
        int64_t width = n - i < AT_PATCH_COLUMNS ? n - i : AT_PATCH_COLUMNS;
        int64_t at = (first + i) / AT_PATCH_COLUMNS;
        double sum = 0;
        for (int64_t k = 0; k < width; k++) {
            sum += z2[i + k];
        }
        patch->block_z2 += sum;
        if (at < AT_PATCHES) {
            patch->z2[at] += sum;
            patch->n[at] += width;
            patch->used = at >= patch->used ? (int)at + 1 : patch->used;
        }
    }
    patch->block_n += n;
}

void at_tally_compare(at_tally *t, const at_rule *rule, const int64_t row[3], const void *stored,
                      const double *ref, const double *bound, const double *sigma)
{
    size_t size = at_dtype_size(rule->dtype);
    int64_t unwritten = 0;
    double z2 = 0;
    if (t->patch != NULL) {
        enter(t, row);
    }
    for (int64_t d = 0; d < rule->dim; d += PIECE) {
        int64_t n = rule->dim - d < PIECE ? rule->dim - d : PIECE;
        double got[PIECE], squares[PIECE];
        at_dtype_load_double(rule->dtype, got, (const unsigned char *)stored + (size_t)d * size,
                             (size_t)n);
        lanes a;
        if (sweep(&a, squares, got, ref + d, bound + d, sigma + d, n)) {
            double top = lanes_max(a.ratio);
            if (top > t->worst.ratio || t->worst.n == 0) {
                find_worst(t, row, d, got, ref + d, bound + d, n, top);
            }
            t->worst.n += n;
        } else {
            a = (lanes){0};
            unwritten += inspect(t, &a, squares, rule, row, d, stored, got, ref + d, bound + d,
                                 sigma + d, n);
        }
        t->max_z = fmax(t->max_z, lanes_max(a.z));
        t->max_error = fmax(t->max_error, lanes_max(a.error));
        z2 += lanes_sum(a.z2);
        t->sum_bias += lanes_sum(a.bias);
        t->outliers += lanes_sum(a.far);
        if (t->patch != NULL) {
            add_squares(t->patch, d, squares, n);
        }
    }
    if (rule->dim > 0) {
        note_group(&t->row, z2, rule->dim);
    }
    t->sum_z2 += z2;
    t->checked += rule->dim;
    t->unwritten_rows += rule->dim > 0 && unwritten == rule->dim;
    t->listed++;
}

#define ANY_NONFINITE(type, mask)                                                                  \
    {                                                                                              \
        const type *x = stored;                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                          \
            bad |= (x[i] & (mask)) == (mask);                                                      \
        }                                                                                          \
        break;                                                                                     \
    }

/* On the stored bits: an exponent of all ones is NaN or infinity. */
static bool any_nonfinite(at_dtype dtype, const void *stored, int64_t n)
{
    int bad = 0;
    switch (dtype) {
    case AT_F32:
        ANY_NONFINITE(uint32_t, 0x7f800000u)
    case AT_F16:
        ANY_NONFINITE(uint16_t, 0x7c00u)
    case AT_BF16:
        ANY_NONFINITE(uint16_t, 0x7f80u)
    case AT_F8E4M3:
        ANY_NONFINITE(uint8_t, 0x7fu)
    case AT_F8E5M2:
        ANY_NONFINITE(uint8_t, 0x7cu)
    case AT_U8:
    case AT_I32:
    case AT_DTYPE_COUNT:
        break;
    }
    return bad != 0;
}

static double load_one(const at_rule *rule, const void *stored, int64_t d)
{
    double x;
    size_t size = at_dtype_size(rule->dtype);
    at_dtype_load_double(rule->dtype, &x, (const unsigned char *)stored + (size_t)d * size, 1);
    return x;
}

void at_tally_classes(at_tally *t, const at_rule *rule, const int64_t row[3], const void *stored)
{
    t->checked += rule->dim;
    if (!any_nonfinite(rule->dtype, stored, rule->dim)) {
        return;
    }
    int64_t unwritten = 0;
    for (int64_t d = 0; d < rule->dim; d++) {
        double got = load_one(rule, stored, d);
        at_example e = example(row, d, got, (double)NAN, (double)NAN);
        if (is_poison(rule, stored, d)) {
            count(t, AT_ISSUE_UNWRITTEN, &e);
            unwritten++;
        } else if (!isfinite(got)) {
            count(t, isnan(got) ? AT_ISSUE_NAN : AT_ISSUE_INF_UNSAMPLED, &e);
        }
    }
    t->unwritten_rows += unwritten == rule->dim;
}

static bool meets(at_expect expect, bool poison, double got, double want, double bound)
{
    switch (expect) {
    case AT_EXPECT_VALUE:
        return !poison && (got == want || fabs(got - want) <= bound);
    case AT_EXPECT_NAN:
        return !poison && isnan(got);
    case AT_EXPECT_FINITE:
        return poison || isfinite(got);
    case AT_EXPECT_UNTOUCHED:
        return poison;
    }
    return false;
}

void at_tally_expect(at_tally *t, const at_rule *rule, const int64_t row[3], const void *stored,
                     at_expect expect, const double *want, const double *bound, at_issue nan,
                     at_issue other)
{
    bool live = other == AT_ISSUE_DEAD;
    int64_t unwritten = 0;
    for (int64_t d = 0; d < rule->dim; d++) {
        double got = load_one(rule, stored, d);
        double goal = want != NULL ? want[d] : expect == AT_EXPECT_NAN ? (double)NAN : 0;
        double slack = bound != NULL ? bound[d] : 0;
        bool poison = is_poison(rule, stored, d);
        if (meets(expect, poison, got, goal, slack)) {
            continue;
        }
        at_example e = example(row, d, got, goal, slack);
        unwritten += poison;
        if (poison && live) {
            count(t, AT_ISSUE_UNWRITTEN, &e);
        } else {
            count(t, !isfinite(got) && isfinite(goal) ? nan : other, &e);
        }
    }
    t->checked += live ? rule->dim : 0;
    t->unwritten_rows += live && rule->dim > 0 && unwritten == rule->dim;
}

static void merge_least(at_least *least, const at_least *later)
{
    if (later->groups > 0 && (least->groups == 0 || !(later->log_tail >= least->log_tail))) {
        least->log_tail = later->log_tail;
        least->rms = later->rms;
    }
    least->groups += later->groups;
}

void at_tally_merge(at_tally *t, const at_tally *later)
{
    for (int i = 0; i < AT_ISSUE_COUNT; i++) {
        if (later->issue[i].n > 0) {
            count(t, (at_issue)i, &later->issue[i]);
        }
    }
    if (later->worst.n > 0) {
        note_worst(t, &later->worst);
        t->worst.n += later->worst.n;
    }
    t->checked += later->checked;
    t->unwritten_rows += later->unwritten_rows;
    t->listed += later->listed;
    t->max_z = later->max_z > t->max_z ? later->max_z : t->max_z;
    t->max_error = later->max_error > t->max_error ? later->max_error : t->max_error;
    t->sum_z2 += later->sum_z2;
    t->sum_bias += later->sum_bias;
    t->outliers += later->outliers;
    merge_least(&t->row, &later->row);
    merge_least(&t->tile, &later->tile);
    merge_least(&t->block, &later->block);
}

static int write_place(char *text, size_t room, const char *tensor, const at_example *e)
{
    return snprintf(text, room, "%s[%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "]", tensor,
                    e->index[0], e->index[1], e->index[2], e->index[3]);
}

static void write_sentence(at_reason *r, const at_tally *t, const at_example *e,
                           const issue_row *issue, const char *tensor)
{
    char got[AT_REAL_TEXT], want[AT_REAL_TEXT], bound[AT_REAL_TEXT];
    (void)at_real_print(e->got, got);
    (void)at_real_print(e->want, want);
    (void)at_real_print(e->bound, bound);
    (void)snprintf(r->code, sizeof r->code, "%s", issue->code);
    size_t used = (size_t)write_place(r->text, sizeof r->text, tensor, e);
    used += (size_t)snprintf(r->text + used, sizeof r->text - used, " is %s", got);
    if (!isnan(e->want)) {
        used += (size_t)snprintf(r->text + used, sizeof r->text - used,
                                 ", the reference is %s and the bound %s", want, bound);
    }
    (void)snprintf(r->text + used, sizeof r->text - used,
                   "; %" PRId64 " elements (%" PRId64 " live ones checked) %s.", e->n, t->checked,
                   issue->many);
}

static void write_unwritten(at_reason *r, const at_tally *t, const at_example *e,
                            const char *tensor, int64_t dim)
{
    bool all = e->n == t->checked, rows = t->unwritten_rows * dim == e->n;
    (void)snprintf(r->code, sizeof r->code, "%s",
                   all    ? "unwritten"
                   : rows ? "unwritten_rows"
                          : "unwritten_part");
    char place[128];
    (void)write_place(place, sizeof place, tensor, e);
    (void)snprintf(r->text, sizeof r->text,
                   "%s was never written, the first of %" PRId64 " such elements among %" PRId64
                   " live ones (%" PRId64 " whole rows).",
                   place, e->n, t->checked, t->unwritten_rows);
}

static void measure_statistics(at_measure *m, const at_tally *t)
{
    double n = (double)(t->worst.n > 0 ? t->worst.n : 1);
    m->max_z = t->max_z;
    m->rms_z = sqrt(t->sum_z2 / n);
    m->row_rms_z = t->row.rms;
    m->tile_rms_z = t->tile.rms;
    m->block_rms_z = t->block.rms;
    m->bias_z = fabs(t->sum_bias) / sqrt(n);
    m->max_error = t->max_error;
    m->outliers = (int64_t)t->outliers;
    m->compared = t->worst.n;
    m->score[AT_STAT_MAX] = at_surprise(at_log_tail_normal(m->max_z), n);
    m->score[AT_STAT_RMS] = m->rms_z;
    m->score[AT_STAT_ROW] = at_surprise(t->row.log_tail, (double)t->row.groups);
    m->score[AT_STAT_TILE] = at_surprise(t->tile.log_tail, (double)t->tile.groups);
    m->score[AT_STAT_BLOCK] = at_surprise(t->block.log_tail, (double)t->block.groups);
    m->score[AT_STAT_BIAS] = m->bias_z / sqrt(n);
    m->score[AT_STAT_OUTLIERS] =
        at_surprise(at_log_tail_count(m->outliers, n * at_tail_normal(FAR)), 1);
    m->score[AT_STAT_ERROR] = m->max_error * 0x1p24;
}

void at_tally_conclude(at_measure *m, const at_tally *t, const char *tensor, int64_t dim)
{
    int worst = AT_ISSUE_COUNT;
    m->judged = true;
    m->total = t->checked;
    m->wrong = 0;
    for (int i = 0; i < AT_ISSUE_COUNT; i++) {
        m->wrong += t->issue[i].n;
        if (t->issue[i].n > 0 &&
            (worst == AT_ISSUE_COUNT || issue_rows[i].kind > issue_rows[worst].kind)) {
            worst = i;
        }
    }
    measure_statistics(m, t);
    const at_example *e = worst == AT_ISSUE_COUNT ? &t->worst : &t->issue[worst];
    bool measurable = worst == AT_ISSUE_COUNT || worst == AT_ISSUE_BOUND;
    m->max_ratio = measurable ? t->worst.ratio : HUGE_VAL;
    memcpy(m->index, e->index, sizeof m->index);
    m->got = e->got;
    m->want = e->want;
    m->bound = e->bound;
    m->kind = worst == AT_ISSUE_COUNT ? AT_PASS : issue_rows[worst].kind;
    m->reason = (at_reason){"", ""};
    if (worst == AT_ISSUE_UNWRITTEN) {
        write_unwritten(&m->reason, t, e, tensor, dim);
    } else if (worst != AT_ISSUE_COUNT) {
        write_sentence(&m->reason, t, e, &issue_rows[worst], tensor);
    }
}
