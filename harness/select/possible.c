/* Every way through the code of a condition, until one of them ends true. */
#include <stdlib.h>
#include <string.h>

#include "harness/select/possible_core.h"

enum { WORDS_MAX = 256, CALLS_MAX = 24, DEPTH_MAX = 400, BRANCHES_MAX = 20000 };

typedef struct call {
    const at_expr *e;
    uint32_t op;
    uint32_t from; /* the operation that called it */
    bool negate;   /* what it leaves */
} call;

typedef struct state {
    int calls, words;
    call call[CALLS_MAX];
    int16_t word[WORDS_MAX]; /* nodes */
} state;

typedef at_possible_search search;

static void explore(search *s, state *st);

static int get(search *s, int code, int a, int b, int64_t value)
{
    int node = at_node_get(&s->nodes, code, a, b, value);
    s->gave_up = s->gave_up || node < 0;
    return node < 0 ? 0 : node;
}

static void push(search *s, state *st, int node)
{
    if (st->words == WORDS_MAX) {
        s->gave_up = true;
        return;
    }
    st->word[st->words++] = (int16_t)node;
}

/* Remembers what a truth of the condition's own text came out as. */
static void note(search *s, uint32_t op, int node, const at_domain *domain, bool truth)
{
    if ((s->seen[op] & 1) == 0 && !truth) {
        s->node[op] = node;
        s->domain[op] = *domain;
    }
    s->seen[op] |= truth ? 2 : 1;
}

/* Goes on with both truths of `node in set`, as far as they are possible. `op` is the operation
 * of the condition's text that it stands for. */
static void split(search *s, const state *st, int node, const at_word_set *set, uint32_t op)
{
    const at_domain before = s->nodes.node[node].domain;
    const int mark = s->nodes.trail_count;
    if (s->depth == DEPTH_MAX || s->branches >= BRANCHES_MAX) {
        s->gave_up = true;
    }
    for (int truth = 0; truth < 2; truth++) {
        for (int way = 0, done = 0; done >= 0 && !s->gave_up; way++) {
            done = at_node_narrow(&s->nodes, node, set, truth != 0, way);
            if (done > 0) {
                state next = *st;
                if (st->calls == 1) {
                    note(s, op, node, &before, truth != 0);
                }
                push(s, &next, get(s, AT_OP_PUSH, -1, -1, truth));
                s->branches++;
                s->depth++;
                explore(s, &next);
                s->depth--;
            }
            at_nodes_undo(&s->nodes, mark);
        }
    }
}

static int pop(state *st)
{
    AT_ASSERT(st->words > 0);
    return st->word[--st->words];
}

static const at_word_set zero = {.from = 0, .to = 0}, not_zero = {.negate = true};

static int env_node(search *s, int64_t slot)
{
    const at_env_key *k = &s->p->env->key[slot];
    int count = s->nodes.count, node = get(s, AT_NODE_ENV, -1, -1, slot);
    if (s->nodes.count > count) {
        int64_t names = 0;
        while (k->type == AT_ENV_ENUM && k->values[names] != NULL) {
            names++;
        }
        at_domain d = k->type == AT_ENV_RELEASE ? at_domain_of(-1, 2 * (int64_t)s->release_count)
                      : k->type == AT_ENV_BOOL  ? at_domain_of(0, 1)
                      : k->type == AT_ENV_ENUM  ? at_domain_of(0, names - 1)
                                                : at_domain_of(k->min, k->max);
        s->nodes.node[node].first = s->nodes.node[node].domain = d;
    }
    return node;
}

/* Values of something ordered that compare so with `value`. */
static at_word_set ordered(int accept, int64_t value)
{
    at_word_set set = {.from = value, .to = value};
    if (accept == (AT_BELOW | AT_ABOVE)) {
        set.negate = true;
        return set;
    }
    if ((accept & AT_EQUAL) == 0 && value > INT64_MIN && value < INT64_MAX) {
        set.from = set.to = accept == AT_BELOW ? value - 1 : value + 1;
    }
    set.from = (accept & AT_BELOW) != 0 ? INT64_MIN : set.from;
    set.to = (accept & AT_ABOVE) != 0 ? INT64_MAX : set.to;
    return set;
}

static int mirrored(int accept)
{
    return (accept & AT_EQUAL) | ((accept & AT_BELOW) != 0 ? AT_ABOVE : 0) |
           ((accept & AT_ABOVE) != 0 ? AT_BELOW : 0);
}

static void compare(search *s, state *st, const at_expr_op *op, uint32_t at)
{
    bool real = op->code == AT_OP_REAL_COMPARE;
    int b = pop(st), a = pop(st), accept = (int)op->value;
    if (s->nodes.node[a].code == AT_OP_PUSH || (a > b && s->nodes.node[b].code != AT_OP_PUSH)) {
        int keep = a;
        a = b;
        b = keep;
        accept = mirrored(accept);
    }
    const at_node *x = &s->nodes.node[a], *y = &s->nodes.node[b];
    if (real && x->code == AT_OP_FIELD && y->code == AT_OP_PUSH) {
        double value = 0;
        memcpy(&value, &y->value, sizeof value);
        at_word_set set = ordered(accept, at_real_rank(value));
        split(s, st, a, &set, at);
        return;
    }
    if (!real && y->code == AT_OP_PUSH) {
        at_word_set set = ordered(accept, y->value);
        split(s, st, a, &set, at);
        return;
    }
    at_word_set set = {.bits = true, .from = accept};
    split(s, st, get(s, real ? AT_NODE_REAL_ORDER : AT_NODE_ORDER, a, b, 0), &set, at);
}

static int compare_releases(const void *a, const void *b)
{
    return at_release_compare(a, b);
}

static void release(search *s, state *st, const at_expr *e, const at_expr_op *op, uint32_t at)
{
    const at_expr *of = NULL;
    const at_release *named = &e->named[op->span];
    int64_t slot = op->offset;
    while (slot >= AT_SLOT_LETS && !(of = s->p->let[slot - AT_SLOT_LETS])->constant) {
        slot = of->op[0].value;
    }
    AT_ASSERT(slot < AT_SLOT_LETS); /* constants are compared when compiled */
    int node = env_node(s, slot);
    at_word_set set = {.from = 0, .to = INT64_MAX};
    if (op->value != (AT_BELOW | AT_EQUAL | AT_ABOVE)) {
        const at_release *found =
            bsearch(named, s->release, s->release_count, sizeof *named, compare_releases);
        set = ordered((int)op->value, 2 * (found - s->release) + 1);
        set.from = set.from < 0 ? 0 : set.from;
    }
    split(s, st, node, &set, at);
}

/* Operations that end in a truth; false: it is none. */
static bool truth(search *s, state *st, const at_expr *e, const at_expr_op *op, uint32_t at)
{
    at_word_set set = {.negate = op->negate != 0};
    switch (op->code) {
    case AT_OP_FIELD_RANGE:
    case AT_OP_RANGE:
        set.from = op->value;
        set.to = (int64_t)((uint64_t)op->value + op->span);
        break;
    case AT_OP_FIELD_BITS:
        set.bits = true;
        set.from = op->value;
        break;
    case AT_OP_IN:
        set.list = e->pool + op->value;
        set.count = op->offset;
        break;
    case AT_OP_NOT:
        split(s, st, pop(st), &zero, at);
        return true;
    case AT_OP_OVERLAP:
        set.negate = !set.negate;
        split(s, st, get(s, AT_OP_OVERLAP, pop(st), -1, op->value), &set, at);
        return true;
    case AT_OP_UNKNOWN:
        split(s, st, get(s, AT_OP_UNKNOWN, -1, -1, (int64_t)(intptr_t)op), &not_zero, at);
        return true;
    case AT_OP_COMPARE:
    case AT_OP_REAL_COMPARE:
        compare(s, st, op, at);
        return true;
    case AT_OP_RELEASE:
        release(s, st, e, op, at);
        return true;
    default:
        return false;
    }
    bool field = op->code == AT_OP_FIELD_RANGE || op->code == AT_OP_FIELD_BITS;
    split(s, st, field ? get(s, AT_OP_FIELD, -1, -1, op->offset) : pop(st), &set, at);
    return true;
}

/* Operations that leave a value. */
static void value(search *s, state *st, const at_expr_op *op)
{
    int a = 0, b = 0;
    switch (op->code) {
    case AT_OP_PUSH:
    case AT_OP_ON:
        push(s, st, get(s, op->code, -1, -1, op->value));
        return;
    case AT_OP_FIELD:
    case AT_OP_U64:
        push(s, st, get(s, AT_OP_FIELD, -1, -1, op->offset));
        return;
    case AT_OP_GIVEN:
        push(s, st, get(s, AT_OP_GIVEN, -1, -1, op->offset));
        return;
    case AT_OP_ARCH:
    case AT_OP_SM:
        push(s, st, get(s, op->code, -1, -1, 0));
        return;
    case AT_OP_NEG:
        a = pop(st);
        push(s, st, get(s, AT_OP_SUB, get(s, AT_OP_PUSH, -1, -1, 0), a, 0));
        return;
    case AT_OP_TO_REAL:
        push(s, st, get(s, AT_OP_TO_REAL, pop(st), -1, 0));
        return;
    case AT_OP_TO_REAL_BELOW:
        b = pop(st);
        a = pop(st);
        push(s, st, get(s, AT_OP_TO_REAL, a, -1, 0));
        push(s, st, b);
        return;
    default:
        b = pop(st);
        a = pop(st);
        push(s, st, get(s, op->code, a, b, 0));
        return;
    }
}

/* A key of the environment, or a let. True: the way splits here. */
static bool slot(search *s, state *st, const at_expr_op *op, uint32_t at)
{
    if (op->value < AT_SLOT_LETS) {
        int node = env_node(s, op->value);
        if (op->negate != 0) {
            split(s, st, node, &zero, at);
            return true;
        }
        push(s, st, node);
        return false;
    }
    if (st->calls == CALLS_MAX) {
        s->gave_up = true;
        return true;
    }
    st->call[st->calls++] =
        (call){.e = s->p->let[op->value - AT_SLOT_LETS], .from = at, .negate = op->negate != 0};
    return false;
}

/* Whether the top is a constant; else both truths of it are followed from here. */
static bool settled(search *s, state *st, uint32_t at)
{
    const at_node *top = &s->nodes.node[st->word[st->words - 1]];
    if (top->code == AT_OP_PUSH) {
        if (st->calls == 1 && st->call[0].e->op[at].code == AT_OP_PUSH) {
            note(s, at, st->word[st->words - 1], &top->domain, top->value != 0);
        }
        return true;
    }
    split(s, st, pop(st), &not_zero, at);
    return false;
}

/* The end of a condition or let. False: nothing follows. */
static bool leave(search *s, state *st)
{
    call done = st->call[st->calls - 1];
    if (done.e->type == AT_EXPR_BOOL && !settled(s, st, done.e->count - 1)) {
        return false;
    }
    int node = st->word[st->words - 1];
    int64_t result = s->nodes.node[node].value;
    if (st->calls == 1) {
        s->possible = s->possible || result != 0;
        return false;
    }
    st->calls--;
    if (done.e->type == AT_EXPR_BOOL) {
        result = (result != 0) != done.negate;
        st->word[st->words - 1] = (int16_t)get(s, AT_OP_PUSH, -1, -1, result);
        if (st->calls == 1) {
            note(s, done.from, node, &s->nodes.node[node].domain, result != 0);
        }
    }
    return true;
}

static void explore(search *s, state *st)
{
    while (!s->gave_up) {
        call *c = &st->call[st->calls - 1];
        uint32_t at = c->op;
        const at_expr_op *op = &c->e->op[at];
        if (at == c->e->count) {
            if (!leave(s, st)) {
                return;
            }
            continue;
        }
        if (op->code == AT_OP_IF_FALSE || op->code == AT_OP_IF_TRUE) {
            if (!settled(s, st, at - 1)) {
                return;
            }
            bool holds = s->nodes.node[st->word[st->words - 1]].value != 0;
            bool jump = holds == (op->code == AT_OP_IF_TRUE);
            st->words -= !jump;
            c->op = jump ? (uint32_t)op->value : at + 1;
            continue;
        }
        c->op = at + 1;
        if (op->code == AT_OP_SLOT ? slot(s, st, op, at) : truth(s, st, c->e, op, at)) {
            return;
        }
        if (op->code != AT_OP_SLOT) {
            value(s, st, op);
        }
    }
}

void at_possible_explore(at_possible_search *s)
{
    state st = {.calls = 1, .call[0].e = s->e};
    explore(s, &st);
}
