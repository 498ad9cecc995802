/* Any line of a results file is refused with a sentence, or becomes a record that reports can use.
 */
#include <stdlib.h>
#include <string.h>

#include "harness/fuzz/fuzz.h"
#include "harness/run/record.h"
#include "harness/run/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at_json *line = NULL;
    at_record r;
    at_error err = {""};
    if (at_json_parse(&line, "line", (const char *)data, size, &err) != AT_OK) {
        return 0;
    }
    if (at_record_read(&r, line, &err) == AT_OK) {
        at_text page = {0};
        AT_ASSERT(strlen(r.id) == AT_ID_TEXT - 1);
        AT_ASSERT(r.kind < AT_KIND_COUNT && r.measured < AT_KIND_COUNT);
        AT_ASSERT(r.tensor >= -1 && r.tensor < AT_TENSOR_COUNT);
        AT_ASSERT(r.case_text != NULL && r.message != NULL && r.signature != NULL);
        at_text_add_xml(&page, r.message);
        at_text_add_xml(&page, r.case_text);
        free(page.data);
        at_record_close(&r);
    } else {
        AT_ASSERT(err.text[0] != '\0' && r.case_text == NULL);
    }
    at_json_close(line);
    return 0;
}
