/* Changes as JSON and as paragraphs. */
#include "harness/select/diff_core.h"

#include <inttypes.h>
#include <string.h>

#include "harness/select/audit_lines.h"
#include "harness/select/box_text.h"

enum { PARTS_SHOWN = 3 };

static void put_text(at_json *object, const char *key, const char *text)
{
    if (text != NULL) {
        at_json_put_text(object, key, text);
    } else {
        at_json_put_null(object, key);
    }
}

static const char *name_of(const at_diff *d, int backend)
{
    return backend >= 0 ? d->backend[backend] : NULL;
}

static at_json *side_json(const at_diff *d, int side, int rule)
{
    at_json *o = at_json_object();
    at_refusal r = at_diff_refusal(d, side, rule);
    at_json_put_bool(o, "admitted", rule == AT_DIFF_ADMITTED);
    put_text(o, "rule", r.rule);
    put_text(o, "why", r.why);
    put_text(o, "source", r.source);
    return o;
}

static void put_changes(at_json *o, const at_diff *d, const at_change *c)
{
    at_json *winner = at_json_object(), *list = at_json_array();
    put_text(winner, "before", name_of(d, c->winner[0]));
    put_text(winner, "after", name_of(d, c->winner[1]));
    at_json_put(o, "winner", winner);
    for (size_t k = 0; k < d->backends; k++) {
        if (c->rule[k][0] != AT_DIFF_SAME) {
            at_json *one = at_json_object();
            at_json_put_text(one, "backend", d->backend[k]);
            at_json_put(one, "before", side_json(d, 0, c->rule[k][0]));
            at_json_put(one, "after", side_json(d, 1, c->rule[k][1]));
            at_json_add(list, one);
        }
    }
    at_json_put(o, "changes", list);
}

static void put_lines(at_json *o, const at_diff *d, const at_box *b, const at_case *c)
{
    char text[AT_LINE_TEXT];
    at_json *lines = at_json_array();
    (void)at_case_print(c, text);
    at_json_put_text(o, "example", text);
    for (int side = 0; side < 2; side++) {
        at_diff_line(text, sizeof text, d, b, side, NULL);
        at_json_add_text(lines, text);
    }
    at_json_put(o, "select", lines);
}

at_json *at_diff_box_json(const at_diff *diff, size_t i)
{
    AT_ASSERT(i < diff->boxes.count);
    const at_box *b = &diff->boxes.box[i];
    const at_diff_env *e = &diff->env[at_region_env_of(diff->region, b->example)];
    at_json *o = at_json_object(), *env = at_json_object(), *models = at_json_array();
    char relation[AT_RELATION_TEXT];
    at_case c;
    at_diff_case(&c, diff, b->example);
    at_json_put_text(o, "before", at_selector_name(e->selector[0]));
    at_json_put_text(o, "after", at_selector_name(e->selector[1]));
    at_json_put_text(o, "arch", at_case_field("arch", 4)->names[c.arch]);
    at_json_put(env, "before", at_selector_env(e->selector[0], c.arch));
    at_json_put(env, "after", at_selector_env(e->selector[1], c.arch));
    at_json_put(o, "env", env);
    at_json_put_text(o, "space", diff->region->name);
    at_json_put_integer(o, "finding", (int64_t)diff->finding[i]);
    at_json_put_number(o, "score", b->score);
    for (size_t k = 0; k < AT_POPULAR_MAX; k++) {
        if ((b->models >> k & 1) != 0) {
            at_json_add_text(models, at_popular_model(diff->popular, k));
        }
    }
    at_json_put(o, "models", models);
    at_json_put(o, "box", at_box_json(diff->region, b));
    put_text(o, "relation", at_box_relation(diff->region, b, relation));
    at_json_put_integer(o, "cases", (int64_t)b->cases);
    at_json_put_integer(o, "wins", (int64_t)b->wins);
    put_lines(o, diff, b, &c);
    put_changes(o, diff, at_diff_kind(diff, b));
    return o;
}

static const char *or_none(const char *name)
{
    return name != NULL ? name : "none";
}

static void print_side(const at_diff *d, int side, int rule, FILE *out)
{
    const char *name = at_selector_name(d->env[0].selector[side]);
    at_refusal r = at_diff_refusal(d, side, rule);
    if (rule == AT_DIFF_ADMITTED) {
        (void)fprintf(out, "%s admits it\n", name);
    } else if (rule == AT_DIFF_UNKNOWN) {
        (void)fprintf(out, "%s does not know it\n", name);
    } else {
        (void)fprintf(out, "%s refuses it by %s: %s\n            %s\n", name, r.rule, r.why,
                      r.source);
    }
}

static void print_heading(const at_diff *d, size_t number, const at_change *c, FILE *out,
                          bool colors)
{
    const char *bold = colors ? "\033[1m" : "", *plain = colors ? "\033[0m" : "";
    const char *gap = "";
    (void)fprintf(out, "\n%zu. %s", number, bold);
    for (size_t k = 0; k < d->backends; k++) {
        if (c->rule[k][0] != AT_DIFF_SAME) {
            (void)fprintf(out, "%s%s is %s", gap, d->backend[k],
                          c->rule[k][1] == AT_DIFF_ADMITTED ? "admitted now"
                                                            : "no longer admitted");
            gap = ", ";
        }
    }
    if (c->winner[0] != c->winner[1]) {
        (void)fprintf(out, "%sthe winner changes from %s to %s%s\n", gap,
                      or_none(name_of(d, c->winner[0])), or_none(name_of(d, c->winner[1])), plain);
    } else {
        (void)fprintf(out, "%s; the winner stays %s\n", plain, or_none(name_of(d, c->winner[1])));
    }
}

static void print_part(const at_diff *d, const at_box *b, FILE *out)
{
    const char *lead = "   - ";
    char text[AT_CASE_TEXT_MAX];
    at_case c;
    for (size_t i = 0; i < d->region->axes; i++) {
        const at_region_axis *axis = &d->region->axis[i];
        if (!at_region_axis_is_numeric(axis) && at_box_points(axis, b->in[i]) < axis->count) {
            at_box_print_axis(axis, b->in[i], lead, out);
            lead = "     ";
        }
    }
    at_diff_case(&c, d, b->example);
    (void)at_case_print(&c, text);
    (void)fprintf(out, "%s%" PRIu64 " case%s; such as %s\n", lead, b->cases,
                  b->cases == 1 ? "" : "s", text);
}

static void print_models(const at_diff *d, const at_box *b, FILE *out)
{
    const char *gap = "   met by   ";
    for (size_t i = 0; i < AT_POPULAR_MAX; i++) {
        if ((b->models >> i & 1) != 0) {
            (void)fprintf(out, "%s%s", gap, at_popular_model(d->popular, i));
            gap = ", ";
        }
    }
    if (b->models != 0) {
        (void)fprintf(out, "; score %.3g\n", b->score);
    }
}

/* Up to `room` boxes with the numbers of box `first`; returns how many. */
static size_t print_group(const at_diff *d, size_t first, size_t room, FILE *out)
{
    const at_box *b = &d->boxes.box[first];
    size_t parts = 0;
    at_box_print_numbers(d->region, b, out);
    for (size_t i = first; i < d->boxes.count && parts < room; i++) {
        if (d->finding[i] == d->finding[first] && at_box_alike(d->region, b, &d->boxes.box[i])) {
            print_part(d, &d->boxes.box[i], out);
            parts++;
        }
    }
    return parts;
}

/* Up to PARTS_SHOWN boxes of the finding, or all. */
static void print_groups(const at_diff *d, size_t first, bool all, FILE *out)
{
    size_t shown = 0, boxes = 0;
    for (size_t i = first; i < d->boxes.count; i++) {
        boxes += d->finding[i] == d->finding[first];
        if (d->finding[i] == d->finding[first] && (shown < PARTS_SHOWN || all) &&
            at_box_leads(d->region, &d->boxes, d->finding, i)) {
            shown += print_group(d, i, all ? SIZE_MAX : PARTS_SHOWN - shown, out);
        }
    }
    if (boxes > shown) {
        (void)fprintf(out, "   - and %zu more box%s\n", boxes - shown,
                      boxes - shown == 1 ? "" : "es");
    }
}

static void print_finding(const at_diff *d, size_t first, const at_audit_style *style, FILE *out)
{
    const at_box *b = &d->boxes.box[first];
    const at_change *c = at_diff_kind(d, b);
    char text[AT_LINE_TEXT];
    print_heading(d, d->finding[first], c, out, style->colors);
    print_groups(d, first, style->limit == 0, out);
    print_models(d, b, out);
    for (size_t k = 0; k < d->backends; k++) {
        for (int side = 0; side < 2 && c->rule[k][0] != AT_DIFF_SAME; side++) {
            (void)fprintf(out, "   %-8s ", side == 0 ? d->backend[k] : "");
            print_side(d, side, c->rule[k][side], out);
        }
    }
    for (int side = 0; side < 2; side++) {
        at_diff_line(text, sizeof text, d, b, side, style->tool);
        (void)fprintf(out, "   ask      %s\n", text);
    }
}

/* The later one's environment; what the earlier one alone has. */
static void print_env(const at_diff *d, FILE *out)
{
    at_case c;
    at_diff_case(&c, d, 0);
    at_json *env[2];
    (void)fputs("env", out);
    for (int side = 1; side >= 0; side--) {
        env[side] = at_selector_env(d->env[0].selector[side], c.arch);
        for (const at_json *m = at_json_first(env[side]); m != NULL; m = at_json_next(m)) {
            const at_json *same = side == 0 ? at_json_get(env[1], at_json_key(m)) : NULL;
            bool told = same != NULL && strcmp(at_json_text(same), at_json_text(m)) == 0;
            if (!told && !at_region_sweeps(d->region, at_json_key(m))) {
                (void)fprintf(out, " %s%s=%s", at_json_key(m), same != NULL ? " before" : "",
                              at_json_text(m));
            }
        }
    }
    (void)fputc('\n', out);
    at_json_close(env[0]);
    at_json_close(env[1]);
    for (size_t i = 0; i < d->region->env_axes; i++) {
        const at_region_axis *axis = &d->region->axis[i];
        (void)fprintf(out, "swept");
        for (size_t k = 0; k < axis->count; k++) {
            (void)fprintf(out, " %s",
                          axis->point[k].text[0] != '\0' ? axis->point[k].text : "as-given");
        }
        (void)fputc('\n', out);
    }
    if (d->note[0] != '\0') {
        (void)fprintf(out, "both with the later one's %s\n", d->note);
    }
}

void at_diff_print(const at_diff *diff, FILE *out, const at_audit_style *style)
{
    (void)fprintf(out,
                  "from %s to %s, space %s: %" PRIu64 " cases decided, %" PRIu64
                  " changed, in %zu box%s\n",
                  at_selector_name(diff->env[0].selector[0]),
                  at_selector_name(diff->env[0].selector[1]), diff->region->name, diff->cases,
                  diff->changed, diff->boxes.count, diff->boxes.count == 1 ? "" : "es");
    print_env(diff, out);
    for (size_t i = 0, last = 0; i < diff->boxes.count; i++) {
        if (diff->finding[i] > last && (style->limit == 0 || diff->finding[i] <= style->limit)) {
            print_finding(diff, i, style, out);
            last = diff->finding[i];
        }
    }
    if (style->limit != 0 && diff->findings > style->limit) {
        (void)fprintf(out, "\nand %zu more findings\n", diff->findings - style->limit);
    }
}
