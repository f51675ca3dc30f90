/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_STREAMS_H
#define TESTS_INTEGRATION_STREAMS_H
/* What tests of a stream share: a server with wal_level = logical, a stream of one table, and the rows that
 * came. */
#include "base/buffer.h"
#include "migrate/change/stream.h"
#include "tests/integration/database.h"

enum { STREAMS_PATIENCE_MS = 20000 };

/* CMocka group fixture; database_teardown() ends it. */
int streams_setup(void **state);

/* A stream whose slot and publication have the table's name, the id column "id"; change what a test needs. */
struct streams_table {
    const char *columns[STREAM_ID_COLUMNS_MAX];
    struct stream_table table;
    struct stream_options options;
};

void streams_options(struct streams_table *t, const struct temp_postgres *p, const char *table);

/* Open; it must succeed. */
struct stream *streams_open(const struct stream_options *options);

/* stream_open() must refuse with ERR_CONFIG and this text. */
void streams_refuse(const struct stream_options *options, const char *text);

/* Open, make the slot, start; all must succeed. */
struct stream *streams_begin(const struct stream_options *options);

/* Open and start on a slot that is there. While another connection has it, wait. */
struct stream *streams_resume(const struct stream_options *options);

/* A publication of that name for the table, as sql/publication.sql makes it. */
void streams_publish(PGconn *pg, const char *table);

/* A session, and in it a table (id int PRIMARY KEY, code text) with a publication of that name. */
PGconn *streams_table(const struct temp_postgres *p, const char *table);

/* stream_slot_drop() must say @wanted. */
void streams_drop(const struct temp_postgres *p, const char *slot, enum err wanted);

/* The ids that came, each with a newline behind it. */
struct seen {
    struct buffer ids;
    size_t rows;
    size_t batches;
    uint64_t mark;
};

/* Take all rows that are committed now; they are not confirmed. */
void streams_take(struct stream *s, const struct temp_postgres *p, struct seen *seen);

/* The same, and they must be exactly these, in the order of their commits. Confirms them. */
void streams_expect(struct stream *s, const struct temp_postgres *p, const char *ids);

/* A table with its publication, a session, and a stream from an empty slot. */
struct streams_world {
    const struct temp_postgres *p;
    PGconn *pg;
    struct streams_table t;
    struct stream *s;
};

/* @columns: as CREATE TABLE wants them. */
void streams_world_begin(struct streams_world *w, void **state, const char *table, const char *columns);
void streams_world_end(struct streams_world *w);

/* Where the server says that the slot is; its catalog is behind by up to a second. */
struct stream_slot streams_slot(const struct temp_postgres *p, const char *slot);

uint64_t streams_server_lsn(const struct temp_postgres *p);
#endif
