/* What a selector is made of. Inside the folder. */
#ifndef AT_RULES_H
#define AT_RULES_H

#include "harness/select/called.h"
#include "harness/select/env_table.h"
#include "harness/select/lets.h"
#include "harness/select/selector.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_PREFER_MAX = 16, AT_EXTENDS_MAX = 12 };

/* One member of "rules", merged over the files; text is borrowed from the documents. */
typedef struct at_rule_text {
    const char *id, *when, *why, *source;
    const at_json *off;
    bool caller;
    const char *file; /* the last that touched it */
} at_rule_text;

typedef struct at_rule {
    const char *id, *why, *source, *file;
    uint32_t off;
    at_expr *when; /* NULL: always */
    bool caller; /* says what the caller cannot ask or has switched off, not what the backend can do
                  */
    bool never;  /* the environment rules it out */
    uint64_t slots; /* lets that it reaches */
    uint64_t keys;  /* case keys that its text reads */
} at_rule;

typedef struct at_prefer {
    at_expr *when; /* NULL: always */
    uint64_t slots;
    int order[AT_SELECTION_MAX];
} at_prefer;

typedef struct at_backend_entry {
    const char *name, *doc;
    const at_json *choices;  /* of capability sets by condition; NULL: one, in capabilities */
    const at_json *measured; /* names of backends in results; NULL: its own */
    char capabilities[AT_ENV_VALUE_TEXT * 2]; /* "" : none named */
} at_backend_entry;

struct at_selector {
    char name[64];
    at_json *document[AT_EXTENDS_MAX]; /* oldest ancestor last */
    char *path[AT_EXTENDS_MAX];
    int documents;
    const char *doc, *source;
    at_env_table env;
    at_lets lets;
    int64_t arch; /* of the environment */
    bool reads_arch;
    size_t backend_count;
    at_backend_entry backend[AT_SELECTION_MAX];
    const char *backend_name[AT_SELECTION_MAX];
    size_t rule_count;
    at_rule *rule;
    size_t prefer_count;
    at_prefer prefer[AT_PREFER_MAX];
    at_called *called; /* who decides instead of the rules; NULL: the rules */
};

/* Reads NAME.json and what it extends, merges and checks the members, compiles nothing. `rules`
 * gets the merged rules in order (free with free()). Fills documents, doc, source, env (not
 * resolved), backends; lets by name and text in `let` (two pointers each), prefer in `prefer`. */
typedef struct at_rule_file {
    at_rule_text *rule;
    size_t rule_count;
    const char *let[AT_LETS_MAX][2];
    const char *let_file[AT_LETS_MAX];
    size_t let_count;
    const at_json *prefer;
    const char *prefer_file;
} at_rule_file;

at_status at_rules_read(at_selector *s, at_rule_file *out, const char *corpus, const char *name,
                        at_error *err) AT_MUST_CHECK;

/* "line 3, column 5: " of the value of a member of the file's object, or of the last rule with that
 * id in the list that it is; "" when it is not there. For sentences. */
const char *at_rule_place(char out[64], const char *path, const char *key, const char *id);

/* at_selector_decide_fast by the rules alone. */
at_status at_rules_decide(at_decision *out, const at_selector *s, const at_case *c,
                          at_error *err) AT_MUST_CHECK;

/* AT_INVALID: the corpus has no such file; names those it has. `folder` is "selectors" and the
 * like, `what` "rule set". */
at_status at_corpus_missing(const char *corpus, const char *folder, const char *what,
                            const char *name, at_error *err);
/* "te-newest" -> the file of CORPUS/FOLDER with the highest version behind "te-"; other names, and
 * one without such a file, stay as they are. */
void at_corpus_newest(char out[64], const char *corpus, const char *folder, const char *name);
/* The path CORPUS/FOLDER/NAME.json; AT_INVALID when `name` is no plain word or no such file exists.
 */
at_status at_corpus_file(char path[4096], const char *corpus, const char *folder, const char *what,
                         const char *name, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
