#include "harness/cli/bench_peers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/case/suite.h"
#include "harness/cli/limits.h"
#include "harness/selftest/peers.h"

static const char *percent(double share, char text[16])
{
    (void)snprintf(text, 16, isnan(share) ? "-" : "%.1f", 100 * share);
    return text;
}

static void print_table(const at_peer_table *t)
{
    (void)puts(
        "| suite | rule (in brackets: gradients) | forward caught % | backward caught % | "
        "healthy forward flagged % | healthy backward flagged % |\n|---|---|---|---|---|---|");
    for (int i = 0; i < AT_PEER_ROWS; i++) {
        const at_peer_row *r = &t->row[i];
        char text[4][16];
        (void)printf("| %s | %s | %s | %s | %s | %s |\n", r->name, r->rule,
                     percent(r->forward, text[0]), percent(r->backward, text[1]),
                     percent(r->alarms_forward, text[2]), percent(r->alarms_backward, text[3]));
    }
    (void)printf(
        "\n%lld forward and %lld backward runs with a fault that acts, %lld and %lld healthy "
        "ones.\n",
        (long long)t->fault_runs[0], (long long)t->fault_runs[1], (long long)t->healthy_runs[0],
        (long long)t->healthy_runs[1]);
}

static void print_lines(const at_peer_table *t)
{
    for (int i = 0; i < AT_PEER_ROWS; i++) {
        const at_peer_row *r = &t->row[i];
        const double x[] = {r->forward, r->backward, r->alarms_forward, r->alarms_backward};
        static const char *const keys[] = {"forward", "backward", "alarms_forward",
                                           "alarms_backward"};
        at_json *line = at_json_object();
        at_json_put_text(line, "bench", "peers");
        at_json_put_text(line, "suite", r->name);
        at_json_put_text(line, "rule", r->rule);
        for (int k = 0; k < 4; k++) {
            if (!isnan(x[k])) {
                at_json_put_number(line, keys[k], x[k]);
            }
        }
        char *text = at_json_print(line, false);
        (void)puts(text);
        free(text);
        at_json_close(line);
    }
}

int at_bench_peers(const at_options *o)
{
    char corpus[4096];
    at_limits *limits = NULL;
    at_peer_table table;
    at_error err = {""};
    at_status status = at_corpus_find(corpus, o->corpus, AT_BUILD_CORPUS, &err);
    status = status == AT_OK ? at_choose_limits(&limits, o, corpus, &err) : status;
    status = status == AT_OK ? at_peers_measure(&table, limits, NULL, NULL, &err) : status;
    at_limits_close(limits);
    if (status != AT_OK) {
        return at_usage_error("bench peers: %s", err.text);
    }
    (o->jsonl ? print_lines : print_table)(&table);
    return AT_EXIT_CLEAN;
}
