#include "kernels/cudnn_diff.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/box_text.h"
#include "kernels/cudnn_audit_core.h"
#include "kernels/cudnn_load.h"

enum { ADMITTED = AT_CUDNN_RUNS, CHANGES_MAX = 1024 };

/* One kind of change. */
typedef struct change {
    int was, is;               /* at_cudnn_outcome, ADMITTED for none */
    const at_cudnn_sign *sign; /* of the side that says why */
} change;

struct at_cudnn_diff {
    const at_cudnn_audit *before, *after;
    int changes;
    change change[CHANGES_MAX];
    uint64_t cases;
    at_boxes boxes;
};

static const at_cudnn_sign *sign_at(const at_cudnn_audit *a, uint64_t cell)
{
    return a->mark[cell] == AT_MARK_NONE ? NULL : &a->sign[a->mark[cell] - 1];
}

/* Number of the change, from 1. */
static uint32_t intern(at_cudnn_diff *d, const change *c)
{
    for (int i = 0; i < d->changes; i++) {
        const change *known = &d->change[i];
        if (known->was == c->was && known->is == c->is && known->sign->step == c->sign->step &&
            known->sign->stage == c->sign->stage &&
            strcmp(known->sign->message, c->sign->message) == 0) {
            return (uint32_t)i + 1;
        }
    }
    if (d->changes == CHANGES_MAX) { /* the last one takes what no longer fits */
        return CHANGES_MAX;
    }
    d->change[d->changes] = *c;
    return (uint32_t)++d->changes;
}

static uint32_t mark_of(at_cudnn_diff *d, uint64_t cell)
{
    if (d->before->mark[cell] == AT_MARK_INVALID) {
        return AT_MARK_INVALID;
    }
    const at_cudnn_sign *x = sign_at(d->before, cell), *y = sign_at(d->after, cell);
    const change c = {.was = x != NULL ? (int)x->outcome : ADMITTED,
                      .is = y != NULL ? (int)y->outcome : ADMITTED,
                      .sign = y != NULL ? y : x};
    if (c.was == c.is) {
        return AT_MARK_NONE;
    }
    d->cases++;
    return intern(d, &c);
}

static int compare_boxes(const void *x, const void *y)
{
    const at_box *a = x, *b = y;
    if (a->backend != b->backend) { /* the worse new state first */
        return a->backend < b->backend ? -1 : 1;
    }
    if (a->cases != b->cases) {
        return a->cases > b->cases ? -1 : 1;
    }
    return a->example < b->example ? -1 : a->example > b->example;
}

static at_status cover(at_cudnn_diff *d, at_error *err)
{
    const at_region *region = d->after->region;
    uint32_t *mark = calloc(region->cells, sizeof *mark);
    at_status status = mark != NULL ? AT_OK : at_fail(err, AT_NO_MEMORY, "no memory for a diff");
    for (uint64_t cell = 0; status == AT_OK && cell < region->cells; cell++) {
        mark[cell] = mark_of(d, cell);
    }
    for (int i = 0; status == AT_OK && i < d->changes; i++) {
        status =
            at_boxes_cover(&d->boxes, region, mark, (uint32_t)i + 1, (size_t)d->change[i].is, err);
    }
    if (d->boxes.count > 0) {
        qsort(d->boxes.box, d->boxes.count, sizeof *d->boxes.box, compare_boxes);
    }
    free(mark);
    return status;
}

at_status at_cudnn_diff_open(at_cudnn_diff **out, const at_cudnn_audit *before,
                             const at_cudnn_audit *after, at_error *err)
{
    *out = NULL;
    if (strcmp(before->region->name, after->region->name) != 0 ||
        before->region->cells != after->region->cells || before->arch != after->arch ||
        before->stage != after->stage) {
        return at_fail(err, AT_INVALID, "the two audits are not of one space, arch and stage");
    }
    at_cudnn_diff *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a diff");
    }
    d->before = before;
    d->after = after;
    const at_status status = cover(d, err);
    if (status != AT_OK) {
        at_cudnn_diff_close(d);
        return status;
    }
    *out = d;
    return AT_OK;
}

void at_cudnn_diff_close(at_cudnn_diff *diff)
{
    if (diff != NULL) {
        free(diff->boxes.box);
        free(diff);
    }
}

size_t at_cudnn_diff_boxes(const at_cudnn_diff *diff)
{
    return diff->boxes.count;
}

static const char *state_name(int state)
{
    return state == ADMITTED           ? "admitted"
           : state == AT_CUDNN_REFUSES ? "refused"
                                       : at_cudnn_outcome_names[state];
}

static void name_of(const at_cudnn_audit *a, char name[48])
{
    char number[32];
    at_cudnn_version_text(a->version, number);
    (void)snprintf(name, 48, "cudnn@%s", number);
}

at_json *at_cudnn_diff_box_json(const at_cudnn_diff *diff, size_t i)
{
    AT_ASSERT(i < diff->boxes.count);
    const at_cudnn_audit *a = diff->after;
    const at_box *b = &diff->boxes.box[i];
    const change *c = &diff->change[b->sign - 1];
    char relation[AT_RELATION_TEXT], example[AT_CASE_TEXT_MAX], name[48];
    at_json *o = at_json_object();
    name_of(diff->before, name);
    at_json_put_text(o, "before", name);
    name_of(a, name);
    at_json_put_text(o, "after", name);
    at_json_put_text(o, "arch", at_case_field("arch", 4)->names[a->arch]);
    at_json_put_text(o, "space", a->region->name);
    at_json_put_text(o, "stage", at_cudnn_stage_names[a->stage]);
    at_json_put(o, "box", at_box_json(a->region, b));
    const char *text = at_box_relation(a->region, b, relation);
    if (text != NULL) {
        at_json_put_text(o, "relation", text);
    }
    at_cudnn_audit_example(a, b, example);
    at_json_put_integer(o, "cases", (int64_t)b->cases);
    at_json_put_text(o, "example", example);
    at_json_put_text(o, "was", state_name(c->was));
    at_json_put_text(o, "is", state_name(c->is));
    at_json_put_text(o, "step", at_step_names[c->sign->step]);
    at_json_put_text(o, "at", at_cudnn_stage_names[c->sign->stage]);
    at_json_put_text(o, "code", c->sign->code);
    at_json_put_text(o, "message", c->sign->message);
    return o;
}

void at_cudnn_diff_print(const at_cudnn_diff *diff, FILE *out, bool colors)
{
    const at_cudnn_audit *a = diff->after;
    const char *bold = colors ? "\033[1m" : "", *plain = colors ? "\033[0m" : "";
    char before[48], after[48];
    name_of(diff->before, before);
    name_of(a, after);
    (void)fprintf(out,
                  "%s to %s on %s, space %s, up to %s: %" PRIu64 " of %" PRIu64
                  " cases change, %zu box%s\n",
                  before, after, at_case_field("arch", 4)->names[a->arch], a->region->name,
                  at_cudnn_stage_names[a->stage], diff->cases, a->cases, diff->boxes.count,
                  diff->boxes.count == 1 ? "" : "es");
    for (size_t i = 0; i < diff->boxes.count; i++) {
        const at_box *b = &diff->boxes.box[i];
        const change *c = &diff->change[b->sign - 1];
        (void)fprintf(out, "\n%zu. %swas %s, is %s%s: the %s at %s, %s %s\n", i + 1, bold,
                      state_name(c->was), state_name(c->is), plain, at_step_names[c->sign->step],
                      at_cudnn_stage_names[c->sign->stage], c->sign->code, c->sign->message);
        at_cudnn_audit_print_box(a, b, out);
    }
}
