/* SPDX-License-Identifier: MIT */
#ifndef BASE_LOG_H
#define BASE_LOG_H
/* Structured log: one line an event, in logfmt or JSON, to standard error. Safe from any thread. What one
 * place of the source writes again and again is limited, and counted. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

void log_set_level(enum log_level level);
void log_set_format(enum log_format format);

/* A place of the source that writes lines: at most LOG_BURST in LOG_WINDOW_MS. How many were left out is told
 * by the next line that is written there, or by log_tick(). Static; zero-initialised. */
enum { LOG_BURST = 300, LOG_WINDOW_MS = 10 * 1000 };
struct log_site {
    atomic_uint_fast64_t began_ms; /* of its window; 0: none yet */
    atomic_uint_fast64_t lines;    /* in it */
    atomic_uint_fast64_t suppressed;
    _Atomic(const char *) event;
    _Atomic(struct log_site *) next; /* of those that have ever left something out */
    atomic_bool listed;
};

/* ts=... level=... event=@event <fields>. @format gives the fields, e.g. "filter=%s epoch=%lu"; values that
 * may hold blanks or quotes go through log_quote(). Control characters are replaced, so a line stays a line.
 */
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

/* Tell of lines that were left out in windows that are over; to be called from time to time. */
void log_tick(void);

/* Since the process began. */
uint64_t log_lines(enum log_level level);
uint64_t log_suppressed(void);
/* "debug", ... */
const char *log_level_name(enum log_level level);

/* @line, of @length bytes of logfmt, as a JSON object: numbers are numbers, all else strings, what is no
 * UTF-8 becomes U+FFFD. Returns its length; with room for LOG_JSON_MAX(@length) bytes it is never cut. Pure.
 */
#define LOG_JSON_MAX(length) (8 * (length) + 16)
size_t log_json(char *out, size_t size, const char *line, size_t length);

/* @text in double quotes with " and \ escaped, in one of a few rotating thread-local buffers (cut at 500
 * bytes). */
const char *log_quote(const char *text);
#endif
