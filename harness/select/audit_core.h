/* What an audit holds; shared by its two files. Inside the folder. */
#ifndef AT_AUDIT_CORE_H
#define AT_AUDIT_CORE_H

#include "harness/select/audit.h"
#include "harness/select/boxes.h"
#include "harness/select/region.h"
#include "harness/select/rules.h"

#ifdef __cplusplus
extern "C" {
#endif

struct at_audit {
    at_selector *selector;
    at_region *region;
    int64_t arch;
    at_capabilities *set[AT_SELECTION_MAX]; /* by backend; NULL: none */
    const char *missing[AT_SELECTION_MAX];  /* sets that the environment names and nobody wrote */
    uint32_t *mark[AT_SELECTION_MAX];       /* [region->cells] where there is a set */
    uint64_t cases, contradictions;
    uint64_t fired[AT_SELECTION_MAX]
                  [AT_SELECTOR_RULES_MAX / 64]; /* rules that refused it somewhere, as bits */
    at_boxes boxes;
};

/* A sign: the entry of the capability set, and the rule that refused (-1: admitted). */
uint32_t at_audit_sign(int entry, int rule);
int at_audit_entry(uint32_t sign);
int at_audit_rule(uint32_t sign);

#ifdef __cplusplus
}
#endif
#endif
