/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2048 };

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static atomic_int threshold = LOG_LEVEL_INFO, form = LOG_FORMAT_LOGFMT;
static atomic_uint_fast64_t written[LOG_LEVEL_ERROR + 1], left_out;
static _Atomic(struct log_site *) sites;

void log_set_level(enum log_level level)
{
    atomic_store(&threshold, (int)level);
}

void log_set_format(enum log_format format)
{
    atomic_store(&form, (int)format);
}

const char *log_level_name(enum log_level level)
{
    return level_names[level];
}

uint64_t log_lines(enum log_level level)
{
    return atomic_load_explicit(&written[level], memory_order_relaxed);
}

uint64_t log_suppressed(void)
{
    return atomic_load_explicit(&left_out, memory_order_relaxed);
}

/* --- suppressed lines --- */

static void list(struct log_site *site)
{
    if (atomic_exchange(&site->listed, true))
        return;
    struct log_site *first = atomic_load(&sites);
    do
        atomic_store(&site->next, first);
    while (!atomic_compare_exchange_weak(&sites, &first, site));
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 + 1;
}

/* True if the place may write a line. Threads that race at the end of a window may write a few lines more. */
static bool may_write(struct log_site *site, const char *event)
{
    uint64_t now = now_ms(), began = atomic_load(&site->began_ms);
    if (began == 0 || now - began >= LOG_WINDOW_MS) {
        atomic_store(&site->began_ms, now);
        atomic_store(&site->lines, 0);
    }
    if (atomic_fetch_add(&site->lines, 1) < LOG_BURST)
        return true;
    atomic_fetch_add(&site->suppressed, 1);
    atomic_fetch_add_explicit(&left_out, 1, memory_order_relaxed);
    atomic_store(&site->event, event);
    list(site);
    return false;
}

void log_tick(void)
{
    uint64_t now = now_ms();
    for (struct log_site *s = atomic_load(&sites); s != NULL; s = atomic_load(&s->next)) {
        if (now - atomic_load(&s->began_ms) < LOG_WINDOW_MS)
            continue;
        uint64_t lines = atomic_exchange(&s->suppressed, 0);
        if (lines > 0)
            log_write(NULL, LOG_LEVEL_WARN, "suppressed", "of=%s lines=%" PRIu64, atomic_load(&s->event),
                      lines);
    }
}

/* --- lines --- */

static void put_line(char *line, size_t n)
{
    char json[LOG_JSON_MAX(LINE_MAX_BYTES) + 1];
    if (atomic_load_explicit(&form, memory_order_relaxed) == LOG_FORMAT_JSON) {
        n = log_json(json, sizeof(json) - 1, line, n);
        line = json;
    }
    line[n++] = '\n';
    ssize_t put = write(STDERR_FILENO, line, n);
    (void)put; /* an error here cannot be reported anywhere */
}

static size_t put_head(char line[LINE_MAX_BYTES], enum log_level level, const char *event)
{
    struct timespec now;
    struct tm tm;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, LINE_MAX_BYTES, "ts=%Y-%m-%dT%H:%M:%S", &tm);
    return n + (size_t)snprintf(line + n, LINE_MAX_BYTES - n, ".%03ldZ level=%s event=%s ",
                                now.tv_nsec / 1000000, level_names[level], event);
}

void log_write(struct log_site *site, enum log_level level, const char *event, const char *format, ...)
{
    enum { TAIL = 48 }; /* bytes for " suppressed=<count>" */
    char line[LINE_MAX_BYTES];
    if ((int)level < atomic_load_explicit(&threshold, memory_order_relaxed))
        return;
    if (site != NULL && !may_write(site, event))
        return;
    size_t n = put_head(line, level, event), room = sizeof(line) - TAIL - n;
    va_list ap;
    va_start(ap, format);
    int m = vsnprintf(line + n, room, format, ap);
    va_end(ap);
    if (m > 0)
        n += (size_t)m < room ? (size_t)m : room - 1;
    uint64_t lines = site == NULL ? 0 : atomic_exchange(&site->suppressed, 0);
    if (lines > 0)
        n += (size_t)snprintf(line + n, TAIL, " suppressed=%" PRIu64, lines);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < ' ')
            line[i] = ' ';
    atomic_fetch_add_explicit(&written[level], 1, memory_order_relaxed);
    put_line(line, n);
}

const char *log_quote(const char *text)
{
    enum { SLOTS = 4, ROOM = 512 };
    static _Thread_local char slots[SLOTS][ROOM];
    static _Thread_local unsigned next;
    char *out = slots[next++ % SLOTS];
    size_t n = 0;
    out[n++] = '"';
    for (const char *p = text; *p != '\0' && n < ROOM - 4; p++) {
        if (*p == '"' || *p == '\\')
            out[n++] = '\\';
        out[n++] = *p;
    }
    out[n++] = '"';
    out[n] = '\0';
    return out;
}
