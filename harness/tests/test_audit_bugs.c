/* audit: the two known bugs come out of the real spaces, exactly; covers of random marks. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/audit_core.h"

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

/* Index of the point with this text. */
static size_t point(const at_region *r, size_t axis, const char *text)
{
    size_t i = 0;
    while (i < r->axis[axis].count && strcmp(r->axis[axis].point[i].text, text) != 0) {
        i++;
    }
    CHECK(i < r->axis[axis].count);
    return i;
}

static bool inside(const at_region *r, const at_box *b, const at_region_place *p)
{
    bool in = r->left < 0 || (b->relations >> at_region_relation(r, p) & 1) != 0;
    for (size_t k = 0; k < r->axes; k++) {
        in = in && b->in[k][p->at[k]];
    }
    return in;
}

/* How many boxes hold dqk/dv of the report: 16 heads on 1, 4096 tokens, bf16, sbhd. */
static int holding(const at_audit *a, int dqk, int dv, const char *mask)
{
    const at_region *r = a->region;
    char one[32], two[32];
    (void)snprintf(one, sizeof one, "dqk=%d", dqk);
    (void)snprintf(two, sizeof two, "dv=%d", dv);
    const char *const want[] = {one,          two,          "hkv=1", mask, "sq=4096:skv=4096",
                                "dtype=bf16", "layout=sbhd"};
    at_region_place p = {.at = {0}};
    int n = 0;
    CHECK_INT(r->axes, 7);
    for (size_t k = 0; k < 7; k++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s%s", k == 2 ? "hq=16:" : "", want[k]);
        p.at[k] = (uint16_t)point(r, k, text);
    }
    for (size_t i = 0; i < a->boxes.count; i++) {
        n += inside(r, &a->boxes.box[i], &p);
    }
    return n;
}

/* A cell of the real space is in a box exactly if it is marked so; one in five, from everywhere. */
static void exact(const at_audit *a, size_t backend)
{
    const at_region *r = a->region;
    at_region_place p;
    uint64_t wrong = 0;
    for (uint64_t cell = 0; cell < r->cells; cell += 5) {
        at_region_locate(&p, r, cell);
        uint32_t mark = a->mark[backend][cell] & ~AT_MARK_WINS;
        bool found = false, other = false;
        for (size_t i = 0; i < a->boxes.count; i++) {
            bool in = inside(r, &a->boxes.box[i], &p);
            found = found || (in && a->boxes.box[i].sign == mark);
            other = other || (in && a->boxes.box[i].sign != mark);
        }
        bool case_of_it = a->mark[backend][cell] != AT_MARK_INVALID;
        wrong += case_of_it && ((mark != AT_MARK_NONE) != found || other);
    }
    CHECK_INT(wrong, 0);
}

static void test_te_3481(void)
{
    static const int crash[][2] = {{192, 128}, {160, 128}, {64, 128}, {64, 512}};
    static const int fallback[][2] = {{128, 64}, {256, 128}, {128, 128}, {192, 192}, {200, 128}};
    at_audit *a = audited(AT_TEST_CORPUS, "te-2.10", "arch=sm90,fa3=2025-02,fused=0", "training");
    CHECK(at_audit_boxes(a) >= 2 && at_audit_boxes(a) <= 8);
    CHECK(at_audit_cases(a) > 1000000);
    for (size_t i = 0; i < sizeof crash / sizeof *crash; i++) {
        CHECK(holding(a, crash[i][0], crash[i][1], "mask=causal") > 0);
        CHECK(holding(a, crash[i][0], crash[i][1], "mask=causal:wl=127") > 0);
    }
    for (size_t i = 0; i < sizeof fallback / sizeof *fallback; i++) {
        CHECK_INT(holding(a, fallback[i][0], fallback[i][1], "mask=causal"), 0);
        CHECK_INT(holding(a, fallback[i][0], fallback[i][1], "mask=causal:wl=127"), 0);
    }
    for (size_t i = 0; i < at_audit_boxes(a); i++) {
        at_json *o = at_audit_box_json(a, i);
        CHECK_TEXT(at_json_text(at_json_get(o, "admits")), "fa3");
        CHECK_TEXT(at_json_text(at_json_get(o, "step")), "backward");
        CHECK_TEXT(at_json_text(at_json_get(o, "outcome")), "refuses");
        CHECK_TEXT(at_json_text(at_json_get(o, "message")),
                   "out must have shape (batch_size, seqlen_q, num_heads, head_size)");
        CHECK_TEXT(at_json_text(at_json_get(o, "should_refuse_rule")), "fa3.hdim");
        CHECK_TEXT(at_json_text(at_json_get(o, "evidence")), "reported");
        CHECK_TEXT(at_json_text(at_json_get(o, "source")),
                   "https://github.com/NVIDIA/TransformerEngine/issues/3481");
        CHECK_INT(at_json_type(at_json_get(o, "tensor")), AT_JSON_NULL);
        at_case c;
        at_error err = {""};
        CHECK_OK(at_case_parse(&c, at_json_text(at_json_get(o, "example")), &err), &err);
        CHECK(c.arch == AT_ARCH_SM90 && c.dim_qk != c.dim_v);
        at_json_close(o);
    }
    exact(a, 1);
    at_audit_close(a);
}

static void test_fa_2552(void)
{
    at_audit *a = audited(AT_TEST_CORPUS, "fa4-b11", "arch=sm100", "training");
    int wrong[65] = {0};
    for (size_t i = 0; i < at_audit_boxes(a); i++) {
        const at_box *b = &a->boxes.box[i];
        at_capability c = at_audit_answer_at(a, b, b->example).capability;
        for (size_t k = 0; c.outcome == AT_OUTCOME_WRONG && k < a->region->axis[1].count; k++) {
            int64_t dv = a->region->axis[1].point[k].value[0];
            wrong[dv / 8] += b->in[1][k];
        }
        if (c.outcome == AT_OUTCOME_WRONG) {
            CHECK_TEXT(c.tensor, "dv");
            CHECK_TEXT(c.source, "https://github.com/Dao-AILab/flash-attention/issues/2552");
            CHECK(b->in[0][point(a->region, 0, "dqk=128")]);
            CHECK_INT(b->wins, b->cases);
        }
    }
    for (int dv = 8; dv <= 512; dv += 8) {
        int tile = (dv + 15) / 16 * 16;
        CHECK((wrong[dv / 8] > 0) == (dv <= 128 && tile / 2 % 32 != 0));
    }
    CHECK(holding(a, 128, 120, "mask=causal") > 0); /* on the report's list; refused before */
    CHECK_INT(holding(a, 128, 64, "mask=causal"), 0);
    CHECK_INT(holding(a, 128, 128, "mask=causal"), 0);
    CHECK_INT(holding(a, 192, 128, "mask=causal"), 0);
    exact(a, 0);
    at_audit_close(a);
}

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* Random marks on random spaces: the cover is exact and holds no idle box. */
static void test_random_covers(void)
{
    static const uint32_t kinds[] = {AT_MARK_NONE, AT_MARK_INVALID, 5, 6, 5 | AT_MARK_WINS};
    uint32_t state = 7;
    for (int round = 0; round < 300; round++) {
        at_region r = {.axes = 3, .left = round % 2 == 0 ? 0 : -1, .right = 2, .cells = 1};
        at_region_point points[3][6] = {{{0}}};
        uint32_t mark[6 * 6 * 6];
        at_error err = {""};
        for (size_t k = 0; k < 3; k++) {
            r.axis[k].count = 1 + draw(&state) % 6;
            r.axis[k].point = points[k];
            r.cells *= r.axis[k].count;
            for (int i = 0; i < 6; i++) {
                points[k][i].value[0] = (int64_t)(draw(&state) % 6);
            }
        }
        for (uint64_t i = 0; i < r.cells; i++) {
            mark[i] = kinds[draw(&state) % (round % 5 < 3 ? 5 : 3)];
        }
        at_boxes boxes = {0};
        CHECK_OK(at_boxes_cover(&boxes, &r, mark, 5, 0, &err), &err);
        at_region_place p = {.at = {0}};
        for (uint64_t cell = 0; cell < r.cells; cell++) {
            bool in = false;
            for (size_t i = 0; i < boxes.count; i++) {
                in = in || inside(&r, &boxes.box[i], &p);
            }
            bool want = mark[cell] != AT_MARK_INVALID && (mark[cell] & ~AT_MARK_WINS) == 5;
            CHECK(mark[cell] == AT_MARK_INVALID || in == want);
            (void)at_region_step(&p, &r);
        }
        uint64_t wins = 0;
        for (size_t i = 0; i < boxes.count; i++) {
            CHECK(boxes.box[i].cases > 0 && boxes.box[i].wins <= boxes.box[i].cases);
            wins += boxes.box[i].wins;
        }
        (void)wins;
        free(boxes.box);
    }
}

const at_test at_tests[] = {{"unit", "te-3481", test_te_3481},
                            {"unit", "fa-2552", test_fa_2552},
                            {"unit", "random-covers", test_random_covers},
                            {NULL, NULL, NULL}};
