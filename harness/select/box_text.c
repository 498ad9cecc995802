/* Boxes as JSON and as text. */
#include "harness/select/box_text.h"

#include <inttypes.h>
#include <string.h>

/* Text that grows in a fixed buffer; what does not fit is cut. */
typedef struct buffer {
    size_t used;
    char text[AT_AXIS_TEXT];
} buffer;

static void put(buffer *b, const char *text)
{
    size_t n = strlen(text), room = sizeof b->text - 1 - b->used;
    n = n < room ? n : room;
    memcpy(b->text + b->used, text, n);
    b->used += n;
    b->text[b->used] = '\0';
}

static const char *value_of(const at_region_axis *a, size_t i)
{
    return strchr(a->point[i].text, '=') + 1;
}

bool at_region_axis_is_numeric(const at_region_axis *a)
{
    return a->key_count == 1 && a->key[0]->kind == AT_FIELD_INT;
}

/* Index of the next point at or after i whose membership is `in`; count when there is none. */
static size_t next_point(const at_region_axis *a, const bool *chosen, bool in, size_t i)
{
    while (i < a->count && chosen[i] != in) {
        i++;
    }
    return i;
}

/* How many chosen points from i on stand one step apart, and the step. */
static size_t run_length(const at_region_axis *a, const bool *chosen, bool in, size_t i,
                         int64_t *step)
{
    size_t n = 1, last = i;
    for (size_t k = next_point(a, chosen, in, i + 1); k < a->count;
         k = next_point(a, chosen, in, k + 1)) {
        int64_t apart = a->point[k].value[0] - a->point[last].value[0];
        if (apart <= 0 || (n > 1 && apart != *step)) {
            break;
        }
        *step = apart;
        last = k;
        n++;
    }
    return n;
}

/* The values of an axis of one key: "8..64/8,512" or "bf16,f16". */
static void put_values(buffer *b, const at_region_axis *a, const bool *chosen, bool in)
{
    const char *comma = "";
    for (size_t i = next_point(a, chosen, in, 0); i < a->count;) {
        int64_t step = 0;
        size_t n = at_region_axis_is_numeric(a) ? run_length(a, chosen, in, i, &step) : 1, last = i;
        n = n < 3 ? 1 : n;
        for (size_t k = 1; k < n; k++) {
            last = next_point(a, chosen, in, last + 1);
        }
        put(b, comma);
        put(b, value_of(a, i));
        if (last != i) {
            char text[32];
            put(b, "..");
            put(b, value_of(a, last));
            (void)snprintf(text, sizeof text, "/%" PRId64, step);
            put(b, step != 1 ? text : "");
        }
        comma = ",";
        i = next_point(a, chosen, in, last + 1);
    }
}

size_t at_box_points(const at_region_axis *a, const bool *chosen)
{
    size_t n = a->point == NULL ? a->count : 0;
    for (size_t i = 0; i < a->count && a->point != NULL; i++) {
        n += chosen[i];
    }
    return n;
}

bool at_box_alike(const at_region *r, const at_box *a, const at_box *b)
{
    bool same = a->sign == b->sign && a->relations == b->relations;
    for (size_t i = 0; i < r->axes; i++) {
        same = same && (!at_region_axis_is_numeric(&r->axis[i]) ||
                        memcmp(a->in[i], b->in[i], sizeof a->in[i]) == 0);
    }
    return same;
}

const char *at_box_relation(const at_region *r, const at_box *b, char text[AT_RELATION_TEXT])
{
    static const char *const signs[] = {"", "<", "==", "<=", ">", "!=", ">=", ""};
    if (r->left < 0 || b->relations == 7) {
        return NULL;
    }
    (void)snprintf(text, AT_RELATION_TEXT, "%s %s %s", r->axis[r->left].name, signs[b->relations],
                   r->axis[r->right].name);
    return text;
}

at_json *at_box_json(const at_region *r, const at_box *b)
{
    at_json *object = at_json_object();
    for (size_t i = 0; i < r->axes; i++) {
        const at_region_axis *axis = &r->axis[i];
        if (axis->point == NULL) {
            char text[AT_CASE_TEXT_MAX];
            (void)at_case_print(&r->list[b->item], text);
            at_json_put_text(object, axis->name, text);
            continue;
        }
        if (axis->single) {
            buffer list = {0};
            put_values(&list, axis, b->in[i], true);
            at_json_put_text(object, axis->name, list.text);
            continue;
        }
        at_json *points = at_json_array();
        for (size_t k = 0; k < axis->count; k++) {
            if (b->in[i][k]) {
                at_json_add_text(points, axis->point[k].text);
            }
        }
        at_json_put(object, axis->name, points);
    }
    return object;
}

bool at_box_axis_text(char text[AT_AXIS_TEXT], const at_region_axis *a, const bool *chosen)
{
    size_t n = at_box_points(a, chosen);
    bool in = a->single || 2 * n <= a->count + 1;
    buffer list = {0};
    if (n == a->count || a->point == NULL) {
        return false;
    }
    if (a->single) {
        put_values(&list, a, chosen, true);
    } else {
        put(&list, in ? "" : "all but ");
    }
    for (size_t i = next_point(a, chosen, in, 0), first = i; i < a->count && !a->single;
         i = next_point(a, chosen, in, i + 1)) {
        put(&list, i > first ? ", " : "");
        put(&list, a->point[i].text[0] != '\0' ? a->point[i].text : "as given");
    }
    memcpy(text, list.text, list.used + 1);
    return true;
}

void at_box_print_axis(const at_region_axis *a, const bool *chosen, const char *lead, FILE *out)
{
    char text[AT_AXIS_TEXT];
    if (at_box_axis_text(text, a, chosen)) {
        (void)fprintf(out, "%s%-8s %s\n", lead, a->name, text);
    }
}

void at_box_print_numbers(const at_region *r, const at_box *b, FILE *out)
{
    char relation[AT_RELATION_TEXT];
    for (size_t i = 0; i < r->axes; i++) {
        if (at_region_axis_is_numeric(&r->axis[i])) {
            at_box_print_axis(&r->axis[i], b->in[i], "   ", out);
        }
    }
    if (at_box_relation(r, b, relation) != NULL) {
        (void)fprintf(out, "   where    %s\n", relation);
    }
}

bool at_box_leads(const at_region *r, const at_boxes *boxes, const size_t *finding, size_t i)
{
    bool leads = true;
    for (size_t k = 0; k < i && leads; k++) {
        leads = finding[k] != finding[i] || !at_box_alike(r, &boxes->box[k], &boxes->box[i]);
    }
    return leads;
}
