/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_PGOUTPUT_H
#define MIGRATE_CHANGE_PGOUTPUT_H
/* Messages of Postgres's output plugin pgoutput, protocol version 1. Pure: bytes in, a description out whose
 * pointers lead into the bytes; nothing is allocated. A decoded message was checked to its end: rows and
 * columns need no further bounds checks. Source: PostgreSQL documentation, "Logical Replication Message
 * Formats". */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"

enum { PGOUTPUT_EPOCH_S = 946684800 }; /* Unix time of 2000-01-01, Postgres' epoch */

enum pgoutput_kind {
    PGOUTPUT_BEGIN = 'B',
    PGOUTPUT_COMMIT = 'C',
    PGOUTPUT_RELATION = 'R',
    PGOUTPUT_INSERT = 'I',
    PGOUTPUT_UPDATE = 'U',
    PGOUTPUT_DELETE = 'D',
    PGOUTPUT_TRUNCATE = 'T',
    PGOUTPUT_ORIGIN = 'O',
    PGOUTPUT_TYPE = 'Y',
    PGOUTPUT_MESSAGE = 'M',
};

/* Describes a table. The server sends it before the table's first change, and again after an ALTER. A leaf of
 * a partitioned table comes under its own name, unless the publication has publish_via_partition_root. */
struct pgoutput_relation {
    uint32_t relid;
    const char *schema; /* "": pg_catalog */
    const char *name;
    char identity;         /* pg_class.relreplident */
    uint16_t column_count; /* published columns */
    const uint8_t *columns, *end;
};

enum pgoutput_value_kind {
    PGOUTPUT_NULL = 'n',
    PGOUTPUT_UNCHANGED = 'u', /* stored out of line and unchanged, so the value is not sent */
    PGOUTPUT_TEXT = 't',
    PGOUTPUT_BINARY = 'b',
};

struct pgoutput_value {
    enum pgoutput_value_kind kind;
    const char *bytes; /* not NUL-terminated */
    size_t length;
};

/* Columns in the order of the relation. */
struct pgoutput_row {
    uint16_t count;
    const uint8_t *values, *end;
};

struct pgoutput_change {
    uint32_t relid;
    char old_kind; /* 'K': the replica identity's columns, others NULL; 'O': all; 0: no old row */
    bool has_new;  /* false for a delete */
    struct pgoutput_row old_row;
    struct pgoutput_row new_row;
};

struct pgoutput_message {
    enum pgoutput_kind kind;
    union {
        struct {
            uint64_t commit_lsn; /* the beginning transaction's */
            uint64_t commit_us;  /* commit time on the server's clock, since the Unix epoch */
            uint32_t xid;
        } begin;
        struct {
            uint64_t commit_lsn;
            uint64_t end_lsn; /* end of the commit record: where to resume */
        } commit;
        struct pgoutput_relation relation;
        struct pgoutput_change change; /* insert, update, delete */
    };
};

/* ERR_PARSE: the bytes are not a message of this protocol, are cut, or go on behind its end. On error *@out
 * is undefined. */
MUST_CHECK enum err pgoutput_decode(struct pgoutput_message *out, const void *bytes, size_t length,
                                    struct error *e);

/* The position of a column in the relation's rows; false: the column is not published. */
bool pgoutput_find_column(const struct pgoutput_relation *r, const char *name, uint16_t *out);

/* The value of column @index, which must be below row->count. */
struct pgoutput_value pgoutput_value_at(const struct pgoutput_row *row, uint16_t index);

/* Append the id of the new row of an insert or update: the values of @columns in COPY's text form, separated
 * by tabs. A value that was not sent because it did not change comes from the old row. On error nothing is
 * appended. ERR_CONFIG: a value is NULL, or is missing in both rows. ERR_PARSE: the row lacks such a column,
 * or has it in binary form. ERR_NOMEM. */
MUST_CHECK enum err pgoutput_put_id(const struct pgoutput_change *change, const uint16_t *columns,
                                    size_t count, struct buffer *out, struct error *e);
#endif
