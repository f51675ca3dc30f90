/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static atomic_int threshold = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
    atomic_store(&threshold, (int)level);
}

bool log_level_parse(const char *name, enum log_level *out)
{
    for (int i = 0; i <= LOG_LEVEL_ERROR; i++)
        if (strcasecmp(name, level_names[i]) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    return false;
}

void log_write(enum log_level level, const char *event, const char *format, ...)
{
    if ((int)level < atomic_load_explicit(&threshold, memory_order_relaxed))
        return;
    char line[2048];
    struct timespec now;
    struct tm tm;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, sizeof(line), "ts=%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, sizeof(line) - n, ".%03ldZ level=%s event=%s ", now.tv_nsec / 1000000,
                          level_names[level], event);
    va_list ap;
    va_start(ap, format);
    int m = vsnprintf(line + n, sizeof(line) - n - 1, format, ap);
    va_end(ap);
    if (m > 0)
        n += (size_t)m < sizeof(line) - n - 1 ? (size_t)m : sizeof(line) - n - 2;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < ' ')
            line[i] = ' ';
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written; /* there is nowhere to complain to */
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
