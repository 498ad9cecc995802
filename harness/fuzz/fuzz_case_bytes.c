/* Any bytes give a small case without contradictions, and its text reads back as the same case. */
#include "harness/case/case.h"
#include "harness/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at_case c, again;
    char text[AT_CASE_TEXT_MAX];
    at_case_from_bytes(&c, data, size);
    AT_ASSERT(at_case_check(&c, NULL) == AT_OK);
    AT_ASSERT(c.invalid == 0 && c.batch <= 4 && c.heads_q <= 8);
    AT_ASSERT(c.len_q <= 512 && c.len_kv <= 512 && c.dim_qk <= 256 && c.dim_v <= 256);
    (void)at_case_print(&c, text);
    AT_ASSERT(at_case_parse(&again, text, NULL) == AT_OK);
    AT_ASSERT(at_case_equal(&c, &again));
    return 0;
}
