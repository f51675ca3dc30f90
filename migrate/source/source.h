/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_SOURCE_H
#define MIGRATE_SOURCE_SOURCE_H
/* The Postgres tables that hold the truth: connection, names, checks, estimates. One connection, owned by one
 * thread; every wait has a deadline. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

enum {
    SOURCE_TABLES_MAX = 4096,
    SOURCE_ID_COLUMNS_MAX = 8,
    SOURCE_ID_MAX = 512,       /* bytes of an id as text, its terminator with it */
    SOURCE_ID_TEXT_MAX = 1100, /* of its columns, as `id_column` would name them */
};

/* Called about every 100 ms while Postgres is waited for. Any other code than ERR_OK ends the wait: the
 * statement is stopped, and the code and text are those of the call that waited. NULL: nothing is called. */
struct source_watch {
    enum err (*fn)(void *arg, struct error *e);
    void *arg;
};

/* Strings are borrowed from the configuration. */
struct source_config {
    const char *dsn;
    /* Names, comma separated, each may be schema-qualified and quoted as in SQL; with * or ? outside quotes
     * every table that it describes, of the schemas that it describes. All have the columns that follow. */
    const char *table;
    const char *id_column; /* unique, NOT NULL, ordered; several columns comma separated, each as the catalog
                              has it, or in quotes (which a comma needs); "": the primary key's, which all
                              tables must have in common */
    /* Column of the key, or an expression in SQL: text, varchar, char, bytea, uuid or an integer. What counts
     * as the key is its UTF-8 text (of char(n) without the blanks at the end, of uuid in small letters with
     * hyphens), of bytea the bytes. */
    const char *key;
    const char *where; /* SQL condition, or NULL / "" */
    const char
        *application; /* what Postgres shows of the connection; NULL: twinbloom. The dsn's goes first */
    struct source_watch watch;
};

struct source;
struct connection;

/* Connect and resolve names. @timeout_ms bounds connecting and each short statement. ERR_UNREACHABLE,
 * ERR_TIMEOUT. Only the connection is made; call source_check() before trusting the configuration. */
MUST_CHECK enum err source_open(struct source **out, const struct source_config *config, unsigned timeout_ms,
                                struct error *e);
/* Another connection to what @s has resolved, with a @watch and name of its own; @dsn "" or NULL: the same
 * server. ERR_CONFIG: @s was not resolved. */
MUST_CHECK enum err source_open_another(struct source **out, const struct source *s, const char *dsn,
                                        const char *application, struct source_watch watch, struct error *e);
void source_close(struct source *s);

/* Its connection, for functions over what is no table (migrate/change/stream.h). It stays the source's. */
struct connection *source_connection(const struct source *s);

/* ERR_CONFIG with the remedy: a table or a column does not exist, `where` is no condition, the id is
 * nullable, of a type without a safe order, or without a usable (valid, non-partial) unique index of its
 * columns, a page would be sorted, the key's type is not supported, SELECT is not granted, rows are hidden by
 * row-level security, a table has children by inheritance, the server is a standby. */
MUST_CHECK enum err source_check(struct source *s, struct error *e);
/* What works and may surprise, for people; "": nothing. */
MUST_CHECK enum err source_warning(struct source *s, char *out, size_t size, struct error *e);

/* Tables are numbered from 0 in the order of the configuration, those of a pattern by name. */
unsigned source_tables(const struct source *s);
const char *source_table(const struct source *s, unsigned table); /* as the server quotes it */
/* Of the names: the same list has the same. */
uint64_t source_tables_hash(const struct source *s);
/* Which tables the names stand for, and what their columns and partitions are; with @files what their rows
 * lie in, too. Another number: what was read by position before may have passed rows. Names are those that
 * were resolved when
 * @s was opened: open another to see whether they stand for others by now. ERR_CONFIG: a table is not there.
 * @newest: source_horizon() of a moment; partitions that were made after it do not count; "": all do. */
MUST_CHECK enum err source_identity(struct source *s, bool files, const char *newest, uint64_t *out,
                                    struct error *e);
/* The columns of the id, as the catalog has their names; returns how many. */
unsigned source_id_columns(const struct source *s, const char *names[SOURCE_ID_COLUMNS_MAX]);
/* The same as a text: as configured, or as found. */
const char *source_id_text(const struct source *s);
/* Which table rows of relation @relid are of: that table, or the one that it is a partition of; SIZE_MAX:
 * none of ours. */
MUST_CHECK enum err source_table_of(struct source *s, uint32_t relid, size_t *table, struct error *e);
/* How many of these transactions (ids as an array of SQL) have not ended as others see it, though the log may
 * tell of their commit already: their rows are not visible yet. */
MUST_CHECK enum err source_ending(struct source *s, const char *transactions, uint64_t *out, struct error *e);

/* How rows are known; of several tables: the last of these. */
enum source_rows_by {
    SOURCE_ROWS_COUNTED, /* exactly */
    SOURCE_ROWS_PLANNED, /* by the planner, from what ANALYZE saw */
    SOURCE_ROWS_GUESSED  /* the planner has no statistics: may be wrong by orders of magnitude */
};

struct source_rows {
    uint64_t rows;
    uint64_t margin; /* PLANNED: by so many they may well be wrong, as statistics are a sample, and old */
    enum source_rows_by by;
};

/* Rows of the tables with `where`, as near as can be had quickly: counted up to a few thousand, and where
 * nothing was analysed up to a million; else by the planner's estimate. */
MUST_CHECK enum err source_rows_look(struct source *s, struct source_rows *out, struct error *e);
/* The margin of an estimate of @rows out of a table of @all, @changed of which were written since ANALYZE:
 * what a share of its sample may be off by (4 standard errors), and all that was written. A wrong notion of
 * the condition itself, such as parts that are not independent, is not in it. Pure. */
uint64_t source_rows_margin(uint64_t rows, uint64_t all, uint64_t changed);
/* The number alone. */
MUST_CHECK enum err source_rows_estimate(struct source *s, uint64_t *out, struct error *e);
/* Of one table. */
MUST_CHECK enum err source_table_rows(struct source *s, unsigned table, uint64_t *out, struct error *e);

/* True where ids are integers, so that new rows have larger ids and catch-up by keyset means something. */
bool source_id_is_integer(const struct source *s);

/* A transaction id, as text: every transaction that gets its id after this call gets it or a later one; those
 * with earlier ids have ended or are open. */
enum { SOURCE_HORIZON_MAX = 24 };
MUST_CHECK enum err source_horizon(struct source *s, char out[SOURCE_HORIZON_MAX], struct error *e);

/* Where the server's WAL ends, as text; and whether @s, which may be its standby, shows all of it. */
enum { SOURCE_LSN_MAX = 24 };
MUST_CHECK enum err source_barrier(struct source *s, char out[SOURCE_LSN_MAX], struct error *e);
MUST_CHECK enum err source_has_replayed(struct source *s, const char *lsn, bool *out, struct error *e);

/* Why a key that was read from a table may not be in a generation. */
enum source_finding {
    SOURCE_ROW_OLD,    /* its row is there since before the horizon */
    SOURCE_ROW_NEW,    /* its row was written after it */
    SOURCE_ROW_GONE,   /* there is no such row any more */
    SOURCE_ROW_UNKNOWN /* it cannot be asked for: the key holds a NUL, or the search took too long */
};

/* Look for the row of @key, the oldest where there are several; @id (size 64) gets its id, "" where there is
 * none. Without an index on the key this reads the tables, up to the source's timeout each. ERR_UNREACHABLE,
 * ... */
MUST_CHECK enum err source_find_key(struct source *s, const char *key, size_t length, const char *horizon,
                                    enum source_finding *out, char id[64], struct error *e);

/* The largest id of a table now visible, in the form of scan.h; "" for an empty table. */
MUST_CHECK enum err source_last_id(struct source *s, unsigned table, char out[SOURCE_ID_MAX],
                                   struct error *e);

/* Up to @parts - 1 ids that cut a table into parts of about the same size, in order, *@count of them; fewer
 * where the table is small. */
MUST_CHECK enum err source_split(struct source *s, unsigned table, unsigned parts, char (*ids)[SOURCE_ID_MAX],
                                 unsigned *count, struct error *e);

/* What a table's rows lie in: itself, or its partitions. */
struct source_part {
    char name[288]; /* as the server quotes it */
    unsigned table;
    uint64_t blocks; /* 0 where the role may not read the partition itself: then it is the whole table */
    char file[16];   /* changes when it is written again; "" for a whole table of partitions */
};
/* Of all tables; the caller frees *@out. */
MUST_CHECK enum err source_parts(struct source *s, struct source_part **out, size_t *count, struct error *e);

/* How far the server's furthest standby is behind in replay, in seconds; 0 where none streams or all have
 * caught up; -1 where it is unknown, because the role is a member of neither pg_monitor nor
 * pg_read_all_stats. The figure may be as old as the standby's last report (wal_receiver_status_interval).
 * Uses the connection, as every call here: not while a page of a scan is under way on it. */
MUST_CHECK enum err source_replication_lag(struct source *s, double *seconds, struct error *e);

/* Transactions that the server's sessions have ended, of all databases and roles, since its statistics began.
 * It lags by a second or so. Uses the connection, too. */
MUST_CHECK enum err source_transactions(struct source *s, uint64_t *count, struct error *e);
#endif
