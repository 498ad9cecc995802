/* Text that parses has one canonical form, which reads back as the same case, as does its JSON. */
#include <stdlib.h>
#include <string.h>

#include "harness/case/case.h"
#include "harness/fuzz/fuzz.h"

static void check_json(const at_case *c)
{
    at_json *object = at_case_to_json(c), *read = NULL;
    char *text = at_json_print(object, false);
    at_case again;
    AT_ASSERT(at_json_parse(&read, "case", text, strlen(text), NULL) == AT_OK);
    AT_ASSERT(at_case_from_json(&again, read, NULL) == AT_OK);
    AT_ASSERT(at_case_equal(c, &again));
    free(text);
    at_json_close(read);
    at_json_close(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at_case c, again;
    at_error err = {""};
    char *text = malloc(size + 1), printed[AT_CASE_TEXT_MAX], twice[AT_CASE_TEXT_MAX];
    AT_ASSERT(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    if (at_case_parse(&c, text, &err) == AT_OK) {
        AT_ASSERT(at_case_check(&c, &err) == AT_OK);
        size_t length = at_case_print(&c, printed);
        AT_ASSERT(length == strlen(printed) && length < AT_CASE_TEXT_MAX);
        AT_ASSERT(at_case_parse(&again, printed, &err) == AT_OK);
        AT_ASSERT(at_case_equal(&c, &again));
        AT_ASSERT(at_case_print(&again, twice) == length && strcmp(printed, twice) == 0);
        check_json(&c);
    } else {
        AT_ASSERT(err.text[0] != '\0');
    }
    free(text);
    return 0;
}
