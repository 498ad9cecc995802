/* Findings as paragraphs. */
#include "harness/select/audit_lines.h"
#include "harness/select/box_text.h"

#include <inttypes.h>
#include <string.h>

enum { PARTS_SHOWN = 3, EVIDENCE_SHOWN = 16 };

size_t at_audit_shown(const at_audit *audit, size_t limit, size_t *box)
{
    return at_boxes_shown(box, &audit->boxes, audit->finding, limit);
}

static void print_rule(const at_audit *a, const at_box *b, const at_audit_answer *at, FILE *out)
{
    int rule = at_audit_rule(b->sign);
    at_refusal r = rule >= 0 ? at_selector_rule(at->env->selector, (size_t)rule)
                             : at_audit_should_refuse(a, b, at);
    if (r.rule == NULL) {
        (void)fputs("   rule     none looks at these keys\n", out);
        return;
    }
    (void)fprintf(out, "   rule     %s %s: %s\n            %s\n", r.rule,
                  rule >= 0 ? "refuses" : "ought to refuse", r.why, r.source);
}

static void print_heading(const at_audit *a, const at_box *b, size_t number, FILE *out, bool colors)
{
    const char *backend = at_selector_backend(a->env[0].selector, b->backend);
    const char *bold = colors ? "\033[1m" : "", *plain = colors ? "\033[0m" : "";
    const at_audit_kind *k = at_audit_kind_of(a, b->sign);
    (void)fprintf(out, "\n%zu. %s", number, bold);
    if (at_audit_rule(b->sign) >= 0) {
        (void)fprintf(out, "%s is refused, and its build runs these cases%s\n", backend, plain);
    } else if (k->outcome == AT_OUTCOME_WRONG) {
        (void)fprintf(out, "%s is admitted, and its %s is silently wrong in %s%s: %s\n", backend,
                      at_step_names[k->step], k->tensor, plain, k->message);
    } else {
        (void)fprintf(out, "%s is admitted, and its %s refuses%s: %s\n", backend,
                      at_step_names[k->step], plain, k->message);
    }
}

/* What boxes of a finding do not share. */
static void print_part(const at_audit *a, const at_box *b, FILE *out)
{
    const char *backend = at_selector_backend(a->env[0].selector, b->backend);
    char example[AT_CASE_TEXT_MAX];
    const char *lead = "   - ";
    at_case c;
    for (size_t i = 0; i < a->region->axes; i++) {
        if (!at_region_axis_is_numeric(&a->region->axis[i]) &&
            at_box_points(&a->region->axis[i], b->in[i]) < a->region->axis[i].count) {
            at_box_print_axis(&a->region->axis[i], b->in[i], lead, out);
            lead = "     ";
        }
    }
    at_audit_case(&c, a, b->example);
    (void)at_case_print(&c, example);
    (void)fprintf(out, "%s%" PRIu64 " case%s, %s wins ", lead, b->cases, b->cases == 1 ? "" : "s",
                  backend);
    if (b->wins == b->cases && b->wins > 0) {
        (void)fputs(b->cases == 1 ? "it" : "all", out);
    } else {
        (void)fprintf(out, "%" PRIu64, b->wins);
    }
    (void)fprintf(out, "; such as %s\n", example);
}

static void print_models(const at_audit *a, const at_box *b, FILE *out)
{
    if (b->models == 0) {
        return;
    }
    (void)fprintf(out, "   met by   ");
    const char *comma = "";
    for (size_t i = 0; i < AT_POPULAR_MAX; i++) {
        if ((b->models >> i & 1) != 0) {
            (void)fprintf(out, "%s%s", comma, at_popular_model(a->popular, i));
            comma = ", ";
        }
    }
    (void)fprintf(out, "; score %.3g\n", b->score);
}

static void print_lines(const at_audit *a, const at_box *b, const at_audit_style *style, FILE *out)
{
    char line[AT_LINE_TEXT];
    at_audit_select_line(line, a, b, style->tool);
    (void)fprintf(out, "   ask      %s\n", line);
    if (at_audit_repro_line(line, a, b, style->tool)) {
        (void)fprintf(out, "   repro    %s\n", line);
    }
}

static void print_evidence(const at_audit *a, const at_box *b, FILE *out)
{
    at_audit_answer at[EVIDENCE_SHOWN];
    size_t n = at_audit_evidence(at, EVIDENCE_SHOWN, a, b);
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(out, "   evidence %s, %s: %s\n", at[i].capability.evidence,
                      at_capabilities_name(at[i].set), at[i].capability.source);
    }
}

static void print_finding(const at_audit *a, size_t first, const at_audit_style *style, FILE *out)
{
    const at_box *b = &a->boxes.box[first];
    const at_audit_answer at = at_audit_answer_at(a, b, b->example);
    char relation[AT_RELATION_TEXT];
    size_t parts = 0;
    print_heading(a, b, a->finding[first], out, style->colors);
    for (size_t i = 0; i < a->region->axes; i++) {
        if (at_region_axis_is_numeric(&a->region->axis[i])) {
            at_box_print_axis(&a->region->axis[i], b->in[i], "   ", out);
        }
    }
    if (at_box_relation(a->region, b, relation) != NULL) {
        (void)fprintf(out, "   where    %s\n", relation);
    }
    for (size_t i = first; i < a->boxes.count; i++) {
        if (a->finding[i] == a->finding[first] && (parts++ < PARTS_SHOWN || style->limit == 0)) {
            print_part(a, &a->boxes.box[i], out);
        }
    }
    if (parts > PARTS_SHOWN && style->limit != 0) {
        (void)fprintf(out, "   - and %zu more boxes\n", parts - PARTS_SHOWN);
    }
    print_models(a, b, out);
    print_rule(a, b, &at, out);
    print_evidence(a, b, out);
    print_lines(a, b, style, out);
}

/* The keys that are not swept, then the axes of those that are. */
static void print_env(const at_audit *a, FILE *out)
{
    at_case c;
    at_audit_case(&c, a, 0);
    at_json *env = at_selector_env(a->env[0].selector, c.arch);
    (void)fputs("env", out);
    for (const at_json *m = at_json_first(env); m != NULL; m = at_json_next(m)) {
        if (!at_region_sweeps(a->region, at_json_key(m))) {
            (void)fprintf(out, " %s=%s", at_json_key(m), at_json_text(m));
        }
    }
    (void)fputc('\n', out);
    at_json_close(env);
    for (size_t i = 0; i < a->region->env_axes; i++) {
        const at_region_axis *axis = &a->region->axis[i];
        (void)fprintf(out, "swept");
        for (size_t k = 0; k < axis->count; k++) {
            (void)fprintf(out, " %s",
                          axis->point[k].text[0] != '\0' ? axis->point[k].text : "as-given");
        }
        (void)fputc('\n', out);
    }
}

/* Which sets were asked, and which nobody wrote. */
static void print_sets(const at_audit *a, FILE *out)
{
    for (size_t i = 0; i < a->backends; i++) {
        const char *backend = at_selector_backend(a->env[0].selector, i), *told[64];
        size_t n = 0;
        for (size_t e = 0; e < a->envs && n < sizeof told / sizeof *told; e++) {
            const at_audit_set *set = a->env[e].set[i];
            const char *name = set != NULL ? at_capabilities_name(set->set) : a->env[e].missing[i];
            bool again = name == NULL;
            for (size_t k = 0; k < n && !again; k++) {
                again = strcmp(told[k], name) == 0;
            }
            if (again) {
                continue;
            }
            told[n++] = name;
            (void)fprintf(out,
                          set != NULL ? "%s is audited against %s\n"
                                      : "%s is not audited: there is no capability set %s\n",
                          backend, name);
        }
    }
}

void at_audit_print(const at_audit *audit, FILE *out, const at_audit_style *style)
{
    const at_selector *s = audit->env[0].selector;
    const int64_t arch = at_selector_arch(s, &audit->region->base);
    (void)fprintf(out, "audit of %s", at_selector_name(s));
    if (arch != AT_ARCH_ANY && !at_region_sweeps(audit->region, "arch")) {
        (void)fprintf(out, " on %s", at_case_field("arch", 4)->names[arch]);
    }
    (void)fprintf(out,
                  ", space %s: %" PRIu64 " cases decided, %" PRIu64
                  " contradict what builds can do, in %zu box%s\n",
                  audit->region->name, audit->cases, audit->contradictions, audit->boxes.count,
                  audit->boxes.count == 1 ? "" : "es");
    print_env(audit, out);
    print_sets(audit, out);
    for (size_t i = 0, last = 0; i < audit->boxes.count; i++) {
        if (audit->finding[i] > last && (style->limit == 0 || audit->finding[i] <= style->limit)) {
            print_finding(audit, i, style, out);
            last = audit->finding[i];
        }
    }
    if (style->limit != 0 && audit->findings > style->limit) {
        (void)fprintf(out, "\nand %zu more findings: attest audit without --limit\n",
                      audit->findings - style->limit);
    }
}
