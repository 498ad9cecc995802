/* What an audit of cuDNN holds; shared by its files. */
#ifndef AT_CUDNN_AUDIT_CORE_H
#define AT_CUDNN_AUDIT_CORE_H

#include "harness/judge/verdict.h"
#include "harness/select/boxes.h"
#include "kernels/cudnn_audit.h"
#include "kernels/cudnn_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_CUDNN_SIGNS_MAX = 1024 };

/* Order of importance. */
typedef enum at_cudnn_outcome {
    AT_CUDNN_CRASH,
    AT_CUDNN_NO_PLAN,
    AT_CUDNN_FIRST_PLAN,
    AT_CUDNN_REFUSES,
    AT_CUDNN_RUNS /* refused by a rule, admitted by cuDNN */
} at_cudnn_outcome;

/* One kind of answer. */
typedef struct at_cudnn_sign {
    at_step step;
    at_cudnn_stage stage;
    at_cudnn_outcome outcome;
    char code[AT_CUDNN_CODE];
    char message[256];
    const char *rule, *why, *source; /* RUNS: the refusing rule, copied */
} at_cudnn_sign;

struct at_cudnn_audit {
    at_region *region;
    int64_t arch;
    at_cudnn_stage stage;
    const char *against;
    long version;
    char frontend[32];
    uint32_t *mark; /* [region->cells] 1 + sign */
    uint64_t cases, contradictions;
    size_t graphs;
    uint64_t stopped[AT_CUDNN_STAGES]; /* graphs whose last word came from that stage */
    uint64_t deaths, first_plan, no_plan;
    int signs;
    at_cudnn_sign sign[AT_CUDNN_SIGNS_MAX];
    at_boxes boxes;
};

/* The text of a box's most typical case; the box's axes, relation, size and example as lines. */
void at_cudnn_audit_example(const at_cudnn_audit *a, const at_box *b, char text[AT_CASE_TEXT_MAX]);
void at_cudnn_audit_print_box(const at_cudnn_audit *a, const at_box *b, FILE *out);

/* Number of the sign of what is wrong with a graph, made when it is new; 0: all stages pass. */
int at_cudnn_audit_sign(at_cudnn_audit *a, at_step step, const at_cudnn_result *result);
int at_cudnn_audit_rule_sign(at_cudnn_audit *a, const char *rule, const char *why,
                             const char *source);

/* Without a rule set: whether a sign contradicts what validate said. */
bool at_cudnn_audit_is_finding(const at_cudnn_audit *a, uint32_t sign);

at_status at_cudnn_audit_cover(at_cudnn_audit *a, at_error *err) AT_MUST_CHECK;

extern const char *const at_cudnn_stage_names[]; /* "S0" .. "S5" */
extern const char *const at_cudnn_outcome_names[];

#ifdef __cplusplus
}
#endif
#endif
