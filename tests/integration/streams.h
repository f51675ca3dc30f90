/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_STREAMS_H
#define TESTS_INTEGRATION_STREAMS_H
/* Shared parts of the tests of a stream: a server with wal_level = logical, a stream of one table, and the
 * rows that came. */
#include "base/buffer.h"
#include "migrate/change/stream.h"
#include "tests/integration/database.h"

enum { STREAMS_PATIENCE_MS = 20000 };

/* CMocka group fixture; database_teardown() ends it. */
int streams_setup(void **state);

/* Options of a stream: slot and publication have the table's name, the id column is "id". A test may change
 * them. */
struct streams_table {
    const char *columns[STREAM_ID_COLUMNS_MAX];
    struct stream_table table;
    struct stream_options options;
};

void streams_options(struct streams_table *t, const struct temp_postgres *p, const char *table);

/* Open a stream; it must succeed. */
struct stream *streams_open(const struct stream_options *options);

/* stream_open() must refuse with ERR_CONFIG and this text. */
void streams_refuse(const struct stream_options *options, const char *text);

/* Open a stream, make its slot, and start; all must succeed. */
struct stream *streams_begin(const struct stream_options *options);

/* Open a stream and start on an existing slot. Wait while another connection has the slot. */
struct stream *streams_resume(const struct stream_options *options);

/* Make a publication with the table's name for the table, as sql/publication.sql does. */
void streams_publish(PGconn *pg, const char *table);

/* Open a session, and make a table (id int PRIMARY KEY, code text) with a publication of its name. */
PGconn *streams_table(const struct temp_postgres *p, const char *table);

/* stream_slot_drop() must return @wanted. */
void streams_drop(const struct temp_postgres *p, const char *slot, enum err wanted);

/* The ids that came, each followed by a newline. */
struct seen {
    struct buffer ids;
    size_t rows;
    size_t batches;
    uint64_t mark;
};

/* Take all rows that are committed now, without confirming them. */
void streams_take(struct stream *s, const struct temp_postgres *p, struct seen *seen);

/* Take all rows, which must be exactly these, in the order of their commits, and confirm them. */
void streams_expect(struct stream *s, const struct temp_postgres *p, const char *ids);

/* A table with its publication, a session, and a stream from an empty slot. */
struct streams_world {
    const struct temp_postgres *p;
    PGconn *pg;
    struct streams_table t;
    struct stream *s;
};

/* @columns: in the syntax of CREATE TABLE. */
void streams_world_begin(struct streams_world *w, void **state, const char *table, const char *columns);
void streams_world_end(struct streams_world *w);

/* The slot's position as the server reports it; the catalog lags by up to a second. */
struct stream_slot streams_slot(const struct temp_postgres *p, const char *slot);

uint64_t streams_server_lsn(const struct temp_postgres *p);
#endif
