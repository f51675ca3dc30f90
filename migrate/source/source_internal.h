/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_SOURCE_INTERNAL_H
#define MIGRATE_SOURCE_SOURCE_INTERNAL_H
/* A source's fields for source*.c, scan and transaction_wait. Private to this folder. */
#include <stdatomic.h>
#include "base/buffer.h"
#include "migrate/source/connection.h"
#include "migrate/source/source.h"

enum { SOURCE_NAME_MAX = 288, SOURCE_BINDINGS_MAX = 10 };

/* A column, from the catalog. */
struct source_column {
    char name[144]; /* as the server quotes it */
    char type[64];  /* without domains; "": the column does not exist */
    bool not_null;
    bool may_select;
};

struct source_table {
    char oid[16];
    char name[SOURCE_NAME_MAX]; /* as the server quotes it */
    char schema[144];
    bool is_table;
    bool has_children;
    bool hides_rows;
    bool may_use_schema;
    bool may_see_versions; /* the role may read xmin and ctid */
    struct source_column id[SOURCE_ID_COLUMNS_MAX];
    struct source_column key; /* for an expression only its type is set */
    /* Pieces of SQL that use the table's alias t. */
    char *id_piece;
    char *descending_piece;
    char *key_piece;
};

struct pool;

struct source {
    struct connection *connection; /* NULL: the source rests, see pool.h */
    struct pool *pool;             /* the owner of the connection; NULL: the source */
    uint64_t epoch;                /* the pool's, of the connection with which the source was opened */
    struct source_config config;
    unsigned timeout_ms;
    char role[144];
    bool is_standby;
    bool in_snapshot; /* a transaction is open, see source_snapshot_take() */
    int version;      /* the server's, from libpq */
    unsigned id_columns;
    char id_column[SOURCE_ID_COLUMNS_MAX][64]; /* names, as in the catalog */
    char id_text[SOURCE_ID_TEXT_MAX];          /* columns of the id, as configured or as found */
    /* Resolved once, then only read: sources of source_open_another() share them. */
    atomic_uint *users;
    char *where_piece;
    unsigned table_count;
    struct source_table *tables;
    struct error problem; /* why the names could not be resolved */
    bool resolved;        /* false: only source_check() is useful; it reports what is wrong */
};

/* source_open() over @c: the source takes it, or it is closed with an error. NULL: open a connection. */
MUST_CHECK enum err source_open_over(struct source **out, struct connection *c,
                                     const struct source_config *config, unsigned timeout_ms,
                                     struct error *e);

/* Connect a source whose tables are known, and set up the session. */
MUST_CHECK enum err source_connect(struct source *s, struct error *e);

/* Return the connection to the pool, for source_close(). */
void pool_leave(struct source *s);

/* ERR_CONFIG: the configured names could not be resolved. */
MUST_CHECK enum err source_ready(const struct source *s, struct error *e);

/* @more (NULL: none), at most four bindings, and behind them those of a table. */
void source_bind(struct sql_binding out[SOURCE_BINDINGS_MAX], const struct source *s, unsigned table,
                 const struct sql_binding *more);
/* connection_run(), connection_read() and a count, with these bindings. */
MUST_CHECK enum err source_run(struct source *s, unsigned table, const char *name,
                               const struct sql_binding *more, PGresult **out, struct error *e);
MUST_CHECK enum err source_read(struct source *s, unsigned table, const char *name,
                                const struct sql_binding *more, char *out, size_t size, struct error *e);
MUST_CHECK enum err source_count(struct source *s, unsigned table, const char *name,
                                 const struct sql_binding *more, uint64_t *out, struct error *e);

/* Fill s->tables from the configuration, and set up the session. */
MUST_CHECK enum err source_resolve(struct source *s, struct error *e);
/* Set up the session of a source whose tables are known. */
MUST_CHECK enum err source_set_up(struct source *s, struct error *e);
void source_free_tables(struct source *s);

/* Append the columns of row @row as an id in the form of scan.h. */
void source_put_id(struct buffer *out, const PGresult *r, int row, unsigned columns);
/* Append an id as SQL values: 'a', 'b'. */
void source_put_literals(struct buffer *out, const char *id);
/* Append a condition such as (t.a, t.b) > ('1', '2'); @id "": true. */
void source_put_bound(struct buffer *out, const struct source_table *t, const char *operator,
                      const char * id);
#endif
