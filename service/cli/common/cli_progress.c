/* SPDX-License-Identifier: MIT */
#include "service/cli/common/cli_progress.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "service/cli/common/cli_output.h"

enum { DRAW_US = 200000, LINE_US = 5000000, BAR_WIDTH = 24 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal UNUSED)
{
    interrupted = 1;
}

void progress_catch_interrupt(bool all)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = all ? 0 : (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &action, NULL);
    if (all)
        (void)sigaction(SIGTERM, &action, NULL);
}

bool progress_interrupted(void)
{
    return interrupted != 0;
}

void progress_begin(struct progress *p, const char *what, uint64_t total, uint64_t before)
{
    uint64_t now = clock_mono_us();
    *p = (struct progress){.what = what,
                           .total = total,
                           .terminal = isatty(STDERR_FILENO) == 1,
                           .started_us = now,
                           .shown_us = now,
                           .before = before};
}

double progress_seconds(const struct progress *p)
{
    return (double)(clock_mono_us() - p->started_us) / 1e6;
}

static void draw(struct progress *p, uint64_t bytes, uint64_t count)
{
    char a[OUTPUT_TEXT_SIZE], b[OUTPUT_TEXT_SIZE];
    SCOPED(buffer_fini) struct buffer line = {0};
    double seconds = progress_seconds(p);
    double rate = seconds > 0 ? (double)(bytes - p->before) / seconds : 0;
    if (p->total != 0) {
        double done = (double)bytes / (double)p->total;
        buffer_printf(&line, "%s %s  ", output_bar(done, BAR_WIDTH, a), output_percent(done, b));
    }
    buffer_printf(&line, "%s %s  %s", number_grouped(count, a), p->what, output_bytes(bytes, b));
    buffer_printf(&line, "  %s/s", output_bytes((uint64_t)rate, a));
    if (strcmp(p->what, "keys") == 0 && seconds > 0)
        buffer_printf(&line, "  %s keys/s", number_grouped((uint64_t)((double)count / seconds), a));
    if (p->total > bytes && rate > 0)
        buffer_printf(&line, "  ETA %s", output_duration((uint64_t)((double)(p->total - bytes) / rate), a));
    (void)fprintf(stderr, p->terminal ? "\r%s\033[K" : "%s\n", buffer_text(&line));
    (void)fflush(stderr);
    p->drawn = p->terminal;
}

void progress_show(struct progress *p, uint64_t bytes, uint64_t count)
{
    uint64_t now = clock_mono_us();
    if (now - p->shown_us < (p->terminal ? DRAW_US : LINE_US))
        return;
    p->shown_us = now;
    draw(p, bytes, count);
}

void progress_end(struct progress *p)
{
    if (p->drawn)
        (void)fputs("\r\033[K", stderr);
    p->drawn = false;
}
