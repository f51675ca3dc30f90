/* SPDX-License-Identifier: MIT */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H
/* Errors: a code for the program, a text for people. Yes/no answers never travel in an enum err. */
#include <stdarg.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(string_index, first_index) __attribute__((format(printf, string_index, first_index)))

/* Code, negative and stable; name, as it appears in logs; what it means. */
#define ERROR_CODES(X)                                                                                       \
    X(ERR_RANGE, -1, "range", "a value is outside its bounds")                                               \
    X(ERR_NOMEM, -2, "no-memory", "memory could not be allocated")                                           \
    X(ERR_PARSE, -3, "parse", "text or bytes do not have the expected form")                                 \
    X(ERR_IO, -4, "io", "a file or socket failed")                                                           \
    X(ERR_TIMEOUT, -5, "timeout", "a deadline passed")                                                       \
    X(ERR_UNREACHABLE, -6, "unreachable", "Redis or Postgres could not be reached")                          \
    X(ERR_CONFLICT, -7, "conflict", "the state does not allow this now")                                     \
    X(ERR_FENCED, -8, "fenced", "the view changed: reload and start again")                                  \
    X(ERR_NOT_FOUND, -9, "not-found", "the named thing does not exist")                                      \
    X(ERR_EXISTS, -10, "exists", "the named thing exists already")                                           \
    X(ERR_LOST, -11, "lost", "data in Redis was lost, truncated or is foreign")                              \
    X(ERR_BUSY, -12, "busy", "somebody else holds the mutex")                                                \
    X(ERR_CANCELLED, -13, "cancelled", "an operator or a shutdown stopped the work")                         \
    X(ERR_MUTEX_LOST, -14, "mutex-lost", "the mutex is held by another token")                               \
    X(ERR_REFUSED, -15, "refused", "a server refused the request")                                           \
    X(ERR_CONFIG, -16, "config", "the configuration or the schema is not usable")                            \
    X(ERR_FULL, -17, "full", "the filter has as many items as it was made for")                              \
    X(ERR_WRONG_TYPE, -18, "wrong-type", "a key in Redis is of another type than ours")                      \
    X(ERR_FORMAT, -19, "format", "a later version wrote it, in a form that this one does not know")          \
    X(ERR_CHANGED, -20, "changed", "the tables of the source are others than they were")                     \
    X(ERR_ASIDE, -21, "aside", "this may take long: it must be done where nobody waits")

enum err {
    ERR_OK = 0,
#define X(code, value, name, meaning) code = (value),
    ERROR_CODES(X)
#undef X
};

/* Where a callee puts its text. Callers own it; NULL is allowed where the text is not wanted. */
struct error {
    char text[512];
};

/* Write the text (cut at the size of @e->text) and return @code. */
enum err error_set(struct error *e, enum err code, const char *format, ...) PRINTF_LIKE(3, 4);

/* Put "prefix: " before the text that is there and return @code: each boundary adds what it was doing. */
enum err error_prefix(struct error *e, enum err code, const char *format, ...) PRINTF_LIKE(3, 4);

/* The code's stable name, e.g. "timeout"; "ok" for 0. Static storage. */
const char *error_name(enum err code);
#endif
