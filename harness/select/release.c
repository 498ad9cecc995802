#include "harness/select/release.h"

#include <ctype.h>
#include <string.h>

enum { PART_LIMIT = 99999999, AFTER = 100000000 };

typedef struct stage {
    const char *word;
    int32_t rank;
} stage;

/* Longer words first: "a" is a prefix of "alpha". */
static const stage stages[] = {{"alpha", -3}, {"beta", -2}, {"dev", -4}, {"post", AFTER},
                               {"rc", -1},    {"a", -3},    {"b", -2}};

static at_status refuse(const char *text, size_t length, at_error *err)
{
    return at_fail(err, AT_INVALID,
                   "\"%.*s\" is no version; accepted are numbers such as 2.8.3, 4.0.0b11 or "
                   "2025-02, and none",
                   (int)(length > 60 ? 60 : length), text);
}

static bool put(at_release *r, int32_t part)
{
    if (r->count == AT_RELEASE_PARTS) {
        return false;
    }
    r->part[r->count++] = part;
    return true;
}

/* Reads digits at *at; false when there are none or too many. */
static bool read_number(const char *text, size_t length, size_t *at, int32_t *out)
{
    int64_t value = 0;
    size_t from = *at;
    while (*at < length && isdigit((unsigned char)text[*at])) {
        value = value * 10 + (text[(*at)++] - '0');
        if (value > PART_LIMIT) {
            return false;
        }
    }
    *out = (int32_t)value;
    return *at > from;
}

/* Reads "b11", "rc1", "post" and the like at *at. */
static bool read_stage(const char *text, size_t length, size_t *at, at_release *r)
{
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        size_t n = strlen(stages[i].word);
        if (length - *at < n || strncmp(text + *at, stages[i].word, n) != 0) {
            continue;
        }
        int32_t number = 0;
        *at += n;
        if (*at < length && isdigit((unsigned char)text[*at]) &&
            !read_number(text, length, at, &number)) {
            return false;
        }
        return put(r, stages[i].rank) && put(r, number);
    }
    return false;
}

at_status at_release_parse(at_release *out, const char *text, size_t length, at_error *err)
{
    at_release r = {0};
    size_t at = length > 0 && text[0] == 'v' ? 1 : 0;
    int32_t number = 0;
    *out = r;
    if (length == 4 && strncmp(text, "none", 4) == 0) {
        return AT_OK;
    }
    if (length >= AT_RELEASE_TEXT || !read_number(text, length, &at, &number) || !put(&r, number)) {
        return refuse(text, length, err);
    }
    while (at < length && text[at] != '+') {
        bool joined = text[at] == '.' || text[at] == '-';
        at += joined;
        bool fine = at < length && (joined && isdigit((unsigned char)text[at])
                                        ? read_number(text, length, &at, &number) && put(&r, number)
                                        : read_stage(text, length, &at, &r));
        if (!fine) {
            return refuse(text, length, err);
        }
    }
    *out = r;
    return AT_OK;
}

int at_release_compare(const at_release *a, const at_release *b)
{
    AT_ASSERT(a->count > 0 && b->count > 0);
    for (int i = 0; i < AT_RELEASE_PARTS; i++) {
        int32_t x = i < a->count ? a->part[i] : 0, y = i < b->count ? b->part[i] : 0;
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return 0;
}
