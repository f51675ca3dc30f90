/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_REPLICATION_H
#define SHARD_REDIS_WIRE_REPLICATION_H
/* Replication ids: which unbroken history of writes a connection talks to. A server draws a new replication
 * id (master_replid of INFO replication) when it starts and when it is promoted, so the same id means that
 * nothing that was acknowledged is missing; another one means that something may be: single bits that a
 * lagging replica never got, or that a file did not have, which no tag shows. The number of a replication id
 * is the first 16 of the id's 40 hexadecimal digits, all of them random. Pure; sync_client_replications.h
 * asks.
 *
 * A server also draws a new id, with nothing lost, when its first replica comes and an hour
 * (repl-backlog-ttl) after its last one went. Since Redis 7.0 its count of the bytes that it received from
 * masters of its own tells that from a demotion: replication_goes_on(). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/info.h"
#include "shard/filter/generation.h"

enum { REPLICATIONS_MAX = 512 /* masters */, REPLICATION_ID_DIGITS = INFO_ID_DIGITS };

#define REPLICATION_UNCOUNTED UINT64_MAX

struct replication {
    uint64_t id;       /* 0: none: it is no master, or did not answer */
    uint64_t run;      /* the server's process, by its run_id; 0: not asked for */
    uint64_t received; /* bytes from masters of its own since the process began; REPLICATION_UNCOUNTED: it
                          does not count them, or CONFIG RESETSTAT was called */
    bool promoted;     /* its id goes on from that of a master before: master_replid2 is one */
    char node[NODE_NAME_MAX];
};

/* What was found on several masters, in no order. Zero-initialised there is none. */
struct replications {
    unsigned count, capacity;
    struct replication *one;
};

void replications_fini(struct replications *s);
/* @one is copied; nothing is added where its id, if it has one, is there already. ERR_NOMEM; ERR_RANGE: more
 * than REPLICATIONS_MAX. */
MUST_CHECK enum err replications_add(struct replications *s, const struct replication *one, struct error *e);
/* The first one of that name; NULL: there is none. */
const struct replication *replications_of_node(const struct replications *s, const char *node);

/* Whether a master that was @was at one look, and is @now at the next, still has all that it had
 * acknowledged: the same process has loaded nothing from another server since. Both are from
 * sync_client_replications(). However long ago @was is: a count does not forget, as master_replid2 does when
 * repl-backlog-ttl is over. Pure. */
bool replication_goes_on(const struct replication *was, const struct replication *now);

/* What a view says of the replication ids that its filter trusts. A view without the field trusts all. */
struct trusted {
    bool known; /* the view has the field */
    unsigned count;
    uint64_t id[REPLICATIONS_MAX];
};

/* Ids of 16 digits each with a blank between; "-" where there are none. */
MUST_CHECK bool trusted_parse(struct trusted *out, const char *text, size_t length);
bool trusted_contains(const struct trusted *t, uint64_t id);
/* Masters are found in any order: whoever finds the same ones has the same ids in the same order, as long as
 * all are added by this. False: there are too many. */
MUST_CHECK bool trusted_add(struct trusted *t, uint64_t id);

/* From the text of INFO ALL, or of the section `replication` alone. ERR_PARSE: it does not say. The node's
 * name is left as it is. */
MUST_CHECK enum err replication_parse_info(struct replication *out, const char *text, size_t length,
                                           struct error *e);
#endif
