/* SPDX-License-Identifier: MIT */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H
/* Errors: a code for the program, a text for people. A yes/no answer is a bool, never an enum err. */
#include <stdarg.h>
#include <stddef.h>
#include "base/scope.h"

#define MUST_CHECK __attribute__((warn_unused_result))
#define UNUSED __attribute__((unused)) /* a parameter that the type of a function asks for */
#define PRINTF_LIKE(string_index, first_index) __attribute__((format(printf, string_index, first_index)))

/* One row for each code: its number, negative and stable; its name in logs, HTTP and JSON; the beginning of
 * an error reply in RESP (a text of RedisBloom's, which has blanks, is the whole reply); the HTTP status; the
 * exit status of the command line; its meaning; the remedy. Number, name and beginning never change their
 * meaning. docs/reference/errors.md is generated from this table. */
#define ERROR_CODES(X)                                                                                       \
    X(ERR_RANGE, -1, "range", "RANGE", 422, 4, "a value is outside its bounds",                              \
      "Correct the value that the text names.")                                                              \
    X(ERR_NOMEM, -2, "no-memory", "OOM", 503, 5,                                                             \
      "memory could not be allocated, or a node of Redis has too little",                                    \
      "Give more memory to what the text names, or ask for less.")                                           \
    X(ERR_PARSE, -3, "parse", "PARSE", 400, 4, "text or bytes do not have the expected form",                \
      "Correct what was sent. If the text names data in Redis, they are damaged: rebuild the filter.")       \
    X(ERR_IO, -4, "io", "IO", 500, 5, "a file or a socket failed",                                           \
      "Look at the path or the address in the text: rights, space, another process.")                        \
    X(ERR_TIMEOUT, -5, "timeout", "TIMEOUT", 504, 6, "a deadline passed before the reply came",              \
      "Repeat it: checks and adds may be repeated. If it stays, look at `event=slow_request` in the log.")   \
    X(ERR_UNREACHABLE, -6, "unreachable", "CLUSTERDOWN", 503, 3, "Redis or Postgres could not be reached",   \
      "Look at `event=redis_down` in the log and at `twinbloom status`; repeat it when the server is back.") \
    X(ERR_CONFLICT, -7, "conflict", "CONFLICT", 409, 4,                                                      \
      "the state of the filter or its job does not allow this now",                                          \
      "Look at `twinbloom status FILTER`; the text says what must happen first.")                            \
    X(ERR_FENCED, -8, "view-changed", "TRYAGAIN", 503, 6, "the view of the filter changed meanwhile",        \
      "Repeat it.")                                                                                          \
    X(ERR_NOT_FOUND, -9, "not-found", "ERR not found", 404, 4, "the named thing does not exist",             \
      "Look at the name: `twinbloom status` lists the filters.")                                             \
    X(ERR_EXISTS, -10, "exists", "ERR item exists", 409, 4, "the named thing exists already",                \
      "Choose another name, or use what is there.")                                                          \
    X(ERR_LOST, -11, "lost", "LOST", 503, 5,                                                                 \
      "data in Redis were lost, truncated, or belong to something else",                                     \
      "Nothing for a filter with a source: it heals. Else load a backup, or create it again.")               \
    X(ERR_BUSY, -12, "busy", "BUSY", 409, 6, "another coordinator or job holds the mutex of the filter",     \
      "Wait until its job has ended, or abort that: `twinbloom status FILTER`, `twinbloom abort FILTER`.")   \
    X(ERR_CANCELLED, -13, "cancelled", "CANCELLED", 503, 6, "an operator or a shutdown stopped the work",    \
      "Repeat it if nobody meant to stop it.")                                                               \
    X(ERR_MUTEX_LOST, -14, "mutex-lost", "MUTEXLOST", 409, 6,                                                \
      "the mutex of the filter expired or was taken by another coordinator",                                 \
      "Nothing: another coordinator continues the job. If it repeats, look at the load, and at `lease`.")    \
    X(ERR_REFUSED, -15, "refused", "REFUSED", 503, 4,                                                        \
      "Redis, Postgres or the coordinator refused the request",                                              \
      "Grant the right, or change the setting, that the text names.")                                        \
    X(ERR_CONFIG, -16, "config", "CONFIG", 409, 4,                                                           \
      "the configuration, or the schema of the table, cannot be used",                                       \
      "Correct what the text names, then check it: `twinbloomd -c FILE --check-config`.")                    \
    X(ERR_FULL, -17, "full", "ERR non scaling filter is full", 409, 4,                                       \
      "the filter holds as many keys as it was made for, and does not grow",                                 \
      "Rebuild it larger: `twinbloom rebuild FILTER --capacity N`. Without a table make a larger one, and "  \
      "add the keys again.")                                                                                 \
    X(ERR_WRONG_TYPE, -18, "wrong-type", "WRONGTYPE", 409, 4,                                                \
      "a key in Redis has another type than the one expected",                                               \
      "Delete or rename the foreign key, or choose another `prefix`.")                                       \
    X(ERR_FORMAT, -19, "newer-format", "NEWERFORMAT", 503, 4,                                                \
      "a later version wrote the data, in a format that this version does not know",                         \
      "Upgrade this coordinator.")                                                                           \
    X(ERR_CHANGED, -20, "source-changed", "SOURCECHANGED", 409, 6,                                           \
      "the tables of the source changed during a job",                                                       \
      "Nothing: the job starts again. Look at the tables if it repeats.")                                    \
    X(ERR_ASIDE, -21, "takes-long", "TAKESLONG", 503, 6,                                                     \
      "the work takes long and continues on another thread", "Nothing: it is for the program alone.")

enum err {
    ERR_OK = 0,
#define X(code, value, ...) code = (value),
    ERROR_CODES(X)
#undef X
};

struct error_code {
    enum err code;
    const char *name, *reply;
    int http_status, exit_status;
    const char *meaning, *remedy;
};

/* All rows of the table, *@count of them. Static storage. */
const struct error_code *error_codes(size_t *count);
/* The row of @code; NULL for ERR_OK and for an unknown code. */
const struct error_code *error_code_of(enum err code);
/* The code that an error reply in RESP begins with, @text without its '-'. ERR_REFUSED: the beginning is
 * unknown. Pure. */
enum err error_of_reply(const char *text, size_t length);

/* Where a callee writes its text. The caller owns it, and passes NULL if it does not want the text. */
struct error {
    char text[512];
};

/* Write the text, cut at the size of @e->text, and return @code. */
enum err error_set(struct error *e, enum err code, const char *format, ...) PRINTF_LIKE(3, 4);

/* Put "prefix: " before the existing text and return @code: each boundary adds what it was doing. */
enum err error_prefix(struct error *e, enum err code, const char *format, ...) PRINTF_LIKE(3, 4);

/* The code's name, e.g. "timeout"; "ok" for 0. Static storage. */
const char *error_name(enum err code);
#endif
