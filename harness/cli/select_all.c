/* attest select without --selector: all rule sets side by side. */
#include "harness/cli/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_TEXT = 512 };

/* A rule set with what it takes of the environment. */
typedef struct entry {
    char *name;
    at_selector *selector; /* NULL: it cannot be opened */
    at_error why;
} entry;

typedef struct sets {
    size_t count;
    entry *entry;
    char **names;
} sets;

static void close_sets(sets *s)
{
    for (size_t i = 0; i < s->count; i++) {
        at_selector_close(s->entry[i].selector);
        free(s->names[i]);
    }
    free(s->entry);
    free(s->names);
}

/* A key that no rule set declares is a mistake. */
static at_status open_sets(sets *out, const char *corpus, const at_env *env, at_error *err)
{
    uint64_t all = 0, known = 0;
    AT_TRY(at_selector_names(&out->names, &out->count, corpus, err));
    out->entry = calloc(out->count, sizeof *out->entry);
    AT_ASSERT(out->entry != NULL); /* only memory can run out */
    for (size_t i = 0; i < out->count; i++) {
        entry *e = &out->entry[i];
        e->name = out->names[i];
        if (at_selector_open_known(&e->selector, corpus, e->name, env, &known, &e->why) != AT_OK) {
            e->selector = NULL;
        }
        all |= known;
    }
    for (size_t i = 0; i < at_env_size(env) && i < 64; i++) {
        if ((all >> i & 1) == 0) {
            return at_fail(err, AT_INVALID, "no rule set has the environment key \"%.60s\"",
                           at_env_key_at(env, i));
        }
    }
    return AT_OK;
}

static void append(char *cell, const char *gap, const char *text)
{
    size_t used = strlen(cell);
    (void)snprintf(cell + used, CELL_TEXT - used, "%s%s", used > 0 ? gap : "", text);
}

/* Winner, admitted, refused by which rule; of one that cannot answer the sentence. */
static void fill_row(char row[3][CELL_TEXT], const entry *e, const at_case *c)
{
    at_selection d;
    at_error err = e->why;
    row[0][0] = row[1][0] = row[2][0] = '\0';
    if (e->selector == NULL || at_selector_decide(&d, e->selector, c, &err) != AT_OK) {
        append(row[0], "", "-");
        append(row[1], "", "-");
        append(row[2], "", err.text);
        return;
    }
    append(row[0], "", d.winner != NULL ? d.winner : "none");
    for (int i = 0; i < d.admitted_count; i++) {
        append(row[1], " ", d.admitted[i]);
    }
    append(row[1], "", d.admitted_count == 0 ? "none" : "");
    for (int i = 0; i < d.refused_count; i++) {
        append(row[2], ", ", d.refused[i].backend);
        append(row[2], " ", d.refused[i].rule);
    }
}

static int width_of(const char *text, int now)
{
    int n = (int)strlen(text);
    return n > now ? n : now;
}

static void print_table(const sets *s, const at_case *c, const at_options *o)
{
    const char *bold = o->colors ? "\033[1m" : "", *plain = o->colors ? "\033[0m" : "";
    char text[AT_CASE_TEXT_MAX];
    char(*row)[3][CELL_TEXT] = calloc(s->count, sizeof *row);
    int width[3] = {8, 6, 8};
    AT_ASSERT(row != NULL); /* only memory can run out */
    for (size_t i = 0; i < s->count; i++) {
        fill_row(row[i], &s->entry[i], c);
        width[0] = width_of(s->entry[i].name, width[0]);
        width[1] = width_of(row[i][0], width[1]);
        width[2] = width_of(row[i][1], width[2]);
    }
    (void)at_case_print(c, text);
    (void)printf("%s\n  %-*s  %-*s  %-*s  refused, by rule\n", text, width[0], "rule set", width[1],
                 "winner", width[2], "admitted");
    for (size_t i = 0; i < s->count; i++) {
        (void)printf("  %-*s  %s%-*s%s  %-*s  %s\n", width[0], s->entry[i].name, bold, width[1],
                     row[i][0], plain, width[2], row[i][1], row[i][2]);
    }
    free(row);
}

static void print_lines(const sets *s, const at_case *c)
{
    for (size_t i = 0; i < s->count; i++) {
        const entry *e = &s->entry[i];
        at_selection d;
        at_error err = e->why;
        if (e->selector == NULL || at_selector_decide(&d, e->selector, c, &err) != AT_OK) {
            (void)fprintf(stderr, "attest: %s\n", err.text);
            continue;
        }
        at_cli_print_line(at_selection_to_json(&d, e->selector, c));
    }
}

int at_cli_select_all(const at_options *o, const char *corpus, const at_env *env,
                      const at_suite *suite)
{
    sets s = {0};
    at_error err = {""};
    at_status status = open_sets(&s, corpus, env, &err);
    for (size_t i = 0; status == AT_OK && i < at_suite_size(suite); i++) {
        const at_suite_plan *plan = NULL;
        const at_case *c = at_suite_case(suite, i, &plan);
        if (o->jsonl) {
            print_lines(&s, c);
        } else {
            (void)fputs(i > 0 ? "\n" : "", stdout);
            print_table(&s, c, o);
        }
    }
    close_sets(&s);
    return status == AT_OK ? at_cli_select_end() : at_usage_error("select: %s", err.text);
}
