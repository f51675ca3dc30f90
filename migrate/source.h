/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_H
#define MIGRATE_SOURCE_H
/* A Postgres table that holds the truth: connection, checks, estimates. One connection, owned by one thread;
 * every wait has a deadline. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

/* Called about every 100 ms while Postgres is waited for. Any other code than ERR_OK ends the wait: the
 * statement is stopped, and the code and text are those of the call that waited. NULL: nothing is called. */
struct source_watch {
    enum err (*fn)(void *arg, struct error *e);
    void *arg;
};

/* Strings are borrowed from the configuration. */
struct source_config {
    const char *dsn;
    const char *table;     /* name, may be schema-qualified and quoted as in SQL */
    const char *id_column; /* unique, NOT NULL, ordered */
    /* Column of the key: text, varchar, char, bytea, uuid or an integer. What counts as the key is its UTF-8
     * text (of char(n) without the blanks at the end, of uuid in small letters with hyphens), of bytea the
     * bytes. */
    const char *key;
    const char *where; /* SQL condition, or NULL / "" */
    const char
        *application; /* what Postgres shows of the connection; NULL: twinbloom. The dsn's goes first */
    struct source_watch watch;
};

struct source;

/* Connect and resolve names. @timeout_ms bounds connecting and each short statement. ERR_UNREACHABLE,
 * ERR_TIMEOUT. Only the connection is made; call source_check() before trusting the configuration. */
MUST_CHECK enum err source_open(struct source **out, const struct source_config *config, unsigned timeout_ms,
                                struct error *e);
void source_close(struct source *s);

/* ERR_CONFIG with the remedy: the table or a column does not exist, `where` is no condition, the id column is
 * nullable, of a type without a safe order, or without a usable (valid, non-partial, single-column) unique
 * index, the key's type is not supported, SELECT is not granted, rows are hidden by row-level security, the
 * table has children by inheritance, the server is a standby. */
MUST_CHECK enum err source_check(struct source *s, struct error *e);

/* Rows by the planner's estimate for the table with `where`; exact below a few thousand. */
MUST_CHECK enum err source_rows_estimate(struct source *s, uint64_t *out, struct error *e);

/* True where the id column is an integer, so that new rows have larger ids and catch-up by keyset means
 * something. */
bool source_id_is_integer(const struct source *s);

/* A transaction id, as text: rows that carry it or a later one were written by transactions that got their id
 * after this call. */
MUST_CHECK enum err source_horizon(struct source *s, char out[24], struct error *e);

/* Why a key that was read from the table may not be in a generation. */
enum source_finding {
    SOURCE_ROW_OLD,    /* its row is there since before the horizon */
    SOURCE_ROW_NEW,    /* its row was written after it */
    SOURCE_ROW_GONE,   /* there is no such row any more */
    SOURCE_ROW_UNKNOWN /* it cannot be asked for: the key holds a NUL, or the search took too long */
};

/* Look for the row of @key; @id (size 64) gets its id, "" where there is none. Without an index on the key's
 * column this reads the table, up to the source's timeout. ERR_UNREACHABLE, ... */
MUST_CHECK enum err source_find_key(struct source *s, const char *key, size_t length, const char *horizon,
                                    enum source_finding *out, char id[64], struct error *e);

/* The largest id now visible, as text; "" for an empty table. @out_size at least 64. */
MUST_CHECK enum err source_max_id(struct source *s, char *out, size_t out_size, struct error *e);

/* How far the server's furthest standby is behind in replay, in seconds; 0 where none streams or all have
 * caught up; -1 where it is unknown, because the role is a member of neither pg_monitor nor
 * pg_read_all_stats. The figure may be as old as the standby's last report (wal_receiver_status_interval).
 * Uses the connection, as every call here: not while a page of a scan is under way on it. */
MUST_CHECK enum err source_replication_lag(struct source *s, double *seconds, struct error *e);
#endif
