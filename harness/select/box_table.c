/* Boxes as a table in Markdown. */
#include <inttypes.h>

#include "harness/select/box_text.h"

void at_markdown_cell(FILE *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\n' || *c == '|') {
            (void)fputs(*c == '|' ? "\\|" : "<br>", out);
        } else {
            (void)fputc(*c, out);
        }
    }
}

/* A box of the finding restricts the axis. */
static bool restricted(const at_region *r, const at_boxes *boxes, const size_t *finding,
                       size_t which, size_t axis)
{
    bool any = false;
    for (size_t i = 0; i < boxes->count; i++) {
        any = any || (finding[i] == which &&
                      at_box_points(&r->axis[axis], boxes->box[i].in[axis]) < r->axis[axis].count);
    }
    return any;
}

static void print_row(const at_region *r, const at_box *b, const bool *column, FILE *out)
{
    char text[AT_AXIS_TEXT], relation[AT_RELATION_TEXT];
    (void)fputs("|", out);
    for (size_t k = 0; k < r->axes; k++) {
        if (column[k]) {
            bool some = at_box_axis_text(text, &r->axis[k], b->in[k]);
            (void)fputs(" ", out);
            at_markdown_cell(out, some ? text : "any");
            (void)fputs(" |", out);
        }
    }
    if (r->list != NULL) {
        (void)at_case_print(&r->list[b->item], text);
        (void)fprintf(out, " `%s` |", text);
    }
    const char *where = at_box_relation(r, b, relation);
    (void)fprintf(out, " %s | %" PRIu64 " | %" PRIu64 " |\n", where != NULL ? where : "any",
                  b->cases, b->wins);
}

void at_box_table(const at_region *r, const at_boxes *boxes, const size_t *finding, size_t which,
                  const char *wins, FILE *out)
{
    bool column[AT_REGION_AXES];
    size_t columns = 3 + (r->list != NULL);
    (void)fputs("|", out);
    for (size_t k = 0; k < r->axes; k++) {
        column[k] = restricted(r, boxes, finding, which, k);
        columns += column[k];
        if (column[k]) {
            (void)fprintf(out, " %s |", r->axis[k].name);
        }
    }
    (void)fprintf(out, "%s where | cases | %s |\n|", r->list != NULL ? " case |" : "", wins);
    for (size_t k = 0; k < columns; k++) {
        (void)fputs("---|", out);
    }
    (void)fputc('\n', out);
    for (size_t i = 0; i < boxes->count; i++) {
        if (finding[i] == which) {
            print_row(r, &boxes->box[i], column, out);
        }
    }
}
