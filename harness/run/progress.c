#include "harness/run/progress.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "harness/run/process.h"

enum { BAR = 24, FAILURES_SHOWN = 20 };
#define LINE_SECONDS 10.0

void at_progress_init(at_progress *p, FILE *out, bool bar, bool quiet, size_t total)
{
    *p = (at_progress){.out = quiet ? NULL : out, .bar = bar, .total = total};
    p->start = p->last = at_clock();
}

void at_progress_launched(at_progress *p, const char *backend, const char *case_text)
{
    (void)snprintf(p->now, sizeof p->now, "%s %s", backend, case_text);
}

void at_progress_clear(at_progress *p)
{
    if (p->shown) {
        (void)fputs("\r\033[K", p->out);
        (void)fflush(p->out);
        p->shown = false;
    }
}

void at_progress_done(at_progress *p, const at_record *r)
{
    p->done++;
    p->waived += r->kind == AT_WAIVED;
    if (at_kind_class(r->kind) != AT_CLASS_FAIL && at_kind_class(r->kind) != AT_CLASS_ERROR) {
        return;
    }
    p->failed++;
    if (p->out != NULL && p->failures_shown < FAILURES_SHOWN) {
        p->failures_shown++;
        at_progress_clear(p);
        (void)fprintf(p->out, "%s %s %s%s%s %s\n", at_kind_names[r->kind], r->backend,
                      at_step_names[r->step], r->tensor >= 0 ? "." : "",
                      r->tensor >= 0 ? at_tensor_names[r->tensor] : "", r->case_text);
        if (p->failures_shown == FAILURES_SHOWN) {
            (void)fputs("(more failures are in results.jsonl)\n", p->out);
        }
        (void)fflush(p->out);
    }
}

/* "1h02m", "3m07s", "12s". */
static void print_span(char *out, size_t room, double seconds)
{
    long s = seconds < 1e6 ? (long)(seconds + 0.5) : 1000000;
    if (s >= 3600) {
        (void)snprintf(out, room, "%ldh%02ldm", s / 3600, s / 60 % 60);
    } else if (s >= 60) {
        (void)snprintf(out, room, "%ldm%02lds", s / 60, s % 60);
    } else {
        (void)snprintf(out, room, "%lds", s);
    }
}

static size_t width_of(FILE *out)
{
    struct winsize size;
    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

void at_progress_tick(at_progress *p)
{
    double now = at_clock(), age = now - p->start;
    if (p->out == NULL || p->total == 0 || (!p->bar && now - p->last < LINE_SECONDS)) {
        return;
    }
    char eta[32] = "?", line[512], bar[BAR + 1];
    double rate = age > 0 ? (double)p->done / age : 0;
    if (p->done > 0) {
        print_span(eta, sizeof eta,
                   (double)(p->total - (p->done < p->total ? p->done : p->total)) / rate);
    }
    size_t full = p->done < p->total ? BAR * p->done / p->total : BAR;
    memset(bar, '.', BAR);
    memset(bar, '#', full);
    bar[BAR] = '\0';
    (void)snprintf(line, sizeof line, "%s%s%zu/%zu  %.0f/s  eta %s  %zu failed%s  %s",
                   p->bar ? bar : "", p->bar ? "  " : "", p->done, p->total, rate, eta, p->failed,
                   p->waived > 0 ? " (besides waived ones)" : "", p->now);
    p->last = now;
    if (p->bar) {
        size_t width = width_of(p->out);
        (void)fprintf(p->out, "\r%.*s\033[K", (int)(width - 1), line);
        p->shown = true;
    } else {
        (void)fprintf(p->out, "%s\n", line);
    }
    (void)fflush(p->out);
}
