/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_STREAM_H
#define MIGRATE_CHANGE_STREAM_H
/* Changed rows of Postgres tables, read from a logical replication slot (pgoutput, Postgres 15 or later): the
 * id of each row that a committed transaction inserted or updated, at least once. Deletes and truncates are
 * left out. The server stores the slot's position: changes that were not confirmed come again, to whoever
 * reads the slot next. One thread owns the stream, which has one connection; every wait has a deadline and
 * polls the watch.
 *
 *     stream_open, stream_create_slot (once in the life of a slot), stream_start,
 *     then stream_next and stream_confirm in turn, stream_close.
 *
 * Make the slot after its publication, and scan the table after making the slot. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "migrate/change/feed.h"
#include "migrate/change/lsn.h"
#include "migrate/change/stream_progress.h"
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

/* All pointers are borrowed until stream_close(). */
struct stream_options {
    const char *dsn;
    const char *application; /* NULL: twinbloom. One in the dsn takes precedence */
    const char *slot;        /* 1 to 63 of a-z, 0-9 and _ */
    const char *publication;
    unsigned timeout_ms;        /* for connecting, and for each statement */
    unsigned create_timeout_ms; /* how long stream_create_slot() waits for open transactions; 0: timeout_ms */
    struct source_watch watch;
    const struct stream_table *tables;
    size_t table_count;
};

struct stream;

/* Connect, and check server, publication and tables. ERR_CONFIG, with the remedy: the role may not replicate;
 * wal_level is not logical; the server is a standby or too old; a table or a column does not exist; the
 * publication does not exist, lacks a table, a column, inserts or updates, or has a row filter.
 * ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err stream_open(struct stream **out, const struct stream_options *options, struct error *e);

/* Make the slot if there is none; it delivers all changes from @lsn on. The server first waits for the
 * transactions that are open now. ERR_TIMEOUT: that took too long; no slot was made. ERR_CONFIG: the server
 * has no free slot, or the name belongs to another's slot. ERR_LOST: as for stream_start(). */
MUST_CHECK enum err stream_create_slot(struct stream *s, bool *created, char lsn[LSN_TEXT], struct error *e);

/* Begin to read. ERR_BUSY: another connection reads from the slot (a dead process's connection may do so for
 * up to wal_sender_timeout); call it again. ERR_NOT_FOUND: there is no such slot. ERR_LOST: the server
 * invalidated the slot and removed WAL that it still needed: drop the slot, make it again, and scan. */
MUST_CHECK enum err stream_start(struct stream *s, struct error *e);

/* Get up to STREAM_BATCH_ROWS rows; wait at most @timeout_ms for the first of them. Rows of a large
 * transaction are handed out while it is still being read; batch->mark covers whole transactions only. Rows
 * that came before an error are handed out first. An error is final, except that of the watch: confirm what
 * was taken over, close the stream and open it again. ERR_UNREACHABLE: the server or the connection is gone.
 * ERR_LOST: the server cannot tell what changed: the publication did not exist at that time, or its WAL is
 * gone; as for stream_start(). ERR_CONFIG: a row's id is NULL, or is not sent. ERR_PARSE: a message cannot be
 * decoded. */
MUST_CHECK enum err stream_next(struct stream *s, struct feed_batch *batch, unsigned timeout_ms,
                                struct error *e);

/* Confirm all rows up to @mark. They do not come again, unless the server or the connection ends before the
 * server is told. It is told at once if it has asked, else within a second of further calls, or by
 * stream_close(). ERR_RANGE: no batch had this mark. If the stream has failed, its error is returned, and
 * @mark counts all the same. */
MUST_CHECK enum err stream_confirm(struct stream *s, uint64_t mark, struct error *e);

/* Send a keepalive if one is due. Call it every few seconds while stream_next() is not called: the server
 * closes silent connections (wal_sender_timeout). */
MUST_CHECK enum err stream_tend(struct stream *s, struct error *e);

/* Wait until the rows of the last batch are visible to other sessions: the WAL has a commit before its rows
 * are visible. @source is a connection to the same server. ERR_TIMEOUT: not within @timeout_ms. Errors of
 * both connections. */
MUST_CHECK enum err stream_await_visible(struct stream *s, struct source *source, unsigned timeout_ms,
                                         struct error *e);

/* How far it is; it lives as long as the stream. */
const struct stream_progress *stream_position(const struct stream *s);

/* Which of options.tables the relation @relid belongs to; SIZE_MAX: none. */
size_t stream_table_of(const struct stream *s, uint32_t relid);

/* Tells the server what was confirmed, and waits at most a second until it has released the slot. */
void stream_close(struct stream *s);
/* The connection_server() of the server that it reads from. */
uint64_t stream_server(const struct stream *s);

/* Slots, over any connection to their server: source_connection(), or one of connection_open(). */

struct stream_slot {
    bool exists;
    bool active; /* a connection reads from it */
    bool lost;   /* the server has invalidated it */
    int active_pid;
    char plugin[64];
    char database[64];
    char wal_status[16]; /* reserved, extended, unreserved or lost */
    uint64_t restart_lsn;
    uint64_t confirmed_lsn;
    uint64_t retained; /* bytes of WAL that the server keeps for it */
    bool is_ours;      /* it uses pgoutput, in the connection's database */
};

MUST_CHECK enum err stream_slot_state(struct connection *c, const char *slot, struct stream_slot *out,
                                      struct error *e);

/* Identifies the server (whatever its address is) and the database of a connection: its slots lie there. */
enum { STREAM_PLACE_MAX = 96 };
MUST_CHECK enum err stream_slot_place(struct connection *c, char out[STREAM_PLACE_MAX], struct error *e);

/* Drop a slot; a missing slot is no error. ERR_BUSY: a stream reads from it. ERR_CONFIG: it is another's. */
MUST_CHECK enum err stream_slot_drop(struct connection *c, const char *slot, struct error *e);

/* All that is committed now ended before @lsn: once a stream's position is complete up to @lsn, these rows
 * were handed out. */
MUST_CHECK enum err stream_server_lsn(struct source *source, uint64_t *lsn, struct error *e);
#endif
