/* Known bugs of attention libraries: corpus/known-bugs/, one JSON file a library. */
#ifndef AT_KNOWN_BUGS_H
#define AT_KNOWN_BUGS_H

#include "harness/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_BUG_FAULTS_MAX = 4 };

/* A planted fault that does to cpu.flash what the bug does to the library. */
typedef struct at_bug_fault {
    const char *backend;     /* "mutant.NAME" or "modelled.NAME" */
    const char *engine;      /* NULL: the first */
    unsigned kinds;          /* bit set 1 << at_kind: what each of the cases must get */
    const at_json *only;     /* texts among "cases" in which it acts; NULL: all */
    const at_json *statuses; /* the kinds by name */
} at_bug_fault;

/* One report. Texts and lists belong to the at_known_bugs that holds it. */
typedef struct at_known_bug {
    const char *file, *library;
    const char *id, *title, *what, *invariant;
    const char *versions, *arch;
    const char *pass;            /* forward, backward, both or load */
    const char *effect;          /* what its users see: silent, nonfinite, crash, ... */
    const char *mechanism;       /* M01 ... M17 */
    const char *h200, *h200_why; /* yes, no or unknown: whether an H200 can try it */
    const char *reduced_from;    /* NULL: the cases have the reported sizes, or it names none */
    const char *unsayable;       /* why no case can say it; NULL: there are cases */
    const char *no_fault;        /* why no fault is planted for it; NULL: there are faults */
    const at_json *sources, *cases;
    const at_json *controls; /* neighbours that the bug leaves right; may be NULL */
    size_t fault_count;
    at_bug_fault fault[AT_BUG_FAULTS_MAX];
} at_known_bug;

typedef struct at_known_bugs at_known_bugs;

/* Reads a file, or all .json files of a folder (`path` ends in '/') in order of their names.
 * AT_INVALID, AT_IO: one sentence with file and entry; an unknown member, a missing source, an id
 * that comes twice are errors. Case texts are checked by at_suite_open. */
AT_API at_status at_known_bugs_open(at_known_bugs **out, const char *path,
                                    at_error *err) AT_MUST_CHECK;
AT_API void at_known_bugs_close(at_known_bugs *bugs); /* NULL is legal */
AT_API size_t at_known_bugs_size(const at_known_bugs *bugs);
AT_API const at_known_bug *at_known_bugs_at(const at_known_bugs *bugs, size_t i);

/* What a mechanism's name stands for; NULL: there is no such. The i-th name, NULL past the last. */
AT_API const char *at_bug_mechanism(const char *name);
AT_API const char *at_bug_mechanism_name(size_t i);

#ifdef __cplusplus
}
#endif
#endif
