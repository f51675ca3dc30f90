/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_STREAM_INTERNAL_H
#define MIGRATE_CHANGE_STREAM_INTERNAL_H
/* What the parts of a stream share. Private to this folder. */
#include "migrate/source/connection.h"
#include "migrate/change/pgoutput.h"
#include "migrate/change/stream.h"
#include "migrate/change/stream_progress.h"

/* A relation under which rows come; sorted by relid. */
struct stream_relation {
    uint32_t relid;
    size_t table;   /* of options.tables; SIZE_MAX: none of ours */
    bool described; /* the server has sent its columns */
    uint16_t columns[STREAM_ID_COLUMNS_MAX];
};

struct stream {
    struct stream_options options;
    struct connection *connection;
    bool started;
    enum err failed; /* what every later stream_next() says */
    struct error problem;
    uint32_t *oids; /* of options.tables */
    struct stream_relation *relations;
    size_t relation_count, relation_capacity;
    struct feed_row rows[STREAM_BATCH_ROWS];
    size_t row_count;
    struct buffer ids;
    uint32_t xid;                     /* of the transaction that is read */
    uint32_t xids[STREAM_BATCH_ROWS]; /* of those that have rows in the batch */
    size_t xid_count;
    uint64_t commit_us, committed_us; /* of the transaction that is read, of the last one with a row */
    struct stream_progress progress;
    uint64_t asked;       /* the server wants to hear when this position is confirmed; 0: it does not */
    uint64_t told;        /* what it was last told as confirmed */
    uint64_t told_at;     /* on the monotonic clock, in us */
    unsigned interval_ms; /* between two reports to the server */
};

/* Look up the oids of the tables, and the relations under which their rows come (stream_relations.c).
 * @connection is of either kind; its session is set up by this. */
MUST_CHECK enum err stream_resolve(struct stream *s, struct connection *connection, struct error *e);

/* Take a relation's description. One that is not known is looked for in the database. */
MUST_CHECK enum err stream_describe(struct stream *s, const struct pgoutput_relation *r, struct error *e);

/* NULL: the server has not told of it. */
const struct stream_relation *stream_find_relation(const struct stream *s, uint32_t relid);

/* Server, role, publication (stream_check.c). */
MUST_CHECK enum err stream_check_server(struct stream *s, struct error *e);
MUST_CHECK enum err stream_check_publication(struct stream *s, struct error *e);

/* A replication connection could not be made: the configuration's fault, if it is, or @err as it stands. */
MUST_CHECK enum err stream_explain(const struct stream_options *options, enum err err, struct error *e);

MUST_CHECK enum err stream_refuse_lost(const char *slot, struct error *e);

/* Tell the server where we are (stream_read.c). */
MUST_CHECK enum err stream_report(struct stream *s, struct error *e);

/* Results of one row. */
bool stream_is_true(const PGresult *r, const char *column);
const char *stream_field(const PGresult *r, const char *column);
#endif
