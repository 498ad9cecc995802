/* results.jsonl: append-only, one write a line, readable after any death of the runner. */
#ifndef AT_RESULTS_H
#define AT_RESULTS_H

#include "harness/run/record.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_results at_results;

/* Makes the folder, locks FOLDER/results.jsonl against a second runner, and reads what is there
 * when `resume`: a last line without its newline is cut off, any other bad line is AT_INVALID with
 * its number. Without `resume` an earlier file is kept as results.old.jsonl. */
AT_API at_status at_results_open(at_results **out, const char *folder, bool resume,
                                 at_error *err) AT_MUST_CHECK;

/* Reads FOLDER/results.jsonl (or the file itself) without locking or changing it. */
AT_API at_status at_results_read(at_results **out, const char *path, at_error *err) AT_MUST_CHECK;
AT_API void at_results_close(at_results *r); /* NULL is legal */

/* Appends one line, whole or not at all: AT_IO leaves the file as it was. AT_INVALID when the
 * triple (id, backend@version, engine) is there already. */
AT_API at_status at_results_add(at_results *r, const at_json *line, at_error *err) AT_MUST_CHECK;

/* Records in order of appearance; pointers stay valid until the next add. */
AT_API size_t at_results_size(const at_results *r);
AT_API const at_record *at_results_at(const at_results *r, size_t i);

/* The record of the triple, or NULL; engine NULL finds the first one of the pair (id, backend). */
AT_API const at_record *at_results_find(const at_results *r, const char *id, const char *backend,
                                        const char *version, const char *engine);

/* Puts another verdict of waivers on record i (the file keeps what it has); `signature` is taken
 * when the record has none. */
AT_API void at_results_waive(at_results *r, size_t i, at_kind kind, const char *issue,
                             const char *signature);

AT_API const char *at_results_folder(const at_results *r);

/* The folder with its parents; AT_IO names what stands in the way. */
AT_API at_status at_folder_make(const char *path, at_error *err) AT_MUST_CHECK;

/* Writes FOLDER/NAME through a temporary file, so that readers see the old or the new text. */
AT_API at_status at_file_replace(const char *folder, const char *name, const char *text,
                                 at_error *err) AT_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
