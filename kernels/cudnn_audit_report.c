/* Signs, boxes and texts of an audit of cuDNN. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/box_text.h"
#include "kernels/cudnn_audit_core.h"

const char *const at_cudnn_stage_names[] = {"S0", "S1", "S2", "S3", "S4", "S5", NULL};
const char *const at_cudnn_outcome_names[] = {"crash",   "no_plan_builds", "first_plan_fails",
                                              "refuses", "runs",           NULL};

/* The library's words without what differs from graph to graph: up to the first engine dump, and
 * the first reason that follows it. */
static void shorten(char out[256], const char *message)
{
    const char *brace = strchr(message, '{'), *reason = strstr(message, "Reason: ");
    const int lead = brace != NULL ? (int)(brace - message) : (int)strlen(message);
    (void)snprintf(out, 256, "%.*s", lead < 200 ? lead : 200, message);
    char *end = out + strcspn(out, "_");
    if (brace != NULL) {
        while (end > out && end[-1] == ' ') {
            end--;
        }
        *end = '\0';
    }
    if (reason != NULL && brace != NULL) {
        const size_t used = strlen(out), n = strcspn(reason + 8, "\n;");
        const char *at = strstr(reason, " at:");
        const size_t cut =
            at != NULL && (size_t)(at - reason - 8) < n ? (size_t)(at - reason - 8) : n;
        (void)snprintf(out + used, 256 - used, "; %.*s", cut < 120 ? (int)cut : 120, reason + 8);
    }
}

static int intern(at_cudnn_audit *a, const at_cudnn_sign *sign)
{
    for (int i = 0; i < a->signs; i++) {
        const at_cudnn_sign *s = &a->sign[i];
        if (s->step == sign->step && s->stage == sign->stage && s->outcome == sign->outcome &&
            strcmp(s->code, sign->code) == 0 && strcmp(s->message, sign->message) == 0) {
            return i + 1;
        }
    }
    if (a->signs == AT_CUDNN_SIGNS_MAX) { /* the last one takes what no longer fits */
        return a->signs;
    }
    a->sign[a->signs] = *sign;
    return ++a->signs;
}

static int sign_of_plans(at_cudnn_audit *a, at_cudnn_sign *sign, const at_cudnn_answer *answer)
{
    const at_cudnn_plan *first = &answer->plan[0];
    if (answer->plan_count > 0 && first->built) {
        return 0;
    }
    const bool any = answer->built_count > 0;
    a->first_plan += any;
    a->no_plan += !any;
    sign->outcome = any ? AT_CUDNN_FIRST_PLAN : AT_CUDNN_NO_PLAN;
    (void)snprintf(sign->code, sizeof sign->code, "%s", first->code);
    shorten(sign->message, first->message);
    return intern(a, sign);
}

int at_cudnn_audit_sign(at_cudnn_audit *a, at_step step, const at_cudnn_result *result)
{
    at_cudnn_sign sign = {.step = step, .outcome = AT_CUDNN_REFUSES};
    const at_cudnn_answer *answer = result->answer;
    if (answer == NULL) {
        a->deaths++;
        sign.outcome = AT_CUDNN_CRASH;
        sign.stage = result->plan[0] != '\0' ? AT_CUDNN_S5_PLANS : AT_CUDNN_S2_GRAPH;
        (void)snprintf(sign.code, sizeof sign.code, "%s", result->death);
        (void)snprintf(sign.message, sizeof sign.message, "%s%.64s",
                       result->plan[0] != '\0' ? "while building " : "before any plan is built",
                       result->plan);
        return intern(a, &sign);
    }
    sign.stage = answer->stage;
    a->stopped[answer->stage]++;
    if (answer->stage == AT_CUDNN_S5_PLANS) {
        return sign_of_plans(a, &sign, answer);
    }
    if (answer->passed) {
        return 0;
    }
    (void)snprintf(sign.code, sizeof sign.code, "%s", answer->code);
    shorten(sign.message, answer->message);
    return intern(a, &sign);
}

int at_cudnn_audit_rule_sign(at_cudnn_audit *a, const char *rule, const char *why,
                             const char *source)
{
    at_cudnn_sign sign = {.step = AT_STEP_CLAIM, .stage = a->stage, .outcome = AT_CUDNN_RUNS};
    (void)snprintf(sign.code, sizeof sign.code, "%s", rule);
    (void)snprintf(sign.message, sizeof sign.message, "%.120s (%.110s)", why, source);
    return intern(a, &sign);
}

bool at_cudnn_audit_is_finding(const at_cudnn_audit *a, uint32_t sign)
{
    return sign != 0 && (a->sign[sign - 1].outcome != AT_CUDNN_REFUSES ||
                         a->sign[sign - 1].stage > AT_CUDNN_S1_VALIDATE);
}

static int compare_boxes(const void *x, const void *y)
{
    const at_box *a = x, *b = y;
    if (a->backend != b->backend) { /* the outcome's order */
        return a->backend < b->backend ? -1 : 1;
    }
    if (a->cases != b->cases) {
        return a->cases > b->cases ? -1 : 1;
    }
    return a->example < b->example ? -1 : a->example > b->example;
}

at_status at_cudnn_audit_cover(at_cudnn_audit *a, at_error *err)
{
    for (int i = 0; i < a->signs; i++) {
        AT_TRY(at_boxes_cover(&a->boxes, a->region, a->mark, (uint32_t)i + 1,
                              (size_t)a->sign[i].outcome, err));
    }
    if (a->boxes.count > 0) {
        qsort(a->boxes.box, a->boxes.count, sizeof *a->boxes.box, compare_boxes);
    }
    return AT_OK;
}

void at_cudnn_audit_close(at_cudnn_audit *audit)
{
    if (audit != NULL) {
        free(audit->mark);
        free(audit->boxes.box);
        at_region_close(audit->region);
        free(audit);
    }
}

long at_cudnn_audit_version(const at_cudnn_audit *audit)
{
    return audit->version;
}

size_t at_cudnn_audit_boxes(const at_cudnn_audit *audit)
{
    return audit->boxes.count;
}

void at_cudnn_audit_example(const at_cudnn_audit *a, const at_box *b, char text[AT_CASE_TEXT_MAX])
{
    at_region_place place;
    at_case c = a->region->base;
    at_region_locate(&place, a->region, b->example);
    at_region_case(&c, a->region, &place, 0);
    c.arch = a->arch;
    (void)at_case_print(&c, text);
}

static const char *arch_name(const at_cudnn_audit *a)
{
    return at_case_field("arch", 4)->names[a->arch];
}

static void put_name(at_json *o, const at_cudnn_audit *a)
{
    char version[32], name[48];
    at_cudnn_version_text(a->version, version);
    (void)snprintf(name, sizeof name, "cudnn@%s", version);
    at_json_put_text(o, "selector", name);
    at_json_put_text(o, "frontend", a->frontend);
}

at_json *at_cudnn_audit_box_json(const at_cudnn_audit *audit, size_t i)
{
    AT_ASSERT(i < audit->boxes.count);
    const at_box *b = &audit->boxes.box[i];
    const at_cudnn_sign *s = &audit->sign[b->sign - 1];
    const bool rule = s->outcome == AT_CUDNN_RUNS;
    char relation[AT_RELATION_TEXT], example[AT_CASE_TEXT_MAX];
    at_json *o = at_json_object();
    put_name(o, audit);
    at_json_put_text(o, "arch", arch_name(audit));
    at_json_put_text(o, "space", audit->region->name);
    at_json_put_text(o, "stage", at_cudnn_stage_names[audit->stage]);
    if (audit->against != NULL) {
        at_json_put_text(o, "against", audit->against);
    }
    at_json_put_text(o, "direction", rule ? "refuses" : "admits");
    at_json_put(o, "box", at_box_json(audit->region, b));
    const char *text = at_box_relation(audit->region, b, relation);
    if (text != NULL) {
        at_json_put_text(o, "relation", text);
    }
    at_cudnn_audit_example(audit, b, example);
    at_json_put_integer(o, "cases", (int64_t)b->cases);
    at_json_put_text(o, "example", example);
    if (!rule) {
        at_json_put_text(o, "step", at_step_names[s->step]);
    }
    at_json_put_text(o, "outcome", at_cudnn_outcome_names[s->outcome]);
    at_json_put_text(o, "at", at_cudnn_stage_names[s->stage]);
    at_json_put_text(o, rule ? "refusing_rule" : "code", s->code);
    at_json_put_text(o, "message", s->message);
    return o;
}

static void print_heading(const at_cudnn_audit *a, const at_cudnn_sign *s, size_t number, FILE *out,
                          bool colors)
{
    const char *bold = colors ? "\033[1m" : "", *plain = colors ? "\033[0m" : "";
    const char *who = a->against != NULL ? a->against : "validate";
    (void)fprintf(out, "\n%zu. %s", number, bold);
    switch (s->outcome) {
    case AT_CUDNN_CRASH:
        (void)fprintf(out, "the %s graph kills the process (%s)%s %s\n", at_step_names[s->step],
                      s->code, plain, s->message);
        break;
    case AT_CUDNN_NO_PLAN:
        (void)fprintf(out, "admitted, and no plan of the %s can be built%s: %s %s\n",
                      at_step_names[s->step], plain, s->code, s->message);
        break;
    case AT_CUDNN_FIRST_PLAN:
        (void)fprintf(out, "the first plan of the %s cannot be built, a later one can%s: %s %s\n",
                      at_step_names[s->step], plain, s->code, s->message);
        break;
    case AT_CUDNN_REFUSES:
        (void)fprintf(out, "%s admits, the %s is refused at %s%s: %s %s\n", who,
                      at_step_names[s->step], at_cudnn_stage_names[s->stage], plain, s->code,
                      s->message);
        break;
    case AT_CUDNN_RUNS:
        (void)fprintf(out, "%s refuses by %s, cuDNN admits up to %s%s: %s\n", who, s->code,
                      at_cudnn_stage_names[s->stage], plain, s->message);
        break;
    }
}

void at_cudnn_audit_print_box(const at_cudnn_audit *a, const at_box *b, FILE *out)
{
    char relation[AT_RELATION_TEXT], example[AT_CASE_TEXT_MAX];
    for (size_t i = 0; i < a->region->axes; i++) {
        at_box_print_axis(&a->region->axis[i], b->in[i], "   ", out);
    }
    const char *text = at_box_relation(a->region, b, relation);
    if (text != NULL) {
        (void)fprintf(out, "   where    %s\n", text);
    }
    at_cudnn_audit_example(a, b, example);
    (void)fprintf(out, "   %" PRIu64 " cases; such as %s\n", b->cases, example);
}

void at_cudnn_audit_print(const at_cudnn_audit *audit, FILE *out, bool colors, size_t shown)
{
    char version[32];
    at_cudnn_version_text(audit->version, version);
    (void)fprintf(out,
                  "audit of cudnn@%s (frontend %s) on %s%s%s, space %s: %" PRIu64
                  " cases, %zu unequal graphs up to %s; %" PRIu64 " contradictions in %zu box%s\n",
                  version, audit->frontend, arch_name(audit),
                  audit->against != NULL ? " against " : "",
                  audit->against != NULL ? audit->against : "", audit->region->name, audit->cases,
                  audit->graphs, at_cudnn_stage_names[audit->stage], audit->contradictions,
                  audit->boxes.count, audit->boxes.count == 1 ? "" : "es");
    (void)fputs("graphs by the stage that had the last word:", out);
    for (int i = 0; i < AT_CUDNN_STAGES; i++) {
        (void)fprintf(out, " %s %" PRIu64, at_cudnn_stage_names[i], audit->stopped[i]);
    }
    (void)fprintf(out, "; deaths %" PRIu64 "\n", audit->deaths);
    const size_t boxes = audit->boxes.count;
    AT_ASSERT(shown <= boxes);
    for (size_t i = 0; i < shown; i++) {
        print_heading(audit, &audit->sign[audit->boxes.box[i].sign - 1], i + 1, out, colors);
        at_cudnn_audit_print_box(audit, &audit->boxes.box[i], out);
    }
    if (shown < boxes) {
        (void)fprintf(out, "\n... and %zu more boxes: give a larger --limit\n", boxes - shown);
    }
}
