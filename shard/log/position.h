/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LOG_POSITION_H
#define SHARD_LOG_POSITION_H
/* How far a lane was applied: the id of the last entry, and its bytes, as after a failover the same id may
 * name another entry. Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/log/entry.h"

/* The id of an entry of a stream: milliseconds by the clock of Redis, and a number. */
struct log_id {
    uint64_t ms, number;
};

struct log_position {
    struct log_id id;
    uint32_t length;
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
};

/* An entry of a lane: its id, and its first bytes. Writer and sequence, which are in them, tell it from any
 * other. */
struct log_mark {
    struct log_id id;
    uint8_t head[LOG_ENTRY_BYTES_MIN];
};

enum {
    LOG_LANES_MAX = 16,
    LOG_ID_TEXT_MAX = 42 /* "18446744073709551615-18446744073709551615", NUL */
};

/* Below 0: @a is before @b; 0: they are equal; above 0: @a is behind @b. */
int log_id_compare(struct log_id a, struct log_id b);
/* Write "ms-number", NUL-terminated. Returns its length. */
size_t log_id_format(struct log_id id, char out[LOG_ID_TEXT_MAX]);
/* False: @text is no id. */
MUST_CHECK bool log_id_parse(struct log_id *out, const char *text, size_t length);

/* @length is at most LOG_ENTRY_BYTES_MAX. */
void log_position_set(struct log_position *p, struct log_id id, const void *bytes, size_t length);
/* True if the id and the bytes are those of @p. */
bool log_position_is(const struct log_position *p, struct log_id id, const void *bytes, size_t length);

/* The mark of the entry at @p. */
struct log_mark log_mark_of(const struct log_position *p);

/* Append "ms-number " and the bytes in hexadecimal digits. */
void log_position_format(const struct log_position *p, struct buffer *out);
/* ERR_PARSE: log_position_format() did not write @text, or its bytes are no entry. ERR_FORMAT: a later
 * version wrote the entry. On error *@out is undefined. */
MUST_CHECK enum err log_position_parse(struct log_position *out, const char *text, size_t length,
                                       struct error *e);
#endif
