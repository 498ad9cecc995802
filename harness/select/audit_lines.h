/* Command lines that show a contradiction. Inside the folder. */
#ifndef AT_AUDIT_LINES_H
#define AT_AUDIT_LINES_H

#include "harness/select/audit_core.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_LINE_TEXT = AT_CASE_TEXT_MAX + 1024 };

/* "attest select CASE --selector S --env ...": the box's example and what is given of its
 * environment. tool NULL: "attest". */
void at_audit_select_line(char out[AT_LINE_TEXT], const at_audit *a, const at_box *b,
                          const char *tool);

/* "attest repro CASE --backend modelled.SET", with lengths as short as they may be for the same
 * contradiction; false where no such backend takes the case, or nothing goes wrong. */
bool at_audit_repro_line(char out[AT_LINE_TEXT], const at_audit *a, const at_box *b,
                         const char *tool);

/* "attest audit --selector S --env .. --space CASE": the same contradiction of the box's example
 * alone, with its evidence; on any machine. */
void at_audit_again_line(char out[AT_LINE_TEXT], const at_audit *a, const at_box *b,
                         const char *tool);

/* What each build of the box's environments is known by: the answers at its example, one for each
 * set and source; returns how many. */
size_t at_audit_evidence(at_audit_answer *out, size_t room, const at_audit *a, const at_box *b);

/* " --env fa3=2025-02,fused=0" without the arch; "" when nothing is given. */
void at_env_flag(char *out, size_t room, const at_env *given);

#ifdef __cplusplus
}
#endif
#endif
