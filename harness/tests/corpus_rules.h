/* Hand-checked answers of the capability and rule sets of the corpus. */
#ifndef AT_TESTS_CORPUS_RULES_H
#define AT_TESTS_CORPUS_RULES_H

/* `sets`: names, separated by blanks; `step`: 'f' or 'b'; `want`: outcome and id of the rule. */
typedef struct at_known_outcome {
    const char *sets, *text;
    char step;
    const char *want;
} at_known_outcome;

/* `want`: the winner, then backend:rule for each that is refused, in order of declaration. */
typedef struct at_known_decision {
    const char *selector, *env, *text, *want;
} at_known_decision;

/* An item of a list of suspicions: `backend` of the selector is admitted, and `want` is what its
 * build does; or want starts with the rule that refuses what the build runs. */
typedef struct at_known_finding {
    const char *item, *selector, *env, *text, *backend, *want;
} at_known_finding;

/* A rule that no case here can trigger. */
typedef struct at_unreached {
    const char *set, *id, *reason;
} at_unreached;

extern const at_known_outcome at_known_outcomes[];
extern const at_known_decision at_known_decisions[];
extern const at_known_finding at_known_findings[];
extern const at_unreached at_unreached_rules[];

#endif
