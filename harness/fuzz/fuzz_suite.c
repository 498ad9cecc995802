/* Any JSON suite or case text with lists is refused with a sentence, or gives good cases. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/case/suite_build.h"
#include "harness/fuzz/fuzz.h"

static char path[] = "/tmp/attest-fuzz-XXXXXX.json";
static bool opened;

static void remove_file(void)
{
    (void)unlink(path);
}

static void open_file(void)
{
    int fd = mkstemps(path, 5);
    AT_ASSERT(fd >= 0 && close(fd) == 0);
    AT_ASSERT(atexit(remove_file) == 0);
    opened = true;
}

static void check(const char *word)
{
    at_suite *suite = NULL;
    at_error err = {""};
    at_status status =
        at_suite_open_within(&suite, AT_FUZZ_CORPUS, &word, 1, NULL, 1000, 500, &err);
    AT_ASSERT((status == AT_OK) == (suite != NULL));
    AT_ASSERT(status == AT_OK || err.text[0] != '\0');
    for (size_t i = 0; suite != NULL && i < at_suite_size(suite); i++) {
        const at_suite_plan *plan = NULL;
        AT_ASSERT(at_case_check(at_suite_case(suite, i, &plan), NULL) == AT_OK);
        AT_ASSERT(plan != NULL && plan->backend_count <= AT_SUITE_BACKENDS_MAX);
    }
    at_suite_close(suite);
}

/* "{...": a JSON suite; anything else: a word, if it is one that names no file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == '{' && memchr(data, '@', size) == NULL) {
        if (!opened) { /* not by the X of the template: a name may have one of its own */
            open_file();
        }
        FILE *file = fopen(path, "wb");
        AT_ASSERT(file != NULL && fwrite(data, 1, size, file) == size && fclose(file) == 0);
        check(path);
    } else if (size > 0 && size < AT_CASE_TEXT_MAX && data[0] != '@') {
        char word[AT_CASE_TEXT_MAX];
        memcpy(word, data, size);
        word[size] = '\0';
        check(word);
    }
    return 0;
}
