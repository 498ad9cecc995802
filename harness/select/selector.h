/* Selectors: for a case and an environment, which backends may serve it, and why the others not. */
#ifndef AT_SELECTOR_H
#define AT_SELECTOR_H

#include "harness/case/case.h"
#include "harness/select/env.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_selector at_selector;

enum { AT_SELECTION_MAX = 16, AT_SELECTOR_RULES_MAX = 512 };

/* Text is borrowed from the selector and lives as long as it. */
typedef struct at_refusal {
    const char *backend, *rule, *why, *source;
} at_refusal;
typedef struct at_selection {
    const char *winner; /* NULL: nothing is left */
    int admitted_count, refused_count;
    const char *admitted[AT_SELECTION_MAX];
    at_refusal refused[AT_SELECTION_MAX]; /* the first rule that refused each */
} at_selection;

/* The same in numbers, for loops over many cases. */
typedef struct at_decision {
    uint32_t admitted;              /* bit i: backend i */
    int winner;                     /* -1: nothing is left */
    int16_t rule[AT_SELECTION_MAX]; /* by backend: the first rule that refused it, -1 if admitted */
} at_decision;

/* CORPUS/selectors/NAME.json, or for "te-newest" the one of the highest version among te-VERSION,
 * or for te@VERSION, te@installed a Transformer Engine's own selector (reports/rule-sets.md); with
 * its environment resolved: unknown env keys and bad values are
 * AT_INVALID. `env` may be NULL. A file that cannot be used is AT_INVALID with one sentence that
 * names file, rule and column. */
AT_API at_status at_selector_open(at_selector **out, const char *corpus, const char *name,
                                  const at_env *env, at_error *err) AT_MUST_CHECK;
/* The same, with those keys of env that the rule set declares; bit i of *known: key i of env
 * (at_env_key_at, the first 64) is one. */
AT_API at_status at_selector_open_known(at_selector **out, const char *corpus, const char *name,
                                        const at_env *env, uint64_t *known,
                                        at_error *err) AT_MUST_CHECK;
AT_API void at_selector_close(at_selector *s); /* NULL is legal */

/* Names of the corpus's rule sets, by package and version; *names [*count], each and the list are
 * the caller's to free. */
AT_API at_status at_selector_names(char ***names, size_t *count, const char *corpus,
                                   at_error *err) AT_MUST_CHECK;

/* AT_INVALID when a rule cannot be evaluated (division by zero, ...): names file and rule id. The
 * case's arch (unless any) overrides the environment's; AT_INVALID if rules ask and neither is
 * given. */
AT_API at_status at_selector_decide(at_selection *out, const at_selector *s, const at_case *c,
                                    at_error *err) AT_MUST_CHECK;
AT_API at_status at_selector_decide_fast(at_decision *out, const at_selector *s, const at_case *c,
                                         at_error *err) AT_MUST_CHECK;

/* {"selector","case","winner","admitted":[..],"refused":[{backend,rule,why,source}],"env":{..}};
 * the winner is null when nothing is left; env holds every key that the rule set declares, as text,
 * sorted; its arch is the one in force. */
AT_API at_json *at_selection_to_json(const at_selection *selection, const at_selector *s,
                                     const at_case *c);
/* That "env" object, for any arch (at_arch) in force. */
AT_API at_json *at_selector_env(const at_selector *s, int64_t arch);

/* The rule set behind a name: te@2.20 has te-2.20, te-newest and te@installed the newest one;
 * others are their own. */
AT_API void at_selector_rules_of(char out[64], const char *corpus, const char *name);

/* What it is made of. Indices are those of at_decision. */
AT_API const char *at_selector_name(const at_selector *s);
AT_API const char *at_selector_doc(const at_selector *s);
AT_API int64_t at_selector_arch(const at_selector *s,
                                const at_case *c); /* in force; c may be NULL */
AT_API size_t at_selector_backends(const at_selector *s);
AT_API const char *at_selector_backend(const at_selector *s, size_t i);
/* Name of the capability set of the build that the environment names; NULL: none. */
AT_API const char *at_selector_capabilities(const at_selector *s, size_t i);
/* Names under which results of a sweep have it, NULL-terminated: those of the rule file's
 * "measured" or its own, and the model of that capability set. */
enum { AT_MEASURED_NAMES = 16, AT_MEASURED_TEXT = 160 };
AT_API void at_selector_measured(const at_selector *s, size_t i,
                                 const char *name[AT_MEASURED_NAMES], char model[AT_MEASURED_TEXT]);
AT_API size_t at_selector_rules(const at_selector *s);
AT_API at_refusal at_selector_rule(const at_selector *s, size_t rule); /* backend NULL */
/* The rule says what the caller cannot ask or has switched off ("caller": true in the file). */
AT_API bool at_selector_rule_is_callers(const at_selector *s, size_t rule);
/* Among `rules` (bits, [AT_SELECTOR_RULES_MAX / 64] words), the one that refuses backend i for
 * itself, not for the caller, and looks at most of these case keys (bits as in at_expr_keys; the
 * arch aside) and fewest others: the one that ought to have said no. -1: none looks at any. */
AT_API int at_selector_rule_about(const at_selector *s, size_t i, const uint64_t *rules,
                                  uint64_t keys);

#ifdef __cplusplus
}
#endif
#endif
