#include <stdio.h>
#include <string.h>

#include "harness/problem/rng.h"
#include "harness/selftest/specimen.h"

enum { STREAM = 0x7e57, DRAWS = 32, TRIES = 64, DTYPES = 3 };

/* Draws of one case. */
typedef struct draw {
    uint64_t seed, at;
} draw;

static int64_t below(draw *d, int64_t n)
{
    return (int64_t)at_rng_below(d->seed, STREAM, d->at++, (uint64_t)n);
}

static const char *one_of(draw *d, const char *const *words, int n)
{
    return words[below(d, n)];
}

/* Most cases are plain; the more common a text, the more often it stands here. */
static const char *const masks[] = {
    "",
    "",
    ":mask=causal",
    ":mask=causal:align=br",
    ":mask=band:wl=5:wr=2",
    ":mask=causal:wl=7:align=br",
};
static const char *const layouts[] = {
    "", "", ":layout=sbhd", ":layout=bhsd", ":layout=thd:lens=random", ":lens=random", ":lens=half",
};
static const char *const features[] = {
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    ":softcap=5",
    ":softcap=30",
    ":softcap=50",
    ":scale=0.05",
    ":scale=0.3",
    ":scale=1",
    ":bias=alibi",
    ":bias=rel.1h:grads=qkvb",
    ":amask=bool.b1",
    ":amask=add.11",
    ":sink=off1",
    ":sink=learned:grads=qkvs",
    ":stride=row_gap",
    ":page=16",
};
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

static void write_case(char text[AT_CASE_TEXT_MAX], draw *d, uint64_t n)
{
    static const int64_t dims[] = {8, 16, 16, 24, 32, 40, 64}, groups[] = {1, 1, 1, 2, 4};
    static const int64_t wide[] = {96, 128, 160, 192};
    const at_field *fill = at_case_field("fill", 4);
    int64_t group = groups[below(d, COUNT(groups))], heads = 1 + below(d, 2);
    int64_t dim = dims[below(d, COUNT(dims))];
    int64_t dim_v = below(d, 4) == 0 ? dims[below(d, COUNT(dims))] : dim;
    int64_t batch = 1 + below(d, 2), len_q = 1 + below(d, 40), len_kv = 1 + below(d, 47);
    len_kv = below(d, 4) == 0 ? len_q : len_kv;
    int64_t odd = below(d, 20); /* one of each kind beyond what is tiny, so that limits know them */
    dim = odd == 0 ? wide[below(d, COUNT(wide))] : dim;
    len_kv = odd == 1 ? 100 + below(d, 300) : len_kv;
    len_q = odd == 1 ? 1 + below(d, 8) : odd == 2 ? 64 + below(d, 80) : len_q;
    batch = odd < 3 ? 1 : batch;
    const char *mask = one_of(d, masks, COUNT(masks));
    const char *layout = one_of(d, layouts, COUNT(layouts));
    const char *feature = one_of(d, features, COUNT(features));
    uint64_t seed = at_rng_u64(d->seed, STREAM + 1, n) >> 32;
    (void)snprintf(text, AT_CASE_TEXT_MAX,
                   "b=%lld:hq=%lld:hkv=%lld:sq=%lld:skv=%lld:dqk=%lld:dv=%lld:dtype=%s:fill=%s:"
                   "seed=%llu%s%s%s",
                   (long long)batch, (long long)(heads * group), (long long)heads, (long long)len_q,
                   (long long)len_kv, (long long)dim, (long long)dim_v, at_dtype_names[n % DTYPES],
                   fill->names[n / DTYPES % (uint64_t)fill->name_count], (unsigned long long)seed,
                   mask, layout, feature);
}

void at_tiny_case(at_case *out, const at_backend *backend, uint64_t seed, uint64_t n)
{
    for (uint64_t attempt = 0; attempt < TRIES; attempt++) {
        draw d = {seed, (n * TRIES + attempt) * DRAWS};
        char text[AT_CASE_TEXT_MAX];
        at_reason why = {"", ""};
        at_error err = {""};
        write_case(text, &d, n);
        if (at_case_parse(out, text, &err) == AT_OK &&
            backend->supports(backend, out, &why) == AT_OK) {
            return;
        }
    }
    at_case_init(out);
}
