/* Known failures: corpus/waivers.json. */
#ifndef AT_WAIVERS_H
#define AT_WAIVERS_H

#include "harness/run/protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AT_WAIVERS_SCHEMA "attest-waivers-1"

/* One entry: {"backend","version","arch","when","status","issue","until"|"fixed_in","note"}.
 * version
 * (">=9.14 <9.20", one to four comparisons), arch, when (an expression over case keys) and note may
 * be missing; status is what is expected. */
typedef struct at_waivers at_waivers;

/* What a waiver says about a verdict. */
typedef enum at_waiving {
    AT_WAIVING_NONE,    /* no waiver covers the case */
    AT_WAIVING_WAIVED,  /* it failed as expected */
    AT_WAIVING_XPASS,   /* it passed although a waiver covers it */
    AT_WAIVING_OTHER,   /* covered, but it failed in another way: not waived */
    AT_WAIVING_EXPIRED, /* it failed as expected, after `until` */
} at_waiving;

/* `today` is "2026-01-31", UTC. AT_INVALID: a sentence naming file, entry and member. */
AT_API at_status at_waivers_open(at_waivers **out, const char *path, const char *today,
                                 at_error *err) AT_MUST_CHECK;
/* CORPUS/waivers.json as of today; *out stays NULL when there is none. */
AT_API at_status at_waivers_open_corpus(at_waivers **out, const char *corpus,
                                        at_error *err) AT_MUST_CHECK;
AT_API void at_waivers_close(at_waivers *w); /* NULL is legal, also below: no waivers */
AT_API size_t at_waivers_size(const at_waivers *w);
AT_API const char *at_waivers_issue(const at_waivers *w, size_t i);
AT_API const char *at_waivers_backend(const at_waivers *w, size_t i);

/* Looks at every entry in order; the first that covers (backend, version, arch, case) decides. From
 * fixed_in on an entry covers nothing. *issue is borrowed, NULL for NONE. */
AT_API at_waiving at_waivers_apply(at_waivers *w, const at_case *c, const char *backend,
                                   const char *version, at_arch arch, at_kind measured,
                                   const char **issue);

/* Has entry i covered any case given to at_waivers_apply? */
AT_API bool at_waivers_matched(const at_waivers *w, size_t i);

#ifdef __cplusplus
}
#endif
#endif
