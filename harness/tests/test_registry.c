#include "harness/tests/test.h"

#include <string.h>

#include "harness/backend.h"

static void registry_lists_complete_backends(void)
{
    int n = 0;
    for (const at_backend *const *b = at_registry(); *b != NULL; b++, n++) {
        CHECK((*b)->name != NULL && (*b)->version != NULL && (*b)->doc != NULL);
        CHECK((*b)->supports != NULL && (*b)->open != NULL && (*b)->claim != NULL);
        CHECK((*b)->forward != NULL && (*b)->backward != NULL && (*b)->close != NULL);
        CHECK(at_registry_find((*b)->name) == *b);
        bool modelled = strncmp((*b)->name, "modelled.", 9) == 0;
        CHECK_INT(((*b)->promises & AT_MODELLED) != 0, modelled);
        bool mutant = strncmp((*b)->name, "mutant.", 7) == 0;
        CHECK_INT(((*b)->promises & AT_MUTANT) != 0, mutant);
    }
    CHECK(n >= 2);
    CHECK(at_registry_find("cpu.flash") != NULL);
    CHECK(at_registry_find("cpu.nosuch") == NULL);
}

static void check_refused(const char *path, const char *sentence)
{
    at_error err = {""};
    CHECK(at_registry_load(path, &err) != AT_OK);
    CHECK_HAS(err.text, path);
    CHECK_HAS(err.text, sentence);
    CHECK(strchr(err.text, '\n') == NULL);
}

static void bad_plugins_are_refused_in_one_sentence(void)
{
    check_refused("/nonexistent/plugin.so", "cannot be loaded");
    check_refused(AT_TEST_SOURCE "/LICENSE", "cannot be loaded");
    check_refused(AT_TEST_PLUGINS "/plugin_no_entry.so", "does not export attest_plugin");
    check_refused(AT_TEST_PLUGINS "/plugin_other_abi.so", "built for another ABI than 1");
    check_refused(AT_TEST_PLUGINS "/plugin_incomplete.so", "test.incomplete must set supports");
}

static void run_example(const at_backend *example)
{
    at_error err = {""};
    at_reason why;
    at_case c;
    at_arena *arena = NULL;
    at_problem p;
    at_engines engines;
    CHECK_OK(at_case_parse(&c, "hq=2:hkv=1:sq=3:skv=5:dqk=4:dv=2:dtype=f32:pass=stats", &err),
             &err);
    CHECK_OK(at_arena_open(&arena, &err), &err);
    CHECK_OK(at_problem_open(&p, &c, arena, &err), &err);
    CHECK(example->supports(example, &c, &why) == AT_OK);
    CHECK(example->claim(example, NULL, &c, &engines, &why) == AT_OK);
    CHECK_OK(example->forward(example, NULL, &p, engines.name[0], &err), &err);
    double plugin[2 * 3 * 2];
    at_dtype_load_double(AT_F32, plugin, p.t[AT_O].data, 12);
    const at_backend *flash = at_registry_find("cpu.flash");
    CHECK_OK(flash->forward(flash, NULL, &p, "tile64", &err), &err);
    double own[2 * 3 * 2];
    at_dtype_load_double(AT_F32, own, p.t[AT_O].data, 12);
    for (int i = 0; i < 12; i++) {
        double difference = plugin[i] - own[i];
        CHECK(difference * difference < 1e-11);
    }
    at_arena_close(arena);
}

static void plugin_backends_are_found_and_run(void)
{
    at_error err = {""};
    const char *path = AT_TEST_PLUGINS "/example_plugin.so";
    CHECK(at_registry_find("example.loops") == NULL);
    CHECK_OK(at_registry_load(path, &err), &err);
    const at_backend *example = at_registry_find("example.loops");
    CHECK(example != NULL);
    check_refused(path, "already a backend called example.loops");
    if (example != NULL) {
        run_example(example);
    }
}

const at_test at_tests[] = {
    {"unit", "registry_lists_complete_backends", registry_lists_complete_backends},
    {"unit", "bad_plugins_are_refused_in_one_sentence", bad_plugins_are_refused_in_one_sentence},
    {"unit", "plugin_backends_are_found_and_run", plugin_backends_are_found_and_run},
    {NULL, NULL, NULL},
};
