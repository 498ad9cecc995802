/* Where in a rule file something stands, found again when there is a fault to report. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/rules.h"

/* Behind the string that starts at `c`. */
static const char *skip_text(const char *c)
{
    for (c++; *c != '"' && *c != '\0'; c++) {
        c += *c == '\\' && c[1] != '\0';
    }
    return *c == '"' ? c + 1 : c;
}

static const char *skip_blank(const char *c)
{
    return c + strspn(c, " \t\r\n,:");
}

/* Behind the value that starts at `c`. */
static const char *skip_value(const char *c)
{
    int depth = 0;
    do {
        if (*c == '"') {
            c = skip_text(c);
            continue;
        }
        depth += (*c == '{' || *c == '[') - (*c == '}' || *c == ']');
        c++;
    } while (*c != '\0' && (depth > 0 || strchr(",]} \t\r\n", *c) == NULL));
    return c;
}

/* The value of a member of the object that starts at `c`; NULL: it has none. */
static const char *member(const char *c, const char *key)
{
    for (c = skip_blank(c + 1); *c == '"';) {
        const char *name = c + 1;
        c = skip_blank(skip_text(c));
        if (strncmp(name, key, strlen(key)) == 0 && name[strlen(key)] == '"') {
            return c;
        }
        c = skip_blank(skip_value(c));
    }
    return NULL;
}

/* The last object of the list at `c` with that id; NULL: there is none. */
static const char *rule(const char *c, const char *id)
{
    const char *found = NULL;
    for (c = skip_blank(c + 1); *c == '{'; c = skip_blank(skip_value(c))) {
        const char *value = member(c, "id");
        if (value != NULL && strncmp(value + 1, id, strlen(id)) == 0 &&
            value[1 + strlen(id)] == '"') {
            found = c;
        }
    }
    return found;
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) {
        long size = ftell(file);
        text = size >= 0 ? calloc((size_t)size + 1, 1) : NULL;
        if (text != NULL &&
            (fseek(file, 0, SEEK_SET) != 0 || fread(text, 1, (size_t)size, file) != (size_t)size)) {
            free(text);
            text = NULL;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return text;
}

const char *at_rule_place(char out[64], const char *path, const char *key, const char *id)
{
    char *text = read_text(path);
    const char *at = text != NULL ? member(skip_blank(text), key) : NULL;
    at = at != NULL && id != NULL ? rule(at, id) : at;
    out[0] = '\0';
    if (at != NULL) {
        int line = 1, column = 1;
        for (const char *c = text; c < at; c++) {
            column = *c == '\n' ? 1 : column + 1;
            line += *c == '\n';
        }
        (void)snprintf(out, 64, "line %d, column %d: ", line, column);
    }
    free(text);
    return out;
}
