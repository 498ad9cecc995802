#include "harness/run/results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/run/lines.h"

enum { PATH_ROOM = 4096 };

struct at_results {
    char folder[PATH_ROOM], path[PATH_ROOM + 32];
    int fd; /* -1: read only */
    off_t end;
    size_t size, room;
    at_record *record;
    size_t slots;  /* power of two; both tables hold index + 1, 0 when free */
    size_t *slot;  /* by (id, backend, version, engine) */
    size_t *first; /* by (id, backend, version): the first record of them */
};

at_status at_folder_make(const char *path, at_error *err)
{
    char part[PATH_ROOM];
    if (strlen(path) >= sizeof part) {
        return at_fail(err, AT_INVALID, "the path of the folder is too long");
    }
    for (size_t i = 1; path[i - 1] != '\0'; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        (void)snprintf(part, sizeof part, "%.*s", (int)i, path);
        struct stat info;
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            return at_fail(err, AT_IO, "%s: the folder cannot be made (%s)", part, strerror(errno));
        }
        if (stat(part, &info) != 0 || !S_ISDIR(info.st_mode)) {
            return at_fail(err, AT_IO, "%s: not a folder", part);
        }
    }
    return AT_OK;
}

/* FNV-1a over the key's parts. */
static uint64_t hash(const char *id, const char *backend, const char *version, const char *engine)
{
    const char *const parts[] = {id, backend, version, engine};
    uint64_t h = 14695981039346656037U;
    for (int i = 0; i < 4; i++) {
        for (const char *c = parts[i]; *c != '\0'; c++) {
            h = (h ^ (unsigned char)*c) * 1099511628211U;
        }
        h = (h ^ 0xff) * 1099511628211U;
    }
    return h;
}

/* engine NULL: any. */
static bool is_key(const at_record *r, const char *id, const char *backend, const char *version,
                   const char *engine)
{
    return strcmp(r->id, id) == 0 && strcmp(r->backend, backend) == 0 &&
           strcmp(r->version, version) == 0 && (engine == NULL || strcmp(r->engine, engine) == 0);
}

/* The place of the key in the table that its form asks for: of the record, or free. */
static size_t *find_slot(const at_results *r, const char *id, const char *backend,
                         const char *version, const char *engine)
{
    size_t *table = engine != NULL ? r->slot : r->first;
    size_t at = (size_t)hash(id, backend, version, engine != NULL ? engine : "") & (r->slots - 1);
    while (table[at] != 0 && !is_key(&r->record[table[at] - 1], id, backend, version, engine)) {
        at = (at + 1) & (r->slots - 1);
    }
    return &table[at];
}

static void index_record(at_results *r, size_t i)
{
    const at_record *k = &r->record[i];
    *find_slot(r, k->id, k->backend, k->version, k->engine) = i + 1;
    size_t *first = find_slot(r, k->id, k->backend, k->version, NULL);
    *first = *first != 0 ? *first : i + 1;
}

static at_status grow(at_results *r, at_error *err)
{
    size_t room = r->room ? 2 * r->room : 256;
    at_record *record = realloc(r->record, room * sizeof *record);
    size_t *slot = calloc(4 * room, sizeof *slot), *first = calloc(4 * room, sizeof *first);
    r->record = record != NULL ? record : r->record;
    if (record == NULL || slot == NULL || first == NULL) {
        free(slot);
        free(first);
        return at_fail(err, AT_NO_MEMORY, "no memory for %zu results", room);
    }
    free(r->slot);
    free(r->first);
    r->slot = slot;
    r->first = first;
    r->slots = 4 * room;
    r->room = room;
    for (size_t i = 0; i < r->size; i++) {
        index_record(r, i);
    }
    return AT_OK;
}

/* Takes the record over. */
static at_status keep(at_results *r, at_record *record, at_error *err)
{
    at_status status = r->size == r->room ? grow(r, err) : AT_OK;
    if (status == AT_OK &&
        *find_slot(r, record->id, record->backend, record->version, record->engine) != 0) {
        status = at_fail(err, AT_INVALID, "case %s on %s@%s, engine \"%s\", stands twice",
                         record->id, record->backend, record->version, record->engine);
    }
    if (status != AT_OK) {
        at_record_close(record);
        return status;
    }
    r->record[r->size] = *record;
    index_record(r, r->size++);
    return AT_OK;
}

static at_status read_line(at_results *r, const char *line, size_t length, size_t number,
                           at_error *err)
{
    char name[PATH_ROOM + 64];
    at_json *object = NULL;
    at_record record;
    (void)snprintf(name, sizeof name, "%s: line %zu", r->path, number);
    if (!at_utf8_valid(line, length)) {
        return at_fail(err, AT_INVALID, "%s: not UTF-8", name);
    }
    at_status status = at_json_parse(&object, name, line, length, err);
    if (status != AT_OK) {
        return at_error_flatten(err, status);
    }
    status = at_record_read(&record, object, err);
    if (status == AT_OK) {
        status = keep(r, &record, err);
    }
    at_json_close(object);
    return status == AT_OK ? AT_OK : at_error_flatten(err, at_fail_in(err, status, "%s", name));
}

/* Reads all complete lines; r->end becomes the offset behind the last of them. */
static at_status load(at_results *r, FILE *file, at_error *err)
{
    char *line = NULL;
    size_t room = 0, number = 0;
    at_status status = AT_OK;
    r->end = 0;
    for (ssize_t n; status == AT_OK && (n = getline(&line, &room, file)) > 0;) {
        if (line[n - 1] != '\n') {
            break;
        }
        status = read_line(r, line, (size_t)n - 1, ++number, err);
        r->end += n;
    }
    free(line);
    return status == AT_OK && ferror(file)
               ? at_fail(err, AT_IO, "%s: cannot be read (%s)", r->path, strerror(errno))
               : status;
}

static at_status make(at_results **out, const char *folder, at_error *err)
{
    at_results *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return at_fail(err, AT_NO_MEMORY, "no memory for results");
    }
    r->fd = -1;
    (void)snprintf(r->folder, sizeof r->folder, "%s", folder);
    (void)snprintf(r->path, sizeof r->path, "%s/results.jsonl", folder);
    *out = r;
    return grow(r, err);
}

static at_status open_locked(at_results *r, at_error *err)
{
    r->fd = open(r->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (r->fd < 0) {
        return at_fail(err, AT_IO, "%s: cannot be opened (%s)", r->path, strerror(errno));
    }
    if (flock(r->fd, LOCK_EX | LOCK_NB) != 0) {
        return at_fail(err, AT_IO, "%s: another attest is writing it; choose another folder",
                       r->path);
    }
    return AT_OK;
}

/* An earlier file makes room for a new one, and is kept. */
static at_status move_away(at_results *r, at_error *err)
{
    char old[PATH_ROOM + 32];
    struct stat info;
    if (fstat(r->fd, &info) != 0 || info.st_size == 0) {
        return AT_OK;
    }
    (void)snprintf(old, sizeof old, "%s/results.old.jsonl", r->folder);
    if (rename(r->path, old) != 0) {
        return at_fail(err, AT_IO, "%s: cannot be renamed (%s)", r->path, strerror(errno));
    }
    (void)close(r->fd);
    return open_locked(r, err);
}

static at_status resume_from(at_results *r, at_error *err)
{
    int fd = dup(r->fd);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (file == NULL) {
        return at_fail(err, AT_IO, "%s: cannot be read (%s)", r->path, strerror(errno));
    }
    at_status status = load(r, file, err);
    (void)fclose(file);
    if (status == AT_OK && ftruncate(r->fd, r->end) != 0) {
        status = at_fail(err, AT_IO, "%s: its torn last line cannot be cut off (%s)", r->path,
                         strerror(errno));
    }
    return status;
}

at_status at_results_open(at_results **out, const char *folder, bool resume, at_error *err)
{
    *out = NULL;
    at_results *r = NULL;
    AT_TRY(at_folder_make(folder, err));
    at_status status = make(&r, folder, err);
    if (status == AT_OK) {
        status = open_locked(r, err);
    }
    if (status == AT_OK) {
        status = resume ? resume_from(r, err) : move_away(r, err);
    }
    if (status != AT_OK) {
        at_results_close(r);
        return status;
    }
    *out = r;
    return AT_OK;
}

at_status at_results_read(at_results **out, const char *path, at_error *err)
{
    *out = NULL;
    at_results *r = NULL;
    struct stat info;
    at_status status = make(&r, path, err);
    if (status == AT_OK && (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))) {
        (void)snprintf(r->path, sizeof r->path, "%s", path);
    }
    FILE *file = status == AT_OK ? fopen(r->path, "r") : NULL;
    if (file != NULL) {
        status = load(r, file, err);
        (void)fclose(file);
    } else if (status == AT_OK) {
        status = at_fail(err, AT_IO, "%s: cannot be read (%s)", r->path, strerror(errno));
    }
    if (status != AT_OK) {
        at_results_close(r);
        return status;
    }
    *out = r;
    return AT_OK;
}

void at_results_close(at_results *r)
{
    if (r == NULL) {
        return;
    }
    for (size_t i = 0; i < r->size; i++) {
        at_record_close(&r->record[i]);
    }
    if (r->fd >= 0) {
        (void)close(r->fd);
    }
    free(r->record);
    free(r->slot);
    free(r->first);
    free(r);
}

/* One write: a line is there whole, or the file is put back to what it was. */
static at_status append(at_results *r, const char *text, size_t n, at_error *err)
{
    ssize_t got;
    do {
        got = write(r->fd, text, n);
    } while (got < 0 && errno == EINTR);
    if (got == (ssize_t)n) {
        r->end += got;
        return AT_OK;
    }
    const char *why = got < 0 ? strerror(errno) : "no space is left";
    if (got > 0 && ftruncate(r->fd, r->end) != 0) {
        why = "no space is left, and the torn line stays"; /* --resume cuts it off */
    }
    return at_fail(err, AT_IO, "%s: a result cannot be written (%s); what stands there is kept",
                   r->path, why);
}

at_status at_results_add(at_results *r, const at_json *line, at_error *err)
{
    at_record record;
    AT_ASSERT(r->fd >= 0);
    AT_TRY(at_record_read(&record, line, err));
    AT_TRY(keep(r, &record, err));
    char *text = at_json_print(line, false);
    at_text_clean(text);
    size_t n = strlen(text);
    text[n++] = '\n'; /* in the place of the NUL */
    at_status status = append(r, text, n, err);
    free(text);
    return status;
}

size_t at_results_size(const at_results *r)
{
    return r->size;
}

const at_record *at_results_at(const at_results *r, size_t i)
{
    AT_ASSERT(i < r->size);
    return &r->record[i];
}

const at_record *at_results_find(const at_results *r, const char *id, const char *backend,
                                 const char *version, const char *engine)
{
    size_t at = *find_slot(r, id, backend, version, engine);
    return at != 0 ? &r->record[at - 1] : NULL;
}

static void replace(char **text, const char *with)
{
    char *copy = strdup(with);
    AT_ASSERT(copy != NULL);
    free(*text);
    *text = copy;
}

void at_results_waive(at_results *r, size_t i, at_kind kind, const char *issue,
                      const char *signature)
{
    AT_ASSERT(i < r->size);
    at_record *k = &r->record[i];
    k->kind = kind;
    replace(&k->issue, issue);
    if (k->signature[0] == '\0') {
        replace(&k->signature, signature);
    }
}

const char *at_results_folder(const at_results *r)
{
    return r->folder;
}

at_status at_file_replace(const char *folder, const char *name, const char *text, at_error *err)
{
    char path[PATH_ROOM + 256], draft[PATH_ROOM + 264];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)snprintf(draft, sizeof draft, "%s.draft", path);
    FILE *file = fopen(draft, "w");
    bool good = file != NULL && fputs(text, file) >= 0;
    good = file != NULL && fclose(file) == 0 && good;
    if (!good || rename(draft, path) != 0) {
        at_status status = at_fail(err, AT_IO, "%s: cannot be written (%s)", path, strerror(errno));
        (void)remove(draft);
        return status;
    }
    return AT_OK;
}
