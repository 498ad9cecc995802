/* Memory of the reference: O(S d), whatever the features. */
#include "harness/tests/test.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "harness/problem/problem.h"
#include "reference/reference.h"

static double peak_mib(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return (double)usage.ru_maxrss / 1024;
}

/* Peak of the process while the sampled reference runs, in MiB. AT_MEMORY_CASE names another case.
 */
static double peak_of(const char *text)
{
    at_arena *inputs = NULL, *answers = NULL;
    at_error err = {""};
    at_case c;
    at_problem p;
    at_gold gold = {.path = ""};
    at_reference_options options = {.sample_above = 2e9};
    CHECK_OK(at_arena_open(&inputs, &err), &err);
    CHECK_OK(at_arena_open(&answers, &err), &err);
    CHECK_OK(at_case_parse(&c, text, &err), &err);
    CHECK_OK(at_problem_open(&p, &c, inputs, &err), &err);
    double before = peak_mib();
    CHECK_OK(at_reference_run(&gold, &p, &options, answers, &err), &err);
    double after = peak_mib();
    (void)printf("%s: %.0f MiB with the problem, %.0f MiB with the reference, share %.3g\n", text,
                 before, after, gold.share);
    at_arena_close(inputs);
    at_arena_close(answers);
    return after;
}

/* One matrix of scores in fp64 would take 1 GiB for the heads of the case. */
static void test_keys_64k(void)
{
    const char *other = getenv("AT_MEMORY_CASE");
    omp_set_num_threads(2);
    if (other != NULL) {
        (void)peak_of(other);
        return;
    }
    double peak = peak_of("hq=2:sq=1024:skv=65536:dqk=16:mask=causal:align=br:bias=alibi:"
                          "sink=learned:softcap=20:grads=qkvs");
    CHECK(peak < 300);
}

const at_test at_tests[] = {
    {"slow", "keys_64k", test_keys_64k},
    {NULL, NULL, NULL},
};
