#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error "verdicts need NaN and infinities"
#endif
#include "harness/judge/judge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/judge/tally.h"

enum { DIM_MAX = 4096, TILE = 16, FRAGMENT_COLUMNS = 8 };

/* A change below this share of the bound is the reference's own rounding, not a fault. */
#define NOTHING (1.0 / 65536)
/* Few rows may happen to hold nothing but noise, and attention may be uniform but for the rounding
 * of P: a change below this many sigmas is none then. */
#define IN_NOISE 6.0

/* The reference output of one tensor, and scratch. `mean` belongs to head mean_of. */
typedef struct jaw {
    const at_problem *p;
    at_tensor_id id;
    const at_tensor *t;
    const at_gold_tensor *gold;
    at_rule rule;
    int64_t dim; /* elements of a row looked at: all, or the first DIM_MAX of a row of dbias */
    int64_t mean_of[2];
    double mean[DIM_MAX];
    double faulty[DIM_MAX], right[DIM_MAX];
    unsigned char bits[DIM_MAX * sizeof(float)];
} jaw;

/* Writes the faulty row r into j->faulty, not yet rounded; false: the fault leaves the row alone.
 */
typedef bool (*fault_fn)(jaw *j, int64_t r);

typedef struct tooth {
    const char *does; /* "a kernel that DOES would pass" */
    fault_fn apply;
    bool mild; /* may be small by nature: nothing is lost where it is below the noise */
} tooth;

static const double *row_of(const jaw *j, int64_t r)
{
    return j->gold->ref + r * j->gold->dim;
}

static bool scale_row(jaw *j, int64_t r, double factor)
{
    for (int64_t d = 0; d < j->dim; d++) {
        j->faulty[d] = factor * row_of(j, r)[d];
    }
    return true;
}

static bool fault_zero(jaw *j, int64_t r)
{
    (void)r;
    memset(j->faulty, 0, (size_t)j->dim * sizeof j->faulty[0]);
    return true;
}

static bool fault_negate(jaw *j, int64_t r)
{
    return scale_row(j, r, -1);
}

static bool fault_shift(jaw *j, int64_t r)
{
    int64_t from = r > 0 ? r - 1 : j->gold->rows - 1;
    memcpy(j->faulty, row_of(j, from), (size_t)j->dim * sizeof j->faulty[0]);
    return true;
}

static void mean_of_values(jaw *j, int64_t b, int64_t h)
{
    const at_tensor *v = &j->p->t[AT_V];
    int64_t n = j->p->len_kv[b], head = h * v->shape[1] / j->t->shape[1];
    double unit = (double)j->p->unit[AT_V] / (double)j->p->unit[AT_O];
    for (int64_t i = 0; i < n; i++) {
        at_tensor_load_row(v, b, head, i, j->faulty);
        for (int64_t d = 0; d < j->dim; d++) {
            j->mean[d] += j->faulty[d] * unit / (double)n;
        }
    }
}

/* The head's rows of the reference from row r on. */
static void mean_of_rows(jaw *j, int64_t r)
{
    const int64_t *first = j->gold->row[r];
    int64_t n = 0;
    for (; r < j->gold->rows; r++, n++) {
        if (j->gold->row[r][0] != first[0] || j->gold->row[r][1] != first[1]) {
            break;
        }
        for (int64_t d = 0; d < j->dim; d++) {
            j->mean[d] += row_of(j, r)[d];
        }
    }
    for (int64_t d = 0; d < j->dim; d++) {
        j->mean[d] /= (double)n;
    }
}

/* Every key weighs the same: O is the mean of V, LSE the log of the number of keys. A gradient has
 * no such closed form; there every row is the head's mean row, which for dV is the same thing. */
static bool fault_uniform(jaw *j, int64_t r)
{
    const int64_t *row = j->gold->row[r];
    if (j->id == AT_LSE) {
        int64_t first, last;
        at_problem_keys(j->p, row[0], row[2], &first, &last);
        j->faulty[0] = log((double)(last - first + 1));
        return true;
    }
    if (j->mean_of[0] != row[0] || j->mean_of[1] != row[1]) {
        memset(j->mean, 0, (size_t)j->dim * sizeof j->mean[0]);
        if (j->id == AT_O) {
            mean_of_values(j, row[0], row[1]);
        } else {
            mean_of_rows(j, r);
        }
        j->mean_of[0] = row[0];
        j->mean_of[1] = row[1];
    }
    memcpy(j->faulty, j->mean, (size_t)j->dim * sizeof j->faulty[0]);
    return true;
}

static bool fault_tile(jaw *j, int64_t r)
{
    const int64_t *row = j->gold->row[r];
    return row[2] >= (at_problem_live_rows(j->p, j->id, row[0]) - 1) / TILE * TILE &&
           fault_zero(j, r);
}

static bool fault_last_row(jaw *j, int64_t r)
{
    const int64_t *row = j->gold->row[r];
    return row[2] == at_problem_live_rows(j->p, j->id, row[0]) - 1 && fault_zero(j, r);
}

static bool fault_percent(jaw *j, int64_t r)
{
    return scale_row(j, r, 1.01);
}

static bool fault_permille(jaw *j, int64_t r)
{
    return scale_row(j, r, 1.001);
}

/* The two elements in the middle of the tensor. */
static bool fault_swap(jaw *j, int64_t r)
{
    int64_t dim = j->dim, n = j->gold->rows * dim, low = n / 2 - (n > 1), high = n / 2;
    if (r != low / dim && r != high / dim) {
        return false;
    }
    (void)scale_row(j, r, 1);
    if (r == low / dim) {
        j->faulty[low % dim] = row_of(j, high / dim)[high % dim];
    }
    if (r == high / dim) {
        j->faulty[high % dim] = row_of(j, low / dim)[low % dim];
    }
    return true;
}

/* 16 rows x 8 columns around the middle. */
static bool fault_fragment(jaw *j, int64_t r)
{
    const int64_t *row = j->gold->row[r], *middle = j->gold->row[j->gold->rows / 2];
    if (row[0] != middle[0] || row[1] != middle[1] || row[2] / TILE != middle[2] / TILE) {
        return false;
    }
    (void)scale_row(j, r, 1);
    int64_t first = j->dim / 2 / FRAGMENT_COLUMNS * FRAGMENT_COLUMNS;
    for (int64_t d = first; d < j->dim && d < first + FRAGMENT_COLUMNS; d++) {
        j->faulty[d] = 0;
    }
    return true;
}

/* A stored value above the reference becomes its neighbour toward zero. */
static bool fault_truncate(jaw *j, int64_t r)
{
    double u = at_dtype_roundoff(j->rule.dtype);
    for (int64_t d = 0; d < j->dim; d++) {
        bool up = fabs(j->right[d]) > fabs(row_of(j, r)[d]);
        j->faulty[d] = up ? j->right[d] * (1 - 1.5 * u) : j->right[d];
    }
    return true;
}

static const tooth hard_set[] = {
    {"writes zeros", fault_zero, false},
    {"negates the result", fault_negate, false},
    {"shifts the rows by one", fault_shift, false},
    {"weighs every key the same", fault_uniform, true},
    {"drops the last tile of 16 rows", fault_tile, true},
    {"drops the last row", fault_last_row, true},
};
static const tooth soft_set[] = {
    {"scales by 1.01", fault_percent, false},      {"scales by 1.001", fault_permille, false},
    {"swaps two elements", fault_swap, true},      {"loses a fragment", fault_fragment, true},
    {"rounds toward zero", fault_truncate, false},
};
enum { HARD = sizeof hard_set / sizeof hard_set[0], SOFT = sizeof soft_set / sizeof soft_set[0] };

static void round_row(jaw *j, double *out, const double *in)
{
    at_dtype_store_double(j->rule.dtype, j->bits, in, (size_t)j->dim);
    at_dtype_load_double(j->rule.dtype, out, j->bits, (size_t)j->dim);
}

/* Below this a changed element cannot be told from a rounded one: one rounding at the row's scale
 * (for LSE, an absolute quantity, at least 1), and one step of the smallest stored number. */
static double slack_of(const jaw *j)
{
    double top = j->id == AT_LSE ? 1 : 0, tiny = at_dtype_tiny(j->rule.dtype);
    for (int64_t d = 0; d < j->dim; d++) {
        double x = fabs(j->right[d]);
        top = x > top ? x : top;
    }
    double slack = at_dtype_roundoff(j->rule.dtype) * top;
    return slack > tiny ? slack : tiny;
}

typedef enum bite { BITE_NOTHING, BITE_MISSED, BITE_CAUGHT } bite;

/* Whether the rule rejects the faulty row, or whether the fault changes anything there at all. */
static bite bite_row(jaw *j, int64_t r, bool mild)
{
    const double *ref = row_of(j, r), *bound = j->gold->bound + r * j->gold->dim;
    const double *sigma = j->gold->sigma + r * j->gold->dim;
    double slack = slack_of(j);
    bite result = BITE_NOTHING;
    round_row(j, j->faulty, j->faulty);
    for (int64_t d = 0; d < j->dim; d++) {
        if (!at_rule_passes(&j->rule, j->faulty[d], ref[d], bound[d])) {
            return BITE_CAUGHT;
        }
        double change = fabs(j->faulty[d] - j->right[d]);
        double noise = mild ? IN_NOISE * sigma[d] : 0;
        if (!(change <= slack) && !(change <= NOTHING * bound[d]) && !(change <= noise)) {
            result = BITE_MISSED;
        }
    }
    return result;
}

static bite bite_tensor(jaw *j, const tooth *t)
{
    bite result = BITE_NOTHING;
    j->mean_of[0] = j->mean_of[1] = -1;
    for (int64_t r = 0; r < j->gold->rows; r++) {
        if (j->gold->dead != NULL && j->gold->dead[r]) {
            continue;
        }
        round_row(j, j->right, row_of(j, r));
        bite b = t->apply(j, r) ? bite_row(j, r, t->mild) : BITE_NOTHING;
        if (b == BITE_CAUGHT) {
            return b;
        }
        result = b > result ? b : result;
    }
    return result;
}

static void say_toothless(at_reason *reason, const jaw *j, const tooth *t)
{
    (void)snprintf(reason->code, sizeof reason->code, "toothless");
    (void)snprintf(reason->text, sizeof reason->text,
                   "%s passes, but so would a kernel that %s: the bound of this case is too wide "
                   "to tell.",
                   at_tensor_names[j->id], t->does);
}

static void bite_measure(at_verdict *v, at_step_verdict *step, jaw *j)
{
    at_measure *m = &step->m[j->id];
    int soft_caught = 0, soft_total = 0;
    for (int i = 0; i < HARD; i++) {
        bite b = bite_tensor(j, &hard_set[i]);
        v->teeth_total += b != BITE_NOTHING;
        v->teeth_caught += b == BITE_CAUGHT;
        if (b == BITE_MISSED && m->kind == AT_PASS) {
            m->kind = AT_VACUOUS;
            say_toothless(&m->reason, j, &hard_set[i]);
        }
    }
    for (int i = 0; i < SOFT; i++) {
        bite b = bite_tensor(j, &soft_set[i]);
        soft_total += b != BITE_NOTHING;
        soft_caught += b == BITE_CAUGHT;
    }
    m->sensitivity = soft_total > 0 ? (double)soft_caught / soft_total : 0;
    if (m->kind == AT_VACUOUS && step->kind < AT_VACUOUS) {
        step->kind = AT_VACUOUS;
        step->reason = m->reason;
    }
}

void at_judge_teeth(at_verdict *v, const at_problem *p, const at_gold *gold)
{
    v->teeth_caught = v->teeth_total = 0;
    v->share = gold->share;
    for (int s = 0; s < AT_STEP_COUNT; s++) {
        for (int t = 0; t < AT_TENSOR_COUNT && v->step[s].ran; t++) {
            if (!v->step[s].m[t].judged || gold->t[t].dim == 0) {
                continue;
            }
            jaw j;
            j.p = p;
            j.id = (at_tensor_id)t;
            j.t = &p->t[t];
            j.gold = &gold->t[t];
            j.rule = at_rule_of(j.t);
            AT_ASSERT(j.gold->dim <= DIM_MAX || j.id == AT_DBIAS);
            j.dim = j.gold->dim < DIM_MAX ? j.gold->dim : DIM_MAX;
            bite_measure(v, &v->step[s], &j);
        }
    }
    at_verdict_settle(v);
}
