/* Values along one way through a condition. Inside the folder, of possible*.c alone. */
#ifndef AT_POSSIBLE_CORE_H
#define AT_POSSIBLE_CORE_H

#include "harness/select/env_table.h"
#include "harness/select/expr_code.h"
#include "harness/select/lets.h"
#include "harness/select/possible.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The values that something may still have: lo..hi; a small one has lo >= 0, hi <= 63 and a bit
 * for each value left. */
typedef struct at_domain {
    int64_t lo, hi;
    uint64_t bits;
    bool small;
} at_domain;

/* Something with a value: a key, a constant, or what an operation makes of two others. Equal ones
 * are one. */
typedef struct at_node {
    int code; /* at_expr_code, or one of those below */
    int a, b;
    int64_t value;    /* PUSH: itself; FIELD: offset */
    at_domain first;  /* anywhere */
    at_domain domain; /* here */
} at_node;

enum {
    AT_NODE_ENV = 100, /* value: index of the environment key; a version is 2r + 1 where it is the
                          r-th of those that the conditions name, 2r between that and the one before
                          it, and -1 where it is not installed */
    AT_NODE_ORDER,     /* how a compares with b: 0 below, 1 equal, 2 above */
    AT_NODE_REAL_ORDER
};

enum { AT_NODES_MAX = 512, AT_TRAIL_MAX = 4096 };

typedef struct at_nodes {
    int count;
    at_node node[AT_NODES_MAX];
    int trail_count;
    struct {
        int node;
        at_domain before;
    } trail[AT_TRAIL_MAX];
} at_nodes;

/* A set of words that a truth asks for. */
typedef struct at_word_set {
    const int64_t *list; /* NULL: the range from..to */
    uint32_t count;
    int64_t from, to;
    bool bits; /* the values of the set bits of `from` */
    bool negate;
} at_word_set;

at_domain at_domain_of(int64_t lo, int64_t hi);

/* The node, made when it is new; -1 when there is no room. */
int at_node_get(at_nodes *n, int code, int a, int b, int64_t value);

/* Narrows the node to those values that are in the set (or not, without `inside`). There may be
 * several ways: `way` counts them from 0. -1: no such way; 0: no value is left; 1: done, to be
 * undone with at_nodes_undo. */
int at_node_narrow(at_nodes *n, int node, const at_word_set *set, bool inside, int way);
void at_nodes_undo(at_nodes *n, int trail_count);

/* Doubles as integers of the same order. */
int64_t at_real_rank(double x);

/* The names that conditions may use. */
struct at_possible {
    const at_env_table *env;
    size_t name_count;
    at_expr_name name[(int)AT_ENV_KEYS_MAX + (int)AT_LETS_MAX]; /* keys first; slots count both */
    at_expr *let[AT_LETS_MAX];
    size_t let_count;
};

enum { AT_SLOT_LETS = AT_ENV_KEYS_MAX };

/* What a walk through all ways finds. */
typedef struct at_possible_search {
    const at_possible *p;
    const at_expr *e;
    at_nodes nodes;
    size_t release_count;
    at_release *release; /* sorted */
    int branches, depth;
    bool gave_up, possible;
    uint8_t *seen; /* of each operation of e: bit 0 it was false, bit 1 it was true */
    int *node;     /* what it looked at where it was false first, and what that was then */
    at_domain *domain;
} at_possible_search;

void at_possible_explore(at_possible_search *s);

#ifdef __cplusplus
}
#endif
#endif
