/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_REPLICATION_H
#define SHARD_REDIS_WIRE_REPLICATION_H
/* Replication ids: each names one unbroken history of writes. A server draws a new id (master_replid of INFO
 * replication) when it starts, and when it is promoted. So under the same id no acknowledged write is
 * missing. Under another id some may be: single bits that a lagging replica never got, or that a file did not
 * have, which no tag shows. Here a replication id is a number: the first 16 of its 40 hexadecimal digits, all
 * of which are random. Pure; sync_client_replications() asks the servers.
 *
 * A server also draws a new id, with nothing lost, when its first replica attaches, and an hour
 * (repl-backlog-ttl) after its last replica left. Since Redis 7.0 a server counts the bytes that it received
 * from masters of its own; that count tells this case from a demotion: replication_goes_on(). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/info.h"
#include "shard/filter/generation.h"

enum { REPLICATIONS_MAX = 512 /* masters */, REPLICATION_ID_DIGITS = INFO_ID_DIGITS };

#define REPLICATION_UNCOUNTED UINT64_MAX

struct replication {
    uint64_t id;       /* 0: the server is no master, or did not answer */
    uint64_t run;      /* the server's process, by its run_id; 0: unknown */
    uint64_t received; /* bytes from masters of its own since the process began; REPLICATION_UNCOUNTED: it
                        * does not count them, or CONFIG RESETSTAT was called */
    bool has_slots;    /* false: a master of a cluster that has none */
    bool promoted;     /* its id continues that of a former master: master_replid2 is an id */
    char node[NODE_NAME_MAX];
};

/* The ids of several masters, in no order. Zero-initialised it is empty. */
struct replications {
    unsigned count, capacity;
    struct replication *one;
};

void replications_fini(struct replications *s);
/* Add a copy of *@one, unless its id (other than 0) is already there. ERR_NOMEM; ERR_RANGE: more than
 * REPLICATIONS_MAX. */
MUST_CHECK enum err replications_add(struct replications *s, const struct replication *one, struct error *e);
/* The first entry of that node; NULL: there is none. */
const struct replication *replications_of_node(const struct replications *s, const char *node);

/* The master with @id, not 0; NULL: there is none. */
const struct replication *replications_of_id(const struct replications *s, uint64_t id);

/* True if a master that was @was once and is @now still has all that it had acknowledged: the same process
 * has loaded nothing from another server since. Both come from sync_client_replications(). @was may be old:
 * the count of received bytes is not forgotten, as master_replid2 is after repl-backlog-ttl. Pure. */
bool replication_goes_on(const struct replication *was, const struct replication *now);

/* The replication ids that a view trusts. */
struct trusted {
    unsigned count;
    uint64_t id[REPLICATIONS_MAX];
};

/* Parse ids of 16 digits each, separated by blanks; "-" means none. */
MUST_CHECK bool trusted_parse(struct trusted *out, const char *text, size_t length);
/* @t NULL: it has none. */
bool trusted_contains(const struct trusted *t, uint64_t id);
/* Add @id in order, so that the same set of ids always has the same order. False: there are too many. */
MUST_CHECK bool trusted_add(struct trusted *t, uint64_t id);
/* A copy that has no more memory than its ids need, for free(): read it only. @t NULL, or no memory: NULL. */
struct trusted *trusted_copy(const struct trusted *t);

/* Parse INFO ALL, or the section `replication` alone. ERR_PARSE: it has no replication id. out->node is left
 * as it is. */
MUST_CHECK enum err replication_parse_info(struct replication *out, const char *text, size_t length,
                                           struct error *e);
#endif
