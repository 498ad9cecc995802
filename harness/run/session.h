/* One case at work inside a process: its problem, and one reference for each numeric class. */
#ifndef AT_SESSION_H
#define AT_SESSION_H

#include "reference/reference.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opened from a case; memory and reference are made when first asked for, and kept, so that every
 * backend and engine of the case shares them. */
typedef struct at_session at_session;

AT_API at_status at_session_open(at_session **out, const at_case *c, at_error *err) AT_MUST_CHECK;
AT_API void at_session_close(at_session *s); /* NULL is legal */
AT_API const at_case *at_session_case(const at_session *s);

/* The problem with its inputs; every output is poisoned again. Status as at_problem_open. */
AT_API at_status at_session_problem(at_session *s, const at_problem **out,
                                    at_error *err) AT_MUST_CHECK;

/* The reference with bounds for that numeric class. With dropout it is of the mask that stands in
 * the problem, made anew each time, and forgets those asked for before. Status as at_reference_run.
 */
AT_API at_status at_session_gold(at_session *s, const at_gold **out,
                                 const at_numeric_class *numeric, at_error *err) AT_MUST_CHECK;

/* Is the reference of that class at hand already? */
AT_API bool at_session_has_gold(const at_session *s, const at_numeric_class *numeric);

/* Drops the problem's memory (not the references): something wrote where it must not. */
AT_API void at_session_spoil(at_session *s);

/* Writes case.txt, README.txt and one .npy a tensor into the folder (made when missing): inputs and
 * outputs as they are, and of each judged output NAME.ref.npy, NAME.bound.npy in f64, [batch heads
 * len dim], NaN where the reference does not look (padding, rows that were not sampled). */
AT_API at_status at_session_dump(const at_problem *p, const at_gold *gold, const char *folder,
                                 const char *text, at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
