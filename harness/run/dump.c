#include "harness/run/session.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_ROOM = 4096 };

static at_status write_text(const char *folder, const char *name, const char *text, at_error *err)
{
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return at_fail(err, AT_IO, "%s: cannot be written (%s)", path, strerror(errno));
    }
    bool good = fputs(text, file) >= 0;
    good = fclose(file) == 0 && good;
    return good ? AT_OK : at_fail(err, AT_IO, "%s: cannot be written (%s)", path, strerror(errno));
}

/* One quantity of the reference spread over the tensor's full shape. */
static at_status write_gold(const char *folder, const char *tensor, const char *what,
                            const at_tensor *t, const at_gold_tensor *g, const double *values,
                            at_error *err)
{
    size_t n = 1;
    for (int i = 0; i < 4; i++) {
        n *= (size_t)t->shape[i];
    }
    double *full = malloc((n + 1) * sizeof *full);
    if (full == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory to dump %s", tensor);
    }
    for (size_t i = 0; i < n; i++) {
        full[i] = (double)NAN;
    }
    for (int64_t r = 0; r < g->rows; r++) {
        const int64_t *at = g->row[r];
        int64_t row = (at[0] * t->shape[1] + at[1]) * t->shape[2] + at[2];
        memcpy(full + row * g->dim, values + r * g->dim, (size_t)g->dim * sizeof *full);
    }
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof path, "%s/%s.%s.npy", folder, tensor, what);
    at_status status = at_npy_write_double(path, full, t->shape, 4, err);
    free(full);
    return status;
}

static const char readme[] =
    "One attention problem that a backend got wrong or refused, as NumPy arrays.\n"
    "\n"
    "case.txt        the problem in words: sizes, types, mask, what was run, what came out\n"
    "q k v do        inputs, [batch heads len dim]; `do` is the gradient of the output\n"
    "bias amask sink more inputs, where the case has them; 1 along what they are broadcast over;\n"
    "                pages: which page holds the keys of which sequence (k, v are shown unpaged)\n"
    "o lse dq dk dv  what the backend wrote; NaN of one fixed pattern = never written\n"
    "dbias dsink     more of it; drop: the dropout mask that it used, 1 = kept, 165 = not written\n"
    "NAME.ref.npy    the answer in double precision, from the stored inputs\n"
    "NAME.bound.npy  how far an honest backend of this precision can be from it\n"
    "\n"
    "bf16 and fp8 tensors are stored widened to f32, without loss; fp8 ones stand without their\n"
    "scales, .ref and .bound of them too. A backend is right where\n"
    "abs(NAME - NAME.ref) <= NAME.bound. NaN in .ref and .bound: nothing is asked there\n"
    "(padding, or rows that were not sampled). lse is the natural log of the row sums,\n"
    "[batch heads len 1]. In NumPy:\n"
    "\n"
    "    import numpy as np\n"
    "    got, ref, bound = (np.load(f'dv{s}.npy') for s in ('', '.ref', '.bound'))\n"
    "    live = ~np.isnan(ref)\n"
    "    bad = live & ~(abs(got - ref) <= bound) & ~(got == ref)\n"
    "    print(bad.sum(), 'of', live.sum(), 'elements are wrong; the first:', "
    "np.argwhere(bad)[:1])\n";

at_status at_session_dump(const at_problem *p, const at_gold *gold, const char *folder,
                          const char *text, at_error *err)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return at_fail(err, AT_IO, "%s: cannot be made (%s)", folder, strerror(errno));
    }
    AT_TRY(write_text(folder, "README.txt", readme, err));
    AT_TRY(write_text(folder, "case.txt", text, err));
    for (int i = 0; i < AT_TENSOR_COUNT; i++) {
        const char *name = at_tensor_names[i];
        if (p->t[i].data == NULL) {
            continue;
        }
        char path[PATH_ROOM];
        (void)snprintf(path, sizeof path, "%s/%s.npy", folder, name);
        const int64_t *len =
            i == AT_K || i == AT_V || i == AT_DK || i == AT_DV ? p->len_kv : p->len_q;
        AT_TRY(at_npy_write_tensor(path, &p->t[i], p->t[i].start != NULL ? len : NULL, err));
        const at_gold_tensor *g = gold != NULL ? &gold->t[i] : NULL;
        if (g != NULL && g->rows > 0) {
            AT_TRY(write_gold(folder, name, "ref", &p->t[i], g, g->ref, err));
            AT_TRY(write_gold(folder, name, "bound", &p->t[i], g, g->bound, err));
        }
    }
    return AT_OK;
}
