/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_SLOTS_H
#define SHARD_FILTER_SLOTS_H
/* The slots of a Redis Cluster: which slot a key has, which master holds it, and what a node says of that:
 * its CLUSTER SLOTS or CLUSTER SHARDS, and the errors MOVED and ASK. Pure; no I/O. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/error.h"
#include "shard/filter/generation.h"

enum {
    SLOTS = 16384,
    SLOT_NODES_MAX = 1024, /* of a map */
    SLOT_UNOWNED = UINT16_MAX
};

/* --- keys --- */

/* CRC16 (XMODEM) of @n more bytes behind those that gave @crc; 0 to begin. */
uint16_t slots_crc(uint16_t crc, const void *bytes, size_t n);
/* The slot of a key: of its hash tag, what stands between the first '{' and the first '}' after it, where
 * that is not empty; else of all of it. */
unsigned slots_of_key(const char *key, size_t length);
static inline unsigned slots_of_crc(uint16_t crc)
{
    return crc % SLOTS;
}

/* --- maps --- */

struct slot_node {
    char name[NODE_NAME_MAX]; /* host:port, or [v6]:port */
    char host[NODE_NAME_MAX];
    uint16_t port;
    bool replica;
    unsigned slots; /* that it holds */
};

/* Zero-initialised it is empty: slot_map_init() first where it is to be patched. */
struct slot_map {
    unsigned count;
    struct slot_node *node; /* masters, and replicas, which hold no slots */
    uint16_t owner[SLOTS];  /* index of the master, or SLOT_UNOWNED */
};

void slot_map_init(struct slot_map *m);
void slot_map_fini(struct slot_map *m);
/* ERR_NOMEM: *@out is empty. */
MUST_CHECK enum err slot_map_copy(struct slot_map *out, const struct slot_map *from, struct error *e);

/* A map from a reply. @asked_host is the host under which the node that answered is known: the answer leaves
 * out a host (null or empty) that is its own. Slots that nobody holds are SLOT_UNOWNED. @tls: of CLUSTER
 * SHARDS, take the ports for TLS (CLUSTER SLOTS chooses by the connection itself). CLUSTER SHARDS names
 * masters without slots too, but for those that have failed. A master whose host nobody knows ("?") is left
 * out. ERR_PARSE: not such a reply, or one with values out of bounds. ERR_REFUSED, ERR_UNREACHABLE: the reply
 * is an error, that stays or that passes. ERR_NOMEM. On error *@out is empty. */
MUST_CHECK enum err slot_map_parse_slots(struct slot_map *out, const redisReply *reply,
                                         const char *asked_host, struct error *e);
MUST_CHECK enum err slot_map_parse_shards(struct slot_map *out, const redisReply *reply,
                                          const char *asked_host, bool tls, struct error *e);

/* The index of the node with that host and port; m->count where there is none. */
unsigned slot_map_find(const struct slot_map *m, const char *host, uint16_t port);
/* Slots whose holders have other names in @b than in @a. */
unsigned slot_map_moved(const struct slot_map *a, const struct slot_map *b);
/* Masters; slots that somebody holds. */
unsigned slot_map_masters(const struct slot_map *m);
unsigned slot_map_covered(const struct slot_map *m);
/* Note that @slot is with the master at host and port, as MOVED says. ERR_NOMEM, ERR_RANGE (too many nodes):
 * nothing has changed, and the
 * next command is sent on as well. */
enum err slot_map_patch(struct slot_map *m, unsigned slot, const char *host, uint16_t port, struct error *e);

/* --- errors of a node --- */

struct slot_redirect {
    bool ask; /* for this once, with ASKING before it; else MOVED: from now on */
    unsigned slot;
    char host[NODE_NAME_MAX];
    uint16_t port;
};

/* "MOVED 3999 127.0.0.1:6381", "ASK 3999 [host]:6381". False: it is none of the two, or no node can be made
 * of it. */
bool slots_parse_redirect(struct slot_redirect *out, const char *text, size_t length, const char *asked_host);

/* An error that will pass: the cluster is down for a moment, a slot is on its way, a node is loading or has
 * no master. Nothing was executed, or a script began that is made to be run again (scripts/). */
bool slots_error_passes(const char *text);
/* Of these, one that a newer map may help against. */
bool slots_error_wants_map(const char *text);
#endif
