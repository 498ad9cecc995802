#include "kernels/cudnn_audit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/select/boxes.h"
#include "harness/select/expr.h"
#include "harness/select/selector.h"
#include "kernels/cudnn_audit_core.h"
#include "kernels/cudnn_pool.h"
#include "kernels/cudnn_spec.h"

enum { STEPS = 2, NO_GRAPH = -1, CELLS_MAX = 1 << 22 };

/* The table of unequal graphs: open addressing over their bytes. */
typedef struct graphs {
    size_t count, room, slots;
    at_cudnn_spec *spec;
    uint16_t *sign; /* what was found for each; 0: nothing */
    uint32_t *slot; /* index + 1 */
} graphs;

/* The work of one audit. */
typedef struct work {
    at_cudnn_audit *audit;
    const at_cudnn_audit_request *request;
    at_selector *rules;
    int backend; /* of the rule set */
    graphs graphs;
    int32_t *of[STEPS]; /* [cells] graph of the cell's step, NO_GRAPH */
    size_t next, done;
} work;

static uint64_t hash_spec(const at_cudnn_spec *spec)
{
    const unsigned char *bytes = (const unsigned char *)spec;
    uint64_t h = 1469598103934665603U;
    for (size_t i = 0; i < sizeof *spec; i++) {
        h = (h ^ bytes[i]) * 1099511628211U;
    }
    return h ^ h >> 29;
}

static at_status grow(graphs *g, at_error *err)
{
    const size_t slots = g->slots > 0 ? 4 * g->slots : 4096, room = slots / 2;
    at_cudnn_spec *spec = realloc(g->spec, room * sizeof *spec);
    g->spec = spec != NULL ? spec : g->spec;
    uint32_t *slot = calloc(slots, sizeof *slot);
    if (spec == NULL || slot == NULL) {
        free(slot);
        return at_fail(err, AT_NO_MEMORY, "no memory for %zu graphs", room);
    }
    for (size_t i = 0; i < g->count; i++) {
        size_t at = hash_spec(&g->spec[i]) % slots;
        while (slot[at] != 0) {
            at = (at + 1) % slots;
        }
        slot[at] = (uint32_t)i + 1;
    }
    free(g->slot);
    g->slot = slot;
    g->slots = slots;
    g->room = room;
    return AT_OK;
}

static at_status find_graph(int32_t *out, graphs *g, const at_cudnn_spec *spec, at_error *err)
{
    if (g->count == g->room) {
        AT_TRY(grow(g, err));
    }
    size_t at = hash_spec(spec) % g->slots;
    while (g->slot[at] != 0 && memcmp(&g->spec[g->slot[at] - 1], spec, sizeof *spec) != 0) {
        at = (at + 1) % g->slots;
    }
    if (g->slot[at] == 0) {
        g->spec[g->count++] = *spec;
        g->slot[at] = (uint32_t)g->count;
    }
    *out = (int32_t)g->slot[at] - 1;
    return AT_OK;
}

static at_status place_cell(work *w, uint64_t cell, const at_case *c, at_error *err)
{
    const int sm = (int)at_arch_number(w->audit->arch);
    at_case asked = *c;
    if (w->request->against != NULL) {
        at_cudnn_spec_as_asked(&asked, w->request->against);
    }
    for (int step = 0; step < STEPS; step++) {
        at_cudnn_spec spec;
        at_reason why;
        w->of[step][cell] = NO_GRAPH;
        if (step == 1 && c->pass != AT_PASS_TRAIN) {
            continue;
        }
        if (at_cudnn_spec_init(&spec, &asked, (at_step)(AT_STEP_FORWARD + step), sm, &why) ==
            AT_OK) {
            spec.heuristics = NULL; /* the child's; pointers are no part of a graph */
            AT_TRY(find_graph(&w->of[step][cell], &w->graphs, &spec, err));
        }
    }
    return AT_OK;
}

/* Invalid cells are marked; the others get their graphs. */
static at_status place_all(work *w, at_error *err)
{
    at_cudnn_audit *a = w->audit;
    at_region_place place;
    at_case c = a->region->base;
    size_t moved = 0;
    at_region_locate(&place, a->region, 0);
    for (uint64_t cell = 0; cell < a->region->cells; cell++) {
        at_region_case(&c, a->region, &place, moved);
        c.arch = a->arch;
        w->of[0][cell] = w->of[1][cell] = NO_GRAPH;
        if (at_case_check(&c, NULL) != AT_OK) {
            a->mark[cell] = AT_MARK_INVALID;
        } else {
            a->cases++;
            AT_TRY(place_cell(w, cell, &c, err));
        }
        moved = at_region_step(&place, a->region);
    }
    return AT_OK;
}

static bool next_graph(void *user, at_cudnn_spec *spec, at_cudnn_stage *last, uint64_t *tag)
{
    work *w = user;
    if (w->next == w->graphs.count) {
        return false;
    }
    *spec = w->graphs.spec[w->next];
    *last = w->request->stage;
    *tag = w->next++;
    return true;
}

static void graph_done(void *user, uint64_t tag, const at_cudnn_result *result)
{
    work *w = user;
    const at_step step = w->graphs.spec[tag].backward ? AT_STEP_BACKWARD : AT_STEP_FORWARD;
    w->graphs.sign[tag] = (uint16_t)at_cudnn_audit_sign(w->audit, step, result);
    w->done++;
    const bool terminal = isatty(2) == 1, last = w->done == w->graphs.count;
    if (w->request->progress && (last || w->done % (terminal ? 64 : 4096) == 0)) {
        (void)fprintf(stderr, "%s%zu of %zu graphs%s", terminal ? "\r" : "", w->done,
                      w->graphs.count, terminal && !last ? "" : "\n");
    }
}

static at_status ask_all(work *w, at_error *err)
{
    at_cudnn_audit *a = w->audit;
    const at_cudnn_pool pool = {.corpus = w->request->corpus,
                                .device = w->request->device,
                                .jobs = w->request->jobs,
                                .next = next_graph,
                                .done = graph_done,
                                .user = w};
    w->graphs.sign = calloc(w->graphs.count + 1, sizeof *w->graphs.sign);
    if (w->graphs.sign == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for %zu answers", w->graphs.count);
    }
    AT_TRY(at_cudnn_pool_run(&pool, &a->version, a->frontend, err));
    a->graphs = w->graphs.count;
    return AT_OK;
}

/* The first step that is wrong with the case, as a sign; 0: none. *asked: at least one graph. */
static uint32_t sign_of_cell(const work *w, uint64_t cell, bool *asked)
{
    uint32_t sign = 0;
    *asked = false;
    for (int step = STEPS - 1; step >= 0; step--) {
        const int32_t graph = w->of[step][cell];
        *asked = *asked || graph != NO_GRAPH;
        sign = graph != NO_GRAPH && w->graphs.sign[graph] != 0 ? w->graphs.sign[graph] : sign;
    }
    return sign;
}

/* Against a rule set: what cuDNN says of the case, beside what the rules say. */
static at_status compare_cell(work *w, uint64_t cell, const at_case *c, at_error *err)
{
    at_cudnn_audit *a = w->audit;
    at_decision d;
    bool asked = false;
    const uint32_t sign = sign_of_cell(w, cell, &asked);
    AT_TRY(at_selector_decide_fast(&d, w->rules, c, err));
    const int rule = d.rule[w->backend];
    if (!asked) {
        return AT_OK;
    }
    if (rule < 0) {
        a->mark[cell] = sign;
    } else if (sign == 0 && !at_selector_rule_is_callers(w->rules, (size_t)rule)) {
        const at_refusal r = at_selector_rule(w->rules, (size_t)rule);
        a->mark[cell] = (uint32_t)at_cudnn_audit_rule_sign(a, r.rule, r.why, r.source);
    }
    return AT_OK;
}

static at_status mark_all(work *w, at_error *err)
{
    at_cudnn_audit *a = w->audit;
    at_region_place place;
    at_case c = a->region->base;
    size_t moved = 0;
    at_region_locate(&place, a->region, 0);
    for (uint64_t cell = 0; cell < a->region->cells; cell++) {
        at_region_case(&c, a->region, &place, moved);
        c.arch = a->arch;
        bool asked = false;
        if (a->mark[cell] != AT_MARK_INVALID && w->rules != NULL) {
            AT_TRY(compare_cell(w, cell, &c, err));
        } else if (a->mark[cell] != AT_MARK_INVALID) {
            const uint32_t sign = sign_of_cell(w, cell, &asked);
            const bool kept = w->request->every || at_cudnn_audit_is_finding(a, sign);
            a->mark[cell] = kept ? sign : AT_MARK_NONE;
        }
        a->contradictions += a->mark[cell] != AT_MARK_NONE && a->mark[cell] != AT_MARK_INVALID;
        moved = at_region_step(&place, a->region);
    }
    return AT_OK;
}

static at_status open_rules(work *w, at_error *err)
{
    static const char *const names[] = {"fused", "cudnn"};
    if (w->request->against == NULL) {
        return AT_OK;
    }
    AT_TRY(
        at_selector_open(&w->rules, w->request->corpus, w->request->against, w->request->env, err));
    for (size_t i = 0; i < at_selector_backends(w->rules); i++) {
        for (size_t k = 0; k < 2; k++) {
            if (strcmp(at_selector_backend(w->rules, i), names[k]) == 0) {
                w->backend = (int)i;
                return AT_OK;
            }
        }
    }
    return at_fail(err, AT_INVALID, "%s has no backend called fused or cudnn to compare with",
                   w->request->against);
}

static at_status open_space(work *w, at_error *err)
{
    at_cudnn_audit *a = w->audit;
    const at_field *f = at_case_field("arch", 4);
    AT_TRY(at_region_open(&a->region, w->request->corpus, w->request->space, err));
    for (a->arch = 0; f->names[a->arch] != NULL; a->arch++) {
        if (w->request->arch != NULL && strcmp(f->names[a->arch], w->request->arch) == 0) {
            break;
        }
    }
    if (f->names[a->arch] == NULL || at_arch_number(a->arch) == 0) {
        return at_fail(err, AT_INVALID,
                       "an audit of cudnn asks for a GPU architecture: give it as "
                       "--arch sm90");
    }
    if (a->region->cells > CELLS_MAX) {
        return at_fail(err, AT_INVALID,
                       "the space %s has %" PRIu64 " cases, cudnn is asked at most %d",
                       w->request->space, a->region->cells, CELLS_MAX);
    }
    a->mark = calloc(a->region->cells, sizeof *a->mark);
    w->of[0] = calloc(a->region->cells, sizeof **w->of);
    w->of[1] = calloc(a->region->cells, sizeof **w->of);
    return a->mark != NULL && w->of[0] != NULL && w->of[1] != NULL
               ? AT_OK
               : at_fail(err, AT_NO_MEMORY, "no memory for %" PRIu64 " cases", a->region->cells);
}

static at_status run(work *w, at_error *err)
{
    AT_TRY(open_space(w, err));
    AT_TRY(open_rules(w, err));
    AT_TRY(place_all(w, err));
    AT_TRY(ask_all(w, err));
    AT_TRY(mark_all(w, err));
    return w->request->every ? AT_OK : at_cudnn_audit_cover(w->audit, err);
}

at_status at_cudnn_audit_open(at_cudnn_audit **out, const at_cudnn_audit_request *request,
                              at_error *err)
{
    work w = {.request = request, .audit = calloc(1, sizeof *w.audit)};
    *out = NULL;
    if (w.audit == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for an audit");
    }
    w.audit->stage = request->stage;
    w.audit->against = request->against;
    at_status status = run(&w, err);
    at_selector_close(w.rules);
    free(w.graphs.spec), free(w.graphs.sign), free(w.graphs.slot);
    free(w.of[0]), free(w.of[1]);
    if (status != AT_OK) {
        at_cudnn_audit_close(w.audit);
        return status;
    }
    *out = w.audit;
    return AT_OK;
}
