/* Boxes as JSON and as paragraphs. */
#include "harness/select/audit_core.h"
#include "harness/select/box_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void put_text(at_json *object, const char *key, const char *text)
{
    if (text != NULL) {
        at_json_put_text(object, key, text);
    } else {
        at_json_put_null(object, key);
    }
}

static void example_text(const at_audit *a, const at_box *b, char text[AT_CASE_TEXT_MAX])
{
    at_region_place place;
    at_case c = a->region->base;
    at_region_locate(&place, a->region, b->example);
    at_region_case(&c, a->region, &place, 0);
    if (c.arch == AT_ARCH_ANY) {
        c.arch = a->arch;
    }
    (void)at_case_print(&c, text);
}

/* The rule that ought to have refused an admitted box; all members NULL when none looks at its
 * keys. */
static at_refusal should_refuse(const at_audit *a, const at_box *b)
{
    uint64_t keys = at_capability_keys(a->set[b->backend], at_audit_entry(b->sign));
    int rule = at_selector_rule_about(a->selector, b->backend, a->fired[b->backend], keys);
    return rule >= 0 ? at_selector_rule(a->selector, (size_t)rule) : (at_refusal){0};
}

at_json *at_audit_box_json(const at_audit *audit, size_t i)
{
    AT_ASSERT(i < audit->boxes.count);
    const at_box *b = &audit->boxes.box[i];
    const char *backend = at_selector_backend(audit->selector, b->backend);
    at_capability c = at_capability_at(audit->set[b->backend], at_audit_entry(b->sign));
    int rule = at_audit_rule(b->sign);
    char relation[AT_RELATION_TEXT], example[AT_CASE_TEXT_MAX];
    at_json *o = at_json_object();
    example_text(audit, b, example);
    at_json_put_text(o, "selector", at_selector_name(audit->selector));
    at_json_put_text(o, "arch", at_case_field("arch", 4)->names[audit->arch]);
    at_json_put(o, "env", at_selector_env(audit->selector, audit->arch));
    at_json_put_text(o, "space", audit->region->name);
    at_json_put_text(o, "backend", backend);
    at_json_put_text(o, "direction", rule < 0 ? "admits" : "refuses");
    at_json_put(o, "box", at_box_json(audit->region, b));
    put_text(o, "relation", at_box_relation(audit->region, b, relation));
    at_json_put_integer(o, "cases", (int64_t)b->cases);
    at_json_put_integer(o, "wins", (int64_t)b->wins);
    at_json_put_text(o, "example", example);
    put_text(o, "admits", rule < 0 ? backend : NULL);
    put_text(o, "refusing_rule",
             rule < 0 ? NULL : at_selector_rule(audit->selector, (size_t)rule).rule);
    put_text(o, "should_refuse_rule", rule < 0 ? should_refuse(audit, b).rule : NULL);
    at_json_put_text(
        o, "step",
        at_step_names[at_capability_step(audit->set[b->backend], at_audit_entry(b->sign))]);
    at_json_put_text(o, "outcome", at_outcome_names[c.outcome]);
    put_text(o, "tensor", c.tensor);
    put_text(o, "message", c.message);
    at_json_put_text(o, "evidence", c.evidence);
    at_json_put_text(o, "source", c.source);
    at_json_put_text(o, "capabilities", at_capabilities_name(audit->set[b->backend]));
    return o;
}

/* Boxes of one kind with the same numbers are one paragraph. */
static bool same_paragraph(const at_region *r, const at_box *a, const at_box *b)
{
    bool same = a->backend == b->backend && a->sign == b->sign && a->relations == b->relations;
    for (size_t i = 0; i < r->axes; i++) {
        same = same && (!at_region_axis_is_numeric(&r->axis[i]) ||
                        memcmp(a->in[i], b->in[i], sizeof a->in[i]) == 0);
    }
    return same;
}

static void print_rule(const at_audit *a, const at_box *b, FILE *out)
{
    int rule = at_audit_rule(b->sign);
    at_refusal r = rule >= 0 ? at_selector_rule(a->selector, (size_t)rule) : should_refuse(a, b);
    if (r.rule == NULL) {
        (void)fputs("   rule     none looks at these keys\n", out);
        return;
    }
    (void)fprintf(out, "   rule     %s %s: %s\n            %s\n", r.rule,
                  rule >= 0 ? "refuses" : "ought to refuse", r.why, r.source);
}

static void print_heading(const at_audit *a, const at_box *b, int number, FILE *out, bool colors)
{
    const char *backend = at_selector_backend(a->selector, b->backend);
    const char *bold = colors ? "\033[1m" : "", *plain = colors ? "\033[0m" : "";
    int entry = at_audit_entry(b->sign);
    at_capability c = at_capability_at(a->set[b->backend], entry);
    const char *step = at_step_names[at_capability_step(a->set[b->backend], entry)];
    (void)fprintf(out, "\n%d. %s", number, bold);
    if (at_audit_rule(b->sign) >= 0) {
        (void)fprintf(out, "%s is refused, and its build runs these cases%s\n", backend, plain);
    } else if (c.outcome == AT_OUTCOME_WRONG) {
        (void)fprintf(out, "%s is admitted, and its %s is silently wrong in %s%s: %s\n", backend,
                      step, c.tensor, plain, c.message);
    } else {
        (void)fprintf(out, "%s is admitted, and its %s refuses%s: %s\n", backend, step, plain,
                      c.message);
    }
}

/* What boxes of a paragraph do not share. */
static void print_part(const at_audit *a, const at_box *b, FILE *out)
{
    const char *backend = at_selector_backend(a->selector, b->backend);
    char example[AT_CASE_TEXT_MAX];
    const char *lead = "   - ";
    for (size_t i = 0; i < a->region->axes; i++) {
        if (!at_region_axis_is_numeric(&a->region->axis[i]) &&
            at_box_points(&a->region->axis[i], b->in[i]) < a->region->axis[i].count) {
            at_box_print_axis(&a->region->axis[i], b->in[i], lead, out);
            lead = "     ";
        }
    }
    example_text(a, b, example);
    (void)fprintf(out, "%s%" PRIu64 " cases, %s wins ", lead, b->cases, backend);
    if (b->wins == b->cases) {
        (void)fputs("all", out);
    } else {
        (void)fprintf(out, "%" PRIu64, b->wins);
    }
    (void)fprintf(out, "; such as %s\n", example);
}

static void print_paragraph(const at_audit *a, size_t first, int number, FILE *out, bool colors)
{
    const at_box *b = &a->boxes.box[first];
    at_capability c = at_capability_at(a->set[b->backend], at_audit_entry(b->sign));
    char relation[AT_RELATION_TEXT];
    print_heading(a, b, number, out, colors);
    for (size_t i = 0; i < a->region->axes; i++) {
        if (at_region_axis_is_numeric(&a->region->axis[i])) {
            at_box_print_axis(&a->region->axis[i], b->in[i], "   ", out);
        }
    }
    if (at_box_relation(a->region, b, relation) != NULL) {
        (void)fprintf(out, "   where    %s\n", relation);
    }
    for (size_t i = first; i < a->boxes.count; i++) {
        if (same_paragraph(a->region, b, &a->boxes.box[i])) {
            print_part(a, &a->boxes.box[i], out);
        }
    }
    print_rule(a, b, out);
    (void)fprintf(out, "   evidence %s, %s: %s\n", c.evidence,
                  at_capabilities_name(a->set[b->backend]), c.source);
}

static void print_env(const at_audit *a, FILE *out)
{
    at_json *env = at_selector_env(a->selector, a->arch);
    (void)fputs("env", out);
    for (const at_json *m = at_json_first(env); m != NULL; m = at_json_next(m)) {
        (void)fprintf(out, " %s=%s", at_json_key(m), at_json_text(m));
    }
    (void)fputc('\n', out);
    at_json_close(env);
}

void at_audit_print(const at_audit *audit, FILE *out, bool colors)
{
    (void)fprintf(out,
                  "audit of %s on %s, space %s: %" PRIu64 " cases decided, %" PRIu64
                  " contradict what builds can do, in %zu box%s\n",
                  at_selector_name(audit->selector), at_case_field("arch", 4)->names[audit->arch],
                  audit->region->name, audit->cases, audit->contradictions, audit->boxes.count,
                  audit->boxes.count == 1 ? "" : "es");
    print_env(audit, out);
    for (size_t i = 0; i < at_selector_backends(audit->selector); i++) {
        const char *backend = at_selector_backend(audit->selector, i);
        if (audit->set[i] != NULL) {
            (void)fprintf(out, "%s is audited against %s\n", backend,
                          at_capabilities_name(audit->set[i]));
        } else if (audit->missing[i] != NULL) {
            (void)fprintf(out, "%s is not audited: there is no capability set %s\n", backend,
                          audit->missing[i]);
        }
    }
    int number = 0;
    for (size_t i = 0; i < audit->boxes.count; i++) {
        bool printed = false;
        for (size_t k = 0; k < i; k++) {
            printed = printed ||
                      same_paragraph(audit->region, &audit->boxes.box[k], &audit->boxes.box[i]);
        }
        if (!printed) {
            print_paragraph(audit, i, ++number, out, colors);
        }
    }
}
