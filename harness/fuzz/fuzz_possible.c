/* A condition that is called impossible holds for no case; any text is checked without a crash. */
#include <stdlib.h>
#include <string.h>

#include "harness/fuzz/fuzz.h"
#include "harness/select/expr.h"
#include "harness/select/possible.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { CASE = 48 };
    size_t head = size < CASE ? size : CASE, length = size - head;
    at_case c;
    at_error err = {""};
    at_expr *e = NULL;
    at_possible *p = NULL;
    bool holds = false;
    char *text = malloc(length + 1);
    AT_ASSERT(text != NULL);
    at_case_from_bytes(&c, data, head);
    if (length > 0) {
        memcpy(text, data + head, length);
    }
    text[length] = '\0';
    if (at_expr_compile(&e, text, NULL, AT_EXPR_BOOL, &err) == AT_OK) {
        at_possible_open(&p, NULL);
        at_status status = at_possible_check(p, text, NULL, 0, &err);
        AT_ASSERT(status == AT_OK || strncmp(err.text, "column ", 7) == 0);
        bool impossible = status != AT_OK && strstr(err.text, "is impossible") != NULL;
        if (impossible && at_expr_test(&holds, e, &c, NULL) == AT_OK) {
            AT_ASSERT(!holds);
        }
        at_possible_close(p);
    }
    at_expr_close(e);
    free(text);
    return 0;
}
