/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REPLICATION_H
#define SHARD_REPLICATION_H
/* What INFO replication says of a master's replicas, or of a replica; and how old a replica's data are. Pure.
 *
 * A master counts the bytes of its replication stream, a replica those that it has executed. Whoever asked
 * the master at some moment, and hears from a replica of the same lineage (lineage.h) that it has come to the
 * offset that the master gave then, knows that the replica has all that the master had done at that moment.
 * So one clock, our own, measures a replica's lag, and no reply tells how long it was under way. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/generation.h"

enum { REPLICAS_MAX = 16 /* of one master that are read from */ };

struct replica_address {
    char host[NODE_NAME_MAX];
    uint16_t port;
};

struct replication {
    bool master;
    uint64_t id;     /* the lineage of its data, of a replica too */
    uint64_t offset; /* of the last byte that it has sent, or executed */
    bool linked;     /* of a replica: it has its master, and all of a first copy */
    unsigned count;  /* of a master: its replicas that are in step */
    struct replica_address replica[REPLICAS_MAX];
};

/* From the section `replication` of INFO. Replicas whose address is malformed, and those beyond REPLICAS_MAX,
 * are left out. ERR_PARSE: it does not say who it is and how far it has come. */
MUST_CHECK enum err replication_parse(struct replication *out, const char *text, size_t length,
                                      struct error *e);

/* --- lag --- */

/* Offsets that a master gave, the oldest first to go. */
enum { REPLICATION_LOG = 192 };
struct replication_log {
    uint64_t id; /* of all of them; 0: there are none */
    unsigned first, count;
    struct {
        uint64_t asked_at; /* us; growing */
        uint64_t offset;
    } entry[REPLICATION_LOG];
};

/* A master answered what it was asked at @asked_at. One of another lineage than before begins anew, one that
 * is no master empties the log. */
void replication_log_add(struct replication_log *l, const struct replication *r, uint64_t asked_at);
/* The latest moment of which @r, which came from a replica, proves that the replica has all that the master
 * had done by then. 0: none: it is no replica of this master, has no link to it, or lags behind all that the
 * log has. */
uint64_t replication_log_fresh(const struct replication_log *l, const struct replication *r);
#endif
