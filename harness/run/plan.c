#include "harness/run/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/selector.h"

/* The plan keeps a copy until it is closed. */
static const char *keep(at_plan *plan, const char *text)
{
    if ((plan->text_count & (plan->text_count + 1)) == 0) {
        char **larger = realloc(plan->text, (2 * plan->text_count + 2) * sizeof *larger);
        AT_ASSERT(larger != NULL);
        plan->text = larger;
    }
    char *copy = strdup(text);
    AT_ASSERT(copy != NULL);
    plan->text[plan->text_count++] = copy;
    return copy;
}

static at_item *append(at_plan *plan, const at_item *item)
{
    if (plan->size == plan->room) {
        plan->room = plan->room ? 2 * plan->room : 256;
        at_item *larger = realloc(plan->item, plan->room * sizeof *larger);
        AT_ASSERT(larger != NULL);
        plan->item = larger;
    }
    plan->item[plan->size] = *item;
    return &plan->item[plan->size++];
}

/* A selector that is open for the group at hand. */
typedef struct open_selector {
    const at_suite_plan *group;
    at_env *env;
    at_selector *selector;
} open_selector;

typedef struct maker {
    at_plan *plan;
    const at_hosts *hosts;
    const at_plan_options *options;
    open_selector open;
    size_t case_first; /* the first item of the case at hand */
} maker;

static void close_selector(open_selector *o)
{
    at_selector_close(o->selector);
    at_env_close(o->env);
    *o = (open_selector){0};
}

static at_status use_selector(maker *m, const at_suite_plan *group, at_error *err)
{
    if (m->open.group == group) {
        return AT_OK;
    }
    close_selector(&m->open);
    if (group->env[0] != '\0') {
        AT_TRY(at_env_set(&m->open.env, group->env, err));
    }
    AT_TRY(
        at_selector_open(&m->open.selector, m->options->corpus, group->selector, m->open.env, err));
    m->open.group = group;
    return AT_OK;
}

/* Takes the next word of a comma list; false at its end. */
static bool next_word(const char **list, char *word, size_t room)
{
    *list += strspn(*list, ", ");
    size_t n = strcspn(*list, ", ");
    (void)snprintf(word, room, "%.*s", (int)n, *list);
    *list += n;
    return n > 0;
}

static at_status unknown_backend(const at_hosts *hosts, const char *name, at_error *err)
{
    char known[300] = "";
    size_t used = 0;
    for (int h = 0; h < hosts->n; h++) {
        for (size_t i = 0; i < hosts->host[h].backend_count && used < sizeof known; i++) {
            const at_backend_info *b = &hosts->host[h].backend[i];
            if (!(b->promises & AT_MUTANT)) {
                used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                         used ? ", " : "", b->name);
            }
        }
    }
    return at_fail(err, AT_INVALID, "no backend \"%s\"; at hand are %s", name, known);
}

/* The item of (case at hand, backend), made when it is missing. */
static at_status find_item(maker *m, at_item **out, const at_case *c, const at_suite_plan *group,
                           const char *backend, at_error *err)
{
    at_item item = {.c = c, .engine = "", .admitted_by = ""};
    item.backend = at_hosts_find(m->hosts, backend, &item.host);
    if (item.backend == NULL) {
        return unknown_backend(m->hosts, backend, err);
    }
    for (size_t i = m->case_first; i < m->plan->size; i++) {
        if (m->plan->item[i].backend == item.backend) {
            *out = &m->plan->item[i];
            return AT_OK;
        }
    }
    const char *engine = m->options->engine != NULL ? m->options->engine : "first";
    item.all_engines = strcmp(engine, "all") == 0;
    item.engine = item.all_engines || strcmp(engine, "first") == 0 ? "" : engine;
    item.modelled = (item.backend->promises & AT_MODELLED) || group->modelled;
    at_case_id(c, item.id);
    *out = append(m->plan, &item);
    return AT_OK;
}

/* A group without a selector asks nobody: admission is the backend's own claim. */
static at_status add_plain(maker *m, const at_case *c, const at_suite_plan *group,
                           const char *backend, at_error *err)
{
    at_item *item = NULL;
    AT_TRY(find_item(m, &item, c, group, backend, err));
    item->refusal = NULL;
    return AT_OK;
}

/* What the selector says about its own name `served` becomes the item's word. */
static at_status add_selected(maker *m, const at_case *c, const at_suite_plan *group,
                              const at_selection *s, const char *served, const char *backend,
                              at_error *err)
{
    size_t before = m->plan->size;
    at_item *item = NULL;
    AT_TRY(find_item(m, &item, c, group, backend, err));
    bool fresh = m->plan->size > before, admitted = false;
    for (int i = 0; i < s->admitted_count; i++) {
        admitted = admitted || strcmp(s->admitted[i], served) == 0;
    }
    char text[1024];
    if (admitted) {
        const char *gap = item->admitted_by[0] != '\0' ? "\n" : "";
        (void)snprintf(text, sizeof text, "%s%s%s", item->admitted_by, gap, group->selector);
        item->admitted_by = keep(m->plan, text);
        item->refusal = NULL;
        return AT_OK;
    }
    (void)snprintf(text, sizeof text, "%s knows no backend \"%s\"", group->selector, served);
    for (int i = 0; i < s->refused_count; i++) {
        if (strcmp(s->refused[i].backend, served) == 0) {
            (void)snprintf(text, sizeof text, "%s refuses %s, rule %s: %s", group->selector, served,
                           s->refused[i].rule, s->refused[i].why);
        }
    }
    if (fresh) {
        item->refusal = keep(m->plan, text);
    }
    return AT_OK;
}

static bool is_wanted(const at_plan_options *o, const char *backend)
{
    char word[AT_WORD_TEXT];
    for (const char *list = o->backends; list != NULL && next_word(&list, word, sizeof word);) {
        if (strcmp(word, backend) == 0) {
            return true;
        }
    }
    return o->backends == NULL;
}

/* Every `selector's name=backend` pair of the group. */
static at_status add_served(maker *m, const at_case *c, const at_suite_plan *group, at_error *err)
{
    at_selection selection;
    char pair[2 * AT_WORD_TEXT];
    AT_TRY(use_selector(m, group, err));
    AT_TRY(at_selector_decide(&selection, m->open.selector, c, err));
    for (const char *list = group->serves; next_word(&list, pair, sizeof pair);) {
        char *equals = strchr(pair, '=');
        if (equals == NULL) {
            return at_fail(err, AT_INVALID, "suite %s, group %s: \"serves\" accepts NAME=BACKEND",
                           group->suite, group->group);
        }
        *equals = '\0';
        if (is_wanted(m->options, equals + 1)) {
            AT_TRY(add_selected(m, c, group, &selection, pair, equals + 1, err));
        }
    }
    return AT_OK;
}

static at_status add_live(maker *m, const at_case *c, const at_suite_plan *group, at_error *err)
{
    for (int h = 0; h < m->hosts->n; h++) {
        for (size_t i = 0; i < m->hosts->host[h].backend_count; i++) {
            const at_backend_info *b = &m->hosts->host[h].backend[i];
            if (!(b->promises & (AT_MODELLED | AT_MUTANT))) {
                AT_TRY(add_plain(m, c, group, b->name, err));
            }
        }
    }
    return AT_OK;
}

/* Does a selector speak for the backend in this group? */
static bool is_served(const at_suite_plan *group, const char *backend)
{
    char pair[2 * AT_WORD_TEXT];
    for (const char *list = group->serves; next_word(&list, pair, sizeof pair);) {
        const char *equals = strchr(pair, '=');
        if (equals != NULL && strcmp(equals + 1, backend) == 0) {
            return group->selector[0] != '\0';
        }
    }
    return false;
}

static at_status add_case(maker *m, const at_case *c, const at_suite_plan *group, at_error *err)
{
    bool served = group->selector[0] != '\0' && group->serves[0] != '\0';
    if (served) {
        AT_TRY(add_served(m, c, group, err));
    }
    char word[AT_WORD_TEXT];
    for (const char *list = m->options->backends;
         list != NULL && next_word(&list, word, sizeof word);) {
        if (!is_served(group, word)) {
            AT_TRY(add_plain(m, c, group, word, err));
        }
    }
    if (m->options->backends != NULL) {
        return AT_OK;
    }
    for (int i = 0; i < group->backend_count; i++) {
        if (!is_served(group, group->backend[i])) {
            AT_TRY(add_plain(m, c, group, group->backend[i], err));
        }
    }
    return group->backend_count == 0 && !served ? add_live(m, c, group, err) : AT_OK;
}

static int compare_items(const void *a, const void *b)
{
    const at_item *x = a, *y = b;
    int order = strcmp(x->id, y->id);
    return order != 0 ? order : x->backend < y->backend ? -1 : x->backend > y->backend;
}

/* The same case may stand in several groups: makes one item of equal (case, backend) pairs, in the
 * place of the first. */
static void merge_equal(at_plan *plan)
{
    size_t n = plan->size, kept = 0;
    struct place {
        at_item item;
        size_t at;
    } *sorted = malloc((n + 1) * sizeof *sorted);
    bool *drop = calloc(n + 1, sizeof *drop);
    AT_ASSERT(sorted != NULL && drop != NULL);
    for (size_t i = 0; i < n; i++) {
        sorted[i].item = plan->item[i];
        sorted[i].at = i;
    }
    qsort(sorted, n, sizeof *sorted, compare_items);
    for (size_t i = 0, end = 0; i < n; i = end) {
        size_t first = sorted[i].at;
        for (end = i + 1; end < n && compare_items(&sorted[i], &sorted[end]) == 0; end++) {
            first = sorted[end].at < first ? sorted[end].at : first;
        }
        at_item *keeper = &plan->item[first];
        for (size_t k = i; k < end; k++) {
            const at_item *other = &sorted[k].item;
            if (sorted[k].at == first) {
                continue;
            }
            drop[sorted[k].at] = true;
            keeper->refusal = other->refusal == NULL ? NULL : keeper->refusal;
            if (other->admitted_by[0] != '\0' &&
                strstr(keeper->admitted_by, other->admitted_by) == NULL) {
                char text[1024];
                (void)snprintf(text, sizeof text, "%s%s%s", keeper->admitted_by,
                               keeper->admitted_by[0] != '\0' ? "\n" : "", other->admitted_by);
                keeper->admitted_by = keep(plan, text);
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (!drop[i]) {
            plan->item[kept++] = plan->item[i];
        }
    }
    plan->size = kept;
    free(drop);
    free(sorted);
}

static at_status check_backends(const at_hosts *hosts, const at_plan_options *o, at_error *err)
{
    char word[AT_WORD_TEXT];
    int host = 0;
    for (const char *list = o->backends; list != NULL && next_word(&list, word, sizeof word);) {
        if (at_hosts_find(hosts, word, &host) == NULL) {
            return unknown_backend(hosts, word, err);
        }
    }
    return AT_OK;
}

at_status at_plan_make(at_plan *out, const at_suite *suite, const at_hosts *hosts,
                       const at_plan_options *options, at_error *err)
{
    *out = (at_plan){0};
    maker m = {.plan = out, .hosts = hosts, .options = options};
    at_status status = check_backends(hosts, options, err);
    char last[AT_ID_TEXT] = "", id[AT_ID_TEXT];
    for (size_t i = 0; status == AT_OK && i < options->chosen_count; i++) {
        const at_suite_plan *group = NULL;
        const at_case *c = at_suite_case(suite, options->chosen[i], &group);
        at_case_id(c, id);
        if (strcmp(id, last) != 0) {
            m.case_first = out->size;
            memcpy(last, id, sizeof last);
        }
        status = add_case(&m, c, group, err);
    }
    close_selector(&m.open);
    if (status != AT_OK) {
        at_plan_close(out);
        return status;
    }
    merge_equal(out);
    for (size_t i = 0; i < out->size; i++) {
        out->cases += i == 0 || strcmp(out->item[i].id, out->item[i - 1].id) != 0;
    }
    return AT_OK;
}

void at_plan_close(at_plan *plan)
{
    for (size_t i = 0; i < plan->text_count; i++) {
        free(plan->text[i]);
    }
    free(plan->text);
    free(plan->item);
    *plan = (at_plan){0};
}

/* Marks the item done, or puts one for each missing engine behind the others. */
static void resume_item(at_plan *plan, at_plan *extra, at_item *item, const at_results *results)
{
    const char *version = item->backend->version;
    const at_record *any = at_results_find(results, item->id, item->backend->name, version, NULL);
    if (any == NULL) {
        return;
    }
    bool refused = at_results_find(results, item->id, item->backend->name, version, "") != NULL;
    if (refused || item->engine[0] != '\0') {
        item->done = refused || at_results_find(results, item->id, item->backend->name, version,
                                                item->engine) != NULL;
        return;
    }
    char name[AT_ENGINE_NAME];
    item->done = any->engines[0] != '\0';
    for (const char *list = any->engines; *list != '\0';) {
        size_t n = strcspn(list, "\n");
        (void)snprintf(name, sizeof name, "%.*s", (int)n, list);
        list += n + (list[n] == '\n');
        if (at_results_find(results, item->id, item->backend->name, version, name) == NULL) {
            at_item one = *item;
            one.engine = keep(plan, name);
            one.all_engines = one.done = false;
            (void)append(extra, &one);
        }
        if (!item->all_engines) {
            break;
        }
    }
}

void at_plan_resume(at_plan *plan, const at_results *results)
{
    at_plan extra = {0};
    for (size_t i = 0; i < plan->size; i++) {
        resume_item(plan, &extra, &plan->item[i], results);
        plan->done += plan->item[i].done;
    }
    for (size_t i = 0; i < extra.size; i++) {
        (void)append(plan, &extra.item[i]);
    }
    free(extra.item);
}
