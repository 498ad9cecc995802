/* Boxes as JSON. */
#include "harness/select/audit_lines.h"
#include "harness/select/box_text.h"

static void put_text(at_json *object, const char *key, const char *text)
{
    if (text != NULL) {
        at_json_put_text(object, key, text);
    } else {
        at_json_put_null(object, key);
    }
}

static at_json *models_json(const at_audit *a, const at_box *b)
{
    at_json *list = at_json_array();
    for (size_t i = 0; i < AT_POPULAR_MAX; i++) {
        if ((b->models >> i & 1) != 0) {
            at_json_add_text(list, at_popular_model(a->popular, i));
        }
    }
    return list;
}

/* Where it was asked, and where it is met. */
static void put_place(at_json *o, const at_audit *a, size_t i, const at_audit_answer *at)
{
    const at_box *b = &a->boxes.box[i];
    at_case c;
    char relation[AT_RELATION_TEXT];
    at_audit_case(&c, a, b->example);
    at_json_put_text(o, "selector", at_selector_name(at->env->selector));
    at_json_put_text(o, "arch", at_case_field("arch", 4)->names[c.arch]);
    at_json_put(o, "env", at_selector_env(at->env->selector, c.arch));
    at_json_put_text(o, "space", a->region->name);
    at_json_put_integer(o, "finding", (int64_t)a->finding[i]);
    at_json_put_number(o, "score", b->score);
    at_json_put(o, "models", models_json(a, b));
    at_json_put_text(o, "backend", at_selector_backend(at->env->selector, b->backend));
    at_json_put_text(o, "direction", at_audit_rule(b->sign) < 0 ? "admits" : "refuses");
    at_json_put(o, "box", at_box_json(a->region, b));
    put_text(o, "relation", at_box_relation(a->region, b, relation));
    at_json_put_integer(o, "cases", (int64_t)b->cases);
    at_json_put_integer(o, "wins", (int64_t)b->wins);
}

static void put_lines(at_json *o, const at_audit *a, const at_box *b)
{
    at_case c;
    char text[AT_LINE_TEXT];
    at_audit_case(&c, a, b->example);
    (void)at_case_print(&c, text);
    at_json_put_text(o, "example", text);
    at_audit_select_line(text, a, b, NULL);
    at_json_put_text(o, "select", text);
    if (!at_audit_repro_line(text, a, b, NULL)) {
        at_audit_again_line(text, a, b, NULL);
    }
    at_json_put_text(o, "repro", text);
}

at_json *at_audit_box_json(const at_audit *audit, size_t i)
{
    AT_ASSERT(i < audit->boxes.count);
    const at_box *b = &audit->boxes.box[i];
    at_audit_answer at = at_audit_answer_at(audit, b, b->example);
    const at_selector *s = at.env->selector;
    int rule = at_audit_rule(b->sign);
    at_json *o = at_json_object();
    put_place(o, audit, i, &at);
    put_lines(o, audit, b);
    put_text(o, "admits", rule < 0 ? at_selector_backend(s, b->backend) : NULL);
    put_text(o, "refusing_rule", rule < 0 ? NULL : at_selector_rule(s, (size_t)rule).rule);
    put_text(o, "should_refuse_rule", rule < 0 ? at_audit_should_refuse(audit, b, &at).rule : NULL);
    at_json_put_text(o, "step", at_step_names[at_capability_step(at.set, at.entry)]);
    at_json_put_text(o, "outcome", at_outcome_names[at.capability.outcome]);
    put_text(o, "tensor", at.capability.tensor);
    put_text(o, "message", at.capability.message);
    at_json_put_text(o, "evidence", at.capability.evidence);
    at_json_put_text(o, "source", at.capability.source);
    at_json_put_text(o, "capabilities", at_capabilities_name(at.set));
    return o;
}
