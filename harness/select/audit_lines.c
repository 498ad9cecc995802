#include "harness/select/audit_lines.h"

#include <stdio.h>
#include <string.h>

#include "harness/backend.h"

void at_env_flag(char *out, size_t room, const at_env *given)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < at_env_size(given) && used < room; i++) {
        const char *key = at_env_key_at(given, i);
        if (strcmp(key, "arch") != 0) {
            int n = snprintf(out + used, room - used, "%s%s=%s", used > 0 ? "," : " --env ", key,
                             at_env_get(given, key));
            used += n > 0 ? (size_t)n : 0;
        }
    }
}

/* The box's example as case text and as --env flag; returns its environment. */
static const at_audit_env *example_of(char text[AT_CASE_TEXT_MAX], char env[512], const at_audit *a,
                                      const at_box *b)
{
    at_case c;
    const at_audit_env *e = &a->env[at_region_env_of(a->region, b->example)];
    at_audit_case(&c, a, b->example);
    (void)at_case_print(&c, text);
    at_env_flag(env, 512, e->given);
    return e;
}

void at_audit_select_line(char out[AT_LINE_TEXT], const at_audit *a, const at_box *b,
                          const char *tool)
{
    char text[AT_CASE_TEXT_MAX], env[512];
    const at_audit_env *e = example_of(text, env, a, b);
    (void)snprintf(out, AT_LINE_TEXT, "%s select '%s' --selector %s%s",
                   tool != NULL ? tool : "attest", text, at_selector_name(e->selector), env);
}

/* Divides both lengths by the largest power of two that leaves the contradiction as it is, and the
 * longer length above the window and 64. */
static void shorten(at_case *c, const at_audit_env *env, const at_box *b)
{
    int64_t longest = c->len_q > c->len_kv ? c->len_q : c->len_kv;
    int64_t window = c->window_left > c->window_right ? c->window_left : c->window_right;
    for (int64_t by = 1024; by > 1; by /= 2) {
        at_case shorter = *c;
        uint32_t sign = 0;
        bool exact = (c->len_q % by == 0 || c->len_q == 1) && c->len_kv % by == 0;
        shorter.len_q = c->len_q == 1 ? 1 : c->len_q / by;
        shorter.len_kv = c->len_kv / by;
        if (exact && longest / by >= 64 && longest / by > window &&
            at_audit_ask(&sign, env, b->backend, &shorter, NULL) == AT_OK &&
            (sign & ~AT_MARK_WINS) == b->sign) {
            *c = shorter;
            return;
        }
    }
}

bool at_audit_repro_line(char out[AT_LINE_TEXT], const at_audit *a, const at_box *b,
                         const char *tool)
{
    at_case c;
    at_reason why;
    char name[128], text[AT_CASE_TEXT_MAX];
    if (at_audit_rule(b->sign) >= 0) {
        return false;
    }
    at_audit_answer at = at_audit_answer_at(a, b, b->example);
    if (at.capability.backend != NULL) { /* it was measured: once more */
        c = a->region->list[b->item];
        (void)at_case_print(&c, text);
        (void)snprintf(out, AT_LINE_TEXT, "%s repro '%s' --backend %s",
                       tool != NULL ? tool : "attest", text, at.capability.backend);
        return true;
    }
    (void)snprintf(name, sizeof name, "modelled.%s", at_capabilities_name(at.set));
    const at_backend *backend = at_registry_find(name);
    at_audit_case(&c, a, b->example);
    if (backend == NULL || (backend->arch != AT_ARCH_ANY && (int64_t)backend->arch != c.arch) ||
        backend->supports(backend, &c, &why) != AT_OK) {
        return false;
    }
    shorten(&c, at.env, b);
    (void)at_case_print(&c, text);
    (void)snprintf(out, AT_LINE_TEXT, "%s repro '%s' --backend %s", tool != NULL ? tool : "attest",
                   text, name);
    return true;
}

void at_audit_again_line(char out[AT_LINE_TEXT], const at_audit *a, const at_box *b,
                         const char *tool)
{
    char text[AT_CASE_TEXT_MAX], env[512];
    const at_audit_env *e = example_of(text, env, a, b);
    (void)snprintf(out, AT_LINE_TEXT, "%s audit --selector %s%s --space '%s'",
                   tool != NULL ? tool : "attest", at_selector_name(e->selector), env, text);
}

/* The environment of that number is one of the box's. */
static bool holds_env(const at_audit *a, const at_box *b, uint64_t number)
{
    bool in = true;
    for (size_t k = a->region->env_axes; k-- > 0;) {
        in = in && b->in[k][number % a->region->axis[k].count];
        number /= a->region->axis[k].count;
    }
    return in;
}

size_t at_audit_evidence(at_audit_answer *out, size_t room, const at_audit *a, const at_box *b)
{
    uint64_t each = a->region->cells / a->region->envs;
    size_t n = 0;
    for (uint64_t e = 0; e < a->region->envs && n < room; e++) {
        if (!holds_env(a, b, e)) {
            continue;
        }
        at_audit_answer at = at_audit_answer_at(a, b, e * each + b->example % each);
        size_t k = 0;
        while (k < n && !(out[k].set == at.set && out[k].entry == at.entry)) {
            k++;
        }
        out[k] = at;
        n += k == n;
    }
    return n;
}
