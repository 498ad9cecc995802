/* Changes as Markdown. */
#include "harness/select/diff_core.h"

#include <inttypes.h>

#include "harness/select/audit_lines.h"
#include "harness/select/box_text.h"

static void print_side(const at_diff *d, int side, int rule, FILE *out)
{
    const char *name = at_selector_name(d->env[0].selector[side]);
    at_refusal r = at_diff_refusal(d, side, rule);
    if (rule == AT_DIFF_ADMITTED) {
        (void)fprintf(out, "  - %s admits it\n", name);
    } else if (rule == AT_DIFF_UNKNOWN) {
        (void)fprintf(out, "  - %s does not know it\n", name);
    } else {
        (void)fprintf(out, "  - %s refuses it by `%s`: %s\n    %s\n", name, r.rule, r.why,
                      r.source);
    }
}

static void print_finding(const at_diff *d, size_t first, const at_audit_style *style, FILE *out)
{
    const at_box *b = &d->boxes.box[first];
    const at_change *c = at_diff_kind(d, b);
    char text[AT_LINE_TEXT];
    const char *from = c->winner[0] >= 0 ? d->backend[c->winner[0]] : "none";
    const char *to = c->winner[1] >= 0 ? d->backend[c->winner[1]] : "none";
    (void)fprintf(out, "\n## %zu. ", d->finding[first]);
    if (c->winner[0] != c->winner[1]) {
        (void)fprintf(out, "The winner changes from %s to %s\n\n", from, to);
    } else {
        (void)fprintf(out, "The winner stays %s\n\n", to);
    }
    at_box_table(d->region, &d->boxes, d->finding, d->finding[first], "winner changes", out);
    (void)fputs("\nExample:\n\n```sh\n", out);
    for (int side = 0; side < 2; side++) {
        at_diff_line(text, sizeof text, d, b, side, style->tool);
        (void)fprintf(out, "%s\n", text);
    }
    (void)fputs("```\n\n", out);
    for (size_t k = 0; k < d->backends; k++) {
        if (c->rule[k][0] != AT_DIFF_SAME) {
            (void)fprintf(out, "- %s\n", d->backend[k]);
            print_side(d, 0, c->rule[k][0], out);
            print_side(d, 1, c->rule[k][1], out);
        }
    }
    const char *gap = "- Met by ";
    for (size_t i = 0; i < AT_POPULAR_MAX; i++) {
        if ((b->models >> i & 1) != 0) {
            (void)fprintf(out, "%s%s", gap, at_popular_model(d->popular, i));
            gap = ", ";
        }
    }
    (void)fputs(b->models != 0 ? "\n" : "", out);
}

void at_diff_markdown(const at_diff *diff, FILE *out, const at_audit_style *style)
{
    at_case c;
    at_diff_case(&c, diff, 0);
    (void)fprintf(out,
                  "# From %s to %s\n\n| | |\n|---|---|\n| space | %s: %" PRIu64 " cases, %" PRIu64
                  " changed |\n",
                  at_selector_name(diff->env[0].selector[0]),
                  at_selector_name(diff->env[0].selector[1]), diff->region->name, diff->cases,
                  diff->changed);
    for (int side = 0; side < 2; side++) {
        at_json *env = at_selector_env(diff->env[0].selector[side], c.arch);
        (void)fprintf(out, "| environment, %s |", side == 0 ? "before" : "after");
        for (const at_json *m = at_json_first(env); m != NULL; m = at_json_next(m)) {
            if (!at_region_sweeps(diff->region, at_json_key(m))) {
                (void)fprintf(out, " `%s=%s`", at_json_key(m), at_json_text(m));
            }
        }
        (void)fputs(" |\n", out);
        at_json_close(env);
    }
    for (size_t i = 0; i < diff->region->env_axes; i++) {
        (void)fprintf(out, "| swept %s |", diff->region->axis[i].name);
        for (size_t k = 0; k < diff->region->axis[i].count; k++) {
            (void)fprintf(out, " `%s`", diff->region->axis[i].point[k].text);
        }
        (void)fputs(" |\n", out);
    }
    (void)fprintf(out, "| made by | attest %s |\n", at_version());
    for (size_t i = 0, last = 0; i < diff->boxes.count; i++) {
        if (diff->finding[i] > last && (style->limit == 0 || diff->finding[i] <= style->limit)) {
            print_finding(diff, i, style, out);
            last = diff->finding[i];
        }
    }
}
