#include "harness/cli/choice.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

static at_status compile(regex_t *out, const char *pattern, at_error *err)
{
    int code = regcomp(out, pattern, REG_EXTENDED | REG_NOSUB);
    if (code != 0) {
        char why[128];
        (void)regerror(code, out, why, sizeof why);
        return at_fail(err, AT_INVALID,
                       "--filter \"%.100s\" is not an extended regular expression (%s)", pattern,
                       why);
    }
    return AT_OK;
}

static bool in_shard(const at_options *o, const at_case *c)
{
    char id[AT_ID_TEXT];
    if (o->shard_count == 1) {
        return true;
    }
    at_case_id(c, id);
    return strtoull(id, NULL, 16) % (uint64_t)o->shard_count == (uint64_t)o->shard_index - 1;
}

static bool keeps(const at_options *o, const regex_t *filter, const at_case *c)
{
    char text[AT_CASE_TEXT_MAX];
    (void)at_case_print(c, text);
    return (o->filter == NULL || regexec(filter, text, 0, NULL, 0) == 0) && in_shard(o, c);
}

static at_status choose(at_choice *out, const at_options *o, at_error *err)
{
    regex_t filter;
    size_t n = at_suite_size(out->suite);
    out->index = malloc((n + 1) * sizeof *out->index);
    if (out->index == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for %zu cases", n);
    }
    if (o->filter != NULL) {
        AT_TRY(compile(&filter, o->filter, err));
    }
    for (size_t i = 0; i < n && (o->max_cases == 0 || out->count < (size_t)o->max_cases); i++) {
        if (keeps(o, &filter, at_suite_case(out->suite, i, NULL))) {
            out->index[out->count++] = i;
        }
    }
    if (o->filter != NULL) {
        regfree(&filter);
    }
    return AT_OK;
}

at_status at_choice_open(at_choice *out, const at_options *o, const char *standard, at_error *err)
{
    const at_suite_rewrite rewrite = {o->seed, o->pass};
    const char *const *words =
        o->word_count > 0 ? (const char *const *)(void *)o->words : &standard;
    memset(out, 0, sizeof *out);
    AT_TRY(at_corpus_find(out->corpus, o->corpus, AT_BUILD_CORPUS, err));
    AT_TRY(at_suite_open(&out->suite, out->corpus, words,
                         o->word_count > 0 ? (size_t)o->word_count : 1, &rewrite, err));
    at_status status = choose(out, o, err);
    if (status != AT_OK) {
        at_choice_close(out);
    }
    return status;
}

void at_choice_close(at_choice *choice)
{
    at_suite_close(choice->suite);
    free(choice->index);
    memset(choice, 0, sizeof *choice);
}
