/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_STREAM_INTERNAL_H
#define MIGRATE_CHANGE_STREAM_INTERNAL_H
/* What the parts of a stream share. Private to this folder. */
#include "migrate/source/connection.h"
#include "migrate/change/pgoutput.h"
#include "migrate/change/stream.h"

/* A relation whose rows the stream may get. */
struct stream_relation {
    uint32_t relid;
    size_t table;   /* index in options.tables; SIZE_MAX: not one of ours */
    bool described; /* the server has sent its columns */
    uint16_t columns[STREAM_ID_COLUMNS_MAX];
};

struct stream {
    struct stream_options options;
    struct connection *connection;
    uint64_t server; /* as stream_server() */
    bool started;
    enum err failed; /* returned by every later stream_next() */
    struct error problem;
    uint32_t *oids;  /* oids of options.tables, in that order */
    void *relations; /* struct stream_relation, in a tree of tsearch(3) by relid */
    struct feed_row rows[STREAM_BATCH_ROWS];
    size_t row_count;
    struct buffer ids;
    uint32_t xid;                     /* the transaction that is being read */
    uint32_t xids[STREAM_BATCH_ROWS]; /* transactions with rows in the batch */
    size_t xid_count;
    uint64_t commit_us; /* of the transaction being read */
    struct stream_progress progress;
    uint64_t asked;       /* the server wants a report when this position is confirmed; 0: no */
    uint64_t told;        /* the confirmed position that it was last told */
    uint64_t told_at;     /* monotonic time, us */
    unsigned interval_ms; /* between two reports to the server */
};

/* Look up the oids of the tables, and the relations of their rows (stream_relations.c). @connection is of
 * either kind; this call sets up its session. */
MUST_CHECK enum err stream_resolve(struct stream *s, struct connection *connection, struct error *e);

/* Take a relation's description. An unknown relation is looked up in the database. */
MUST_CHECK enum err stream_describe(struct stream *s, const struct pgoutput_relation *r, struct error *e);

/* NULL: the server has not described it. */
const struct stream_relation *stream_find_relation(const struct stream *s, uint32_t relid);

/* Check server, role, publication (stream_check.c). */
MUST_CHECK enum err stream_check_server(struct stream *s, struct error *e);
MUST_CHECK enum err stream_check_publication(struct stream *s, struct error *e);

/* Explain why a replication connection failed: an error in the configuration, or @err unchanged. */
MUST_CHECK enum err stream_explain(const struct stream_options *options, enum err err, struct error *e);

MUST_CHECK enum err stream_refuse_lost(const char *slot, struct error *e);

/* Report the confirmed position to the server (stream_read.c). */
MUST_CHECK enum err stream_report(struct stream *s, struct error *e);
#endif
