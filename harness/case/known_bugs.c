#include "harness/case/known_bugs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/judge/verdict.h"

enum { FILES_MAX = 256, PATH_TEXT = 4096, SHORT_TEXT = 64, ID_TEXT_MAX = 48 };

struct at_known_bugs {
    char *path[FILES_MAX];
    at_json *root[FILES_MAX];
    size_t files;
    at_known_bug *bug;
    size_t count, room;
};

static const char *const file_members[] = {"schema", "library", "doc", "bugs", NULL};
static const char *const bug_members[] = {
    "id",       "title",        "sources",   "versions", "arch",      "pass",
    "effect",   "mechanism",    "h200",      "what",     "invariant", "cases",
    "controls", "reduced_from", "unsayable", "faults",   "no_fault",  NULL};
static const char *const h200_members[] = {"retry", "why", NULL};
static const char *const fault_members[] = {"backend", "engine", "statuses", "only", NULL};

static const char *const passes[] = {"forward", "backward", "both", "load", NULL};
static const char *const effects[] = {
    "silent", "nonfinite", "nondeterministic", "crash", "refused", "over_refused", "hang", "slow",
    "load",   NULL};
static const char *const answers[] = {"yes", "no", "unknown", NULL};

static const struct {
    const char *name, *doc;
} mechanisms[] = {
    {"M01", "selection or the support check admits what the kernel cannot run"},
    {"M02", "selection refuses what the kernel could run"},
    {"M03", "length tail: keys past the length are scored, read or lost"},
    {"M04", "head-size tiling: rounding, unequal sizes of QK and V"},
    {"M05", "empty work: sequences without tokens, rows without keys, empty tensors"},
    {"M06", "strides or layout ignored"},
    {"M07", "index width and launch limits"},
    {"M08", "meaning of the mask: window edge, corner, future"},
    {"M09", "number range: sentinels, overflow of exp, outliers"},
    {"M10", "memory that nobody wrote or nobody should read"},
    {"M11", "race, order of summation, seeds"},
    {"M12", "packed or paged metadata: offsets, gaps, lengths"},
    {"M13", "grouped heads, one query, split keys and their merging"},
    {"M14", "execution mode: capture, compilation, which inputs need gradients"},
    {"M15", "versions that do not fit together"},
    {"M16", "time or memory grow too fast"},
    {"M17", "block-sparse lists, mask and score functions, score caps"},
};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms };

const char *at_bug_mechanism_name(size_t i)
{
    return i < MECHANISMS ? mechanisms[i].name : NULL;
}

const char *at_bug_mechanism(const char *name)
{
    for (size_t i = 0; i < MECHANISMS; i++) {
        if (strcmp(name, mechanisms[i].name) == 0) {
            return mechanisms[i].doc;
        }
    }
    return NULL;
}

static at_status want_word(const char **out, const at_json *object, const char *key,
                           const char *const *words, at_error *err)
{
    char list[256] = "";
    AT_TRY(at_json_want_text(object, key, true, out, err));
    for (size_t i = 0; words[i] != NULL; i++) {
        size_t used = strlen(list);
        if (strcmp(words[i], *out) == 0) {
            return AT_OK;
        }
        (void)snprintf(list + used, sizeof list - used, " %s", words[i]);
    }
    return at_fail(err, AT_INVALID, "\"%s\" is \"%.40s\", it takes one of%s", key, *out, list);
}

/* A text that says something. */
static at_status want_sentence(const char **out, const at_json *object, const char *key,
                               bool required, at_error *err)
{
    AT_TRY(at_json_want_text(object, key, required, out, err));
    return *out == NULL || (*out)[0] != '\0'
               ? AT_OK
               : at_fail(err, AT_INVALID, "the member \"%s\" is empty", key);
}

/* A list of one text or more. */
static at_status want_texts(const at_json **out, const at_json *object, const char *key,
                            bool required, at_error *err)
{
    AT_TRY(at_json_want_array(object, key, required, out, err));
    bool good = *out == NULL || at_json_size(*out) > 0;
    for (const at_json *i = *out != NULL ? at_json_first(*out) : NULL; i != NULL && good;
         i = at_json_next(i)) {
        good = at_json_text(i) != NULL && at_json_text(i)[0] != '\0';
    }
    return good ? AT_OK
                : at_fail(err, AT_INVALID,
                          "the member \"%s\" must be a list of texts, one at least", key);
}

static bool holds(const at_json *texts, const char *text)
{
    const at_json *item = texts != NULL ? at_json_first(texts) : NULL;
    for (; item != NULL && strcmp(at_json_text(item), text) != 0; item = at_json_next(item)) {
    }
    return item != NULL;
}

static at_status read_statuses(at_bug_fault *out, at_error *err)
{
    for (const at_json *i = at_json_first(out->statuses); i != NULL; i = at_json_next(i)) {
        at_kind kind = AT_PASS;
        if (!at_kind_parse(&kind, at_json_text(i)) || at_kind_class(kind) != AT_CLASS_FAIL) {
            return at_fail(err, AT_INVALID,
                           "\"%.40s\" is no status of a failure, such as WRONG or NONFINITE",
                           at_json_text(i));
        }
        out->kinds |= 1U << kind;
    }
    return AT_OK;
}

static at_status read_fault(at_bug_fault *out, const at_json *object, const at_json *cases,
                            at_error *err)
{
    if (at_json_type(object) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "it must be a list of objects");
    }
    AT_TRY(at_json_only_keys(object, fault_members, err));
    AT_TRY(at_json_want_text(object, "backend", true, &out->backend, err));
    AT_TRY(want_sentence(&out->engine, object, "engine", false, err));
    AT_TRY(want_texts(&out->statuses, object, "statuses", true, err));
    AT_TRY(want_texts(&out->only, object, "only", false, err));
    if (strncmp(out->backend, "mutant.", 7) != 0 && strncmp(out->backend, "modelled.", 9) != 0) {
        return at_fail(err, AT_INVALID, "\"%.60s\" is neither mutant.NAME nor modelled.NAME",
                       out->backend);
    }
    for (const at_json *i = out->only != NULL ? at_json_first(out->only) : NULL; i != NULL;
         i = at_json_next(i)) {
        if (!holds(cases, at_json_text(i))) {
            return at_fail(err, AT_INVALID,
                           "\"only\" names \"%.80s\", which is not among \"cases\"",
                           at_json_text(i));
        }
    }
    return read_statuses(out, err);
}

static at_status read_faults(at_known_bug *bug, const at_json *faults, at_error *err)
{
    for (const at_json *i = at_json_first(faults); i != NULL; i = at_json_next(i)) {
        if (bug->fault_count == AT_BUG_FAULTS_MAX) {
            return at_fail(err, AT_INVALID, "more than %d faults", AT_BUG_FAULTS_MAX);
        }
        AT_TRY(read_fault(&bug->fault[bug->fault_count++], i, bug->cases, err));
    }
    return bug->fault_count > 0 ? AT_OK : at_fail(err, AT_INVALID, "it is empty");
}

static at_status read_sources(at_known_bug *bug, const at_json *object, at_error *err)
{
    AT_TRY(want_texts(&bug->sources, object, "sources", true, err));
    for (const at_json *i = at_json_first(bug->sources); i != NULL; i = at_json_next(i)) {
        if (strncmp(at_json_text(i), "https://", 8) != 0) {
            return at_fail(err, AT_INVALID, "the source \"%.60s\" is no https:// address",
                           at_json_text(i));
        }
    }
    return AT_OK;
}

static at_status read_facts(at_known_bug *bug, const at_json *object, at_error *err)
{
    const at_json *h200 = NULL;
    AT_TRY(want_sentence(&bug->title, object, "title", true, err));
    AT_TRY(read_sources(bug, object, err));
    AT_TRY(want_sentence(&bug->versions, object, "versions", true, err));
    AT_TRY(want_sentence(&bug->arch, object, "arch", true, err));
    AT_TRY(want_sentence(&bug->what, object, "what", true, err));
    AT_TRY(want_sentence(&bug->invariant, object, "invariant", true, err));
    AT_TRY(want_word(&bug->pass, object, "pass", passes, err));
    AT_TRY(want_word(&bug->effect, object, "effect", effects, err));
    AT_TRY(at_json_want_text(object, "mechanism", true, &bug->mechanism, err));
    if (at_bug_mechanism(bug->mechanism) == NULL) {
        return at_fail(err, AT_INVALID, "the mechanism \"%.20s\" is none of M01 ... M%d",
                       bug->mechanism, MECHANISMS);
    }
    AT_TRY(at_json_want_object(object, "h200", true, &h200, err));
    AT_TRY(at_json_only_keys(h200, h200_members, err));
    AT_TRY(want_word(&bug->h200, h200, "retry", answers, err));
    return want_sentence(&bug->h200_why, h200, "why", true, err);
}

/* Either cases with a fault or with the reason why there is none, or the reason why no case. */
static at_status read_cases(at_known_bug *bug, const at_json *object, at_error *err)
{
    const at_json *faults = NULL;
    AT_TRY(want_texts(&bug->cases, object, "cases", false, err));
    AT_TRY(want_texts(&bug->controls, object, "controls", false, err));
    AT_TRY(want_sentence(&bug->reduced_from, object, "reduced_from", false, err));
    AT_TRY(want_sentence(&bug->unsayable, object, "unsayable", false, err));
    AT_TRY(want_sentence(&bug->no_fault, object, "no_fault", false, err));
    AT_TRY(at_json_want_array(object, "faults", false, &faults, err));
    if ((bug->cases == NULL) == (bug->unsayable == NULL)) {
        return at_fail(
            err, AT_INVALID,
            "it needs either \"cases\" or \"unsayable\", the reason why no case says it");
    }
    bool more = bug->controls != NULL || bug->reduced_from != NULL || bug->no_fault != NULL ||
                faults != NULL;
    if (bug->cases == NULL) {
        return more ? at_fail(err, AT_INVALID,
                              "controls, reduced_from, faults and no_fault go with \"cases\"")
                    : AT_OK;
    }
    if ((faults == NULL) == (bug->no_fault == NULL)) {
        return at_fail(err, AT_INVALID,
                       "it needs either \"faults\" or \"no_fault\", the reason why there is none");
    }
    at_status status = faults != NULL ? read_faults(bug, faults, err) : AT_OK;
    return status == AT_OK ? AT_OK : at_fail_in(err, status, "\"faults\"");
}

static bool is_name(const char *text)
{
    return text[0] != '\0' && strlen(text) < ID_TEXT_MAX &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(text);
}

static at_status read_bug(at_known_bugs *bugs, at_known_bug *bug, const at_json *object,
                          at_error *err)
{
    if (at_json_type(object) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "it must be an object, it is %s",
                       at_json_kind_name(at_json_type(object)));
    }
    AT_TRY(at_json_want_text(object, "id", true, &bug->id, err));
    AT_TRY(at_json_only_keys(object, bug_members, err));
    if (!is_name(bug->id)) {
        return at_fail(err, AT_INVALID,
                       "the id \"%.60s\" takes lower case letters, digits and '-', at most %d",
                       bug->id, ID_TEXT_MAX - 1);
    }
    for (size_t i = 0; i < bugs->count; i++) {
        if (strcmp(bugs->bug[i].id, bug->id) == 0) {
            return at_fail(err, AT_INVALID, "%s has an entry with this id already",
                           bugs->bug[i].file);
        }
    }
    AT_TRY(read_facts(bug, object, err));
    return read_cases(bug, object, err);
}

static at_status make_room(at_known_bugs *bugs, at_error *err)
{
    size_t room = bugs->room > 0 ? 2 * bugs->room : 64;
    if (bugs->count < bugs->room) {
        return AT_OK;
    }
    at_known_bug *larger = realloc(bugs->bug, room * sizeof *larger);
    if (larger == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for %zu entries", room);
    }
    bugs->bug = larger;
    bugs->room = room;
    return AT_OK;
}

static at_status read_root(at_known_bugs *bugs, const at_json *root, const char *path,
                           at_error *err)
{
    const char *schema = NULL, *library = NULL;
    const at_json *list = NULL;
    int number = 1;
    if (at_json_type(root) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "known bugs must be an object, it is %s",
                       at_json_kind_name(at_json_type(root)));
    }
    AT_TRY(at_json_want_text(root, "schema", true, &schema, err));
    if (strcmp(schema, "attest-known-bugs-1") != 0) {
        return at_fail(err, AT_INVALID, "the schema is \"%.60s\", attest-known-bugs-1 is read",
                       schema);
    }
    AT_TRY(at_json_only_keys(root, file_members, err));
    AT_TRY(want_sentence(&library, root, "library", true, err));
    AT_TRY(at_json_want_array(root, "bugs", true, &list, err));
    for (const at_json *i = at_json_first(list); i != NULL; i = at_json_next(i), number++) {
        AT_TRY(make_room(bugs, err));
        at_known_bug *bug = &bugs->bug[bugs->count];
        memset(bug, 0, sizeof *bug);
        bug->file = path;
        bug->library = library;
        at_status status = read_bug(bugs, bug, i, err);
        if (status != AT_OK) {
            return bug->id != NULL ? at_fail_in(err, status, "entry \"%.60s\"", bug->id)
                                   : at_fail_in(err, status, "entry %d", number);
        }
        bugs->count++;
    }
    return AT_OK;
}

static at_status read_file(at_known_bugs *bugs, const char *path, at_error *err)
{
    if (bugs->files == FILES_MAX) {
        return at_fail(err, AT_INVALID, "%s: more than %d files of known bugs", path, FILES_MAX);
    }
    char *copy = strdup(path);
    if (copy == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for a path");
    }
    size_t at = bugs->files++;
    bugs->path[at] = copy;
    AT_TRY(at_json_load(&bugs->root[at], path, err));
    at_status status = read_root(bugs, bugs->root[at], copy, err);
    return status == AT_OK ? AT_OK : at_fail_in(err, status, "%s", path);
}

static int is_json(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

static at_status read_folder(at_known_bugs *bugs, const char *folder, at_error *err)
{
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, is_json, alphasort);
    at_status status = n < 0
                           ? at_fail(err, AT_IO, "%s: cannot be read (%s)", folder, strerror(errno))
                       : n == 0 ? at_fail(err, AT_INVALID, "%s holds no .json file", folder)
                                : AT_OK;
    for (int i = 0; i < n; i++) {
        char path[PATH_TEXT];
        int length = snprintf(path, sizeof path, "%s%s", folder, entry[i]->d_name);
        if (status == AT_OK && length >= PATH_TEXT) {
            status = at_fail(err, AT_INVALID, "the path %.60s... is too long", path);
        }
        status = status == AT_OK ? read_file(bugs, path, err) : status;
        free(entry[i]);
    }
    free(entry);
    return status;
}

at_status at_known_bugs_open(at_known_bugs **out, const char *path, at_error *err)
{
    at_known_bugs *bugs = calloc(1, sizeof *bugs);
    size_t n = strlen(path);
    *out = NULL;
    if (bugs == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for known bugs");
    }
    at_status status =
        n > 0 && path[n - 1] == '/' ? read_folder(bugs, path, err) : read_file(bugs, path, err);
    if (status != AT_OK) {
        at_known_bugs_close(bugs);
        return status;
    }
    *out = bugs;
    return AT_OK;
}

void at_known_bugs_close(at_known_bugs *bugs)
{
    for (size_t i = 0; bugs != NULL && i < bugs->files; i++) {
        at_json_close(bugs->root[i]);
        free(bugs->path[i]);
    }
    free(bugs != NULL ? bugs->bug : NULL);
    free(bugs);
}

size_t at_known_bugs_size(const at_known_bugs *bugs)
{
    return bugs->count;
}

const at_known_bug *at_known_bugs_at(const at_known_bugs *bugs, size_t i)
{
    AT_ASSERT(i < bugs->count);
    return &bugs->bug[i];
}
