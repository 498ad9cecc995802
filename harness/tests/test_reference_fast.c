/* The fast reference equals the golden one within fp64 rounding, and its error scale within 1 %. */
#include "harness/tests/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/problem/problem.h"
#include "reference/reference.h"

static const at_tensor_id outputs[] = {AT_O, AT_LSE, AT_DQ, AT_DK, AT_DV};

typedef struct both {
    at_arena *inputs, *answers;
    at_problem p;
    at_gold golden, fast;
    const char *text;
} both;

static at_status run(both *w, at_gold *out, at_reference_path path, const at_numeric_class *numeric,
                     at_error *err)
{
    at_reference_options options = {.path = path};
    if (numeric != NULL) {
        options.numeric = *numeric;
    }
    return at_reference_run(out, &w->p, &options, w->answers, err);
}

static bool both_open(both *w, const char *text, const at_numeric_class *numeric)
{
    at_case c;
    at_error err = {""};
    memset(w, 0, sizeof *w);
    w->text = text;
    CHECK_OK(at_arena_open(&w->inputs, &err), &err);
    CHECK_OK(at_arena_open(&w->answers, &err), &err);
    at_status status = at_case_parse(&c, text, &err);
    status = status == AT_OK ? at_problem_open(&w->p, &c, w->inputs, &err) : status;
    status = status == AT_OK ? run(w, &w->golden, AT_REFERENCE_GOLDEN, numeric, &err) : status;
    status = status == AT_OK ? run(w, &w->fast, AT_REFERENCE_FAST, numeric, &err) : status;
    if (status != AT_OK) {
        at_test_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
    }
    return status == AT_OK;
}

static void both_close(both *w)
{
    at_arena_close(w->inputs);
    at_arena_close(w->answers);
}

static bool near(double a, double b, double tolerance)
{
    return a == b || fabs(a - b) <= tolerance;
}

/* fp64 rounding is far below any noise of a kernel: a millionth of the bound. */
static bool same_element(const at_gold_tensor *a, const at_gold_tensor *b, int64_t e)
{
    double scale = 0.01 * a->sigma[e] + 1e-60;
    return near(a->ref[e], b->ref[e], 1e-6 * a->bound[e] + 1e-300) &&
           near(a->bound[e], b->bound[e], 0.01 * a->bound[e]) &&
           near(a->sigma[e], b->sigma[e], scale);
}

static void same_tensor(const both *w, at_tensor_id id)
{
    const at_gold_tensor *a = &w->golden.t[id], *b = &w->fast.t[id];
    CHECK_INT(b->rows, a->rows);
    CHECK_INT(b->total_rows, a->total_rows);
    CHECK_INT(b->dim, a->dim);
    for (int64_t r = 0; r < a->rows && b->rows == a->rows; r++) {
        bool same = memcmp(a->row[r], b->row[r], sizeof a->row[r]) == 0 &&
                    (a->dead == NULL || a->dead[r] == b->dead[r]);
        for (int64_t d = 0; d < a->dim && same; d++) {
            int64_t e = r * a->dim + d;
            same = same_element(a, b, e);
            if (!same) {
                at_test_fail(__FILE__, __LINE__,
                             "%s: %s [%lld %lld %lld %lld]: ref %.17g %.17g, bound %g %g, sigma %g "
                             "%g",
                             w->text, at_tensor_names[id], (long long)a->row[r][0],
                             (long long)a->row[r][1], (long long)a->row[r][2], (long long)d,
                             a->ref[e], b->ref[e], a->bound[e], b->bound[e], a->sigma[e],
                             b->sigma[e]);
            }
        }
        if (!same) {
            return;
        }
    }
}

static void check(const char *text, const at_numeric_class *numeric)
{
    both w;
    if (both_open(&w, text, numeric)) {
        CHECK_TEXT(w.golden.path, "golden");
        CHECK_TEXT(w.fast.path, "fast");
        CHECK(w.fast.share == 1);
        for (size_t i = 0; i < 5; i++) {
            same_tensor(&w, outputs[i]);
        }
    }
    both_close(&w);
}

static const char *const masks[] = {
    "",
    ":mask=causal",
    ":mask=causal:align=br",
    ":mask=causal:align=2",
    ":mask=causal:wl=1",
    ":mask=band:wl=0:wr=0",
    ":mask=band:wl=2:wr=1:align=br",
    ":mask=band:wr=0:align=1",
    ":mask=band:wl=1:align=3",
};
enum { N_MASKS = sizeof masks / sizeof masks[0] };

static void test_tiny_lengths(void)
{
    static const char *const heads[] = {"hq=1", "hq=4:hkv=2", "hq=6:hkv=3:hv=2", "b=2:hq=2:hkv=1"};
    char text[256];
    int n = 0;
    for (int sq = 0; sq <= 5; sq++) {
        for (int skv = 0; skv <= 5; skv++) {
            for (int m = 0; m < N_MASKS; m++, n++) {
                static const int dims[] = {1, 2, 3, 8};
                (void)snprintf(text, sizeof text, "%s:sq=%d:skv=%d:dqk=%d:dv=%d:dtype=%s%s",
                               heads[n % 4], sq, skv, dims[n / 4 % 4], dims[n / 16 % 4],
                               n % 3 == 0   ? "f32"
                               : n % 3 == 1 ? "f16"
                                            : "bf16",
                               masks[m]);
                check(text, NULL);
            }
        }
    }
}

const at_test at_tests[] = {
    {"ref", "tiny_lengths", test_tiny_lengths},
    {NULL, NULL, NULL},
};
