/* Findings as Markdown, for an issue. */
#include "harness/select/audit_lines.h"
#include "harness/select/box_text.h"

#include <inttypes.h>
#include <string.h>

#include "harness/status.h"

enum { EVIDENCE_SHOWN = 16 };

static void print_title(const at_audit *a, const at_box *b, size_t number, FILE *out)
{
    const char *backend = at_selector_backend(a->env[0].selector, b->backend);
    const at_audit_kind *k = at_audit_kind_of(a, b->sign);
    (void)fprintf(out, "\n## %zu. ", number);
    if (at_audit_rule(b->sign) >= 0) {
        (void)fprintf(out, "%s is refused, and its build runs these cases\n", backend);
    } else if (k->outcome == AT_OUTCOME_WRONG) {
        (void)fprintf(out, "%s is admitted, and its %s is silently wrong in %s\n\n> %s\n", backend,
                      at_step_names[k->step], k->tensor, k->message);
    } else {
        (void)fprintf(out, "%s is admitted, and its %s %s\n\n> %s\n", backend,
                      at_step_names[k->step], a->measured != NULL ? "fails" : "refuses",
                      k->message);
    }
}

static void print_notes(const at_audit *a, const at_box *b, FILE *out)
{
    const at_audit_answer at = at_audit_answer_at(a, b, b->example);
    at_audit_answer known[EVIDENCE_SHOWN];
    int rule = at_audit_rule(b->sign);
    at_refusal r = rule >= 0 ? at_selector_rule(at.env->selector, (size_t)rule)
                             : at_audit_should_refuse(a, b, &at);
    if (r.rule != NULL) {
        (void)fprintf(out, "- Rule `%s` %s: %s\n  %s\n", r.rule,
                      rule >= 0 ? "refuses" : "ought to refuse", r.why, r.source);
    } else {
        (void)fputs("- No rule looks at these keys\n", out);
    }
    size_t n = at_audit_evidence(known, EVIDENCE_SHOWN, a, b);
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(out, "- Evidence, %s (%s): %s, %s\n", at_capabilities_name(known[i].set),
                      at_capabilities_package(known[i].set), known[i].capability.evidence,
                      known[i].capability.source);
    }
    const char *comma = "- Met by ";
    for (size_t i = 0; i < AT_POPULAR_MAX; i++) {
        if ((b->models >> i & 1) != 0) {
            (void)fprintf(out, "%s%s", comma, at_popular_model(a->popular, i));
            comma = ", ";
        }
    }
    (void)fputs(b->models != 0 ? "\n" : "", out);
}

static void print_finding(const at_audit *a, size_t first, const at_audit_style *style, FILE *out)
{
    const at_box *b = &a->boxes.box[first];
    char line[AT_LINE_TEXT];
    print_title(a, b, a->finding[first], out);
    (void)fputc('\n', out);
    at_box_table(a->region, &a->boxes, a->finding, a->finding[first], "selected", out);
    at_audit_select_line(line, a, b, style->tool);
    (void)fprintf(out, "\nExample:\n\n```sh\n%s\n", line);
    if (!at_audit_repro_line(line, a, b, style->tool)) {
        at_audit_again_line(line, a, b, style->tool);
    }
    (void)fprintf(out, "%s\n", line);
    (void)fputs("```\n\n", out);
    print_notes(a, b, out);
}

static void print_head(const at_audit *a, FILE *out)
{
    const at_selector *s = a->env[0].selector;
    at_case c;
    at_audit_case(&c, a, 0);
    at_json *env = at_selector_env(s, c.arch);
    (void)fprintf(out,
                  "# %s: %zu finding%s where selection and kernels part\n\n| | |\n|---|---|\n"
                  "| selector | ",
                  at_selector_name(s), a->findings, a->findings == 1 ? "" : "s");
    at_markdown_cell(out, at_selector_doc(s));
    (void)fprintf(out, " |\n| space | %s: %" PRIu64 " cases, %" PRIu64 " contradict |\n",
                  a->region->name, a->cases, a->contradictions);
    (void)fputs("| environment |", out);
    for (const at_json *m = at_json_first(env); m != NULL; m = at_json_next(m)) {
        if (!at_region_sweeps(a->region, at_json_key(m))) {
            (void)fprintf(out, " `%s=%s`", at_json_key(m), at_json_text(m));
        }
    }
    (void)fputs(" |\n", out);
    for (size_t i = 0; i < a->region->env_axes; i++) {
        (void)fprintf(out, "| swept %s |", a->region->axis[i].name);
        for (size_t k = 0; k < a->region->axis[i].count; k++) {
            (void)fprintf(out, " `%s`", a->region->axis[i].point[k].text);
        }
        (void)fputs(" |\n", out);
    }
    (void)fprintf(out, "| made by | attest %s |\n", at_version());
    at_json_close(env);
}

void at_audit_markdown(const at_audit *audit, FILE *out, const at_audit_style *style)
{
    print_head(audit, out);
    for (size_t i = 0, last = 0; i < audit->boxes.count; i++) {
        if (audit->finding[i] > last && (style->limit == 0 || audit->finding[i] <= style->limit)) {
            print_finding(audit, i, style, out);
            last = audit->finding[i];
        }
    }
}
