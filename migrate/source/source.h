/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_SOURCE_H
#define MIGRATE_SOURCE_SOURCE_H
/* The Postgres tables that hold the keys: connection, names, checks, estimates. One connection, owned by one
 * thread; every wait has a deadline. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

enum {
    SOURCE_TABLES_MAX = 4096,
    SOURCE_ID_COLUMNS_MAX = 8,
    SOURCE_ID_MAX = 512,       /* bytes of an id as text, including the NUL */
    SOURCE_ID_TEXT_MAX = 1100, /* bytes of its column names, written as in `id_column` */
};

/* Called about every 100 ms during a wait for Postgres. Any code but ERR_OK ends the wait: the statement is
 * stopped, and the call that waited returns this code and text. NULL: nothing is called. */
struct source_watch {
    enum err (*fn)(void *arg, struct error *e);
    void *arg;
};

/* Strings are borrowed from the configuration. */
struct source_config {
    const char *dsn;
    /* Comma-separated names, each may be schema-qualified and quoted as in SQL. A name with * or ? outside
     * quotes stands for all matching tables of all matching schemas. All tables have the columns below. */
    const char *table;
    /* Unique, NOT NULL, ordered. Several columns are comma-separated, named as in the catalog, or quoted
     * (required for a name with a comma). "": the primary key, which must be the same in all tables. */
    const char *id_column;
    /* A column, or an SQL expression: text, varchar, char, bytea, uuid or an integer. The key is its UTF-8
     * text (char(n) without trailing blanks, uuid in lower case with hyphens), or the bytes of a bytea. */
    const char *key;
    const char *where; /* SQL condition; NULL or "": none */
    const char
        *application; /* application_name for Postgres; NULL: twinbloom. One in the dsn takes precedence */
    struct source_watch watch;
};

struct source;
struct connection;
struct buffer;

/* Connect and resolve names. @timeout_ms bounds connecting and each short statement. ERR_UNREACHABLE,
 * ERR_TIMEOUT. Names that cannot be resolved are no error here: call source_check() before trusting the
 * configuration. */
MUST_CHECK enum err source_open(struct source **out, const struct source_config *config, unsigned timeout_ms,
                                struct error *e);
/* Open another connection for the names that @s has resolved, with its own @watch and name; @dsn "" or NULL:
 * to the same server. ERR_CONFIG: @s is not resolved. */
MUST_CHECK enum err source_open_another(struct source **out, const struct source *s, const char *dsn,
                                        const char *application, struct source_watch watch, struct error *e);
void source_close(struct source *s);
/* Close the source that *@s is, if it is one; *@s is NULL then. */
static inline void source_drop(struct source **s)
{
    source_close(*s);
    *s = NULL;
}

/* Its connection, for functions that are not about a table (migrate/change/stream.h). The source owns it. */
struct connection *source_connection(const struct source *s);

/* ERR_CONFIG, with the remedy: a table or a column does not exist; `where` is not a condition; the id is
 * nullable, has a type without a safe order, or its columns have no usable (valid, non-partial) unique index;
 * a page would need a sort; the key's type is not supported; SELECT is not granted; row-level security hides
 * rows; a table has children by inheritance; the server is a standby. */
MUST_CHECK enum err source_check(struct source *s, struct error *e);
/* Warn people of a setup that works but may surprise; "": no warning. */
MUST_CHECK enum err source_warning(struct source *s, char *out, size_t size, struct error *e);

/* Tables are numbered from 0 in the order of the configuration; those of a pattern are ordered by name. */
unsigned source_tables(const struct source *s);
const char *source_table(const struct source *s, unsigned table); /* as the server quotes it */
/* True if `table` has a pattern: tables may come that it means, too. */
bool source_has_pattern(const struct source *s);
/* A hash of the names: the same list gives the same hash. */
uint64_t source_tables_hash(const struct source *s);
/* A hash of the key and the condition: which keys rows stand for. */
uint64_t source_keys_hash(const struct source *s);
/* A hash of the key and the condition, of which tables the names stand for, and of their columns and
 * partitions; with @files also of the files of their rows. If it changes, reading by position may have missed
 * rows. Names are those resolved when @s was opened: to see whether they stand for other tables now, open
 * another source. @newest: a source_horizon(); partitions made after it are not included; "": all are.
 * ERR_CONFIG: a table does not exist. */
MUST_CHECK enum err source_identity(struct source *s, bool files, const char *newest, uint64_t *out,
                                    struct error *e);
/* The history that rows and transaction ids belong to. A standby that takes over begins another one, as it
 * may lack transactions of the former primary. A copy of the storage has the same. */
struct source_history {
    uint64_t system;   /* the identifier of the storage, which all standbys have, too */
    uint64_t timeline; /* grows with each promotion; 0: the server is a standby */
    uint64_t hash;     /* of both, and of the database; 0: unknown */
};
MUST_CHECK enum err source_history(struct source *s, struct source_history *out, struct error *e);
/* A hash of the history and of the server that runs there: it changes with each start of the server, and
 * tells a copy of the storage, which has the same history, from the original while both run. */
MUST_CHECK enum err source_server(struct source *s, uint64_t *out, struct error *e);
/* The same for the server that a connection leads to. */
MUST_CHECK enum err connection_server(struct connection *c, uint64_t *out, struct error *e);
/* The id's columns, named as in the catalog; returns their number. */
unsigned source_id_columns(const struct source *s, const char *names[SOURCE_ID_COLUMNS_MAX]);
/* The id's columns as text: as configured, or as found. */
const char *source_id_text(const struct source *s);
/* Append one value of an id in the form of scan.h, in which backslash, tab, newline and the like are
 * escaped. */
void source_put_value(struct buffer *out, const char *bytes, size_t length);
/* The table that rows of relation @relid belong to: the relation itself, or the table that it is a partition
 * of; SIZE_MAX: none of the source. */
MUST_CHECK enum err source_table_of(struct source *s, uint32_t relid, size_t *table, struct error *e);
/* How many of these transactions (ids as an SQL array) have not ended for other sessions, though the WAL may
 * have their commits: their rows are not visible yet. */
MUST_CHECK enum err source_ending(struct source *s, const char *transactions, uint64_t *out, struct error *e);

/* How the number of rows is known; of several tables: the last of these applies. */
enum source_rows_by {
    SOURCE_ROWS_COUNTED, /* exactly */
    SOURCE_ROWS_PLANNED, /* by the planner, from statistics of ANALYZE */
    SOURCE_ROWS_GUESSED  /* by the planner without statistics: may be off by orders of magnitude */
};

struct source_rows {
    uint64_t rows;
    uint64_t margin; /* PLANNED: the likely error, as statistics are a sample and may be old */
    enum source_rows_by by;
};

/* The rows of the tables that match `where`, as precise as is quickly possible: counted up to a few thousand,
 * or up to a million in a table without statistics; otherwise the planner's estimate. */
MUST_CHECK enum err source_rows_look(struct source *s, struct source_rows *out, struct error *e);
/* The margin of an estimate of @rows in a table of @all rows, @changed of which were written since ANALYZE: 4
 * standard errors of the share in ANALYZE's sample, plus all changed rows. It does not cover the planner's
 * errors about the condition itself, such as dependent columns. Pure. */
uint64_t source_rows_margin(uint64_t rows, uint64_t all, uint64_t changed);
/* As source_rows_look(), the number only. */
MUST_CHECK enum err source_rows_estimate(struct source *s, uint64_t *out, struct error *e);
/* The rows of one table. */
MUST_CHECK enum err source_table_rows(struct source *s, unsigned table, uint64_t *out, struct error *e);

/* True if ids are integers, so that new rows have larger ids and catch-up by keyset makes sense. */
bool source_id_is_integer(const struct source *s);

/* A transaction id as text: every transaction that gets its id after this call gets this one or a later one;
 * those with earlier ids have ended or are open now. */
enum { SOURCE_HORIZON_MAX = 24 };
MUST_CHECK enum err source_horizon(struct source *s, char out[SOURCE_HORIZON_MAX], struct error *e);

enum { SOURCE_BARRIER_MAX = 128 };

/* Whether a server shows everything up to a barrier. */
struct source_replay {
    bool there;
    bool foreign;  /* neither the barrier's server nor a standby of it: replay does not help */
    char why[128]; /* why it is not there, for people; "": it is */
};

/* The end of the server's WAL, and which server it is, as text; and whether @s, which may be a standby, shows
 * everything up to there. */
MUST_CHECK enum err source_barrier(struct source *s, char out[SOURCE_BARRIER_MAX], struct error *e);
MUST_CHECK enum err source_has_replayed(struct source *s, const char *barrier, struct source_replay *out,
                                        struct error *e);

enum { SOURCE_SNAPSHOT_MAX = 64 };

/* One snapshot for the pages of several connections: @s takes it and names it as text. Others join it before
 * their first page, while @s is open. The server ends a connection that has a snapshot and rests for ten
 * minutes. ERR_TIMEOUT: @s leads to another server than the one that took the snapshot, or that one was
 * closed. */
MUST_CHECK enum err source_snapshot_take(struct source *s, char out[SOURCE_SNAPSHOT_MAX], struct error *e);
MUST_CHECK enum err source_snapshot_join(struct source *s, const char *snapshot, struct error *e);

/* Why a key that was read from a table may be missing in a generation. */
enum source_finding {
    SOURCE_ROW_OLD,    /* its row was written before the horizon */
    SOURCE_ROW_NEW,    /* its row was written after the horizon */
    SOURCE_ROW_GONE,   /* the row does not exist any more */
    SOURCE_ROW_UNKNOWN /* cannot tell: the key holds a NUL, or the search timed out */
};

/* Find the row of @key, the oldest if there are several; @id (size 64): its id, "": there is none. Without an
 * index on the key this reads whole tables, for at most the source's timeout each. ERR_UNREACHABLE, ... */
MUST_CHECK enum err source_find_key(struct source *s, const char *key, size_t length, const char *horizon,
                                    enum source_finding *out, char id[64], struct error *e);

/* The largest visible id of a table, in the form of scan.h; "": the table is empty. */
MUST_CHECK enum err source_last_id(struct source *s, unsigned table, char out[SOURCE_ID_MAX],
                                   struct error *e);

/* Up to @parts - 1 ids that cut a table into parts of similar size, in order, *@count of them; fewer for a
 * small table. */
MUST_CHECK enum err source_split(struct source *s, unsigned table, unsigned parts, char (*ids)[SOURCE_ID_MAX],
                                 unsigned *count, struct error *e);

/* A relation that may hold rows: a table, or one of its partitions. */
struct source_part {
    char name[288]; /* as the server quotes it */
    unsigned table;
    uint64_t blocks; /* of a whole partitioned table: 0 */
    /* It changes when the relation is rewritten. "": the part is a whole partitioned table, as the role may
     * not read the partitions themselves. */
    char file[16];
};
/* The parts of all tables, empty ones included: while source_identity() stays, the list has the same parts in
 * the same order, unless the role gets or loses rights. The caller frees *@out. ERR_TIMEOUT: a partition was
 * dropped meanwhile. */
MUST_CHECK enum err source_parts(struct source *s, struct source_part **out, size_t *count, struct error *e);

/* Replay lag of the server's furthest standby, in seconds; 0: there is no standby or all have caught up; -1:
 * unknown, as the role is in neither pg_monitor nor pg_read_all_stats. The figure is as old as the standby's
 * last report (wal_receiver_status_interval). Uses the connection, as every call here does: do not call it
 * during a page of a scan. */
MUST_CHECK enum err source_replication_lag(struct source *s, double *seconds, struct error *e);

/* Transactions that the server's sessions have ended, in all databases, since its statistics began. The
 * figure lags by about a second. Uses the connection, too. */
MUST_CHECK enum err source_transactions(struct source *s, uint64_t *count, struct error *e);
#endif
