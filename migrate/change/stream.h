/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_STREAM_H
#define MIGRATE_CHANGE_STREAM_H
/* Rows that changed in Postgres tables, read from a logical replication slot (pgoutput, Postgres 15 or
 * later): each row that a committed transaction inserted or updated, at least once, by its id. Deletes and
 * truncates are left out. A slot keeps its place on the server: what was not confirmed comes again, to
 * whoever reads it next. One connection, owned by one thread; every wait has a deadline and polls the watch.
 *
 *     stream_open, stream_create_slot (once in the life of a slot), stream_start,
 *     then stream_next and stream_confirm in turn, stream_close.
 *
 * A slot must be made after its publication, and the table be scanned after the slot was made. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "migrate/change/feed.h"
#include "migrate/change/lsn.h"
#include "migrate/source/source.h"

enum {
    STREAM_ID_COLUMNS_MAX = 8,
    STREAM_BATCH_ROWS = 1000,
};

struct stream_table {
    const char *table; /* name, may be schema-qualified and quoted as in SQL */
    const char *const *id_columns;
    size_t id_count; /* 1 to STREAM_ID_COLUMNS_MAX */
};

/* Everything is borrowed until stream_close(). */
struct stream_options {
    const char *dsn;
    const char *application; /* NULL: twinbloom. The dsn's goes first */
    const char *slot;        /* 1 to 63 of a-z, 0-9 and _ */
    const char *publication;
    unsigned timeout_ms;        /* bounds connecting and each statement */
    unsigned create_timeout_ms; /* for stream_create_slot() to wait for open transactions; 0: timeout_ms */
    struct source_watch watch;
    const struct stream_table *tables;
    size_t table_count;
};

struct stream;

/* Connect, and see that server, publication and tables are what a stream needs. ERR_CONFIG with the remedy:
 * the role may not replicate, wal_level is not logical, the server is a standby or too old, a table or a
 * column does not exist, the publication does not exist, lacks a table, a column, inserts or updates, or has
 * a row filter. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err stream_open(struct stream **out, const struct stream_options *options, struct error *e);

/* Make the slot where there is none; from @lsn on nothing is left out. The server waits for the transactions
 * that are open now. ERR_TIMEOUT: for longer than allowed; nothing was made. ERR_CONFIG: all slots are in
 * use, or the name is that of another's slot. ERR_LOST: as stream_start(). */
MUST_CHECK enum err stream_create_slot(struct stream *s, bool *created, char lsn[LSN_TEXT], struct error *e);

/* Begin to read. ERR_BUSY: another connection reads from the slot (that of a process that died may do so for
 * up to wal_sender_timeout); call it again. ERR_NOT_FOUND: there is no such slot. ERR_LOST: the server has
 * given the slot up and removed what it had not read: drop it, make it again, and scan. */
MUST_CHECK enum err stream_start(struct stream *s, struct error *e);

/* What has come, up to STREAM_BATCH_ROWS rows; waits at most @timeout_ms for the first of them. Rows of a
 * large transaction are handed out while it is still read. batch->mark covers whole transactions only. Rows
 * that came before an error are handed out first. An error is final (after that of the watch the stream may
 * go on): confirm what was taken over, close the stream and open it again. ERR_UNREACHABLE: the server or the
 * connection is gone. ERR_LOST: the server cannot tell what changed: the publication did not exist at that
 * time, or its log is gone; as for stream_start(). ERR_CONFIG: a row's id is NULL, or is not sent. ERR_PARSE:
 * what came is not understood. */
MUST_CHECK enum err stream_next(struct stream *s, struct feed_batch *batch, unsigned timeout_ms,
                                struct error *e);

/* All rows up to @mark are taken over; they will not come again, unless the server or the connection ends
 * before it is told. It is told at once if it has asked, else within a second of further calls, or by
 * stream_close(). ERR_RANGE: no batch had such a mark. The error of a stream that has failed; @mark counts
 * all the same. */
MUST_CHECK enum err stream_confirm(struct stream *s, uint64_t mark, struct error *e);

/* Say that we are alive, where it is due. To be called every few seconds while stream_next() is not: the
 * server closes connections that it does not hear of (wal_sender_timeout). */
MUST_CHECK enum err stream_tend(struct stream *s, struct error *e);

/* Wait until the rows of the last batch are visible to others: the log tells of a commit before that. @source
 * is a connection to the same server. ERR_TIMEOUT: not within @timeout_ms. Errors of both connections. */
MUST_CHECK enum err stream_await_visible(struct stream *s, struct source *source, unsigned timeout_ms,
                                         struct error *e);

struct stream_position {
    uint64_t confirmed;    /* the slot's place, as far as we have moved it */
    uint64_t complete;     /* all rows of transactions that ended before it are handed out */
    uint64_t received;     /* the server's furthest position that was heard of */
    uint64_t committed_us; /* on the server's clock, since the Unix epoch: when the transaction of the last
                              row was committed; 0: there was none */
};

struct stream_position stream_position(const struct stream *s);

/* Which of options.tables the rows of that relid belong to; SIZE_MAX: none. */
size_t stream_table_of(const struct stream *s, uint32_t relid);

/* Tells the server what was confirmed, and waits a second at most until it has given the slot free. */
void stream_close(struct stream *s);

/* Slots, on any connection to their server: source_connection(), or one of connection_open(). */

struct stream_slot {
    bool exists;
    bool active; /* somebody reads from it */
    bool lost;   /* the server has given it up */
    int active_pid;
    char plugin[64];
    char database[64];
    char wal_status[16]; /* reserved, extended, unreserved or lost */
    uint64_t restart_lsn;
    uint64_t confirmed_lsn;
    uint64_t retained; /* bytes of the log that the server keeps for it */
    bool is_ours;      /* of pgoutput, in the connection's database */
};

MUST_CHECK enum err stream_slot_state(struct connection *c, const char *slot, struct stream_slot *out,
                                      struct error *e);

/* Where slots of that connection lie: the server, whatever its address is, and the database. */
enum { STREAM_PLACE_MAX = 96 };
MUST_CHECK enum err stream_slot_place(struct connection *c, char out[STREAM_PLACE_MAX], struct error *e);

/* No such slot is fine. ERR_BUSY: a stream reads from it. ERR_CONFIG: it is another's. */
MUST_CHECK enum err stream_slot_drop(struct connection *c, const char *slot, struct error *e);

/* What is committed now ended before @lsn: when a stream's position is complete up to it, its rows are handed
 * out. */
MUST_CHECK enum err stream_server_lsn(struct source *source, uint64_t *lsn, struct error *e);
#endif
