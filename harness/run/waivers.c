#include "harness/run/waivers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness/select/expr.h"

enum { COMPARISONS = 4 };

typedef struct comparison {
    char op[3]; /* "<" "<=" ">" ">=" "=" "!=" */
    at_release release;
} comparison;

typedef struct waiver {
    const char *backend, *issue; /* borrowed from the document */
    int comparisons;
    comparison comparison[COMPARISONS];
    at_arch arch;  /* AT_ARCH_ANY: every */
    at_expr *when; /* NULL: always */
    at_kind status;
    bool has_fixed_in, expired, matched;
    at_release fixed_in;
} waiver;

struct at_waivers {
    at_json *document;
    size_t size;
    waiver *waiver;
};

static at_status read_version(waiver *w, const char *text, at_error *err)
{
    while (*(text += strspn(text, " ,")) != '\0') {
        size_t op = strspn(text, "<>=!"), n = strcspn(text + op, " ,");
        if (w->comparisons == COMPARISONS || op < 1 || op > 2) {
            return at_fail(err, AT_INVALID,
                           "\"version\" accepts one to %d comparisons such as \">=9.14 <9.20\"",
                           COMPARISONS);
        }
        comparison *k = &w->comparison[w->comparisons++];
        static const char *const known[] = {"<", "<=", ">", ">=", "=", "==", "!="};
        bool found = false;
        (void)snprintf(k->op, sizeof k->op, "%.*s", (int)op, text);
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            found = found || strcmp(k->op, known[i]) == 0;
        }
        if (!found) {
            return at_fail(err, AT_INVALID, "\"version\" knows no comparison \"%s\"", k->op);
        }
        AT_TRY(at_release_parse(&k->release, text + op, n, err));
        text += op + n;
    }
    return AT_OK;
}

static at_status read_arch(waiver *w, const char *text, at_error *err)
{
    const char *const *names = at_case_field("arch", 4)->names;
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], text) == 0) {
            w->arch = (at_arch)i;
            return AT_OK;
        }
    }
    return at_fail(err, AT_INVALID, "no arch \"%.40s\"", text);
}

static at_status read_end(waiver *w, const at_json *entry, const char *today, at_error *err)
{
    const char *until = NULL, *fixed_in = NULL;
    AT_TRY(at_json_want_text(entry, "until", false, &until, err));
    AT_TRY(at_json_want_text(entry, "fixed_in", false, &fixed_in, err));
    if ((until == NULL) == (fixed_in == NULL)) {
        return at_fail(err, AT_INVALID, "one of \"until\" and \"fixed_in\" is needed");
    }
    if (fixed_in != NULL) {
        w->has_fixed_in = true;
        return at_release_parse(&w->fixed_in, fixed_in, strlen(fixed_in), err);
    }
    static const char form[] = "dddd-dd-dd";
    bool good = strlen(until) == sizeof form - 1;
    for (size_t i = 0; good && i < sizeof form - 1; i++) {
        good = form[i] == 'd' ? until[i] >= '0' && until[i] <= '9' : until[i] == form[i];
    }
    w->expired = good && strcmp(today, until) > 0;
    return good ? AT_OK
                : at_fail(err, AT_INVALID,
                          "\"until\" accepts a date such as 2027-01-31, it is "
                          "\"%.40s\"",
                          until);
}

static at_status read_waiver(waiver *w, const at_json *entry, const char *today, at_error *err)
{
    static const char *const keys[] = {"backend", "version", "arch",     "when", "status",
                                       "issue",   "until",   "fixed_in", "note", NULL};
    const char *version = "", *arch = "any", *when = NULL, *status = NULL, *note = NULL;
    AT_TRY(at_json_only_keys(entry, keys, err));
    AT_TRY(at_json_want_text(entry, "backend", true, &w->backend, err));
    AT_TRY(at_json_want_text(entry, "version", false, &version, err));
    AT_TRY(read_version(w, version, err));
    AT_TRY(at_json_want_text(entry, "arch", false, &arch, err));
    AT_TRY(read_arch(w, arch, err));
    AT_TRY(at_json_want_text(entry, "when", false, &when, err));
    if (when != NULL) {
        at_status compiled = at_expr_compile(&w->when, when, NULL, AT_EXPR_BOOL, err);
        if (compiled != AT_OK) {
            return at_fail_in(err, compiled, "\"when\"");
        }
    }
    AT_TRY(at_json_want_text(entry, "status", true, &status, err));
    if (!at_kind_parse(&w->status, status) || at_kind_class(w->status) != AT_CLASS_FAIL) {
        return at_fail(err, AT_INVALID,
                       "\"status\" accepts a failing status such as REFUSED or "
                       "WRONG, it is \"%.40s\"",
                       status);
    }
    AT_TRY(at_json_want_text(entry, "issue", true, &w->issue, err));
    if (strncmp(w->issue, "https://", 8) != 0 && strncmp(w->issue, "reports/published/", 18) != 0) {
        return at_fail(err, AT_INVALID,
                       "\"issue\" accepts an https:// address or a file under reports/published/");
    }
    AT_TRY(at_json_want_text(entry, "note", false, &note, err));
    return read_end(w, entry, today, err);
}

static at_status read_document(at_waivers *w, const char *today, at_error *err)
{
    static const char *const keys[] = {"schema", "waivers", NULL};
    const char *schema = NULL;
    const at_json *list = NULL;
    if (at_json_type(w->document) != AT_JSON_OBJECT) {
        return at_fail(err, AT_INVALID, "a JSON object was expected");
    }
    AT_TRY(at_json_only_keys(w->document, keys, err));
    AT_TRY(at_json_want_text(w->document, "schema", true, &schema, err));
    if (strcmp(schema, AT_WAIVERS_SCHEMA) != 0) {
        return at_fail(err, AT_INVALID, "the schema is \"%.60s\", this attest reads %s", schema,
                       AT_WAIVERS_SCHEMA);
    }
    AT_TRY(at_json_want_array(w->document, "waivers", true, &list, err));
    w->waiver = calloc(at_json_size(list) + 1, sizeof *w->waiver);
    if (w->waiver == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for waivers");
    }
    for (const at_json *m = at_json_first(list); m != NULL; m = at_json_next(m)) {
        waiver *next = &w->waiver[w->size++];
        at_status status = at_json_type(m) == AT_JSON_OBJECT
                               ? read_waiver(next, m, today, err)
                               : at_fail(err, AT_INVALID, "an object was expected");
        if (status != AT_OK) {
            return at_fail_in(err, status, "waiver %zu", w->size);
        }
    }
    return AT_OK;
}

at_status at_waivers_open(at_waivers **out, const char *path, const char *today, at_error *err)
{
    *out = NULL;
    at_waivers *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for waivers");
    }
    at_status status = at_json_load(&w->document, path, err);
    if (status == AT_OK) {
        status = read_document(w, today, err);
        status = status == AT_OK ? AT_OK : at_fail_in(err, status, "%s", path);
    }
    if (status != AT_OK) {
        at_waivers_close(w);
        return status;
    }
    *out = w;
    return AT_OK;
}

at_status at_waivers_open_corpus(at_waivers **out, const char *corpus, at_error *err)
{
    char path[4096 + 32], today[16] = "";
    time_t now = time(NULL);
    struct tm parts;
    *out = NULL;
    (void)snprintf(path, sizeof path, "%s/waivers.json", corpus);
    if (gmtime_r(&now, &parts) == NULL || strftime(today, sizeof today, "%Y-%m-%d", &parts) == 0) {
        return at_fail(err, AT_IO, "the date of today cannot be read");
    }
    return access(path, F_OK) == 0 ? at_waivers_open(out, path, today, err) : AT_OK;
}

void at_waivers_close(at_waivers *w)
{
    if (w == NULL) {
        return;
    }
    for (size_t i = 0; w->waiver != NULL && i < w->size; i++) {
        at_expr_close(w->waiver[i].when);
    }
    free(w->waiver);
    at_json_close(w->document);
    free(w);
}

size_t at_waivers_size(const at_waivers *w)
{
    return w != NULL ? w->size : 0;
}

const char *at_waivers_issue(const at_waivers *w, size_t i)
{
    return w->waiver[i].issue;
}

const char *at_waivers_backend(const at_waivers *w, size_t i)
{
    return w->waiver[i].backend;
}

bool at_waivers_matched(const at_waivers *w, size_t i)
{
    return w->waiver[i].matched;
}

static bool holds(const comparison *k, const at_release *version)
{
    int order = at_release_compare(version, &k->release);
    return k->op[0] == '<'   ? order < 0 || (k->op[1] == '=' && order == 0)
           : k->op[0] == '>' ? order > 0 || (k->op[1] == '=' && order == 0)
           : k->op[0] == '!' ? order != 0
                             : order == 0;
}

static bool covers(const waiver *w, const at_case *c, const char *backend, const char *version,
                   at_arch arch)
{
    at_release release;
    if (strcmp(w->backend, backend) != 0 || (w->arch != AT_ARCH_ANY && w->arch != arch)) {
        return false;
    }
    bool known =
        at_release_parse(&release, version, strlen(version), NULL) == AT_OK && release.count > 0;
    if (!known && (w->comparisons > 0 || w->has_fixed_in)) {
        return false;
    }
    for (int i = 0; i < w->comparisons; i++) {
        if (!holds(&w->comparison[i], &release)) {
            return false;
        }
    }
    if (w->has_fixed_in && at_release_compare(&release, &w->fixed_in) >= 0) {
        return false;
    }
    bool yes = true;
    return w->when == NULL || (at_expr_test(&yes, w->when, c, NULL) == AT_OK && yes);
}

at_waiving at_waivers_apply(at_waivers *w, const at_case *c, const char *backend,
                            const char *version, at_arch arch, at_kind measured, const char **issue)
{
    *issue = NULL;
    for (size_t i = 0; i < at_waivers_size(w); i++) {
        waiver *k = &w->waiver[i];
        if (!covers(k, c, backend, version, arch)) {
            continue;
        }
        at_class class = at_kind_class(measured);
        bool told = class == AT_CLASS_OK || class == AT_CLASS_FAIL;
        k->matched = true;
        *issue = told ? k->issue : NULL;
        return !told                   ? AT_WAIVING_NONE
               : measured == k->status ? (k->expired ? AT_WAIVING_EXPIRED : AT_WAIVING_WAIVED)
               : class == AT_CLASS_OK  ? AT_WAIVING_XPASS
                                       : AT_WAIVING_OTHER;
    }
    return AT_WAIVING_NONE;
}
