/* Whatever bytes a kernel leaves in its outputs, and around them, are judged without a crash; no
 * value that is not finite passes where the reference is finite, nor one beyond its bound. */
#include <math.h>
#include <string.h>

#include "harness/fuzz/fuzz.h"
#include "harness/judge/judge.h"

enum { CASES = 6, HEAD = 2, TENSORS = 7 };

static const char *const texts[CASES] = {
    "hq=2:hkv=1:sq=3:skv=5:dqk=8:dv=4:dtype=f16",
    "b=2:hq=2:sq=4:skv=3:dqk=8:mask=causal:align=br",
    "b=2:sq=5:skv=5:dqk=9:dtype=f32:layout=thd:lenq=5+2:lenkv=1+4:gap=1",
    "b=2:hq=2:sq=4:skv=6:dqk=8:dtype=f8e4m3:odt=bf16:lens=half",
    "sq=4:skv=4:dqk=8:bias=rel.11:sink=learned:grads=qkvbs",
    "sq=3:skv=20:dqk=8:dtype=f32:fill=deep_neg:pass=stats",
};
static const at_tensor_id outputs[TENSORS] = {AT_O,  AT_LSE,   AT_DQ,   AT_DK,
                                              AT_DV, AT_DBIAS, AT_DSINK};

typedef struct fixture {
    at_arena *memory, *answers;
    at_problem p;
    at_gold gold;
} fixture;

static fixture *fixture_of(int i)
{
    static fixture all[CASES];
    fixture *f = &all[i];
    at_error err = {""};
    at_case c;
    if (f->memory == NULL) {
        at_reference_options options = {0};
        AT_ASSERT(at_case_parse(&c, texts[i], &err) == AT_OK);
        AT_ASSERT(at_arena_open(&f->memory, &err) == AT_OK);
        AT_ASSERT(at_arena_open(&f->answers, &err) == AT_OK);
        AT_ASSERT(at_problem_open(&f->p, &c, f->memory, &err) == AT_OK);
        AT_ASSERT(at_reference_run(&f->gold, &f->p, &options, f->answers, &err) == AT_OK);
    }
    return f;
}

/* The reference as the outputs would hold it: the one thing that must pass. */
static void fill_right(const fixture *f)
{
    for (int i = 0; i < TENSORS; i++) {
        const at_gold_tensor *g = &f->gold.t[outputs[i]];
        for (int64_t e = 0; e < g->rows * g->dim; e++) {
            const int64_t *row = g->row[e / g->dim];
            at_tensor_set(&f->p.t[outputs[i]], row[0], row[1], row[2], e % g->dim, g->ref[e]);
        }
    }
}

/* Overwrites bytes of output buffers: tensor, place, value. */
static void spoil(const fixture *f, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 4 <= size; i += 4) {
        at_tensor_id id = outputs[data[i] % TENSORS];
        size_t room = f->p.size[id], at = ((size_t)data[i + 1] << 8 | data[i + 2]);
        if (f->p.base[id] != NULL && room > 0) {
            ((unsigned char *)f->p.base[id])[at % room] = data[i + 3];
        }
    }
}

static bool is_sound(const fixture *f, at_tensor_id id)
{
    const at_gold_tensor *g = &f->gold.t[id];
    double most = at_dtype_max(f->p.t[id].dtype);
    for (int64_t e = 0; e < g->rows * g->dim; e++) {
        const int64_t *row = g->row[e / g->dim];
        double got = at_tensor_get(&f->p.t[id], row[0], row[1], row[2], e % g->dim);
        bool range = fabs(g->ref[e]) + g->bound[e] <= most;
        if (got != g->ref[e] && range && !(fabs(got - g->ref[e]) <= g->bound[e])) {
            return false;
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static at_verdict v, again;
    if (size < HEAD) {
        return 0;
    }
    fixture *f = fixture_of(data[0] % CASES);
    const at_contract contract = {.dead_o = (at_dead_o)(data[1] % 3),
                                  .dead_lse = (at_dead_lse)(data[1] / 3 % 3),
                                  .pad = (at_pad_rows)(data[1] / 9 % 3)};
    at_error err = {""};
    at_problem_poison(&f->p, AT_O, AT_DV);
    fill_right(f);
    spoil(f, data + HEAD, size - HEAD);
    at_verdict_init(&v);
    for (at_step s = AT_STEP_FORWARD; s <= AT_STEP_BACKWARD; s++) {
        at_judge_step(&v.step[s], s, &f->p, &f->gold, &contract);
        v.step[s].ran = true;
        for (int i = 0; i < TENSORS; i++) {
            const at_measure *m = &v.step[s].m[outputs[i]];
            bool dead = contract.dead_o != 0 || contract.dead_lse != 0;
            AT_ASSERT(!m->judged || m->kind != AT_PASS || dead || is_sound(f, outputs[i]));
            AT_ASSERT(!m->judged || m->kind == AT_PASS || m->reason.text[0] != '\0');
        }
    }
    at_judge_teeth(&v, &f->p, &f->gold);
    at_json *line = at_json_object();
    at_verdict_to_json(&v, line);
    AT_ASSERT(at_verdict_from_json(&again, line, &err) == AT_OK && again.kind == v.kind);
    at_json_close(line);
    return 0;
}
