#include "harness/fuzz/fuzz_frontend.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/expr.h"
#include "harness/select/selector.h"
#include "harness/tests/frontend_cases.h"

/* Members that a change can name. Words of 8 bytes first: the five tensors lie side by side. */
static const size_t words[] = {
    offsetof(at_cudnn_spec, page),       offsetof(at_cudnn_spec, len_kv),
    offsetof(at_cudnn_spec, left),       offsetof(at_cudnn_spec, right),
    offsetof(at_cudnn_spec, bias_batch), offsetof(at_cudnn_spec, bias_heads)};
static const size_t flags[] = {
    offsetof(at_cudnn_spec, stats),         offsetof(at_cudnn_spec, padding),
    offsetof(at_cudnn_spec, ragged),        offsetof(at_cudnn_spec, bottom_right),
    offsetof(at_cudnn_spec, has_left),      offsetof(at_cudnn_spec, has_right),
    offsetof(at_cudnn_spec, bias),          offsetof(at_cudnn_spec, dbias),
    offsetof(at_cudnn_spec, alibi),         offsetof(at_cudnn_spec, has_dropout),
    offsetof(at_cudnn_spec, sink),          offsetof(at_cudnn_spec, dsink),
    offsetof(at_cudnn_spec, deterministic), offsetof(at_cudnn_spec, backward)};

enum {
    TENSOR_WORDS = 5 * 8,
    WORDS = TENSOR_WORDS + sizeof words / sizeof *words,
    FLAGS = WORDS + sizeof flags / sizeof *flags,
    SM = FLAGS,
    SCALE,
    DROPOUT,
    TYPE,
    OUT_TYPE,
    PLACES
};

/* Products of four stay in 64 bits: overflow in our own arithmetic is no finding. */
static const int64_t values[] = {0,   1,   2,   3,   4,    7,    8,    9,     15,    16,    24,
                                 63,  64,  65,  72,  100,  127,  128,  129,   160,   192,   248,
                                 255, 256, 257, 264, 272,  384,  504,  512,   520,   1024,  1025,
                                 -1,  -2,  -8,  -64, 4096, 8192, 9999, 16384, 32767, -32768};
static const float reals[] = {0, 1, 0.5F, -1, 1e-45F, 3e38F, 0.99999994F};

static void change(at_cudnn_spec *s, uint8_t place, uint8_t value)
{
    const size_t at = place % PLACES, n = sizeof values / sizeof *values;
    const int64_t word = values[value % n];
    const float real = value == 255   ? NAN
                       : value == 254 ? INFINITY
                                      : reals[value % (sizeof reals / sizeof *reals)];
    char *base = (char *)s;
    if (at < TENSOR_WORDS) {
        memcpy(base + offsetof(at_cudnn_spec, q) + 8 * at, &word, sizeof word);
    } else if (at < WORDS) {
        memcpy(base + words[at - TENSOR_WORDS], &word, sizeof word);
    } else if (at < FLAGS) {
        const bool flag = (value & 1) != 0;
        memcpy(base + flags[at - WORDS], &flag, sizeof flag);
    } else if (at == SM) {
        s->sm = value;
    } else if (at == SCALE) {
        s->scale = real;
    } else if (at == DROPOUT) {
        s->dropout = real;
    } else if (at == TYPE) {
        s->type = (at_cudnn_type)(value % 5);
    } else {
        s->out_type = (at_cudnn_type)(value % 5);
    }
}

bool at_fuzz_graph_read(at_fuzz_graph *out, const uint8_t *data, size_t size)
{
    enum { HEAD = 3, CHANGES = 7 };
    _Static_assert(sizeof(at_cudnn_tensor) == 64 &&
                       offsetof(at_cudnn_spec, dout) - offsetof(at_cudnn_spec, q) == 4 * 64,
                   "the tensors lie side by side");
    uint8_t head[HEAD] = {0};
    at_reason why;
    memcpy(head, data, size < HEAD ? size : HEAD);
    const size_t changes = size > HEAD ? (size_t)(head[1] >> 3 & CHANGES) : 0;
    const size_t skip = size < HEAD + 2 * changes ? size : HEAD + 2 * changes;
    at_case_from_bytes(&out->c, data + skip, size - skip);
    out->c.arch = AT_ARCH_SM80 + head[2] % (AT_ARCH_SM121 - AT_ARCH_SM80 + 1);
    out->step =
        (head[1] & 4) != 0 && out->c.pass == AT_PASS_TRAIN ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
    out->release = head[0] % at_frontend_release_count;
    if (at_cudnn_spec_init(&out->spec, &out->c, out->step, (int)at_arch_number(out->c.arch),
                           &why) != AT_OK) {
        return false;
    }
    out->spec.node = (at_cudnn_node)((head[1] & 3) % 3);
    out->changed = changes > 0 && skip == HEAD + 2 * changes;
    for (size_t i = 0; out->changed && i < changes; i++) {
        change(&out->spec, data[HEAD + 2 * i], data[HEAD + 2 * i + 1]);
    }
    return true;
}

static const at_selector *rules_for(size_t release, size_t node, const at_cudnn_api *api)
{
    static const char *const nodes[] = {"auto", "composite", "unified"};
    static at_selector *open[64][3];
    at_selector **s = &open[release][node];
    if (*s == NULL) {
        const char *patch = strrchr(api->frontend_version, '.');
        char text[128], name[64];
        at_env *env = NULL;
        (void)snprintf(name, sizeof name, "cudnn-frontend-%.*s",
                       (int)(patch - api->frontend_version), api->frontend_version);
        (void)snprintf(text, sizeof text, "cudnn=%s,header=%s,node=%s",
                       at_frontend_releases[release].name, api->header_version, nodes[node]);
        AT_ASSERT(at_env_set(&env, text, NULL) == AT_OK);
        AT_ASSERT(at_selector_open(s, AT_FUZZ_CORPUS, name, env, NULL) == AT_OK);
        at_env_close(env);
    }
    return *s;
}

bool at_fuzz_graph_rules(const at_fuzz_graph *g, const at_cudnn_api *api)
{
    const char *name = g->step == AT_STEP_BACKWARD ? "backward" : "forward";
    const at_selector *s = rules_for(g->release, (size_t)g->spec.node, api);
    at_decision d;
    AT_ASSERT(at_selector_decide_fast(&d, s, &g->c, NULL) == AT_OK);
    size_t i = 0;
    while (strcmp(at_selector_backend(s, i), name) != 0) {
        i++;
    }
    return (d.admitted >> i & 1) != 0;
}

bool at_fuzz_graph_known(const at_cudnn_spec *spec)
{
    const bool no_heads = spec->k.dim[1] == 0 || spec->v.dim[1] == 0; /* 1 */
    return no_heads && getenv("ATTEST_FUZZ_KNOWN") == NULL;
}
