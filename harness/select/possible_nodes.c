/* What is known of values along one way through a condition. */
#include <math.h>
#include <string.h>

#include "harness/select/possible_core.h"

at_domain at_domain_of(int64_t lo, int64_t hi)
{
    at_domain d = {.lo = lo, .hi = hi, .small = lo >= 0 && lo <= hi && hi < 64};
    if (d.small) {
        d.bits =
            (hi == 63 ? UINT64_MAX : ((uint64_t)1 << (hi + 1)) - 1) & ~(((uint64_t)1 << lo) - 1);
    }
    return d;
}

int64_t at_real_rank(double x)
{
    int64_t word = 0;
    memcpy(&word, &x, sizeof word);
    return word >= 0 ? word : INT64_MIN - word;
}

static int64_t clamp(__int128_t x)
{
    return x < INT64_MIN ? INT64_MIN : x > INT64_MAX ? INT64_MAX : (int64_t)x;
}

static at_domain product(const at_domain *a, const at_domain *b)
{
    const __int128_t p[] = {(__int128_t)a->lo * b->lo, (__int128_t)a->lo * b->hi,
                            (__int128_t)a->hi * b->lo, (__int128_t)a->hi * b->hi};
    __int128_t lo = p[0], hi = p[0];
    for (int i = 1; i < 4; i++) {
        lo = p[i] < lo ? p[i] : lo;
        hi = p[i] > hi ? p[i] : hi;
    }
    return at_domain_of(clamp(lo), clamp(hi));
}

/* The remainder has the sign of what is divided and is smaller than the divisor. */
static at_domain remainder_of(const at_domain *a, const at_domain *b)
{
    int64_t most = b->lo > 0 ? b->hi - 1 : INT64_MAX;
    return at_domain_of(a->lo >= 0      ? 0
                        : -most > a->lo ? -most
                                        : a->lo,
                        a->hi <= 0     ? 0
                        : most < a->hi ? most
                                       : a->hi);
}

static at_domain computed(int code, const at_domain *a, const at_domain *b)
{
    const at_domain any = at_domain_of(INT64_MIN, INT64_MAX);
    bool natural = a->lo >= 0 && b->lo >= 0;
    switch (code) {
    case AT_OP_ADD:
        return at_domain_of(clamp((__int128_t)a->lo + b->lo), clamp((__int128_t)a->hi + b->hi));
    case AT_OP_SUB:
        return at_domain_of(clamp((__int128_t)a->lo - b->hi), clamp((__int128_t)a->hi - b->lo));
    case AT_OP_MUL:
        return product(a, b);
    case AT_OP_DIV:
        return a->lo >= 0 && b->lo > 0 ? at_domain_of(a->lo / b->hi, a->hi / b->lo) : any;
    case AT_OP_MOD:
        return remainder_of(a, b);
    case AT_OP_MIN:
        return at_domain_of(a->lo < b->lo ? a->lo : b->lo, a->hi < b->hi ? a->hi : b->hi);
    case AT_OP_MAX:
        return at_domain_of(a->lo > b->lo ? a->lo : b->lo, a->hi > b->hi ? a->hi : b->hi);
    case AT_OP_GCD:
        return natural ? at_domain_of(0, a->hi > b->hi ? a->hi : b->hi) : any;
    case AT_OP_CEIL:
        return natural ? at_domain_of(a->lo, clamp((__int128_t)a->hi + b->hi)) : any;
    default:
        return any;
    }
}

static at_domain field_domain(uint32_t offset)
{
    for (size_t i = 0; i < at_case_field_count; i++) {
        const at_field *f = &at_case_fields[i];
        if (f->offset != offset) {
            continue;
        }
        switch (f->kind) {
        case AT_FIELD_INT:
            return at_domain_of(f->names != NULL ? -f->name_count : f->min, f->max);
        case AT_FIELD_ENUM:
        case AT_FIELD_SET:
            return at_domain_of(f->min, f->max);
        case AT_FIELD_REAL:
            return at_domain_of(at_real_rank(f->real_min),
                                at_real_rank(f->names != NULL ? HUGE_VAL : f->real_max) -
                                    (f->names == NULL && f->max_open));
        case AT_FIELD_U64:
            return at_domain_of(0, INT64_MAX);
        case AT_FIELD_LIST:
            break;
        }
    }
    return at_domain_of(0, 1); /* a list is given or not */
}

static at_domain order_domain(const at_domain *a, const at_domain *b)
{
    int lo = a->lo < b->hi ? 0 : a->lo == b->hi ? 1 : 2;
    int hi = a->hi > b->lo ? 2 : a->hi == b->lo ? 1 : 0;
    return at_domain_of(lo, hi);
}

static at_domain first_domain(const at_nodes *n, const at_node *made)
{
    switch (made->code) {
    case AT_OP_PUSH:
        return at_domain_of(made->value, made->value);
    case AT_OP_FIELD:
        return field_domain((uint32_t)made->value);
    case AT_OP_ARCH:
        return at_domain_of(AT_ARCH_ANY, AT_ARCH_SM121);
    case AT_OP_SM:
        return at_domain_of(0, at_arch_number(AT_ARCH_SM121));
    case AT_OP_ON:
    case AT_OP_GIVEN:
    case AT_OP_OVERLAP:
    case AT_OP_UNKNOWN:
        return at_domain_of(0, 1);
    case AT_NODE_ORDER:
        return order_domain(&n->node[made->a].first, &n->node[made->b].first);
    case AT_NODE_REAL_ORDER:
        return at_domain_of(0, 2);
    default:
        return made->b >= 0 ? computed(made->code, &n->node[made->a].first, &n->node[made->b].first)
                            : at_domain_of(INT64_MIN, INT64_MAX);
    }
}

int at_node_get(at_nodes *n, int code, int a, int b, int64_t value)
{
    for (int i = 0; i < n->count; i++) {
        const at_node *k = &n->node[i];
        if (k->code == code && k->a == a && k->b == b && k->value == value) {
            return i;
        }
    }
    if (n->count == AT_NODES_MAX) {
        return -1;
    }
    at_node made = {.code = code, .a = a, .b = b, .value = value};
    made.first = made.domain = first_domain(n, &made);
    n->node[n->count] = made;
    return n->count++;
}

static bool holds(const at_word_set *set, int64_t value)
{
    bool found = set->from <= value && value <= set->to;
    if (set->bits) {
        found = (uint64_t)value < 64 && ((uint64_t)set->from >> value & 1) != 0;
    } else if (set->list != NULL) {
        found = false;
        for (uint32_t i = 0; i < set->count && !found; i++) {
            found = set->list[i] == value;
        }
    }
    return found != set->negate;
}

static bool write(at_nodes *n, int node, const at_domain *d)
{
    if (n->trail_count == AT_TRAIL_MAX) {
        return true; /* stays wider than it is */
    }
    n->trail[n->trail_count].node = node;
    n->trail[n->trail_count++].before = n->node[node].domain;
    n->node[node].domain = *d;
    return d->lo <= d->hi;
}

/* Small ones and the arch, of which every value can be tried. */
static int narrow_bits(at_nodes *n, int node, const at_word_set *set, bool inside)
{
    bool number = n->node[node].code == AT_OP_SM;
    int at = number ? at_node_get(n, AT_OP_ARCH, -1, -1, 0) : node;
    if (at < 0) {
        return 1;
    }
    at_domain d = n->node[at].domain;
    for (uint64_t left = d.bits; left != 0; left &= left - 1) {
        int bit = __builtin_ctzll(left);
        if (holds(set, number ? at_arch_number(bit) : bit) != inside) {
            d.bits &= ~((uint64_t)1 << bit);
        }
    }
    if (d.bits == 0) {
        return 0;
    }
    d.lo = __builtin_ctzll(d.bits);
    d.hi = 63 - __builtin_clzll(d.bits);
    return write(n, at, &d) ? 1 : 0;
}

static int narrow_range(at_nodes *n, int node, int64_t lo, int64_t hi)
{
    at_domain d = n->node[node].domain;
    d.lo = lo > d.lo ? lo : d.lo;
    d.hi = hi < d.hi ? hi : d.hi;
    return d.lo <= d.hi && write(n, node, &d) ? 1 : 0;
}

/* The values between the `way` smallest words of the list and the next one. */
static int narrow_away(at_nodes *n, int node, const int64_t *list, uint32_t count, int way)
{
    int64_t lo = INT64_MIN, hi = INT64_MAX;
    for (int k = 0; k <= way; k++) {
        bool found = false;
        hi = INT64_MAX;
        for (uint32_t i = 0; i < count; i++) {
            if (list[i] >= lo && (!found || list[i] < hi)) {
                hi = list[i];
                found = true;
            }
        }
        if (!found) { /* behind the last one */
            return k == way ? narrow_range(n, node, lo, hi) : -1;
        }
        if (k < way && hi == INT64_MAX) {
            return -1;
        }
        lo = k < way ? hi + 1 : lo;
    }
    return hi > lo ? narrow_range(n, node, lo, hi - 1) : 0;
}

int at_node_narrow(at_nodes *n, int node, const at_word_set *set, bool inside, int way)
{
    at_node *k = &n->node[node];
    if (k->domain.small || k->code == AT_OP_SM) {
        return way == 0 ? narrow_bits(n, node, set, inside) : -1;
    }
    inside = inside != set->negate;
    if (set->bits || set->list != NULL) {
        int64_t words[64];
        uint32_t count = 0;
        for (uint64_t left = set->bits ? (uint64_t)set->from : 0; left != 0; left &= left - 1) {
            words[count++] = __builtin_ctzll(left);
        }
        const int64_t *list = set->bits ? words : set->list;
        count = set->bits ? count : set->count;
        if (!inside) {
            return narrow_away(n, node, list, count, way);
        }
        return (uint32_t)way < count ? narrow_range(n, node, list[way], list[way]) : -1;
    }
    if (inside) {
        return way == 0 ? narrow_range(n, node, set->from, set->to) : -1;
    }
    if (way == 0) {
        return set->from > INT64_MIN ? narrow_range(n, node, INT64_MIN, set->from - 1) : 0;
    }
    if (way == 1) {
        return set->to < INT64_MAX ? narrow_range(n, node, set->to + 1, INT64_MAX) : 0;
    }
    return -1;
}

void at_nodes_undo(at_nodes *n, int trail_count)
{
    while (n->trail_count > trail_count) {
        n->trail_count--;
        n->node[n->trail[n->trail_count].node].domain = n->trail[n->trail_count].before;
    }
}
