/* What a run found: totals, findings, and the files that tell it. */
#ifndef AT_REPORT_H
#define AT_REPORT_H

#include "harness/run/hosts.h"
#include "harness/run/results.h"
#include "harness/run/waivers.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AT_SUMMARY_SCHEMA "attest-summary-1"

/* Records of equal signature. Text and records are borrowed from the results. */
typedef struct at_finding {
    const at_record *example; /* the one with the shortest case */
    size_t count;
    size_t first; /* its records are by_finding[first .. first + count) of the report, by id */
    bool waived;
    bool known;  /* in the baseline */
    bool counts; /* makes the exit code 1 */
} at_finding;

typedef struct at_backend_totals {
    const char *backend, *version;
    const at_backend_info *info; /* NULL: no worker has it any more */
    bool modelled;
    size_t kinds[AT_KIND_COUNT], records;
    double worst_ratio; /* err/bound of the passed ones */
} at_backend_totals;

typedef struct at_report {
    const at_results *results;
    size_t kinds[AT_KIND_COUNT], modelled_kinds[AT_KIND_COUNT];
    size_t judged; /* class ok or fail, or waived; modelled ones too */
    size_t errors; /* class error */
    size_t backend_count;
    at_backend_totals *backend;      /* live ones first, by name and version */
    size_t finding_count, new_count; /* new: those that count */
    at_finding *finding;             /* those that count first, then by signature */
    const at_record **by_id;         /* every record, by (id, backend, version, engine) */
    const at_record **by_finding;    /* those of findings */
} at_report;

/* A summary.json of an earlier run; close with at_json_close. AT_INVALID when it is something else.
 */
AT_API at_status at_baseline_open(at_json **out, const char *path, at_error *err) AT_MUST_CHECK;

/* Puts the waivers on every record, then sorts and counts. Findings of `baseline` (or NULL) are
 * known already. `strict`: OVER_REFUSED counts. */
AT_API at_status at_report_make(at_report *out, at_results *results, const at_hosts *hosts,
                                at_waivers *waivers, const at_json *baseline, bool strict,
                                at_error *err) AT_MUST_CHECK;
AT_API void at_report_close(at_report *report);

/* "attest repro CASE --backend B --engine E" for a record, with `tool` for attest. */
AT_API void at_repro_line(const at_record *r, const char *tool, char *out, size_t room);

/* What summary.json says of the run beyond its results. */
typedef struct at_run_facts {
    const char *const *words; /* suites and cases asked for */
    int word_count;
    const char *filter, *shard; /* as given, or NULL */
    bool complete;
    size_t left;
    int exit_code, jobs;
    double seconds;
    int64_t started; /* Unix time */
} at_run_facts;

/* Writes summary.json, junit.xml and repro/ID.txt into the results' folder. */
AT_API at_status at_summary_write(const at_report *report, const at_hosts *hosts,
                                  const at_waivers *waivers, const at_run_facts *facts,
                                  at_error *err) AT_MUST_CHECK;
AT_API at_status at_junit_write(const at_report *report, at_error *err) AT_MUST_CHECK;
AT_API at_status at_repro_write(const at_report *report, at_error *err) AT_MUST_CHECK;

/* "verified", "contradicted", ... cells of the report, as an array. */
AT_API at_json *at_cells_make(const at_report *report);

#ifdef __cplusplus
}
#endif
#endif
