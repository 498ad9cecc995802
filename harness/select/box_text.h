/* Boxes as JSON and as text. Inside the folder and kernels/. */
#ifndef AT_BOX_TEXT_H
#define AT_BOX_TEXT_H

#include <stdio.h>

#include "harness/select/boxes.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_RELATION_TEXT = 96, AT_AXIS_TEXT = 8192 };

/* {axis: points}: an axis of one key as a list such as "8..64/8,512", others as an array of partial
 * cases. */
at_json *at_box_json(const at_region *r, const at_box *b);

/* "dqk != dv"; NULL when the box does not restrict it. */
const char *at_box_relation(const at_region *r, const at_box *b, char text[AT_RELATION_TEXT]);

/* What the box takes of an axis, or leaves out where that is shorter: "8..64/8", "all but
 * mask=none"; false where it does not restrict it. chosen [a->count]. */
bool at_box_axis_text(char text[AT_AXIS_TEXT], const at_region_axis *a, const bool *chosen);

/* The same as a line. */
void at_box_print_axis(const at_region_axis *a, const bool *chosen, const char *lead, FILE *out);

/* The numbers of a box, a line each, then what its compared axes ask of each other. */
void at_box_print_numbers(const at_region *r, const at_box *b, FILE *out);

/* Box i is the first of its finding with these numbers. */
bool at_box_leads(const at_region *r, const at_boxes *boxes, const size_t *finding, size_t i);

/* Text in a cell of a Markdown table. */
void at_markdown_cell(FILE *out, const char *text);

/* The boxes of one finding as a table in Markdown; `wins` heads the column of their wins. */
void at_box_table(const at_region *r, const at_boxes *boxes, const size_t *finding, size_t which,
                  const char *wins, FILE *out);

/* Equal but for axes whose values are no numbers: told together. */
bool at_box_alike(const at_region *r, const at_box *a, const at_box *b);

/* Points of the axis that are chosen; all of a list. */
size_t at_box_points(const at_region_axis *a, const bool *chosen);

/* An axis of one key whose values are numbers. */
bool at_region_axis_is_numeric(const at_region_axis *a);

#ifdef __cplusplus
}
#endif
#endif
