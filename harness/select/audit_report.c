/* Findings as paragraphs. */
#include "harness/select/audit_lines.h"
#include "harness/select/box_text.h"

#include <inttypes.h>
#include <string.h>

enum { PARTS_SHOWN = 3, EVIDENCE_SHOWN = 16, VERDICTS_SHOWN = 3 };

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
        (void)fprintf(out, "%s is admitted, and its %s %s%s: %s\n", backend, at_step_names[k->step],
                      a->measured != NULL ? "fails" : "refuses", plain, k->message);
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

/* Models that meet any box of the finding, and the best box's score. */
static void print_models(const at_audit *a, size_t first, FILE *out)
{
    uint64_t models = 0;
    const char *gap = "   met by   ";
    for (size_t i = first; i < a->boxes.count; i++) {
        models |= a->finding[i] == a->finding[first] ? a->boxes.box[i].models : 0;
    }
    for (size_t i = 0; i < AT_POPULAR_MAX; i++) {
        if ((models >> i & 1) != 0) {
            (void)fprintf(out, "%s%s", gap, at_popular_model(a->popular, i));
            gap = ", ";
        }
    }
    if (models != 0) {
        (void)fprintf(out, "; score %.3g\n", a->boxes.box[first].score);
    }
}

static void print_lines(const at_audit *a, const at_box *b, const at_audit_style *style, FILE *out)
{
    char line[AT_LINE_TEXT];
    at_audit_select_line(line, a, b, style->tool);
    (void)fprintf(out, "   ask      %s\n", line);
    if (!at_audit_repro_line(line, a, b, style->tool)) {
        at_audit_again_line(line, a, b, style->tool);
    }
    (void)fprintf(out, "   repro    %s\n", line);
}

static bool is_told(const at_audit_answer *told, size_t n, const at_audit_answer *at)
{
    for (size_t t = 0; t < n; t++) {
        if (told[t].set == at->set && told[t].entry == at->entry) {
            return true;
        }
    }
    return false;
}

/* Each claim once; of measured verdicts the first ones. */
static void print_evidence(const at_audit *a, size_t first, FILE *out)
{
    at_audit_answer told[EVIDENCE_SHOWN], at[EVIDENCE_SHOWN];
    const size_t most = a->measured != NULL ? VERDICTS_SHOWN : EVIDENCE_SHOWN;
    size_t known = 0, more = 0;
    for (size_t i = first; i < a->boxes.count; i++) {
        size_t n = a->finding[i] == a->finding[first]
                       ? at_audit_evidence(at, EVIDENCE_SHOWN, a, &a->boxes.box[i])
                       : 0;
        for (size_t k = 0; k < n; k++) {
            if (known == most || is_told(told, known, &at[k])) {
                more += known == most && a->measured != NULL;
                continue;
            }
            told[known++] = at[k];
            (void)fprintf(out, "   evidence %s, %s: %s\n", at[k].capability.evidence,
                          at_capabilities_name(at[k].set), at[k].capability.source);
        }
    }
    if (more > 0) {
        (void)fprintf(out, "   evidence and %zu more verdict%s\n", more, more == 1 ? "" : "s");
    }
}

/* Up to `room` boxes with the numbers of box `first`; returns how many. */
static size_t print_group(const at_audit *a, size_t first, size_t room, FILE *out)
{
    const at_box *b = &a->boxes.box[first];
    size_t parts = 0;
    at_box_print_numbers(a->region, b, out);
    for (size_t i = first; i < a->boxes.count && parts < room; i++) {
        if (a->finding[i] == a->finding[first] && at_box_alike(a->region, b, &a->boxes.box[i])) {
            print_part(a, &a->boxes.box[i], out);
            parts++;
        }
    }
    return parts;
}

/* Up to PARTS_SHOWN boxes of the finding, or all. */
static void print_groups(const at_audit *a, size_t first, bool all, FILE *out)
{
    size_t shown = 0, boxes = 0;
    for (size_t i = first; i < a->boxes.count; i++) {
        boxes += a->finding[i] == a->finding[first];
        if (a->finding[i] == a->finding[first] && (shown < PARTS_SHOWN || all) &&
            at_box_leads(a->region, &a->boxes, a->finding, i)) {
            shown += print_group(a, i, all ? SIZE_MAX : PARTS_SHOWN - shown, out);
        }
    }
    if (boxes > shown) {
        (void)fprintf(out, "   - and %zu more box%s\n", boxes - shown,
                      boxes - shown == 1 ? "" : "es");
    }
}

static void print_finding(const at_audit *a, size_t first, const at_audit_style *style, FILE *out)
{
    const at_box *b = &a->boxes.box[first];
    const at_audit_answer at = at_audit_answer_at(a, b, b->example);
    print_heading(a, b, a->finding[first], out, style->colors);
    print_groups(a, first, style->limit == 0, out);
    print_models(a, first, out);
    print_rule(a, b, &at, out);
    print_evidence(a, first, out);
    print_lines(a, b, style, out);
}

/* Kind, place, models and command lines. */
static void print_brief(const at_audit *a, size_t first, const at_audit_style *style, FILE *out)
{
    const at_box *b = &a->boxes.box[first];
    char text[AT_AXIS_TEXT];
    const char *gap = "   ";
    uint64_t cases = 0, parts = 0;
    print_heading(a, b, a->finding[first], out, style->colors);
    for (size_t i = 0; i < a->region->axes; i++) {
        const at_region_axis *axis = &a->region->axis[i];
        bool told = i < a->region->env_axes || at_region_axis_is_numeric(axis);
        if (told && at_box_axis_text(text, axis, b->in[i])) {
            (void)fprintf(out, "%s%s %s", gap, axis->name, text);
            gap = "; ";
        }
    }
    if (at_box_relation(a->region, b, text) != NULL) {
        (void)fprintf(out, "%s%s", gap, text);
        gap = "; ";
    }
    for (size_t i = first; i < a->boxes.count; i++) {
        cases += a->finding[i] == a->finding[first] ? a->boxes.box[i].cases : 0;
        parts += a->finding[i] == a->finding[first];
    }
    (void)fprintf(out, "%s%" PRIu64 " case%s", gap, b->cases, b->cases == 1 ? "" : "s");
    if (parts > 1) {
        (void)fprintf(out, "; and %" PRIu64 " more box%s, up to %" PRIu64 " cases", parts - 1,
                      parts == 2 ? "" : "es", cases - b->cases);
    }
    (void)fputc('\n', out);
    print_models(a, first, out);
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
        if (a->measured != NULL && a->env[0].set[i] == NULL) {
            (void)fprintf(out, "%s is not audited: the results have no verdict of it\n", backend);
        }
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
    if (arch != AT_ARCH_ANY && audit->region->list == NULL &&
        !at_region_sweeps(audit->region, "arch")) {
        (void)fprintf(out, " on %s", at_case_field("arch", 4)->names[arch]);
    }
    (void)fprintf(out,
                  ", space %s: %" PRIu64 " cases decided, %" PRIu64
                  " contradict what builds %s, in %zu box%s\n",
                  audit->region->name, audit->cases, audit->contradictions,
                  audit->measured != NULL ? "did" : "can do", audit->boxes.count,
                  audit->boxes.count == 1 ? "" : "es");
    if (!style->brief) {
        print_env(audit, out);
        print_sets(audit, out);
    }
    for (size_t i = 0, last = 0; i < audit->boxes.count; i++) {
        if (audit->finding[i] > last && (style->limit == 0 || audit->finding[i] <= style->limit)) {
            style->brief ? print_brief(audit, i, style, out) : print_finding(audit, i, style, out);
            last = audit->finding[i];
        }
    }
    if (style->limit != 0 && audit->findings > style->limit) {
        (void)fprintf(out, "\nand %zu more findings\n", audit->findings - style->limit);
    }
}
