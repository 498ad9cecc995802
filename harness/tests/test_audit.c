/* audit: boxes hold every contradiction of the space and nothing else; the two known bugs come out.
 */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/select/audit.h"

/* A corpus with the real rule and capability sets and spaces of the test. */
static const char *own_corpus(const char *space_text)
{
    static char corpus[300];
    char path[400];
    (void)snprintf(corpus, sizeof corpus, "%s", at_test_folder());
    static const char *const folders[] = {"selectors", "capabilities"};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", corpus, folders[i]);
        (void)symlink(i == 0 ? AT_TEST_CORPUS "/selectors" : AT_TEST_CORPUS "/capabilities", path);
    }
    (void)snprintf(path, sizeof path, "%s/spaces", corpus);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof path, "%s/spaces/t.json", corpus);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(space_text, file) >= 0 && fclose(file) == 0);
    return corpus;
}

static at_audit *audited(const char *corpus, const char *selector, const char *env_text,
                         const char *space)
{
    at_error err = {""};
    at_env *env = NULL;
    at_audit *a = NULL;
    CHECK_OK(at_env_set(&env, env_text, &err), &err);
    const at_audit_request request = {
        .corpus = corpus, .selector = selector, .space = space, .env = env};
    CHECK_OK(at_audit_open(&a, &request, &err), &err);
    at_env_close(env);
    if (a == NULL) {
        exit(1);
    }
    return a;
}

static const char small_space[] =
    "{\"schema\":\"attest-space-1\",\"name\":\"t\",\"doc\":\"d\",\"case\":\"hq=16\",\"axes\":["
    "{\"name\":\"pass\",\"points\":[\"pass=train,fwd\"]},"
    "{\"name\":\"dqk\",\"points\":[\"dqk=8..200/32\",\"dqk=64,128,160,192,256,100\"]},"
    "{\"name\":\"hkv\",\"points\":[\"hkv=1,16\"]},"
    "{\"name\":\"dv\",\"points\":[\"dv=8..136/16,64,96,128,512,100\"]},"
    "{\"name\":\"mask\",\"points\":[\"mask=none,causal\",\"mask=causal:align=br:wl=127\","
    "\"mask=band:wl=64:wr=64\"]},"
    "{\"name\":\"lengths\",\"points\":[\"sq=512\",\"sq=64:skv=512\"]},"
    "{\"name\":\"layout\",\"points\":[\"layout=sbhd\",\"layout=thd\",\"layout=thd:lens=random\"]}],"
    "\"compare\":[\"dqk\",\"dv\"]}";

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef struct texts {
    size_t count, room;
    char **text;
} texts;

static void keep(texts *t, const at_case *c, const char *sign)
{
    char text[AT_CASE_TEXT_MAX], line[AT_CASE_TEXT_MAX + 256];
    (void)at_case_print(c, text);
    (void)snprintf(line, sizeof line, "%s|%s", text, sign);
    if (t->count == t->room) {
        t->room = t->room == 0 ? 1024 : 2 * t->room;
        t->text = realloc(t->text, t->room * sizeof *t->text);
    }
    t->text[t->count++] = strdup(line);
}

static void sort_once(texts *t)
{
    size_t n = 0;
    qsort(t->text, t->count, sizeof *t->text, compare_texts);
    for (size_t i = 0; i < t->count; i++) {
        if (n > 0 && strcmp(t->text[n - 1], t->text[i]) == 0) {
            free(t->text[i]);
        } else {
            t->text[n++] = t->text[i];
        }
    }
    t->count = n;
}

static void drop(texts *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->text[i]);
    }
    free(t->text);
    *t = (texts){0};
}

typedef void (*use_case)(void *context, const at_case *c);
static void cases_of(const char *words, use_case use, void *context);

/* The words with their list at [start, start + length) replaced by one value. */
static void with_value(const char *words, const char *start, size_t length, const char *value,
                       use_case use, void *context)
{
    char one[2048];
    (void)snprintf(one, sizeof one, "%.*s%s%s", (int)(start - words), words, value, start + length);
    cases_of(one, use, context);
}

/* All cases of a text with lists and ranges; contradictory ones are left out. */
static void cases_of(const char *words, use_case use, void *context)
{
    const char *start = words, *end = words;
    for (; *start != '\0'; start = *end == ':' ? end + 1 : end) {
        end = start + strcspn(start, ":");
        start += strcspn(start, "=") + 1;
        const char *dots = strstr(start, "..");
        if (memchr(start, ',', (size_t)(end - start)) != NULL || (dots != NULL && dots < end)) {
            break;
        }
    }
    at_case c;
    if (*start == '\0') {
        if (at_case_parse(&c, words, NULL) == AT_OK) {
            use(context, &c);
        }
        return;
    }
    for (const char *at = start; at < end;) {
        size_t n = strcspn(at, ",:");
        long first = 0, last = 0, step = 1;
        char value[64];
        int read = sscanf(at, "%ld..%ld/%ld", &first, &last, &step);
        for (long v = first; read >= 2 && v <= last; v += step) {
            (void)snprintf(value, sizeof value, "%ld", v);
            with_value(words, start, (size_t)(end - start), value, use, context);
        }
        if (read < 2) {
            (void)snprintf(value, sizeof value, "%.*s", (int)n, at);
            with_value(words, start, (size_t)(end - start), value, use, context);
        }
        at += n + (at[n] == ',');
    }
}

typedef struct oracle {
    at_selector *s;
    at_capabilities *set;
    const char *backend;
    texts found;
    uint64_t cases;
} oracle;

/* What the audit should say of one case, by the public interfaces alone. */
static void judge_case(void *context, const at_case *c)
{
    oracle *o = context;
    at_error err = {""};
    at_selection d;
    at_capability forward, backward = {0};
    char sign[200];
    bool admitted = false, callers = false, train = c->pass == AT_PASS_TRAIN;
    CHECK_OK(at_selector_decide(&d, o->s, c, &err), &err);
    CHECK_OK(at_capability_find(&forward, o->set, c, AT_STEP_FORWARD, &err), &err);
    CHECK_OK(at_capability_find(&backward, o->set, c, AT_STEP_BACKWARD, &err), &err);
    for (int i = 0; i < d.admitted_count; i++) {
        admitted = admitted || strcmp(d.admitted[i], o->backend) == 0;
    }
    o->cases++;
    bool bad_forward = forward.outcome >= AT_OUTCOME_REFUSES;
    bool bad_backward = train && backward.outcome >= AT_OUTCOME_REFUSES;
    if (admitted && (bad_forward || bad_backward)) {
        const at_capability *bad = bad_forward ? &forward : &backward;
        (void)snprintf(sign, sizeof sign, "admits %s %s", bad_forward ? "forward" : "backward",
                       bad->message);
        keep(&o->found, c, sign);
    }
    for (int i = 0; i < d.refused_count; i++) {
        const char *rule = d.refused[i].rule;
        callers = strncmp(rule, "dpa.", 4) == 0 || strncmp(rule, "env.", 4) == 0 ||
                  strncmp(rule, "left_out.", 9) == 0 || strncmp(rule, "api.", 4) == 0;
        if (strcmp(d.refused[i].backend, o->backend) == 0 && !callers &&
            forward.outcome == AT_OUTCOME_RUNS && (!train || backward.outcome == AT_OUTCOME_RUNS)) {
            (void)snprintf(sign, sizeof sign, "refuses %s", rule);
            keep(&o->found, c, sign);
        }
    }
}

typedef struct expansion {
    const char *sign, *relation;
    texts *found;
    uint64_t cases;
} expansion;

static void expand_case(void *context, const at_case *c)
{
    expansion *e = context;
    if (e->relation != NULL) {
        bool holds = strcmp(e->relation, "dqk != dv") == 0   ? c->dim_qk != c->dim_v
                     : strcmp(e->relation, "dqk < dv") == 0  ? c->dim_qk < c->dim_v
                     : strcmp(e->relation, "dqk > dv") == 0  ? c->dim_qk > c->dim_v
                     : strcmp(e->relation, "dqk == dv") == 0 ? c->dim_qk == c->dim_v
                     : strcmp(e->relation, "dqk <= dv") == 0 ? c->dim_qk <= c->dim_v
                                                             : c->dim_qk >= c->dim_v;
        if (!holds) {
            return;
        }
    }
    e->cases++;
    keep(e->found, c, e->sign);
}

/* Multiplies the axes of a box; arrays are taken point by point. */
static void expand(expansion *e, const at_json *member, const char *text)
{
    char longer[1500];
    if (member == NULL) {
        cases_of(text, expand_case, e);
        return;
    }
    if (at_json_text(member) != NULL) {
        (void)snprintf(longer, sizeof longer, "%s:%s=%s", text, at_json_key(member),
                       at_json_text(member));
        expand(e, at_json_next(member), longer);
        return;
    }
    for (const at_json *p = at_json_first(member); p != NULL; p = at_json_next(p)) {
        (void)snprintf(longer, sizeof longer, "%s:%s", text, at_json_text(p));
        expand(e, at_json_next(member), longer);
    }
}

static void expand_boxes(const at_audit *a, const char *base, texts *found)
{
    for (size_t i = 0; i < at_audit_boxes(a); i++) {
        at_json *o = at_audit_box_json(a, i);
        char sign[200], name[32];
        bool admits = strcmp(at_json_text(at_json_get(o, "direction")), "admits") == 0;
        (void)snprintf(name, sizeof name, "%s", at_json_text(at_json_get(o, "step")));
        (void)snprintf(sign, sizeof sign, admits ? "admits %s %s" : "refuses %s%s",
                       admits ? name : at_json_text(at_json_get(o, "refusing_rule")),
                       admits ? at_json_text(at_json_get(o, "message")) : "");
        expansion e = {
            .sign = sign, .relation = at_json_text(at_json_get(o, "relation")), .found = found};
        expand(&e, at_json_first(at_json_get(o, "box")), base);
        int64_t cases = 0;
        CHECK(at_json_integer(at_json_get(o, "cases"), &cases));
        CHECK_INT(cases, e.cases);
        at_json_close(o);
    }
}

static void same_texts(const texts *a, const texts *b)
{
    CHECK_INT(a->count, b->count);
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        if (strcmp(a->text[i], b->text[i]) != 0) {
            CHECK_TEXT(a->text[i], b->text[i]);
            return;
        }
    }
}

/* The audit of the small space against loops over its cases. */
static void brute_force(const char *selector, const char *env_text, const char *backend,
                        const char *set, size_t boxes_most)
{
    static const char *const masks[] = {"mask=none,causal", "mask=causal:align=br:wl=127",
                                        "mask=band:wl=64:wr=64"};
    static const char *const lengths[] = {"sq=512", "sq=64:skv=512"};
    static const char *const layouts[] = {"layout=sbhd", "layout=thd:lens=random"};
    const char *corpus = own_corpus(small_space);
    at_error err = {""};
    at_env *env = NULL;
    oracle o = {.backend = backend};
    texts expanded = {0};
    char text[500];
    CHECK_OK(at_env_set(&env, env_text, &err), &err);
    CHECK_OK(at_selector_open(&o.s, corpus, selector, env, &err), &err);
    CHECK_OK(at_capabilities_open(&o.set, corpus, set, &err), &err);
    for (int i = 0; i < 12; i++) {
        (void)snprintf(text, sizeof text,
                       "hq=16:hkv=1,16:pass=train,fwd:dqk=8..200/32,64,128,160,192,256,100:"
                       "dv=8..136/16,64,96,128,512,100:%s:%s:%s",
                       masks[i % 3], lengths[i / 3 % 2], layouts[i / 6]);
        cases_of(text, judge_case, &o);
    }
    at_audit *a = audited(corpus, selector, env_text, "t");
    expand_boxes(a, "hq=16", &expanded);
    sort_once(&o.found);
    sort_once(&expanded);
    CHECK_INT(at_audit_cases(a), o.cases);
    CHECK(o.found.count > 0);
    same_texts(&expanded, &o.found);
    CHECK_INT(at_audit_contradictions(a), o.found.count);
    CHECK(at_audit_boxes(a) > 0 && at_audit_boxes(a) <= boxes_most);
    at_audit_close(a);
    at_capabilities_close(o.set);
    at_selector_close(o.s);
    at_env_close(env);
    drop(&o.found);
    drop(&expanded);
}

static void test_brute_force_te(void)
{
    brute_force("te-2.10", "arch=sm90,fa2=none,fa3=2025-02,fused=0", "fa3", "fa3-2025-02", 24);
}

static void test_brute_force_fa4(void)
{
    brute_force("fa4-b11", "arch=sm100", "fa4", "fa4-b11", 24);
}

const at_test at_tests[] = {{"unit", "brute-force-te", test_brute_force_te},
                            {"unit", "brute-force-fa4", test_brute_force_fa4},
                            {NULL, NULL, NULL}};
