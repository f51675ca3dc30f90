/* SPDX-License-Identifier: MIT */
#ifndef BASE_LOG_H
#define BASE_LOG_H
/* Structured log: one line an event, in logfmt, to standard error. Safe from any thread. */
#include "base/error.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

void log_set_level(enum log_level level);

/* "debug", "info", "warn" or "error" to a level; false where @name is none of these. */
_Bool log_level_parse(const char *name, enum log_level *out);

/* ts=... level=... event=@event <fields>. @format gives the fields, e.g. "filter=%s epoch=%lu"; values that
 * may hold blanks or quotes go through log_quote(). Control characters are replaced, so a line stays a line.
 */
void log_write(enum log_level level, const char *event, const char *format, ...) PRINTF_LIKE(3, 4);

#define log_debug(event, ...) log_write(LOG_LEVEL_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) log_write(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_warn(event, ...) log_write(LOG_LEVEL_WARN, event, __VA_ARGS__)
#define log_error(event, ...) log_write(LOG_LEVEL_ERROR, event, __VA_ARGS__)

/* @text in double quotes with " and \ escaped, in one of a few rotating thread-local buffers (cut at 500
 * bytes). */
const char *log_quote(const char *text);
#endif
