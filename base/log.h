/* SPDX-License-Identifier: MIT */
#ifndef BASE_LOG_H
#define BASE_LOG_H
/* Structured log: one line per event, in logfmt or JSON, to standard error. Safe from any thread. Each place
 * in the source is rate-limited, and its suppressed lines are counted. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

void log_set_level(enum log_level level);
void log_set_format(enum log_format format);

/* A place in the source that writes lines: at most LOG_BURST in LOG_WINDOW_MS. The next line from that place,
 * or log_tick(), reports how many were suppressed. Static; zero-initialised. */
enum { LOG_BURST = 300, LOG_WINDOW_MS = 10 * 1000 };
struct log_site {
    atomic_uint_fast64_t began_ms; /* start of the window; 0: no window yet */
    atomic_uint_fast64_t lines;    /* in the window */
    atomic_uint_fast64_t suppressed;
    _Atomic(const char *) event;
    _Atomic(struct log_site *) next; /* list of the places that have ever suppressed a line */
    atomic_bool listed;
};

/* Writes "ts=... level=... event=@event <fields>". @format gives the fields, e.g. "filter=%s epoch=%lu"; pass
 * values that may hold blanks or quotes through log_quote(). Control characters are replaced by blanks, so an
 * event stays one line. */
void log_write(struct log_site *site, enum log_level level, const char *event, const char *format, ...)
    PRINTF_LIKE(4, 5);

#define log_at(level, event, ...)                                                                            \
    do {                                                                                                     \
        static struct log_site log_site_;                                                                    \
        log_write(&log_site_, (level), event, __VA_ARGS__);                                                  \
    } while (0)
#define log_debug(event, ...) log_at(LOG_LEVEL_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) log_at(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_warn(event, ...) log_at(LOG_LEVEL_WARN, event, __VA_ARGS__)
#define log_error(event, ...) log_at(LOG_LEVEL_ERROR, event, __VA_ARGS__)

/* Report the suppressed lines of windows that have ended. Call it from time to time. */
void log_tick(void);

/* Lines since the process began. */
uint64_t log_lines(enum log_level level);
uint64_t log_suppressed(void);
const char *log_level_name(enum log_level level);

/* @line, of @length bytes of logfmt, as a JSON object: numbers stay numbers, all other values become strings,
 * invalid UTF-8 becomes U+FFFD. Returns the length; with room for LOG_JSON_MAX(@length) bytes the object is
 * never cut. Pure. */
#define LOG_JSON_MAX(length) (8 * (length) + 16)
size_t log_json(char *out, size_t size, const char *line, size_t length);

/* @text in double quotes with " and \ escaped, cut at 500 bytes, in one of four thread-local buffers that are
 * used in turn. */
const char *log_quote(const char *text);
#endif
